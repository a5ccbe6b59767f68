#!/usr/bin/env bash
# Messages for iPhones: devices register as Firebase's iOS SDK does, and a strict stand-in for Apple's push service takes what
# the server sends. The service forgets devices, refuses, throttles and fails, ends connections, and refuses the key until the
# operator gives another, which a backend that sends to one phone is told; and the server is killed with messages waiting. Each
# device gets each message, again only with the same apns-collapse-id.
. "$(dirname "$0")/common.sh"
python=$(python_of_tests)
"$python" "$here/apns.py"
