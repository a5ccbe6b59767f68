"""A flood of one project beside requests of another, and what the server counts meanwhile; see fairness.sh."""
import asyncio
import json
import sys
import time
import urllib.request

import frames
from openloop import Caller

PORT, WORK = int(sys.argv[1]), sys.argv[2]
# Turns for which a request of a project that is not held may wait. The flood's line and the other's have their turns in each, so
# that it is 1 for whoever sends one request at a time; the flood's first requests wait behind each other before it is held.
TURNS_MAX = 32
STREAMS = 200
# Refusals a second that a project is given by each of the server's two loops, and those of 20 ms that it may owe.
PACE, OWED, LOOPS = 5000, 100, 2


def bearer(project):
    with open(f"{WORK}/{project}.key") as file:
        return file.read().strip()


def metrics():
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


class Flood:
    """Connections over HTTP/2 with as many open streams as may be; for each answer there is a new request."""

    def __init__(self, body, connections):
        self.answered, self.body = 0, body
        self.fields = frames.request("POST", "/v1/projects/flood/messages:send", extra=(
            ("authorization", f"Bearer {bearer('flood')}"), ("content-type", "application/json")))
        self.tasks = [asyncio.create_task(self.run()) for _ in range(connections)]

    def ask(self, stream):
        out = frames.headers(stream, self.fields, frames.EH)
        for place in range(0, len(self.body), 16384):
            part = self.body[place:place + 16384]
            out += frames.frame(frames.DATA, frames.ES if place + 16384 >= len(self.body) else 0, stream, part)
        return out

    async def run(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        # The server's window for each stream is 64 KiB, which no body here fills; its own answers are let in without end.
        writer.write(frames.MAGIC + frames.settings() + frames.window(0, 1 << 30))
        stream, left = 1, 0
        try:
            while True:
                while left < STREAMS:
                    writer.write(self.ask(stream))
                    stream, left = stream + 2, left + 1
                await writer.drain()
                head = await reader.readexactly(9)
                payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
                kind, flags = head[3], head[4]
                if kind == frames.HEADERS:
                    self.answered, left = self.answered + 1, left - 1
                elif kind == frames.SETTINGS and not flags & frames.ACK:
                    writer.write(frames.frame(frames.SETTINGS, frames.ACK))
                elif kind in (frames.GOAWAY, frames.RST):
                    raise AssertionError(f"the flood was cut off: {head} {payload}")
        finally:
            writer.transport.abort()

    async def end(self):
        for task in self.tasks:
            task.cancel()
        for result in await asyncio.gather(*self.tasks, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError), result


async def calm(count):
    """One request after the other; each is to be answered 200."""
    caller = Caller("127.0.0.1", PORT)
    headers = (f"authorization: Bearer {bearer('calm')}", "content-type: application/json")
    for number in range(count):
        status, body = await caller.call("POST", "/v1/projects/calm/messages:send",
                                         {"message": {"topic": "news", "data": {"n": str(number)}}}, headers)
        assert status == 200, (number, status, body)
    caller.close()


async def beside(name, body, connections, count):
    began = time.monotonic()
    flood = Flood(body, connections)
    for _ in range(600):
        if flood.answered > 400:
            break
        await asyncio.sleep(0.1)
    before = flood.answered
    await asyncio.gather(*(calm(count) for _ in range(4)))
    assert flood.answered > before > 400, (name, "the flood stood still", before, flood.answered)
    await flood.end()
    # However fast the machine: who is refused is answered at a pace, beside what the quota lets through. What was begun before the
    # first of its refusals was known is answered at once, and paid for afterwards.
    most = LOOPS * (PACE * (time.monotonic() - began) + OWED) + connections * STREAMS + 60 + 240
    assert flood.answered <= most, (name, "refusals come faster than their pace", flood.answered, most)
    for _ in range(600):
        seen = await asyncio.to_thread(metrics)
        if seen["tidecast_requests_waiting"] == 0:
            break
        await asyncio.sleep(0.1)
    assert seen["tidecast_requests_waiting"] == 0, (name, seen["tidecast_requests_waiting"])
    print(f"{name}: {4 * count} requests answered 200 beside {flood.answered} of the flood")
    return seen


async def main():
    small = json.dumps({"message": {"topic": "flood"}}).encode()
    names = ",".join(f'"k{number:05}":""' for number in range(5000))
    large = f'{{"message":{{"topic":"flood","data":{{{names}}}}}}}'.encode()
    assert 55_000 < len(large) < 64 << 10, len(large)
    await beside("small bodies", small, 4, 100)
    seen = await beside("large bodies", large, 2, 50)
    waited = seen["tidecast_request_turns_waited_count"]
    few = seen[f'tidecast_request_turns_waited_bucket{{le="{TURNS_MAX}"}}']
    held = seen["tidecast_shares_held_total"]
    accepted = seen["tidecast_sends_accepted_total"]
    # On a loaded machine this flood is too slow for any to wait: that they do is FairnessTests'.
    assert waited == few, (waited, few)
    assert seen["tidecast_requests_refused_waiting_total"] == 0
    # What the other sent, the flood's burst of 60, and one a second from then on.
    assert 600 <= accepted < 600 + 60 + 240, accepted
    print(f"{waited:.0f} waited, none for more than {TURNS_MAX} turns; the flood was held {held:.0f} times")


asyncio.run(main())
