#!/usr/bin/env bash
# Floods and malformed frames against a real server.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec timeout 120 python3 "$here/abuse.py" "${TIDECAST:-$here/../../.build/debug/tidecast}"
