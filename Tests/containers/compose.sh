#!/usr/bin/env bash
# The compose files on a container engine, as a user runs them. The script builds the images and starts a cluster. It breaks the
# containers in each way that an engine has, replaces them one by one under load, scales, drains, stops and starts them. The
# replicated cluster loses its primary. The checkers of Tests/chaos read the clients' history. Ends with 77 where no container
# engine runs and none can be started.
#
#   Tests/containers/compose.sh [small] [cluster] [replicated]      SEED=N for the same load again
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
was_up=1
tag=
"$root/tools/container-engine" is-up > /dev/null || was_up=0
# Stops an engine that this script has started, and removes the images that it has built.
finish() {
  [ -z "$tag" ] || docker image rm "tidecast:$tag" "tidecast-balancer:$tag" > /dev/null 2>&1 || true
  [ "$was_up" -eq 1 ] || "$root/tools/container-engine" stop
}
trap finish EXIT
code=0
words=$("$root/tools/container-engine") || code=$?
if [ "$code" -ne 0 ]; then exit "$code"; fi
eval "$words"
# Each run has a tag of its own: another run at the same time builds its own images, and takes most of the layers from this one.
tag=test-$$
export TIDECAST_VERSION=$tag
began=$SECONDS
docker compose -f "$root/deploy/compose.yaml" build --quiet
echo "the images are built after $((SECONDS - began)) s: $(docker image ls --format '{{.Repository}} {{.Size}}' --filter reference="tidecast*:$tag" | tr '\n' ' ')"
PYTHONPATH=$root/Tests python3 "$here/compose.py" "$@"
