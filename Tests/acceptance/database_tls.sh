#!/usr/bin/env bash
# A node whose database takes TLS only: it is checked by name and authority, every connection is encrypted, and a node that does
# not trust it, or comes without TLS, says so and begins when that is mended.
#
#   Tests/acceptance/database_tls.sh [BINARY]
. "$(dirname "$0")/common.sh"
python3 "$here/database_tls.py" "${1:-$tidecast}"
