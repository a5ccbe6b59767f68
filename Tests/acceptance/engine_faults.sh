#!/usr/bin/env bash
# The database under a real server misbehaves: locked by somebody else, a second server on the same folder, an fsync that fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tidecast=${TIDECAST:-$here/../../.build/debug/tidecast}
work=$(mktemp -d)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
server=
others=()
finish() {
  for child in $server "${others[@]}"; do kill -9 "$child" 2> /dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT
fail() { echo "FAIL: $*"; tail -n 5 "$work/log"; exit 1; }
start() {
  "$tidecast" server --dev --data "$work/data" --listen "127.0.0.1:$port" 2>> "$work/log" &
  server=$!
  for _ in $(seq 200); do
    if curl -sf --max-time 2 "$url/readyz" > /dev/null; then return; fi
    sleep 0.05
  done
  fail "the server was not ready"
}
register() { curl -s --max-time 20 -X POST "$url/v1/projects/demo/registrations" -d '{}'; }
code() { curl -s -o /dev/null --max-time 20 -w '%{http_code}' -X POST "$url/v1/projects/demo/registrations" -d '{}'; }
devices() { curl -s --max-time 20 "$url/v1/projects/demo/registrations?pageSize=1000" -H 'Authorization: Bearer owner' | grep -o '"name"' | wc -l; }

start
[ "$(code)" = 200 ] || fail "registering"

# Locked: named, answered with 503, and over when the lock is.
python3 - "$work/data" <<'PYTHON' &
import glob, sqlite3, sys, time
path = next(one for one in glob.glob(sys.argv[1] + "/*") if open(one, "rb").read(15) == b"SQLite format 3") \
    if glob.glob(sys.argv[1] + "/*.db") == [] else glob.glob(sys.argv[1] + "/*.db")[0]
other = sqlite3.connect(path, isolation_level=None, timeout=10)
other.execute("BEGIN IMMEDIATE")
time.sleep(3)
other.execute("ROLLBACK")
PYTHON
others+=($!)
sleep 0.7
seen=
for _ in $(seq 20); do
  answer=$(code)
  case $answer in
    200) ;;
    503) seen=yes; break ;;
    *) fail "a locked database answered $answer" ;;
  esac
  sleep 0.1
done
[ -n "$seen" ] || echo "the lock was waited for, nothing was refused"
wait "${others[0]}" || true
others=()
for _ in $(seq 100); do if [ "$(code)" = 200 ]; then break; fi; sleep 0.1; done
[ "$(code)" = 200 ] || fail "it did not go on after the lock"
kill -0 "$server" || fail "the server ended"
echo "ok: a lock is waited for or refused, and it goes on after it"

# A second server refuses to start.
if timeout 10 "$tidecast" server --dev --data "$work/data" --listen 127.0.0.1:0 2> "$work/second"; then
  fail "a second server started"
fi
[ "$(code)" = 200 ] || fail "the first one suffered"
echo "ok: a second server on the folder refuses: $(head -c 120 "$work/second" | tr -d '\n')"

# An fsync that fails: nothing is acknowledged any more, the process ends by name, and nothing acknowledged is lost.
if ! command -v strace > /dev/null || ! strace -o /dev/null true 2> /dev/null; then
  echo "passed over: strace cannot be used here"
  exit 0
fi
before=$(devices)
strace -f -o /dev/null -e trace=fdatasync,fsync -e inject=fdatasync,fsync:error=EIO -p "$server" 2> /dev/null &
others+=($!)
sleep 0.5
answer=$(code) || true
[ "$answer" != 200 ] || fail "an operation was acknowledged without a sync"
ended=
for _ in $(seq 100); do
  if ! kill -0 "$server" 2> /dev/null; then ended=yes; break; fi
  sleep 0.1
done
[ -n "$ended" ] || fail "the server goes on after a failed fsync"
status=0
wait "$server" || status=$?
[ "$status" = 70 ] || fail "it ended with $status, not with 70"
grep -q '"stopping"' "$work/log" || fail "it does not say why"
kill "${others[0]}" 2> /dev/null || true
others=()
start
after=$(devices)
[ "$after" -ge "$before" ] || fail "$before devices before, $after after"
[ "$(code)" = 200 ] || fail "it does not go on after the restart"
echo "ok: a failed fsync ends the server with 70; $before devices before, $after after"
