#!/usr/bin/env bash
# Nodes authenticate each other by certificates of their own; the authority's kept key signs a certificate later. A node does not
# start with another node's certificate. Nodes refuse a node whose certificate names no node, and the operators of both sides read
# why. Nodes read changed certificates without cutting a connection. Without TLS, a node does not talk to a client that lacks the
# cluster's key, and refuses recorded gossip that is sent again (needs root, to record gossip).
#
#   Tests/acceptance/cluster_certificates.sh [BINARY]
. "$(dirname "$0")/common.sh"
TIDECAST=${1:-$tidecast} python3 "$here/cluster_certificates.py"
