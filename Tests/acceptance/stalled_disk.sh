#!/usr/bin/env bash
# A disk whose syncs take almost half a second, while 900 sends to a topic of thousands in one partition arrive at once: what
# was acknowledged is delivered, also after a restart, and no partition is lost.
. "$(dirname "$0")/common.sh"
python3 "$here/stalled_disk.py" "$tidecast" "$work"
