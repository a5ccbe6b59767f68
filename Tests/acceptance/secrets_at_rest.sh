#!/usr/bin/env bash
# The server seals its own keys in its database, under a key that is not in the database. No password stands in the list of
# processes or in a log line. The server refuses files and folders that others could read or change, and says why.
. "$(dirname "$0")/common.sh"
umask 077

# refused TEXT COMMAND…: the command must fail within 20 s, and TEXT must stand in its output.
refused() {
  local text=$1
  shift
  if timeout 20 "$@" > "$work/out" 2>&1; then fail "$* went through"; fi
  grep -qF -- "$text" "$work/out" || fail "$* said: $(cat "$work/out")"
}
serve=("$unprivileged" "$tidecast" server --dev --data "$data" --listen "127.0.0.1:$port")
# owned FILE…: gives the files to the user that runs servers.
owned() { if [ "$(id -u)" -eq 0 ]; then chown 65534:65534 "$@"; fi; }
# keys: prints the rows of secrets in hexadecimal, each without its checksum.
keys() {
  python3 - "$data/tidecast.db" <<'PYTHON'
import sqlite3, sys
stored = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
for row in [*stored.execute('SELECT key, value FROM "key"'), *stored.execute("SELECT key, value FROM setting")]:
    if row[0] in ("1", "2", "signing-keys", "gossip-key"):
        print(row[0], row[1][8:].hex())
PYTHON
}
# holds FILE…: succeeds where a file of the data folder has a secret of these files in it, or one half of a secret.
holds() {
  python3 - "$data" "$@" <<'PYTHON'
import os, sys
folder, wanted = sys.argv[1], []
for name in sys.argv[2:]:
    for line in open(name):
        value = bytes.fromhex(line.split()[1])[-32:]
        wanted += [value[:16], value[16:]]
assert wanted
found = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names if name != "admin.sock"
         if any(value in open(os.path.join(place, name), "rb").read() for value in wanted)]
print(found)
sys.exit(not found)
PYTHON
}

# known: succeeds where the server still accepts the device's credential.
known() {
  local code
  code=$(curl -s --max-time 3 -o /dev/null -w '%{http_code}' "$url/v1/projects/demo/registrations/$device:listen" \
    -H "Authorization: Bearer $credential" || true)
  [ "$code" = 200 ]
}

# Without a key the secrets stand in the database as they are. With a key, none may be left in any file, also not after kill -9.
start_server
register > "$work/device"
device=$(sed -nE 's/.*"token": ?"([^"]*)".*/\1/p' "$work/device")
credential=$(sed -nE 's/.*"credential": ?"([^"]*)".*/\1/p' "$work/device")
known || fail "the device is not known: $(cat "$work/device")"
"$unprivileged" "$tidecast" key rotate signing --data "$data" > /dev/null
stop_server
keys > "$work/plain"
[ "$(wc -l < "$work/plain")" -eq 2 ] || fail "a server has other secrets: $(cut -d' ' -f1 "$work/plain")"
holds "$work/plain" > /dev/null || fail "the test finds no secret where there is one"
TIDECAST_SECRETS_KEY=$("$tidecast" secrets key -) "$unprivileged" "$tidecast" project list --data "$data" > /dev/null
keys | cmp -s - "$work/plain" || fail "a command has sealed secrets with a key that nobody has kept"
"$tidecast" secrets key "$work/key" > /dev/null
"$tidecast" secrets key "$work/other" > /dev/null
refused 'exists already' "$tidecast" secrets key "$work/key"
[ "$(stat -c %a "$work/key")" = 600 ] || fail "the key's file has mode $(stat -c %a "$work/key")"
owned "$work/key" "$work/other"
start_server --secrets-key-file "$work/key"
grep -q '"stored secrets were sealed again"' "$log" || fail "the log does not say that secrets were sealed"
if holds "$work/plain"; then fail "a secret is left in the data folder while the server runs"; fi
known || fail "the device is not known any more"
"$unprivileged" "$tidecast" audit --data "$data" | contains 'secrets.seal' || fail "the audit log does not say that secrets were sealed"
kill -9 "$server"
wait "$server" 2> /dev/null || true
server=
if holds "$work/plain"; then fail "a secret is left in the data folder after kill -9"; fi
keys | contains -v ' e501' && fail "not sealed: $(keys)"
echo "ok: plain secrets are sealed at the start, and none is left in the folder"

refused 'was given none: give that key to every node, by --secrets-key-file or TIDECAST_SECRETS_KEY' "${serve[@]}"
refused 'was given only' "${serve[@]}" --secrets-key-file "$work/other"
refused 'was given none' "$unprivileged" "$tidecast" project list --data "$data"
TIDECAST_SECRETS_KEY=$(cat "$work/key") "$unprivileged" "$tidecast" project list --data "$data" > /dev/null || fail "a command with the key"
refused 'is not 32 bytes in Base64' env TIDECAST_SECRETS_KEY=c2hvcnQ= "$unprivileged" "$tidecast" server --data "$data"
refused 'not both' env TIDECAST_SECRETS_KEY="$(cat "$work/key")" "$unprivileged" "$tidecast" server --data "$data" --secrets-key-file "$work/key"
grep -qF "$(cat "$work/key")" "$work/out" "$log" && fail "a secrets key is shown"
echo "ok: without the key, or with another one, nobody starts"

# The server changes from one key to the next, and back to no key.
cat "$work/other" "$work/key" > "$work/both"
{ echo plain; cat "$work/other"; } > "$work/back"
owned "$work/both" "$work/back"
keys > "$work/before"
start_server --secrets-key-file "$work/both"
stop_server
keys > "$work/after"
if [ "$(cut -c1-60 "$work/before")" = "$(cut -c1-60 "$work/after")" ]; then fail "the new key sealed nothing"; fi
start_server --secrets-key-file "$work/other"
known || fail "the device is gone with the first key"
"$unprivileged" "$tidecast" key rotate registration --data "$data" > /dev/null
stop_server
keys | contains -v ' e501' && fail "what is made later is not sealed: $(keys)"
start_server --secrets-key-file "$work/back"
stop_server
start_server
known || fail "the device is gone without keys"
stop_server
keys | contains ' e501' && fail "still sealed: $(keys)"
echo "ok: keys are changed, and given up, without a loss"

# A server that has its key from the beginning never writes a secret as it is.
rm -r "$data"
start_server --secrets-key-file "$work/key"
stop_server
keys | contains -v ' e501' && fail "not sealed from the beginning: $(keys)"
echo "ok: with a key from the beginning nothing is ever plain"

# Modes.
chmod 644 "$work/key"
refused "chmod 600 $work/key" "${serve[@]}" --secrets-key-file "$work/key"
chmod 620 "$work/key"
refused 'can be changed by others' "${serve[@]}" --secrets-key-file "$work/key"
chmod 640 "$work/key"
refused 'can be read by others' "${serve[@]}" --secrets-key-file "$work/key"
ln -s "$work/key" "$work/link"
refused 'can be read by others' "${serve[@]}" --secrets-key-file "$work/link"
if [ "$(id -u)" -eq 0 ]; then
  # As Kubernetes and a unit's administrator provide the file: it belongs to root, and the service's group can read it.
  chown 0:65534 "$work/key"
  start_server --secrets-key-file "$work/link"
  stop_server
fi
chmod 644 "$work/key"
start_server --secrets-key-file "$work/key" --loose-modes
stop_server
TIDECAST_LOOSE_MODES=true start_server --secrets-key-file "$work/key"
stop_server
chmod 600 "$work/key"
owned "$work/key"
chmod 755 "$data"
refused "chmod 700 $data" "${serve[@]}" --secrets-key-file "$work/key"
refused "chmod 700 $data" env TIDECAST_SECRETS_KEY_FILE="$work/key" "$unprivileged" "$tidecast" project list --data "$data"
chmod 700 "$data"
"$unprivileged" "$tidecast" cert make --out "$work/certs" --name localhost > /dev/null
chmod 644 "$work/certs/server.key"
refused "chmod 600 $work/certs/server.key" "${serve[@]}" --listen-tls 127.0.0.1:0 --cert "$work/certs/server.pem" --key "$work/certs/server.key"
printf '{"engine": "postgres://a:geheim@127.0.0.1:1/x", "node": "a", "peer": "127.0.0.1:1"}' > "$work/settings.json"
chmod 644 "$work/settings.json"
refused "chmod 600 $work/settings.json" "$tidecast" server --config "$work/settings.json"
printf 'postgres://a:geheim@127.0.0.1:1/x\n' > "$work/engine"
chmod 644 "$work/engine"
refused "chmod 600 $work/engine" "$tidecast" server --engine-file "$work/engine" --node a --peer 127.0.0.1:1
printf 'geheim\n' > "$work/token"
chmod 644 "$work/token"
refused "chmod 600 $work/token" "$tidecast" project list --server http://127.0.0.1:1 --token-file "$work/token"
echo "ok: what others could read or change is refused with the command that mends it"

# Passwords.
cluster=(--node a --peer 127.0.0.1:1)
refused 'TIDECAST_ENGINE or --engine-file' "$tidecast" server --engine postgres://a:geheim@127.0.0.1:1/x "${cluster[@]}"
refused 'TIDECAST_ENGINE or --engine-file' "$tidecast" server --engine 'postgres://a@127.0.0.1:1/x?password=geheim' "${cluster[@]}"
refused 'TIDECAST_FURTHER_ENGINE' "$tidecast" server --engine postgres://a@127.0.0.1:1/x --further-engine postgres://a:geheim@127.0.0.1:1/y "${cluster[@]}"
refused 'TIDECAST_FURTHER_ENGINE' "$tidecast" server --engine postgres://a@127.0.0.1:1/x --further-engine 'host=h password=geheim' "${cluster[@]}"
refused 'TIDECAST_TOKEN or --token-file' "$tidecast" project list --server http://127.0.0.1:1 --token geheim
for wrong in postgres://a:geheim%zz@127.0.0.1:1/x postgres://a:ge@geheim@127.0.0.1:1/x postgres://a:geheim/x@127.0.0.1:1/x; do
  refused 'as %XX' env TIDECAST_ENGINE="$wrong" "$tidecast" server "${cluster[@]}"
  grep -q geheim "$work/out" && fail "a password is shown: $(cat "$work/out")"
done
free=$(free_port)
TIDECAST_ENGINE=postgres://a:geheim@127.0.0.1:1/x "$unprivileged" "$tidecast" server --listen "127.0.0.1:$free" --node a \
  --peer 127.0.0.1:0 2> "$work/waiting" &
children+=($!)
for _ in $(seq 100); do
  if grep -q 'waiting for the database' "$work/waiting"; then break; fi
  sleep 0.1
done
curl -s "http://127.0.0.1:$free/readyz" > "$work/readyz" || true
grep -q 'cannot reach the database' "$work/waiting" || fail "it does not wait: $(cat "$work/waiting")"
tr '\0' ' ' < "/proc/${children[-1]}/cmdline" > "$work/line"
grep -l geheim "$work/waiting" "$work/readyz" "$work/line" && fail "a password is shown"
kill "${children[-1]}"
echo "ok: no password in the list of processes, in a log line or in /readyz"

python3 "$here/secrets_at_rest.py"
