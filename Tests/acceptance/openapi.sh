#!/usr/bin/env bash
# The OpenAPI document of a server is valid, and every recorded request of an SDK (Tests/conformance/recordings) is one of its
# operations, with a body of its schema.
. "$(dirname "$0")/common.sh"
python=$(python_of_tests)
start_server
curl -sf "$url/v1/openapi.json" > "$work/openapi.json"
"$python" "$here/openapi.py" "$work/openapi.json" "$root/Tests/conformance/recordings"
