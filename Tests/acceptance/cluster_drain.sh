#!/usr/bin/env bash
# A node that was drained stays out, whatever restarts it, until it is let in again; the last shard is not drained by mistake.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/cluster_drain.py" "${TIDECAST:-$here/../../.build/debug/tidecast}"
