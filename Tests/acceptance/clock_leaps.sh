#!/usr/bin/env bash
# A server's wall clock leaps 271 days ahead and back, and to 1970 and back. While the clock is wrong the server must say that it
# is not ready; when the clock is right again it must be ready. No device may be unregistered, and no waiting message lost.
. "$(dirname "$0")/common.sh"
python3 "$here/clock_leaps.py" "$work"
