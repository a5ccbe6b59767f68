#!/usr/bin/env bash
# Clients that take all connections there are, and a process that has no descriptor left: whoever is in goes on, snapshots are
# written or tried again, the listener does not spin, and afterwards everybody is served.
. "$(dirname "$0")/common.sh"
timeout 180 python3 "$here/descriptors.py" "$tidecast" "$work"
