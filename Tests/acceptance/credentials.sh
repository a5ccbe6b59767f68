#!/usr/bin/env bash
# The lives of credentials in a cluster of two nodes: what one node makes, ends, revokes or replaces must count the same at
# the other node.
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/credentials.py"
