#!/usr/bin/env bash
# Copies of a cluster's database beside the original: a clone in the same PostgreSQL server, and a dump restored into another
# server. Nodes on the copy reach the original's nodes and have their keys and certificates. The original must lose nothing, no
# node of it may take another one for gone, and the copy must serve by itself.
#
#   Tests/acceptance/cluster_copy.sh [BINARY]
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/cluster_copy.py"
