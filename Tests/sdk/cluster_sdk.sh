#!/usr/bin/env bash
# The official firebase-admin SDK against the cluster of deploy/compose.yaml, over TLS and under FCM's own host names: one backend
# in the namespace of gateway-1, another in the namespace of gateway-2, devices at gateway-3. The script gives the gateways a TLS
# listener, and the hosts files of their namespaces point the names at them. Needs root.
. "$(dirname "$0")/common.sh"
export TIDECAST_CLUSTER=tidesdk TIDECAST_NETWORK=10.79.0
finish() {
  local code=$?
  if [ "$code" -ne 0 ]; then
    for service in gateway-1 gateway-2 shard-1; do
      echo "--- $service"
      "$root/tools/cluster" log "$service" | tail -n 8 || true
    done
  fi
  "$root/tools/cluster" down || true
  rm -rf "$work"
}
trap finish EXIT
make_certificate
/usr/bin/python3 - "$root/deploy/compose.yaml" "$work/certs" > "$work/compose.yaml" <<'PY'
import sys
import yaml
file, certs = yaml.safe_load(open(sys.argv[1])), sys.argv[2]
for name, service in file["services"].items():
    if name.startswith("gateway"):
        service["command"] += ["--listen-tls", "0.0.0.0:443", "--cert", f"{certs}/server.pem", "--key", f"{certs}/server.key"]
print(yaml.safe_dump(file))
PY
"$root/tools/cluster" up --file "$work/compose.yaml" > "$work/up"
for gateway in gateway-1 gateway-2; do echo "127.0.0.1 $names" >> "/etc/netns/$TIDECAST_CLUSTER-$gateway/hosts"; done
tidecast() { "$root/tools/cluster" exec gateway-1 tidecast "$@" --data /run/tidecast/data; }
tidecast project create shop --service-account "$work/sa.json" --token-uri "$token_uri" > /dev/null
export DEVICE_KEY
DEVICE_KEY=$(tidecast project key create shop --kind device --json \
  | python3 -c 'import json, sys; print(json.load(sys.stdin)["key"])')
DEVICES=$(grep -o '^gateway-3: http://.*' "$work/up" | cut -d' ' -f2) CLUSTER="$root/tools/cluster" SPACE=$TIDECAST_CLUSTER \
  SERVICE_ACCOUNT="$work/sa.json" REQUESTS_CA_BUNDLE="$bundle" SSL_CERT_FILE="$bundle" \
  timeout 240 "$python" "$here/cluster_sdk.py"
