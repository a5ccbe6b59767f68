#!/usr/bin/env bash
# Clients that send a byte now and then, before a whole header block is there, are closed at a deadline; honest ones are served
# all the while, and no descriptor stays behind.
. "$(dirname "$0")/common.sh"
timeout 120 python3 "$here/slow_clients.py" "$tidecast" "$work"
