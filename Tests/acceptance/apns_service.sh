#!/usr/bin/env bash
# The stand-in for Apple's push service against clients that are not Tidecast's: what it takes and refuses is what Apple's pages
# say, so a test that passes with it means something.
. "$(dirname "$0")/common.sh"
python=$(python_of_tests)
"$python" -m system.apnsservice --self-test
