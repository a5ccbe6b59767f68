#!/usr/bin/env bash
# One project far past its quota, on connections that are never idle, and one project that behaves. The server must answer each
# request of the second project with 200, and by the server's own count none may wait for more than a few turns of its loop. At
# the end no request may wait, although the flood's connections were cut.
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
