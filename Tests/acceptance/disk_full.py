"""A disk that is full for a while under load: see disk_full.sh."""
import itertools
import os
import shutil
import signal
import sys
import time

from system.checks import wait
from system.device import Device, register, subscribe
from system.load import Load
from system.node import making, start
from system.process import DevelopmentServer

ENGINE, SECONDS, DISK = sys.argv[1], float(sys.argv[2]), sys.argv[3]
TOPICS = 8
# In this time a message that comes twice, or that was refused, would come.
QUIET_SECONDS = 1
# The filler of each message, so that sends use up pages of the database.
FILLER = "x" * 1500


class Sender(Load):
    """Sends to one topic, at most 33 messages a second, each with the filler."""

    def __init__(self, node, topic):
        super().__init__(node, topic=f"t{topic}", pause=0.03, numbers=itertools.count(topic + TOPICS, TOPICS))

    def message(self, number):
        return {"topic": self.topic, "data": {"n": str(number), "x": FILLER}}

    def last(self):
        """The status of the newest finished send."""
        return self.outcomes().get(self.mark())

    def slowest(self):
        """The seconds of the longest send."""
        return max(end - begin for begin, end in self.times.values())


def fill():
    with open(f"{DISK}/ballast", "wb", buffering=0) as ballast:
        for size in (1 << 16, 1 << 12):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                pass


def begin(made):
    """Starts the nodes. The test calls the first of them."""
    if ENGINE == "embedded":
        server = DevelopmentServer(made.folder, "--partitions", "4")
        server.data = f"{DISK}/data"
        made.nodes.append(server)
        server.start()
        return made.nodes
    database, nodes = made.cluster("one", "two")
    for node in nodes:
        node.options = ["--partitions", "8"]
    start(nodes)
    # Only the journal is on the small disk: in an installation, too, the part that grows is the part that
    # fills a disk.
    connection = ("-h", "127.0.0.1", "-p", str(database.port), "-U", "tidecast", "tidecast", "-c")
    if os.getuid() == 0:
        shutil.chown(DISK, "postgres")
        os.chmod(os.path.dirname(DISK), 0o755)
    database.run("psql", *connection, f"CREATE TABLESPACE small LOCATION '{DISK}'")
    database.run("psql", *connection, "ALTER TABLE tidecast.journal SET TABLESPACE small")
    return nodes


def test(nodes):
    node = nodes[0]
    node.wait_ready()
    device = Device(node, register(node, {}))
    for topic in range(TOPICS):
        subscribe(node, f"t{topic}", [device.token])
    wait(lambda: device.streams, "the stream")
    senders = [Sender(node, topic) for topic in range(TOPICS)]
    wait(lambda: all(sender.accepted() for sender in senders), "the first sends")

    fill()
    wait(lambda: any(503 in sender.outcomes().values() for sender in senders), "a send that is refused", 30)
    full = time.monotonic()
    words = set()
    refused, looks = 0, []
    while time.monotonic() < full + SECONDS:
        status, word = node.call("GET", "/readyz")
        # A database whose disk is slow as well may not answer in time for a while.
        assert status == 200 or b"does not answer" in word, (status, word)
        looks.append(status)
        words.add(word.decode().split(" ")[0] if word == b"ready\n" else word.decode().strip())
        refused = max(refused, *(other.metrics()["tidecast_partitions_refused"] for other in nodes))
        time.sleep(0.2)
    assert looks.count(200) * 2 > len(looks), f"a full disk keeps the node from being ready: {looks}"
    assert refused > 0, "the metric says nothing"
    if SECONDS > 7:
        told = [word for other in nodes
                for word in [other.call("GET", "/readyz")[1].decode()] if "refuses" in word]
        assert told, f"no node says that its engine refuses: {words}"
        print(f"/readyz says: {told[0].strip()}")

    os.unlink(f"{DISK}/ballast")
    room = time.monotonic()
    marks = [len(sender.outcomes()) for sender in senders]
    wait(lambda: all(len(sender.outcomes()) > mark + 5 and sender.last() == 200
                     for sender, mark in zip(senders, marks, strict=True)), "sends to go on", 30)
    took = time.monotonic() - room
    for sender in senders:
        sender.end()
    statuses = {number: status for sender in senders for number, status in sender.statuses.items()}
    accepted = [number for number, status in statuses.items() if status == 200]
    counts = {status: list(statuses.values()).count(status) for status in sorted(set(statuses.values()))}
    assert set(counts) <= {200, 503, 504}, counts
    wait(lambda: set(accepted) <= set(device.counts()), "everything that was acknowledged to arrive", 30)
    time.sleep(QUIET_SECONDS)
    came = device.counts()
    untrue = [number for number in came if statuses[number] == 503]
    assert not untrue, f"refused and delivered: {untrue[:5]}"
    assert max(came.values()) == 1, "something came twice on one stream"
    assert device.streams == 1, f"the stream ended {device.streams - 1} times"
    wait(lambda: all(other.metrics()["tidecast_partitions_refused"] == 0 for other in nodes),
         "the metric to be 0", 10)
    lost = sum(other.metrics()["tidecast_partitions_lost_total"] for other in nodes)
    assert lost == 0, f"{lost} machines were thrown away"
    print(f"{ENGINE}: full for {SECONDS:.0f} s, {refused:.0f} partitions refused, none read again; answers"
          f" {counts};"
          f" all sends went on {took:.1f} s after there was room, the slowest took"
          f" {max(sender.slowest() for sender in senders):.1f} s")


def main():
    with making() as made:
        nodes = begin(made)
        test(nodes)
        for node in nodes:
            assert node.end(signal.SIGTERM) == 0, "an orderly end"


if __name__ == "__main__":
    main()
