#!/usr/bin/env bash
# Messages for browsers: devices register as Firebase's web SDK does, a strict push service of the test takes what the server
# encrypts and signs. The service fails, throttles and forgets devices, and the server is killed with messages waiting: each
# device gets each message once, except where the answer to a push was lost.
. "$(dirname "$0")/common.sh"
python=$(python_of_tests)
"$python" "$here/web_push.py"
