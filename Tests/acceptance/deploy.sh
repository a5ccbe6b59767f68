#!/usr/bin/env bash
# The files of deploy/, as far as they can be tried without what they are for: their syntax, and that what they name is there.
. "$(dirname "$0")/common.sh"
cd "$root"

shellcheck -x -P SCRIPTDIR -S warning deploy/database.sh deploy/failover tools/build tools/start tools/test tools/install-packages tools/unprivileged \
  Tests/*/*.sh
docker-compose -f deploy/compose.yaml config -q
DATABASE_PASSWORD=secret docker-compose -f deploy/compose.replicated.yaml config -q
: > "$work/empty"
if env -u DATABASE_PASSWORD docker-compose --env-file "$work/empty" -f deploy/compose.replicated.yaml config -q 2> "$work/words"; then
  fail "compose.replicated.yaml does without a password"
fi
grep -q 'DATABASE_PASSWORD' "$work/words" || grep -q 'is needed, for the database' "$work/words" || fail "$(cat "$work/words")"
sed "s|/usr/bin/tidecast|$(realpath "$tidecast")|" deploy/tidecast.service > "$work/tidecast.service"
systemd-analyze verify "$work/tidecast.service" 2>&1 | tee "$work/words"
[ ! -s "$work/words" ] || fail "systemd has something to say about tidecast.service"
echo "ok: the shell's, compose's and systemd's own checks"

venv=$root/.build/deploy-venv
if [ ! -x "$venv/bin/python" ]; then python3 -m venv "$venv"; fi
if ! "$venv/bin/python" -c 'import kubernetes_validate' 2> /dev/null; then "$venv/bin/pip" install -q kubernetes-validate; fi
"$venv/bin/kubernetes-validate" --strict --quiet deploy/kubernetes.yaml || fail "kubernetes.yaml"
start_server
"$venv/bin/python" "$here/deploy.py" "$tidecast" "$url"
