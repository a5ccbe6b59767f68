#!/usr/bin/env bash
# Makes what a cluster of the compose files needs before its first start, and never again. The one-shot service `setup` runs this
# script, which writes into the volume `secrets`. There each file is readable only by the user who needs it:
#
#   database/password      of the user `tidecast` in PostgreSQL; the file is PostgreSQL's
#   node/engine            the database's URL with that password; the nodes'
#   node/ca.pem peer.pem peer.key   mutual TLS between nodes
#   node/secrets.key       the key under which the cluster's own keys are sealed in the database; the nodes'
#   edge/server.pem server.key      the gateways' certificate for clients, for the names in TIDECAST_NAMES; the nodes'
#   edge/ca.pem            the authority of that certificate, which clients must trust; anybody's
#
# `setup edge` makes a new certificate for clients, by a new authority, for other names or when the certificate expires. Gateways
# take it while they run.
set -euo pipefail
umask 077
root=/secrets
node=10001 database=999

make_edge() {
  read -r -a names <<< "${TIDECAST_NAMES:-localhost 127.0.0.1}"
  rm -rf $root/edge.new
  tidecast cert make --out $root/edge.new --name "${names[@]}" > /dev/null
  chmod 0755 $root/edge.new
  chmod 0644 $root/edge.new/ca.pem
  chmod 0400 $root/edge.new/server.*
  chown $node:$node $root/edge.new/server.*
  rm -rf $root/edge
  mv $root/edge.new $root/edge
  echo "setup: the certificate for clients is for ${names[*]}"
}

case ${1:-} in
  edge) make_edge; exit ;;
  '') ;;
  *) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

if [ -e $root/made ]; then
  echo "setup: the first start made all passwords and certificates"
  exit
fi
# An earlier try may have ended half-way. Nothing has started on the files that such a try left.
rm -rf $root/database $root/node
mkdir $root/database $root/node
password=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')
printf '%s' "$password" > $root/database/password
printf 'postgres://tidecast:%s@%s\n' "$password" "${DATABASE:-db/tidecast}" > $root/node/engine
# One certificate for all nodes, whose names are not known before they start. The authority signs nothing more.
tidecast cert make --cluster --out $root/node > /dev/null
rm $root/node/ca.key
tidecast secrets key $root/node/secrets.key > /dev/null
make_edge
chmod 0400 $root/database/* $root/node/*
chmod 0755 $root $root/database $root/node
chown $database:$database $root/database/*
chown $node:$node $root/node/*
touch $root/made
echo "setup: made the database's password, the nodes' certificates and the secrets key"
