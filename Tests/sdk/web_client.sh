#!/usr/bin/env bash
# The JavaScript client and the demonstration page in a real browser (Chromium without a screen), against real servers: see
# web_client.py. With PICTURES=FOLDER the script also writes pictures of the page there.
. "$(dirname "$0")/common.sh"
if ! [ -x /usr/bin/chromium ]; then
  echo "skipped: there is no chromium here; tools/install-packages test installs it"
  rm -rf "$work"
  exit 77
fi
if ! "$unprivileged" env HOME="$work" /usr/bin/chromium --version > /dev/null 2>&1; then
  echo "skipped: chromium does not run here"
  rm -rf "$work"
  exit 77
fi
# A browser is many processes, and the namespace has no others than those of this script.
finish() {
  local pids
  pids=$(ip netns pids "$space" 2> /dev/null || true)
  # shellcheck disable=SC2086
  if [ -n "$pids" ]; then kill -9 $pids 2> /dev/null || true; fi
  ip netns delete "$space" 2> /dev/null || true
  rm -rf "/etc/netns/$space" "$work"
}
enter_namespace
ip netns exec "$space" env WORK="$work" PICTURES="${PICTURES:-}" timeout 400 "$python" "$here/web_client.py"
