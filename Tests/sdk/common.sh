# shellcheck shell=bash disable=SC2034
# What the scripts beside this one begin with: `. "$(dirname "$0")/common.sh"`. Not executable, so that tools/test passes it over.
# `venv` has the newest firebase-admin; `names` are the hosts that it speaks to, and `token_uri` is at one of them, so that the
# name behind which all of Google's tokens are stays Google's (docs/admin-sdks.md). Servers run under `"$unprivileged"`, and `work`
# belongs to the user that this makes of them. tools/test counts a script that ends with 77 as skipped.
set -euo pipefail
if ! unshare --net --mount true 2> /dev/null; then
  echo "skipped: this user may not make network namespaces, root may"
  exit 77
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
export TIDECAST=${TIDECAST:-$root/.build/debug/tidecast}
venv=$root/.build/sdk-venv
names="fcm.googleapis.com iid.googleapis.com"
token_uri=https://fcm.googleapis.com/token
if [ ! -x "$venv/bin/python" ]; then python3 -m venv "$venv"; fi
if ! "$venv/bin/python" -c 'import firebase_admin' 2>/dev/null; then "$venv/bin/pip" install -q firebase-admin; fi
# The Python that has a certain version of it.
python_with() {
  if [ "$1" = newest ]; then echo "$venv/bin/python"; return; fi
  local other=$venv-$1
  if [ ! -x "$other/bin/python" ]; then python3 -m venv "$other"; fi
  if ! "$other/bin/python" -c 'import firebase_admin' 2> /dev/null; then "$other/bin/pip" install -q "firebase-admin==$1" >&2; fi
  echo "$other/bin/python"
}
unprivileged=$root/tools/unprivileged
umask 022
work=$("$unprivileged" mktemp -d)
# A certificate for the names, and `bundle`: what a process trusts anyway, and the certificate's authority.
bundle=$work/bundle.pem
make_certificate() {
  # shellcheck disable=SC2086
  "$unprivileged" "$TIDECAST" cert make --out "$work/certs" --name $names > /dev/null
  cat "$("$venv/bin/python" -m certifi)" "$work/certs/ca.pem" > "$bundle"
}
# A network namespace, `space`, in which the names are 127.0.0.1; it goes with the script, and so do `server` and `work`.
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
  # The names of Google's hosts are asked for at port 443, and the server is not root.
  ip netns exec "$space" sh -c 'echo 443 > /proc/sys/net/ipv4/ip_unprivileged_port_start'
}
wait_until_ready() {
  for _ in $(seq 100); do
    if ip netns exec "$space" curl -sf http://127.0.0.1:8787/readyz > /dev/null; then break; fi
    sleep 0.1
  done
}
