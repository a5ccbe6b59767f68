#!/usr/bin/env bash
# Messages for devices that a Firebase project of the customer's reaches. A server relays to a second server, which stands for
# FCM with its own token host; then to a fake that refuses, throttles and forgets tokens, takes back its access token from
# many messages at once, and stays while the relaying server is killed; and to a browser, for a device with both addresses.
. "$(dirname "$0")/common.sh"
python=$(python_of_tests)
"$python" "$here/fcm_relay.py"
