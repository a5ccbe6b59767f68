#!/usr/bin/env bash
# What the server encrypts and signs for push services, read by libraries that others wrote: http-ece opens 1,000 bodies, py-vapid
# and cryptography verify the tokens.
. "$(dirname "$0")/common.sh"
tests=${TESTS:-$root/.build/debug/tidecastPackageTests.xctest}
[ -x "$tests" ] || skip "there are no built tests at $tests"
TIDECAST_PUSH_SAMPLES=$work/samples "$tests" --testing-library swift-testing --filter 'SampleTests' > "$work/log" 2>&1 \
  || { tail "$work/log"; fail "the samples cannot be made"; }
[ -s "$work/samples" ] || { tail "$work/log"; fail "no test wrote samples"; }
python=$(push_python)
"$python" "$here/push_crypto.py" "$work/samples"
