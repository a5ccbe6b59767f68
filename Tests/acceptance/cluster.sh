#!/usr/bin/env bash
# Three nodes (real processes) on one PostgreSQL, under load: a node is killed, a node leaves in order, a node sleeps past its
# lease, the database is killed. A checker compares the accepted sends with the messages that arrived.
#
#   Tests/acceptance/cluster.sh [BINARY]
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/cluster.py"
