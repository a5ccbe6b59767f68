#!/usr/bin/env bash
# nginx as Debian configures it, with the site of docs/admin-sdks.md, before a server: each transport goes through, and so does what
# each Admin SDK sends, but for what the page says. Streams and WebSockets that are silent outlive nginx's default of 60 s, since the
# server is never silent for longer than 25 s: at a site that waits 20 s they end.
. "$(dirname "$0")/common.sh"
PATH=$PATH:/usr/sbin command -v nginx > /dev/null || skip "there is no nginx"
python=$(python_of_tests)
"$python" "$here/nginx.py" "$work" "$root/Tests/conformance/recordings"
