#!/usr/bin/env bash
# A hundred megabytes wait for devices whose streams a gateway attaches together, over a link that is slow and takes 64 MiB at most.
# The link holds, and each device gets each of its messages once. Needs root for a network namespace.
. "$(dirname "$0")/common.sh"
if [ "$(id -u)" -ne 0 ]; then skip "a namespace needs root"; fi
if ! command -v iptables > /dev/null; then skip "there is no iptables"; fi
# shellcheck disable=SC2016 # The inner shell fills it in.
TIDECAST=${1:-$tidecast} unshare --net sh -c 'ip link set lo up && exec python3 "$1"' sh "$here/come_back.py"
