#!/usr/bin/env bash
# Half a minute of mutated requests, streams, hellos, frames and datagrams through running servers, without a sanitizer: they live,
# and nothing of the connections stays.
. "$(dirname "$0")/common.sh"
timeout 300 "$root/tools/fuzz" --server 30 --sanitize none
