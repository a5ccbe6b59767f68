#!/usr/bin/env bash
# The clock of one node of three leaps, also while it takes the partitions of another: only that node is not ready, nothing is
# lost, and it is ready again when its clock is. A node whose clock is wrong from the first does not join.
. "$(dirname "$0")/common.sh"
python3 "$here/clock_leaps.py" "$tidecast" "$work" cluster
