#!/usr/bin/env bash
# Snapshots by age: the journals of a server and of a cluster's node get shorter after sends that are far below the bound of bytes,
# by time alone. A server whose partitions do not change writes no snapshot, also after a restart.
#
#   Tests/acceptance/snapshot_age.sh [BINARY]
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/snapshot_age.py"
