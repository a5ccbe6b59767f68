#!/usr/bin/env bash
# The stand-in for Apple's push service against clients that are not Tidecast's: what it takes and refuses is what Apple's pages
# say, so a test that passes with it means something.
. "$(dirname "$0")/common.sh"
venv=$root/.build/push-venv
if [ ! -x "$venv/bin/python" ]; then python3 -m venv "$venv"; fi
if ! "$venv/bin/python" -c 'import aioapns, h2, cryptography' 2> /dev/null; then
  "$venv/bin/pip" install -q aioapns==4.0 h2==4.4.1 cryptography
fi
"$venv/bin/python" -m system.apnsservice --self-test
