#!/usr/bin/env bash
# A disk that is full for a while, under load: requests are refused with 503 or wait, no partition is read again, no stream
# ends, everything acknowledged arrives and nothing that was refused, and sends go on when there is room, without a restart.
# First of the embedded engine, then of PostgreSQL. Needs root for a small file system of its own.
#
#   Tests/acceptance/disk_full.sh [SECONDS]
. "$(dirname "$0")/common.sh"
disk=$work/disk
mkdir "$disk"
for engine in embedded postgres; do
  mount -t tmpfs -o size=24m,mode=0777 tmpfs "$disk" 2> /dev/null || skip "no file system can be mounted here"
  tidy_up() { umount "$disk" 2> /dev/null || true; }
  python3 "$here/disk_full.py" "$tidecast" "$engine" "${1:-10}" "$disk" || fail "the disk of the $engine engine"
  umount "$disk"
done
