#!/usr/bin/env bash
# Runs the official firebase-admin SDK against a real server over TLS, under FCM's own host names: the newest version, and two
# older ones that manage topics over the Instance ID API. All run in a network namespace whose hosts file points the names at
# 127.0.0.1, so nothing else on this machine is touched.
. "$(dirname "$0")/common.sh"
tidecast() { "$unprivileged" "$TIDECAST" "$@"; }
enter_namespace
make_certificate
tidecast project create shop --service-account "$work/sa.json" --token-uri "$token_uri" --data "$work/data" > /dev/null
tidecast project create other --service-account "$work/other.json" --data "$work/data" > /dev/null
TIDECAST_FAILPOINT=send.answers ip netns exec "$space" "$unprivileged" "$TIDECAST" server --data "$work/data" --listen 127.0.0.1:8787 \
  --listen-tls 127.0.0.1:443 --cert "$work/certs/server.pem" --key "$work/certs/server.key" 2> "$work/log" &
server=$!
wait_until_ready
export DEVICE_KEY BEARER FOREIGN_TOKEN
DEVICE_KEY=$(tidecast project key create shop --kind device --data "$work/data")
BEARER=$(tidecast project key create shop --kind bearer --data "$work/data")
FOREIGN_TOKEN=$(tidecast device register --project other --json --data "$work/data" | python3 -c 'import json,sys; print(json.load(sys.stdin)["token"])')
# `newest` must come last, since its script spends the project's quota.
code=0
for version in 7.6.0 6.9.0 newest; do
  echo "--- firebase-admin $version"
  chosen=$python
  script=$here/admin_sdk.py
  if [ "$version" != newest ]; then
    chosen=$(python_with "$version")
    script=$here/older_sdk.py
  fi
  ip netns exec "$space" env PROJECT=shop DATA="$work/data" TIDECAST="$TIDECAST" PLAIN=http://127.0.0.1:8787 SERVICE_ACCOUNT="$work/sa.json" \
    REQUESTS_CA_BUNDLE="$bundle" SSL_CERT_FILE="$bundle" HTTPLIB2_CA_CERTS="$bundle" \
    timeout 240 "$chosen" "$script" "$version" || code=$?
done
if [ "$code" -ne 0 ]; then tail -20 "$work/log"; fi
exit "$code"
