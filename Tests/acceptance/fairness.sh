#!/usr/bin/env bash
# One project far past its quota, on connections that are never idle, beside one that behaves: every request of the second is
# answered 200, and by the server's own count none waited for more than a few turns of its loop. Nothing waits at the end, also
# where the flood's connections are cut.
. "$(dirname "$0")/common.sh"
start_server --loops 2
for project in flood calm; do
  "$unprivileged" "$tidecast" project create "$project" --data "$data" --service-account "$work/$project.json" > /dev/null
  "$unprivileged" "$tidecast" project key create "$project" --kind bearer --data "$data" > "$work/$project.key"
done
"$unprivileged" "$tidecast" project quota flood --sends-per-minute 60 --data "$data" > /dev/null
timeout 240 python3 "$here/fairness.py" "$port" "$work"
kill -0 "$server" || fail "the server has ended"
stop_server
