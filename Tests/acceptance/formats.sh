#!/usr/bin/env bash
# Today's server opens the data of closed revisions (Tests/formats): a data folder after an orderly end, one after kill -9, and
# the two databases of a cluster. All that the earlier server acknowledged must hold: devices and their topics, waiting messages,
# quotas, keys.
. "$(dirname "$0")/common.sh"
python3 "$here/formats.py"
