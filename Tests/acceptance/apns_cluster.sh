#!/usr/bin/env bash
# Two nodes push to Apple's service: their tokens tell one time of signing for each key, also after one of them was killed and has
# started again.
. "$(dirname "$0")/common.sh"
python=$(python_of_tests)
"$python" "$here/apns_cluster.py"
