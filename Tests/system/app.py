"""An app with the Swift client library: the program messaging-sample, which takes commands and prints a line
for each thing that happens."""
import os
import signal
import subprocess

from system.checks import wait
from system.process import ROOT, UNPRIVILEGED


def program():
    """The path of the app's program: MESSAGING_SAMPLE, else the debug build."""
    found = os.environ.get("MESSAGING_SAMPLE") or os.path.join(ROOT, ".build/clients/debug/messaging-sample")
    if not os.path.exists(found):
        raise SystemExit(f"FAIL: there is no {found}: "
                         "swift build --package-path Clients --scratch-path .build/clients")
    return found


# The authorities that programs on Debian trust.
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


def trusting(authority):
    """The words before a program that trusts only this authority. They need root and a file `AUTHORITIES`."""
    return ["unshare", "--mount", "bash", "-c", f'mount --bind "$0" {AUTHORITIES} && exec "$@"', authority,
            UNPRIVILEGED]


class App:
    """An app of the project `demo` at `url`. Its client's state is in `folder`/app, its output in
    `folder`/app.log."""

    def __init__(self, folder, url):
        self.url, self.state = url, os.path.join(folder, "app")
        self.log, self.process, self.begin = os.path.join(folder, "app.log"), None, 0
        # The words before the program.
        self.wrapper = [UNPRIVILEGED]

    def start(self):
        """Starts a process, whose output alone `lines` gives from now on."""
        self.begin = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, program(), self.url, "demo", self.state], stdin=subprocess.PIPE, stdout=log,
                stderr=log, text=True)

    def say(self, line):
        """Gives the app a command."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def lines(self):
        """The whole lines that the present process has printed."""
        with open(self.log, encoding="utf-8") as log:
            log.seek(self.begin)
            return log.read().split("\n")[:-1]

    def numbers(self, word):
        """The numbers of the messages that the process has told of with this word: `message` or `handled`."""
        return [int(line.split()[1]) for line in self.lines() if line.startswith(word + " ")]

    def wait_line(self, line, count=1, limit=60):
        """Waits until the process has printed the line so often, at most `limit` s."""
        def has_come():
            if self.process.poll() is not None:
                raise SystemExit(f"FAIL: the app ended with {self.process.returncode}: {self.lines()[-5:]}")
            return self.lines().count(line) >= count
        wait(has_come, f"the app to print \"{line}\"", limit)

    def token(self):
        """The device's token."""
        self.say("token")
        wait(lambda: any(line.startswith("token ") for line in self.lines()), "the app's token")
        return [line for line in self.lines() if line.startswith("token ")][-1].split()[1]

    def cpu_seconds(self):
        """The processor time that the present process has used."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self):
        """Kills the process with -9, where it runs."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process.stdin.close()
