#!/usr/bin/env bash
# A client's TLS session from one gateway resumes at the other gateway, also after both have restarted, and not at a gateway of
# another cluster. No gateway accepts early data.
#
#   Tests/acceptance/cluster_tls.sh [BINARY]
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/cluster_tls.py"
