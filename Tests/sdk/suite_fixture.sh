#!/usr/bin/env bash
# The fixture for Python's suites in docs/emulator.md, with the official firebase-admin SDK over plain HTTP: no name, port 443 or
# certificate is needed.
. "$(dirname "$0")/../acceptance/common.sh"
python=$(python_of_tests)
"$unprivileged" mkdir -p "$work/bin"
"$unprivileged" ln -s "$TIDECAST" "$work/bin/tidecast"
PATH=$work/bin:$PATH timeout 120 "$python" "$root/Tests/sdk/suite_fixture.py" "$root/docs/emulator.md"
echo "ok: the fixture of docs/emulator.md"
