#!/usr/bin/env bash
# Nodes that cannot join a cluster: no database yet, a name that is taken, another number of partitions, another authority's
# certificate, another cluster's seed, garbage at the gossip port. Each gets a sentence, and nobody else is harmed.
#
#   Tests/acceptance/cluster_start.sh [BINARY]
. "$(dirname "$0")/common.sh"
python3 "$here/cluster_start.py" "${1:-$tidecast}"
