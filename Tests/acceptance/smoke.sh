#!/usr/bin/env bash
# A device's whole life against a real server, with curl: the device registers, subscribes, listens, receives, resumes and
# acknowledges. Then the server is killed and started again: acknowledged messages stay away, and the others come. At last the
# server gets SIGTERM and ends with 0.
. "$(dirname "$0")/common.sh"
base=$url/v1/projects/demo

field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
post() {
  curl -sf --max-time 10 -X POST "$url$1" -H 'Authorization: Bearer owner' -H 'access_token_auth: true' \
    -H 'Content-Type: application/json' -d "$2" || fail "POST $1 was refused"
}

# listen FILE [LAST_EVENT_ID]: opens a stream into FILE, and returns when the stream is open.
listen() {
  local header=()
  if [ $# -gt 1 ]; then header=(-H "Last-Event-ID: $2"); fi
  curl -sN "$base/registrations/$token:listen" -H "Authorization: Bearer $credential" "${header[@]}" > "$1" &
  listener=$!
  children=("$listener")
  for _ in $(seq 100); do
    if grep -q '^: listening' "$1"; then return; fi
    sleep 0.05
  done
  fail "the stream did not open: $(cat "$1")"
}
hang_up() {
  kill "$listener" 2> /dev/null || true
  wait "$listener" 2> /dev/null || true
  children=()
}

# names FILE: the names of a stream's messages, in order, in one line. event_id FILE NUMBER: the id of one of its events.
names() {
  python3 - "$1" <<'PYTHON'
import json, sys
lines = open(sys.argv[1]).read().rpartition("\n")[0].splitlines()
print(*[json.loads(line[6:])["data"]["name"] for line in lines if line.startswith("data: {\"messageId\"")])
PYTHON
}
event_id() { grep '^id: ' "$1" | sed -n "$2s/^id: //p"; }

# expect FILE NAMES: the stream must bring NAMES in this order, and nothing else so far. A wrong message that is late shows in the
# next stream's list, since both streams read the same log.
expect() {
  for _ in $(seq 200); do
    if [ "$(names "$1")" = "$2" ]; then return; fi
    sleep 0.05
  done
  fail "expected [$2], there came [$(names "$1")]"
}
send() { post /v1/projects/demo/messages:send "{\"message\": {$1, \"data\": {\"name\": \"$2\"}}}" > /dev/null; }
done_with() { echo "ok: $*"; }

start_server
answer=$(post /v1/projects/demo/registrations '{}')
token=$(field token <<< "$answer")
credential=$(field credential <<< "$answer")
done_with "registered"

answer=$(post /iid/v1:batchAdd "{\"to\": \"/topics/news\", \"registration_tokens\": [\"$token\", \"nonsense\"]}")
python3 - "$answer" <<'PYTHON' || fail "batchAdd answered $answer"
import json, sys
results = json.loads(sys.argv[1])["results"]
sys.exit(0 if len(results) == 2 and results[0] == {} and "error" in results[1] else 1)
PYTHON
done_with "subscribed; the token that is none was refused by itself"

listen "$work/first"
send '"topic": "news"' topic
expect "$work/first" topic
send "\"condition\": \"'news' in topics && !('muted' in topics)\"" condition
expect "$work/first" "topic condition"
send '"topic": "elsewhere"' elsewhere
send "\"condition\": \"'muted' in topics\"" muted
send "\"token\": \"$token\"" device
expect "$work/first" "topic condition device"
hang_up
done_with "a topic, a condition and one device reached it; what was not for it did not"

listen "$work/second" "$(event_id "$work/first" 1)"
expect "$work/second" "condition device"
hang_up
done_with "resumed after the first event"

post "/v1/projects/demo/registrations/$token:acknowledge?credential=$credential" \
  "{\"eventId\": \"$(event_id "$work/first" 2)\"}" > /dev/null
send "\"token\": \"$token\"" waiting
{ kill -9 "$server"; wait "$server" || true; } 2> /dev/null
start_server
listen "$work/third"
expect "$work/third" "device waiting"
send '"topic": "news"' after
expect "$work/third" "device waiting after"
done_with "killed and started again: the acknowledged stays away, the rest comes, the subscription holds"

[ "$(nghttp "$url/healthz")" = ok ] || fail "nghttp got $(nghttp "$url/healthz")"
echo '{"message":{"topic":"none"}}' > "$work/body"
nghttp -nv "$url/v1/projects/demo/messages:send" -H 'Authorization: Bearer owner' -d "$work/body" \
  | sed 's/\x1b\[[0-9;]*m//g' | contains ':status: 200' || fail "nghttp could not send"
done_with "nghttp gets answers over HTTP/2"

stop_server
wait "$listener" || true
children=()
done_with "asked to end, it ended with 0"
