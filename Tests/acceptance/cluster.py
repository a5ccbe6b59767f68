"""Faults of a cluster of three nodes, and the promises that must hold under each of them: see cluster.sh."""
import contextlib
import glob
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

from ports import free_port
from privileges import privileges

BINARY = sys.argv[1] if __name__ == "__main__" else os.environ.get("TIDECAST", "")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# This script runs the nodes, and makes the files that nodes read and write.
UNPRIVILEGED = os.path.join(ROOT, "tools/unprivileged")
OWNER = {"authorization": "Bearer owner", "content-type": "application/json"}


def make_folder():
    """A temporary folder of the nodes' user. Mode 755 lets the database's user reach its own folder in it."""
    folder = subprocess.run([UNPRIVILEGED, "mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip()
    os.chmod(folder, 0o755)
    return folder


def make_certificates(folder, *options):
    subprocess.run([UNPRIVILEGED, BINARY, "cert", "make", "--out", folder, *options], check=True,
                   stdout=subprocess.DEVNULL)


class Database:
    """A PostgreSQL server with a folder of its own. The test must stop it."""

    def __init__(self, folder):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
        if not found:
            sys.exit("no PostgreSQL server is installed: tools/install-packages test")
        self.bin = os.path.dirname(found[-1])
        self.folder = os.path.join(folder, "pg")
        self.port = free_port()
        os.mkdir(self.folder)
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")
            os.chmod(folder, 0o755)
        self.run("initdb", "-D", f"{self.folder}/data", "-A", "trust", "-E", "UTF8", "-N", "-U", "tidecast")
        self.start()
        self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "tidecast", "tidecast")
        self.url = f"postgres://tidecast@127.0.0.1:{self.port}/tidecast"

    def run(self, program, *arguments):
        command = [f"{self.bin}/{program}", *arguments]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--"] + command
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def start(self):
        options = f"-k {self.folder} -c listen_addresses=127.0.0.1 -c port={self.port} -c max_connections=60"
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-l", f"{self.folder}/log", "-o", options, "start")

    def stop(self):
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-m", "immediate", "stop")


class Node:
    def __init__(self, folder, name, database):
        self.folder, self.name, self.database = os.path.join(folder, name), name, database
        self.host = "127.0.0.1"
        self.port, self.peer = free_port(), free_port()
        subprocess.run([UNPRIVILEGED, "mkdir", "-m", "700", self.folder], check=True)
        self.certificates = os.path.join(folder, "certificates")
        if not os.path.exists(self.certificates):
            make_certificates(self.certificates, "--cluster")
        self.process = None
        self.data = self.folder
        self.options = ["--partitions", "32"]
        self.environment = {}

    def start(self):
        log = open(os.path.join(self.folder, "log"), "ab")
        self.process = subprocess.Popen(
            [UNPRIVILEGED, BINARY, "server", "--node", self.name, "--engine", self.database.url, "--data", self.data,
             "--listen", f"127.0.0.1:{self.port}", "--peer", f"127.0.0.1:{self.peer}", "--dev",
             "--peer-cert", f"{self.certificates}/peer.pem", "--peer-key", f"{self.certificates}/peer.key",
             "--peer-ca", f"{self.certificates}/ca.pem", *self.options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.environment})

    def call(self, method, path, body=None, headers=OWNER, timeout=40):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def is_ready(self):
        try:
            return self.call("GET", "/readyz", timeout=2)[0] == 200
        except OSError:
            return False

    def owners(self):
        """The owner of each partition, in order, as this node sees it; "" for none."""
        out = subprocess.run([BINARY, "cluster", "status", "--json", "--data", self.folder], check=True,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30).stdout
        return [one["owner"] for one in json.loads(out)["partitions"]]

    def wait_ready(self):
        wait(self.is_ready, f"{self.name} to be ready")

    def end(self, how):
        self.process.send_signal(how)
        return self.process.wait(timeout=60)


def wait(condition, what, limit=60):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"FAIL: waited {limit} s for {what}")
        time.sleep(0.05)


class Device:
    """A device that listens on a node until the test ends. When its stream ends, the device opens the next one after 0.2 s."""
    # The device acknowledges each message whose number this divides; 0 for none. A device with more than 100 waiting messages at
    # the end of its stream may get `deleted_messages` in place of some of them (FCM's bound).
    acknowledged = 0

    def __init__(self, node, registration):
        self.node = node
        self.token, self.credential = registration["token"], registration["credential"]
        self.fid = self.token.split(":")[0]
        self.seen, self.order, self.last, self.streams = {}, [], None, 0
        self.lock = threading.Lock()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                connection = http.client.HTTPConnection(self.node.host, self.node.port, timeout=60)
                headers = {"authorization": f"Bearer {self.credential}"}
                if self.last:
                    headers["last-event-id"] = self.last
                connection.request("GET", f"/v1/projects/demo/registrations/{self.fid}:listen", headers=headers)
                answer = connection.getresponse()
                if answer.status == 200:
                    self.streams += 1
                    self.read(answer)
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.2)

    def read(self, answer):
        event, name = None, None
        for line in answer:
            text = line.decode().rstrip("\n")
            if text.startswith("id: "):
                event = text[4:]
            elif text.startswith("event: "):
                name = text[7:]
            elif text.startswith("data: ") and name == "message":
                number = int(json.loads(text[6:])["data"]["n"])
                with self.lock:
                    if number not in self.seen:
                        self.order.append(number)
                    self.seen[number] = self.seen.get(number, 0) + 1
                # The device remembers each fifth event only, so that its next stream gets some messages again.
                if number % 5 == 0:
                    self.last = event
                if self.acknowledged and number % self.acknowledged == 0:
                    self.acknowledge(event)

    def acknowledge(self, event):
        try:
            self.node.call("POST", f"/v1/projects/demo/registrations/{self.fid}:acknowledge", {"eventId": event},
                           {"authorization": f"Bearer {self.credential}", "content-type": "application/json"})
        except (OSError, http.client.HTTPException):
            pass

    def counts(self):
        """How often each number came so far, in the order of their first arrivals."""
        with self.lock:
            return {number: self.seen[number] for number in self.order}


class Load:
    """Sends to one topic, one message after the other, and keeps the status of each send."""

    def __init__(self, node, project="demo"):
        self.node, self.project, self.is_over = node, project, False
        self.statuses, self.lock = {}, threading.Lock()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        number = 0
        while not self.is_over:
            number += 1
            message = {"message": {"topic": "news", "data": {"n": str(number)}}}
            try:
                status, _ = self.node.call("POST", f"/v1/projects/{self.project}/messages:send", message)
            except (OSError, http.client.HTTPException):
                status = 0
            self.record(number, status)
            time.sleep(0.01)

    def record(self, number, status):
        with self.lock:
            self.statuses[number] = status

    def outcomes(self, since=0):
        """The status of each finished send after number `since`; 0 where the connection broke."""
        with self.lock:
            return {number: status for number, status in self.statuses.items() if number > since}

    def mark(self):
        """The number of the newest finished send."""
        return max(self.outcomes(), default=0)

    def end(self):
        self.is_over = True
        self.thread.join()

    def accepted(self, since=0):
        return [number for number, status in self.outcomes(since).items() if status == 200]

    def failures(self, since=0):
        return {number: status for number, status in self.outcomes(since).items() if status != 200}


class Made:
    """The folder, the databases and the nodes that a test has made so far."""

    def __init__(self):
        self.folder, self.databases, self.nodes = make_folder(), [], []

    def database(self, folder=None):
        self.databases.append(Database(folder or self.folder))
        return self.databases[-1]

    def cluster(self, *names):
        """Nodes of these names on one database, not started."""
        database = self.database()
        self.nodes += [Node(self.folder, name, database) for name in names]
        return database, self.nodes

    def print_logs(self):
        for node in self.nodes:
            path = os.path.join(node.folder, "log")
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as log:
                    print(f"--- {node.name}\n" + "".join(log.readlines()[-60:]))

    def end(self):
        for node in self.nodes:
            if node.process and node.process.poll() is None:
                node.process.send_signal(signal.SIGCONT)
                node.process.kill()
                node.process.wait()
        for database in self.databases:
            try:
                database.stop()
            except subprocess.CalledProcessError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def making():
    """Ends and removes everything that the test has made. Where the test fails, it prints the last 60 lines of each node's
    log."""
    made = Made()
    try:
        yield made
    except BaseException:
        made.print_logs()
        raise
    finally:
        made.end()


def main():
    with making() as made:
        run(*made.cluster("one", "two", "three"))
        print("cluster: ok")


def run(database, nodes):
    one, two, three = nodes
    for node in nodes:
        node.start()
    for node in nodes:
        node.wait_ready()
        assert not privileges(node.process.pid), (node.name, privileges(node.process.pid))
    print("three nodes serve, none of them with any privilege")
    devices = []
    for _ in range(5):
        status, body = one.call("POST", "/v1/projects/demo/registrations", {})
        assert status == 200, (status, body)
        devices.append(Device(three, json.loads(body)))
    strangers = devices[4:]
    members = devices[:4]
    tokens = [device.token for device in members]

    def subscribed():
        status, body = two.call("POST", "/iid/v1:batchAdd", {"to": "/topics/news", "registration_tokens": tokens},
                                {**OWNER, "access_token_auth": "true"})
        assert status == 200, (status, body)
        results = json.loads(body)["results"]
        # The first node made the project a moment ago. The second node may not know the project yet, and then answers INTERNAL.
        assert results in ([{}] * 4, [{"error": "INTERNAL"}] * 4), results
        return results == [{}] * 4

    wait(subscribed, "a subscription through a node that hears of the project")
    wait(lambda: all(device.streams for device in devices), "the streams")
    load = Load(one)
    # Six more projects. Their quota buckets are spread over the nodes, so that a node that dies has owned some of them.
    others = [Load(one, f"other-{number}") for number in range(6)]
    wait(lambda: all(len(one_load.accepted()) > 50 for one_load in [load] + others), "the first sends")
    print("registered through one, subscribed through two, listening on three, sending through one")

    def settled(what):
        for one_load in [load] + others:
            mark = one_load.mark()
            wait(lambda: len(one_load.accepted(mark)) > 50, f"sends after {what}")

    def marks():
        return [one_load.mark() for one_load in [load] + others]

    def two_is_back():
        two.start()
        two.wait_ready()
        wait(lambda: set(one.owners()) == {"one", "two", "three"}, "all three to own partitions")

    def failures(since):
        return {(one_load.project, *one): None for one_load, mark in zip([load] + others, since)
                for one in one_load.failures(mark).items()}

    streams = [device.streams for device in devices]
    mark = marks()
    two.end(signal.SIGKILL)
    settled("the kill")
    failed = list(failures(mark))
    assert not failed, f"sends failed when an owner was killed: {failed}"
    assert [device.streams for device in devices] == streams, "an owner's death ended a stream elsewhere"
    print("an owner was killed: no send failed, no stream ended")

    two_is_back()
    mark = marks()
    assert two.end(signal.SIGTERM) == 0
    settled("the leave")
    failed = list(failures(mark))
    assert not failed, f"sends failed when a node left in order: {failed}"
    assert [device.streams for device in devices] == streams, "a leave ended a stream elsewhere"
    print("a node left in order: no send failed, no stream ended")

    two_is_back()
    mark = marks()
    two.process.send_signal(signal.SIGSTOP)
    wait(lambda: "two" not in one.owners(), "the others to own what the sleeper had")
    # The heirs now answer the requests that the sleeping node had got. A node that wakes earlier could answer them with 504.
    settled("the sleeper's partitions were taken")
    two.process.send_signal(signal.SIGCONT)
    assert two.process.wait(timeout=30) == 70, "a fenced node steps down"
    settled("the sleeper")
    failed = list(failures(mark))
    assert not failed, f"sends failed when a node slept past its lease: {failed}"
    print("a node slept past its lease: it was fenced, found it out and stepped down; no send failed")

    two_is_back()
    database.stop()
    wait(lambda: not any(node.is_ready() for node in nodes), "all nodes to see that the database is away")
    database.start()
    for node in nodes:
        node.wait_ready()
    settled("the database's restart")
    print("the database was killed and came back")

    for one_load in [load] + others:
        one_load.end()
    accepted, refused = set(load.accepted()), load.failures()
    wait(lambda: all(accepted <= set(device.counts()) for device in members), "the last deliveries", 30)
    twice = 0
    for device in members:
        counts = device.counts()
        surplus = set(counts) - accepted - set(refused)
        assert not surplus, f"delivered and never accepted: {surplus}"
        wanted = [n for n in counts if n in accepted]
        assert wanted == sorted(wanted), "first deliveries out of order"
        twice += sum(count > 1 for count in counts.values())
    assert not any(device.counts() for device in strangers), "somebody got what is not for him"
    print(f"{len(accepted)} sends accepted, each delivered to {len(members)} devices in order;"
          f" {len(refused)} not accepted ({sorted(set(refused.values()))}), {twice} delivered again")


if __name__ == "__main__":
    main()
