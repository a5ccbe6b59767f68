#!/usr/bin/env bash
# A data folder whose database was copied without its snapshots: the server names the partition and the reason from its first
# answer on, and is never ready. With the snapshots back, it serves.
. "$(dirname "$0")/common.sh"
timeout 300 python3 "$here/missing_snapshots.py"
