#!/usr/bin/env bash
# A cluster in which one node runs another build. All calls cross both builds, partitions move both ways, and a node moves from
# one build to the other and back under load. Nothing may be lost. TIDECAST_FORMER is the other build's binary. Without it, the
# other build is this one, whose nodes then also speak the next version of frames.
. "$(dirname "$0")/common.sh"
former=${TIDECAST_FORMER:-}
if [ -z "$former" ]; then
  former=$work/raised
  printf '#!/bin/sh\nRAISED_VERSIONS=1 exec "%s" "$@"\n' "$tidecast" > "$former"
  chmod 755 "$former"
fi
[ -x "$former" ] || fail "TIDECAST_FORMER names $former, which is no program"
python3 "$here/two_builds.py" "$former"
