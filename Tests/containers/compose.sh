#!/usr/bin/env bash
# The compose files on a container engine, as a user has them: the image is built, a cluster is started, broken in all the ways
# that containers have, replaced one by one under load, scaled, drained, stopped and started; and the replicated one loses its
# primary. The checkers of Tests/chaos read what clients did and saw. Ends with 77 where there is no engine and can be none.
#
#   Tests/containers/compose.sh [small] [cluster] [replicated]      SEED=N for the same load again
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
was_up=1
tag=
"$root/tools/container-engine" is-up > /dev/null || was_up=0
# What this script starts and builds it ends and removes. An engine that was there stays.
finish() {
  [ -z "$tag" ] || docker image rm "tidecast:$tag" "tidecast-balancer:$tag" > /dev/null 2>&1 || true
  [ "$was_up" -eq 1 ] || "$root/tools/container-engine" stop
}
trap finish EXIT
code=0
words=$("$root/tools/container-engine") || code=$?
if [ "$code" -ne 0 ]; then exit "$code"; fi
eval "$words"
# A tag of this run's own: another one at the same time builds its own images, and mostly takes their layers from here.
tag=test-$$
export TIDECAST_VERSION=$tag
began=$SECONDS
docker compose -f "$root/deploy/compose.yaml" build --quiet
echo "the images are built after $((SECONDS - began)) s: $(docker image ls --format '{{.Repository}} {{.Size}}' --filter reference="tidecast*:$tag" | tr '\n' ' ')"
python3 "$here/compose.py" "$@"
