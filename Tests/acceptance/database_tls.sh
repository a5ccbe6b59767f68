#!/usr/bin/env bash
# A node whose database takes only TLS. The node checks the database's name and authority, and every connection is encrypted. A
# node that does not trust the database, or connects without TLS, is not ready and says why in /readyz.
#
#   Tests/acceptance/database_tls.sh [BINARY]
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/database_tls.py"
