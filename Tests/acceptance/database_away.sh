#!/usr/bin/env bash
# The database of a cluster goes away and comes back: metrics, the log, `cluster status` and its exit code, and the answer to a
# send say so.
. "$(dirname "$0")/common.sh"
timeout 300 python3 "$here/database_away.py"
