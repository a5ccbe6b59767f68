# shellcheck shell=bash disable=SC2034
# The Python of the tests, with all that requirements.txt names: `. …/system/python.sh`, then `python=$(python_of_tests)`. Every
# script has the same environment, so none depends on what another installed before. Scripts that run at the same time wait for
# the one that installs.
python_requirements=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/requirements.txt
python_environments=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.build

# make_environment FOLDER FILE: makes the environment, unless it was made of the same file before.
make_environment() {
  if cmp -s "$2" "$1/made-of"; then return; fi
  (
    flock 9
    if cmp -s "$2" "$1/made-of"; then exit 0; fi
    rm -rf "$1"
    python3 -m venv "$1" && "$1/bin/pip" install -q -r "$2" && cp "$2" "$1/made-of"
  ) 9> "$1.lock" >&2
}
# python_of_tests: prints the path of the Python.
python_of_tests() {
  mkdir -p "$python_environments"
  make_environment "$python_environments/test-python" "$python_requirements" || return
  echo "$python_environments/test-python/bin/python"
}
# python_with VERSION: the same with only this version of firebase-admin.
python_with() {
  local folder=$python_environments/firebase-admin-$1
  echo "firebase-admin==$1" > "$folder.txt"
  make_environment "$folder" "$folder.txt" || return
  echo "$folder/bin/python"
}
