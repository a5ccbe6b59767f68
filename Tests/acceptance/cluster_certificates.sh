#!/usr/bin/env bash
# Nodes that show who they are: certificates of their own, signed later by the authority that was kept; a node whose certificate is
# not its own is refused by name, and the operators of both sides read why; certificates are read anew without a cut connection.
# Without TLS nobody who lacks the cluster's key is spoken to. Gossip that is recorded and sent again is not believed (needs root,
# to hear it).
#
#   Tests/acceptance/cluster_certificates.sh [BINARY]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/cluster_certificates.py" "${1:-${TIDECAST:-$here/../../.build/debug/tidecast}}"
