#!/usr/bin/env bash
# Each attack of docs/threat-model.md for a second or two: the server lives, its memory keeps to its bounds, no descriptor is lost.
. "$(dirname "$0")/common.sh"
timeout 500 "$root/tools/hostile" --short
