"""The stand-in for Apple's push service against clients that are not Tidecast's: aioapns does what a good
client does, and a bare client of the package h2 does what a good client never does. Needs aioapns, h2 and
cryptography, and openssl for the certificate."""
import asyncio
import base64
import json
import logging
import os
import socket
import ssl
import subprocess
import tempfile
import time

import h2.config
import h2.connection
import h2.events
import h2.settings
from aioapns import APNs, NotificationRequest, PushType
from aioapns.connection import APNsProductionClientProtocol
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from system.apnsservice import APNsService

TEAM, KEY, OTHER = "TEAM000001", "KEY0000001", "KEY0000002"


def encoded(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def bearer(private, key_id, team, at, algorithm="ES256"):
    """`authorization` as RFC 7515 has it, made without Tidecast and without a library for tokens."""
    head = encoded(json.dumps({"alg": algorithm, "kid": key_id}).encode())
    text = f"{head}.{encoded(json.dumps({'iss': team, 'iat': at}).encode())}"
    r, s = decode_dss_signature(private.sign(text.encode(), ec.ECDSA(SHA256())))
    return f"bearer {text}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


class Bare:
    """A client that sends what it is told to."""

    def __init__(self, port, authority):
        context = ssl.create_default_context(cafile=authority)
        context.set_alpn_protocols(["h2"])
        raw = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket = context.wrap_socket(raw, server_hostname="localhost")
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.answers, self.ended, self.streams, self.goaway = {}, set(), None, None
        self.flush()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def send(self, authorization, token="ab" * 32, body=b'{"aps":{}}', **fields):
        stream = self.h2.get_next_available_stream_id()
        named = {"apns-topic": "com.example.app", "apns-push-type": "alert", "authorization": authorization}
        named |= {name.replace("_", "-"): value for name, value in fields.items()}
        self.h2.send_headers(stream, [
            (":method", "POST"), (":scheme", "https"), (":authority", "localhost"),
            (":path", f"/3/device/{token}"), *((name, value) for name, value in named.items() if value)])
        self.h2.send_data(stream, body, end_stream=True)
        self.flush()
        return stream

    def read(self, until):
        """Reads until `until` holds. False where the connection has ended before."""
        while not until(self):
            data = self.socket.recv(65536)
            if not data:
                return False
            for event in self.h2.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    self.answers[event.stream_id] = [int(dict(event.headers)[":status"]), b""]
                elif isinstance(event, h2.events.DataReceived):
                    self.answers[event.stream_id][1] += event.data
                elif isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)):
                    self.ended.add(event.stream_id)
                elif isinstance(event, h2.events.RemoteSettingsChanged):
                    self.streams = self.h2.remote_settings.max_concurrent_streams
                elif isinstance(event, h2.events.ConnectionTerminated):
                    self.goaway = (event.last_stream_id, event.additional_data)
                    return True
            self.flush()
        return True

    def answer(self, *arguments, **named):
        stream = self.send(*arguments, **named)
        assert self.read(lambda bare: stream in bare.ended), "the connection ended"
        status, body = self.answers[stream]
        return status, json.loads(body)["reason"] if body else None


def check(name, found, wanted):
    print(("ok   " if found == wanted else "FAIL ") + name + ("" if found == wanted else f": {found!r}"))
    return found == wanted


async def good(service, authority, pem):
    """aioapns sends three messages, one of them to a device that is gone."""
    logging.getLogger("aioapns").setLevel(logging.CRITICAL)
    APNsProductionClientProtocol.APNS_SERVER = "localhost"
    APNsProductionClientProtocol.APNS_PORT = service.port
    context = ssl.create_default_context(cafile=authority)
    context.set_alpn_protocols(["h2"])
    client = APNs(key=pem, key_id=KEY, team_id=TEAM, topic="com.example.app", max_connections=1,
                  ssl_context=context)
    service.plan("cd" * 32, 410, "Unregistered", timestamp=1_700_000_000_000)
    answers = []
    for token in ("ab" * 32, "cd" * 32, "ef" * 32):
        message = {"aps": {"alert": "hello"}}
        request = NotificationRequest(token, message, priority=10, push_type=PushType.ALERT, time_to_live=60,
                                      collapse_key="one")
        answers.append(await client.send_notification(request))
    client.pool.close()
    return [(answer.status, answer.description, answer.timestamp) for answer in answers]


def bad(service, authority, private, other):
    """What a good client never does."""
    now = int(time.time())
    token = bearer(private, KEY, TEAM, now)
    rows = [
        ("no token", {"authorization": None}, (403, "MissingProviderToken")),
        ("a token of another key", {"authorization": bearer(other, KEY, TEAM, now)},
         (403, "InvalidProviderToken")),
        ("a token of another team", {"authorization": bearer(private, KEY, "TEAM000002", now)},
         (403, "InvalidProviderToken")),
        ("another algorithm", {"authorization": bearer(private, KEY, TEAM, now, "HS256")},
         (403, "InvalidProviderToken")),
        ("a token from an hour ago", {"authorization": bearer(private, KEY, TEAM, now - 3605)},
         (403, "ExpiredProviderToken")),
        ("a token from tomorrow", {"authorization": bearer(private, KEY, TEAM, now + 86_400)},
         (403, "InvalidProviderToken")),
        ("no topic", {"apns_topic": None}, (400, "MissingTopic")),
        ("no push type", {"apns_push_type": None}, (400, "InvalidPushType")),
        ("a push type of another topic", {"apns_push_type": "voip"}, (400, "BadTopic")),
        ("a priority for a background push", {"apns_push_type": "background"}, (400, "BadPriority")),
        ("a long collapse id", {"apns_collapse_id": "x" * 65}, (400, "BadCollapseId")),
        ("an expiration that is none", {"apns_expiration": "soon"}, (400, "BadExpirationDate")),
        ("an id that is none", {"apns_id": "7"}, (400, "BadMessageId")),
        ("a token that is none", {"token": "xyz"}, (400, "BadDeviceToken")),
        ("a long message", {"body": b'{"aps":{"alert":"%s"}}' % (b"x" * 4096)}, (413, "PayloadTooLarge")),
        ("a good request", {}, (200, None)),
    ]
    is_good = True
    for name, named, wanted in rows:
        arguments = {"authorization": token} | named
        is_good &= check(name, Bare(service.port, authority).answer(**arguments), wanted)
    one = Bare(service.port, authority)
    is_good &= check("the first key", one.answer(token), (200, None))
    is_good &= check("a second key", one.answer(bearer(other, OTHER, TEAM, now)),
                    (403, "UnrelatedKeyIdInToken"))
    is_good &= check("a token that changes", one.answer(bearer(private, KEY, TEAM, now - 60)),
                    (429, "TooManyProviderTokenUpdates"))
    is_good &= check("no mistakes so far", service.mistakes, [])
    return is_good


def streams(service, authority, private):
    """One stream before the first 200; then as many as the service says; the end of a connection."""
    token, is_good = bearer(private, KEY, TEAM, int(time.time())), True
    service.plan("aa" * 32, 200, delay=0.2)
    eager = Bare(service.port, authority)
    eager.read(lambda bare: bare.streams is not None)
    is_good &= check("one stream at first", eager.streams, 1)
    eager.h2.remote_settings.acknowledge()
    eager.h2.remote_settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS] = 9
    eager.h2.remote_settings.acknowledge()
    eager.send(token, token="aa" * 32)
    eager.send(token, token="aa" * 32)
    eager.read(lambda bare: bare.goaway is not None or len(bare.ended) == 2)
    is_good &= check("two streams at first are a mistake", len(service.mistakes) > 0, True)
    service.mistakes.clear()
    bare = Bare(service.port, authority)
    bare.answer(token)
    bare.read(lambda bare: bare.streams == service.streams)
    is_good &= check("more streams after a 200", bare.streams, service.streams)
    service.allow(3)
    bare.read(lambda bare: bare.streams == 3)
    service.plan("bb" * 32, 200, delay=0.3)
    sent = [bare.send(token, token="bb" * 32) for _ in range(3)]
    while len([one for one in service.seen if one.get("path") == "/3/device/" + "bb" * 32]) < 3:
        time.sleep(0.01)
    service.go_away("Shutdown", processed=1)
    bare.read(lambda bare: bare.goaway is not None)
    is_good &= check("GOAWAY", bare.goaway, (sent[0], b'{"reason": "Shutdown"}'))
    is_good &= check("three streams of three are no mistake", service.mistakes, [])
    return is_good


def main():
    private, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        chain, key = os.path.join(folder, "chain.pem"), os.path.join(folder, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost", "-keyout", key, "-out", chain], check=True,
                       capture_output=True)
        keys = {KEY: (TEAM, private.public_key()), OTHER: (TEAM, other.public_key())}
        service = APNsService(chain, key, 0, keys=keys)
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        found = asyncio.run(good(service, chain, pem))
        is_good = check("aioapns", found, [("200", None, None), ("410", "Unregistered", 1_700_000_000_000),
                                          ("200", None, None)])
        is_good &= check("aioapns makes no mistakes", service.mistakes, [])
        is_good &= check("aioapns fills the table",
                        "apns-id is in the compression table" in service.advice, True)
        is_good &= bad(service, chain, private, other)
        is_good &= streams(service, chain, private)
        service.close()
    return 0 if is_good else 1
