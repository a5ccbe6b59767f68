#!/usr/bin/env bash
# Two nodes, their partitions spread over two PostgreSQL servers, real processes, under load: databases named wrongly, a node
# killed, one database stopped and back, a node begun while it is away. A checker looks at what was acknowledged and what arrived.
#
#   Tests/acceptance/two_databases.sh [BINARY]
. "$(dirname "$0")/common.sh"
python3 "$here/two_databases.py" "${1:-$tidecast}"
