#!/usr/bin/env bash
# A push service's name is public when a device registers, and leads to this machine when a message goes out: the server does not
# dial. Endpoints at invented names for which no answer comes share four places of a loop, and hold no other service up. With a name
# server of the test in a network namespace. Needs root.
. "$(dirname "$0")/common.sh"
needs_namespaces
space=tidecast-names-$$
tidy_up() {
  ip netns delete "$space" 2> /dev/null || true
  rm -rf "/etc/netns/$space"
}
python=$(python_of_tests)
ip netns add "$space"
mkdir -p "/etc/netns/$space"
echo 'nameserver 127.0.0.1' > "/etc/netns/$space/resolv.conf"
echo '127.0.0.1 localhost' > "/etc/netns/$space/hosts"
ip netns exec "$space" ip link set lo up
ip netns exec "$space" "$python" "$here/push_names.py"
ip netns exec "$space" "$python" "$here/push_silent_names.py"
