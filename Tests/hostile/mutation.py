"""The input for fuzzing a running server: valid requests, streams, frames and datagrams, and their
mutations."""
import gzip
import json
import os
import sys

from system import floods, frames, openloop

STORED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../formats/1")
JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJhQHAiLCJhdWQiOiJ4IiwiaWF0IjoxLCJleHAiOjl9.AAAA"
GRANT = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=" + JWT
MESSAGE = {"message": {"topic": "news", "notification": {"title": "t", "body": "b"}, "data": {"k": "v"},
                       "android": {"ttl": "3s", "priority": "HIGH", "collapse_key": "c",
                                   "notification": {"click_action": "a"}},
                       "apns": {"headers": {"apns-priority": "5"},
                                "payload": {"aps": {"alert": "x", "badge": 1}}},
                       "webpush": {"headers": {"TTL": "4"}, "notification": {"title": "w"}}}}
SEND = "/v1/projects/demo/messages:send"
HEADS = [b"expect: 100-continue\r\n", b"transfer-encoding: chunked\r\n", b"connection: close\r\n",
         b"connection: upgrade\r\n",
         b"upgrade: h2c\r\n", b"content-length: 5\r\n", b"content-encoding: gzip\r\n",
         b"x: " + b"y" * 9000 + b"\r\n",
         b"last-event-id: 1-2-3\r\n", b"origin: http://x\r\n"]
TELLING = [b"\0", b"\xff", b"\r\n", b"\n", b"{", b"}", b"[", b'"', b"\\u0000", b"%00", b"-1", b"1e999",
           b"9" * 30, b"\xf0\x9f\x92\xa9",
           b"/../", b"?", b"&", b"=", b"0\r\n\r\n", b" ", b":", b"\x80\0\0\0", b"\x7f\xff\xff\xff"]


def requests(device):
    """Method, path, further fields and body of every kind of request."""
    fid, owner = device["token"].split(":")[0], openloop.OWNER
    own = (f"authorization: Bearer {device['credential']}",)
    registrations = "/v1/projects/demo/registrations"

    def text(value):
        return json.dumps(value).encode()
    yield from [("POST", SEND, owner, text(one)) for one in (
        MESSAGE, {"message": {"condition": "'a' in topics && ('b' in topics || !'news' in topics)"}},
        {"message": {"token": device["token"], "data": {"x": "y" * 3000}}},
        {"message": {"topic": "news"}, "validate_only": True})]
    yield "POST", "/iid/v1:batchAdd", owner, text({"to": "/topics/news",
                                                   "registration_tokens": [device["token"]] * 3})
    yield "POST", "/iid/v1:batchRemove", owner, text({"to": "/topics/other",
                                                      "registration_tokens": [device["token"], "x"]})
    yield "POST", f"/iid/v1/{device['token']}/rel/topics/news", owner, b""
    yield "GET", f"/iid/info/{device['token']}?details=true", owner, b""
    yield "GET", f"/iid/{device['token']}?details=true", owner, b""
    yield "POST", registrations, owner, b"{}"
    yield "GET", f"{registrations}?pageSize=10", owner, b""
    yield "POST", f"{registrations}/{fid}:acknowledge", own, text({"eventIds": ["1-2-3"]})
    yield "GET", f"{registrations}/{fid}:listen", own, b""
    yield "GET", f"{registrations}/{fid}:listen", (*own, "last-event-id: AAAAAAAAAAAAAAAA"), b""
    yield "POST", SEND, (*owner, "content-encoding: gzip"), gzip.compress(text(MESSAGE))
    yield "POST", "/checkin", (), text({"id": 5, "security_token": 6, "checkin": {"type": 2}})
    login = ("authorization: AidLogin 5:6", "x-goog-firebase-installations-auth: tci.AAAA")
    yield "POST", "/register", login, b"app=a.b&apns_token=p_00ff&sender=1"
    yield "POST", "/iid/register", login[:1], f"sender={device['token']}&X-gcm.topic=/topics/news".encode()
    yield "POST", "/token", ("content-type: application/x-www-form-urlencoded",), GRANT.encode()
    for path in ("/healthz", "/readyz", "/metrics"):
        yield "GET", path, (), b""


def http1(device):
    for method, path, fields, body in requests(device):
        lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}", *fields, "",
                 ""]
        yield "\r\n".join(lines).encode() + body


def http2(device):
    """Frames, each of them a piece of its own."""
    stream = 1
    for method, path, fields, body in requests(device):
        extra = [tuple(one.split(": ", 1)) for one in fields]
        block = frames.request(method, path, extra=extra)
        yield frames.headers(stream, block, frames.EH | (0 if body else frames.ES))
        if body:
            yield frames.frame(frames.DATA, frames.ES, stream, body)
        stream += 2
    yield from (frames.settings((4, 0)), frames.settings((1, 0), (3, 1)), frames.window(0, 1000),
                frames.window(1, 1000),
                frames.reset(1), frames.frame(frames.PING, payload=b"12345678"),
                frames.frame(frames.PRIORITY, 0, 3, b"\0" * 5),
                frames.frame(frames.GOAWAY, payload=b"\0" * 8),
                frames.frame(frames.CONTINUATION, frames.EH, 1, b"\x82"))


def stored(name):
    """The recorded bytes of a closed revision."""
    with open(os.path.join(STORED, name), encoding="ascii") as file:
        return [bytes.fromhex(line.split()[1]) for line in file if len(line.split()) == 2]


class Mutator:
    def __init__(self, random):
        self.random = random

    def bytes(self, piece):
        """The piece, unchanged in one of four cases; else with some bytes changed, deleted, inserted,
        repeated or cut off."""
        random, piece = self.random, bytearray(piece)
        if random.random() < 0.25:
            return bytes(piece)
        for _ in range(1 << random.randrange(4)):
            place = random.randrange(len(piece) + 1)
            kind = random.randrange(7)
            if kind == 0 and place < len(piece):
                piece[place] ^= 1 << random.randrange(8)
            elif kind == 1 and place < len(piece):
                piece[place] = random.randrange(256)
            elif kind == 2:
                del piece[place:place + random.randrange(1, 20)]
            elif kind == 3:
                piece[place:place] = random.choice(TELLING)
            elif kind == 4:
                piece[place:place] = piece[place:place + random.randrange(1, 200)] * random.randrange(1, 6)
            elif kind == 5:
                piece[place:place] = random.randbytes(random.randrange(1, 40))
            elif random.random() < 0.2:
                del piece[place:]
        return bytes(piece)

    def http1(self, pieces):
        """Some requests one after the other. Some of them have a further field, and some are mutated."""
        out = []
        for piece in self.random.choices(pieces, k=self.random.randrange(1, 6)):
            head, _, body = piece.partition(b"\r\n\r\n")
            if self.random.random() < 0.3:
                head += b"\r\n" + self.random.choice(HEADS).rstrip(b"\r\n")
            out.append(self.bytes(head + b"\r\n\r\n" + body)
                       if self.random.random() < 0.6 else head + b"\r\n\r\n" + body)
        return out

    def http2(self, pieces):
        """Frames in their order or at random, mostly with lengths that fit."""
        random = self.random
        if random.random() < 0.1:
            return [floods.PREFACE, *list(random.choice(list(floods.FLOODS.values()))())[:200]]
        chosen = [frames.MAGIC if random.random() < 0.95 else self.bytes(frames.MAGIC), frames.settings()]
        begin = random.randrange(len(pieces))
        chosen += pieces[begin:begin
                         + random.randrange(1, 12)] if random.random() < 0.6 else random.choices(pieces, k=8)
        return [chosen[0]] + [self.frame(one) if random.random() < 0.5 else one for one in chosen[1:]]

    def frame(self, piece):
        if self.random.random() < 0.3:
            return self.bytes(piece)
        payload = self.bytes(piece[9:])
        return frames.frame(piece[3], piece[4] if self.random.random() < 0.8 else self.random.randrange(256),
                            int.from_bytes(piece[5:9], "big"), payload)

    def secure(self):
        """A mutated TLS hello."""
        return [self.bytes(floods.HELLO)]

    def peer(self, pieces):
        """A greeting and frames after it, mutated."""
        return [self.bytes(one) for one in [pieces[0], *self.random.choices(pieces, k=4)]]


if __name__ == "__main__":
    sys.exit("this is used by tools/fuzz --server")
