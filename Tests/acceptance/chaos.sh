#!/usr/bin/env bash
# The checkers of tools/chaos each see their planted fault; then a short selection of its faults on a real cluster in network
# namespaces, under load: answers of the database that are lost, a cut, a gateway that is killed. Needs root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export TIDECAST=${TIDECAST:-$root/.build/debug/tidecast}
export PYTHONDONTWRITEBYTECODE=1
"$root/tools/chaos" selftest
if [ "$(id -u)" -ne 0 ]; then echo "faults skipped: namespaces need root"; exit 0; fi
if ! command -v iptables > /dev/null; then echo "faults skipped: there is no iptables"; exit 0; fi
"$root/tools/chaos" run 0
