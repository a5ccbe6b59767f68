#!/usr/bin/env bash
# Two tables of rules for a server: HTTP/2 (RFC 9113, RFC 7541) and HTTP/1.1 (RFC 9112). Clients that know only bytes and frames
# try each row in cleartext and over TLS. curl also asks twice with an upgrade that the server does not grant, and sends a body
# that is too long.
. "$(dirname "$0")/common.sh"
for version in 1 2; do
  "$unprivileged" mkdir -m 700 "$work/$version"
  timeout 280 python3 "$here/http${version}_table.py" "$work/$version"
done
start_server
[ "$(curl -s --http2 --max-time 10 "$url/healthz" "$url/healthz")" = $'ok\nok' ] || fail "curl --http2 was not answered twice"
if curl --version | contains HTTP2; then
  curl -sf --http2-prior-knowledge --max-time 10 -I -o /dev/null "$url/healthz" || fail "HEAD over HTTP/2: curl ended with $?"
fi
# curl must read an answer that comes while the body is still on its way, over both protocols.
head -c 4000000 /dev/zero > "$work/long"
for version in --http1.1 --http2-prior-knowledge; do
  code=$(curl -s "$version" --max-time 20 -o /dev/null -w '%{http_code}' --data-binary "@$work/long" "$url/v1/projects/demo/registrations")
  [ "$code" = 413 ] || fail "$version: a body of 4 MB was answered $code"
done
stop_server
