#!/usr/bin/env bash
# Each attack of docs/threat-model.md for a second or two. The server must live, keep to its bounds of memory, and lose no
# descriptor.
. "$(dirname "$0")/common.sh"
timeout 500 "$root/tools/hostile" --short
