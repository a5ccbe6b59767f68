"""Today's server opens the data of closed revisions: see formats.sh. `record` makes today's data: see Tests/formats/make."""
import contextlib
import http.client
import json
import lzma
import os
import signal
import subprocess
import sys
import tarfile
import time

import cluster
import world
from ports import free_port

STORED = os.path.join(cluster.ROOT, "Tests/formats")
# One device is in so many topics with long names that its partition's snapshot has several parts.
LONG = [f"long-{number:03d}-" + "x" * 780 for number in range(350)]
# The data of sends to this device with a ttl of 0 s, so that no message waits: 24 KB each in the journal, which packs them.
BULK = "\u0001" * 4000
SENDS_PER_MINUTE = 60


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAIL: {what}")
    print(f"ok    {what}", flush=True)


class Server:
    """One embedded server on a data folder."""

    def __init__(self, folder):
        self.folder, self.process, self.port, self.name = folder, None, free_port(), "embedded"

    def start(self):
        log = open(f"{self.folder}.log", "ab")
        self.process = subprocess.Popen(
            [cluster.UNPRIVILEGED, cluster.BINARY, "server", "--dev", "--data", self.folder, "--partitions", "4",
             "--listen", f"127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def call(self, *arguments, **options):
        return cluster.Node.call(self, *arguments, **options)

    host = "127.0.0.1"
    is_ready, wait_ready, end = cluster.Node.is_ready, cluster.Node.wait_ready, cluster.Node.end


def ask(node, method, path, body=None, bearer="owner"):
    """The answer as an object. Any status but 200 fails the test."""
    headers = {"authorization": f"Bearer {bearer}", "content-type": "application/json", "access_token_auth": "true"}
    status, answer = node.call(method, path, body, headers)
    if status != 200:
        raise SystemExit(f"FAIL: {method} {path[:100]}: {status} {answer[:300]}")
    return json.loads(answer)


def command(node, *words, token=None):
    """Runs a command with --json: over the network where an operator's token is given, else over the admin socket."""
    way = ["--server", f"http://{node.host}:{node.port}"] if token else ["--data", node.folder]
    done = subprocess.run([cluster.UNPRIVILEGED, cluster.BINARY, *words, "--json", *way], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **({"TIDECAST_TOKEN": token} if token else {})})
    if done.returncode != 0:
        raise SystemExit(f"FAIL: {' '.join(words)}: {done.stderr[:500]}")
    return json.loads(done.stdout)


def send(node, where, number, more=None):
    message = {**where, "data": {"n": str(number)}, **(more or {})}
    return ask(node, "POST", "/v1/projects/demo/messages:send", {"message": message})["name"]


def change(node, kind, topic, devices):
    found = ask(node, "POST", f"/iid/v1:batch{kind}", {"to": f"/topics/{topic}",
                                                      "registration_tokens": [device["token"] for device in devices]})
    assert found["results"] == [{}] * len(devices), found


def topics(node, device):
    found = ask(node, "GET", f"/iid/info/{device['token']}?details=true")
    return sorted(found.get("rel", {}).get("topics", {}))


def listen(node, device, until, resume=None):
    """The event ids of the messages that come, by number, until `until` is true of the numbers."""
    came, event = {}, None
    connection = http.client.HTTPConnection(node.host, node.port, timeout=40)
    headers = {"authorization": f"Bearer {device['credential']}", **({"last-event-id": resume} if resume else {})}
    fid = device["token"].split(":")[0]
    connection.request("GET", f"/v1/projects/demo/registrations/{fid}:listen", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200, (answer.status, answer.read())
    for line in answer:
        text = line.decode().rstrip("\n")
        if text.startswith("id: "):
            event = text[4:]
        elif text.startswith("data: {\"messageId\""):
            came[int(json.loads(text[6:])["data"]["n"])] = event
            if until(set(came)):
                break
    # The response holds the socket too, so both are closed.
    answer.close()
    connection.close()
    return came


def registered(node, project):
    found, page = [], ""
    while True:
        answer = ask(node, "GET", f"/v1/projects/{project}/registrations?pageSize=100{page}")
        found += [one["name"] for one in answer.get("registrations", [])]
        if not answer.get("nextPageToken"):
            return sorted(found)
        page = f"&pageToken={answer['nextPageToken']}"


def fill(node, is_enough):
    """Sends until the partition of the device in the long topics has snapshots."""
    for number in range(8000):
        if number % 20 == 0 and is_enough():
            return
        send(node, {"topic": LONG[0]}, 0, {"data": {"n": "0", "bulk": BULK}, "android": {"ttl": "0s"}})
    raise SystemExit("FAIL: no snapshot was made")


def acknowledge_much(node, other, is_enough):
    """Makes all that a stored folder must hold, and returns what the server has acknowledged, for `demand`."""
    devices = [ask(node, "POST", "/v1/projects/demo/registrations", {}) for _ in range(6)]
    change(node, "Add", "news", devices[:5])
    change(node, "Add", "sport", devices[:3])
    change(node, "Remove", "sport", devices[2:3])
    for topic in LONG:
        change(node, "Add", topic, devices[4:5])
    send(node, {"topic": "news"}, 1)
    event = listen(node, devices[0], lambda came: 1 in came)[1]
    fid = devices[0]["token"].split(":")[0]
    ask(node, "POST", f"/v1/projects/demo/registrations/{fid}:acknowledge", {"eventId": event},
        devices[0]["credential"])
    # The second device acknowledges when it comes back, by the id of its last event.
    devices[1]["resume"] = listen(other, devices[1], lambda came: 1 in came)[1]
    fill(node, is_enough)
    send(node, {"topic": "news"}, 2)
    send(other, {"condition": "'news' in topics && !('sport' in topics)"}, 3)
    send(node, {"token": devices[0]["token"]}, 4)
    send(other, {"topic": "sport"}, 5)
    for number in (6, 7):
        send(node, {"topic": "news"}, number, {"android": {"collapse_key": "score"}})
    waiting = [{2, 4, 5, 7}, {2, 5, 7}, {1, 2, 3, 7}, {1, 2, 3, 7}, {1, 2, 3, 7}, set()]
    ended = devices.pop()
    waiting.pop()
    ask(node, "DELETE", f"/v1/projects/demo/registrations/{ended['token'].split(':')[0]}")
    for device, numbers in zip(devices, waiting):
        device["waiting"] = sorted(numbers)

    # The command runs without privileges, so it writes the file into the node's folder.
    command(node, "project", "create", "shop", "--service-account", f"{node.folder}/account.json", "--force")
    os.unlink(f"{node.folder}/account.json")
    keys = {kind: command(node, "project", "key", "create", "shop", "--kind", kind)["key"] for kind in ("device", "bearer")}
    command(node, "project", "quota", "shop", "--sends-per-minute", str(SENDS_PER_MINUTE))
    for _ in range(SENDS_PER_MINUTE - 10):
        ask(node, "POST", "/v1/projects/shop/messages:send", {"message": {"topic": "a"}}, keys["bearer"])
    lives = {name: command(node, "key", "create", "shop", "--kind", "bearer", "--name", name, "--expires", "90d")
             for name in ("expiring", "revoked")}
    lives["operator"] = command(node, "key", "create", "--kind", "operator", "--role", "read", "--name", "operator")
    command(node, "key", "revoke", lives["revoked"]["id"])
    for own in ("registration", "signing"):
        command(node, "key", "rotate", own)
    return {"recorded": time.time(), "lives": lives, "devices": devices, "ended": ended["token"], "keys": keys,
            "registered": registered(node, "demo")}


def demand_lives(node, other, lives):
    """Credentials with an end, revoked credentials, the audit log, and the server's own keys. The first revision has none of
    them."""
    for name, wanted in (("expiring", 200), ("revoked", 401)):
        status, answer = other.call("POST", "/v1/projects/shop/messages:send", {"message": {"topic": "a"}},
                                    {"authorization": f"Bearer {lives[name]['key']}", "content-type": "application/json"})
        # The project's quota may be spent, and the server checks the key first: a valid key is answered with 200 or 429.
        check(status in {wanted, 429 if wanted == 200 else wanted}, f"the {name} key: {status} {answer[:200]}")
    listed = {one["name"]: one for one in command(other, "key", "list", "shop", token=lives["operator"]["key"])}
    check(listed["expiring"]["expireTime"] == lives["expiring"]["expireTime"], "an operator's token lists when a key ends")
    done = {entry["action"] for entry in command(node, "audit")}
    check({"key.create", "key.revoke", "key.rotate"} <= done, f"the audit log says what was done: {sorted(done)}")
    own = command(node, "key", "server")
    check(len(own["registration"]) == 2 and len(own["signing"]) >= 1, "rotated keys of the server are there")


def topics_known(number):
    return sorted(["news"] + (["sport"] if number < 2 else []) + (LONG if number == 4 else []))


def demand(node, other, known):
    """All that the earlier server acknowledged must hold in this one, and new requests must work."""
    found = [command(one, "project", "quota", "shop") for one in (node, other)]
    check(all(one["limits"]["sendsPerMinute"] == SENDS_PER_MINUTE for one in found), "the quota that was set is known")
    # In a cluster the last node to leave has no heir for the tokens that are left: buckets then begin empty. `left` is missing
    # where no node has opened the bucket yet.
    for left in (one["left"] for one in found if "left" in one):
        check(left["sends"] < SENDS_PER_MINUTE, f"what was spent is spent: {left}")
    check(registered(node, "demo") == known["registered"], f"{len(known['registered'])} devices are known")
    for number, device in enumerate(known["devices"]):
        found = topics(other, device)
        check(found == topics_known(number), f"device {number} is in its {len(found)} topics")
    status, answer = node.call("POST", "/v1/projects/demo/messages:send", {"message": {"token": known["ended"]}})
    check(status == 404 and b"UNREGISTERED" in answer, "a device that was unregistered is told to be")
    send(other, {"topic": "news"}, 100)
    for number, device in enumerate(known["devices"]):
        wanted = set(device["waiting"]) | {100}
        came = listen(node, device, wanted.issubset, device.get("resume"))
        check(set(came) == wanted, f"device {number} gets what waited, and what is new: {sorted(came)}")
    keys = known["keys"]
    status, answer = other.call("POST", "/v1/projects/shop/registrations", {}, {"x-goog-api-key": keys["device"]})
    check(status == 200, f"the device key registers: {status} {answer[:200]}")
    device = json.loads(answer)
    end = time.monotonic() + 30
    while True:
        status, answer = other.call("POST", "/v1/projects/shop/messages:send", {"message": {"token": device["token"]}},
                                    {"authorization": f"Bearer {keys['bearer']}", "content-type": "application/json"})
        if status != 429 or time.monotonic() > end:
            break
        time.sleep(0.5)
    check(status == 200, f"the bearer key sends: {status} {answer[:200]}")
    status, _ = other.call("POST", "/v1/projects/shop/messages:send", {"message": {"topic": "a"}},
                           {"authorization": f"Bearer {keys['device']}", "content-type": "application/json"})
    check(status in (401, 403), "the device key does not")
    if "lives" in known:
        demand_lives(node, other, known["lives"])


# Packing and unpacking.

def pack(folder, path):
    def wanted(entry):
        return entry if entry.isfile() or entry.isdir() else None
    with tarfile.open(path, "w:xz", preset=9) as out:
        out.add(folder, "data", filter=wanted)


def unpack(path, folder):
    """Unpacks a data folder, and gives it to the user that runs the tests' servers."""
    with tarfile.open(path) as file:
        file.extractall(folder)
    if os.getuid() == 0:
        owner = os.stat(folder).st_uid
        for place, folders, files in os.walk(folder):
            for name in folders + files:
                os.chown(os.path.join(place, name), owner, -1)
    return os.path.join(folder, "data")


def dump(database):
    text = subprocess.run(
        [f"{database.bin}/pg_dump", "-h", "127.0.0.1", "-p", str(database.port), "-U", "tidecast", "--no-owner", "-d",
         "tidecast"], check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    # Newer versions of pg_dump write these commands, and older versions of psql do not know them.
    return "".join(line for line in text.splitlines(True) if not line.startswith(("\\restrict", "\\unrestrict")))


def restore(database, text):
    subprocess.run(
        [f"{database.bin}/psql", "-h", "127.0.0.1", "-p", str(database.port), "-U", "tidecast", "-d", "tidecast", "-XqAt",
         "-v", "ON_ERROR_STOP=1"], check=True, input=text, text=True, stdout=subprocess.DEVNULL)


def rows(database, sql):
    return subprocess.run(
        [f"{database.bin}/psql", "-h", "127.0.0.1", "-p", str(database.port), "-U", "tidecast", "-d", "tidecast", "-XAtc",
         sql], check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout.split()


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Database(cluster.Database):
    """A database whose server may have another time's clock. `pg_ctl -w` would not recognize that server as the one it
    started."""

    def start(self):
        options = f"-k {self.folder} -c listen_addresses=127.0.0.1 -c port={self.port} -c max_connections=60"
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-W", "-l", f"{self.folder}/log", "-o", options, "start")
        cluster.wait(self.is_ready, "the database to be ready")

    def is_ready(self):
        return subprocess.run([f"{self.bin}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)],
                              stdin=subprocess.DEVNULL, check=False).returncode == 0


def spread_nodes(made, count=2):
    """Makes nodes on two databases, and does not start them."""
    for name in ("home", "other"):
        place = os.path.join(made.folder, name)
        os.mkdir(place)
        made.databases.append(Database(place))
    home, other = made.databases
    for number in range(count):
        node = cluster.Node(made.folder, f"node-{number + 1}", home)
        node.options = ["--partitions", "8", "--further-engine", other.url]
        made.nodes.append(node)
    return made.nodes


def start(nodes):
    for node in nodes:
        node.start()
    for node in nodes:
        node.wait_ready()


# Recording and examining.

def record(folder):
    with cluster.making() as made:
        server = Server(os.path.join(made.folder, "data"))
        made.nodes.append(server)
        start([server])
        snapshots = os.path.join(server.folder, "snapshots")

        def is_snapshot_made():
            return any(name.endswith(".snap") for name in os.listdir(snapshots))
        known = acknowledge_much(server, server, is_snapshot_made)
        server.end(signal.SIGKILL)
        pack(server.folder, f"{folder}/embedded-killed.tar.xz")
        start([server])
        check(server.end(signal.SIGTERM) == 0, "the server ended in order")
        pack(server.folder, f"{folder}/embedded-ended.tar.xz")
        write_json(f"{folder}/embedded.json", known)
    with cluster.making() as made:
        nodes = spread_nodes(made)
        start(nodes)
        cluster.wait(lambda: set(nodes[0].owners()) == {"node-1", "node-2"}, "both nodes to own partitions")

        def two_in_parts():
            return any(int(row) > 0 for database in made.databases for row in rows(
                database, "SELECT count(*) FROM (SELECT 1 FROM tidecast.snapshot WHERE chunks > 1 GROUP BY partition"
                          " HAVING count(*) > 1) AS x"))
        known = acknowledge_much(nodes[0], nodes[1], two_in_parts)
        for node in nodes[::-1]:
            check(node.end(signal.SIGTERM) == 0, f"{node.name} left in order")
        for database, name in zip(made.databases, ("home", "other")):
            with lzma.open(f"{folder}/{name}.sql.xz", "wt", preset=9, encoding="utf-8") as file:
                file.write(dump(database))
        write_json(f"{folder}/cluster.json", known)


@contextlib.contextmanager
def making_at(recorded):
    """As `cluster.making`. All processes started in it have the clock of the recording, since waiting messages expire."""
    with cluster.making() as made:
        then = world.World(made.folder)
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
            server = Server(unpack(f"{folder}/embedded-{name}.tar.xz", made.folder))
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
        for database, name in zip(made.databases, ("home", "other")):
            with lzma.open(f"{folder}/{name}.sql.xz", "rt", encoding="utf-8") as file:
                restore(database, file.read())
        check(int(rows(made.databases[0], "SELECT max(chunks) FROM (SELECT chunks FROM tidecast.snapshot) AS x")[0] or 0) > 1
              or int(rows(made.databases[1], "SELECT max(chunks) FROM tidecast.snapshot")[0] or 0) > 1,
              "among what was stored is a snapshot in parts")
        start(nodes)
        cluster.wait(lambda: "" not in nodes[0].owners(), "every partition to be owned")
        demand(nodes[0], nodes[1], known)
        for node in nodes:
            check(node.end(signal.SIGTERM) == 0, f"{node.name} left in order")


def main():
    cluster.BINARY = sys.argv[1]
    if sys.argv[2:3] == ["record"]:
        return record(sys.argv[3])
    revisions = sorted(name for name in os.listdir(STORED) if os.path.isdir(os.path.join(STORED, name)))
    check(revisions, f"there is data of closed revisions: {', '.join(revisions)}")
    for revision in revisions:
        examine(os.path.join(STORED, revision), revision)
    print("formats: ok")


if __name__ == "__main__":
    main()
