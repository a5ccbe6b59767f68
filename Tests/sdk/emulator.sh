#!/usr/bin/env bash
# A backend's own tests against a development server: the official firebase-admin SDK, unmodified, under FCM's host names, and the
# emulator's own calls (docs/emulator.md).
. "$(dirname "$0")/common.sh"
enter_namespace
make_certificate
ip netns exec "$space" "$unprivileged" "$TIDECAST" server --dev --data "$work/data" --listen 127.0.0.1:8787 \
  --listen-tls 127.0.0.1:443 --cert "$work/certs/server.pem" --key "$work/certs/server.key" 2> "$work/log" &
server=$!
wait_until_ready
code=0
ip netns exec "$space" env PROJECT=shop PLAIN=http://127.0.0.1:8787 DEVICE_KEY=none \
  REQUESTS_CA_BUNDLE="$bundle" SSL_CERT_FILE="$bundle" HTTPLIB2_CA_CERTS="$bundle" \
  timeout 120 "$python" "$here/emulator.py" || code=$?
if [ "$code" -ne 0 ]; then tail -20 "$work/log"; fi
exit "$code"
