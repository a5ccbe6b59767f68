"""Nodes that cannot join a cluster must say why and what to do, and must not harm the other nodes. See
cluster_start.sh."""
import os
import signal
import socket
import subprocess
import time

from system.checks import check, wait
from system.node import Node, making
from system.process import UNPRIVILEGED


def make_folder(path):
    subprocess.run([UNPRIVILEGED, "mkdir", "-m", "700", path], check=True)


def refused(node, sentence, what):
    code = node.process.wait(timeout=30)
    check(code != 0 and sentence in node.log_text(), f"{what}: \"{sentence}\"")


def main():
    with making() as made:
        folder, database = made.folder, made.database()

        def node(name, place=folder, database=database):
            made.nodes.append(Node(place, name, database))
            return made.nodes[-1]

        database.stop()
        early = node("early")
        early.start()
        wait(lambda: "cannot reach the database" in early.asked("/readyz")[1], "a reason in /readyz")
        check(early.call("GET", "/readyz")[0] == 503 and early.call("GET", "/healthz")[0] == 200,
              "before the database: alive, not ready, and says why")
        status, body = early.call("POST", "/v1/projects/demo/messages:send", {"message": {"topic": "a"}})
        check(status == 503 and b"UNAVAILABLE" in body, "before the database: a send is 503 UNAVAILABLE")
        status, body = early.call("GET", "/v1/stream", headers={"accept": "text/event-stream"})
        check(status == 200 and b"event: reconnect" in body, "before the database: a stream comes back")
        database.start()
        early.wait_ready()
        check(True, "when the database is there, the node begins by itself")

        twin_folder = os.path.join(folder, "twin")
        make_folder(twin_folder)
        subprocess.run([UNPRIVILEGED, "cp", "-r", early.certificates, twin_folder], check=True)
        twin = node("early", twin_folder)
        twin.start()
        refused(twin, "a node named early is running already", "a second node of one name")
        check(early.process.poll() is None and early.is_ready(), "the first of that name is not harmed")

        count = node("count")
        count.options = ["--partitions", "64"]
        count.start()
        refused(count, "leave out --partitions, or give 32", "another number of partitions")

        failed_starts(node("busy"), early)
        no_admin_socket(node("locked"), folder)

        strange_folder = os.path.join(folder, "strange")
        make_folder(strange_folder)
        strange = node("strange", strange_folder)
        strange.start()
        wait(lambda: "between nodes" in strange.log_text() or "between nodes" in early.log_text(),
             "a word about the certificate")
        check(early.is_ready(), "a certificate of another authority: told in the log, and the others go on")
        strange.end(signal.SIGKILL)

        other_folder = os.path.join(folder, "other")
        make_folder(other_folder)
        other = made.database(other_folder)
        foreign = node("foreign", other_folder, other)
        foreign.options = ["--join", f"127.0.0.1:{early.peer}"]
        foreign.start()
        foreign.wait_ready()
        wait(lambda: "gossip of another cluster" in early.log_text(),
             "the first cluster to tell of the stranger")
        wait(lambda: "no node of this cluster answers" in foreign.log_text(),
             "the stranger to tell of its seed")
        check(early.is_ready() and foreign.is_ready(),
              "another cluster's seed: told in both logs, and both go on")

        hostile(early)
        check(early.is_ready() and early.process.poll() is None,
              "2,000 datagrams of garbage: counted, and the node goes on")
        refusals = early.metrics()["tidecast_gossip_refused_total"]
        check(refusals >= 1000, f"tidecast_gossip_refused_total is {refusals:.0f}")
        after_all_are_killed(foreign, node("heir", other_folder, other))
        print("cluster_start: ok")


def after_all_are_killed(last, heir):
    """The first node after all nodes of a cluster were killed watches their leases for some seconds: the rows
    may be a copy. Its probes have an answer meanwhile."""
    last.end(signal.SIGKILL)
    heir.options = []
    heir.start()
    wait(lambda: "renews its lease" in heir.asked("/readyz")[1], "a reason in /readyz")
    check(heir.call("GET", "/readyz")[0] == 503 and heir.call("GET", "/healthz")[0] == 200,
          "while it watches the leases of killed nodes: alive, not ready, and says why")
    heir.wait_ready()
    check("no other node lives" in heir.log_text(),
          "when they have stood still, the node begins by itself")


def failed_starts(busy, other):
    """A node that cannot start must end its threads and connections: it exits with 1, and leaves nothing in
    the cluster."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", busy.port))
        taken.listen()
        codes = []
        for _ in range(6):
            busy.start()
            codes.append(busy.process.wait(timeout=60))
        sentence = f"cannot listen on 127.0.0.1:{busy.port}: Address already in use"
        check(codes == [1] * 6 and busy.log_text().count(sentence) == 6,
              f"a port that is in use: \"{sentence}\", six times")
    wait(lambda: "busy" not in [one["node"] for one in other.status()["members"]], "nothing of it to be left")
    busy.start()
    busy.wait_ready()
    check(busy.end(signal.SIGTERM) == 0, "when the port is free it starts under the same name")


def no_admin_socket(locked, folder):
    """A cluster's node keeps only its admin socket in its folder, so a node that cannot write there must
    still serve."""
    locked.data = os.path.join(folder, "of-root")
    os.mkdir(locked.data, 0o700)
    if os.getuid() != 0:
        os.chmod(locked.data, 0o500)
    locked.start()
    locked.wait_ready()
    check("cannot reach this node by its folder" in locked.log_text()
          and f"{locked.data}/admin.sock" in locked.log_text(),
          "an admin socket that cannot be made: its path in the log, and the node serves")
    check(locked.end(signal.SIGTERM) == 0, "and ends in order")


def hostile(node):
    """Sends random datagrams of 0 to 9,000 bytes to the peer port: garbage, oversize, truncated, unsealed
    (fault 21 of tools/chaos)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(2000):
            size = [0, 1, 24, 25, 26, 200, 1400, 1401, 9000][number % 9]
            sender.sendto(os.urandom(size), ("127.0.0.1", node.peer))
            if number % 100 == 99:
                time.sleep(0.01)


if __name__ == "__main__":
    main()
