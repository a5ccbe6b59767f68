"""One project floods the server while another project sends, and the server counts the waiting requests; see
fairness.sh."""
import asyncio
import json
import sys
import time
import urllib.request

from system import frames
from system.openloop import Caller

PORT, WORK = int(sys.argv[1]), sys.argv[2]
# The most turns that a request waits while the server holds the flood. Each turn serves the flood's queue and
# the other project's queue, so a client that sends one request at a time waits for 1 turn. The flood's first
# requests wait behind each other before the server holds the flood, and do not count here.
TURNS_MAX = 32
STREAMS = 200
# Each of the server's two loops answers PACE refusals a second to a project; a project may owe the refusals
# of 20 ms.
PACE, OWED, LOOPS = 5000, 100, 2


def bearer(project):
    with open(f"{WORK}/{project}.key") as file:
        return file.read().strip()


def metrics():
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {key: float(value)
            for key, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


class Flood:
    """Connections over HTTP/2 with STREAMS open streams each. After each answer a connection sends a new
    request."""

    def __init__(self, body, connections):
        self.counts, self.body = [0] * connections, body
        self.fields = frames.request("POST", "/v1/projects/flood/messages:send", extra=(
            ("authorization", f"Bearer {bearer('flood')}"), ("content-type", "application/json")))
        self.tasks = [asyncio.create_task(self.run(number)) for number in range(connections)]

    @property
    def answered(self):
        return sum(self.counts)

    def ask(self, stream):
        out = frames.headers(stream, self.fields, frames.EH)
        for place in range(0, len(self.body), 16384):
            part = self.body[place:place + 16384]
            out += frames.frame(frames.DATA, frames.ES if place + 16384 >= len(self.body) else 0, stream,
                                part)
        return out

    async def run(self, number):
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        # No body here fills the server's window of 64 KiB for each stream. The client's own window has room
        # for all answers.
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
                    self.counts[number], left = self.counts[number] + 1, left - 1
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
    """Sends `count` requests, one after the other; each must be answered with 200."""
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
        # The first requests of each connection came before the server held the flood.
        if flood.answered > 400 and min(flood.counts) > STREAMS + STREAMS // 4:
            break
        await asyncio.sleep(0.1)
    first = await asyncio.to_thread(metrics)
    before = flood.answered
    await asyncio.gather(*(calm(count) for _ in range(4)))
    assert flood.answered > before > 400, (name, "the flood stood still", before, flood.answered)
    await flood.end()
    # A bound for a machine of any speed: refusals at their pace, and the sends that the quota admits. The
    # server answers at once the requests that it began before its first refusal, and charges them to the pace
    # afterwards.
    most = LOOPS * (PACE * (time.monotonic() - began) + OWED) + connections * STREAMS + 60 + 240
    assert flood.answered <= most, (name, "refusals come faster than their pace", flood.answered, most)
    for _ in range(600):
        seen = await asyncio.to_thread(metrics)
        if seen["tidecast_requests_waiting"] == 0:
            break
        await asyncio.sleep(0.1)
    assert seen["tidecast_requests_waiting"] == 0, (name, seen["tidecast_requests_waiting"])
    print(f"{name}: {4 * count} requests answered 200 beside {flood.answered} of the flood")
    return first, seen


async def main():
    small = json.dumps({"message": {"topic": "flood"}}).encode()
    names = ",".join(f'"k{number:05}":""' for number in range(5000))
    large = f'{{"message":{{"topic":"flood","data":{{{names}}}}}}}'.encode()
    assert 55_000 < len(large) < 64 << 10, len(large)
    await beside("small bodies", small, 4, 100)
    first, seen = await beside("large bodies", large, 2, 50)

    def meanwhile(name):
        return seen[name] - first[name]

    waited = meanwhile("tidecast_request_turns_waited_count")
    few = meanwhile(f'tidecast_request_turns_waited_bucket{{le="{TURNS_MAX}"}}')
    held = seen["tidecast_shares_held_total"]
    accepted = seen["tidecast_sends_accepted_total"]
    # On a loaded machine this flood may be too slow for any request to wait. FairnessTests shows that
    # requests wait.
    assert waited == few, (waited, few)
    assert seen["tidecast_requests_refused_waiting_total"] == 0
    # The other project's 600 sends, the flood's burst of 60, and one send a second of the flood since then
    # (at most 240 s).
    assert 600 <= accepted < 600 + 60 + 240, accepted
    print(f"{waited:.0f} waited, none for more than {TURNS_MAX} turns; the flood was held {held:.0f} times")


asyncio.run(main())
