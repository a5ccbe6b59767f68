"""Counts what one send, one delivery, one subscription and the opening of a stream cost the server:
instructions, retains and releases, and allocations, in the release build under callgrind. Counts are the same
on a busy machine, where times are not.

    counts.py PROGRAM COMPILER          compares with the counts in counts.json, and fails past the tolerance
    counts.py PROGRAM COMPILER --record writes them

Raise a count only in a commit that says why. Counts belong to one version of the compiler; under another
version the test is passed over (77), with its counts on the last line."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse

from system.checks import check
from system.process import ROOT, UNPRIVILEGED, DevelopmentServer, Server, make_folder, remove

RECORDED = os.path.join(ROOT, "Tests/bench/counts.json")
# A count is the lowest of some tries: on a busy machine a record has fewer facts, and each costs more. While
# it is past its bound it is taken again, up to so many times.
TRIES, TRIES_MAX = 3, 12
# Seconds in which an idle server is counted.
IDLE = 1
# The lowest counts of two runs differ by up to three percent, with hash seeds and the places of devices.
TOLERANCE = 1.05
SENDS, DEVICES, MESSAGES, TOKENS = 2000, 64, 40, 1000
BODY = json.dumps({"message": {"topic": "news", "data": {"k": "x" * 240}}})
RETAINS = re.compile(r"swift_(bridgeObject)?(unknownObject)?(Retain|Release|retain|release)(_n)?$")
ALLOCATIONS = {"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"}
KINDS = ("instructions", "retains and releases", "allocations")


def read(path):
    """The counts of a dump of callgrind, by KINDS. A name stands with its number where it is first used."""
    names, callee, totals, calls = {}, None, 0, {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            name = re.match(r"(c?fn)=\((\d+)\)(?: (.*))?", line)
            if name:
                if name[3]:
                    names[name[2]] = name[3].partition("'")[0]
                callee = names[name[2]]
            elif line.startswith("calls="):
                calls[callee] = calls.get(callee, 0) + int(line[6:].split()[0])
            elif line.startswith("totals:"):
                totals = int(line.split()[1])
    retains = sum(count for name, count in calls.items() if RETAINS.match(name))
    return totals, retains, sum(calls.get(name, 0) for name in ALLOCATIONS)


def lowest(tries):
    """The lowest count of each kind."""
    return [min(kind) for kind in zip(*tries, strict=True)]


def within(counts, recorded):
    """For each kind: whether the count is not past its bound."""
    return [now <= most * TOLERANCE + 1 for now, most in zip(counts, recorded, strict=True)]


def under_callgrind(kind, folder, program, recorded):
    """A server of `kind` whose instructions callgrind counts between `count`'s begin and end."""
    class Counted(kind):
        wrapper = (UNPRIVILEGED, "env", f"LD_PRELOAD={folder}/mainqueue.so", "valgrind", "--tool=callgrind",
                   "--instr-atstart=no", f"--callgrind-out-file={folder}/dump")
        found = {}

        def control(self, *words):
            subprocess.run([UNPRIVILEGED, "callgrind_control", *words, str(self.process.pid)], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           stdin=subprocess.DEVNULL)

        def measure(self, name, operations, work):
            """Finds the lowest counts of one operation, while `work` does so many. `work` gets the try's
            number. What the server does by the clock is left out: it costs more if `work` takes longer."""
            waits = [self.count(lambda: time.sleep(IDLE)) for _ in range(TRIES)]
            idle = lowest([count / seconds for count in counts] for seconds, counts in waits)
            tries = []
            while len(tries) < TRIES or len(tries) < TRIES_MAX and name in recorded \
                    and not all(within(lowest(tries), recorded[name])):
                seconds, counts = self.count(lambda: work(len(tries)))
                tries.append([round((count - seconds * each) / operations, 1)
                              for count, each in zip(counts, idle, strict=True)])
            self.found[name] = lowest(tries)
            print(name, dict(zip(KINDS, self.found[name], strict=True)), f"of {len(tries)} tries", flush=True)

        def count(self, work):
            """The seconds of `work`, and the server's counts meanwhile."""
            for old in os.listdir(folder):
                if old.startswith("dump"):
                    os.remove(os.path.join(folder, old))
            self.control("-i", "on")
            began = time.monotonic()
            work()
            self.control("-i", "off")
            seconds = time.monotonic() - began
            self.control("-d")
            dumps = [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("dump.")]
            check(len(dumps) == 1, "callgrind has written its counts")
            return seconds, read(dumps[0])

    return Counted(folder, binary=program)


def h2load(server, requests, headers, folder, *options):
    """Asks `requests` times on one connection, 32 at a time."""
    body = os.path.join(folder, "body.json")
    with open(body, "w") as file:
        file.write(BODY if not options else "{}")
    words = [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
    target = options or [f"http://127.0.0.1:{server.port}/v1/projects/demo/messages:send"]
    done = subprocess.run(["h2load", "-c1", "-m32", "-t1", f"-n{requests}", "-d", body, *words, *target],
                          capture_output=True, text=True, check=True, timeout=600)
    check(f" {requests} 2xx" in done.stdout, f"{requests} requests are answered with 200")


class Listeners:
    """Streams over HTTP/1.1, one on each connection, of devices of the topic `fan`."""

    def __init__(self, server, devices):
        self.server, self.devices, self.sockets, self.count = server, devices, [], 0

    def open(self):
        """Opens all streams, in place of those that were open."""
        for listener in self.sockets:
            listener.close()
        self.sockets = []
        for one in self.devices:
            quoted = urllib.parse.quote(one["token"], safe="")
            listener = socket.create_connection(("127.0.0.1", self.server.port))
            listener.sendall(f"GET /v1/projects/demo/registrations/{quoted}:listen HTTP/1.1\r\nhost: x\r\n"
                             f"authorization: Bearer {one['credential']}\r\n\r\n".encode())
            self.sockets.append(listener)
        for listener in self.sockets:
            self.read(listener, b": listening")

    @staticmethod
    def read(listener, text):
        found = b""
        listener.settimeout(60)
        while text not in found:
            part = listener.recv(65536)
            check_part(part, found)
            found += part

    def send(self, headers):
        for _ in range(MESSAGES):
            self.count += 1
            text = f"number {self.count} ends"
            status, body = self.server.call("POST", "/v1/projects/demo/messages:send", {
                "message": {"topic": "fan", "data": {"k": text}}}, headers)
            if status != 200:
                raise SystemExit(f"FAIL: a send: {body}")
            for listener in self.sockets:
                self.read(listener, text.encode())


def check_part(part, found):
    if not part:
        raise SystemExit(f"FAIL: a stream has ended: {found[-300:]}")


def register(server, headers):
    status, body = server.call("POST", "/v1/projects/demo/registrations", {}, headers)
    if status != 200:
        raise SystemExit(f"FAIL: a registration: {status} {body}")
    return json.loads(body)


def subscribe(server, headers, topic, tokens):
    status, body = server.call("POST", "/iid/v1:batchAdd", {
        "to": f"/topics/{topic}", "registration_tokens": tokens}, {**headers, "access_token_auth": "true"})
    if status != 200:
        raise SystemExit(f"FAIL: batchAdd: {status} {body}")


def subscribe_alone(server, headers, topic, tokens, folder):
    lines = os.path.join(folder, "lines")
    with open(lines, "w") as file:
        for one in tokens:
            file.write(f"http://127.0.0.1:{server.port}/v1/projects/demo/registrations/"
                       f"{urllib.parse.quote(one, safe='')}/topicSubscriptions?topic_name={topic}\n")
    h2load(server, TOKENS, headers, folder, "-i", lines)


def production(folder, program, recorded):
    """The counts of a server as in production: credentials are checked, and quotas are taken."""
    server = under_callgrind(Server, folder, program, recorded)
    server.start()
    server.wait_ready(180)
    server.command("project", "create", "demo", "--service-account", os.path.join(folder, "demo.json"))
    bearer = server.command("project", "key", "create", "demo", "--kind", "bearer").split()[-1]
    server.command("project", "quota", "demo", "--sends-per-minute", "1000000000",
                   "--subscriptions-per-second", "1000000000", "--registrations-per-second", "1000000000")
    headers = {"authorization": f"Bearer {bearer}", "content-type": "application/json"}
    try:
        devices = [register(server, headers) for _ in range(DEVICES)]
        tokens = [register(server, headers)["token"] for _ in range(TOKENS)]
        h2load(server, 500, headers, folder)
        server.measure("a send", SENDS, lambda _: h2load(server, SENDS, headers, folder))
        subscribe(server, headers, "warm", tokens)
        server.measure("a subscription of a batch", TOKENS,
                       lambda number: subscribe(server, headers, f"batch-{number}", tokens))
        server.measure("a subscription alone", TOKENS,
                       lambda number: subscribe_alone(server, headers, f"single-{number}", tokens, folder))
        subscribe(server, headers, "fan", [one["token"] for one in devices])
        listeners = Listeners(server, devices)
        server.measure("the opening of a stream", DEVICES, lambda _: listeners.open())
        listeners.send(headers)
        server.measure("a delivery", MESSAGES * DEVICES, lambda _: listeners.send(headers))
    finally:
        server.end()
    return server.found


def development(folder, program, recorded):
    """The counts of a send at a development server."""
    server = under_callgrind(DevelopmentServer, folder, program, recorded)
    server.start()
    server.wait_ready(180)
    headers = {"authorization": "Bearer owner", "content-type": "application/json"}
    try:
        h2load(server, 1500, headers, folder)
        server.measure("a send at a development server", SENDS,
                       lambda _: h2load(server, SENDS, headers, folder))
    finally:
        server.end()
    return server.found


def main():
    program, compiler = sys.argv[1:3]
    with open(RECORDED) as file:
        recorded = json.load(file)
    bounds = {} if "--record" in sys.argv else recorded.get(compiler, {})
    folder = make_folder()
    try:
        # Valgrind 3.19 cannot read the debugging information of Swift's programs.
        subprocess.run(["strip", "-g", "-o", f"{folder}/tidecast", program], check=True)
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", f"{folder}/mainqueue.so",
                        os.path.join(ROOT, "Tests/bench/mainqueue.c"),
                        "-Wl,--unresolved-symbols=ignore-all"], check=True)
        found = production(folder, f"{folder}/tidecast", bounds)
        shutil.rmtree(f"{folder}/data")
        found.update(development(folder, f"{folder}/tidecast", bounds))
    finally:
        remove(folder)
    if "--record" in sys.argv:
        recorded[compiler] = found
        tables = [f" {json.dumps(version)}: {{\n" + ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(counts)}" for name, counts in table.items()) + "\n }"
            for version, table in recorded.items()]
        with open(RECORDED, "w") as file:
            file.write("{\n" + ",\n".join(tables) + "\n}\n")
        return
    if compiler not in recorded:
        print(f"no counts are recorded for {compiler}: {json.dumps(found)}")
        sys.exit(77)
    for name, most in bounds.items():
        good = within(found[name], most)
        for kind, is_good, now, then in zip(KINDS, good, found[name], most, strict=True):
            check(is_good, f"{name}: {now} {kind}, recorded {then}")


if __name__ == "__main__":
    main()
