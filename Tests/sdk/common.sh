# shellcheck shell=bash disable=SC2034
# What the scripts beside this one begin with: `. "$(dirname "$0")/common.sh"`. Not executable, so that tools/test passes it over.
# `venv` has the newest firebase-admin; `names` are the hosts that it speaks to.
set -euo pipefail
if [ "$(id -u)" -ne 0 ]; then
  echo "Passed over: network namespaces need root."
  exit 0
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
export TIDECAST=${TIDECAST:-$root/.build/debug/tidecast}
venv=$root/.build/sdk-venv
names="fcm.googleapis.com iid.googleapis.com oauth2.googleapis.com"
if [ ! -x "$venv/bin/python" ]; then python3 -m venv "$venv"; fi
if ! "$venv/bin/python" -c 'import firebase_admin' 2>/dev/null; then "$venv/bin/pip" install -q firebase-admin; fi
work=$(mktemp -d)
