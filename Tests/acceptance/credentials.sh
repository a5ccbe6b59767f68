#!/usr/bin/env bash
# The lives of credentials over two nodes of a cluster: what is made, ended, revoked or replaced at the one counts so at the other.
. "$(dirname "$0")/common.sh"
python3 "$here/credentials.py" "${1:-$tidecast}"
