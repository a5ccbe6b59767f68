#!/usr/bin/env bash
# A drained node stays out, also after a restart, until an operator uncordons it. The last shard is drained only with --force.
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/cluster_drain.py"
