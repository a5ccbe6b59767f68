"""Mutated requests, streams, frames and datagrams through running servers: one on its own, and two of a cluster where PostgreSQL
is installed. tools/fuzz --server runs this and documents its options."""
import argparse
import contextlib
import glob
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
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "Tests/acceptance"), HERE]

import cluster  # noqa: E402
import mutation  # noqa: E402
import openloop  # noqa: E402
from ports import free_port  # noqa: E402
from trial import Process  # noqa: E402

REPORT = re.compile(r"ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|Fatal error|Precondition|runtime error")
# Descriptors that a server may have more at the end: of connections that were idle before, of files that the journal opens.
SLACK = 6
QUIET = 60


class Server:
    """A server under test: where it listens, and its process."""

    def __init__(self, program, folder, name, database=None):
        self.name, self.plain, self.secure, self.peer = name, free_port(), free_port(), free_port() if database else None
        self.log = os.path.join(folder, f"{name}.log")
        options = ["--engine", database.url, "--node", name, "--peer", f"127.0.0.1:{self.peer}"] if database else []
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [cluster.UNPRIVILEGED, program, "server", "--dev", "--partitions", "32", "--data", f"{folder}/{name}",
                 "--listen", f"127.0.0.1:{self.plain}", "--listen-tls", f"127.0.0.1:{self.secure}",
                 "--cert", f"{folder}/certs/server.pem", "--key", f"{folder}/certs/server.key", *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.device, self.samples = None, []

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.plain}{path}", timeout=60) as answer:
            return answer.read().decode()

    def is_ready(self):
        if self.process.poll() is not None:
            raise SystemExit(f"FAIL: {self.name} did not start:\n{self.words()}")
        with contextlib.suppress(OSError):
            return "ready" in self.get("/readyz")
        return False

    def register(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.plain}/v1/projects/demo/registrations", b"{}",
                                         {"authorization": "Bearer owner"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.device = openloop.json.load(answer)

    def words(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()


class Worker:
    """One process that makes many short connections."""

    def __init__(self, servers, seed):
        self.random, self.servers = random.Random(seed), servers
        self.mutator = mutation.Mutator(self.random)
        self.http1 = {one.name: list(mutation.http1(one.device)) for one in servers}
        self.http2 = {one.name: list(mutation.http2(one.device)) for one in servers}
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
        kinds = ["http1", "http2", "http1-tls", "http2-tls", "hello"] + (["peer", "gossip"] if server.peer else [])
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
            port = server.secure if kind.endswith("tls") else server.plain
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
            pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)])]
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
    """Builds the server with a sanitizer in a folder of its own, and returns the program's path. For `none` it builds nothing."""
    if kind == "none":
        return os.environ.get("TIDECAST", os.path.join(ROOT, ".build/debug/tidecast"))
    environment = {**os.environ, "TIDECAST_SANITIZE": "1", "TIDECAST_TESTS": "0"}
    subprocess.run(["swift", "build", "--sanitize", kind, "--scratch-path", f".build/{kind}", "--product", "tidecast"],
                   cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    return os.path.join(ROOT, f".build/{kind}/debug/tidecast")


def begin(program, folder, stack, is_alone):
    if not is_alone and not glob.glob("/usr/lib/postgresql/*/bin/initdb"):
        print("PostgreSQL is not installed: no cluster, and none of its frames")
        is_alone = True
    subprocess.run([cluster.UNPRIVILEGED, program, "cert", "make", "--out", f"{folder}/certs", "--name", "localhost"], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    servers = [Server(program, folder, "alone")]
    if not is_alone:
        database = cluster.Database(folder)
        stack.callback(database.stop)
        servers += [Server(program, folder, name, database) for name in ("node-1", "node-2")]
    stack.callback(lambda: [one.process.kill() for one in servers if one.process.poll() is None])
    for one in servers:
        cluster.wait(one.is_ready, f"{one.name} to be ready", 120)
        one.register()
    return servers


def watch(servers, seconds, workers, seed):
    """Runs the workers and watches the servers. Returns the first thing that went wrong, else `None` and prints the
    connections."""
    end, children = time.monotonic() + seconds, []
    sys.stdout.flush()
    for number in range(workers):
        receive, say = os.pipe()
        child = os.fork()
        if child == 0:
            count = Worker(servers, f"{seed}/{number}").run(end)
            os.write(say, str(count).encode())
            os._exit(0)
        os.close(say)
        children.append((child, receive))
    next_look = time.monotonic()
    while time.monotonic() < end:
        time.sleep(min(1, max(0, end - time.monotonic())))
        for one in servers:
            if one.process.poll() is not None:
                return f"{one.name} ended with {one.process.returncode} in the midst of it"
        if time.monotonic() >= next_look:
            next_look += max(5, seconds / 20)
            for one in servers:
                try:
                    one.get("/healthz")
                except OSError as error:
                    return f"{one.name} did not answer in the midst of it: {error}"
                one.samples.append(Process(one.process.pid).rss)
    total = 0
    for child, receive in children:
        total += int(os.read(receive, 100) or 0)
        os.waitpid(child, 0)
    print(f"{total} connections")
    return None


def settled(one, before):
    """Yields what is wrong with a server after all clients have left."""
    process, end = Process(one.process.pid), time.monotonic() + QUIET
    while process.descriptors > before and time.monotonic() < end:
        time.sleep(0.5)
    if process.descriptors > before + SLACK:
        yield f"{one.name}: {before} descriptors before, {process.descriptors} after"
    open_now = float(re.search(r"(?m)^tidecast_connections (\S+)", one.get("/metrics"))[1])
    if open_now > 1:
        yield f"{one.name}: {open_now:.0f} connections, where there is one"
    half, last = one.samples[len(one.samples) // 2], process.rss
    print(f"{one.name}: resident {one.samples[0]:.0f} MiB at first, {half:.0f} at half, {last:.0f} at last,"
          f" {before} and {process.descriptors} descriptors")
    if last > 1.3 * half + 64:
        yield f"{one.name}: memory goes on growing, {', '.join(f'{sample:.0f}' for sample in one.samples)}, {last:.0f} MiB"


def finish(servers):
    for one in servers:
        one.process.send_signal(signal.SIGTERM)
    for one in servers:
        try:
            code = one.process.wait(120)
        except subprocess.TimeoutExpired:
            yield f"{one.name} did not end"
            continue
        words = one.words()
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
    program, wrong = options.program or build(options.sanitize), []
    os.umask(0o022)
    folder = cluster.make_folder()
    shutil.copy(os.path.join(HERE, "leaks.txt"), folder)
    os.environ["ASAN_OPTIONS"] = "quarantine_size_mb=32:malloc_context_size=24"
    os.environ["LSAN_OPTIONS"] = f"suppressions={folder}/leaks.txt"
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        servers = begin(program, folder, stack, options.alone)
        before = [Process(one.process.pid).descriptors for one in servers]
        broken = watch(servers, options.seconds, options.workers, options.seed)
        if broken:
            print(f"FAIL {broken}", flush=True)
        wrong += [broken] if broken else [words for one, had in zip(servers, before) for words in settled(one, had)]
        wrong += finish([one for one in servers if one.process.poll() is None])
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
