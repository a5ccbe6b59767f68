#!/usr/bin/env bash
# TLS as clients meet it. TLS 1.2 only with suites of ephemeral keys and authenticated encryption; a certificate for each name;
# new certificates by SIGHUP and by changed files, while a stream goes on. The server refuses an unusable certificate and logs
# why. A session resumes after a restart and after a renewal, and not at a server with another data folder.
. "$(dirname "$0")/common.sh"
make() {
  "$unprivileged" "$tidecast" cert make --force --out "$work/$1" --name "${@:2}" > /dev/null
}
make first localhost
make second two.example '*.two.example'
tls=$(free_port)
while [ "$tls" = "$port" ]; do tls=$(free_port); done
pairs=(--listen-tls "127.0.0.1:$tls" --cert "$work/first/server.pem" --key "$work/first/server.key"
  --further-cert "$work/second/server.pem" --further-key "$work/second/server.key")
start_server "${pairs[@]}"

# client [OPTION…]: makes a handshake, and prints what s_client says of it.
client() { timeout 20 openssl s_client -connect "127.0.0.1:$tls" "$@" < /dev/null 2>&1 || true; }

for suite in ECDHE-ECDSA-AES128-SHA ECDHE-ECDSA-AES256-SHA ECDHE-ECDSA-AES128-SHA256 ECDHE-ECDSA-AES256-SHA384 \
  ECDHE-ECDSA-AES128-CCM AES128-SHA AES128-GCM-SHA256 DHE-RSA-AES128-GCM-SHA256; do
  if client -tls1_2 -cipher "$suite@SECLEVEL=0" | contains "Cipher    : $suite"; then fail "$suite is taken"; fi
done
for suite in ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-CHACHA20-POLY1305; do
  client -tls1_2 -cipher "$suite" | contains "Cipher    : $suite" || fail "$suite is not taken"
done
client -tls1_3 | contains 'New, TLSv1.3, Cipher is TLS_' || fail "TLS 1.3 is not taken"
for version in -tls1 -tls1_1; do
  if client "$version" -cipher 'ALL:@SECLEVEL=0' | contains 'Cipher is ECDHE'; then fail "$version is taken"; fi
done
echo "ok: suites and versions"

# serial NAME: the serial number of the certificate that the server shows for NAME.
serial() { client -servername "$1" | openssl x509 -noout -serial; }
of() { openssl x509 -noout -serial -in "$work/$1/server.pem"; }
shows() { [ "$(serial "$1")" = "$(of "$2")" ] || fail "$1 is not shown the $2 certificate"; }
for name in localhost other.example a.b.two.example; do shows "$name" first; done
for name in two.example www.two.example; do shows "$name" second; done
[ "$(client -noservername | openssl x509 -noout -serial)" = "$(of first)" ] || fail "who names nobody is not shown the first"
echo "ok: a certificate for each name"

# A stream over TLS. The script sends to its device before and after each change.
answer=$(register)
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1" <<< "$answer"; }
token=$(field token)
cp "$work/first/ca.pem" "$work/ca.pem"
: > "$work/stream"
curl -sN --cacert "$work/ca.pem" "https://localhost:$tls/v1/projects/demo/registrations/$token:listen" \
  -H "Authorization: Bearer $(field credential)" > "$work/stream" &
listener=$!
children=("$listener")
heard() {
  local _
  for _ in $(seq 200); do
    if grep -q "$1" "$work/stream"; then return; fi
    sleep 0.05
  done
  fail "the stream did not bring $1: $(cat "$work/stream")"
}
heard '^: listening'
send() {
  curl -sf --max-time 10 -o /dev/null "$url/v1/projects/demo/messages:send" -H 'Authorization: Bearer owner' \
    -d "{\"message\": {\"token\": \"$token\", \"data\": {\"name\": \"$1\"}}}" || fail "a send was refused"
  heard "$1"
}
send before
# told TEXT TIMES: waits until TEXT stands in the log TIMES times or more.
told() {
  local _
  for _ in $(seq 300); do
    if [ "$(grep -cF "$1" "$log")" -ge "$2" ]; then return; fi
    sleep 0.05
  done
  fail "the log does not say $2 times: $1"
}
metric() { curl -sf "$url/metrics" | grep -F "$1" | grep -v '^#' | sed 's/.* //'; }
taken='a new certificate is in use'
refused='a new certificate cannot be used'

make first localhost
kill -HUP "$server"
told "$taken" 1
shows localhost first
send hangup
[ "$(metric tidecast_tls_reloads_total)" = 1 ] || fail "the reload was not counted"
ends=$(date -d "$(openssl x509 -noout -enddate -in "$work/first/server.pem" | cut -d= -f2)" +%s)
said=$(metric "tidecast_tls_certificate_not_after_seconds{file=\"$work/first/server.pem\"}")
[ "$(printf '%.0f' "$said")" = "$ends" ] || fail "the metric says that the certificate ends at $said, not $ends"
echo "ok: by SIGHUP"

make second two.example '*.two.example'
told "$taken" 2
shows www.two.example second
make first localhost
told "$taken" 3
shows localhost first
send changed
echo "ok: by changed files"

before=$(serial localhost)
"$unprivileged" cp "$work/second/server.key" "$work/first/server.key"
told "$refused" 1
told 'server.key is not the key of the certificate in' 1
[ "$(serial localhost)" = "$before" ] || fail "the former certificate is gone"
"$unprivileged" rm "$work/first/server.pem"
kill -HUP "$server"
told 'server.pem: no such file' 1
[ "$(serial localhost)" = "$before" ] || fail "the former certificate is gone"
[ "$(metric tidecast_tls_reloads_failed_total)" -ge 2 ] || fail "refused certificates were not counted"
send broken
make first localhost
told "$taken" 4
shows localhost first
send mended
"$unprivileged" chmod 644 "$work/second/server.key"
told 'server.key can be read by others on this machine (mode 0644)' 1
shows two.example second
"$unprivileged" chmod 600 "$work/second/server.key"
kill -0 "$listener" || fail "the stream was cut"
echo "ok: what cannot be used is refused and told, and the stream went on"
stop_server

# starts_not TEXT OPTION…: the server must not start, and TEXT must stand in its output.
starts_not() {
  local text=$1
  shift
  if "$unprivileged" "$tidecast" server --dev --data "$data" --listen-tls "127.0.0.1:$tls" "$@" > "$work/out" 2>&1; then
    fail "it started with $*"
  fi
  grep -qF -- "$text" "$work/out" || fail "$* said: $(cat "$work/out")"
}
starts_not "$work/none.pem: no such file" --cert "$work/none.pem" --key "$work/first/server.key"
starts_not 'is not the key of the certificate' --cert "$work/first/server.pem" --key "$work/second/server.key"
starts_not 'needs a --further-key' "${pairs[@]:2}" --further-cert "$work/first/server.pem"
echo "ok: a start says what is wrong"

# A session resumes at a server with the same secret (the same data folder, or the same database), and not with another secret.
begin() { # FOLDER: a server on it
  data=$work/$1
  start_server "${pairs[@]}"
}
# resumes FILE WORD VERSION: WORD says what the server must do with the session in FILE: `Reused` or `New`.
resumes() {
  client "$3" -servername localhost -sess_in "$1" | contains "^$2, TLSv" || fail "$3: a session is not $2 here"
}
# until_made FILE: waits until the file has something, at most 10 s.
until_made() { for _ in $(seq 200); do [ -s "$1" ] && return; sleep 0.05; done; }
# keep FILE VERSION: stores a session in FILE, with the ticket that comes after the handshake.
keep() {
  until_made "$1" | timeout 20 openssl s_client -connect "127.0.0.1:$tls" "$2" -servername localhost -sess_out "$1" > "$work/kept" 2>&1 || true
  [ -s "$1" ] || fail "$2: no session was given"
  if openssl sess_id -in "$1" -noout -text | grep -i 'early data' | contains -v ': 0'; then fail "$2: early data is allowed"; fi
}
begin data
for version in -tls1_3 -tls1_2; do
  keep "$work/session$version" "$version"
  resumes "$work/session$version" Reused "$version"
done
stop_server
begin elsewhere
for version in -tls1_3 -tls1_2; do resumes "$work/session$version" New "$version"; done
stop_server
begin data
for version in -tls1_3 -tls1_2; do resumes "$work/session$version" Reused "$version"; done
make first localhost
kill -HUP "$server"
told "$taken" 5
for version in -tls1_3 -tls1_2; do resumes "$work/session$version" Reused "$version"; done
stop_server
echo "ok: sessions resume over a restart and a renewal, and nowhere else"
