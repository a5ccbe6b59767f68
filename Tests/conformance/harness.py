"""A real server in a folder of its own, and clients that send the rows' requests."""
import collections
import contextlib
import http.client
import json
import os
import queue
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

from system import device, haproxy, process
from system.ports import free_port

Answer = collections.namedtuple("Answer", "status headers text json")
# Every `status` word that any answer had, for row 19.
seen_statuses = set()


class MismatchError(Exception):
    """A promise of a row does not hold."""


def expect(condition, *what):
    if not condition:
        raise MismatchError(" ".join(str(one) for one in what))


def answer_of(status, headers, raw):
    text = raw.decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        seen_statuses.add(body["error"].get("status"))
    return Answer(status, headers, text, body)


class Server(process.SecureServer):
    """A development server (`dev`), or a server with the projects `shop` and `other`, their keys and service
    accounts. With BEHIND_BALANCER=1 all clients reach it through the balancer of the compose files, with
    TLS."""

    def __init__(self, dev=False, quotas=(), arguments=()):
        super().__init__(process.make_folder())
        self.url, self.is_development = f"http://{self.host}:{self.port}", dev
        self.options = ["--token-uri", f"{self.url}/token", *arguments]
        self.balancer, self.probe = None, self.port
        if os.environ.get("BEHIND_BALANCER"):
            self.probe = free_port()
            self.options += ["--proxy", "127.0.0.1", "--listen-metrics", f"127.0.0.1:{self.probe}"]
            self.balancer = haproxy.HAProxy(self.folder, self.probe, self.secure)
        self.environment = {"TIDECAST_FAILPOINT": "send.answers"}
        self.context = ssl.create_default_context(cafile=f"{self.certificates}/ca.pem")
        self.accounts = {}
        if not dev:
            for project in ("shop", "other"):
                path = f"{self.folder}/{project}.json"
                self.admin("project", "create", project, "--service-account", path, "--token-uri",
                           f"{self.url}/token")
                with open(path) as file:
                    self.accounts[project] = json.load(file)
            self.bearer = self.admin("project", "key", "create", "shop", "--kind", "bearer").strip()
            self.other_bearer = self.admin("project", "key", "create", "other", "--kind", "bearer").strip()
            self.key = self.admin("project", "key", "create", "shop", "--kind", "device").strip()
            self.other_key = self.admin("project", "key", "create", "other", "--kind", "device").strip()
            if quotas:
                self.admin("project", "quota", "shop", *quotas)
        else:
            self.bearer, self.key = "owner", "any"
        self.start()
        if self.balancer:
            self.balancer.start()
        self.wait_ready()

    def words(self):
        return [word for word in super().words() if word != "--dev" or self.is_development]

    def admin(self, *words):
        """What a command prints that runs on the server's data, also while no server runs."""
        done = subprocess.run([process.UNPRIVILEGED, self.binary, *words, "--data", self.data],
                              capture_output=True,
                              stdin=subprocess.DEVNULL, text=True, timeout=60, check=False)
        expect(done.returncode == 0, " ".join(words), done.stderr)
        return done.stdout

    def end(self, how=signal.SIGTERM, limit=30):
        return super().end(how, limit) if self.is_running() else self.process.returncode

    def close(self):
        if self.balancer:
            self.balancer.end(signal.SIGTERM)
        self.kill()
        process.remove(self.folder)

    def is_ready(self):
        with contextlib.suppress(OSError):
            return self.call("GET", "/readyz", bearer=None).status == 200
        return False

    # Requests

    def connect(self, tls=False, alpn=None):
        """A socket. `alpn`: what the client offers with TLS."""
        tls = tls or self.balancer
        port = self.balancer.port if self.balancer else self.secure if tls else self.port
        plain = socket.create_connection(("127.0.0.1", port), timeout=20)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not tls:
            return plain
        context = ssl.create_default_context(cafile=f"{self.certificates}/ca.pem")
        if alpn:
            context.set_alpn_protocols(alpn)
        return context.wrap_socket(plain, server_hostname="localhost")

    def http(self, tls=False, timeout=20):
        """A connection of HTTP/1.1."""
        if not tls and not self.balancer:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        port = self.balancer.port if self.balancer else self.secure
        return http.client.HTTPSConnection("localhost", port, timeout=timeout, context=self.context)

    def call(self, method, path, body=None, bearer="", headers=None, tls=False, connection=None):
        """`body`: bytes as they are, anything else as JSON. `bearer`: None for none, "" for the project's
        own."""
        fields = {"content-type": "application/json", **(headers or {})}
        if bearer is not None:
            fields["authorization"] = f"Bearer {bearer or self.bearer}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        mine = connection or self.http(tls)
        try:
            mine.request(method, path, body, fields)
            response = mine.getresponse()
            return answer_of(response.status, {k.lower(): v for k, v in response.getheaders()},
                             response.read())
        finally:
            if connection is None:
                mine.close()

    def send(self, message, project="shop", **more):
        extra = more.pop("extra", {})
        return self.call("POST", f"/v1/projects/{project}/messages:send", {"message": message, **extra},
                         **more)

    def sent(self, message, **more):
        answer = self.send(message, **more)
        expect(answer.status == 200, "send", message, answer.status, answer.text)
        return answer.json["name"]

    def register(self, project="shop"):
        key = self.key if project == "shop" else self.other_key
        answer = self.call("POST", f"/v1/projects/{project}/registrations", {}, bearer=None,
                           headers={"x-goog-api-key": key})
        expect(answer.status == 200, "register", answer.text)
        return Device(self, project, answer.json)

    def iid(self, verb, topic, tokens, **more):
        more.setdefault("headers", {"access_token_auth": "true"})
        return self.call("POST", f"/iid/v1:{verb}", {"to": f"/topics/{topic}", "registration_tokens": tokens},
                         **more)

    def subscribe(self, topic, *devices):
        answer = self.iid("batchAdd", topic, [device.token for device in devices])
        expect(answer.json == {"results": [{}] * len(devices)}, "subscribe", answer.text)

    def metric(self, name):
        """One figure of /metrics."""
        own = http.client.HTTPConnection("127.0.0.1", self.probe, timeout=20)
        lines = self.call("GET", "/metrics", bearer=None, connection=own).text.splitlines()
        own.close()
        return next(float(line.split(" ")[1]) for line in lines if line.split(" ")[0] == name)


class Device:
    def __init__(self, server, project, made):
        self.server, self.project, self.token, self.credential = server, project, made["token"], made[
            "credential"]
        self.fid = made["name"].rsplit("/", 1)[1]
        self.path = f"/v1/projects/{project}/registrations/{self.fid}"

    def listen(self, last=None):
        return Stream(self, last)

    def acknowledge(self, event):
        answer = self.server.call("POST", f"{self.path}:acknowledge", {"eventId": event},
                                  bearer=self.credential)
        expect(answer.status == 200, "acknowledge", answer.text)


class Stream:
    """A device's stream. A thread reads its events: (id, event, data)."""

    def __init__(self, listener, last):
        connection = listener.server.http(timeout=30)
        self.stream = device.EventStream(connection, listener.path, listener.credential, last)
        expect(self.stream.status == 200, "listen", self.stream.status)
        self.events = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for event, kind, data in self.stream.events():
                self.events.put((event, kind, json.loads(data or "null")))
        except (OSError, ValueError, AttributeError):
            pass
        self.events.put(None)

    def take(self, count, seconds=10):
        """The next `count` events; fewer only where the stream ended or time ran out."""
        taken = []
        end = time.monotonic() + seconds
        while len(taken) < count:
            try:
                event = self.events.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                break
            if event is None:
                break
            taken.append(event)
        return taken

    def messages(self, count, seconds=10):
        return [data for _, _, data in self.take(count, seconds)]

    def only(self, count):
        """The next `count` messages, and one more where the server wrongly sends it within a second."""
        return self.messages(count) + self.messages(1, 1)

    def close(self):
        self.stream.close()


def error(answer, http_status, status, fcm=None, field=None, row=""):
    """Checks an answer against FCM's error envelope, and returns the details by type."""
    expect(answer.status == http_status, row, "status", answer.status, "wanted", http_status,
           answer.text[:300])
    expect(answer.headers.get("content-type", "").lower().startswith("application/json"), row, answer.headers)
    body = (answer.json or {}).get("error")
    expect(isinstance(body, dict), row, answer.text[:300])
    expect(body["code"] == http_status and body["status"] == status and body["message"], row, body)
    details = {detail["@type"].rsplit(".", 1)[1]: detail for detail in body.get("details", [])}
    expect(details.get("FcmError", {}).get("errorCode") == fcm, row, "FcmError", details, "wanted", fcm)
    if field:
        fields = [one["field"] for one in details.get("BadRequest", {}).get("fieldViolations", [])]
        expect(field in fields, row, "fields", fields, "wanted", field)
    return details


def quoted(text):
    return urllib.parse.quote(text, safe="")
