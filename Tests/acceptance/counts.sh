#!/usr/bin/env bash
# What a send, a delivery, a subscription and the opening of a stream cost the release build in instructions, reference counts and
# allocations: not more than Tests/bench/counts.json has for this version of the compiler.
. "$(dirname "$0")/common.sh"
program=$("$here/../../tools/build" 2> "$work/build") || fail "the release build: $(tail -n 20 "$work/build")"
compiler=$(swift --version 2> /dev/null | grep -oE 'swift-[0-9.]+[^) ]*' | head -n 1)
python3 -m bench.counts "$program" "$compiler" "$@"
