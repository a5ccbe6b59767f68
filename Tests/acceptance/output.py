"""Output that fails; see output.sh."""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

import output_slow

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
    # A file that may not grow: the first write would end a program that does not ignore SIGXFSZ.
    "a file at its limit": lambda: os.dup(WITHOUT_ROOM.fileno()),
}
WITHOUT_ROOM = tempfile.TemporaryFile()
# Further commands of the shell that starts the program.
SHELL = {"a file at its limit": ["ulimit -f 0"]}
# Commands that run at the same time.
LANES = 6


def run(server, words, stdout=None, stderr=None):
    """The exit code and what could be read; None where the command does not end."""
    ends = [OUTPUTS[kind]() if kind else subprocess.PIPE for kind in (stdout, stderr)]
    # No number at all: the program must not give it to another file.
    shell = [f"exec {number}>&-" for number, kind in ((1, stdout), (2, stderr)) if kind == "closed"]
    shell += SHELL.get(stdout) or SHELL.get(stderr) or []
    try:
        done = subprocess.run(["bash", "-c", "; ".join([*shell, 'exec "$0" "$@"']), server.binary, *words],
                              stdin=subprocess.DEVNULL, stdout=ends[0], stderr=ends[1], check=False,
                              timeout=LIMIT)
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


def variants(server):
    """Each command with its help, and without what it needs."""
    found = commands(server)
    check(len(found) > 40, "the help names", len(found), "commands")
    for words in found:
        yield words, ["--help"]
        # These would serve, or wait for a cluster.
        if words[0] not in ("server", "bench"):
            yield words, []


def broken(server, words, more):
    """One command, with each output that fails."""
    for kind in OUTPUTS:
        for ends in ({"stdout": kind}, {"stderr": kind}, {"stdout": kind, "stderr": kind}):
            code, said = run(server, [*words, *more], **ends)
            # `bench` is a program of its own, whose help is of the argument parser.
            must_say = more and "stdout" in ends and words[0] != "bench"
            wanted = {PIPE, FULL} if must_say else {*range(128), PIPE}
            if code not in wanted or b"Fatal error" in said:
                check(False, *words, *more, ends, code, said[-300:])


def slow(server, words, more):
    """One command whose readers are slow: it says what it says to others."""
    plain = subprocess.run([server.binary, *words, *more], stdin=subprocess.DEVNULL, capture_output=True,
                           check=False, timeout=LIMIT)
    for is_blocking in (True, False):
        # The argument parser's own output does not wait.
        if words[0] == "bench" and not is_blocking:
            continue
        code, *said = output_slow.run([server.binary, *words, *more], is_blocking)
        if (code, *said) != (plain.returncode, plain.stdout, plain.stderr):
            check(False, *words, *more, "slow, blocking" if is_blocking else "slow", code, said, plain)


def every_command(server):
    rows = list(variants(server))
    with concurrent.futures.ThreadPoolExecutor(LANES) as lanes:
        for what in (broken, slow):
            before = len(failed)
            for one in [lanes.submit(what, server, *row) for row in rows]:
                one.result()
            if len(failed) == before:
                check(True, len(rows), "commands with an output that is", what.__name__)


def secrets(server, data):
    """A secret that could not be written is said to be lost."""
    for words, remedy in (
            (["key", "create", "shop", "--kind", "bearer"], b"key revoke"),
            (["key", "create", "shop", "--kind", "service-account", "--service-account", "-"], b"key revoke"),
            (["project", "key", "create", "shop", "--kind", "device"], b"key revoke"),
            (["device", "register", "--project", "shop"], b"device delete"),
            (["project", "create", "lost", "--service-account", "-"], b"key create lost"),
            (["secrets", "key", "-"], b"make another")):
        words = words if words[0] == "secrets" else [*words, *data]
        for kind in OUTPUTS:
            if words[1] == "create" and words[0] == "project":
                words[2] = f"lost{len(kind)}"
            code, said = run(server, words, stdout=kind)
            told = b"lost" in said and remedy in said
            check(code == FULL and told, *words, kind, code, said[-200:])
    for is_blocking in (True, False):
        code, key, _ = output_slow.run([server.binary, "key", "create", "shop", "--kind", "bearer", *data],
                                       is_blocking)
        check(code == 0 and key.startswith(b"tcb_"), "a slow reader gets the key")
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


def logs(work):
    for name, lines in (("full", 3), ("a pipe without a reader", 3), ("closed", 3),
                        ("a pipe that nobody reads", 300)):
        folder = os.path.join(work, name.replace(" ", "-"))
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        server = output_slow.LoggingServer(folder, "--dev")
        reader, log = os.pipe() if name.endswith("reads") else (None, OUTPUTS[name]())
        server.start_with(log)
        os.close(log)
        try:
            server.wait_ready()
            output_slow.works(server)
            server.audit(lines)
            check(output_slow.works(server), "with a log that is", name, "the server serves")
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
    server = output_slow.LoggingServer(folder, "--dev")
    screen, log = os.openpty()
    server.start_with(log, ["setsid", "--ctty"], stdin=log)
    os.close(log)
    try:
        server.wait_ready()
        output_slow.works(server)
        os.close(screen)
        server.audit(3)
        check(output_slow.works(server), "without its terminal, the server serves")
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
        output_slow.listener(server, check)
        every_command(server)
    finally:
        server.kill()
    logs(work)
    terminal(work)
    output_slow.log(work, check)
    output_slow.limits(work, check)
    return 1 if failed else 0


sys.exit(main(sys.argv[1]))
