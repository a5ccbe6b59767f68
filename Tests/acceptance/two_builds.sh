#!/usr/bin/env bash
# A cluster of which one node runs another build: everything is walked across both, partitions move both ways, and the nodes are
# taken from the one build to the other under load. Nothing is lost. TIDECAST_FORMER is the other build's binary.
. "$(dirname "$0")/common.sh"
former=${TIDECAST_FORMER:-}
[ -n "$former" ] || skip "TIDECAST_FORMER does not name the binary of another build"
[ -x "$former" ] || fail "TIDECAST_FORMER names $former, which is no program"
python3 "$here/two_builds.py" "$tidecast" "$former"
