"""Snapshots by age on real disks: see snapshot_age.sh."""
import glob
import os
import sqlite3
import time

from system.checks import check, wait
from system.node import Node, making, start
from system.process import DevelopmentServer

AGE_SECONDS = 4
TOPICS, PARTITIONS, ROUNDS = 8, 8, 20
BY_AGE = ["--partitions", str(PARTITIONS), "--snapshot-seconds", str(AGE_SECONDS)]
BY_BYTES = ["--partitions", "1", "--snapshot-seconds", "2592000", "--snapshot-bytes", "65536"]


def send(node, rounds=1, length=100):
    """Sends to topics that nobody has subscribed to: the journal alone keeps these messages."""
    for number in range(rounds * TOPICS):
        message = {"topic": f"topic-{number % TOPICS}", "data": {"n": "x" * length}}
        status, body = node.call("POST", "/v1/projects/demo/messages:send", {"message": message})
        assert status == 200, (status, body)


def journal(node):
    """The rows of a server's journal."""
    with sqlite3.connect(f"file:{node.data}/tidecast.db?mode=ro", uri=True) as database:
        return database.execute("SELECT count(*) FROM journal").fetchone()[0]


def files(node):
    """The files of snapshots, with the moments at which they were written."""
    return {path: os.stat(path).st_mtime_ns for path in glob.glob(f"{node.data}/snapshots/*")}


def shrinks(node, rows, where):
    """The journal gets shorter by time alone: with each second snapshot it begins at the one before."""
    send(node, ROUNDS)
    full = rows()
    for _ in range(2):
        time.sleep(AGE_SECONDS + 2)
        send(node)
    wait(lambda: rows() < full / 2, f"the journal {where} to be trimmed from {full} rows", 30)
    check(True, f"the journal {where} falls from {full} to {rows()} rows")


def alone(made):
    node = DevelopmentServer(made.folder, *BY_AGE)
    made.nodes.append(node)
    start([node])
    shrinks(node, lambda: journal(node), "of a server")
    time.sleep(2 * AGE_SECONDS)
    settled = files(node)
    time.sleep(2 * AGE_SECONDS)
    check(files(node) == settled, f"an idle server writes none of its {len(settled)} snapshots again")
    node.end()
    start([node])
    time.sleep(2 * AGE_SECONDS)
    check(files(node) == settled, "nor after a restart")
    node.end()


def clustered(made):
    folder = os.path.join(made.folder, "cluster")
    os.mkdir(folder)
    database = made.database(folder)
    node = Node(made.folder, "one", database)
    node.options = BY_AGE
    made.nodes.append(node)
    start([node])
    shrinks(node, lambda: int(database.rows("SELECT count(*) FROM tidecast.journal")[0]), "of a cluster")


def by_bytes(made):
    folder = os.path.join(made.folder, "bytes")
    os.mkdir(folder, 0o777)
    os.chmod(folder, 0o777)
    node = DevelopmentServer(folder, *BY_BYTES)
    made.nodes.append(node)
    start([node])
    send(node, ROUNDS)
    check(not files(node), "a short journal has no snapshot within a month")
    send(node, ROUNDS, 1000)
    wait(lambda: files(node), "a snapshot by bytes", 10)
    check(True, "a journal of 64 KiB is")


def main():
    with making() as made:
        alone(made)
        clustered(made)
        by_bytes(made)
        print("snapshot_age: ok")


if __name__ == "__main__":
    main()
