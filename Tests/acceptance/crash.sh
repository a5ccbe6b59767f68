#!/usr/bin/env bash
# kill -9 under load, a few rounds; a longer run: crash.sh 200 SEED
. "$(dirname "$0")/common.sh"
python3 "$here/crash.py" "${1:-6}" "${2:-$(date +%s)}"
