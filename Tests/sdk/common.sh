# shellcheck shell=bash disable=SC2034
# The common beginning of the scripts in this folder: `. "$(dirname "$0")/common.sh"`. Not executable, so tools/test does not run
# it. `python` has the newest firebase-admin. `names` are the hosts that the SDK calls. `token_uri` is at one of them, so that
# Google's own host of tokens stays Google's (docs/admin-sdks.md). Servers run under `"$unprivileged"`, and `work` belongs to the
# user to which that script switches. tools/test counts a script that ends with 77 as skipped.
set -euo pipefail
if ! unshare --net --mount true 2> /dev/null; then
  echo "skipped: this user may not make network namespaces, root may"
  exit 77
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
export TIDECAST=${TIDECAST:-$root/.build/debug/tidecast} PYTHONPATH=$root/Tests
. "$root/Tests/system/python.sh"
python=$(python_of_tests)
names="fcm.googleapis.com iid.googleapis.com"
token_uri=https://fcm.googleapis.com/token
unprivileged=$root/tools/unprivileged
umask 022
work=$("$unprivileged" mktemp -d)
# Makes a certificate for the names, and `bundle`: the authorities that a process trusts by default, and the certificate's
# authority.
bundle=$work/bundle.pem
make_certificate() {
  # shellcheck disable=SC2086
  "$unprivileged" "$TIDECAST" cert make --out "$work/certs" --name $names > /dev/null
  cat "$("$python" -m certifi)" "$work/certs/ca.pem" > "$bundle"
}
# `space` is a network namespace in which the names are 127.0.0.1. When the script ends, `server` is ended, and `space` and `work`
# are removed.
space=tidecast-sdk-$$
server=
finish() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
  ip netns delete "$space" 2>/dev/null || true
  rm -rf "/etc/netns/$space" "$work"
}
enter_namespace() {
  trap finish EXIT
  ip netns add "$space"
  mkdir -p "/etc/netns/$space"
  echo "127.0.0.1 localhost $names" > "/etc/netns/$space/hosts"
  ip netns exec "$space" ip link set lo up
  # The SDK calls Google's hosts at port 443, and the server does not run as root.
  ip netns exec "$space" sh -c 'echo 443 > /proc/sys/net/ipv4/ip_unprivileged_port_start'
}
wait_until_ready() {
  for _ in $(seq 100); do
    if ip netns exec "$space" curl -sf http://127.0.0.1:8787/readyz > /dev/null; then break; fi
    sleep 0.1
  done
}
tidecast() { "$unprivileged" "$TIDECAST" "$@"; }
# start_at_names: a server at the names, whose projects `shop` and `other` are made; `server` is its process. A backend's and a
# device's key of `shop`, and a token of `other`, are in the environment.
start_at_names() {
  ip netns exec "$space" "$unprivileged" "$TIDECAST" server --data "$work/data" --listen 127.0.0.1:8787 \
    --listen-tls 127.0.0.1:443 --cert "$work/certs/server.pem" --key "$work/certs/server.key" 2> "$work/log" &
  server=$!
  wait_until_ready
  export DEVICE_KEY BEARER FOREIGN_TOKEN
  DEVICE_KEY=$(tidecast project key create shop --kind device --data "$work/data")
  BEARER=$(tidecast project key create shop --kind bearer --data "$work/data")
  FOREIGN_TOKEN=$(tidecast device register --project other --json --data "$work/data" \
    | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
}
