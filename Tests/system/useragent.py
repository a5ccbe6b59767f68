"""A user agent of a project that is a push service: it speaks Mozilla's push protocol over a WebSocket, and
opens messages with http-ece. Senders are pywebpush and plain HTTP."""
import base64
import json
import os
import ssl
import uuid

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from websockets.sync.client import connect

ANSWER_SECONDS = 20


def text_of(data):
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def data_of(text):
    """The bytes of base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def public_key(private):
    """The 65 bytes of the public key."""
    return private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


class Channel:
    """One subscription, with the keys to open its messages."""

    def __init__(self, sender=None):
        self.name, self.endpoint = str(uuid.uuid4()), None
        self.private, self.auth = ec.generate_private_key(ec.SECP256R1()), os.urandom(16)
        # The public key (65 bytes) of the only sender, or None.
        self.sender = sender

    def subscription(self):
        """The subscription as a page gives it to its server."""
        return {"endpoint": self.endpoint,
                "keys": {"p256dh": text_of(public_key(self.private)), "auth": text_of(self.auth)}}

    def opened(self, notification):
        """The plaintext of a notification; b"" where it has no content."""
        if "data" not in notification:
            return b""
        headers, data = notification["headers"], data_of(notification["data"])
        if headers["encoding"] == "aesgcm":
            return http_ece.decrypt(
                data, private_key=self.private, auth_secret=self.auth, version="aesgcm",
                salt=data_of(headers["encryption"].removeprefix("salt=")),
                dh=data_of(headers["crypto_key"].removeprefix("dh=")))
        assert headers == {"encoding": "aes128gcm"}, notification
        return http_ece.decrypt(data_of(notification["data"]), private_key=self.private,
                                auth_secret=self.auth, version="aes128gcm")


class UserAgent:
    """A user agent with its channels. `url`: the WebSocket's; `authority`: the file of the server's
    certificate authority, for TLS."""

    def __init__(self, url, authority=None):
        self.url, self.uaid, self.socket = url, None, None
        self.tls = ssl.create_default_context(cafile=authority) if authority else None
        self.channels = {}
        # Notifications that came and were not handed out.
        self.waiting = []

    def connect(self, **options):
        """Connects and says `hello`. Returns the answer. `options` are further options of the connection."""
        self.socket = connect(self.url, subprotocols=["push-notification"], max_size=None, ssl=self.tls,
                              **options)
        hello = {"messageType": "hello", "broadcasts": {}, "use_webpush": True}
        self.say(**hello, **({"uaid": self.uaid} if self.uaid else {}))
        answer = self.answer("hello")
        assert answer["status"] == 200 and answer["use_webpush"] is True, answer
        self.uaid = answer["uaid"]
        return answer

    def say(self, **message):
        """Sends a message."""
        self.socket.send(json.dumps(message))

    def hear(self, seconds=ANSWER_SECONDS):
        """The next message. Raises TimeoutError and ConnectionClosed."""
        return json.loads(self.socket.recv(timeout=seconds))

    def answer(self, kind):
        """The next message of this kind; notifications before it wait."""
        while True:
            message = self.hear()
            if message.get("messageType") == kind:
                return message
            assert message.get("messageType") == "notification", message
            self.waiting.append(message)

    def subscribe(self, sender=None):
        """A new channel."""
        channel = Channel(sender)
        key = {"key": text_of(sender)} if sender else {}
        self.say(messageType="register", channelID=channel.name, **key)
        answer = self.answer("register")
        assert answer["channelID"] == channel.name and answer["status"] == 200, answer
        channel.endpoint = answer["pushEndpoint"]
        self.channels[channel.name] = channel
        return channel

    def unsubscribe(self, channel):
        """Ends a channel. Returns the status."""
        self.say(messageType="unregister", channelID=channel.name, code=200)
        return self.answer("unregister")["status"]

    def notification(self, seconds=ANSWER_SECONDS):
        """The next notification: the object, and its plaintext."""
        message = self.waiting.pop(0) if self.waiting else self.hear(seconds)
        assert message.get("messageType") == "notification", message
        return message, self.channels[message["channelID"]].opened(message)

    def acknowledge(self, *notifications, code=100):
        """Acknowledges notifications in one message."""
        self.say(messageType="ack", updates=[
            {"channelID": one["channelID"], "version": one["version"], "code": code}
            for one in notifications])

    def close(self):
        """Closes the connection."""
        self.socket.close()
