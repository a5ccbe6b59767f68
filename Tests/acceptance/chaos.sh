#!/usr/bin/env bash
# Each checker of tools/chaos must see its planted fault. Then a short selection of faults on a real cluster in network
# namespaces, under load: lost answers of the database, a cut, ended connections, a killed gateway; and a killed owner, whose
# takeover is when conditions over topics that change, and reads, once went wrong. Needs root.
. "$(dirname "$0")/common.sh"
export PYTHONDONTWRITEBYTECODE=1
"$root/tools/chaos" selftest
needs_namespaces
command -v iptables > /dev/null || fail "there is no iptables: tools/install-packages test"
"$root/tools/chaos" run 0 1
