#!/usr/bin/env bash
# Journals whose records decode, with checksums that match, and do not fit together: the server, and in a cluster each node that
# takes the partition over, quarantines the partition and serves the others, also conditions. With the records back, all is served.
. "$(dirname "$0")/common.sh"
timeout 300 python3 "$here/misfit.py"
