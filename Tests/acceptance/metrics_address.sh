#!/usr/bin/env bash
# Who reads the metrics of a production server: this machine and the address of --listen-metrics, and nobody else on the clients' port.
# That address serves nothing else, also while a node waits for its database. Needs root for a network namespace, whose loopback
# interface has a public address as well.
if [ -z "${METRICS_SPACE:-}" ]; then
  . "$(dirname "$0")/common.sh"
  needs_namespaces
  rm -rf "$work"
  # shellcheck disable=SC2016 # The inner shell fills it in.
  METRICS_SPACE=1 exec unshare --net sh -c 'ip link set lo up && ip address add 192.0.2.1/32 dev lo && exec "$@"' sh "$0" "$@"
fi
. "$(dirname "$0")/common.sh"
metrics=$(free_port)
while [ "$metrics" = "$port" ]; do metrics=$(free_port); done

# answers STATUS URL [OPTION…]: the body goes to $work/answer.
answers() {
  local wanted=$1 path=$2 said
  shift 2
  said=$(curl -s -o "$work/answer" -w '%{http_code}' --max-time 20 "http://$path" "$@") || said=0
  [ "$said" = "$wanted" ] || fail "$path $* was answered $said: $(cat "$work/answer")"
}

"$unprivileged" "$tidecast" server --data "$data" --listen "0.0.0.0:$port" --listen-metrics "192.0.2.1:$metrics" 2>> "$log" &
server=$!
wait_ready "$url" || fail "the server was not ready within 10 s"
answers 404 "192.0.2.1:$port/nothing"
cp "$work/answer" "$work/unknown"
answers 404 "192.0.2.1:$port/metrics"
cmp "$work/answer" "$work/unknown" || fail "the answer shows that there are metrics"
answers 404 "192.0.2.1:$port/metrics" -H 'X-Forwarded-For: 127.0.0.1'
answers 404 "127.0.0.1:$port/metrics" -H 'X-Forwarded-For: 192.0.2.7'
for path in healthz readyz; do answers 200 "192.0.2.1:$port/$path"; done
answers 200 "127.0.0.1:$port/metrics"
echo "ok: the clients' port"

answers 200 "192.0.2.1:$metrics/metrics"
grep -q '^tidecast_requests_total{' "$work/answer" || fail "these are no metrics: $(head "$work/answer")"
answers 200 "192.0.2.1:$metrics/metrics" --http2-prior-knowledge
for path in healthz readyz; do answers 200 "192.0.2.1:$metrics/$path"; done
answers 405 "192.0.2.1:$metrics/metrics" -X POST
for path in admin/projects v1/projects/demo/topics token client/v1/messaging.js; do answers 404 "192.0.2.1:$metrics/$path"; done
answers 404 "192.0.2.1:$metrics/v1/projects/demo/messages:send" -d '{"message": {"topic": "a"}}'
grep -q "\"metrics\":\"$metrics\"" "$log" || fail "the log does not say where the metrics are"
stop_server
echo "ok: an address of its own"

# Nothing answers at the database's port.
TIDECAST_LISTEN_METRICS="192.0.2.1:$metrics" "$unprivileged" "$tidecast" server --engine postgres://nobody@127.0.0.1:1/none \
  --node one --peer "127.0.0.1:$(free_port)" --listen "127.0.0.1:$port" --data "$work/node" 2>> "$log" &
server=$!
for _ in $(seq 200); do
  if curl -s -o /dev/null --max-time 2 "http://192.0.2.1:$metrics/healthz"; then break; fi
  sleep 0.05
done
answers 200 "192.0.2.1:$metrics/healthz"
answers 503 "192.0.2.1:$metrics/readyz"
answers 200 "192.0.2.1:$metrics/metrics"
grep -qx 'tidecast_ready 0' "$work/answer" || fail "a node that waits shows other metrics: $(head "$work/answer")"
# A balancer that has not asked yet cannot connect, and takes another node.
said=0
curl -s -o /dev/null --max-time 2 "http://127.0.0.1:$port/healthz" || said=$?
[ "$said" -eq 7 ] || fail "the clients' port of a node that waits is open: curl ended with $said"
# A command must not take the node's folder for that of a stopped server, and make a project there that nobody serves.
for words in "project create ghost --service-account -" "project list"; do
  # shellcheck disable=SC2086 # Several words.
  if "$unprivileged" "$tidecast" $words --data "$work/node" > "$work/answer" 2>&1; then fail "$words: $(cat "$work/answer")"; fi
  grep -q 'takes no commands now' "$work/answer" || fail "$words: $(cat "$work/answer")"
done
[ ! -e "$work/node/tidecast.db" ] || fail "a command has made a database in a node's folder"
stop_server
echo "ok: while the node waits for its database"
if "$unprivileged" "$tidecast" project list --data "$work/node" > "$work/answer" 2>&1; then fail "an empty folder was opened"; fi
grep -q 'has no data' "$work/answer" || fail "an empty folder: $(cat "$work/answer")"
