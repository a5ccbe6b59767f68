#!/usr/bin/env bash
# The balancer of the compose files, with the text of deploy/balancer.cfg, before a server: each transport goes through, also from
# clients that write `:scheme: https` over HTTP/2; the server sees each client's own address, and believes nobody else's PROXY
# header; a reload and a restart of the balancer, a frozen server, and the end of the server.
. "$(dirname "$0")/common.sh"
command -v haproxy > /dev/null || skip "there is no haproxy"
python=$(python_of_tests)
"$unprivileged" "$tidecast" cert make --out "$work/edge" --name localhost fcm.googleapis.com > /dev/null
export WORK=$work PORT=$port BALANCER TLS HEALTH PROBE
taken=" $port "
for name in BALANCER TLS HEALTH PROBE; do
  one=$(free_port)
  while [[ "$taken" == *" $one "* ]]; do one=$(free_port); done
  taken+="$one "
  printf -v "$name" '%s' "$one"
done
start_server --listen-tls "127.0.0.1:$TLS" --cert "$work/edge/server.pem" --key "$work/edge/server.key" \
  --listen-metrics "127.0.0.1:$PROBE" --proxy 127.0.0.1 --address-registrations-per-minute 3
export SERVER=$server
# The first request makes a development server's project.
register > /dev/null
"$unprivileged" "$tidecast" project push serve demo --origin "https://localhost:$BALANCER" --data "$data" > /dev/null
"$python" "$here/balancer.py"
server=
