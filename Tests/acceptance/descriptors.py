"""More clients than descriptors; see descriptors.sh."""
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

from ports import free_port

TIDECAST, WORK = sys.argv[1:3]
UNPRIVILEGED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/unprivileged")
LIMIT, STORM = 128, 400
OWNER = {"Authorization": "Bearer owner"}
# A snapshot is due when a partition has written 8 MiB.
FILLER, BURST = "x" * 3900, 2300


def check(is_so, words):
    print(f"{'ok  ' if is_so else 'FAIL'} {words}")
    if not is_so:
        raise SystemExit(1)


def wait(is_so, words, limit=30):
    end = time.monotonic() + limit
    while not is_so():
        if time.monotonic() > end:
            check(False, words)
        time.sleep(0.05)
    print(f"ok   {words}")


class Server:
    def __init__(self, *options, limit=None):
        self.port = free_port()

        def lower():
            if limit:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit // 2, limit))
        self.process = subprocess.Popen(
            [UNPRIVILEGED, TIDECAST, "server", "--dev", "--data", f"{WORK}/data", "--listen", f"127.0.0.1:{self.port}",
             "--partitions", "1", "--loops", "2", *options], preexec_fn=lower, stdin=subprocess.DEVNULL,
            stderr=open(f"{WORK}/log", "ab"))
        wait(self.is_served, "the server is ready")

    def is_served(self):
        if self.process.poll() is not None:
            check(False, f"the server ended with {self.process.poll()}")
        try:
            return Client(self).call("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def snapshots(self):
        return [name for name in os.listdir(f"{WORK}/data/snapshots") if name.endswith(".snap")]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        check(self.process.wait(30) == 0, "the server ends in order")


class Client:
    """A client with one connection that stays open."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        self.connection.connect()

    def call(self, method, path, body=None, headers=OWNER):
        self.connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode()

    def send(self):
        return self.call("POST", "/v1/projects/demo/messages:send",
                         {"message": {"topic": "news", "data": {"x": FILLER}}})[0]

    def metrics(self):
        lines = [line.rsplit(" ", 1) for line in self.call("GET", "/metrics")[1].splitlines() if line[:1] != "#"]
        return {name: float(value) for name, value in lines}

    def metric(self, name):
        return self.metrics()[name]


class Stream:
    """A device that is subscribed to `news` and listens."""

    def __init__(self, server, client):
        made = json.loads(client.call("POST", "/v1/projects/demo/registrations", {}, {})[1])
        token, credential = made["token"], made["credential"]
        status, body = client.call("POST", "/iid/v1:batchAdd", {"to": "/topics/news", "registration_tokens": [token]},
                                   {**OWNER, "access_token_auth": "true"})
        assert status == 200 and json.loads(body)["results"] == [{}], (status, body)
        self.socket = socket.create_connection(("127.0.0.1", server.port))
        self.socket.sendall(f"GET /v1/{made['name'] if 'name' in made else ''}:listen HTTP/1.1\r\nhost: localhost\r\n"
                            f"authorization: Bearer {credential}\r\n\r\n".encode())
        self.events, self.is_over = 0, False
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        rest = b""
        while data := self.socket.recv(1 << 16):
            data = rest + data
            self.events += data.count(b"event: message\n")
            # The last line may be incomplete, so the next round looks at it again with the data that follows.
            cut = data.rfind(b"\n") + 1
            rest = data[cut:]
        self.is_over = True


def storm(server):
    """Opens STORM connections, which is more than the server accepts. The kernel holds the rest in the listener's queue."""
    sockets = []
    for _ in range(STORM):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", server.port))
        sockets.append(one)
    return sockets


def set_limit(server, count):
    """Sets the server's soft limit of descriptors. The command runs as the server's user, since root may lack the capability."""
    subprocess.run([UNPRIVILEGED, "prlimit", "--pid", str(server.process.pid), f"--nofile={count}:"], check=True)


def failures(numbers):
    return sum(value for name, value in numbers.items() if name.startswith("tidecast_accept_failures_total"))


def too_many_clients():
    """Clients take all places for connections. The server keeps some descriptors back for its files."""
    server = Server(limit=LIMIT)
    client = Client(server)
    stream = Stream(server, client)
    descriptors, places = client.metric("tidecast_descriptors_max"), client.metric("tidecast_connections_max")
    check(descriptors == LIMIT, f"the soft limit was raised to the hard one, {descriptors:.0f}")
    check(LIMIT / 4 <= places < LIMIT - 40, f"{places:.0f} connections may be, the rest is kept back")
    wait(lambda: client.send() == 200 and stream.events > 0, "the stream receives")
    sockets = storm(server)
    wait(lambda: client.metric("tidecast_connections") == places, "all places are taken")
    before, received, pauses = client.metrics(), stream.events, 0
    sent = [client.send() for _ in range(BURST)]
    check(set(sent) == {200}, f"{BURST} sends over an open connection are acknowledged meanwhile")
    wait(lambda: stream.events >= received + BURST, "the stream has received them all")
    wait(server.snapshots, "a snapshot is written meanwhile")
    after = client.metrics()
    pauses = [numbers['tidecast_listener_pauses_total{of="clients"}'] for numbers in (before, after)]
    # The server closes idle connections meanwhile, and each makes room for one more.
    check(1 <= pauses[1] <= 2 + STORM, f"the listener paused {pauses[1]:.0f} times")
    check(failures(after) == 0, "no connection was accepted without a descriptor for it")
    check(after["tidecast_connections"] <= places, "never more connections than places")
    for one in sockets:
        one.close()
    wait(server.is_served, "new clients are served when they are gone")
    check(not stream.is_over, "the stream was never cut off")
    server.end()


def no_descriptors():
    """The process has no descriptor left. Nothing may break, and the server must try again."""
    server = Server()
    client = Client(server)
    had = len(server.snapshots())
    set_limit(server, 16)
    sockets = storm(server)
    wait(lambda: failures(client.metrics()) > 0, "accepting fails")
    first = failures(client.metrics())
    began = time.monotonic()
    ticks = cpu(server)
    time.sleep(2)
    seconds = time.monotonic() - began
    count = failures(client.metrics()) - first
    check(count <= 2 + 2 * seconds, f"accepting is tried once a second, not in a circle: {count:.0f} times in {seconds:.0f} s,"
          f" {cpu(server) - ticks} ticks of the processor")
    statuses = [client.send() for _ in range(BURST)]
    check(set(statuses) == {200}, f"{BURST} sends over an open connection are acknowledged")
    wait(lambda: client.send() == 200 and "too many open files" in open(f"{WORK}/log", encoding="utf-8").read(),
         "a snapshot is refused for want of a descriptor")
    check(len(server.snapshots()) <= had, "no snapshot was written")
    set_limit(server, 4096)
    for one in sockets:
        one.close()
    wait(server.is_served, "new clients are served when there are descriptors again")
    newest = max(map(covering, server.snapshots()), default=0)
    wait(lambda: client.send() == 200 and max(map(covering, server.snapshots()), default=0) > newest,
         "the snapshot is written now", 60)
    server.end()


def one_address():
    """The bound of connections for each address. Where an operator sets it, it also counts this machine's own addresses."""
    server = Server("--connections-per-address", "5")
    clients = [Client(server)]
    wait(lambda: clients[0].metric("tidecast_connections") == 1, "the connection that asked for readiness is gone")
    clients += [Client(server) for _ in range(4)]
    for one in clients:
        check(one.call("GET", "/healthz")[0] == 200, "one of five connections of an address is served")
    sixth = socket.create_connection(("127.0.0.1", server.port))
    sixth.settimeout(10)
    try:
        said = sixth.recv(100)
    except ConnectionResetError:
        said = b""
    check(said == b"", "the sixth is closed")
    check(clients[0].metric("tidecast_connections_refused_total") >= 1, "and counted")
    server.end()


def covering(name):
    return int(name.split("-")[1])


def cpu(server):
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


too_many_clients()
no_descriptors()
one_address()
