"""A fake of FCM for tests: an OAuth 2.0 token host and `messages:send` over HTTP/2 with TLS, one thread for
each connection. The fake verifies each assertion and each access token. Needs the packages h2 and
cryptography."""
import base64
import collections
import json
import ssl
import threading
import time
import urllib.parse

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from system.ports import listen

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
WORDS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
         429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def refusal(status, code=None, field=None):
    """The body of FCM's refusal."""
    details = []
    if field:
        details.append({"@type": "type.googleapis.com/google.rpc.BadRequest",
                        "fieldViolations": [{"field": field, "description": "wrong"}]})
    if code:
        details.append({"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code})
    return {"error": {"code": status, "message": "refused", "status": WORDS.get(status, "UNKNOWN"),
                      "details": details}}


class FCMService:
    """The fake on 127.0.0.1.

    `account`: the service account's file as an object. `scripts`: what a device token is answered, one after
    the other: (status, code, field, Retry-After); a token without a script is taken. `everything`: the same
    for all tokens. `holds`: answers to messages wait while it is set, except for the next `free` ones: a
    sender tries an idle service with one message first."""

    def __init__(self, certificate, key, port, account):
        self.port, self.account, self.lock = port, account, threading.Lock()
        self.public = load_pem_private_key(account["private_key"].encode(), None).public_key()
        self.access, self.fetches, self.refuses_account = set(), 0, False
        self.taken, self.refused = collections.defaultdict(list), collections.defaultdict(list)
        self.scripts, self.everything, self.mistakes = {}, None, []
        self.holds, self.held, self.free = threading.Event(), 0, 0
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        context.set_alpn_protocols(["h2"])
        self.context = context
        self.listener = listen(port, self.serve)

    @property
    def url(self):
        return f"https://localhost:{self.port}"

    def close(self):
        self.listener.close()

    # One connection.

    def serve(self, raw):
        try:
            with self.context.wrap_socket(raw, server_side=True) as connection:
                Connection(self, connection).run()
        except (OSError, h2.exceptions.ProtocolError):
            pass

    # Requests.

    def answer(self, fields, body):
        """Status, object and Retry-After for a request."""
        try:
            if fields[":path"] == "/token":
                return self.grant(fields, body)
            assert fields[":path"] == f"/v1/projects/{self.account['project_id']}/messages:send", fields
            return self.send(fields, json.loads(body))
        except Exception as error:  # pylint: disable=broad-except
            self.mistakes.append(f"{type(error).__name__}: {error}")
            return 400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": str(error)}}, None

    def grant(self, fields, body):
        assert fields["content-type"] == "application/x-www-form-urlencoded", fields
        form = dict(urllib.parse.parse_qsl(body.decode(), strict_parsing=True))
        assert form["grant_type"] == GRANT, form
        head, claims, signature = form["assertion"].split(".")
        self.public.verify(decoded(signature), f"{head}.{claims}".encode(), PKCS1v15(), SHA256())
        head, claims = json.loads(decoded(head)), json.loads(decoded(claims))
        assert head["alg"] == "RS256" and head["kid"] == self.account["private_key_id"], head
        assert claims["iss"] == self.account["client_email"] and claims["scope"] == SCOPE, claims
        assert claims["aud"] == self.account["token_uri"], claims
        assert claims["iat"] <= time.time() < claims["exp"] <= claims["iat"] + 3600, claims
        with self.lock:
            self.fetches += 1
            if self.refuses_account:
                return 400, {"error": "invalid_grant", "error_description": "Account not found"}, None
            token = f"access-{self.fetches}"
            self.access.add(token)
        return 200, {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}, None

    def send(self, fields, body):
        scheme, token = fields["authorization"].split(" ")
        assert scheme == "Bearer" and list(body) == ["message"], body
        message = body["message"]
        assert not {"topic", "condition"} & set(message), message
        with self.lock:
            if token not in self.access:
                return 401, refusal(401), None
            device = message["token"]
            script = self.scripts.get(device)
            wanted = script.pop(0) if script else self.everything
            if wanted is None:
                self.taken[device].append(message)
                return 200, {"name": f"projects/{self.account['project_id']}/messages/1"}, None
            status, code, field, retry_after = wanted
            self.refused[device].append((status, time.monotonic()))
            return status, refusal(status, code, field), retry_after


class Connection:
    """An HTTP/2 connection of the fake."""

    def __init__(self, service, connection):
        self.service, self.socket = service, connection
        self.http = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.requests, self.whole = {}, []

    def run(self):
        self.http.initiate_connection()
        self.socket.sendall(self.http.data_to_send())
        self.socket.settimeout(0.02)
        while True:
            try:
                data = self.socket.recv(65536)
                if not data:
                    return
                for event in self.http.receive_data(data):
                    self.take(event)
            except TimeoutError:
                pass
            self.answer_all()
            self.socket.sendall(self.http.data_to_send())

    def take(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.requests[event.stream_id] = (dict(event.headers), bytearray())
        elif isinstance(event, h2.events.DataReceived):
            self.requests[event.stream_id][1].extend(event.data)
            self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.whole.append(event.stream_id)
            if self.requests[event.stream_id][0][":path"] != "/token":
                with self.service.lock:
                    self.service.held += 1

    def answer_all(self):
        waiting = []
        for stream in self.whole:
            fields, body = self.requests[stream]
            if fields[":path"] != "/token" and not self.may_answer():
                waiting.append(stream)
                continue
            del self.requests[stream]
            self.respond(stream, *self.service.answer(fields, bytes(body)))
        self.whole = waiting

    def may_answer(self):
        with self.service.lock:
            if self.service.holds.is_set() and self.service.free == 0:
                return False
            self.service.free = max(0, self.service.free - 1)
            self.service.held -= 1
            return True

    def respond(self, stream, status, answer, retry_after):
        body = json.dumps(answer).encode()
        fields = [(":status", str(status)), ("content-type", "application/json"),
                  ("content-length", str(len(body)))]
        if retry_after is not None:
            fields.append(("retry-after", str(retry_after)))
        self.http.send_headers(stream, fields)
        self.http.send_data(stream, body, end_stream=True)
