#!/usr/bin/env bash
# Three nodes on one PostgreSQL, real processes, under load: an owner killed, one leaving in order, one that sleeps past
# its lease, the database killed. A checker looks at what was acknowledged and what arrived.
#
#   Tests/acceptance/cluster.sh [BINARY]
. "$(dirname "$0")/common.sh"
python3 "$here/cluster.py" "${1:-$tidecast}"
