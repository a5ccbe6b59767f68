#!/usr/bin/env bash
# Two nodes (real processes) with partitions in two PostgreSQL servers, under load: databases named wrongly, a node killed, one
# database stopped and back, a node started while the database is away, a frozen database, the home database stopped, an old disk
# restored. A checker compares the accepted sends with the messages that arrived.
#
#   Tests/acceptance/two_databases.sh [BINARY]
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/two_databases.py"
