"""What Google's Admin SDKs send, taken from the wire (Tests/conformance/recordings), and ways to send it
again: over a port with TLS, with the recorded header blocks, for new devices."""
import json
import os
import re
import socket
import ssl

import h2.config
import h2.connection
import h2.events
from assertion import assertion

from system.shop import Project

LIMIT = 30
TOKEN = re.compile(r"[\w-]{22}(?::|%3A)[\w-]{22}")
MESSAGE = re.compile(r"messages/[0-9a-f]{32}")
# Where a recording cuts a run of one letter short.
CUT = "\N{HORIZONTAL ELLIPSIS}"
BATCH_TOKENS = 1000


class Shop(Project):
    """A project, and the access token that its SDK has got, or else its key."""

    def __init__(self, server, name):
        super().__init__(server, name)
        self.bearer = self.backend["authorization"].removeprefix("Bearer ")

    def make_device(self):
        status, made = self.call("POST", f"{self.path}/registrations", {}, self.backend)
        assert status == 200, (status, made)
        return made["token"]


class Way:
    """One way to the server: a port with TLS, and a connection for each protocol."""

    def __init__(self, port, certificates):
        self.port, self.certificates = port, certificates
        self.socket = self.h2 = None

    def connect(self, protocol):
        context = ssl.create_default_context(cafile=os.path.join(self.certificates, "ca.pem"))
        context.set_alpn_protocols([protocol])
        made = context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), LIMIT),
                                   server_hostname="localhost")
        if made.selected_alpn_protocol() != protocol:
            raise SystemExit(f"FAIL: {protocol} is not offered at {self.port}")
        return made

    def ask(self, request, fields, body):
        """The status and the body of the answer."""
        if request["http"] == "HTTP/1.1":
            return self.over_one(request, fields, body)
        return self.over_two(request, fields, body)

    def over_one(self, request, fields, body):
        with self.connect("http/1.1") as link:
            lines = [f"{request['method']} {request['path']} HTTP/1.1",
                     *(f"{name}: {value}" for name, value in fields), "", ""]
            link.sendall("\r\n".join(lines).encode() + body)
            text = b""
            while b"\r\n\r\n" not in text:
                text += self.some(link)
            head, _, rest = text.partition(b"\r\n\r\n")
            length = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", head).group(1))
            while len(rest) < length:
                rest += self.some(link)
            return int(head.split(b" ")[1]), rest.decode()

    def some(self, link):
        data = link.recv(65536)
        if not data:
            raise SystemExit("FAIL: the connection ended before the answer")
        return data

    def over_two(self, request, fields, body):
        """On one connection for all requests, as the SDKs do."""
        if self.h2 is None:
            self.socket = self.connect("h2")
            self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
                header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False))
            self.h2.initiate_connection()
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, fields, end_stream=not body)
        if body:
            self.h2.send_data(stream, body, end_stream=True)
        self.socket.sendall(self.h2.data_to_send())
        status, text = None, b""
        while True:
            for event in self.h2.receive_data(self.some(self.socket)):
                if isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
                    raise SystemExit(f"FAIL: {request['path']} hears {event}")
                if isinstance(event, h2.events.ResponseReceived):
                    status = int(dict(event.headers)[":status"])
                elif isinstance(event, h2.events.DataReceived):
                    text += event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    self.socket.sendall(self.h2.data_to_send())
                    return status, text.decode()
            self.socket.sendall(self.h2.data_to_send())


def whole(body, size):
    """A recorded body with what the recording cut out of it: most of a value, or of a list of tokens."""
    if '"registration_tokens"' in body and not body.endswith("}"):
        tokens = (TOKEN.findall(body) * BATCH_TOKENS)[:BATCH_TOKENS]
        return json.dumps({"to": "/topics/leg", "registration_tokens": tokens})
    if CUT not in body:
        return body
    start, _, end = body.partition(CUT)
    end = end or ('"}}}' if '"topic"' in start else '"},"topic":"news"}}')
    return start + start[-1] * (size - len(start) - len(end)) + end


def exchanges(folder):
    """(name, exchanges) of each recording in the folder."""
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            found = json.load(file)["exchanges"]
        # An SDK begins with its token; the recording of one SDK does not.
        yield name, sorted(found, key=lambda one: one["request"]["path"] != "/token")


def replay(way, exchange, shops, work):
    """The answer to a recorded request with new devices, in words that are the same for all ways. `work` is a
    folder for keys."""
    request = exchange["request"]
    names, devices = {}, {}

    def device(match):
        recorded = match.group().replace("%3A", ":")
        if recorded not in devices:
            devices[recorded] = shops["shop"].make_device()
            names[devices[recorded]] = recorded
        return devices[recorded].replace(":", "%3A") if "%3A" in match.group() else devices[recorded]

    path = TOKEN.sub(device, request["path"])
    body = TOKEN.sub(device, whole(request["body"], request["body_bytes"]))
    shop = shops["other" if "/projects/other/" in path else "shop"]
    if "<signed JWT>" in body:
        body = body.replace("<signed JWT>", assertion(shop.account, work))
    elif len(body.encode()) != request["body_bytes"]:
        raise SystemExit(f"FAIL: {exchange['what']}: {len(body.encode())} bytes are not what was recorded")
    text = body.encode()
    fields = []
    if request["http"] != "HTTP/1.1" and request["headers"][0][0][0] != ":":
        fields = [(":method", request["method"]), (":scheme", "https"),
                  (":authority", request["authority"]), (":path", path)]
    for name, value in request["headers"]:
        value = value.replace("<access token>", shop.bearer)
        lower = name.lower()
        fields.append((name, path if lower == ":path" else str(len(text)) if lower == "content-length"
                       else value))
    asked = {**request, "path": path}
    if exchange["answer"]["status"] == 409:
        way.ask(asked, fields, text)
    status, answer = way.ask(asked, fields, text)
    if "access_token" in answer:
        shop.bearer = json.loads(answer)["access_token"]
        answer = answer.replace(shop.bearer, "<access token>")
    for mine, recorded in names.items():
        answer = answer.replace(mine, recorded)
    return status, MESSAGE.sub("messages/ID", answer)
