"""Reads the samples of Tests/Push/PushMessagesTests/SampleTests.swift: http-ece opens the bodies (RFC 8291),
and py-vapid and cryptography verify the tokens (RFC 8292, and Apple's). Of further files of samples only the
bodies' salts and keys are compared."""
import base64
import json
import sys

import http_ece
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from py_vapid import Vapid02

BODIES, TOKENS = 1000, 50


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def open_body(sample):
    """The plaintext of a body, by the receiver's key."""
    key = ec.derive_private_key(int.from_bytes(decoded(sample["private"]), "big"), ec.SECP256R1())
    body = decoded(sample["body"])
    assert len(body) <= 4096, f"a body has {len(body)} bytes"
    return http_ece.decrypt(body, private_key=key, auth_secret=decoded(sample["auth"]), version="aes128gcm")


def verified(token, public):
    """Header and claims of a token whose signature is that of the key."""
    head, claims, signature = token.split(".")
    raw = decoded(signature)
    assert len(raw) == 64, f"a signature has {len(raw)} bytes"
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public)
    key.verify(der, f"{head}.{claims}".encode(), ec.ECDSA(SHA256()))
    return json.loads(decoded(head)), json.loads(decoded(claims))


def check_tokens(sample):
    public, now = decoded(sample["public"]), sample["now"]
    # py-vapid splits at blanks, and takes none behind the comma, where RFC 9110 §5.6.1 allows one.
    assert Vapid02.verify(sample["vapid"].replace(", ", ",")), "py-vapid refuses a token"
    token, key = (part.split("=", 1)[1] for part in sample["vapid"].removeprefix("vapid ").split(", "))
    assert decoded(key) == public
    head, claims = verified(token, public)
    assert head == {"typ": "JWT", "alg": "ES256"}, head
    assert claims["aud"] == sample["origin"] and claims["sub"] == "mailto:push@example.com", claims
    assert now + 6 * 3600 < claims["exp"] <= now + 12 * 3600, (now, claims)
    scheme, token = sample["apple"].split(" ")
    assert scheme == "bearer"
    head, claims = verified(token, public)
    assert head == {"alg": "ES256", "kid": "ABC123DEFG"}, head
    assert claims["iss"] == "DEF123GHIJ" and now - 2405 <= claims["iat"] < now, (now, claims)
    changed = sample["apple"][7:-10] + ("A" if sample["apple"][-10] != "A" else "B") + sample["apple"][-9:]
    try:
        verified(changed, public)
    except InvalidSignature:
        return
    raise AssertionError("a changed signature is verified")


def samples(path, kind):
    with open(path, encoding="utf-8") as file:
        return [sample for sample in map(json.loads, file) if sample["kind"] == kind]


def check_fresh(bodies):
    """No two bodies have one salt or one sender's key (RFC 8188, section 2.1)."""
    raw = [decoded(sample["body"]) for sample in bodies]
    assert len({body[:16] for body in raw}) == len(raw), "a salt stands in two bodies"
    assert len({body[21:86] for body in raw}) == len(raw), "a key stands in two bodies"


def main():
    bodies, tokens = samples(sys.argv[1], "body"), samples(sys.argv[1], "token")
    assert len(bodies) == BODIES and len(tokens) == TOKENS, (len(bodies), len(tokens))
    for sample in bodies:
        assert open_body(sample) == decoded(sample["plain"]), "a body has another text"
    for sample in tokens:
        check_tokens(sample)
    print(f"ok   http-ece opened {len(bodies)} bodies")
    print(f"ok   py-vapid and cryptography verified {2 * len(tokens)} tokens")
    every = [sample for path in sys.argv[1:] for sample in samples(path, "body")]
    check_fresh(every)
    print(f"ok   {len(every)} bodies have salts and keys of their own")


main()
