#!/usr/bin/env bash
# A process is stopped in the middle of a change of projects. Meanwhile other processes change projects, and a node joins. When
# the stopped process goes on, its late write must overwrite nothing.
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/cluster_frozen.py"
