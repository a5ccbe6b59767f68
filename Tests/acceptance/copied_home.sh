#!/usr/bin/env bash
# Copies of a cluster's home database whose nodes still name the original's further database: a dump and a copy of the files.
# Each must be refused before it takes anything there, also while no node of the original runs, and the original must go on. A
# copy of both databases lives beside the original. A home takes the further database over by the operator's word, and the
# original takes it back.
#
#   Tests/acceptance/copied_home.sh [BINARY]
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/copied_home.py"
