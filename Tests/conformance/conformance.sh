#!/usr/bin/env bash
# FCM's behaviour as a table. Each row runs over real sockets against real server processes, with requests in the forms that the
# SDKs send. `conformance.sh 12 36` runs only rows 12 and 36.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export TIDECAST=${TIDECAST:-$root/.build/debug/tidecast} PYTHONPATH=$root/Tests
venv=$root/.build/sdk-venv
if [ ! -x "$venv/bin/python" ]; then python3 -m venv "$venv"; fi
if ! "$venv/bin/python" -c 'import h2' 2> /dev/null; then "$venv/bin/pip" install -q h2; fi
exec timeout 300 "$venv/bin/python" "$here/table.py" "$@"
