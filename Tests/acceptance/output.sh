#!/usr/bin/env bash
# Output that fails: standard output and standard error of each command are closed, full, or a pipe whose reader has ended, and
# the log of a server has no room, or its terminal closes. No command ends by a signal or hangs, none says that all is well where
# a secret was lost, and the server goes on.
. "$(dirname "$0")/common.sh"
timeout 600 python3 "$here/output.py" "$work"
