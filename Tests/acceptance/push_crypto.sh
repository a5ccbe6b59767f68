#!/usr/bin/env bash
# What the server encrypts and signs for push services, read by libraries that others wrote: http-ece opens 1,000 bodies, py-vapid
# and cryptography verify the tokens. Ten processes make 10,000 bodies, of which no two have one salt or one sender's key.
. "$(dirname "$0")/common.sh"
tests=${TESTS:-$root/.build/debug/tidecastPackageTests.xctest}
[ -x "$tests" ] || skip "there are no built tests at $tests"
files=()
for number in {1..10}; do
  files+=("$work/samples-$number")
  TIDECAST_PUSH_SAMPLES=${files[-1]} "$tests" --testing-library swift-testing --filter 'SampleTests' > "$work/log" 2>&1 \
    || { tail "$work/log"; fail "the samples cannot be made"; }
  [ -s "${files[-1]}" ] || { tail "$work/log"; fail "no test wrote samples"; }
done
python=$(python_of_tests)
"$python" "$here/push_crypto.py" "${files[@]}"
