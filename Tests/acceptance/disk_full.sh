#!/usr/bin/env bash
# A full disk: writes are refused with 503, nothing acknowledged is lost, and it goes on when there is space again, without
# a restart. Needs root for a small file system of its own.
. "$(dirname "$0")/common.sh"
disk=$work/disk
mkdir "$disk"
mount -t tmpfs -o size=12m tmpfs "$disk" 2> /dev/null || skip "no file system can be mounted here"
tidy_up() { umount "$disk"; }
data=$disk/data
start_server --partitions 4
status() { curl -s -o /dev/null -w '%{http_code}' -X POST "$url/v1/projects/demo/messages:send" -H 'Authorization: Bearer owner' -d '{"message": {"topic": "news", "data": {"k": "v"}}}'; }
first=$(register_code)
[ "$first" = 200 ] || fail "registering answered $first"
dd if=/dev/zero of="$disk/ballast" bs=64k 2> /dev/null || true
# What the database has preallocated takes a few more; then it is refused.
full=
for _ in $(seq 400); do
  code=$(register_code)
  case $code in
    200) ;;
    503) full=yes; break ;;
    *) fail "a full disk answered $code" ;;
  esac
done
[ -n "$full" ] || fail "the disk was never full"
echo "refused with 503 when full: $(register_code) $(status)"
known=$(device_count)
rm "$disk/ballast"
code=503
for _ in $(seq 50); do code=$(register_code); if [ "$code" = 200 ]; then break; fi; sleep 0.1; done
[ "$code" = 200 ] || fail "with space again it still answers $code"
after=$(device_count)
echo "devices known while full $known, after $after; the same process"
[ "$after" -gt "$known" ] || fail "nobody was added"
kill -0 "$server" || fail "the process ended"
stop_server
