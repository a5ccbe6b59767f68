#!/usr/bin/env bash
# An app with the Swift client library, and a cluster of three nodes behind a balancer. The node that carries the app's stream is
# killed with -9, each in turn; a node leaves in order; app and node are killed at once, and the backend ends a subscription behind
# the app's back.
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/swift_client_cluster.py"
