#!/usr/bin/env bash
# A process that is stopped while it changes projects: meanwhile others change projects and join, and when it goes on, what
# it was about to write overwrites nothing.
. "$(dirname "$0")/common.sh"
python3 "$here/cluster_frozen.py" "${1:-$tidecast}"
