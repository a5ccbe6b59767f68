#!/usr/bin/env bash
# Floods and malformed frames against a real server.
. "$(dirname "$0")/common.sh"
timeout 120 python3 "$here/abuse.py" "$work"
