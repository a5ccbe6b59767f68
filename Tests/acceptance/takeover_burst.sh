#!/usr/bin/env bash
# The owner of a partition is killed, and 6,000 sends to this partition come before another node owns it. Each send is answered,
# and none with 504, since no node can have accepted a send and died. Sends with 200 are all delivered; sends with 503 are not.
. "$(dirname "$0")/common.sh"
python3 "$here/takeover_burst.py"
