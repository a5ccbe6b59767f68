#!/usr/bin/env bash
# The topology of deploy/compose.replicated.yaml in network namespaces, under load. The database's primary is killed,
# deploy/failover promotes a standby as docs/cluster.md says, and the old primary comes back as a standby. Needs root.
#
#   Tests/acceptance/cluster_database.sh [BINARY]
. "$(dirname "$0")/common.sh"
needs_namespaces
TIDECAST=${1:-$tidecast} python3 "$here/cluster_database.py"
