#!/usr/bin/env bash
# A server that gets SIGTERM still answers the requests under way, over HTTP/1.1 and HTTP/2. A request of which only a part has
# come before the SIGTERM gets its answer when the rest has come.
. "$(dirname "$0")/common.sh"

for version in --http1.1 --http2-prior-knowledge; do
  # A server with one event loop reads in the order of arrival, so its answer on /healthz shows that it has read the first part.
  start_server --loops 1
  rm -f "$work/body" "$work/answer"
  mkfifo "$work/body"
  curl -sv "$version" --max-time 20 -o "$work/answer" -w '%{http_code}' -X POST -T - "$url/v1/projects/demo/messages:send" \
    -H 'Authorization: Bearer owner' -H 'Content-Type: application/json' < "$work/body" > "$work/code" 2> "$work/words" &
  client=$!
  exec 4> "$work/body"
  printf '{"message": {"topic": ' >&4
  for _ in $(seq 200); do
    if grep -q '^> POST' "$work/words"; then break; fi
    sleep 0.05
  done
  curl -s -o /dev/null "$url/healthz"
  kill -TERM "$server"
  for _ in $(seq 200); do
    if ! curl -s -o /dev/null --max-time 2 "$url/healthz"; then break; fi
    sleep 0.05
  done
  printf '"news"}}' >&4
  exec 4>&-
  wait "$client" || fail "$version: curl ended with $?, answered $(cat "$work/code")"
  [ "$(cat "$work/code")" = 200 ] || fail "$version: what was under way was answered $(cat "$work/code")"
  code=0
  wait "$server" || code=$?
  server=
  [ "$code" -eq 0 ] || fail "the server ended with $code"
  echo "ok: ${version#--}"
done
