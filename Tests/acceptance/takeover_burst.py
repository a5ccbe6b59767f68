"""A burst of sends over a takeover: see takeover_burst.sh."""
import asyncio
import collections
import signal
import subprocess

from system import placement
from system.checks import wait
from system.node import making, start
from system.openloop import Stream, all_come, message, open_http2, register, subscribe, until

PARTITIONS = 32
# Sends before the kill and after it. Each EACHth send has subscribers: fewer sends than the bounds of
# unfinished sends and of messages that wait for a device.
BEFORE, AFTER, EACH = 240, 6000, 10
# The server accepts 256 requests of a connection at once.
CONNECTIONS, STREAMS = 27, 240
# The heir has the sends for this long before it can read the partition.
HELD_SECONDS = 0.7


class Lock:
    """A lock on the table of snapshots: while the lock is held, a node that takes a partition cannot read
    it."""

    def __init__(self, database):
        self.session = subprocess.Popen(database.client("psql", "-qAt"), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.do("BEGIN; LOCK TABLE tidecast.snapshot IN ACCESS EXCLUSIVE MODE;")

    def do(self, words):
        self.session.stdin.write(words + " SELECT 'done';\n")
        self.session.stdin.flush()
        assert self.session.stdout.readline() == "done\n"

    def release(self):
        self.do("COMMIT;")
        self.session.communicate("")


class Burst:
    """Sends that go out without waiting for answers, and the future of each answer by the message's
    number."""

    def __init__(self, connections, topics):
        self.connections, self.topics, self.answers = connections, topics, {}

    def topic(self, number):
        return self.topics[0] if number % EACH == 0 else self.topics[1 + number % (len(self.topics) - 1)]

    async def fire(self, numbers):
        for number in numbers:
            connection = self.connections[number // STREAMS]
            self.answers[number] = connection.send("/v1/projects/demo/messages:send",
                                                   message(number, {"topic": self.topic(number)}))
            if number % 100 == 0:
                await asyncio.sleep(0)


async def run(database, gateway, shards):
    gateway.options += ["--roles", "gateway", "--loops", "1"]
    await asyncio.to_thread(start, (gateway, *shards))
    await asyncio.to_thread(
        wait, lambda: set(gateway.owners()) == {one.name for one in shards}, "both shards to own partitions")
    victim, heir = shards
    devices = await register(gateway.host, gateway.port, 8)
    partition = gateway.owners().index(victim.name)
    topics = placement.topics_of({partition}, gateway.project_number(), 6, PARTITIONS)
    await subscribe(gateway.host, gateway.port, topics[0], devices)
    streams = [Stream(one) for one in devices]
    for stream in streams:
        stream.open(gateway.host, gateway.port)
    connections = [await open_http2(gateway.host, gateway.port) for _ in range(CONNECTIONS)]
    burst = Burst(connections, topics)
    await burst.fire([0])
    assert await burst.answers[0] == 200, "a first send was refused"
    await until(lambda: all(0 in one.now for one in streams), "the streams to hear a first send")
    print(f"{victim.name} owns partition {partition}, with the topics of all sends")

    before, after = range(1, BEFORE + 1), range(BEFORE + 1, BEFORE + AFTER + 1)
    await burst.fire(before)
    lock = Lock(database)
    victim.process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(victim.process.wait)
    # The dead node has received none of the sends from here on.
    await burst.fire(after)
    # All these sends reach the heir while it cannot read the partition.
    await asyncio.to_thread(
        wait, lambda: gateway.owners()[partition] == heir.name, "the other shard to own the partition")
    await asyncio.sleep(HELD_SECONDS)
    lock.release()
    statuses = {number: await answer for number, answer in burst.answers.items()}
    counts = {name: dict(collections.Counter(statuses[number] for number in numbers))
              for name, numbers in (("before", before), ("after", after))}
    print(f"sends before the kill: {counts['before']}; when the owner was dead: {counts['after']}")
    assert set(statuses.values()) <= {200, 429, 503, 504}, counts
    assert 504 not in counts[
        "after"], f"sends were answered 504 that nobody can have accepted: {counts['after']}"
    assert counts["after"].get(200, 0) >= 1024, "there were not enough to pass over any window"

    accepted, possible = ({number for number, status in statuses.items() if burst.topic(number) == topics[0]
                           and status in wanted} for wanted in ((200,), (200, 504)))
    await all_come(streams, accepted, "everything that was acknowledged to come")
    # A refused send that is delivered nevertheless would have come before this last one.
    last = BEFORE + AFTER + EACH
    last -= last % EACH
    await burst.fire([last])
    assert await burst.answers[last] == 200, "a last send was refused"
    await until(lambda: all(last in one.now for one in streams), "a last send to come")
    for stream in streams:
        came = stream.now
        stream.check_once()
        assert set(came) <= possible | {
            last}, f"refused, and delivered: {sorted(set(came) - possible - {last})[:5]}"
    for one in streams:
        if one.dropped:
            print("a device was told that some were dropped:", one.lacks(accepted))
    told = sum(one.dropped for one in streams)
    print(f"{len(accepted)} of those acknowledged have subscribers: all came to {len(streams) - told} of the"
          f" {len(streams)},"
          f" {told} were told that some were dropped; nothing came that was refused")


def main():
    with making() as made:
        database, (gateway, *shards) = made.cluster("gateway", "one", "two")
        asyncio.run(run(database, gateway, shards))
        print("takeover_burst: ok")


if __name__ == "__main__":
    main()
