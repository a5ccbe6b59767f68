"""Nodes that cannot join a cluster must say why and what to do, and must not harm the other nodes. See cluster_start.sh."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

os.environ.setdefault("TIDECAST", sys.argv[1])
import cluster  # noqa: E402

cluster.BINARY = sys.argv[1]


def log_of(node):
    with open(os.path.join(node.folder, "log"), encoding="utf-8", errors="replace") as file:
        return file.read()


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAIL: {what}")
    print(f"ok    {what}", flush=True)


def make_folder(path):
    subprocess.run([cluster.UNPRIVILEGED, "mkdir", "-m", "700", path], check=True)


def refused(node, sentence, what):
    code = node.process.wait(timeout=30)
    check(code != 0 and sentence in log_of(node), f"{what}: \"{sentence}\"")


def main():
    folder = cluster.make_folder()
    nodes = []
    database = cluster.Database(folder)
    other = None

    def node(name, place=folder, database=database):
        made = cluster.Node(place, name, database)
        nodes.append(made)
        return made

    try:
        database.stop()
        early = node("early")
        early.start()
        cluster.wait(lambda: b"cannot reach the database" in answer(early, "/readyz"), "a reason in /readyz")
        check(early.call("GET", "/readyz")[0] == 503 and early.call("GET", "/healthz")[0] == 200,
              "before the database: alive, not ready, and says why")
        status, body = early.call("POST", "/v1/projects/demo/messages:send", {"message": {"topic": "a"}})
        check(status == 503 and b"UNAVAILABLE" in body, "before the database: a send is 503 UNAVAILABLE")
        database.start()
        early.wait_ready()
        check(True, "when the database is there, the node begins by itself")

        twin_folder = os.path.join(folder, "twin")
        make_folder(twin_folder)
        subprocess.run([cluster.UNPRIVILEGED, "cp", "-r", early.certificates, twin_folder], check=True)
        twin = node("early", twin_folder)
        twin.start()
        refused(twin, "a node named early is running already", "a second node of one name")
        check(early.process.poll() is None and early.is_ready(), "the first of that name is not harmed")

        count = node("count")
        count.options = ["--partitions", "64"]
        count.start()
        refused(count, "leave out --partitions, or say 32", "another number of partitions")

        failed_starts(node("busy"), early)
        no_admin_socket(node("locked"), folder)

        strange_folder = os.path.join(folder, "strange")
        make_folder(strange_folder)
        strange = node("strange", strange_folder)
        strange.start()
        cluster.wait(lambda: "between nodes" in log_of(strange) or "between nodes" in log_of(early),
                     "a word about the certificate")
        check(early.is_ready(), "a certificate of another authority: told in the log, and the others go on")
        strange.end(signal.SIGKILL)

        other_folder = os.path.join(folder, "other")
        make_folder(other_folder)
        other = cluster.Database(other_folder)
        foreign = node("foreign", other_folder, other)
        foreign.options = ["--join", f"127.0.0.1:{early.peer}"]
        foreign.start()
        foreign.wait_ready()
        cluster.wait(lambda: "gossip of another cluster" in log_of(early), "the first cluster to tell of the stranger")
        cluster.wait(lambda: "nobody of this cluster answers" in log_of(foreign), "the stranger to tell of its seed")
        check(early.is_ready() and foreign.is_ready(), "another cluster's seed: told in both logs, and both go on")

        hostile(early)
        check(early.is_ready() and early.process.poll() is None, "2,000 datagrams of garbage: counted, and the node goes on")
        refusals = float(next(line.split()[-1] for line in early.call("GET", "/metrics")[1].decode().splitlines()
                              if line.startswith("tidecast_gossip_refused_total")))
        check(refusals >= 1000, f"tidecast_gossip_refused_total is {refusals:.0f}")
        print("cluster_start: ok")
    except SystemExit:
        for one in nodes:
            print(f"--- {one.folder}", log_of(one)[-1500:] if os.path.exists(os.path.join(one.folder, "log")) else "")
        raise
    finally:
        for one in nodes:
            if one.process and one.process.poll() is None:
                one.process.send_signal(signal.SIGKILL)
                one.process.wait()
        for one in [database, other]:
            try:
                if one:
                    one.stop()
            except subprocess.CalledProcessError:
                pass
        shutil.rmtree(folder, ignore_errors=True)


def failed_starts(busy, other):
    """A node that cannot start must end its threads and connections: it exits with 1, and leaves nothing in the cluster."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", busy.port))
        taken.listen()
        codes = []
        for _ in range(6):
            busy.start()
            codes.append(busy.process.wait(timeout=60))
        sentence = f"cannot listen on 127.0.0.1:{busy.port}: Address already in use"
        check(codes == [1] * 6 and log_of(busy).count(sentence) == 6, f"a port that is in use: \"{sentence}\", six times")
    cluster.wait(lambda: "busy" not in members(other), "nothing of it to be left")
    busy.start()
    busy.wait_ready()
    check(busy.end(signal.SIGTERM) == 0, "when the port is free it starts under the same name")


def members(node):
    out = subprocess.run([cluster.BINARY, "cluster", "status", "--json", "--data", node.folder], check=True,
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30).stdout
    return {one["node"] for one in json.loads(out)["members"]}


def no_admin_socket(locked, folder):
    """A cluster's node keeps only its admin socket in its folder, so a node that cannot write there must still serve."""
    locked.data = os.path.join(folder, "of-root")
    os.mkdir(locked.data, 0o700)
    if os.getuid() != 0:
        os.chmod(locked.data, 0o500)
    locked.start()
    locked.wait_ready()
    check("cannot reach this node by its folder" in log_of(locked) and f"{locked.data}/admin.sock" in log_of(locked),
          "an admin socket that cannot be made: its path in the log, and the node serves")
    check(locked.end(signal.SIGTERM) == 0, "and ends in order")


def answer(node, path):
    try:
        return node.call("GET", path, timeout=2)[1]
    except OSError:
        return b""


def hostile(node):
    """Sends random datagrams of 0 to 9,000 bytes to the peer port: garbage, oversize, truncated, unsealed (fault 21 of
    tools/chaos)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(2000):
            size = [0, 1, 24, 25, 26, 200, 1400, 1401, 9000][number % 9]
            sender.sendto(os.urandom(size), ("127.0.0.1", node.peer))
            if number % 100 == 99:
                time.sleep(0.01)


if __name__ == "__main__":
    main()
