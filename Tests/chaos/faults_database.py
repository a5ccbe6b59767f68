"""Faults of the database, and of the network between the nodes and the database."""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

from faults_network import fenced_since, sessions
from history import operations
from registry import fault
from topology import DATABASE_PORT, MACHINES

from system.postgres import programs

HERE = os.path.dirname(os.path.abspath(__file__))
# In these times all nodes notice that the database has lost its end, and the heirs take what a killed node
# owned.
NOTICED_SECONDS, TAKEN_SECONDS = 4, 8
OURS = "application_name = 'tidecast'"


def postmaster():
    return MACHINES.pid_of("db")


def end_connections(run, where="true"):
    return len(run.database.query(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS} AND {where}"))


@fault("30", "PostgreSQL is killed and started again", seconds=6, limit=12)
def database_killed(run):
    os.kill(postmaster(), signal.SIGKILL)
    # The postmaster's children notice its death and end, as on any machine.
    run.sleep(0.3)
    began = time.monotonic()
    run.until(lambda: MACHINES.pid_of("db") is None, 5)
    MACHINES.start("db")
    run.note(restart=round(time.monotonic() - began, 2))


def setting(run, name, value):
    run.database.query(f"ALTER SYSTEM SET {name} = '{value}'"
                       if value is not None else f"ALTER SYSTEM RESET {name}")
    run.database.query("SELECT pg_reload_conf()")


@fault("32", "the synchronous standby is down: commits wait for it, for longer than any deadline", seconds=32,
       limit=12, may_stop=("*",), broken=("*",))
def standby_down(run):
    setting(run, "synchronous_standby_names", "nobody")
    time.sleep(0.5)
    began = time.monotonic()
    run.sleep()
    ended = time.monotonic()
    # A stream opens without a commit; the acknowledgement in its Last-Event-ID counts only when its record is
    # durable.
    answered = [op for op in operations(run.workload.history.so_far())
                if op["ended"] and began < op["ended"] < ended and op["op"] != "bad"
                and op.get("via") != "listen"]
    run.note(answers_while_it_was_down={status: sum(1 for one in answered if one["status"] == status)
                                        for status in sorted({one["status"] for one in answered})})
    run.demand(not [op for op in answered if op["outcome"] == "ok"], "I6",
               "something was acknowledged that the standby does not have")
    setting(run, "synchronous_standby_names", None)


def relay(run, names, *words):
    """Puts relay.py between some nodes and the database, and ends the nodes' connections so that they connect
    again."""
    process = subprocess.Popen(["ip", "netns", "exec", MACHINES.network.namespace("db"), sys.executable,
                                os.path.join(HERE, "relay.py"), "6432", str(DATABASE_PORT), str(run.seed),
                                *words],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    for name in names:
        run.cluster.in_space("db", "iptables", "-w", "-t", "nat", "-A", "PREROUTING", "-p", "tcp", "-s",
                             run.cluster.address(name), "--dport", str(DATABASE_PORT), "-j", "REDIRECT",
                             "--to-ports",
                             "6432")
        end_connections(run, f"client_addr = '{run.cluster.address(name)}'")
    return process


def unrelay(run, process):
    run.cluster.in_space("db", "iptables", "-w", "-t", "nat", "-F")
    process.stdin.close()
    words = process.stdout.read().strip()
    process.wait(timeout=10)
    return words


@fault("33", "the answer to a commit is lost: a relay cuts the connection after the database has said that it"
             " is done",
       seconds=15, may_stop=("shard-1", "shard-2"))
def reply_lost(run):
    process = relay(run, ["shard-1", "shard-2"], "0.15")
    run.sleep()
    run.note(relay=unrelay(run, process))


@fault("34", "pg_terminate_backend on all connections of all nodes, five times a second", seconds=10,
       may_stop=("*",))
def terminated(run):
    before, count, end = sessions(run), 0, time.monotonic() + run.seconds
    while time.monotonic() < end:
        count += end_connections(run)
        time.sleep(0.2)
    run.note(terminated=count, fenced=fenced_since(run, before))


@fault("35", "an idle transaction holds the row of shard-1's session, and those of sixteen partitions",
       seconds=10, may_stop=("shard-1",))
def held(run):
    before = sessions(run)
    holder = run.database.hold(
        "BEGIN", "SELECT * FROM tidecast.session WHERE alive AND node = 'shard-1' FOR UPDATE",
        "SELECT id FROM tidecast.partition WHERE id < 16 FOR UPDATE")
    waiting = 0
    end = time.monotonic() + run.seconds
    try:
        while time.monotonic() < end:
            rows = run.database.query(f"SELECT count(*) FROM pg_stat_activity WHERE {OURS} AND"
                                      " wait_event_type = 'Lock'")
            waiting = max(waiting, int(rows[0][0]))
            time.sleep(0.5)
    finally:
        holder.kill()
        holder.wait()
        run.database.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                           " WHERE application_name = 'chaos' AND pid <> pg_backend_pid()")
    run.note(most_waiting_at_once=waiting, fenced=fenced_since(run, before))


@fault("36", "all connections of the database are taken by somebody else, and those of the nodes are ended",
       seconds=8, may_stop=("*",), limit=12, broken=("*",))
def exhausted(run):
    before, taken = sessions(run), []
    startup = b"user\0tidecast\0database\0tidecast\0\0"
    startup = struct.pack(">ii", len(startup) + 8, 196608) + startup

    def take():
        """Takes connections until the database refuses one: a connection has its place before the user is
        known."""
        while True:
            link = socket.create_connection((run.cluster.address("db"), DATABASE_PORT), timeout=2)
            link.sendall(startup)
            link.settimeout(2)
            answer = link.recv(4096)
            if answer[:1] != b"R":
                link.close()
                return
            taken.append(link)
    try:
        take()
        holder = run.database.command("-c", "SELECT 1")  # shows that the database refuses this connection too
        refused = subprocess.run(holder[0], env=holder[1], capture_output=True, text=True,
                                 check=False).returncode != 0
        # The driver gives up one place for the statement that ends the nodes' connections.
        taken.pop().close()
        time.sleep(0.2)
        ended = end_connections(run)
        for _ in range(int(run.seconds / 0.2)):
            try:
                take()
            except OSError:
                pass
            time.sleep(0.2)
    finally:
        for link in taken:
            link.close()
    run.note(taken=len(taken), was_full=refused, ended=ended)
    run.until(lambda: _answers(run), 10)
    run.note(fenced=fenced_since(run, before))


def _answers(run):
    try:
        return bool(run.database.query("SELECT 1"))
    except OSError:
        return False


@fault("31", "asynchronous failover: a standby that has not heard of the last seconds is promoted", seconds=4,
       may_stop=("*",), broken=("*",), limit=20)
def failover(run):
    """The changes that were acknowledged between the copy and the failover are lost with the old primary: the
    database has lost durable records. The nodes must notice the loss and say so. All else must hold: the
    changes acknowledged before the copy and after the failover, and the agreement of topics and devices."""
    setting_of = MACHINES.services()["db"]["environment"]
    primary = run.database.folder
    standby = MACHINES.volume("standby")
    as_server = ["runuser", "-u", "postgres", "--"]
    environment = {**os.environ, "PGPASSWORD": setting_of["POSTGRES_PASSWORD"]}
    subprocess.run(["rm", "-rf", standby], check=True)
    since = time.monotonic()
    subprocess.run([*as_server, f"{programs()}/pg_basebackup", "-h", primary, "-U",
                    setting_of["POSTGRES_USER"], "-D",
                    standby, "-X", "stream", "-c", "fast", "-R"], env=environment, check=True,
                   capture_output=True, timeout=30)
    time.sleep(run.seconds)
    last = run.database.sample()
    os.kill(postmaster(), signal.SIGKILL)
    run.until(lambda: MACHINES.pid_of("db") is None, 5)
    # Within this time the nodes answer the operations that the database has committed.
    time.sleep(0.3)
    run.lost(since)
    subprocess.run(["rm", "-rf", primary], check=True)
    subprocess.run([*as_server, "mv", standby, primary], check=True)
    MACHINES.start("db")
    subprocess.run([*as_server, f"{programs()}/pg_ctl", "-D", primary, "-w", "promote"], check=True,
                   timeout=30, capture_output=True)
    new = run.database.sample()
    lost = sum(last[one][3] - new[one][3] for one in last)
    run.note(records_lost_by_the_database=lost,
             partitions=sum(1 for one in last if new[one][3] < last[one][3]))
    time.sleep(NOTICED_SECONDS)
    words = {}
    for node in run.cluster.nodes.values():
        try:
            words[node.name] = node.view(timeout=1)["status"][:80]
        except OSError as error:
            words[node.name] = f"no answer ({error})"[:80]
    run.note(they_say=words)
    # The next owners read what the new primary has.
    places = {node.name: node.log_size() for node in run.cluster.shards}
    run.node("shard-1").kill()
    time.sleep(TAKEN_SECONDS)
    unread = {line for node in run.cluster.shards for line in node.log_since(places[node.name]).splitlines()
              if "could not be read" in line}
    run.note(partitions_that_no_heir_can_read=len({json.loads(line)["partition"] for line in unread}))
