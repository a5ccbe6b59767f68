#!/usr/bin/env bash
# One of several PostgreSQL servers. The primary takes writes, and acknowledges a commit only when one of the standbys has it on
# its disk too. compose.replicated.yaml runs this script in the standard `postgres` image, and tools/cluster runs it without.
#
#   database.sh run        makes what the server needs, then becomes the server; asks the others whether it is a standby
#   database.sh state      "primary", or "standby", how far it has come, and "following" while it gets more from a primary
#   database.sh promote    makes a standby the primary. Never call it alone: deploy/failover does what must come first
#   database.sh followers  the number of standbys that can acknowledge this primary's commits
#
# DATABASE_NAME is this server's name, DATABASE_SERVERS has the names of all. PGDATA is this server's folder, and need not exist.
set -euo pipefail
# As in the standard image, the password may be in a file.
if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then POSTGRES_PASSWORD=$(< "$POSTGRES_PASSWORD_FILE"); fi
: "${DATABASE_NAME:?}" "${DATABASE_SERVERS:?}" "${POSTGRES_USER:?}" "${POSTGRES_PASSWORD:?}" "${POSTGRES_DB:?}" "${PGDATA:?}"
# libpq reads the password, also where this server is a client of its primary. So the password stands in no command line.
export PGPASSWORD=$POSTGRES_PASSWORD PGCONNECT_TIMEOUT=3

others=()
for server in $DATABASE_SERVERS; do
  if [ "$server" != "$DATABASE_NAME" ]; then others+=("$server"); fi
done
hosts=$(IFS=,; echo "${others[*]}")
# libpq tries the others until it finds the primary. So each standby finds the new primary after a failover.
primary="host=$hosts user=$POSTGRES_USER target_session_attrs=read-write"

ask() { psql -XAtq -d "$1" -c "$2"; }
ask_here() { ask "host=127.0.0.1 user=$POSTGRES_USER dbname=postgres" "$1"; }
say() { echo "database $DATABASE_NAME: $*" >&2; }
is_there_a_primary() { ask "$primary dbname=postgres" 'SELECT 1' > /dev/null 2>&1; }

# newest_of_others: the highest timeline that any of the others knows; each failover begins a new one.
newest_of_others() {
  local server
  for server in "${others[@]}"; do
    ask "host=$server user=$POSTGRES_USER dbname=postgres" "SELECT coalesce(max(left(name, 8)), '00000001')
      FROM pg_ls_waldir() WHERE name LIKE '%.history'" 2> /dev/null || true
  done | sort | tail -n 1
}

# A server has a history file for each timeline that it knows, but for the first. The name begins with eight hexadecimal digits.
own_timeline() {
  local newest
  newest=$(find "$PGDATA/pg_wal" -name '*.history' -printf '%f\n' | sort | tail -n 1)
  echo "${newest:-00000001}" | cut -c -8
}

# The script makes each folder under another name and renames it when it is whole, so that an end in the middle leaves no half.
make_database() {
  say "makes a new database"
  rm -rf "$PGDATA.new"
  initdb -D "$PGDATA.new" -U "$POSTGRES_USER" -E UTF8 -A scram-sha-256 --data-checksums \
    --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") > /dev/null
  printf '%s\n' 'host all all all scram-sha-256' 'host replication all all scram-sha-256' >> "$PGDATA.new/pg_hba.conf"
  postgres --single -D "$PGDATA.new" postgres <<< "CREATE DATABASE \"$POSTGRES_DB\"" > /dev/null
  mv "$PGDATA.new" "$PGDATA"
}

copy_primary() {
  say "copies the primary's database"
  rm -rf "$PGDATA.new"
  pg_basebackup -d "$primary" -D "$PGDATA.new" -X stream -c fast
  touch "$PGDATA.new/standby.signal"
  if [ -e "$PGDATA" ]; then
    rm -rf "$PGDATA.before"
    mv "$PGDATA" "$PGDATA.before"
  fi
  mv "$PGDATA.new" "$PGDATA"
}

# task SECONDS: "start" when PGDATA has what this server is to be, "copy" or "make" when that is to be done first, else "wait".
task() {
  # A standby stays one, and looks for the primary for as long as it runs.
  if [ -e "$PGDATA/standby.signal" ]; then echo start; return; fi
  # Else this server is new, or a former primary: commits that the new primary lacks were never acknowledged.
  if is_there_a_primary; then echo copy; return; fi
  local newest
  newest=$(newest_of_others)
  if [ -e "$PGDATA" ]; then
    # A primary without standbys acknowledges nothing, so this server loses nothing by waiting for the others' timelines.
    if [[ -n $newest && $newest > $(own_timeline) ]] || [[ -z $newest && $1 -lt 30 ]]; then echo wait; else echo start; fi
  elif [ -z "$newest" ] && [ "$DATABASE_NAME" = "${DATABASE_SERVERS%% *}" ] && [ ! -e "$PGDATA.before" ]; then
    echo make
  else
    echo wait
  fi
}

run() {
  # A shell that is a container's first process would not end by itself.
  trap 'exit 0' INT TERM
  umask 077
  SECONDS=0
  local next waited=
  while :; do
    next=$(task "$SECONDS")
    case $next in
      copy) copy_primary; break ;;
      make) make_database; break ;;
      start) break ;;
    esac
    if [ -z "$waited" ]; then say "waits for the others"; waited=yes; fi
    sleep 1
  done
  local names
  names=$(printf ', "%s"' "$DATABASE_NAME" "${others[@]}")
  # The list is the same on all servers, since each may become the primary. A server's own name in the list does no harm.
  exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories= -c max_connections=200 \
    -c cluster_name="$DATABASE_NAME" -c synchronous_standby_names="ANY 1 (${names:2})" \
    -c primary_conninfo="$primary connect_timeout=3" -c wal_keep_size=1GB -c wal_retrieve_retry_interval=1s \
    -c wal_receiver_timeout=10s -c wal_sender_timeout=10s "${@}"
}

case ${1:-} in
  run) shift; run "$@" ;;
  state)
    ask_here "SELECT CASE WHEN pg_is_in_recovery() THEN 'standby ' || pg_wal_lsn_diff(
      greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0')
      || (SELECT CASE WHEN count(*) > 0 THEN ' following' ELSE '' END FROM pg_stat_wal_receiver) ELSE 'primary' END" ;;
  promote) [ "$(ask_here 'SELECT pg_promote(true, 60)')" = t ] ;;
  followers) ask_here "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('quorum', 'sync')" ;;
  *) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
