#!/usr/bin/env bash
# Libraries that other authors wrote, unmodified, against a real server under Google's own names: PyFCM, async-firebase,
# google-api-python-client and apprise; Ruby's googleauth with faraday; PHP's curl. All run in a network namespace in which the
# names are 127.0.0.1. Ruby and PHP are Debian's, and their parts are left out where they are missing.
. "$(dirname "$0")/common.sh"
# These libraries have the hosts of tokens as constants.
names="$names oauth2.googleapis.com www.googleapis.com accounts.google.com"
libraries=$python_environments/test-libraries
make_environment "$libraries" "$here/libraries.txt"
enter_namespace
make_certificate
for project in shop other; do
  tidecast project create $project --service-account "$work/$project.json" --token-uri "$token_uri" --data "$work/data" > /dev/null
done
start_at_names
code=0
ip netns exec "$space" env PROJECT=shop DATA="$work/data" PLAIN=http://127.0.0.1:8787 SERVICE_ACCOUNT="$work/shop.json" \
  UNPRIVILEGED="$unprivileged" REQUESTS_CA_BUNDLE="$bundle" SSL_CERT_FILE="$bundle" HTTPLIB2_CA_CERTS="$bundle" \
  timeout 240 "$libraries/bin/python" "$here/libraries.py" || code=$?
if [ "$code" -ne 0 ]; then tail -20 "$work/log"; fi
exit "$code"
