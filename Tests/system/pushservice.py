"""A strict Web Push service for tests: TLS, HTTP/1.1, one thread for each connection. The service opens each
body by http-ece and verifies each signature by cryptography; browsers' keys are its own. Needs the packages
http-ece and cryptography."""
import base64
import http.server
import json
import secrets
import ssl
import threading
import time

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def encoded(raw):
    """base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Browser:
    """A browser's subscription at the service: its endpoint and keys, and the messages that it got."""

    def __init__(self, service, name):
        self.name, self.path = name, f"/push/{name}-{secrets.token_urlsafe(12)}"
        self.endpoint = service.origin + self.path
        self.key, self.auth = ec.generate_private_key(ec.SECP256R1()), secrets.token_bytes(16)
        # The status with which the service answers; None: as the service has it.
        self.status = None
        # (time, Topic, message) of each push that the service accepted, and of each that it refused.
        self.accepted, self.refused = [], []
        # (id, TTL) of each push.
        self.times = []

    def public(self):
        return self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def block(self, server_key):
        """The `web` block of a registration, as Firebase's SDK sends it."""
        return {"endpoint": self.endpoint, "p256dh": encoded(self.public()), "auth": encoded(self.auth),
                "origin": "https://app.example.com", "applicationPubKey": server_key}

    def ids(self):
        """The ids of the accepted messages."""
        return [message["fcmMessageId"] for _, _, message in self.accepted]


class PushService:
    """The service on 127.0.0.1 under the name `host`. `status` is its answer to everything; `retry_after` the
    field of that name; `stalls` makes it answer nothing until it is cleared. After `left` further pushes it
    stalls by itself. `waiting` counts the pushes that had to wait for that, `connections` what came at
    all."""

    def __init__(self, certificate, key, port, host="localhost"):
        self.port, self.browsers, self.lock = port, {}, threading.Lock()
        self.origin = f"https://{host}" + (f":{port}" if port != 443 else "")
        self.connections = 0
        self.status, self.retry_after, self.mistakes = 201, None, []
        self.stalls, self.left, self.waiting = threading.Event(), None, 0
        # Salts and senders' keys of all bodies.
        self.salts, self.keys = set(), set()
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # noqa: N802 - the name that http.server calls
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                if len(body) < length:
                    self.close_connection = True  # The sender has died.
                    return
                with service.lock:
                    service.waiting += service.stalls.is_set()
                while service.stalls.is_set():
                    time.sleep(0.05)
                status = service.take(self.path, self.headers, body)
                self.send_response(status)
                if service.retry_after and status in (429, 503):
                    self.send_header("Retry-After", str(service.retry_after))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            def process_request(self, request, client_address):
                service.connections += 1
                super().process_request(request, client_address)

        self.server = Listener(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        # The handshake belongs to the connection's own thread.
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                 do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def browser(self, name):
        """A new subscription."""
        made = Browser(self, name)
        with self.lock:
            self.browsers[made.path] = made
        return made

    def take(self, path, headers, body):
        """The status for one push. What a real service would refuse is a mistake."""
        with self.lock:
            browser = self.browsers.get(path)
        if browser is None:
            return 404
        try:
            message = self.opened(browser, headers, body)
        except Exception as error:  # pylint: disable=broad-except
            self.mistakes.append(f"{type(error).__name__}: {error}")
            return 400
        status = browser.status or self.status
        found = (time.monotonic(), headers["topic"], message)
        with self.lock:
            browser.times.append((message["fcmMessageId"], int(headers["ttl"])))
            (browser.accepted if status == 201 else browser.refused).append(found)
            if self.left is not None:
                self.left -= 1
                if self.left == 0:
                    self.stalls.set()
        return status

    def opened(self, browser, headers, body):
        """The message of a push, whose fields and signature are as RFC 8030, 8291 and 8292 have them."""
        assert int(headers["ttl"]) >= 0
        assert headers["content-encoding"] == "aes128gcm" and len(body) <= 4096
        topic = headers["topic"]
        assert 0 < len(topic) <= 32 and decoded(topic + "A" * (-len(topic) % 4)) is not None
        scheme, rest = headers["authorization"].split(" ", 1)
        parts = dict(part.strip().split("=", 1) for part in rest.split(","))
        assert scheme == "vapid"
        head, claims, signature = parts["t"].split(".")
        raw = decoded(signature)
        der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decoded(parts["k"]))
        public.verify(der, f"{head}.{claims}".encode(), ec.ECDSA(SHA256()))
        claims = json.loads(decoded(claims))
        assert claims["aud"] == self.origin, claims
        assert time.time() < claims["exp"] <= time.time() + 86400, claims
        self.check_fresh(body[:16], body[21:86])
        plain = http_ece.decrypt(body, private_key=browser.key, auth_secret=browser.auth,
                                 version="aes128gcm")
        return json.loads(plain)

    def check_fresh(self, salt, key):
        """Each try of a push has a salt and a key of its own."""
        with self.lock:
            assert salt not in self.salts and key not in self.keys, "a salt or a key comes again"
            self.salts.add(salt)
            self.keys.add(key)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
