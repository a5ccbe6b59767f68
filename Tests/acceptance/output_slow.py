"""Readers that are slow, and files that may not grow; see output.sh."""
import fcntl
import http.client
import json
import os
import signal
import subprocess
import threading
import time

from system.checks import until, wait
from system.device import Device, register, subscribe
from system.process import OWNER, UNPRIVILEGED, Server

LIMIT = 60
# The smallest pipe, which is full when the program starts.
PIPE_BYTES = 4096
JUNK = b"#" * PIPE_BYTES
MIB = 1 << 20


class SlowPipe:
    """A pipe that is full for `full` seconds. Then its reader takes `piece` bytes every `pause` seconds."""

    def __init__(self, is_blocking=True, full=0.5, piece=200, pause=0.005):
        self.reader, self.writer = os.pipe()
        fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.write(self.writer, JUNK)
        os.set_blocking(self.writer, is_blocking)
        self.full, self.piece, self.pause, self.text = full, piece, pause, b""
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        """Reads until the end of the pipe."""
        time.sleep(self.full)
        while data := os.read(self.reader, self.piece):
            self.text += data
            time.sleep(self.pause)
        os.close(self.reader)

    def started(self):
        """The program has the pipe: the test does not write."""
        os.close(self.writer)

    def said(self):
        """What the program has written so far."""
        return self.text[PIPE_BYTES:]


def run(words, is_blocking):
    """The exit code, standard output and standard error of a command whose readers are slow; None for the
    code where the command does not end."""
    pipes = [SlowPipe(is_blocking), SlowPipe(is_blocking)]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipes[0].writer,
                               stderr=pipes[1].writer)
    for pipe in pipes:
        pipe.started()
    try:
        code = process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        code = None
    for pipe in pipes:
        pipe.thread.join(LIMIT)
    return code, *(pipe.said() for pipe in pipes)


def works(server):
    body = {"message": {"topic": "a"}}
    return server.call("POST", "/v1/projects/shop/messages:send", body, OWNER)[0] == 200


class LoggingServer(Server):
    """A server whose log goes elsewhere."""

    def start_with(self, log, wrapper=(), stdin=subprocess.DEVNULL):
        self.process = subprocess.Popen(
            [*wrapper, *self.wrapper, self.binary, "server", *self.words()], stdin=stdin, stdout=log,
            stderr=log)

    def audit(self, count):
        """Each makes a line of the log."""
        for _ in range(count):
            self.command("key", "create", "shop", "--kind", "bearer")


def make(work, name):
    folder = os.path.join(work, name)
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    return LoggingServer(folder, "--dev")


def listener(server, check):
    """`listen` into a pipe that is full for seconds: each message comes, in order."""
    made = register(server, project="shop")
    pipe = SlowPipe(full=4, piece=4096, pause=0.001)
    process = subprocess.Popen(
        [server.binary, "listen", made["token"], "--project", "shop", "--server",
         f"http://127.0.0.1:{server.port}"], stdout=pipe.writer, stderr=subprocess.PIPE,
        env={**os.environ, "TIDECAST_CREDENTIAL": made["credential"]})
    pipe.started()
    for number in range(90):
        message = {"token": made["token"], "data": {"n": str(number), "x": "x" * 3500}}
        assert server.call("POST", "/v1/projects/shop/messages:send", {"message": message})[0] == 200

    def numbers():
        lines = [line[6:] for line in pipe.said().splitlines() if line.startswith(b"data: {")]
        return [json.loads(line)["data"]["n"] for line in lines if line.endswith(b"}")]
    until(lambda: len(numbers()) >= 90, LIMIT)
    got = numbers()
    check(got == [str(number) for number in range(90)], "listen into a full pipe loses nothing", len(got))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)


def log(work, check):
    """The log goes to a reader of a byte at a time: the server does not wait, and counts. Once its reader is
    quick, whole lines come again."""
    server, pipe = make(work, "slow-log"), SlowPipe(full=2, piece=1, pause=0.001)
    server.start_with(pipe.writer)
    pipe.started()
    try:
        server.wait_ready()
        slowest, good = 0, works(server)
        for _ in range(20):
            server.audit(1)
            began = time.monotonic()
            good = works(server) and good
            slowest = max(slowest, time.monotonic() - began)
        check(good and slowest < 5, f"with a slow log a send takes {slowest:.2f} s at most")
        lost = server.metrics()["tidecast_log_lines_lost_total"]
        check(lost >= 1, "with a slow log the server counts", lost, "lost lines")
        pipe.piece, pipe.pause = 4096, 0
        wait(lambda: len(pipe.text) >= PIPE_BYTES, "the junk to be read")
        server.audit(3)
        wait(lambda: pipe.said().count(b"key.create") >= 3, "new lines")
        lines = pipe.said().decode().splitlines()
        check(all(json.loads(line)["message"] for line in lines), "whole lines come, ", len(lines))
        check(server.metrics()["tidecast_log_lines_lost_total"] == lost, "no more lines are lost")
    finally:
        server.kill()


def limits(work, check):
    """A log, and then a database, may not grow any more (`ulimit -f`)."""
    server = make(work, "log-limit")
    with open(server.log, "wb") as file:
        file.truncate(64 * MIB)
    with open(server.log, "ab") as file:
        server.start_with(file, ["prlimit", f"--fsize={64 * MIB}", "--"])
    try:
        server.wait_ready()
        works(server)
        server.audit(3)
        check(works(server), "with a log at its limit, the server serves")
        lost = server.metrics()["tidecast_log_lines_lost_total"]
        check(lost >= 3, "with a log at its limit, the server counts", lost, "lost lines")
    finally:
        server.kill()
    database_limit(make(work, "data-limit"), check)


def refused(server):
    """Partitions whose records the engine refuses; None where the server does not answer."""
    try:
        return server.metrics()["tidecast_partitions_refused"]
    except (OSError, http.client.HTTPException):
        return None


def database_limit(server, check):
    """A database at its limit is a full disk: sends wait or are refused, until it may grow."""
    with open(server.log, "ab") as file:
        server.start_with(file, ["prlimit", f"--fsize={3 * MIB}:unlimited", "--"])
    try:
        server.wait_ready()
        device = Device(server, register(server, project="shop"), project="shop")
        subscribe(server, "limit", [device.token])
        wait(lambda: device.streams, "the stream")
        answers, stop = {}, threading.Event()

        def send():
            number = 0
            while not stop.is_set():
                message = {"topic": "limit", "data": {"n": str(number), "x": "x" * 3500}}
                try:
                    answers[number] = server.call("POST", "/v1/projects/shop/messages:send",
                                                  {"message": message})[0]
                except (OSError, http.client.HTTPException):
                    return
                number += 1
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        until(lambda: not server.is_running() or refused(server), LIMIT)
        code = server.process.poll()
        check(code is None, "a database at its limit does not end the server", code or "",
              server.log_text()[-200:] if code else "")
        if code is not None:
            return
        check(server.is_ready() and "the disk is full" in server.log_text(), "the log says that it is full")
        subprocess.run([UNPRIVILEGED, "prlimit", "--pid", str(server.process.pid), "--fsize=unlimited"],
                       check=True)
        wait(lambda: refused(server) == 0, "the database to grow again", 30)
        count = len(answers)
        wait(lambda: list(answers.values())[count:].count(200) > 10, "sends", 30)
        stop.set()
        sender.join(LIMIT)
        accepted = [number for number, status in answers.items() if status == 200]
        wait(lambda: set(accepted) <= set(device.counts()), "the messages", 30)
        check(list(device.counts()) == accepted and set(answers.values()) <= {200, 503, 504},
              "past it", len(accepted), "messages came, and no other")
    finally:
        server.kill()
