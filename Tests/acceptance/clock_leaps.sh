#!/usr/bin/env bash
# The clock on the wall leaps: to 271 days ahead, back, to 1970, back. The server says that it is not ready, and is ready again
# when the clock is; no device is unregistered and no waiting message is lost.
. "$(dirname "$0")/common.sh"
python3 "$here/clock_leaps.py" "$tidecast" "$work"
