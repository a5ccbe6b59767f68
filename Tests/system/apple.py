"""An app at Apple's push service, and the stand-in for that service with the keys that it knows."""
import os
import secrets

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from system.apnsservice import APNsService
from system.checks import wait
from system.ports import free_port
from system.process import make_certificates

APP, OTHER_APP, THIRD_APP = "org.example.app", "org.example.other", "org.example.third"
TEAM, OTHER_TEAM = "TEAM000001", "TEAM000002"


class Phone:
    """An app's installation with an address at Apple's push service."""

    def __init__(self, shop, service, bundle=APP):
        self.shop, self.service, self.bundle = shop, service, bundle
        self.installation = shop.install()
        self.renew()

    def renew(self):
        """The app tells a new token of Apple's, and gets the same registration."""
        self.apns = secrets.token_hex(32)
        self.token = self.shop.register(self.installation, ios={
            "apns_token": self.apns.upper(), "apns_environment": "PROD", "bundle_id": self.bundle})
        return self.token

    @property
    def device(self):
        return self.service.device(self.apns)

    def plan(self, *arguments, **named):
        self.service.plan(self.apns, *arguments, **named)

    def got(self, name):
        """How often the phone got the message."""
        return sum(message.get("gcm.message_id") == name for _, _, message, _ in self.device.accepted)

    def send(self, **message):
        status, name = self.shop.send(token=self.token, **message)
        assert status == 200, name
        return name

    def wait_for(self, name, limit=240):
        wait(lambda: self.got(name), f"the phone to get {name}", limit)


class Apple:
    """The stand-in, and the keys that it knows. Its certificate is in `folder`/`name`."""

    def __init__(self, folder, name="certificates"):
        self.folder = folder
        certificates = os.path.join(folder, name)
        make_certificates(certificates, "--name", "localhost")
        self.authority = os.path.join(certificates, "ca.pem")
        self.keys = {}
        self.service = APNsService(os.path.join(certificates, "server.pem"),
                                   os.path.join(certificates, "server.key"), free_port(), keys=self.keys)

    def make_key(self, key_id, team):
        """A file of a new key, as Apple gives it."""
        key = ec.generate_private_key(ec.SECP256R1())
        self.keys[key_id] = (team, key.public_key())
        path = os.path.join(self.folder, f"AuthKey_{key_id}.p8")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return path

    def set_key(self, shop, file, key_id, team, bundle=APP):
        """The operator gives the project a key from its file."""
        return shop.set_push("apns", "--key", file, "--key-id", key_id, "--team-id", team, "--bundle-id",
                             bundle, "--host", f"localhost:{self.service.port}", "--ca", self.authority)

    def give(self, shop, key_id, team, bundle=APP):
        """The operator gives the project a new key."""
        return self.set_key(shop, self.make_key(key_id, team), key_id, team, bundle)


def all_got(phones, name):
    return all(phone.got(name) for phone in phones)
