# shellcheck shell=bash disable=SC2034
# What the scripts beside this one begin with: `. "$(dirname "$0")/common.sh"`. Not executable, so that tools/test passes it over.
# `venv` has the newest firebase-admin; `names` are the hosts that it speaks to. Servers run under `"$unprivileged"`, and `work`
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
names="fcm.googleapis.com iid.googleapis.com oauth2.googleapis.com"
if [ ! -x "$venv/bin/python" ]; then python3 -m venv "$venv"; fi
if ! "$venv/bin/python" -c 'import firebase_admin' 2>/dev/null; then "$venv/bin/pip" install -q firebase-admin; fi
unprivileged=$root/tools/unprivileged
umask 022
work=$("$unprivileged" mktemp -d)
