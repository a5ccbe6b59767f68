"""Output that fails; see output.sh."""
import json
import os
import re
import subprocess
import sys

from system.process import OWNER, Server

# The end of a command whose reader has ended, and of one whose output cannot be written.
PIPE, FULL = 141, 74
LIMIT = 30
failed = []


def check(condition, *what):
    print("ok  " if condition else "FAIL", *what)
    if not condition:
        failed.append(what)


def broken_pipe():
    """The end of a pipe whose reader has ended."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


OUTPUTS = {
    "full": lambda: os.open("/dev/full", os.O_WRONLY),
    "a pipe without a reader": broken_pipe,
    # Opened to read, so that each write fails.
    "closed": lambda: os.open("/dev/null", os.O_RDONLY),
}


def run(server, words, stdout=None, stderr=None):
    """The exit code and what could be read; None where the command does not end."""
    ends = [OUTPUTS[kind]() if kind else subprocess.PIPE for kind in (stdout, stderr)]
    try:
        done = subprocess.run([server.binary, *words], stdin=subprocess.DEVNULL, stdout=ends[0],
                              stderr=ends[1], check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None, b""
    finally:
        for end in ends:
            if end != subprocess.PIPE:
                os.close(end)
    return done.returncode, (done.stdout or b"") + (done.stderr or b"")


def commands(server, words=()):
    """All commands that the help names, with their subcommands."""
    shown = subprocess.run([server.binary, *words, "--help"], capture_output=True, text=True, check=True)
    _, _, rest = shown.stdout.partition("SUBCOMMANDS:")
    names = re.findall(r"^  ([a-z][a-z-]*)(?: |$)", rest.partition("\n\n")[0], re.M)
    found = [list(words)] if words else []
    for name in names:
        found += commands(server, [*words, name])
    return found


def every_command(server):
    """Each command with its help, and without what it needs."""
    found = commands(server)
    check(len(found) > 40, "the help names", len(found), "commands")
    for words in found:
        # These would serve, or wait for a cluster.
        rest = [["--help"]] if words[0] in ("server", "bench") else [["--help"], []]
        for kind in OUTPUTS:
            for more in rest:
                for ends in ({"stdout": kind}, {"stderr": kind}, {"stdout": kind, "stderr": kind}):
                    code, said = run(server, [*words, *more], **ends)
                    # `bench` is a program of its own, whose help is of the argument parser.
                    must_say = more and "stdout" in ends and words[0] != "bench"
                    wanted = {PIPE, FULL} if must_say else {*range(128), PIPE}
                    if code not in wanted or b"Fatal error" in said:
                        check(False, *words, *more, ends, code, said[-300:])
    print("ok   each command ends in order, wherever its output goes")


def secrets(server, data):
    """A secret that could not be written is said to be lost."""
    for words, remedy in (
            (["key", "create", "shop", "--kind", "bearer"], b"key revoke"),
            (["key", "create", "shop", "--kind", "service-account", "--service-account", "-"], b"key revoke"),
            (["project", "key", "create", "shop", "--kind", "device"], b"key revoke"),
            (["project", "create", "lost", "--service-account", "-"], b"key create lost"),
            (["secrets", "key", "-"], b"make another")):
        words = words if words[0] == "secrets" else [*words, *data]
        for kind in OUTPUTS:
            if words[1] == "create" and words[0] == "project":
                words[2] = f"lost{len(kind)}"
            code, said = run(server, words, stdout=kind)
            told = b"lost" in said and remedy.split()[-1] in said
            check(code == FULL and told, *words, kind, code, said[-200:])
    for kind in OUTPUTS:
        code, said = run(server, ["project", "list", *data], stdout=kind)
        check(code == (PIPE if "pipe" in kind else FULL), "project list", kind, code, said)
        check(("pipe" in kind) == (said == b""), "project list", kind, said)


def listener(server):
    """`listen | head`: the command ends when its reader has."""
    made = json.loads(server.call("POST", "/v1/projects/shop/registrations", {}, OWNER)[1])
    token = made.get("token") or made["name"].rpartition("/")[2]
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [server.binary, "listen", token, "--project", "shop", "--server", f"http://127.0.0.1:{server.port}"],
        env={**os.environ, "TIDECAST_CREDENTIAL": made["credential"]}, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    check(b"listening" in os.read(reader, 100), "listen begins")
    os.close(reader)
    server.call("POST", "/v1/projects/shop/messages:send", {"message": {"token": token}}, OWNER)
    said = process.communicate(timeout=LIMIT)[1]
    check(process.returncode == PIPE and said == b"", "listen | head ends", process.returncode, said)


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


def logs(work):
    for name, lines in (("full", 3), ("a pipe without a reader", 3), ("closed", 3),
                        ("a pipe that nobody reads", 300)):
        folder = os.path.join(work, name.replace(" ", "-"))
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        server = LoggingServer(folder, "--dev")
        reader, log = os.pipe() if name.endswith("reads") else (None, OUTPUTS[name]())
        server.start_with(log)
        os.close(log)
        try:
            server.wait_ready()
            works(server)
            server.audit(lines)
            check(works(server), "with a log that is", name, "the server serves")
            lost = server.metrics()["tidecast_log_lines_lost_total"]
            check(lost >= 1, "with a log that is", name, "it counts", lost, "lost lines")
        finally:
            server.kill()
            if reader is not None:
                os.close(reader)


def terminal(work):
    """The terminal of a server closes: the server hears SIGHUP, and its log has no end any more."""
    folder = os.path.join(work, "terminal")
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    server = LoggingServer(folder, "--dev")
    screen, log = os.openpty()
    server.start_with(log, ["setsid", "--ctty"], stdin=log)
    os.close(log)
    try:
        server.wait_ready()
        works(server)
        os.close(screen)
        server.audit(3)
        check(works(server), "without its terminal, the server serves")
        lost = server.metrics()["tidecast_log_lines_lost_total"]
        check(lost >= 3, "without its terminal, the server counts", lost, "lost lines")
    finally:
        server.kill()


def main(work):
    server = Server(work, "--dev")
    server.start()
    try:
        server.wait_ready()
        server.command("project", "create", "shop", "--service-account", os.path.join(work, "shop.json"))
        data = ["--data", server.data]
        secrets(server, data)
        listener(server)
        every_command(server)
    finally:
        server.kill()
    logs(work)
    terminal(work)
    return 1 if failed else 0


sys.exit(main(sys.argv[1]))
