#!/usr/bin/env bash
# Messages for browsers: devices register as Firebase's web SDK does, a strict push service of the test takes what the server
# encrypts and signs. The service fails, throttles and forgets devices, and the server is killed with messages waiting: each
# device gets each message once, except where the answer to a push was lost.
. "$(dirname "$0")/common.sh"
venv=$root/.build/push-venv
if [ ! -x "$venv/bin/python" ]; then python3 -m venv "$venv"; fi
if ! "$venv/bin/python" -c 'import http_ece, py_vapid' 2> /dev/null; then
  "$venv/bin/pip" install -q http-ece==1.2.1 py-vapid==1.9.6
fi
"$venv/bin/python" "$here/web_push.py"
