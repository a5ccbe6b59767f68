#!/usr/bin/env bash
# kill -9 under load, a few rounds; a longer run: crash.sh 200 SEED
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/crash.py" "${TIDECAST:-$here/../../.build/debug/tidecast}" "${1:-6}" "${2:-$(date +%s)}"
