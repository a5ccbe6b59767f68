#!/usr/bin/env bash
# Output that fails: standard output and standard error of each command are closed, full, a file at its limit (ulimit -f), or a pipe
# whose reader has ended or is slow, and the log of a server has no room, or its terminal closes. No command ends by a signal or
# hangs, none says that all is well where a secret was lost, a slow reader gets all, and the server goes on, also if its database may
# not grow.
. "$(dirname "$0")/common.sh"
timeout 900 python3 "$here/output.py" "$work"
