#!/usr/bin/env bash
# A fan-out to devices of a push service, on three nodes: an owner of their partitions is killed in the middle of it. Then the
# service answers 503 for a time and 429 after it, while another owner is killed. Each device is pushed each message once, but for
# what was at the service, and that with the same Topic.
#
#   push_owner_killed.sh [DEVICES] [SECONDS]      how many devices, and for how long the service fails
. "$(dirname "$0")/common.sh"
python=$(python_of_tests)
"$python" "$here/push_owner_killed.py" "${1:-200}" "${2:-1}"
