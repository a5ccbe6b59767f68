# shellcheck shell=bash disable=SC2034
# The common beginning of the scripts in this folder: `. "$(dirname "$0")/common.sh"`. Not executable, so tools/test does not run
# it.
#
# `work` is a temporary folder. When the script ends, each process in `children` is killed and `work` is removed. `start_server`
# starts a development server at `url`, which logs to `log`; where the script fails, the last 20 lines of `log` are printed.
# Servers run under `"$unprivileged"`, and `work` belongs to the user to which that script switches. A script that cannot run on
# this machine ends with `skip`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
export TIDECAST=${TIDECAST:-$root/.build/debug/tidecast}
# The package `system`.
export PYTHONPATH=$root/Tests
# python_of_tests: the Python of a script that needs packages of PyPI.
. "$root/Tests/system/python.sh"
tidecast=$TIDECAST
unprivileged=$root/tools/unprivileged
# A server runs without privileges, and must be able to read the files that root writes for it.
umask 022
work=$("$unprivileged" mktemp -d)
data=$work/data
log=$work/log
server=
children=()

# A script that has more to undo defines a `tidy_up` of its own; the argument is the script's exit code.
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
# needs_namespaces: skips the script where this user may not make network namespaces.
needs_namespaces() {
  unshare --net --mount true 2> /dev/null || skip "this user may not make network namespaces, root may"
}
# COMMAND | contains [OPTION…] PATTERN: a `grep -q` that reads to the end. A plain `grep -q` stops at its first match and COMMAND
# may die of SIGPIPE; with pipefail the match then counts as a failure.
contains() {
  local text
  text=$(cat)
  [ -n "$text" ] && grep -q "$@" <<< "$text"
}
free_port() { python3 -m system.ports; }

# start_server [OPTION…]: a development server on $data; its process is $server.
start_server() {
  "$unprivileged" "$tidecast" server --dev --data "$data" --listen "127.0.0.1:$port" "$@" 2>> "$log" &
  server=$!
  wait_ready "$url" || fail "the server was not ready within 10 s"
}
# wait_ready URL: waits until the server is ready. Fails where its process has ended, and returns 1 after about 10 s.
wait_ready() {
  local _
  for _ in $(seq 200); do
    if curl -sf --max-time 2 "$1/readyz" > /dev/null; then return; fi
    kill -0 "$server" 2> /dev/null || fail "the server ended while it started"
    sleep 0.05
  done
  return 1
}
# stop_server: sends SIGTERM to the server, which must end with 0.
stop_server() {
  local code=0
  kill -TERM "$server"
  wait "$server" || code=$?
  server=
  [ "$code" -eq 0 ] || fail "after SIGTERM the server ended with $code"
}
# register: prints the answer to a registration. register_code: prints only its status.
register() { curl -s --max-time 20 -X POST "$url/v1/projects/demo/registrations" -d '{}' "$@"; }
register_code() { register -o /dev/null -w '%{http_code}'; }
device_count() {
  curl -s --max-time 20 "$url/v1/projects/demo/registrations?pageSize=1000" -H 'Authorization: Bearer owner' \
    | grep -o '"name"' | wc -l
}

port=$(free_port)
url=http://127.0.0.1:$port
