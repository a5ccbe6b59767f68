#!/usr/bin/env bash
# A full disk: writes are refused with 503, nothing acknowledged is lost, and it goes on when there is space again, without
# a restart. Needs root for a small file system of its own; without it the test is passed over, and says so.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tidecast=${TIDECAST:-$here/../../.build/debug/tidecast}
disk=$(mktemp -d)
if ! mount -t tmpfs -o size=12m tmpfs "$disk" 2> /dev/null; then
  echo "passed over: no file system can be mounted here"
  exit 0
fi
server=
finish() {
  if [ -n "$server" ]; then kill "$server" 2> /dev/null || true; wait "$server" 2> /dev/null || true; fi
  umount "$disk" || true
  rmdir "$disk"
}
trap finish EXIT
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
"$tidecast" server --dev --data "$disk/data" --listen "127.0.0.1:$port" --partitions 4 2> "$disk.log" &
server=$!
for _ in $(seq 100); do if curl -sf "$url/readyz" > /dev/null; then break; fi; sleep 0.1; done
register() { curl -s -o /dev/null -w '%{http_code}' -X POST "$url/v1/projects/demo/registrations" -d '{}'; }
status() { curl -s -o /dev/null -w '%{http_code}' -X POST "$url/v1/projects/demo/messages:send" -H 'Authorization: Bearer owner' -d '{"message": {"topic": "news", "data": {"k": "v"}}}'; }
first=$(register)
if [ "$first" != 200 ]; then echo "registering answered $first"; exit 1; fi
dd if=/dev/zero of="$disk/ballast" bs=64k 2> /dev/null || true
# What the database has preallocated takes a few more; then it is refused.
full=
for _ in $(seq 400); do
  code=$(register)
  case $code in
    200) ;;
    503) full=yes; break ;;
    *) echo "a full disk answered $code"; exit 1 ;;
  esac
done
if [ -z "$full" ]; then echo "the disk was never full"; exit 1; fi
echo "refused with 503 when full: $(register) $(status)"
known=$(curl -s "$url/v1/projects/demo/registrations" -H 'Authorization: Bearer owner' | grep -o '"name"' | wc -l)
rm "$disk/ballast"
code=503
for _ in $(seq 50); do code=$(register); if [ "$code" = 200 ]; then break; fi; sleep 0.1; done
if [ "$code" != 200 ]; then echo "with space again it still answers $code"; tail -5 "$disk.log"; exit 1; fi
after=$(curl -s "$url/v1/projects/demo/registrations" -H 'Authorization: Bearer owner' | grep -o '"name"' | wc -l)
echo "devices known while full $known, after $after; the same process"
if [ "$after" -le "$known" ] || ! kill -0 "$server"; then exit 1; fi
kill -TERM "$server"
code=0
wait "$server" || code=$?
server=
rm -f "$disk.log"
exit "$code"
