#!/usr/bin/env bash
# A project is a push service itself: a user agent of the test speaks Mozilla's push protocol, and senders with pywebpush post to
# its subscriptions by the rules of RFC 8030, RFC 8292 and UnifiedPush. The server is killed with messages waiting: nothing that
# the user agent acknowledged comes again, and nothing is missing. Tests/sdk/firefox_push.sh does the same with Firefox.
. "$(dirname "$0")/common.sh"
python=$(python_of_tests)
"$python" "$here/user_agents.py"
