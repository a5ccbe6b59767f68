#!/usr/bin/env bash
# An operator refuses the certificate of a node: its links are cut, and the node gives its partitions up. A process with a copy of
# the certificate and its key gets no link, also with the other form of the certificate's signature. The refusal outlives a restart
# of all nodes, until the node has another certificate or `cluster accept`. No node lets its own certificate be refused.
#
#   Tests/acceptance/cluster_refused.sh [BINARY]
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/cluster_refused.py"
