#!/usr/bin/env bash
# The clock of one node of three leaps, also while this node takes another node's partitions. Only this node may be not ready, and
# it must be ready again when its clock is right. Nothing may be lost. A node whose clock is wrong at its start must not join. A node
# whose clock is 50 s behind is not ready, and messages that it accepts reach all devices that listen, however short they live. A
# database whose clock is 50 s behind keeps no node from being ready. The clocks of the database and of all nodes are wrong together:
# nothing ends.
. "$(dirname "$0")/common.sh"
python3 "$here/clock_leaps.py" cluster
