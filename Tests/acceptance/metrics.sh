#!/usr/bin/env bash
# A scrape of a server that has accepted and refused sends, and has dropped messages of an absent device: metrics, types and
# values. And the server must use the allocator it is linked with.
. "$(dirname "$0")/common.sh"
start_server
for _ in 1 2 3; do
  curl -sf "$url/v1/projects/demo/messages:send" -H 'Authorization: Bearer owner' -d '{"message":{"topic":"a"}}' > /dev/null
done
# One more than a hundred for an absent device drops the hundred; the next 49 wait as well.
token=$(register | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
for n in $(seq 150); do
  echo "{\"message\":{\"token\":\"$token\",\"data\":{\"n\":\"$n\"}}}"
done > "$work/messages"
xargs -d '\n' -n 1 curl -sf -o /dev/null "$url/v1/projects/demo/messages:send" -H 'Authorization: Bearer owner' -d \
  < "$work/messages"
curl -s -o /dev/null "$url/v1/projects/demo/messages:send" -H 'Authorization: Bearer nobody' -d '{"message":{"topic":"a"}}'
curl -s -o /dev/null "$url/v1/projects/demo/nothing"
waiting=$(curl -sf "$url/v1/projects/demo/registrations?pageSize=10" -H 'Authorization: Bearer owner' \
  | grep -o '"waitingCount":"\?[0-9]*' | grep -o '[0-9]*$')
[ "$waiting" = 50 ] || fail "$waiting messages wait, not 50"
curl -sf "$url/metrics" > "$work/metrics"
"$tidecast" config metrics > "$work/metrics.md"
sed -n '/^| metric | type/,$p' "$root/docs/metrics.md" | diff - "$work/metrics.md" \
  || fail "docs/metrics.md: replace its table by the output of tidecast config metrics"
python3 - "$work/metrics" "$work/metrics.md" <<'PYTHON'
import re, sys
values, types = {}, {}
for line in open(sys.argv[1]):
    line = line.rstrip("\n")
    if line.startswith("# TYPE"):
        _, _, name, kind = line.split(" ")
        types[name] = kind
    elif not line.startswith("#"):
        match = re.fullmatch(r'([a-z_]+)(\{[^}]*\})? (\S+)', line)
        assert match, line
        values[match[1] + (match[2] or "")] = float(match[3])
# The page and a scrape have the same metrics, but those of a cluster and those of certificates.
listed = {match[1]: (match[2], set(re.findall("`(.*?)`", match[3])), match[4]) for match in re.finditer(
    r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.*) \|$", open(sys.argv[2]).read(), re.MULTILINE)}
assert types == {name: kind for name, (kind, _, meaning) in listed.items()
                 if not meaning.startswith("In a cluster: ") and "_tls_" not in name}, types
for key in values:
    name = re.sub("_(bucket|sum|count)$", "", key.split("{")[0])
    name = name if name in types else key.split("{")[0]
    assert set(re.findall(r'(\w+)="', key)) - {"le"} == listed[name][1], key
assert values["tidecast_sends_accepted_total"] == 153, values
requests = {key.split('"')[1]: value for key, value in values.items() if key.startswith("tidecast_requests_total{")}
assert requests["200"] >= 155 and requests["401"] == 1 and requests["404"] == 1 and len(requests) < 32, requests
assert values["tidecast_operation_seconds_count"] >= 156, "refused requests are in the histogram"
dropped = {key.split('"')[1]: value for key, value in values.items() if key.startswith("tidecast_messages_dropped_total{")}
assert dropped.pop("waiting_max") == 100 and not any(dropped.values()), dropped
assert values["tidecast_ready"] == 1 and values["tidecast_connections"] >= 1
assert values["tidecast_partitions"] == 32 and values["tidecast_streams"] == 0
assert values["tidecast_resident_bytes"] > 1e6
# This is close to 0 unless the memory of the standard library and of SQLite comes from jemalloc.
assert values["tidecast_allocated_bytes"] > 1e6, values["tidecast_allocated_bytes"]
for name in ("tidecast_operation_seconds", "tidecast_journal_commit_seconds", "tidecast_journal_batch_rows"):
    assert types[name] == "histogram", name
    buckets = [value for key, value in values.items() if key.startswith(name + "_bucket")]
    assert buckets == sorted(buckets) and buckets[-1] == values[name + "_count"] > 0, (name, buckets)
assert values['tidecast_deliveries_total{outcome="written"}'] == 0
PYTHON
grep -q jemalloc "/proc/$server/maps" || fail "jemalloc is not mapped"
echo "ok: metrics, and the allocator in use"
