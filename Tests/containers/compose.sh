#!/usr/bin/env bash
# The compose files on a container engine, as a user has them: the image is built, a cluster is started, broken in all the ways
# that containers have, replaced one by one under load, scaled, drained, stopped and started; and the replicated one loses its
# primary. The checkers of Tests/chaos read what clients did and saw. Ends with 77 where there is no engine and can be none.
#
#   Tests/containers/compose.sh [small] [cluster] [replicated]      SEED=N for the same load again
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if ! "$root/tools/container-engine" is-up > /dev/null; then
  # What this script starts it ends. An engine that was there stays.
  trap '"$root/tools/container-engine" stop' EXIT
fi
code=0
words=$("$root/tools/container-engine") || code=$?
if [ "$code" -ne 0 ]; then exit "$code"; fi
eval "$words"
export TIDECAST_VERSION=test
began=$SECONDS
docker compose -f "$root/deploy/compose.yaml" build --quiet
echo "the images are built after $((SECONDS - began)) s: $(docker image ls --format '{{.Repository}} {{.Size}}' --filter reference='tidecast*:test' | tr '\n' ' ')"
python3 "$here/compose.py" "$@"
