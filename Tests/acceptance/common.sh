# shellcheck shell=bash disable=SC2034
# What the scripts beside this one begin with: `. "$(dirname "$0")/common.sh"`. Not executable, so that tools/test passes it over.
#
# `work` is a folder that goes with the script, and every process in `children` is killed at its end. With `start_server` a
# development server listens at `url`; its words are in `log`, whose end is shown when the script fails. Servers run under
# `"$unprivileged"`; `work` belongs to the user that this makes of them. A script that cannot run here ends with `skip`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
export TIDECAST=${TIDECAST:-$root/.build/debug/tidecast}
tidecast=$TIDECAST
unprivileged=$root/tools/unprivileged
# What root writes for a server, the server has to be able to read.
umask 022
work=$("$unprivileged" mktemp -d)
data=$work/data
log=$work/log
server=
children=()

# What else a script has to undo, it says in a function of this name of its own; it gets the code with which the script ends.
tidy_up() { :; }
finish() {
  local code=$? child
  for child in $server "${children[@]}"; do { kill -9 "$child" && wait "$child"; } 2> /dev/null || true; done
  if [ "$code" -ne 0 ] && [ "$code" -ne 77 ] && [ -f "$log" ]; then echo "The server's log:"; tail -n 20 "$log"; fi
  tidy_up "$code"
  rm -rf "$work"
}
trap finish EXIT

fail() { echo "FAIL: $*"; exit 1; }
# skip REASON: tools/test counts a script that ends with 77 as skipped.
skip() { echo "skipped: $*"; exit 77; }
# needs_namespaces: for scripts that make network namespaces.
needs_namespaces() {
  unshare --net --mount true 2> /dev/null || skip "this user may not make network namespaces, root may"
}
# COMMAND | contains [OPTION…] PATTERN: `grep -q` that reads to the end. One that stops at its first match ends the command by SIGPIPE,
# and with pipefail the match then counts as none.
contains() {
  local text
  text=$(cat)
  [ -n "$text" ] && grep -q "$@" <<< "$text"
}
free_port() { python3 "$here/ports.py"; }

# start_server [OPTION…]: a development server on $data; its process is $server.
start_server() {
  "$unprivileged" "$tidecast" server --dev --data "$data" --listen "127.0.0.1:$port" "$@" 2>> "$log" &
  server=$!
  wait_ready "$url" || fail "the server was not ready within 10 s"
}
# wait_ready URL: until it is, or its process has ended, or 10 s are over.
wait_ready() {
  local _
  for _ in $(seq 200); do
    if curl -sf --max-time 2 "$1/readyz" > /dev/null; then return; fi
    kill -0 "$server" 2> /dev/null || fail "the server ended while it started"
    sleep 0.05
  done
  return 1
}
# stop_server: it is asked to end, and must end with 0.
stop_server() {
  local code=0
  kill -TERM "$server"
  wait "$server" || code=$?
  server=
  [ "$code" -eq 0 ] || fail "after SIGTERM the server ended with $code"
}
# register: a device, or why there is none. register_code: only the status.
register() { curl -s --max-time 20 -X POST "$url/v1/projects/demo/registrations" -d '{}' "$@"; }
register_code() { register -o /dev/null -w '%{http_code}'; }
device_count() {
  curl -s --max-time 20 "$url/v1/projects/demo/registrations?pageSize=1000" -H 'Authorization: Bearer owner' \
    | grep -o '"name"' | wc -l
}

port=$(free_port)
url=http://127.0.0.1:$port
