#!/usr/bin/env bash
# Two nodes whose TCP is cut while UDP and the database go on: each partition has an owner, and outboxes from one node to the other
# stand still. The metric, the log, `cluster status` and `cluster check` say so at both nodes, and no more when the cut has healed.
# Needs root for a network namespace.
#
#   Tests/acceptance/cluster_stall.sh [BINARY]
. "$(dirname "$0")/common.sh"
if [ "$(id -u)" -ne 0 ]; then skip "a namespace needs root"; fi
if ! command -v iptables > /dev/null; then skip "there is no iptables"; fi
# shellcheck disable=SC2016 # The inner shell fills it in.
TIDECAST=${1:-$tidecast} unshare --net sh -c 'ip link set lo up && exec python3 "$1"' sh "$here/cluster_stall.py"
