#!/usr/bin/env bash
# What Google's Admin SDKs send (Tests/conformance/recordings, taken from the wire) goes through the balancer of the compose files,
# over HTTP/2 and HTTP/1.1 with the recorded header blocks. Each answer is the recorded one, and the one without a balancer.
. "$(dirname "$0")/common.sh"
command -v haproxy > /dev/null || skip "there is no haproxy"
python=$(python_of_tests)
"$python" "$here/balancer_sdks.py" "$work" "$root/Tests/conformance/recordings"
