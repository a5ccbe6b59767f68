#!/usr/bin/env bash
# Mutated requests, streams, hellos, frames and datagrams through running servers for 30 s, without a sanitizer. The servers must
# live, and must keep nothing of the connections.
. "$(dirname "$0")/common.sh"
timeout 300 "$root/tools/fuzz" --server 30 --sanitize none
