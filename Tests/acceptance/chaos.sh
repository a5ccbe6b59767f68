#!/usr/bin/env bash
# The checkers of tools/chaos each see their planted fault; then a short selection of its faults on a real cluster in network
# namespaces, under load: answers of the database that are lost, a cut, a gateway that is killed. Needs root.
. "$(dirname "$0")/common.sh"
export PYTHONDONTWRITEBYTECODE=1
"$root/tools/chaos" selftest
needs_namespaces
command -v iptables > /dev/null || fail "there is no iptables: tools/install-packages test"
"$root/tools/chaos" run 0
