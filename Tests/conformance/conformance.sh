#!/usr/bin/env bash
# FCM's behaviour as a table. Each row runs over real sockets against real server processes, with requests in the forms that the
# SDKs send. `conformance.sh 12 36` runs only rows 12 and 36.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export TIDECAST=${TIDECAST:-$root/.build/debug/tidecast} PYTHONPATH=$root/Tests
. "$root/Tests/system/python.sh"
python=$(python_of_tests)
exec timeout 300 "$python" "$here/table.py" "$@"
