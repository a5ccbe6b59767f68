#!/usr/bin/env bash
# The Swift client library in an app's process (messaging-sample) against a server process: it subscribes and receives. Server and
# app are killed with -9 in turn, the backend ends subscriptions behind the app's back, the server forgets the device, and the
# network between them drops everything for a while.
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/swift_client.py"
