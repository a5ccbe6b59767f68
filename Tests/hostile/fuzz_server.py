"""Mutated requests, streams, frames and datagrams through running servers: one on its own, and two of a
cluster where PostgreSQL is installed. tools/fuzz --server runs this and documents its options."""
import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import mutation  # noqa: E402

from system import kernel, node  # noqa: E402
from system.checks import until  # noqa: E402
from system.device import register  # noqa: E402
from system.ports import free_port  # noqa: E402
from system.postgres import Database, find_programs  # noqa: E402
from system.process import (  # noqa: E402
    ROOT,
    SecureServer,
    make_certificates,
    make_folder,
    program,
    remove,
    tls_words,
)

REPORT = re.compile(
    r"ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|Fatal error|Precondition|runtime error")
# Descriptors that a server may have more at the end: of connections that were idle before, of files that the
# journal opens.
SLACK = 6
QUIET = 60


class Lone(SecureServer):
    """A server under test that is no node of a cluster."""
    peer = None

    def __init__(self, binary, folder):
        super().__init__(os.path.join(folder, "alone"), "--partitions", "32", name="alone", binary=binary,
                         certificates=f"{folder}/certs")
        self.data, self.log = self.folder, os.path.join(folder, "alone.log")
        self.samples = []


class Member(node.Node):
    """A node under test, with a TLS listener and without TLS between nodes."""

    def __init__(self, binary, folder, name, database):
        super().__init__(folder, name, database, binary=binary)
        self.log, self.secure = os.path.join(folder, f"{name}.log"), free_port()
        self.samples = []

    def words(self):
        return [*super().words(), *tls_words(self.secure, f"{os.path.dirname(self.folder)}/certs")]

    def links(self):
        return []


class Worker:
    """One process that makes many short connections."""

    def __init__(self, servers, devices, seed):
        self.random, self.servers = random.Random(seed), servers
        self.mutator = mutation.Mutator(self.random)
        self.http1 = {one.name: list(mutation.http1(devices[one.name])) for one in servers}
        self.http2 = {one.name: list(mutation.http2(devices[one.name])) for one in servers}
        self.frames, self.packets = mutation.stored("frames.txt"), mutation.stored("packets.txt")
        self.held = []
        self.tls = ssl.create_default_context()
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE

    def run(self, end):
        count = 0
        while time.monotonic() < end:
            server = self.random.choice(self.servers)
            with contextlib.suppress(OSError):
                self.one(server)
            count += 1
        return count

    def one(self, server):
        kinds = ["http1", "http2", "http1-tls", "http2-tls",
                 "hello"] + (["peer", "gossip"] if server.peer else [])
        kind = self.random.choice(kinds)
        if kind == "gossip":
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for packet in self.random.choices(self.packets, k=20):
                    sender.sendto(self.mutator.bytes(packet)[:60000], ("127.0.0.1", server.peer))
            return
        if kind == "peer":
            port, pieces = server.peer, self.mutator.peer(self.frames)
        elif kind == "hello":
            port, pieces = server.secure, self.mutator.secure()
        else:
            port = server.secure if kind.endswith("tls") else server.port
            make = self.mutator.http1 if kind.startswith("http1") else self.mutator.http2
            pieces = make((self.http1 if kind.startswith("http1") else self.http2)[server.name])
        one = socket.create_connection(("127.0.0.1", port), timeout=5)
        try:
            if kind.endswith("tls"):
                self.tls.set_alpn_protocols(["http/1.1" if kind.startswith("http1") else "h2"])
                one = self.tls.wrap_socket(one, server_hostname="localhost")
            self.send(one, pieces)
        except OSError:
            one.close()
            raise
        self.leave(one)

    def send(self, one, pieces):
        way = self.random.random()
        if way < 0.7:
            pieces = [b"".join(pieces)]
        elif way > 0.9:
            whole = b"".join(pieces)
            cuts = sorted(self.random.randrange(len(whole) + 1) for _ in range(6))
            pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        for piece in pieces:
            one.sendall(piece)

    def leave(self, one):
        """Ends a connection: with a reset, with an end and one read, after one read, later, or at once."""
        way = self.random.random()
        one.settimeout(0.1)
        if way < 0.35:
            if self.random.random() < 0.5:
                time.sleep(self.random.random() / 50)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        elif way < 0.6:
            one.shutdown(socket.SHUT_WR)
            one.recv(1 << 16)
        elif way < 0.85:
            one.recv(1 << 16)
        elif way < 0.95:
            self.held.append(one)
            if len(self.held) <= 40:
                return
            one = self.held.pop(self.random.randrange(len(self.held)))
        one.close()


def build(kind):
    """Builds the server with a sanitizer in a folder of its own, and returns the program's path. For `none`
    it builds nothing."""
    if kind == "none":
        return program()
    environment = {**os.environ, "TIDECAST_SANITIZE": "1", "TIDECAST_TESTS": "0"}
    subprocess.run(["swift", "build", "--sanitize", kind, "--scratch-path", f".build/{kind}", "--product",
                    "tidecast"],
                   cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    return os.path.join(ROOT, f".build/{kind}/debug/tidecast")


def begin(binary, folder, stack, is_alone):
    if not is_alone and not find_programs():
        print("PostgreSQL is not installed: no cluster, and none of its frames")
        is_alone = True
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"
    make_certificates(f"{folder}/certs", "--name", "localhost", binary=binary)
    servers = [Lone(binary, folder)]
    if not is_alone:
        database = Database(folder)
        stack.callback(database.stop)
        servers += [Member(binary, folder, name, database) for name in ("node-1", "node-2")]
    os.environ["ASAN_OPTIONS"] = "quarantine_size_mb=32:malloc_context_size=24"
    stack.callback(lambda: [one.kill() for one in servers])
    for one in servers:
        one.start()
    for one in servers:
        one.wait_ready(120)
    return servers


def watch(servers, devices, seconds, workers, seed):
    """Runs the workers and watches the servers. Returns the first thing that went wrong, else `None` and
    prints the connections."""
    end, children = time.monotonic() + seconds, []
    sys.stdout.flush()
    for number in range(workers):
        receive, say = os.pipe()
        child = os.fork()
        if child == 0:
            count = Worker(servers, devices, f"{seed}/{number}").run(end)
            os.write(say, str(count).encode())
            os._exit(0)
        os.close(say)
        children.append((child, receive))
    next_look = time.monotonic()
    while time.monotonic() < end:
        time.sleep(min(1, max(0, end - time.monotonic())))
        for one in servers:
            if not one.is_running():
                return f"{one.name} ended with {one.process.returncode} in the midst of it"
        if time.monotonic() >= next_look:
            next_look += max(5, seconds / 20)
            for one in servers:
                try:
                    one.call("GET", "/healthz", timeout=60)
                except OSError as error:
                    return f"{one.name} did not answer in the midst of it: {error}"
                one.samples.append(kernel.resident(one.process.pid))
    total = 0
    for child, receive in children:
        total += int(os.read(receive, 100) or 0)
        os.waitpid(child, 0)
    print(f"{total} connections")
    return None


def settled(one, before):
    """Yields what is wrong with a server after all clients have left."""
    pid = one.process.pid
    until(lambda: kernel.descriptors(pid) <= before, QUIET, 0.5)
    after = kernel.descriptors(pid)
    if after > before + SLACK:
        yield f"{one.name}: {before} descriptors before, {after} after"
    open_now = one.metrics()["tidecast_connections"]
    if open_now > 1:
        yield f"{one.name}: {open_now:.0f} connections, where there is one"
    half, last = one.samples[len(one.samples) // 2], kernel.resident(pid)
    print(f"{one.name}: resident {one.samples[0]:.0f} MiB at first, {half:.0f} at half, {last:.0f} at last,"
          f" {before} and {after} descriptors")
    if last > 1.3 * half + 64:
        samples = ", ".join(f"{sample:.0f}" for sample in one.samples)
        yield f"{one.name}: memory goes on growing, {samples}, {last:.0f} MiB"


def finish(servers):
    for one in servers:
        one.process.send_signal(signal.SIGTERM)
    for one in servers:
        try:
            code = one.process.wait(120)
        except subprocess.TimeoutExpired:
            yield f"{one.name} did not end"
            continue
        words = one.log_text()
        if code != 0 or REPORT.search(words):
            yield f"{one.name} ended with {code}; the whole log is in .build/fuzz-server/{one.name}.log"
            found = [line for line in words.splitlines() if REPORT.search(line) or line.startswith("SUMMARY")]
            print(*found[:20], sep="\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    parser.add_argument("--sanitize", choices=["address", "thread", "none"], default="address")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--program")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    binary, wrong = options.program or build(options.sanitize), []
    os.umask(0o022)
    folder = make_folder()
    shutil.copy(os.path.join(HERE, "leaks.txt"), folder)
    os.environ["LSAN_OPTIONS"] = f"suppressions={folder}/leaks.txt"
    with contextlib.ExitStack() as stack:
        stack.callback(remove, folder)
        servers = begin(binary, folder, stack, options.alone)
        devices = {one.name: register(one) for one in servers}
        before = [kernel.descriptors(one.process.pid) for one in servers]
        broken = watch(servers, devices, options.seconds, options.workers, options.seed)
        if broken:
            print(f"FAIL {broken}", flush=True)
        wrong += [broken] if broken else [words for one, had in zip(servers, before, strict=True)
                                          for words in settled(one, had)]
        wrong += finish([one for one in servers if one.is_running()])
        kept = os.path.join(ROOT, ".build/fuzz-server")
        os.makedirs(kept, exist_ok=True)
        for one in servers:
            shutil.copy(one.log, kept)
    for words in wrong[1 if broken else 0:]:
        print(f"FAIL {words}")
    print(f"{'FAIL' if wrong else 'ok  '} {options.seconds:.0f} s, seed {options.seed}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
