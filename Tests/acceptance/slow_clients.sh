#!/usr/bin/env bash
# Clients that send a byte now and then, before a whole header block is there, are closed at a deadline; honest ones are served
# all the while, and no descriptor stays behind.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export TIDECAST=${TIDECAST:-$here/../../.build/debug/tidecast}
exec timeout 120 python3 "$here/slow_clients.py"
