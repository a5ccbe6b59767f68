"""Server processes: the program, a process of its own for each server, and the ways to ask and to end it."""
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess

from system.checks import until
from system.ports import free_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Scripts run servers by this wrapper, and make the files that servers read and write.
UNPRIVILEGED = os.path.join(ROOT, "tools/unprivileged")
# A development server takes this bearer for everything.
OWNER = {"authorization": "Bearer owner", "content-type": "application/json"}
# The Instance ID API (batchAdd, batchRemove, info) also wants to hear that the bearer is an access token.
BACKEND = {**OWNER, "access_token_auth": "true"}
READY_SECONDS = 60


def program():
    """The path of the server's program: TIDECAST, else the debug build."""
    return os.environ.get("TIDECAST") or os.path.join(ROOT, ".build/debug/tidecast")


def make_folder():
    """A temporary folder of the servers' user. Mode 755 lets the database's user reach its own folder in
    it."""
    made = subprocess.run([UNPRIVILEGED, "mktemp", "-d"], check=True, capture_output=True,
                          text=True).stdout.strip()
    os.chmod(made, 0o755)
    return made


def make_certificates(folder, *options, binary=None):
    """Runs `cert make`: the files are in `folder`, which the command makes."""
    subprocess.run([UNPRIVILEGED, binary or program(), "cert", "make", "--out", folder, *options], check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class Server:
    """A server process on 127.0.0.1 with its data in `folder`/data and its log in `folder`/log. The script
    starts and ends it."""
    host = "127.0.0.1"
    # The words before the program.
    wrapper = (UNPRIVILEGED,)

    def __init__(self, folder, *options, name="server", binary=None):
        self.folder, self.name, self.options = folder, name, list(options)
        self.data, self.log = os.path.join(folder, "data"), os.path.join(folder, "log")
        self.binary, self.port = binary or program(), free_port()
        self.environment, self.process = {}, None

    def words(self):
        """The command line after `tidecast server`."""
        return ["--data", self.data, "--listen", f"{self.host}:{self.port}", *self.options]

    def start(self, **options):
        """Starts the process and does not wait; the server adds to its log. `options` are further options of
        Popen."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, self.binary, "server", *self.words()], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env={**os.environ, **self.environment}, **options)

    def call(self, method, path, body=None, headers=OWNER, timeout=40):
        """Status and body (bytes) of one request on a connection of its own. Raises OSError and
        HTTPException."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def asked(self, path):
        """Status and text of a GET; 0 and "" where the server does not answer within 2 s."""
        try:
            status, body = self.call("GET", path, timeout=2)
            return status, body.decode()
        except (OSError, http.client.HTTPException):
            return 0, ""

    def is_ready(self):
        """Whether /readyz answers with 200."""
        return self.asked("/readyz")[0] == 200

    def wait_ready(self, limit=READY_SECONDS):
        """Waits until the server is ready. Ends the test where its process has ended, and after `limit` s."""
        def has_come():
            if self.process and self.process.poll() is not None:
                raise SystemExit(f"FAIL: {self.name} ended with {self.process.returncode}:"
                                 f" {self.log_text()[-2000:]}")
            return self.is_ready()
        if until(has_come, limit) is None:
            raise SystemExit(f"FAIL: waited {limit} s for {self.name} to be ready")

    def log_text(self):
        """All that the server has logged; "" before its first start."""
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def metrics(self):
        """The figures of /metrics by name, with the labels as a part of the name."""
        status, body = self.call("GET", "/metrics")
        assert status == 200, status
        lines = [line.rpartition(" ") for line in body.decode().splitlines() if line[:1] not in ("#", "")]
        return {name: float(value) for name, _, value in lines}

    def run(self, *words, timeout=60):
        """Runs a command of the program on this server's data: a CompletedProcess with text."""
        return subprocess.run([self.binary, *words, "--data", self.data], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=timeout)

    def command(self, *words):
        """What `run` prints. Ends the test where the command fails."""
        done = self.run(*words)
        if done.returncode != 0:
            raise SystemExit(f"FAIL: {' '.join(words)}: {done.stderr[:500]}")
        return done.stdout

    def shown(self, *options):
        """What `cluster status` prints. It ends with 1 where the node is not ready or a partition has no
        owner; the test ends where nothing is printed."""
        done = self.run("cluster", "status", *options)
        if not done.stdout:
            raise SystemExit(f"FAIL: cluster status: {done.stderr[:500]}")
        return done.stdout

    def status(self):
        """`cluster status --json` as an object."""
        return json.loads(self.shown("--json"))

    def owners(self):
        """The owner of each partition, in order, as this server sees it; "" for none."""
        return [one["owner"] for one in self.status()["partitions"]]

    def project_number(self, name="demo"):
        """A project's number, of which placement is made."""
        projects = json.loads(self.command("project", "list", "--json"))
        return int(next(one["projectNumber"] for one in projects if one["project"] == name))

    def is_running(self):
        """Whether the process was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def end(self, how=signal.SIGTERM, limit=60):
        """Sends the signal, and returns the exit code. Raises TimeoutExpired after `limit` s."""
        self.process.send_signal(how)
        return self.process.wait(timeout=limit)

    def kill(self):
        """Kills the process where it runs, also while it is stopped."""
        if self.is_running():
            self.process.kill()
            self.process.wait()


class DevelopmentServer(Server):
    """A server with --dev."""

    def words(self):
        """The command line after `tidecast server`."""
        return ["--dev", *super().words()]


class SecureServer(DevelopmentServer):
    """A development server that also listens with TLS on the port `secure`, with a certificate for
    `localhost`."""

    def __init__(self, folder, *options, certificates=None, **more):
        super().__init__(folder, *options, **more)
        self.secure, self.certificates = free_port(), certificates or os.path.join(folder, "certs")
        if not os.path.exists(self.certificates):
            make_certificates(self.certificates, "--name", "localhost", binary=self.binary)

    def words(self):
        """The command line after `tidecast server`."""
        return [*super().words(), *tls_words(self.secure, self.certificates)]

    def ways(self, protocol):
        """The two ways to reach the server: a name, a port, and the TLS context (None for cleartext)."""
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        tls.set_alpn_protocols([protocol])
        return [("cleartext", self.port, None), ("TLS", self.secure, tls)]


def tls_words(port, certificates):
    """The options of a TLS listener on 127.0.0.1 with the certificate in a folder that `make_certificates`
    has made."""
    return ["--listen-tls", f"127.0.0.1:{port}", "--cert", f"{certificates}/server.pem", "--key",
            f"{certificates}/server.key"]


def remove(folder):
    """Removes a folder with all that is in it, as far as it is there."""
    shutil.rmtree(folder, ignore_errors=True)
