#!/usr/bin/env bash
# The owner of a partition is killed, and 6,000 sends for that one partition come before another node has it: each is answered,
# none with 504 that nobody can have accepted; those with 200 are delivered, or their devices are told that a bound dropped some;
# those with 503 are not.
. "$(dirname "$0")/common.sh"
python3 "$here/takeover_burst.py" "$tidecast"
