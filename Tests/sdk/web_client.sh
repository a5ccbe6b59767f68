#!/usr/bin/env bash
# The JavaScript client and the demonstration page in a real browser (Chromium without a screen), against real servers: see
# web_client.py. With PICTURES=FOLDER the script also writes pictures of the page there.
. "$(dirname "$0")/common.sh"
if ! [ -x /usr/bin/chromium ]; then
  echo "skipped: there is no chromium here; tools/install-packages test installs it"
  exit 77
fi
if ! "$venv/bin/python" -c 'import websockets.sync' 2> /dev/null; then "$venv/bin/pip" install -q 'websockets>=13'; fi
enter_namespace
ip netns exec "$space" env WORK="$work" PICTURES="${PICTURES:-}" timeout 240 "$venv/bin/python" "$here/web_client.py"
