#!/usr/bin/env bash
# The disk's syncs take almost 0.5 s while 900 sends to a topic of thousands of devices in one partition arrive at once. All
# acknowledged sends are delivered, also after a restart, and no partition is lost.
. "$(dirname "$0")/common.sh"
python3 "$here/stalled_disk.py" "$work"
