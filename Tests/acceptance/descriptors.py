"""More clients than descriptors; see descriptors.sh."""
import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time

from system import kernel
from system.checks import check, wait
from system.device import EventStream, register, subscribe
from system.process import OWNER, UNPRIVILEGED, DevelopmentServer

WORK = sys.argv[1]
LIMIT, STORM = 128, 400
# A snapshot is due when a partition has written 8 MiB.
FILLER, BURST = "x" * 3900, 2300


def begin(*options, limit=None):
    """Starts a server, with a hard limit of descriptors and half of it as its soft limit where `limit` is
    given."""
    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit // 2, limit))
    server = DevelopmentServer(WORK, "--partitions", "1", "--loops", "2", *options)
    server.start(preexec_fn=lower if limit else None)
    server.wait_ready()
    check(True, "the server is ready")
    return server


def end(server):
    check(server.end(limit=30) == 0, "the server ends in order")


def snapshots(server):
    return [name for name in os.listdir(f"{server.data}/snapshots") if name.endswith(".snap")]


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
        lines = [line.rsplit(" ", 1)
                 for line in self.call("GET", "/metrics")[1].splitlines() if line[:1] != "#"]
        return {name: float(value) for name, value in lines}

    def metric(self, name):
        return self.metrics()[name]


class Stream:
    """A device that is subscribed to `news` and listens, and the number of its messages."""

    def __init__(self, server):
        made = register(server, {})
        subscribe(server, "news", [made["token"]])
        self.stream = EventStream(http.client.HTTPConnection(server.host, server.port), f"/v1/{made['name']}",
                                  made["credential"])
        self.events, self.is_over = 0, False
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        for _, kind, _ in self.stream.events():
            self.events += kind == "message"
        self.is_over = True


def storm(server):
    """Opens STORM connections, which is more than the server accepts. The kernel holds the rest in the
    listener's queue."""
    sockets = []
    for _ in range(STORM):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", server.port))
        sockets.append(one)
    return sockets


def set_limit(server, count):
    """Sets the server's soft limit of descriptors. The command runs as the server's user, since root may lack
    the capability."""
    subprocess.run([UNPRIVILEGED, "prlimit", "--pid", str(server.process.pid), f"--nofile={count}:"],
                   check=True)


def failures(numbers):
    return sum(value for name, value in numbers.items() if name.startswith("tidecast_accept_failures_total"))


def too_many_clients():
    """Clients take all places for connections. The server keeps some descriptors back for its files."""
    server = begin(limit=LIMIT)
    client = Client(server)
    stream = Stream(server)
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
    wait(lambda: snapshots(server), "a snapshot is written meanwhile")
    after = client.metrics()
    pauses = [numbers['tidecast_listener_pauses_total{of="clients"}'] for numbers in (before, after)]
    # The server closes idle connections meanwhile, and each makes room for one more.
    check(1 <= pauses[1] <= 2 + STORM, f"the listener paused {pauses[1]:.0f} times")
    check(failures(after) == 0, "no connection was accepted without a descriptor for it")
    check(after["tidecast_connections"] <= places, "never more connections than places")
    for one in sockets:
        one.close()
    wait(server.is_ready, "new clients are served when they are gone")
    check(not stream.is_over, "the stream was never cut off")
    end(server)


def no_descriptors():
    """The process has no descriptor left. Nothing may break, and the server must try again."""
    server = begin()
    client = Client(server)
    had = len(snapshots(server))
    set_limit(server, 16)
    sockets = storm(server)
    wait(lambda: failures(client.metrics()) > 0, "accepting fails")
    first = failures(client.metrics())
    began = time.monotonic()
    spent = kernel.cpu_seconds(server.process.pid)
    time.sleep(2)
    seconds = time.monotonic() - began
    count = failures(client.metrics()) - first
    check(count <= 2 + 2 * seconds,
          f"accepting is tried once a second, not in a circle: {count:.0f} times in {seconds:.0f} s,"
          f" {kernel.cpu_seconds(server.process.pid) - spent:.2f} s of CPU")
    statuses = [client.send() for _ in range(BURST)]
    check(set(statuses) == {200}, f"{BURST} sends over an open connection are acknowledged")
    wait(lambda: client.send() == 200 and "too many open files" in server.log_text(),
         "a snapshot is refused for want of a descriptor")
    check(len(snapshots(server)) <= had, "no snapshot was written")
    set_limit(server, 4096)
    for one in sockets:
        one.close()
    wait(server.is_ready, "new clients are served when there are descriptors again")
    newest = max(map(covering, snapshots(server)), default=0)
    wait(lambda: client.send() == 200 and max(map(covering, snapshots(server)), default=0) > newest,
         "the snapshot is written now", 60)
    end(server)


def one_address():
    """The bound of connections for each address. Where an operator sets it, it also counts this machine's own
    addresses."""
    server = begin("--connections-per-address", "5")
    clients = [Client(server)]
    wait(lambda: clients[0].metric("tidecast_connections") == 1,
         "the connection that asked for readiness is gone")
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
    end(server)


def covering(name):
    return int(name.split("-")[1])


def main():
    too_many_clients()
    no_descriptors()
    one_address()


if __name__ == "__main__":
    main()
