#!/usr/bin/env bash
# shellcheck disable=SC2154
# A new user's first commands and first mistakes. A project is made only where its service-account file can be written, no
# existing file is replaced, and the URLs in the file are ones that a client can use.
. "$(dirname "$0")/common.sh"

# refused TEXT COMMAND…: the command must fail, and TEXT must stand in its output.
refused() {
  local text=$1
  shift
  if "$@" > "$work/out" 2>&1; then fail "$* went through"; fi
  grep -qF -- "$text" "$work/out" || fail "$* said: $(cat "$work/out")"
}
field() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"; }
on=(--data "$data")
tidecast=("$unprivileged" "$TIDECAST")

silent=$(free_port)
# A server that takes connections and never answers; the last lines of this script look at what the command said.
python3 -c '
import signal, socket, sys
with socket.socket() as silent:
    silent.bind(("127.0.0.1", int(sys.argv[1])))
    silent.listen()
    print("bound", flush=True)
    signal.pause()' "$silent" > "$work/silent" &
children+=("$!")
until grep -q bound "$work/silent"; do kill -0 "${children[0]}" || fail "nothing listens"; sleep 0.05; done
"${tidecast[@]}" topic list --project first --server "http://127.0.0.1:$silent" > "$work/waited" 2>&1 &
waiting=$!
children+=("$waiting")

"${tidecast[@]}" project create first --service-account - "${on[@]}" > "$work/first.json" 2> "$work/said"
[ "$(field "$work/first.json" project_id)" = first ] || fail "standard output has $(cat "$work/first.json")"
grep -q 'project first made' "$work/said" || fail "standard error has $(cat "$work/said")"
echo "ok: a service account on standard output"

echo precious | "$unprivileged" tee "$work/there" > /dev/null
ln -s "$work/elsewhere" "$work/link"
refused 'exists already' "${tidecast[@]}" project create second --service-account "$work/there" "${on[@]}"
refused 'is not a plain file' "${tidecast[@]}" project create second --service-account "$work/link" --force "${on[@]}"
refused 'cannot be written: No such file' "${tidecast[@]}" project create second --service-account "$work/no/file" "${on[@]}"
[ "$(cat "$work/there")" = precious ] || fail "a file was replaced"
"${tidecast[@]}" project list "${on[@]}" | contains second && fail "a project was made whose key is lost"
"${tidecast[@]}" project create second --service-account "$work/there" --force "${on[@]}" > /dev/null
[ "$(stat -c %a "$work/there")" = 600 ] || fail "mode $(stat -c %a "$work/there")"
[ "$(field "$work/there" project_id)" = second ] || fail "not written"
echo "ok: no project without its file, and nothing is replaced unless that is asked for"

refused 'give --yes' "${tidecast[@]}" project delete second "${on[@]}"
refused 'The project does not exist' "${tidecast[@]}" project delete nosuch "${on[@]}"
# on_terminal ANSWER COMMAND…: runs the command on a terminal of its own, and types ANSWER there.
on_terminal() {
  python3 -c 'import os, pty, sys
answer = sys.argv[1].encode() + b"\n"
def typed(descriptor):
    global answer
    line, answer = answer, b""
    return line
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[2:], stdin_read=typed)))' "$@" < /dev/null
}
refused 'nothing was done' on_terminal no "${tidecast[@]}" project delete second "${on[@]}"
"${tidecast[@]}" project list "${on[@]}" | contains second || fail "a project was deleted without consent"
on_terminal second "${tidecast[@]}" project delete second "${on[@]}" > "$work/out" || fail "$(cat "$work/out")"
refused 'does not exist' "${tidecast[@]}" project delete second --yes "${on[@]}"
echo "ok: a project is deleted only by somebody who says so"

"${tidecast[@]}" cert make --out "$work/certificates" --name localhost > /dev/null
sum=$(cat "$work/certificates"/* | cksum)
refused 'give --force' "${tidecast[@]}" cert make --out "$work/certificates" --name localhost
[ "$(cat "$work/certificates"/* | cksum)" = "$sum" ] || fail "certificates were replaced"
refused 'cannot be made' "${tidecast[@]}" cert make --out /proc/certificates --name localhost
for days in 0 36501 9223372036854775807; do
  refused '1 to 36500' "${tidecast[@]}" cert make --out "$work/certificates" --name localhost --force --days "$days"
done
[ "$(cat "$work/certificates"/* | cksum)" = "$sum" ] || fail "certificates were replaced"
echo "ok: certificates are not replaced"

# token_uri OPTION…: the token URI in a service account that a server with these options has made.
token_uri() {
  "${tidecast[@]}" server --data "$data" "$@" 2>> "$log" &
  server=$!
  wait_ready "$url" || fail "the server was not ready within 10 s"
  "${tidecast[@]}" project delete other --yes "${on[@]}" > /dev/null 2>&1 || true
  "${tidecast[@]}" project create other --service-account - "${on[@]}" > "$work/other.json" 2> /dev/null
  stop_server
  field "$work/other.json" token_uri
}
uri=$(token_uri --listen "0.0.0.0:$port")
[ "$uri" = "http://127.0.0.1:$port/token" ] || fail "a server on all addresses names $uri"
uri=$(token_uri --listen "127.0.0.1:$port" --public-url https://push.example.com/)
[ "$uri" = https://push.example.com/token ] || fail "with a public URL it names $uri"
for wrong in push.example.com http:// 'https://exa mple.org' 'https://u:p@example.org' 'https://example.org:0' 'https://example.org?q=1'; do
  refused 'is not an http:// or https:// URL' "${tidecast[@]}" server "${on[@]}" --public-url "$wrong"
  refused 'is not an http:// or https:// URL' "${tidecast[@]}" server "${on[@]}" --token-uri "$wrong"
done
echo "ok: the token URI is one that a client can use"

refused '--dev-anywhere' "${tidecast[@]}" server --dev "${on[@]}" --listen "0.0.0.0:$port"
"${tidecast[@]}" server --dev-anywhere "${on[@]}" --listen "0.0.0.0:$port" 2>> "$log" &
server=$!
wait_ready "$url" || fail "the development server was not ready within 10 s"
grep -q 'anybody who reaches this port may do anything' "$log" || fail "it does not say what it is"
stop_server
echo "ok: a development server beyond loopback says so aloud"

refused 'Invalid topic name. (INVALID_ARGUMENT, at message.topic)' \
  "${tidecast[@]}" send --project first --topic 'bad!' --title x "${on[@]}"
if [ "$(id -u)" = 0 ]; then
  mkdir -m 700 "$work/other"
  refused "admin.sock belongs to another user" "${tidecast[@]}" project list --data "$work/other"
fi
echo "ok: what the server said, and where; another user's server"

push=("${tidecast[@]}" project push)
refused 'The subject is missing' "${push[@]}" web first "${on[@]}"
refused 'cannot be reached from outside' "${push[@]}" web first --subject mailto:a@push.invalid "${on[@]}"
refused 'never had Web Push' "${push[@]}" off first web "${on[@]}"
refused 'never had a push service' "${push[@]}" off first "${on[@]}"
refused 'The project does not exist' "${push[@]}" web nothing --subject mailto:push@example.com "${on[@]}"
key=$("${push[@]}" web first --subject mailto:push@example.com "${on[@]}")
[ "${#key}" = 87 ] || fail "the key for Web Push is $key"
refused 'is no HOST' "${push[@]}" web first --allow-host 'a b' "${on[@]}"
refused 'cannot be read' "${push[@]}" web first --push-ca "$work/none" "${on[@]}"
refused 'no list of certificates' "${push[@]}" web first --push-ca "$work/there" "${on[@]}"
refused 'only one of them' "${push[@]}" web first --ca "$work/certificates/ca.pem" --no-push-ca "${on[@]}"
refused '--ca is for --server' "${push[@]}" status first --ca "$work/certificates/ca.pem" "${on[@]}"
[ "$("${push[@]}" web first --ca "$work/certificates/ca.pem" "${on[@]}")" = "$key" ] || fail "--ca with a data folder is refused"
refused 'must be web, apns, fcm or serve' "${push[@]}" off first pigeons "${on[@]}"
[ "$("${push[@]}" web first --push-ca "$work/certificates/ca.pem" "${on[@]}")" = "$key" ] || fail "the key changed"
"${push[@]}" status first "${on[@]}" | contains "$key" || fail "the status lacks the key"
echo "ok: settings for Web Push, and what is wrong with them"

refused 'has no key for Apple' "${push[@]}" apns first "${on[@]}"
refused 'has no key for Apple' "${push[@]}" off first apns "${on[@]}"
umask 077
"$unprivileged" openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/apple.p8" 2> /dev/null
"$unprivileged" openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$work/rsa.p8" 2> /dev/null
umask 022
"$unprivileged" install -m 644 "$work/apple.p8" "$work/open.p8"
refused 'open.p8' "${push[@]}" apns first --key "$work/open.p8" --key-id ABC123DEFG "${on[@]}"
apple=(--key-id ABC123DEFG --team-id DEF123GHIJ --bundle-id org.example.app)
refused 'key is refused' "${push[@]}" apns first --key "$work/rsa.p8" "${apple[@]}" "${on[@]}"
refused 'key is missing' "${push[@]}" apns first "${apple[@]}" "${on[@]}"
refused 'bundleId is missing' "${push[@]}" apns first --key "$work/apple.p8" --key-id ABC123DEFG --team-id DEF123GHIJ "${on[@]}"
refused '10 capital letters' "${push[@]}" apns first --key "$work/apple.p8" "${apple[@]}" --key-id abc "${on[@]}"
refused 'name a host' "${push[@]}" apns first --key "$work/apple.p8" "${apple[@]}" --ca "$work/certificates/ca.pem" "${on[@]}"
refused 'no HOST or HOST:PORT' "${push[@]}" apns first --key "$work/apple.p8" "${apple[@]}" --host 'a b' "${on[@]}"
[ "$("${push[@]}" apns first --key "$work/apple.p8" "${apple[@]}" "${on[@]}")" = 'apns on' ] || fail "a key of Apple's is refused"
"${push[@]}" apns first --key "$work/apple.p8" "${apple[@]}" --sandbox --host "localhost:1" --ca "$work/certificates/ca.pem" "${on[@]}" > /dev/null
"${push[@]}" status first "${on[@]}" > "$work/push"
grep -q 'org.example.app, production.*api.push.apple.com:443' "$work/push" || fail "the status lacks the key: $(cat "$work/push")"
grep -q 'org.example.app, sandbox.*localhost:1, authorities: own' "$work/push" || fail "the status lacks the sandbox"
refused 'no key for org.example.none' "${push[@]}" off first apns --bundle-id org.example.none "${on[@]}"
refused '--bundle-id is for apns' "${push[@]}" off first web --bundle-id org.example.app "${on[@]}"
refused '--sandbox goes with' "${push[@]}" off first apns --sandbox "${on[@]}"
"${push[@]}" off first apns --bundle-id org.example.app --sandbox "${on[@]}" | contains 'is removed' || fail "a key is not removed"
[ "$("${push[@]}" off first apns "${on[@]}")" = 'apns off' ] || fail "Apple's push service is not switched off"
[ "$("${push[@]}" apns first "${on[@]}")" = 'apns on' ] || fail "Apple's push service is not switched on again"
echo "ok: settings for Apple's push service, and what is wrong with them"

refused 'has no service account' "${push[@]}" fcm first "${on[@]}"
"${tidecast[@]}" project create theirs --service-account "$work/theirs.json" "${on[@]}" > /dev/null
refused 'no JSON' "${push[@]}" fcm first --service-account "$work/apple.p8" "${on[@]}"
refused 'token_uri is refused' "${push[@]}" fcm first --service-account "$work/theirs.json" "${on[@]}"
refused 'not both' "${push[@]}" fcm first --endpoint https://a.example --no-endpoint "${on[@]}"
refused 'https://' "${push[@]}" fcm first --service-account "$work/theirs.json" --endpoint http://localhost:1 "${on[@]}"
"$unprivileged" install -m 600 "$work/theirs.json" "$work/google.json"
"$unprivileged" sed -i 's#"token_uri":"[^"]*"#"token_uri":"https://oauth2.googleapis.com/token"#' "$work/google.json"
[ "$("${push[@]}" fcm first --service-account "$work/google.json" "${on[@]}")" = 'fcm on' ] || fail "a service account is refused"
"${push[@]}" status first "${on[@]}" > "$work/push"
grep -q 'tidecast@theirs.iam.gserviceaccount.com' "$work/push" || fail "the status lacks the account"
grep -q 'PRIVATE' "$work/push" "$log" && fail "a secret is shown"
[ "$("${push[@]}" off first fcm "${on[@]}")" = 'fcm off' ] || fail "the relay is not switched off"
[ "$("${push[@]}" off first "${on[@]}")" = $'web off\napns off\nfcm off' ] || fail "the services are not switched off together"
refused 'never been a push service' "${push[@]}" off first serve "${on[@]}"
refused 'origin is missing' "${push[@]}" serve first "${on[@]}"
refused 'without a path' "${push[@]}" serve first --origin https://push.example.com/ "${on[@]}"
refused 'for localhost only' "${push[@]}" serve first --origin http://push.example.com "${on[@]}"
[ "$("${push[@]}" serve first --origin https://push.example.com "${on[@]}")" = wss://push.example.com/push/first ] \
  || fail "the project is no push service"
[ "$("${push[@]}" off first serve "${on[@]}")" = 'serve off' ] || fail "the project's push service is not switched off"
"${push[@]}" status first "${on[@]}" | contains 'serve  *off' || fail "the status lacks the project's push service"
"${tidecast[@]}" audit "${on[@]}" | contains 'first fcm off' || fail "the audit log lacks the relay"
echo "ok: settings for the relay, and what is wrong with them"

echo > "$work/empty"
refused 'is empty' "${tidecast[@]}" server --engine-file "$work/empty" --node a --peer 127.0.0.1:1
refused 'cannot be read: No such file' "${tidecast[@]}" server --engine-file "$work/none" --node a --peer 127.0.0.1:1
refused "cannot listen on 127.0.0.1:$port: Address already in use" "$(command -v env)" bash -c "
  python3 -c 'import socket, subprocess, sys
busy = socket.socket(); busy.bind((\"127.0.0.1\", $port)); busy.listen()
sys.exit(subprocess.run(sys.argv[1:]).returncode)' '$unprivileged' '$TIDECAST' server --data '$data' --listen 127.0.0.1:$port"
busy=("$(command -v python3)" -c '
import socket, subprocess, sys
with socket.socket() as busy:
    busy.bind(("127.0.0.1", int(sys.argv[1])))
    busy.listen()
    sys.exit(subprocess.run(sys.argv[2:]).returncode)' "$port")
refused 'Address already in use' "${busy[@]}" "${tidecast[@]}" server --data "$work/new" --listen "127.0.0.1:$port"
[ ! -e "$work/new" ] || fail "a start without its port has left a data folder"
echo "ok: a start without its port makes no data folder"

# A process that has the folder, and no admin socket yet.
"$unprivileged" /usr/bin/python3 -c '
import fcntl, os, sys, time
lock = open(sys.argv[1] + "/LOCK", "r+")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(f"{os.getpid()}\n")
lock.flush()
print("held", flush=True)
time.sleep(600)' "$data" > "$work/held" &
server=$!
until grep -q held "$work/held"; do kill -0 "$server" || fail "the lock is not held"; sleep 0.05; done
refused 'is starting or ending, and takes no commands now' "${tidecast[@]}" project list "${on[@]}"
kill "$server"
wait "$server" || true
server=
echo "ok: a command names the process that has its folder and takes no commands"

"${tidecast[@]}" server --dev --data "$data" --listen "127.0.0.1:$port" 2>> "$log" &
server=$!
wait_ready "$url" || fail "the development server was not ready within 10 s"
secret=$("${tidecast[@]}" key create first --kind bearer "${on[@]}")
app=$("${tidecast[@]}" key create first --kind device "${on[@]}")
id=$("${tidecast[@]}" key list first --json "${on[@]}" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["id"])')
refused 'give --yes' "${tidecast[@]}" key revoke "$id" "${on[@]}"
refused 'nothing was done' on_terminal no "${tidecast[@]}" key revoke "$id" "${on[@]}"
refused 'NOT_FOUND' "${tidecast[@]}" key revoke "0$id" "${on[@]}"
"${tidecast[@]}" key list first "${on[@]}" | contains revoked && fail "a credential was ended without consent"
"${tidecast[@]}" key revoke "$id" --yes "${on[@]}" | contains "$id revoked" || fail "a credential is not ended"
refused 'give --yes' "${tidecast[@]}" key retire 1 "${on[@]}"
refused 'no registration key 77' "${tidecast[@]}" key retire 77 "${on[@]}"
echo "ok: a credential ends only by somebody who says so"
over=(--server "$url")
# as TOKEN COMMAND…: the command over the network with this token. Projects of a development server want no key.
as() { TIDECAST_TOKEN=$1 "${tidecast[@]}" "${@:2}" "${over[@]}"; }
stop_server
"${tidecast[@]}" server --data "$data" --listen "127.0.0.1:$port" 2>> "$log" &
server=$!
wait_ready "$url" || fail "the server was not ready within 10 s"
as "$app" device register --project first > "$work/device" || fail "an app's key does not register"
token=$(sed -n 's/^token: //p' "$work/device")
credential=$(sed -n 's/^credential: //p' "$work/device")
refused 'send an API key of the project' as "$secret-wrong" device register --project first
as "$secret" subscribe news "$token" --project first | contains '1 of 1 done' || fail "no subscription over the network"
as "$secret" project quota first | contains '^sendsPerMinute  *600000' || fail "no quotas over the network"
as "$secret" project quota first | contains '^topics  *5000000' || fail "no bound of topics"
"${tidecast[@]}" project quota first --topics 7 "${on[@]}" | contains '^topics  *7$' || fail "the bound of topics is not set"
refused 'must be at least 0' "${tidecast[@]}" project quota first --topics -1 "${on[@]}"
for words in 'cluster status' 'project list' 'project delete first --yes' 'project push status first' 'key list' \
  "subscribe news $token --project first"; do
  # shellcheck disable=SC2086
  refused "needs an operator's token" "${tidecast[@]}" $words "${over[@]}"
  # shellcheck disable=SC2086
  refused "an app's key is not enough" as "$app" $words
done
for wrong in nothing "$token-"; do
  refused "the token is no device's of the project" \
    env "TIDECAST_CREDENTIAL=$credential" "${tidecast[@]}" listen "$wrong" --project first "${over[@]}"
done
refused 'knows no project none' env "TIDECAST_CREDENTIAL=$credential" "${tidecast[@]}" listen "$token" --project none "${over[@]}"
refused 'in the list of processes' "${tidecast[@]}" listen "$token" --credential "$credential" --project first "${over[@]}"
load=(bench subscribe --devices 8 --topics 2 --project first "${over[@]}")
for flag in --token --api-key; do refused 'in the list of processes' "${tidecast[@]}" "${load[@]}" "$flag" x; done
refused '401' "${tidecast[@]}" "${load[@]}"
TIDECAST_TOKEN=$secret TIDECAST_API_KEY=$app "${tidecast[@]}" "${load[@]}" > /dev/null || fail "the load takes no keys from the environment"
(umask 077 && echo "$credential" | "$unprivileged" tee "$work/credential" > /dev/null)
refused 'credential is not' "${tidecast[@]}" listen "$token" --credential-file "$work/there" --project first "${over[@]}"
refused 'known' "${tidecast[@]}" listen "$token" --credential-file "$work/credential" --project first --server http://nobody.invalid
"$unprivileged" mkfifo -m 600 "$work/pipe"
"$unprivileged" sh -c "echo $secret > $work/pipe" &
"${tidecast[@]}" project quota first "${over[@]}" --token-file "$work/pipe" > /dev/null || fail "a secret from a pipe is not read"
refused "$work cannot be read: Is a directory" "${tidecast[@]}" topic list --project first "${over[@]}" --token-file "$work"
refused '/dev/zero has more than 1 MiB' "${tidecast[@]}" topic list --project first "${over[@]}" --token-file /dev/zero
"${tidecast[@]}" project quota first --subscriptions-per-second 0 "${on[@]}" > /dev/null
refused "Quota exceeded for the project's subscription changes. The limit is 0" as "$secret" subscribe news "$token" --project first
grep -q 'try again in' "$work/out" || fail "no delay in $(cat "$work/out")"
for wrong in AAAAAAAAAAAAAAAAAAAAAA "${credential%?}" nothing; do
  refused 'credential is not' env "TIDECAST_CREDENTIAL=$wrong" "${tidecast[@]}" listen "$token" --project first "${over[@]}"
done
for host in push.example.com 127.example.com; do
  refused 'in clear text' env TIDECAST_TOKEN=tco_x "${tidecast[@]}" project list --server "http://$host:1"
done
for command in status 'drain other' 'uncordon other'; do
  # shellcheck disable=SC2086
  refused 'not part of a cluster' "${tidecast[@]}" cluster $command "${on[@]}"
done
"${tidecast[@]}" project quota first --subscriptions-per-second 100 "${on[@]}" > /dev/null
for wrong in nosuchtoken "$token-"; do
  refused "$wrong: no token of this project that this server made" "${tidecast[@]}" subscribe news "$wrong" --project first "${on[@]}"
  [ "$(wc -l < "$work/out")" = 2 ] || fail "an empty line: $(cat "$work/out")"
done
TIDECAST_PROJECT=first "${tidecast[@]}" topic list "${on[@]}" > /dev/null || fail "TIDECAST_PROJECT names no project"
refused 'Name the project by --project ID, or by TIDECAST_PROJECT' "${tidecast[@]}" topic list "${on[@]}"
refused 'none: no such file' env "TIDECAST_CA=$work/none" "${tidecast[@]}" project list --server "https://127.0.0.1:$port"
refused 'give --yes' "${tidecast[@]}" device delete "$token" --project first "${on[@]}"
"${tidecast[@]}" device info "$token" --project first "${on[@]}" > "$work/out" || fail "a device that was not deleted is gone"
: > "$work/stream"
TIDECAST_CREDENTIAL=$credential "${tidecast[@]}" listen "$token" --project first "${over[@]}" > "$work/stream" 2> "$work/ended" &
stream=$!
until grep -q listening "$work/stream"; do kill -0 "$stream" || fail "listen says $(cat "$work/ended")"; sleep 0.05; done
"${tidecast[@]}" device delete "$token" --project first --yes "${on[@]}" > /dev/null
code=0
wait "$stream" || code=$?
[ "$code" = 1 ] || fail "listen ended with $code"
grep -q 'the server has ended the stream' "$work/ended" || fail "listen says $(cat "$work/ended")"
refused '(NOT_FOUND' "${tidecast[@]}" device delete "$token" --project first "${on[@]}"
"${push[@]}" serve first --origin https://push.example.com "${on[@]}" > /dev/null
"${push[@]}" off first "${on[@]}" | contains 'serve stays on' || fail "a service that stays on is not named"
stop_server
echo "ok: an app's key, subscriptions and quotas over the network; wrong credentials; a cluster that is none"

refused 'Give one of --data and --server, not both' "${tidecast[@]}" project list "${on[@]}" --server "$url"
refused 'There is no command servr: did you mean' "${tidecast[@]}" servr
refused 'apple.none cannot be read: No such file' "${push[@]}" apns first --key "$work/apple.none" --key-id ABC123DEFG "${on[@]}"
refused 'with a port from 0 to 65535' "${tidecast[@]}" server "${on[@]}" --listen 127.0.0.1:99999
refused 'TIDECAST_PARTITIONS must be a whole number' env TIDECAST_PARTITIONS=many "${tidecast[@]}" server "${on[@]}"
grep -q Usage: "$work/out" && fail "the usage of another command: $(cat "$work/out")"
echo '{"listen": 7}' | "$unprivileged" tee "$work/kind.json" > /dev/null
refused '"listen" must be an array of texts, such as ["127.0.0.1:8787"], not a whole number' \
  "${tidecast[@]}" server "${on[@]}" --config "$work/kind.json"
echo '{"lissten": []}' | "$unprivileged" tee "$work/kind.json" > /dev/null
refused 'Did you mean "listen"?' "${tidecast[@]}" server "${on[@]}" --config "$work/kind.json"
long=$work/$(printf 'x%.0s' $(seq 120))
refused 'bytes, and a socket'"'"'s has at most 107: use a shorter --data' "${tidecast[@]}" server --data "$long" --listen "127.0.0.1:$port"
refused 'bytes, and a socket'"'"'s has at most 107: use a shorter --data' "${tidecast[@]}" project list --data "$long"
[ ! -e "$long" ] || fail "a start without its socket has left a data folder"
TIDECAST_CLUSTER=x TIDECAST_NETWORK=x TIDECAST_BIND=x TIDECAST_NAMES=x TIDECAST_LISTEM=x \
  "${tidecast[@]}" server "${on[@]}" --listen "0.0.0.0:$port" 2> "$work/warned" &
server=$!
wait_ready "$url" || fail "the server was not ready within 10 s"
stop_server
[ "$(grep -c 'names no setting' "$work/warned")" = 1 ] || fail "it warns of $(grep 'names no setting' "$work/warned")"
grep -q '"meant":"TIDECAST_LISTEN?"' "$work/warned" || fail "it does not say what was meant"
grep -q 'works on this machine only: give --public-url' "$work/warned" || fail "it does not warn of its token URI"
"${tidecast[@]}" config check "${on[@]}" --listen "127.0.0.1:$port" | contains 'the settings are in order' || fail "settings in order are not"
refused 'There is no command confg: did you mean' "${tidecast[@]}" confg
refused '"lissten"' "${tidecast[@]}" config check "${on[@]}" --config "$work/kind.json"
[ "$("${tidecast[@]}" version)" = "$("${tidecast[@]}" --version)" ] || fail "two versions"
"${tidecast[@]}" topic list --help | contains '^SERVER OPTIONS:' || fail "the options of the server are not in a group"
echo "ok: what is wrong is said"

code=0
wait "$waiting" || code=$?
grep -qx 'waiting for the server' "$work/waited" || fail "a command waits in silence: $(cat "$work/waited")"
grep -q 'has not answered for 30 s' "$work/waited" || fail "it said $(cat "$work/waited")"
[ "$code" = 1 ] || fail "it ended with $code"
echo "ok: a command says that it waits, and ends"
