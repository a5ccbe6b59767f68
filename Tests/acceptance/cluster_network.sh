#!/usr/bin/env bash
# The topology of deploy/compose.yaml in network namespaces. Three gateways and three shards on PostgreSQL come up and agree on
# the owners. A shard is cut off from everything while a client sends, and comes back by itself. No send may fail. Needs root.
. "$(dirname "$0")/common.sh"
needs_namespaces
export TIDECAST_CLUSTER=cut TIDECAST_NETWORK=10.80.0
cluster=$root/tools/cluster
state=$root/.build/cluster-cut
tidy_up() {
  if [ "$1" -ne 0 ]; then
    for service in shard-1 shard-2 gateway-1; do echo "--- $service"; "$cluster" log "$service" | tail -n 8 || true; done
  fi
  "$cluster" down || true
}

"$cluster" up > "$work/up"
grep -q '256 partitions, 0 without an owner' "$work/up" || fail "not all partitions are owned: $(cat "$work/up")"
tidecast() { "$cluster" exec gateway-1 tidecast "$@" --data /run/tidecast/data; }
tidecast project create demo --service-account "$work/account.json" > /dev/null
bearer=$(tidecast project key create demo --kind bearer --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["key"])')

# shellcheck disable=SC2046
python3 "$here/privileges.py" $(cat "$state"/{shard,gateway}-{1,2,3}.pid) > "$work/privileges" || fail "$(cat "$work/privileges")"

members() {
  { "$cluster" exec "$1" tidecast cluster status --json --data /run/tidecast/data || true; } |
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
import http.client, json, os, sys, time
host, token, over = sys.argv[1:4]
bad, count = [], 0
# Until the file `over` exists.
while not os.path.exists(over):
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
    if count % 60 == 0:
        print("one to each topic", flush=True)
    time.sleep(0.02)
print(f"{count} sends to 60 topics, {len(bad)} failed {bad[:3]}")
sys.exit(1 if bad else 0)
EOF
address=$(grep -o '^gateway-1: http://[0-9.]*' "$work/up" | grep -o '[0-9.]*$')
python3 "$work/send.py" "$address" "$bearer" "$work/over" > "$work/sends" 2>&1 &
sender=$!
children=("$sender")
until_true() {
  local what=$1 _
  shift
  for _ in $(seq 120); do
    if "$@"; then return; fi
    kill -0 "$sender" 2> /dev/null || fail "the sender ended: $(cat "$work/sends")"
    sleep 0.5
  done
  fail "$what: $("$cluster" status)"
}
rounds() { grep -c 'one to each topic' "$work/sends" || true; }
# The first of these rounds may have begun before.
two_rounds_since() { [ "$(rounds)" -ge $(($1 + 2)) ]; }
is_gone() { ! "$cluster" status | contains '^shard-1'; }
is_back() { "$cluster" status | contains -E '^shard-1 +alive +shard +[1-9]'; }
until_true "nothing is sent" two_rounds_since -1
# The second service of the file is shard-1, so its port at the switch is port1.
ip -n cut-switch link set port1 down
until_true "shard-1 is cut off and still a member" is_gone
until_true "a topic takes no messages without shard-1" two_rounds_since "$(rounds)"
ip -n cut-switch link set port1 up
until_true "shard-1 did not come back" is_back
until_true "a topic takes no messages after its return" two_rounds_since "$(rounds)"
touch "$work/over"
wait "$sender" || fail "$(cat "$work/sends")"
cat "$work/sends"
echo "cluster_network: ok"
