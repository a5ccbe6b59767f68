#!/usr/bin/env bash
# Connections to Apple's push service, whose stand-in lowers its bound of streams, ends connections with requests under way, and
# stops answering without a word: each message arrives once.
. "$(dirname "$0")/common.sh"
python=$(python_of_tests)
"$python" "$here/apns_connections.py"
