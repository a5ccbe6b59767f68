#!/usr/bin/env bash
# A cluster of three nodes is a push service: its user agents stay connected while an owner of their devices is killed, and come
# back at another node when their own is killed.
. "$(dirname "$0")/common.sh"
python=$(python_of_tests)
"$python" "$here/user_agents_cluster.py"
