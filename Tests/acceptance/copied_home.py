"""Copies of a home database meet the original's further database: see copied_home.sh."""
import os
import re
import signal
import time

from cluster_copy import Files, Traffic, gone, restore

from system.checks import check, wait
from system.node import Node, making, start

# The refusal of a copy that the original's nodes contradict comes within 20 s on an idle machine.
REFUSED_SECONDS = 90
# Longer than the leases of a database that may be taken are watched.
SETTLED_SECONDS = 8
# No node that has partitions to move waits this long.
MOVED_SECONDS = 2


class Cluster:
    """The original: two nodes on a home and a further database, and traffic through them."""

    def __init__(self, made):
        self.made = made
        self.home, self.other = (self.database(name) for name in ("home", "other"))
        self.nodes = [Node(made.folder, name, self.home, self.other) for name in ("n1", "n2")]
        made.nodes += self.nodes
        start(self.nodes)
        self.traffic = Traffic(self.nodes[0])
        self.traffic.deliver("before any copy")

    def folder(self, name):
        place = os.path.join(self.made.folder, name)
        os.mkdir(place)
        return place

    def database(self, name):
        return self.made.database(self.folder(name))

    def dump(self, original, name):
        """A dump of the database `original`, restored into a server of its own."""
        database = self.database(name)
        restore(original, database.client("psql", "-Xq"))
        return database

    def files(self, original, name):
        """A copy of the files of the server of `original`."""
        database = Files(original, self.folder(name))
        self.made.databases.append(database)
        return database

    def node(self, name, home, other):
        """A node that has the name of one of the original, on these databases."""
        node = Node(self.made.folder, name, home, other)
        node.name = "n1"
        self.made.nodes.append(node)
        return node

    def taken(self):
        """The owners in the further database, and the sessions that may write there."""
        return self.other.rows("SELECT id, owner, epoch FROM tidecast.partition ORDER BY id") + \
            self.other.rows("SELECT id, node FROM tidecast.session WHERE alive ORDER BY id")

    def settled(self):
        """What is taken, once the original's nodes move no partitions between them."""
        before, now = None, self.taken()
        while now != before:
            time.sleep(MOVED_SECONDS)
            before, now = now, self.taken()
        return now

    def end(self, number=signal.SIGKILL):
        for node in self.nodes:
            node.end(number)


def life(node):
    """The identity that the newest refusal in the node's log names as the one to adopt."""
    return re.findall("--adopt-from ([0-9a-f]{32})", node.log_text())[-1]


def refused(cluster, node, what):
    """Starts the node, which must end with a sentence, and must have changed nothing."""
    before = cluster.settled()
    node.options = []
    node.start()
    code = node.process.wait(timeout=REFUSED_SECONDS)
    last = node.log_text().splitlines()[-1]
    if code != 1 or "belongs to another home" not in last:
        raise SystemExit(f"FAIL: {what} ends with {code}: {last}")
    check(cluster.taken() == before, f"{what} is refused, and has taken and fenced nothing")
    return life(node)


def beside(cluster, copies):
    """Copies of the home start while the original serves."""
    before = gone(cluster.nodes)
    found = set()
    for node, what in copies:
        found.add(refused(cluster, node, f"{what} beside the original"))
        cluster.traffic.deliver(f"after {what} was refused")
    check(len(found) == 1, f"all name the original's home: {found}")
    check(gone(cluster.nodes) == before and all(node.is_ready() for node in cluster.nodes),
          "no node of the original is taken for gone, and all are ready")


def alone(cluster, copies):
    """The same copies start while no node of the original runs. Returns a copy of both databases."""
    cluster.end()
    whole = [cluster.dump(database, f"whole-{name}")
             for database, name in ((cluster.home, "home"), (cluster.other, "other"))]
    for node, what in copies:
        refused(cluster, node, f"{what} alone")
    start(cluster.nodes)
    cluster.traffic.deliver("after the original came back")
    check(True, "the original comes back and has everything")
    return whole


def away(cluster, node):
    """The original and a copy start while the further database is away, and reach it later."""
    cluster.end()
    before = cluster.taken()
    cluster.other.stop()
    start([node])
    cluster.other.start()
    wait(lambda: "belongs to another home" in node.log_text().splitlines()[-1],
         "the copy to reach the database")
    time.sleep(SETTLED_SECONDS)
    check(node.metrics()["tidecast_databases_away"] == 1 and cluster.taken() == before,
          "for a copy that reaches it later the database stays away")
    node.kill()
    cluster.other.stop()
    start(cluster.nodes)
    cluster.other.start()
    wait(lambda: "" not in cluster.nodes[0].owners(), "everything to be owned again")
    cluster.traffic.deliver("after the original reached the database later")
    check(True, "the original takes it when it reaches it")


def whole_copy(cluster, databases):
    """A copy of both databases of one moment lives beside the original."""
    node = cluster.node("whole", *databases)
    start([node])
    Traffic(node).deliver("at the copy of both databases")
    cluster.traffic.deliver("beside the copy of both databases")
    check(True, "a copy of both databases serves beside the original")
    node.end(signal.SIGKILL)


def hand_over(cluster, node):
    """The operator's word gives the further database to a copy, and then back to the original."""
    node.options = [f"--adopt-from={refused(cluster, node, 'a copy with the word of nobody')}"]
    node.start()
    check(node.process.wait(timeout=REFUSED_SECONDS) == 1
          and "still renew their leases" in node.log_text().splitlines()[-1],
          "nothing is handed over while the original's nodes live")
    cluster.traffic.deliver("after the word came too early")
    cluster.end(signal.SIGTERM)
    start([node])
    Traffic(node).deliver("at the copy that has taken the further database over")
    check(True, "a copy has the further database by the operator's word")
    one, two = cluster.nodes
    foreign = refused(cluster, one, "the original while the copy has its further database")
    node.end(signal.SIGTERM)
    one.options = two.options = [f"--adopt-from={foreign}"]
    start(cluster.nodes)
    wait(lambda: "" not in one.owners(), "everything to be owned again")
    cluster.traffic.deliver("after the original took its further database back")
    check(True, "the original has taken it back")
    node.options = [f"--adopt-from={'0' * 32}"]
    refused(cluster, node, "a copy with an earlier word")


def main():
    with making() as made:
        cluster = Cluster(made)
        dump = cluster.node("dump", cluster.dump(cluster.home, "dump-home"), cluster.other)
        files = cluster.node("files", cluster.files(cluster.home, "files-home"), cluster.other)
        copies = [(dump, "a dump of the home"), (files, "a copy of the home's files")]
        beside(cluster, copies)
        whole_copy(cluster, alone(cluster, copies))
        away(cluster, dump)
        hand_over(cluster, dump)
        print("copied_home: ok")


if __name__ == "__main__":
    main()
