#!/usr/bin/env bash
# Firefox with this server as its push service (see firefox_push.py): a page subscribes, its own server posts signed messages, and
# the page's worker reads them, also after the server was killed. A damaged body is counted.
. "$(dirname "$0")/common.sh"
rm -rf "$work"
for program in /usr/bin/firefox-esr /usr/bin/Xvfb; do
  if ! [ -x "$program" ]; then
    echo "skipped: there is no $program here; tools/install-packages test installs it"
    exit 77
  fi
done
# Firefox asks for hosts outside, and finds none.
finish() {
  local pids
  pids=$(ip netns pids "$space" 2> /dev/null || true)
  # shellcheck disable=SC2086
  if [ -n "$pids" ]; then kill -9 $pids 2> /dev/null || true; fi
  ip netns delete "$space" 2> /dev/null || true
  rm -rf "/etc/netns/$space"
}
enter_namespace
ip netns exec "$space" timeout 300 "$python" "$here/firefox_push.py"
