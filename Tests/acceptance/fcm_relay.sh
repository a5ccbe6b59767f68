#!/usr/bin/env bash
# Messages for devices that a Firebase project of the customer's reaches. A server relays to a second server, which stands for
# FCM with its own token host; then to a fake that refuses, throttles and forgets tokens, takes back its access token from
# many messages at once, and stays while the relaying server is killed.
. "$(dirname "$0")/common.sh"
venv=$root/.build/push-venv
if [ ! -x "$venv/bin/python" ]; then python3 -m venv "$venv"; fi
if ! "$venv/bin/python" -c 'import cryptography, h2' 2> /dev/null; then
  "$venv/bin/pip" install -q cryptography h2==4.4.1
fi
"$venv/bin/python" "$here/fcm_relay.py"
