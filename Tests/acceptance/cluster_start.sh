#!/usr/bin/env bash
# Nodes that cannot join a cluster: no database yet, a name or a port in use, another number of partitions, another authority's
# certificate, another cluster's seed. Also a folder without an admin socket, and garbage at the gossip port. The node must log
# one sentence for each, and the other nodes must not suffer.
#
#   Tests/acceptance/cluster_start.sh [BINARY]
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/cluster_start.py"
