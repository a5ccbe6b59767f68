#!/usr/bin/env bash
# Seeds must run the same in each process, event by event. The standard library hashes with another seed in each process, so that
# an order that is a dictionary's shows here, and not in tests that run a seed twice.
. "$(dirname "$0")/common.sh"
for run in 1 2 3; do
  "$root/.build/debug/simulate" --swarm --seeds 1-50 | grep -oE '^[0-9]+ of .*' > "$work/$run" || fail "seeds are not clean: $(cat "$work/$run")"
done
for run in 2 3; do
  cmp -s "$work/1" "$work/$run" || fail "another process ran the seeds differently: $(cat "$work"/[123])"
done
echo "ok: three processes ran the seeds alike: $(cat "$work/1")"
