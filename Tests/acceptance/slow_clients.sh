#!/usr/bin/env bash
# The server closes clients at a deadline that send single bytes before a whole header block is there. Meanwhile it serves honest
# clients, and afterwards no descriptor is left open.
. "$(dirname "$0")/common.sh"
timeout 120 python3 "$here/slow_clients.py" "$work"
