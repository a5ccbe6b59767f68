#!/usr/bin/env bash
# A node that was drained stays out, whatever restarts it, until it is let in again; the last shard is not drained by mistake.
. "$(dirname "$0")/common.sh"
python3 "$here/cluster_drain.py" "${1:-$tidecast}"
