"""Today's server opens the data of closed revisions: see formats.sh. `record` makes today's data: see
Tests/formats/make."""
import contextlib
import lzma
import os
import signal
import subprocess
import sys
import time

from formats_demands import acknowledge_much, demand, registered
from formats_store import dump, pack, read_json, restore, unpack, write_json

from system.checks import check, wait
from system.node import Node, making, start
from system.postgres import Database
from system.process import ROOT, DevelopmentServer
from system.world import World

STORED = os.path.join(ROOT, "Tests/formats")


class PatientDatabase(Database):
    """A database whose server may have another time's clock. `pg_ctl -w` would not recognize that server as
    the one it started."""

    def start(self, *how):
        super().start("-W", *how)
        wait(self.is_ready, "the database to be ready")

    def is_ready(self):
        return subprocess.run([f"{self.programs}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)],
                              stdin=subprocess.DEVNULL, check=False).returncode == 0


def server_on(folder):
    """An embedded server whose data folder is `folder`/data."""
    return DevelopmentServer(folder, "--partitions", "4", name="embedded")


def spread_nodes(made, count=2):
    """Makes nodes on two databases, and does not start them."""
    for name in ("home", "other"):
        place = os.path.join(made.folder, name)
        os.mkdir(place)
        made.databases.append(PatientDatabase(place))
    home, other = made.databases
    for number in range(count):
        node = Node(made.folder, f"node-{number + 1}", home, other)
        node.options = ["--partitions", "8"]
        made.nodes.append(node)
    return made.nodes


def record(folder):
    with making() as made:
        server = server_on(made.folder)
        made.nodes.append(server)
        start([server])
        snapshots = os.path.join(server.data, "snapshots")

        def is_snapshot_made():
            return any(name.endswith(".snap") for name in os.listdir(snapshots))
        known = acknowledge_much(server, server, is_snapshot_made)
        server.end(signal.SIGKILL)
        pack(server.data, f"{folder}/embedded-killed.tar.xz")
        start([server])
        check(server.end(signal.SIGTERM) == 0, "the server ended in order")
        pack(server.data, f"{folder}/embedded-ended.tar.xz")
        write_json(f"{folder}/embedded.json", known)
    with making() as made:
        nodes = spread_nodes(made)
        start(nodes)
        wait(lambda: set(nodes[0].owners()) == {"node-1", "node-2"}, "both nodes to own partitions")

        def two_in_parts():
            return any(int(row) > 0 for database in made.databases for row in database.rows(
                "SELECT count(*) FROM (SELECT 1 FROM tidecast.snapshot WHERE chunks > 1 GROUP BY partition"
                          " HAVING count(*) > 1) AS x"))
        known = acknowledge_much(nodes[0], nodes[1], two_in_parts)
        for node in nodes[::-1]:
            check(node.end(signal.SIGTERM) == 0, f"{node.name} left in order")
        for database, name in zip(made.databases, ("home", "other"), strict=True):
            with lzma.open(f"{folder}/{name}.sql.xz", "wt", preset=9, encoding="utf-8") as file:
                file.write(dump(database))
        write_json(f"{folder}/cluster.json", known)


@contextlib.contextmanager
def making_at(recorded):
    """As `making`. All processes started in it have the clock of the recording, since waiting messages
    expire."""
    with making() as made:
        then = World(made.folder)
        then.wall_is_ahead(recorded + 2 - time.time())
        os.environ.update(then.environment)
        try:
            yield made
        finally:
            # The commands that end the processes run with the real clock.
            for name in then.environment:
                del os.environ[name]


def examine(folder, revision):
    known = read_json(f"{folder}/embedded.json")
    for name in ("ended", "killed"):
        print(f"--- {revision}: a data folder, its server {name}", flush=True)
        with making_at(known["recorded"]) as made:
            unpack(f"{folder}/embedded-{name}.tar.xz", made.folder)
            server = server_on(made.folder)
            made.nodes.append(server)
            start([server])
            demand(server, server, known)
            check(server.end(signal.SIGTERM) == 0, "it ended in order")
            start([server])
            check(set(registered(server, "demo")) >= set(known["registered"]), "and begins again")
    known = read_json(f"{folder}/cluster.json")
    print(f"--- {revision}: a cluster's databases", flush=True)
    with making_at(known["recorded"]) as made:
        nodes = spread_nodes(made)
        for database, name in zip(made.databases, ("home", "other"), strict=True):
            with lzma.open(f"{folder}/{name}.sql.xz", "rt", encoding="utf-8") as file:
                restore(database, file.read())
        check(int(made.databases[0].rows("SELECT max(chunks) FROM (SELECT chunks FROM tidecast.snapshot) AS"
                                         " x")[0] or 0) > 1
              or int(made.databases[1].rows("SELECT max(chunks) FROM tidecast.snapshot")[0] or 0) > 1,
              "among what was stored is a snapshot in parts")
        start(nodes)
        wait(lambda: "" not in nodes[0].owners(), "every partition to be owned")
        demand(nodes[0], nodes[1], known)
        for node in nodes:
            check(node.end(signal.SIGTERM) == 0, f"{node.name} left in order")


def main():
    if sys.argv[1:2] == ["record"]:
        return record(sys.argv[2])
    revisions = sorted(name for name in os.listdir(STORED) if os.path.isdir(os.path.join(STORED, name)))
    check(revisions, f"there is data of closed revisions: {', '.join(revisions)}")
    for revision in revisions:
        examine(os.path.join(STORED, revision), revision)
    print("formats: ok")


if __name__ == "__main__":
    main()
