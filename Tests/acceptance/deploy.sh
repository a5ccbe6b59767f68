#!/usr/bin/env bash
# The files of deploy/, as far as a test can try them without Docker and Kubernetes: their syntax, and that all they name exists.
. "$(dirname "$0")/common.sh"
cd "$root"

shellcheck -x -P SCRIPTDIR -S warning deploy/database.sh deploy/failover deploy/roll deploy/setup.sh tools/build tools/container-engine \
  tools/start tools/test tools/install-packages tools/unprivileged Tests/*/*.sh
# The distribution's older docker-compose does not know the field `name`, and reads the rest of the files.
for file in deploy/compose*.yaml; do
  sed '/^name: /d' "$file" | docker-compose --project-directory deploy -f - config -q || fail "$file"
done
sed "s|/usr/bin/tidecast|$(realpath "$tidecast")|" deploy/tidecast.service > "$work/tidecast.service"
systemd-analyze verify "$work/tidecast.service" 2>&1 | tee "$work/words"
[ ! -s "$work/words" ] || fail "systemd has something to say about tidecast.service"
echo "ok: the shell's, compose's and systemd's own checks"

python=$(python_of_tests)
"$(dirname "$python")/kubernetes-validate" --strict --quiet deploy/kubernetes.yaml || fail "kubernetes.yaml"
"$python" "$here/kube_score.py" deploy/kubernetes.yaml || fail "kubernetes.yaml"
echo "ok: what kube-score wants"
start_server
"$python" "$here/deploy.py" "$tidecast" "$url"
