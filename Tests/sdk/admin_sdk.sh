#!/usr/bin/env bash
# Runs the official firebase-admin SDK against a real server over TLS, under FCM's own host names: the newest version, and two
# older ones that manage topics over the Instance ID API. All run in a network namespace whose hosts file points the names at
# 127.0.0.1, so nothing else on this machine is touched.
. "$(dirname "$0")/common.sh"
enter_namespace
make_certificate
tidecast project create shop --service-account "$work/sa.json" --token-uri "$token_uri" --data "$work/data" > /dev/null
tidecast project create other --service-account "$work/other.json" --data "$work/data" > /dev/null
TIDECAST_FAILPOINT=send.answers start_at_names
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
