#!/usr/bin/env bash
# A gateway and two shards whose TCP is cut while UDP goes on. The gateway says in /readyz which nodes it cannot reach and why,
# `cluster status` shows the links that are down, the log stays short, and all nodes are ready again when the cut heals. After an
# orderly end, a node's log has no ERROR. Needs root for a network namespace.
#
#   Tests/acceptance/cluster_links.sh [BINARY]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" -ne 0 ]; then echo "skipped: a namespace needs root"; exit 77; fi
if ! command -v iptables > /dev/null; then echo "skipped: there is no iptables"; exit 77; fi
# shellcheck disable=SC2016 # The inner shell fills it in.
exec unshare --net sh -c 'ip link set lo up && exec python3 "$@"' sh "$here/cluster_links.py" \
  "${1:-${TIDECAST:-$here/../../.build/debug/tidecast}}"
