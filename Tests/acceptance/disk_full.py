"""A disk that is full for a while under load: see disk_full.sh."""
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import cluster
from cluster import Device, Node, wait
from ports import free_port

BINARY, ENGINE, SECONDS, DISK = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
TOPICS = 8
# The filler of each message, so that sends use up pages of the database.
FILLER = "x" * 1500


class Server(Node):
    """An embedded server with its data on the small disk."""

    def __init__(self, folder):
        self.folder, self.name, self.host, self.port = folder, "server", "127.0.0.1", free_port()
        self.process = None

    def start(self):
        log = open(os.path.join(self.folder, "log"), "ab")
        self.process = subprocess.Popen(
            [cluster.UNPRIVILEGED, BINARY, "server", "--dev", "--data", f"{DISK}/data", "--partitions", "4",
             "--listen", f"127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


class Sender:
    """Sends to one topic, at most 33 messages a second, and keeps the status of each send."""

    def __init__(self, node, topic):
        self.node, self.topic, self.is_over, self.statuses = node, topic, False, {}
        self.slowest = 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        number = self.topic
        while not self.is_over:
            number += TOPICS
            message = {"message": {"topic": f"t{self.topic}", "data": {"n": str(number), "x": FILLER}}}
            began = time.monotonic()
            try:
                status, _ = self.node.call("POST", "/v1/projects/demo/messages:send", message)
            except (OSError, http.client.HTTPException):
                status = 0
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.statuses[number] = status
            time.sleep(0.03)

    def last(self):
        return next(reversed(self.statuses.values()), None)


def metric(node, name):
    _, text = node.call("GET", "/metrics")
    for line in text.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise SystemExit(f"FAIL: there is no metric {name}")


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
        made.nodes.append(Server(made.folder))
        made.nodes[0].start()
        return made.nodes
    database, nodes = made.cluster("one", "two")
    for node in nodes:
        node.options = ["--partitions", "8"]
        node.start()
    for node in nodes:
        node.wait_ready()
    # Only the journal is on the small disk: in an installation, too, the part that grows is the part that fills a disk.
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
    status, body = node.call("POST", "/v1/projects/demo/registrations", {}, {})
    assert status == 200, (status, body)
    device = Device(node, json.loads(body))
    for topic in range(TOPICS):
        status, body = node.call("POST", "/iid/v1:batchAdd", {
            "to": f"/topics/t{topic}", "registration_tokens": [device.token]},
            {**cluster.OWNER, "access_token_auth": "true"})
        assert status == 200 and json.loads(body)["results"] == [{}], (status, body)
    wait(lambda: device.streams, "the stream")
    senders = [Sender(node, topic) for topic in range(TOPICS)]
    wait(lambda: all(200 in sender.statuses.values() for sender in senders), "the first sends")

    fill()
    wait(lambda: any(503 in sender.statuses.values() for sender in senders), "a send that is refused", 30)
    full = time.monotonic()
    words = set()
    refused = 0
    while time.monotonic() < full + SECONDS:
        status, word = node.call("GET", "/readyz")
        assert status == 200, (status, word)
        words.add(word.decode().split(" ")[0] if word == b"ready\n" else word.decode().strip())
        refused = max(refused, *(metric(other, "tidecast_partitions_refused") for other in nodes))
        time.sleep(0.2)
    assert refused > 0, "the metric says nothing"
    if SECONDS > 7:
        told = [word for other in nodes for word in [other.call("GET", "/readyz")[1].decode()] if "refuses" in word]
        assert told, f"no node says that its engine refuses: {words}"
        print(f"/readyz says: {told[0].strip()}")

    os.unlink(f"{DISK}/ballast")
    room = time.monotonic()
    marks = [len(sender.statuses) for sender in senders]
    wait(lambda: all(len(sender.statuses) > mark + 5 and sender.last() == 200
                     for sender, mark in zip(senders, marks)), "sends to go on", 30)
    took = time.monotonic() - room
    for sender in senders:
        sender.is_over = True
    for sender in senders:
        sender.thread.join()
    statuses = {number: status for sender in senders for number, status in sender.statuses.items()}
    accepted = [number for number, status in statuses.items() if status == 200]
    counts = {status: list(statuses.values()).count(status) for status in sorted(set(statuses.values()))}
    assert set(counts) <= {200, 503, 504}, counts
    wait(lambda: set(accepted) <= set(device.counts()), "everything that was acknowledged to arrive", 30)
    time.sleep(1)
    came = device.counts()
    untrue = [number for number in came if statuses[number] == 503]
    assert not untrue, f"refused and delivered: {untrue[:5]}"
    assert max(came.values()) == 1, "something came twice on one stream"
    assert device.streams == 1, f"the stream ended {device.streams - 1} times"
    wait(lambda: all(metric(other, "tidecast_partitions_refused") == 0 for other in nodes), "the metric to be 0", 10)
    lost = sum(metric(other, "tidecast_partitions_lost_total") for other in nodes)
    assert lost == 0, f"{lost} machines were thrown away"
    print(f"{ENGINE}: full for {SECONDS:.0f} s, {refused:.0f} partitions refused, none read again; answers {counts};"
          f" all sends went on {took:.1f} s after there was room, the slowest took"
          f" {max(sender.slowest for sender in senders):.1f} s")


def main():
    with cluster.making() as made:
        nodes = begin(made)
        test(nodes)
        for node in nodes:
            assert node.end(signal.SIGTERM) == 0, "an orderly end"


main()
