#!/usr/bin/env bash
# A gateway and two shards whose TCP is cut while UDP goes on. The gateway says in /readyz which nodes it cannot reach and why,
# `cluster status` shows the links that are down, the log stays short, and all nodes are ready again when the cut heals. After an
# orderly end, a node's log has no ERROR. Needs root for a network namespace.
#
#   Tests/acceptance/cluster_links.sh [BINARY]
. "$(dirname "$0")/common.sh"
if [ "$(id -u)" -ne 0 ]; then skip "a namespace needs root"; fi
if ! command -v iptables > /dev/null; then skip "there is no iptables"; fi
# shellcheck disable=SC2016 # The inner shell fills it in.
TIDECAST=${1:-$tidecast} unshare --net sh -c 'ip link set lo up && exec python3 "$1"' sh "$here/cluster_links.py"
