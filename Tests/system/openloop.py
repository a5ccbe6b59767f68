"""An open-loop client: it sends each request without waiting for earlier answers. Also devices' streams and
the other calls that such a test needs, all on one event loop."""
import asyncio
import json
import struct

OWNER = ("authorization: Bearer owner", "access_token_auth: true", "content-type: application/json")


def request(method, path, body=None, headers=OWNER):
    """The bytes of a request over HTTP/1.1."""
    text = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-length: {len(text)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + text


async def answer(reader):
    """Status and body of the next answer on a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    length = next(int(line.split(":")[1]) for line in head if line.lower().startswith("content-length:"))
    return int(head[0].split(" ")[1]), await reader.readexactly(length)


class Caller:
    """A connection that stays open and carries one call after the other."""

    def __init__(self, host, port):
        self.host, self.port, self.reader, self.writer = host, port, None, None

    async def call(self, method, path, body=None, headers=OWNER):
        """Status and body (bytes) of one call. Raises OSError and IncompleteReadError."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        self.writer.write(request(method, path, body, headers))
        return await answer(self.reader)

    async def wanted(self, *words):
        """The body of a call that must be answered with 200. A call above its quota (429) is made again after
        0.1 s."""
        while True:
            status, body = await self.call(*words)
            if status != 429:
                break
            await asyncio.sleep(0.1)
        assert status == 200, (words[:2], status, body)
        return json.loads(body)

    def close(self):
        """Closes the connection, where there is one."""
        if self.writer:
            self.writer.close()


async def several(host, port, work, count=32):
    """Makes all calls in `work` over `count` connections, and returns their bodies in the order of `work`."""
    results, left = [None] * len(work), iter(enumerate(work))

    async def one():
        caller = Caller(host, port)
        for place, words in left:
            results[place] = await caller.wanted(*words)
        caller.close()
    await asyncio.gather(*(one() for _ in range(count)))
    return results


async def register(host, port, count):
    """Registers `count` devices in the project `demo`."""
    return await several(host, port, [("POST", "/v1/projects/demo/registrations", {})] * count)


async def subscribe(host, port, topic, devices):
    """Subscribes all devices, at most 1,000 in one call. Devices above the quota are tried again after 0.3
    s."""
    left, caller = [device["token"] for device in devices], Caller(host, port)
    while left:
        body = {"to": f"/topics/{topic}", "registration_tokens": left[:1000]}
        results = (await caller.wanted("POST", "/iid/v1:batchAdd", body))["results"]
        errors = {one.get("error") for one in results} - {None}
        assert errors <= {"RESOURCE_EXHAUSTED"}, errors
        again = [token for token, one in zip(left[:1000], results, strict=True) if one]
        left = again + left[1000:]
        await asyncio.sleep(0.3 if again else 0)
    caller.close()


def message(number, target, size=0):
    """A send with `number` in its data, and `size` bytes of filler."""
    return {"message": {**target, "data": {"n": str(number), "x": "x" * size}}}


class Stream:
    """The messages of one device. After the end of a connection it connects again, and resumes after the last
    event."""

    def __init__(self, registration):
        self.token, self.credential = registration["token"], registration["credential"]
        # For each connection since `open`, the numbers of the messages in the order of their arrival.
        self.heard, self.last, self.dropped, self.task = [], None, False, None

    def open(self, host, port, resuming=False):
        """Begins to listen. With `resuming` the first connection resumes after the last event so far."""
        self.heard = []
        self.last = self.last if resuming else None
        self.task = asyncio.create_task(self.listen(host, port))

    async def listen(self, host, port):
        """Opens one connection after the other; the stream's task runs this."""
        path = f"/v1/projects/demo/registrations/{self.token.split(':')[0]}:listen"
        while True:
            headers = [f"authorization: Bearer {self.credential}"]
            headers += [f"last-event-id: {self.last}"] if self.last else []
            try:
                reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
                writer.write(request("GET", path, None, headers))
                head = await reader.readuntil(b"\r\n\r\n")
                if b" 200 " in head.split(b"\r\n")[0]:
                    self.heard.append([])
                    await self.read(reader, self.heard[-1])
                writer.close()
            except (OSError, asyncio.IncompleteReadError):
                pass
            await asyncio.sleep(0.1)

    async def read(self, reader, heard):
        """Adds the numbers of the messages of one connection to `heard`."""
        event = None
        while line := await reader.readline():
            # The lines of the chunked encoding stand between the events, and match none of these prefixes.
            text = line.decode().rstrip("\r\n")
            if text.startswith("id: "):
                self.last = text[4:]
            elif text.startswith("event: "):
                event = text[7:]
                self.dropped = self.dropped or event == "deleted_messages"
            elif text.startswith("data: ") and event == "message":
                heard.append(int(json.loads(text[6:])["data"]["n"]))

    def close(self):
        """Ends the connection, and opens no other."""
        self.task.cancel()

    @property
    def now(self):
        """The numbers of all messages since `open`."""
        return [number for one in self.heard for number in one]

    def check_once(self):
        """No message may come twice on one connection. Raises AssertionError."""
        for one in self.heard:
            assert len(one) == len(set(one)), "something came twice on one connection"

    def lacks(self, wanted):
        """A text for a failed test: which of `wanted` are missing."""
        missing = sorted(wanted - set(self.now))
        return (f"{len(missing)} missing, {missing[:3]} to {missing[-3:]}; told that some were dropped:"
                f" {self.dropped};"
                f" connections: {[len(one) for one in self.heard]}; the last number {self.now[-1:]}")


async def all_come(streams, wanted, what, limit=60):
    """Waits until each stream has received all of `wanted`, at most `limit` s. The failure says what each
    stream lacks."""
    end = asyncio.get_running_loop().time() + limit
    while not all(wanted <= set(one.now) for one in streams):
        if asyncio.get_running_loop().time() > end:
            words = "\n".join(one.lacks(wanted) for one in streams if not wanted <= set(one.now))
            raise SystemExit(f"FAIL: waited {limit} s for {what}:\n{words}")
        await asyncio.sleep(0.1)


async def until(condition, what, limit=60):
    """Waits until `condition` is true. Ends the test with `FAIL` after `limit` s."""
    end = asyncio.get_running_loop().time() + limit
    while not condition():
        if asyncio.get_running_loop().time() > end:
            raise SystemExit(f"FAIL: waited {limit} s for {what}")
        await asyncio.sleep(0.05)


async def burst_http1(host, port, path, bodies):
    """Sends all bodies at once, each on a connection of its own, and returns their statuses; 0 where the
    connection broke."""
    gate = asyncio.Semaphore(100)

    async def connect():
        async with gate:
            return await asyncio.open_connection(host, port)
    connections = await asyncio.gather(*(connect() for _ in bodies))
    for (_, writer), body in zip(connections, bodies, strict=True):
        writer.write(request("POST", path, body))

    async def status(reader, writer):
        try:
            return (await answer(reader))[0]
        except (OSError, asyncio.IncompleteReadError):
            return 0
        finally:
            writer.close()
    return await asyncio.gather(*(status(*one) for one in connections))


def frame(kind, flags=0, stream=0, payload=b""):
    """The bytes of an HTTP/2 frame."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header field without indexing. Name and value must be shorter than 127 bytes."""
    return bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


class HTTP2(asyncio.Protocol):
    """An HTTP/2 connection that sends without waiting. It reads a request's outcome from the answer's body,
    which says the same as the headers: `name` for an accepted send, `error.code` for a refused one."""

    def __init__(self):
        self.rest, self.next, self.bodies, self.answers, self.transport = b"", 1, {}, {}, None

    def connection_made(self, transport):
        """Sends the preface, and opens the connection's window."""
        self.transport = transport
        # All answers must fit into the windows: the connection's window gets 1 GiB, and each stream has the
        # default of 64 KiB.
        transport.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4)
                        + frame(8, payload=struct.pack(">I", 1 << 30)))

    def send(self, path, body):
        """Sends a POST, and returns the future of its status; 0 where the connection breaks."""
        stream, self.next = self.next, self.next + 2
        fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
                  ("authorization", "Bearer owner"), ("content-type", "application/json")]
        self.transport.write(frame(1, 4, stream, b"".join(literal(*one) for one in fields))
                             + frame(0, 1, stream, json.dumps(body).encode()))
        self.bodies[stream], self.answers[stream] = b"", asyncio.get_running_loop().create_future()
        return self.answers[stream]

    def data_received(self, data):
        """Takes all whole frames out of what has come."""
        self.rest += data
        while len(self.rest) >= 9 and len(self.rest) >= 9 + int.from_bytes(self.rest[:3], "big"):
            length, kind, flags = int.from_bytes(self.rest[:3], "big"), self.rest[3], self.rest[4]
            stream, payload = int.from_bytes(self.rest[5:9], "big"), self.rest[9:9 + length]
            self.rest = self.rest[9 + length:]
            if kind == 4 and not flags & 1:
                self.transport.write(frame(4, 1))
            elif kind == 6 and not flags & 1:
                self.transport.write(frame(6, 1, 0, payload))
            elif kind == 0 and stream in self.bodies:
                self.bodies[stream] += payload
            if kind == 3 or (kind in (0, 1) and flags & 1):
                self.conclude(stream)

    def conclude(self, stream):
        """Sets the status of a stream that has ended."""
        future, body = self.answers.pop(stream, None), self.bodies.pop(stream, b"")
        if future and not future.done():
            said = json.loads(body or b"{}")
            future.set_result(200 if "name" in said else said.get("error", {}).get("code", 0))

    def connection_lost(self, _):
        """Sets 0 as the status of all open streams."""
        for future in self.answers.values():
            if not future.done():
                future.set_result(0)
        self.answers.clear()


async def open_http2(host, port):
    """A new HTTP/2 connection in cleartext."""
    return (await asyncio.get_running_loop().create_connection(HTTP2, host, port))[1]
