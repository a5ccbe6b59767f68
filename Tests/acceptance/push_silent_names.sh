#!/usr/bin/env bash
# Devices with endpoints at invented names below a wildcard, and a name server that leaves these without an answer: the names share
# four places of a loop, and pushes of the same project to a service that takes messages go on. Needs root.
. "$(dirname "$0")/common.sh"
needs_namespaces
space=tidecast-silent-$$
tidy_up() {
  ip netns delete "$space" 2> /dev/null || true
  rm -rf "/etc/netns/$space"
}
python=$(python_of_tests)
ip netns add "$space"
mkdir -p "/etc/netns/$space"
printf 'nameserver 127.0.0.1\noptions timeout:5 attempts:2\n' > "/etc/netns/$space/resolv.conf"
echo '127.0.0.1 localhost' > "/etc/netns/$space/hosts"
ip netns exec "$space" ip link set lo up
ip netns exec "$space" "$python" "$here/push_silent_names.py"
