#!/usr/bin/env bash
# A client's TLS session that one gateway began resumes at the other, also when both have begun anew; and not at a gateway of
# another cluster. No early data.
#
#   Tests/acceptance/cluster_tls.sh [BINARY]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/cluster_tls.py" "${1:-${TIDECAST:-$here/../../.build/debug/tidecast}}"
