#!/usr/bin/env bash
# The rows of conformance.sh, where all clients reach the servers through the balancer of the compose files, with TLS:
# `behind_balancer.sh 12 36` runs only rows 12 and 36.
set -euo pipefail
command -v haproxy > /dev/null || { echo "skipped: there is no haproxy"; exit 77; }
BEHIND_BALANCER=1 exec "$(dirname "$0")/conformance.sh" "$@"
