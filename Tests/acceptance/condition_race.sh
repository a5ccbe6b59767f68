#!/usr/bin/env bash
# Conditions whose devices swap topics while an owner is replaced, and reads of a device's topics beside sends. A device that is in
# one of two topics at each moment must get a message to both; one that is never in the first alone must not get it; and what
# a read says of a subscription the send that follows must find.
#
#   Tests/acceptance/condition_race.sh [BINARY]
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/condition_race.py"
