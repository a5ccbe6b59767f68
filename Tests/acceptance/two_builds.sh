#!/usr/bin/env bash
# A cluster in which one node runs another build. All calls cross both builds, partitions move both ways, and a node moves from
# one build to the other and back under load. Nothing may be lost. TIDECAST_FORMER is the other build's binary.
. "$(dirname "$0")/common.sh"
former=${TIDECAST_FORMER:-}
[ -n "$former" ] || skip "TIDECAST_FORMER does not name the binary of another build"
[ -x "$former" ] || fail "TIDECAST_FORMER names $former, which is no program"
python3 "$here/two_builds.py" "$former"
