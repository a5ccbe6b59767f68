#!/usr/bin/env bash
# The topology of deploy/compose.replicated.yaml in network namespaces, under load: the database's primary is killed, a standby is
# promoted by deploy/failover as docs/cluster.md says, and the old primary comes back as a standby. Needs root.
#
#   Tests/acceptance/cluster_database.sh [BINARY]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" -ne 0 ]; then echo "skipped: namespaces need root"; exit 0; fi
exec python3 "$here/cluster_database.py" "${1:-${TIDECAST:-$here/../../.build/debug/tidecast}}"
