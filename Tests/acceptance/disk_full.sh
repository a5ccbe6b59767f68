#!/usr/bin/env bash
# A disk is full for a while, under load. The server refuses requests with 503 or lets them wait. No partition is read again, and
# no stream ends. All acknowledged messages arrive, and no refused one does. Sends go on without a restart when there is room
# again. First with the embedded engine, then with PostgreSQL. Needs root for a small file system of its own.
#
#   Tests/acceptance/disk_full.sh [SECONDS]
. "$(dirname "$0")/common.sh"
disk=$work/disk
mkdir "$disk"
for engine in embedded postgres; do
  mount -t tmpfs -o size=24m,mode=0777 tmpfs "$disk" 2> /dev/null || skip "no file system can be mounted here"
  tidy_up() { umount "$disk" 2> /dev/null || true; }
  python3 "$here/disk_full.py" "$engine" "${1:-10}" "$disk" || fail "the disk of the $engine engine"
  umount "$disk"
done
