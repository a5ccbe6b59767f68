#!/usr/bin/env bash
# Clients take all places for connections; then a process has no descriptor left. Open connections go on, snapshots are written or
# tried again, the listener does not spin, and afterwards the server serves new clients.
. "$(dirname "$0")/common.sh"
timeout 180 python3 "$here/descriptors.py" "$work"
