"""What Apple's push service asks of a request (Apple, "Sending notification requests to APNs" and "Handling
notification responses from APNs"): its path, fields and content, and the token of its sender. Needs the
package cryptography."""
import base64
import json
import re

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

PUSH_TYPES = {
    "alert": "", "background": "", "location": ".location-query", "voip": ".voip",
    "complication": ".complication", "fileprovider": ".pushkit.fileprovider", "mdm": "",
    "liveactivity": ".push-type.liveactivity", "pushtotalk": ".voip-ptt", "controls": ".push-type.controls",
    "widgets": ".push-type.widgets",
}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TOKEN = re.compile(r"/3/device/(([0-9a-f]{2}){16,256})")
KNOWN = {"authorization", "apns-topic", "apns-push-type", "apns-priority", "apns-expiration",
         "apns-collapse-id", "apns-id", "content-length", "content-type", "user-agent", "host"}


class RefusedError(Exception):
    """The status and the reason with which the service answers."""

    def __init__(self, status, reason):
        super().__init__(f"{status} {reason}")
        self.status, self.reason = status, reason


def decoded(text):
    """base64url without padding; other texts are refused."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", text):
        raise ValueError(text)
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def device_token(path):
    """The device's token in hexadecimal."""
    found = TOKEN.fullmatch(path)
    if not found:
        raise RefusedError(404 if not path.startswith("/3/device/") else 400,
                           "BadPath" if not path.startswith("/3/device/") else "BadDeviceToken")
    return found[1]


def check_fields(fields):
    """The fields as a dictionary. `fields`: (name, value) of each, without HTTP/2's own."""
    names = [name for name, _ in fields]
    if len(set(names)) != len(names):
        raise RefusedError(400, "DuplicateHeaders")
    unknown = set(names) - KNOWN
    assert not unknown, f"fields that Apple does not know: {unknown}"
    found = dict(fields)
    if "apns-topic" not in found:
        raise RefusedError(400, "MissingTopic")
    kind = found.get("apns-push-type")
    if kind not in PUSH_TYPES:
        raise RefusedError(400, "InvalidPushType")
    if not found["apns-topic"].endswith(PUSH_TYPES[kind]):
        raise RefusedError(400, "BadTopic")
    priority = found.get("apns-priority", "10")
    if priority not in ("10", "5", "1") or kind == "background" and priority == "10":
        raise RefusedError(400, "BadPriority")
    if not re.fullmatch(r"[0-9]{1,10}", found.get("apns-expiration", "0")):
        raise RefusedError(400, "BadExpirationDate")
    if not 0 < len(found.get("apns-collapse-id", "x").encode()) <= 64:
        raise RefusedError(400, "BadCollapseId")
    if "apns-id" in found and not UUID.fullmatch(found["apns-id"]):
        raise RefusedError(400, "BadMessageId")
    return found


def check_payload(body, kind):
    """The message, a JSON object."""
    if not body:
        raise RefusedError(400, "PayloadEmpty")
    if len(body) > (5120 if kind == "voip" else 4096):
        raise RefusedError(413, "PayloadTooLarge")
    message = json.loads(body)
    assert isinstance(message, dict) and isinstance(message.get("aps"), dict), body
    return message


class Keys:
    """The keys that the service knows: for each key id the team, and the public key."""

    def __init__(self, known, clock):
        self.known, self.clock = known, clock

    def sender(self, authorization):
        """(team id, key id, iat) of a token (RFC 7515: ES256, a signature of 64 bytes)."""
        if authorization is None:
            raise RefusedError(403, "MissingProviderToken")
        invalid = RefusedError(403, "InvalidProviderToken")
        scheme, _, token = authorization.partition(" ")
        try:
            head, claims, signature = token.split(".")
            signed, signature = f"{head}.{claims}".encode(), decoded(signature)
            head, claims = json.loads(decoded(head)), json.loads(decoded(claims))
        except ValueError as error:
            raise invalid from error
        if scheme.lower() != "bearer" or head.get("alg") != "ES256" or len(signature) != 64:
            raise invalid
        team, public = self.known.get(head.get("kid"), (None, None))
        at = claims.get("iat")
        if public is None or claims.get("iss") != team or type(at) is not int:
            raise invalid
        der = encode_dss_signature(int.from_bytes(signature[:32], "big"),
                                   int.from_bytes(signature[32:], "big"))
        try:
            public.verify(der, signed, ec.ECDSA(SHA256()))
        except InvalidSignature as error:
            raise invalid from error
        if at > self.clock():
            raise invalid
        if at < self.clock() - 3600:
            raise RefusedError(403, "ExpiredProviderToken")
        return team, head["kid"], at


class Binding:
    """A connection belongs to the team and the key of its first request. Its next token is signed 20 minutes
    after the one before at least. When the first came over this connection does not count: a server may
    begin a minute before its tokens change."""

    def __init__(self):
        self.sender, self.token, self.issued = None, None, None

    def check(self, team, key_id, authorization, issued):
        if self.sender is None:
            self.sender = (team, key_id)
        if self.sender != (team, key_id):
            raise RefusedError(403, "UnrelatedKeyIdInToken")
        if authorization != self.token:
            if self.issued is not None and abs(issued - self.issued) < 20 * 60:
                raise RefusedError(429, "TooManyProviderTokenUpdates")
            self.token, self.issued = authorization, issued
