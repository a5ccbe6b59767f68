#!/usr/bin/env bash
# The topology of deploy/compose.yaml in network namespaces: three gateways and three shards on PostgreSQL come up and agree; a
# shard is cut off from everything while messages are sent, and comes back by itself. No send may fail. Needs root.
. "$(dirname "$0")/common.sh"
if [ "$(id -u)" -ne 0 ]; then echo "skipped: namespaces need root"; exit 0; fi
cluster=$root/tools/cluster
tidy_up() {
  if [ "$1" -ne 0 ]; then
    for service in shard-1 shard-2 gateway-1; do echo "--- $service"; "$cluster" log "$service" | tail -n 8 || true; done
  fi
  "$cluster" down || true
}

"$cluster" up > "$work/up"
grep -q '256 partitions, 0 without an owner' "$work/up" || fail "not all partitions are owned: $(cat "$work/up")"
state=$root/.build/cluster
tidecast() { "$cluster" exec gateway-1 tidecast "$@" --data "$state/gateway-1"; }
tidecast project create demo --service-account "$work/account.json" > /dev/null
bearer=$(tidecast project key create demo --kind bearer --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["key"])')

members() {
  "$cluster" exec "$1" tidecast cluster status --json --data "$state/$1" |
    python3 -c 'import json, sys; view = json.load(sys.stdin); print(sorted((one["owner"], one["epoch"]) for one in view["partitions"]))'
}
# Some partitions may still be moving.
agreed=
for _ in $(seq 20); do
  one=$(members gateway-1) two=$(members gateway-2) three=$(members gateway-3)
  if [ "$one" = "$two" ] && [ "$one" = "$three" ]; then agreed=yes; break; fi
  sleep 0.5
done
[ -n "$agreed" ] || fail "the gateways do not agree on who owns what"

cat > "$work/send.py" <<'EOF'
import http.client, json, sys, time
host, token, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
end, bad, count = time.monotonic() + seconds, [], 0
while time.monotonic() < end:
    connection = http.client.HTTPConnection(host, 8787, timeout=30)
    connection.request("POST", "/v1/projects/demo/messages:send",
                       json.dumps({"message": {"topic": f"topic-{count % 60}", "data": {"n": str(count)}}}),
                       {"authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        bad.append((count, answer.status, body[:120]))
    connection.close()
    count += 1
    time.sleep(0.02)
print(f"{count} sends to 60 topics, {len(bad)} failed {bad[:3]}")
sys.exit(1 if bad or count < 100 else 0)
EOF
address=$(grep -o '^gateway-1: http://[0-9.]*' "$work/up" | grep -o '[0-9.]*$')
python3 "$work/send.py" "$address" "$bearer" 26 > "$work/sends" 2>&1 &
sender=$!
children=("$sender")
sleep 2
# The second service of the file is shard-1, so its port at the switch is port1.
ip -n tidecast-switch link set port1 down
sleep 9
"$cluster" status | grep -q '^shard-1' && fail "shard-1 is cut off and still a member"
ip -n tidecast-switch link set port1 up
wait $sender || fail "$(cat "$work/sends")"
cat "$work/sends"
for _ in $(seq 60); do
  if "$cluster" status | grep -Eq '^shard-1 +alive +shard +[1-9]'; then back=1; break; fi
  sleep 0.5
done
[ "${back:-}" = 1 ] || fail "shard-1 did not come back: $("$cluster" status)"
echo "cluster_network: ok"
