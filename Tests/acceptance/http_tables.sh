#!/usr/bin/env bash
# Two tables of how a server is to behave, row by row in cleartext and over TLS, by clients that know only bytes and frames:
# HTTP/2 (RFC 9113, RFC 7541) and HTTP/1.1 (RFC 9112). And curl asks twice with an upgrade that nobody grants, and sends a
# body that is too long.
. "$(dirname "$0")/common.sh"
for version in 1 2; do
  "$unprivileged" mkdir -m 700 "$work/$version"
  timeout 280 python3 "$here/http${version}_table.py" "$tidecast" "$work/$version"
done
start_server
[ "$(curl -s --http2 --max-time 10 "$url/healthz" "$url/healthz")" = $'ok\nok' ] || fail "curl --http2 was not answered twice"
if curl --version | contains HTTP2; then
  curl -sf --http2-prior-knowledge --max-time 10 -I -o /dev/null "$url/healthz" || fail "HEAD over HTTP/2: curl ended with $?"
fi
# An answer that comes while the body is still on its way is read, whatever the protocol.
head -c 4000000 /dev/zero > "$work/long"
for version in --http1.1 --http2-prior-knowledge; do
  code=$(curl -s "$version" --max-time 20 -o /dev/null -w '%{http_code}' --data-binary "@$work/long" "$url/v1/projects/demo/registrations")
  [ "$code" = 413 ] || fail "$version: a body of 4 MB was answered $code"
done
stop_server
