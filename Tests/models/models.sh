#!/usr/bin/env bash
# Checks the formal models with spin. Each whole model must hold over all its states; with each rule taken out, spin must find the
# hole.
#
#   Tests/models/models.sh [MODEL…]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for tool in spin gcc; do command -v $tool > /dev/null || { echo "$tool is missing: apt-get install $tool" >&2; exit 2; }; done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# run MODEL [RULE]: runs spin on the model, without RULE, and sets `states` and `errors`.
run() {
  rm -f pan*
  spin -a ${2:+-D$2} "$here/$1.pml" > /dev/null
  gcc -O1 -DSAFETY -o pan pan.c 2> /dev/null
  ./pan -m20000 > out
  states=$(grep -o '[0-9]* states, stored' out | grep -o '[0-9]*')
  errors=$(grep -o 'errors: [0-9]*' out | grep -o '[0-9]*')
  if grep -q 'max search depth too small\|out of memory' out; then echo "$1 ${2:-}: the search was cut short"; exit 1; fi
}

printf '%-10s %-22s %9s  %s\n' MODEL 'RULE TAKEN OUT' STATES RESULT
status=0
[ $# -gt 0 ] || set -- takeover outbox parts conditions streams window
for model in "$@"; do
  run "$model"
  if [ "$errors" = 0 ]; then result=holds; else result="FAILS, and must hold"; status=1; fi
  printf '%-10s %-22s %9s  %s\n' "$model" - "$states" "$result"
  mapfile -t rules < <(grep -o '^#if[n]*def [A-Z_]*' "$here/$model.pml" | awk '{print $2}' | sort -u)
  for rule in "${rules[@]}"; do
    run "$model" "$rule"
    if [ "$errors" = 0 ]; then result="NOT SEEN"; status=1; else result="hole found"; fi
    printf '%-10s %-22s %9s  %s\n' "$model" "$rule" "$states" "$result"
  done
done
exit $status
