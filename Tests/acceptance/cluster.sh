#!/usr/bin/env bash
# Three nodes on one PostgreSQL, real processes, under load: an owner killed, one leaving in order, one that sleeps past
# its lease, the database killed. A checker looks at what was acknowledged and what arrived.
#
#   Tests/acceptance/cluster.sh [BINARY]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/cluster.py" "${1:-$here/../../.build/debug/tidecast}"
