"""Copies of a cluster's database meet the original: see cluster_copy.sh."""
import os
import subprocess
import time

from system.checks import check, wait
from system.device import Device, register, subscribe
from system.node import Node, making, start
from system.postgres import Database
from system.process import BACKEND

TOPICS = 24
# A copy's gossip took the original down within five seconds.
BESIDE_SECONDS = 12


class Clone:
    """Another database in the server of `original`, with all that `original` holds."""

    def __init__(self, original, name):
        address = ["-h", "127.0.0.1", "-p", str(original.port), "-U", "tidecast"]
        original.run("createdb", *address, name)
        self.url = original.url.rsplit("/", 1)[0] + "/" + name
        restore(original, [f"{original.programs}/psql", *address, "-Xqd", name])


class Files(Database):
    """A copy of the files of the server of `original`, on the same timeline."""

    def __init__(self, original, folder):
        self.original = original
        super().__init__(folder)

    def fill(self):
        self.run("pg_basebackup", "-h", "127.0.0.1", "-p", str(self.original.port), "-U", "tidecast", "-D",
                 f"{self.folder}/data", "-c", "fast")
        self.start()


def restore(original, client):
    """Writes a dump of the original into the database to which `client`, a command of psql, connects."""
    dump = subprocess.run(original.client("pg_dump"), check=True, stdin=subprocess.DEVNULL,
                          capture_output=True).stdout
    subprocess.run(client, input=dump, check=True, stdout=subprocess.DEVNULL)


class Traffic:
    """One device for each topic, and numbered messages to all topics."""

    def __init__(self, node):
        self.node, self.number, self.devices = node, 0, []
        for topic in range(TOPICS):
            registration = register(node)
            subscribe(node, f"t{topic}", [registration["token"]])
            self.devices.append(Device(node, registration))

    def send(self, node=None):
        """Sends one message to each topic. Ends the test where one is refused."""
        self.number += 1
        for topic in range(TOPICS):
            message = {"topic": f"t{topic}", "data": {"n": str(self.number)}}
            status, body = (node or self.node).call("POST", "/v1/projects/demo/messages:send",
                                                    {"message": message}, BACKEND)
            assert status == 200, (topic, status, body)
        return self.number

    def deliver(self, what):
        number = self.send()
        wait(lambda: all(number in device.seen for device in self.devices), f"{TOPICS} topics {what}")
        return number


def gone(nodes):
    """What the nodes' logs say about nodes that are gone."""
    return [line for node in nodes for line in node.log_text().splitlines()
            if any(word in line for word in ("a node has left", "a node is dead", "cut off"))]


def refusals(nodes):
    """What the nodes have refused of links and of gossip so far."""
    return sum(node.metrics()[f"tidecast_{of}_refused_total"] for node in nodes for of in ("peer", "gossip"))


def beside(made, original, traffic, database, how):
    """Runs two nodes on a copy beside the original, one of which has the name of a node of the original."""
    before, refused = gone(original), refusals(original)
    copies = [Node(made.folder, name, database) for name in ("n1-of-" + how, "new-of-" + how)]
    copies[0].name = "n1"
    made.nodes += copies
    for copy in copies:
        copy.options += [f"--join=127.0.0.1:{node.peer}" for node in original]
    start(copies)
    wait(lambda: len(copies[0].status()["members"]) == 2, "the copy to count its own two nodes only", 60)
    end = time.monotonic() + BESIDE_SECONDS
    rounds = 0
    while time.monotonic() < end:
        traffic.deliver(f"beside the copy ({how})")
        rounds += 1
    check(rounds > 0, f"all {TOPICS} topics deliver beside the copy ({how}), {rounds} times")
    check(gone(original) == before, f"no node of the original is taken for gone: {gone(original)}")
    check(all(node.asked("/readyz")[0] == 200 for node in original), "all nodes of the original are ready")
    check(refusals(original) > refused, f"the original counts what came from the copy: {refused} before, and"
          f" now {refusals(original)}")
    foreign = traffic.send(copies[1])
    for copy in copies:
        copy.kill()
    traffic.deliver(f"when the copy ({how}) has ended")
    check(True, f"all {TOPICS} topics deliver when the copy ({how}) has ended")
    check(all(foreign not in device.seen for device in traffic.devices),
          "what the copy accepted reached none of the original's devices")


def main():
    with making() as made:
        database, nodes = made.cluster("n1", "n2", "n3")
        original = list(nodes)
        start(original)
        traffic = Traffic(original[0])
        traffic.deliver("before any copy")
        beside(made, original, traffic, Clone(database, "clone"), "clone")
        other = made.database(f"{made.folder}/certificates")
        restore(database, other.client("psql", "-Xq"))
        beside(made, original, traffic, other, "dump")
        os.mkdir(f"{made.folder}/files")
        made.databases.append(Files(database, f"{made.folder}/files"))
        beside(made, original, traffic, made.databases[-1], "files")
        made.nodes[1].kill()
        made.nodes[1].start()
        made.nodes[1].wait_ready()
        traffic.deliver("after a node of the original was killed and came back")
        print("cluster_copy: ok")


if __name__ == "__main__":
    main()
