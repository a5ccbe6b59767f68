#!/usr/bin/env bash
# Flags override the environment, and the environment overrides the file. The server names each wrong setting. Log lines are JSON
# with a full date. The command line does not make a mistyped data folder.
. "$(dirname "$0")/common.sh"
a=$(free_port) b=$(free_port) c=$(free_port)
while [ "$b" = "$a" ]; do b=$(free_port); done
while [ "$c" = "$a" ] || [ "$c" = "$b" ]; do c=$(free_port); done
cat > "$work/settings.json" <<JSON
{"data": "$work/data", "listen": ["127.0.0.1:$a"], "dev": true, "loops": 1, "partitions": 8}
JSON

# serves PORT COMMAND…: the command must start a server that listens on PORT, and the server must end in order.
serves() {
  local port=$1
  shift
  "$@" 2> "$log" &
  server=$!
  wait_ready "http://127.0.0.1:$port" || fail "$* does not listen on $port"
  stop_server
}
serves "$a" "$unprivileged" "$tidecast" server --config "$work/settings.json"
serves "$a" env TIDECAST_CONFIG="$work/settings.json" "$unprivileged" "$tidecast" server
serves "$b" env TIDECAST_LISTEN="127.0.0.1:$b" "$unprivileged" "$tidecast" server --config "$work/settings.json"
serves "$c" env TIDECAST_LISTEN="127.0.0.1:$b" TIDECAST_LISTN=x TIDECAST_SERVICE_HOST=10.0.0.1 "$unprivileged" "$tidecast" server --config "$work/settings.json" \
  --listen "127.0.0.1:$c"
echo "ok: flags, then environment, then file"
grep -q '"variable":"TIDECAST_LISTN"' "$log" || fail "a misspelt variable is passed over: $(cat "$log")"
grep -q TIDECAST_SERVICE_HOST "$log" && fail "a variable of Kubernetes is taken for a setting"
echo "ok: misspelt variables are told"

python3 - "$log" <<'PYTHON'
import datetime, json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert lines, "no log"
for line in lines:
    assert {"time", "level", "message"} <= set(line), line
    when = datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00"))
    assert abs((datetime.datetime.now(datetime.timezone.utc) - when).total_seconds()) < 3600, line
PYTHON
echo "ok: log lines"

# refused TEXT COMMAND…: the command must fail, and TEXT must stand in its output.
refused() {
  local text=$1
  shift
  if "$@" > "$work/out" 2>&1; then fail "$* went through"; fi
  grep -qF -- "$text" "$work/out" || fail "$* said: $(cat "$work/out")"
}
echo '{"data": "x", "lisen": ["127.0.0.1:1"]}' > "$work/unknown.json"
refused 'lisen' "$unprivileged" "$tidecast" server --config "$work/unknown.json"
echo '{"data": "x", "loops": "many"}' > "$work/type.json"
refused 'loops' "$unprivileged" "$tidecast" server --config "$work/type.json"
echo '{"data": ' > "$work/broken.json"
refused 'not a JSON object' "$unprivileged" "$tidecast" server --config "$work/broken.json"
refused 'cannot be read: No such file' "$unprivileged" "$tidecast" server --config "$work/none.json"
refused 'TIDECAST_LOOPS' env TIDECAST_LOOPS=many "$unprivileged" "$tidecast" server --data "$work/data"
refused 'TIDECAST_DEV must be true or false' env TIDECAST_DEV=maybe "$unprivileged" "$tidecast" server --data "$work/data"
refused '--loops must be from 1 to 256, not 0' env TIDECAST_LOOPS=0 "$unprivileged" "$tidecast" server --data "$work/data"
refused '--connections must be at least 1, not 0' "$unprivileged" "$tidecast" config check --data "$work/data" --connections 0
refused 'HOST:PORT' "$unprivileged" "$tidecast" server --data "$work/data" --listen nowhere
refused 'loopback' "$unprivileged" "$tidecast" server --data "$work/data" --dev --listen 0.0.0.0:1
refused 'has no host' "$unprivileged" "$tidecast" server --data "$work/data" --listen :1
refused 'none.pem: no such file' "$unprivileged" "$tidecast" config check --data "$work/data" --listen-tls 127.0.0.1:1 \
  --cert "$work/none.pem" --key "$work/none.key"
refused 'needs --engine' "$unprivileged" "$tidecast" server --data "$work/data" --node a
TIDECAST_NODE=a refused '--node is for a node of a cluster' "$unprivileged" "$tidecast" server --data "$work/data"
refused 'postgres://' "$unprivileged" "$tidecast" server --engine mysql://x/y --node a --peer 127.0.0.1:1
refused 'trace, debug, info' env TIDECAST_LOG_LEVEL=loud "$unprivileged" "$tidecast" server --data "$work/data"
refused 'and their number never changes' "$unprivileged" "$tidecast" server --data "$work/data" --partitions 7
refused '127.0.0.1:1: Connection refused' "$unprivileged" "$tidecast" topic list --project demo --server http://127.0.0.1:1
refused 'the host name nobody.invalid is not known' "$unprivileged" "$tidecast" topic list --project demo --server http://nobody.invalid
refused 'nobody.invalid is no name that this machine knows' "$unprivileged" "$tidecast" server --data "$work/data" --listen nobody.invalid:1
refused '--sends-per-minute must be at least 0, not -5' "$unprivileged" "$tidecast" project quota demo --sends-per-minute -5 --data "$work/data"
refused ': --credential-file or TIDECAST_CREDENTIAL' "$unprivileged" "$tidecast" listen x --project demo --data "$work/data"
refused 'has no data' "$unprivileged" "$tidecast" topic list --project demo --data "$work/dta"
[ ! -e "$work/dta" ] || fail "a mistyped folder was made"
echo "ok: what is wrong is said"

"$tidecast" config list > "$work/settings.md"
sed -n '/^| flag | variable/,/^$/p' "$root/docs/configuration.md" | grep . | diff - "$work/settings.md" \
  || fail "docs/configuration.md: replace its table by the output of tidecast config list"
echo "ok: the page lists the settings as the server does"

# A web page that a developer opens must not reach a development server: neither by a host name of its own nor from its origin.
answers() {
  local wanted=$1 said
  shift
  said=$(curl -s -o "$work/page" -w '%{http_code}' -X POST "http://127.0.0.1:$a/v1/projects/demo/registrations" -d '{}' "$@")
  [ "$said" = "$wanted" ] || fail "$* was answered $said: $(cat "$work/page")"
}
"$unprivileged" "$tidecast" server --config "$work/settings.json" --dev-host app.test 2> "$log" &
server=$!
wait_ready "http://127.0.0.1:$a" || fail "the server with --dev-host does not listen"
refused 'does not speak TLS on this port' env TIDECAST_TOKEN=x "$unprivileged" "$tidecast" topic list --project demo --server "https://127.0.0.1:$a"
refused 'the server needs a token' "$unprivileged" "$tidecast" topic list --project demo --server "http://127.0.0.1:$a"
refused 'the server refused this token' env TIDECAST_TOKEN=x "$unprivileged" "$tidecast" topic list --project demo --server "http://127.0.0.1:$a"
"$unprivileged" "$tidecast" topic info nosuch --project demo --data "$work/data" | contains 'no device is subscribed to nosuch' || fail "a topic without members"
answers 200
answers 200 -H 'Origin: http://localhost:3000'
answers 200 -H 'Host: app.test:8787' -H 'Origin: https://app.test'
answers 403 -H 'Host: evil.example'
answers 403 -H 'Origin: https://evil.example'
answers 403 -X OPTIONS -H 'Origin: https://evil.example' -H 'Access-Control-Request-Method: POST'
grep -q -- '--dev-host' "$work/page" || fail "it does not say why: $(cat "$work/page")"
curl -s -o /dev/null "http://127.0.0.1:$a/v1/projects/made/registrations" -H 'Host: evil.example' -d '{}'
"$unprivileged" "$tidecast" project list --data "$work/data" > "$work/projects"
! grep -q made "$work/projects" || fail "a page made a project"
stop_server
echo "ok: pages of others do not reach a development server"
