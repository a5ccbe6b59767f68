#!/usr/bin/env bash
# Today's server on data of closed revisions (Tests/formats): a data folder after an orderly end and one after kill -9, and the two
# databases of a cluster. Whatever was acknowledged then holds: devices and their topics, messages that waited, quotas, keys.
. "$(dirname "$0")/common.sh"
python3 "$here/formats.py" "$tidecast"
