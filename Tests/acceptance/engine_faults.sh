#!/usr/bin/env bash
# Faults of the database under a real server: another process locks it, a second server starts on the same folder, a record is
# damaged, an fsync fails.
. "$(dirname "$0")/common.sh"
start_server
[ "$(register_code)" = 200 ] || fail "registering"

# While the database is locked, requests wait for the engine. Once the engine has refused a partition's records, the partition
# answers 503 to new requests. Everything goes on when the lock is gone.
python3 - "$data" "$work" <<'PYTHON' &
import os, sqlite3, sys, time
data, work = sys.argv[1:]
other = sqlite3.connect(f"{data}/tidecast.db", isolation_level=None, timeout=10)
other.execute("BEGIN IMMEDIATE")
open(f"{work}/locked", "w").close()
deadline = time.monotonic() + 60
while not os.path.exists(f"{work}/unlock") and time.monotonic() < deadline:
    time.sleep(0.02)
other.execute("ROLLBACK")
PYTHON
locker=$!
children+=("$locker")
while [ ! -e "$work/locked" ]; do
  kill -0 "$locker" 2> /dev/null || fail "the database was not locked"
  sleep 0.02
done
: > "$work/codes"
requests=()
# Each waits for its answer beside the others, because a request that the engine has not refused yet gets none.
for _ in $(seq 150); do
  if grep -q 503 "$work/codes"; then break; fi
  register -o /dev/null -w '%{http_code}\n' >> "$work/codes" &
  requests+=("$!")
  sleep 0.1
done
grep -q 503 "$work/codes" || fail "nothing was refused while the database was locked: $(sort "$work/codes" | uniq -c)"
touch "$work/unlock"
wait "$locker" || fail "the lock did not end in order"
children=()
for request in "${requests[@]}"; do wait "$request" || fail "a request got no answer"; done
! grep -qvE '^(200|503)$' "$work/codes" || fail "a locked database answered $(sort "$work/codes" | uniq -c)"
for _ in $(seq 100); do if [ "$(register_code)" = 200 ]; then break; fi; sleep 0.1; done
[ "$(register_code)" = 200 ] || fail "it did not go on after the lock"
kill -0 "$server" || fail "the server ended"
echo "ok: while the database is locked the server refuses, and it goes on after the lock: $(sort "$work/codes" | uniq -c | xargs)"

# A second server refuses to start.
code=0
timeout 10 "$unprivileged" "$tidecast" server --dev --data "$data" --listen 127.0.0.1:0 2> "$work/second" || code=$?
[ "$code" -eq 70 ] || fail "a second server was not refused: it ended with $code"
[ "$(register_code)" = 200 ] || fail "the first one suffered"
echo "ok: a second server on the folder refuses: $(head -c 120 "$work/second" | tr -d '\n')"

# A damaged record: the server quarantines its partition and serves the others.
stop_server
python3 - "$data" <<'PYTHON'
import sqlite3, sys
stored = sqlite3.connect(f"{sys.argv[1]}/tidecast.db")
stored.execute("UPDATE journal SET payload = zeroblob(length(payload)) WHERE partition = 3")
stored.commit()
stored.close()
PYTHON
chmod 0666 "$data"/tidecast.db*
start_server
registered=
for _ in $(seq 100); do if [ "$(register_code)" = 200 ]; then registered=yes; break; fi; done
[ -n "$registered" ] || fail "a damaged partition keeps the others from being served"
for _ in $(seq 150); do
  ready=$(curl -s --max-time 2 "$url/readyz")
  case $ready in *quarantined*) break ;; esac
  sleep 0.1
done
[[ $ready == "ready, but for quarantined partitions: 3 ("* ]] || fail "with a damaged partition it says: $ready"
[ "$(register_code)" = 200 ] || fail "registering beside a damaged partition"
echo "ok: a damaged partition is quarantined, and the others are served"
stop_server
rm -r "$data"
start_server
[ "$(register_code)" = 200 ] || fail "registering"

# An fsync that fails: the server acknowledges nothing more, ends with 70 and logs why. Nothing acknowledged may be lost.
command -v strace > /dev/null || fail "there is no strace: tools/install-packages test"
before=$(device_count)
strace -f -o /dev/null -e trace=fdatasync,fsync -e inject=fdatasync,fsync:error=EIO -p "$server" 2> "$work/strace" &
tracer=$!
children+=("$tracer")
is_traced() { ! grep -qs '^TracerPid:[[:space:]]*0$' /proc/"$server"/task/*/status; }
# The server may have met the error already, with a record that no request has caused.
has_ended() { ! grep -q '^State:[[:space:]]*[^ZX]' /proc/"$server"/status 2> /dev/null; }
# Up to a minute: strace attaches to one thread after the other, which is slow on a loaded machine.
for _ in $(seq 1200); do
  if is_traced || has_ended; then break; fi
  kill -0 "$tracer" 2> /dev/null || skip "strace may not attach to the server, so an fsync that fails was not tried"
  sleep 0.05
done
is_traced || has_ended || fail "strace did not attach to the server: $(cat "$work/strace"; grep -H Pid /proc/"$server"/task/*/status)"
answer=$(register_code) || true
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
grep -q '"stopping"' "$log" || fail "it does not say why"
kill "${children[0]}" 2> /dev/null || true
children=()
start_server
after=$(device_count)
[ "$after" -ge "$before" ] || fail "$before devices before, $after after"
[ "$(register_code)" = 200 ] || fail "it does not go on after the restart"
echo "ok: a failed fsync ends the server with 70; $before devices before, $after after"
