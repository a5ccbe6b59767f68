"""The wall clock of one server, or of one node of three, leaps: see clock_leaps.sh and cluster_clock.sh."""
import asyncio
import signal
import sys
import time

from system.checks import wait
from system.node import making, start
from system.openloop import Stream, message, register, several, subscribe, until
from system.world import World, WorldServer, is_preloaded

SEND = "/v1/projects/demo/messages:send"
AWAY, WAITING = 60, 3
# The server unregisters a device that it has not seen for 270 days. A clock without a battery starts in 1970.
LEAPS = {"271 days ahead": 271 * 86_400, "back to 1970": -int(time.time())}
# Seconds, fewer than what keeps a node from joining.
BEHIND = 50
REASON = "the wall clock leapt"


class House:
    """Devices that listen, and devices that are away and have messages waiting. Sends and questions go to the
    node `at`; devices listen at the node `listening_at`."""

    def __init__(self, at, listening_at=None):
        self.at, self.listening_at, self.number = at, listening_at or at, 0
        self.devices, self.listening, self.away, self.waiting = [], [], [], {}

    async def send(self, targets):
        """Sends one message to each target, and returns the numbers of the messages."""
        numbers = range(self.number + 1, self.number + 1 + len(targets))
        self.number += len(targets)
        await several(*self.at, [("POST", SEND, message(*one)) for one in zip(numbers, targets, strict=True)])
        return numbers

    async def fill(self):
        self.devices = await register(*self.at, AWAY + 4)
        self.listening = [Stream(one) for one in self.devices[AWAY:]]
        for stream in self.listening:
            stream.open(*self.listening_at)
        self.away = self.devices[:AWAY]
        self.waiting = {device["token"]: set() for device in self.away}
        for _ in range(WAITING):
            await self.send_to_those_away()

    async def send_to_those_away(self):
        """One message to each device that is away. For each third device it expires after 1 h, for the others
        after weeks."""
        targets = [{"token": one["token"], **({"android": {"ttl": "3600s"}} if place % 3 == 0 else {})}
                   for place, one in enumerate(self.away)]
        for device, number in zip(self.away, await self.send(targets), strict=True):
            self.waiting[device["token"]].add(number)

    async def check_hearing(self, what):
        """Each listening device must receive a message, and each of 64 topics must accept one."""
        numbers = await self.send([{"token": stream.token} for stream in self.listening])
        await self.send([{"topic": f"topic-{number}"} for number in range(64)])
        await until(lambda: all(number in stream.now
                                for stream, number in zip(self.listening, numbers, strict=True)),
                    f"those who listen to hear something {what}")

    async def check_comer(self):
        """A device that was away comes back, receives all its waiting messages, and leaves without an
        acknowledgement."""
        device = self.away[0]
        stream = Stream(device)
        stream.open(*self.listening_at)
        await until(lambda: self.waiting[device["token"]] <= set(stream.now),
                    "what waited to come to who comes back")
        stream.close()

    async def check_nothing_lost(self, what):
        listed, token = set(), ""
        while token is not None:
            path = "/v1/projects/demo/registrations?pageSize=1000" + (f"&pageToken={token}" if token else "")
            page = (await several(*self.at, [("GET", path)], 1))[0]
            listed |= {one["name"].split("/")[-1] for one in page.get("registrations", [])}
            token = page.get("nextPageToken") or None
        # A registration without an answer may have been made, and the client has made another.
        lost = {one["token"].split(":")[0] for one in self.devices} - listed
        assert not lost, f"{what}: {len(lost)} devices were unregistered"
        streams = [Stream(one) for one in self.away]
        for stream in streams:
            stream.open(*self.listening_at)
        try:
            await until(lambda: all(self.waiting[one.token] <= set(one.now) for one in streams), "", 30)
        except SystemExit:
            lost = sum(len(self.waiting[one.token] - set(one.now)) for one in streams)
            raise SystemExit(f"FAIL: {what}: {lost} waiting messages are lost") from None
        for stream in streams:
            assert sorted(stream.now) == stream.now, f"{what}: out of order"
            stream.close()


async def drive(house, condition, what):
    """Sends to all partitions until `condition` holds, at most 90 s: a partition reads the clock only when it
    has work."""
    end = time.monotonic() + 90
    while not await condition():
        assert time.monotonic() < end, f"waited too long for {what}"
        await house.send([{"topic": f"topic-{number}"} for number in range(64)])
        await house.check_hearing(what)
        await house.send_to_those_away()
        await asyncio.sleep(0.2)


async def single(server):
    await server.start()
    began = time.monotonic()
    house = House((server.host, server.port))
    await house.fill()
    # In its first 10 s a new owner unregisters no device, whatever its clock says (`listenersReturn`).
    await asyncio.sleep(max(0, began + 10.5 - time.monotonic()))

    async def is_ready():
        return (await server.ready_word())[0] == 200

    async def is_not():
        return not await is_ready()
    for name, seconds in LEAPS.items():
        server.world.wall_is_ahead(seconds)
        await drive(house, is_not, "the server to see that its clock has leapt")
        status, words = await server.ready_word()
        assert status == 503 and REASON in words, (status, words)
        await house.check_hearing("while the clock is wrong")
        await house.check_comer()
        server.world.wall_is_ahead(0)
        await drive(house, is_ready, "the server to be ready when its clock is right")
        print(f"the clock leapt {name}: not ready, and it said why; ready when it was back")
    assert (await server.metrics())["tidecast_clock_leaps_total"] > 0
    await house.check_nothing_lost("when the clock is right again")
    await server.end()
    await server.start()
    await house.check_nothing_lost("after a restart")
    print(f"{len(house.devices)} devices are registered, and {sum(map(len, house.waiting.values()))} messages"
          " wait")
    await server.end()
    await first_reading(server, house)


async def first_reading(server, house):
    """The server begins with a wrong clock, some traffic comes, and it begins again with the right one."""
    for name, seconds in {"300 days ahead": 300 * 86_400, "in 1970": -int(time.time())}.items():
        server.world.wall_is_ahead(seconds)
        await server.start()
        began = time.monotonic()
        status, words = await server.ready_word()
        assert status == 200 and "the last known time" in words, (status, words)
        while time.monotonic() - began < 14:
            await traffic(house)
        await house.check_nothing_lost(f"under a clock that began {name}")
        await server.end()
        server.world.wall_is_ahead(0)
        await server.start()
        began = time.monotonic()
        assert await server.ready_word() == (200, "ready"), await server.ready_word()
        while time.monotonic() - began < 14:
            await traffic(house)
        await house.check_nothing_lost(f"under the right clock, after one that began {name}")
        await server.end()
        print(f"the clock began {name}: it served and said so, and nothing ended, then or later")


async def traffic(house):
    """Changes of each device's subscriptions, which wake its partition, and a message to some devices."""
    tokens = [one["token"] for one in house.devices]
    for verb in ("batchAdd", "batchRemove"):
        body = {"to": "/topics/clocks", "registration_tokens": tokens}
        await several(*house.at, [("POST", f"/iid/v1:{verb}", body)], 1)
    await house.check_hearing("whatever the clock shows")
    await asyncio.sleep(1)


async def short_lives(slow, other):
    """Messages that a node accepts whose clock is behind must reach all devices that listen, however short
    they live. The node must be not ready, and must say why. Returns the devices."""
    await asyncio.to_thread(
        wait, lambda: f"{BEHIND} s behind the database's" in slow.asked("/readyz")[1],
        "the node to say that its clock is behind")
    assert await asyncio.to_thread(other.is_ready), "a node whose clock is right is not ready"
    ahead = (await asyncio.to_thread(slow.metrics))["tidecast_clock_ahead_seconds"]
    assert abs(ahead + BEHIND) < 2, ahead
    devices = await register(slow.host, slow.port, 12)
    await subscribe(slow.host, slow.port, "short", devices)
    streams = [Stream(one) for one in devices]
    for stream in streams:
        stream.open(other.host, other.port)
    await asyncio.sleep(1)
    lives = ["60s", "30s", "10s", "2s", "0s"]
    targets = [{"topic": "short"}] + [{"token": stream.token} for stream in streams]
    work = [("POST", SEND, message(number, {**target, "android": {"ttl": life}}))
            for number, life in enumerate(lives) for target in targets]
    await several(slow.host, slow.port, work)
    for number, life in enumerate(lives):
        await until(lambda number=number: all(stream.now.count(number) >= 2 for stream in streams),
                    f"all devices that listen to hear both messages that live for {life}", 20)
    late = [(await asyncio.to_thread(node.metrics))["tidecast_messages_late_total"] for node in (slow, other)]
    assert late == [0, 0], late
    for stream in streams:
        stream.close()
    print(f"a node {BEHIND} s behind is not ready and says so; what it accepts reaches all 12 devices")
    return devices


async def database_behind(worlds, nodes):
    """The database's clock differs from the clocks of all nodes. Each node must say so, and stay ready."""
    for world in worlds:
        world.wall_is_ahead(BEHIND)
    for node in nodes:
        await asyncio.to_thread(
            wait, lambda node=node: f"the database's clock is {BEHIND} s behind" in node.log_text(),
            "each node to say that the database's clock is behind")
        assert await asyncio.to_thread(node.is_ready), node.asked("/readyz")
        assert "the node is not ready" not in node.log_text().split("agree again")[-1], node.log_text()
    for world in worlds:
        world.wall_is_ahead(0)
    for node in nodes:
        await asyncio.to_thread(
            wait, lambda node=node: "clock and the database's agree again" in node.log_text(),
            "each node to say that the clocks agree again")
    print(f"a database {BEHIND} s behind all three nodes keeps none of them from being ready")


async def wrong_together(database, folder, *nodes):
    """The clocks of the database and of all nodes leap, and then are wrong from the first, as all containers
    of a machine have one clock. Nothing may end."""
    world = World(folder)
    database.stop()
    for one in (database, *nodes):
        one.environment = world.environment
    database.start()
    await asyncio.to_thread(start, nodes)
    began = time.monotonic()
    house = House(*((node.host, node.port) for node in nodes))
    await house.fill()
    await asyncio.sleep(max(0, began + 10.5 - time.monotonic()))
    for what in ("leap", "are wrong from the first"):
        world.wall_is_ahead(300 * 86_400)
        assert int(database.rows("SELECT extract(epoch FROM now())::int8")[0]) > time.time() + 86_400
        if what != "leap":
            for node in nodes:
                await asyncio.to_thread(node.end, signal.SIGTERM)
            await asyncio.to_thread(start, nodes)
        began = time.monotonic()
        while time.monotonic() < began + 14:
            await traffic(house)
        for node in nodes:
            status, words = await asyncio.to_thread(node.asked, "/readyz")
            assert status == 200 and "7200 hours ahead of the last known time" in words, (status, words)
        world.wall_is_ahead(0)
        for node in nodes:
            await asyncio.to_thread(
                wait, lambda node=node: node.asked("/readyz") == (200, "ready\n"), "each node to be ready")
        await house.check_nothing_lost(f"the clocks of the database and of all nodes {what}")
        print(f"the clocks of the database and of all nodes {what}: they serve and say so, and nothing ends")


async def several_nodes(database, folder, one, two, three):
    world, others = World(folder), World(folder, "others")
    two.environment = world.environment
    one.environment = three.environment = others.environment
    world.wall_is_ahead(-BEHIND)
    await asyncio.to_thread(start, (one, three))
    two.start()
    await asyncio.to_thread(
        wait, lambda: set(one.owners()) == {"one", "two", "three"}, "all three to own partitions")
    assert is_preloaded(two.process), "world.so is not in the node"
    further = await short_lives(two, three)
    world.wall_is_ahead(0)
    await asyncio.to_thread(two.wait_ready)
    await database_behind((world, others), (one, two, three))
    began = time.monotonic()
    house = House((two.host, two.port), (three.host, three.port))
    await house.fill()
    house.devices += further
    await asyncio.sleep(max(0, began + 10.5 - time.monotonic()))

    async def ready(node):
        return await asyncio.to_thread(node.is_ready)

    async def is_not():
        return not await ready(two)

    async def is_ready():
        return await ready(two)
    for name, seconds in LEAPS.items():
        world.wall_is_ahead(seconds)
        await drive(house, is_not, "the node to see that its clock has leapt")
        status, words = await asyncio.to_thread(two.call, "GET", "/readyz")
        # On a busy machine the node may have compared its clock with the database's by now.
        assert status == 503 and (REASON in words.decode() or "the database's" in words.decode()), \
            (status, words)
        assert await ready(three), "a node whose clock is right is not ready"
        if one.process.poll() is None:
            # The node with the wrong clock takes about half of the dead node's partitions.
            one.end(signal.SIGKILL)
            await asyncio.to_thread(
                wait, lambda: set(three.owners()) == {"two", "three"},
                "the others to own what was the dead node's")
        await house.check_hearing("while the clock is wrong")
        await house.check_comer()
        world.wall_is_ahead(0)
        await drive(house, is_ready, "the node to be ready when its clock is right")
        print(f"the clock of one node leapt {name}: only that node was not ready; ready when it was back")
    await house.check_nothing_lost("when the clock is right again")
    print(f"{len(house.devices)} devices are registered, and {sum(map(len, house.waiting.values()))} messages"
          " wait")
    world.wall_is_ahead(LEAPS["back to 1970"])
    one.environment = world.environment
    one.start()
    assert await asyncio.to_thread(one.process.wait, 30) == 1, "a node joined whose clock is wrong"
    assert "behind the database's" in one.log_text().splitlines()[-1], "it does not say why it did not join"
    print("a node whose clock is wrong from the first does not join, and says why")


def main_of_cluster():
    with making() as made:
        database, nodes = made.cluster("one", "two", "three")
        asyncio.run(several_nodes(database, made.folder, *nodes))
    with making() as made:
        database, nodes = made.cluster("one", "two")
        asyncio.run(wrong_together(database, made.folder, *nodes))
    print("cluster_clock: ok")


def main():
    if sys.argv[1] == "cluster":
        return main_of_cluster()
    server = WorldServer(sys.argv[1], "--partitions", "8")
    try:
        asyncio.run(single(server))
        print("clock_leaps: ok")
    finally:
        server.kill()


if __name__ == "__main__":
    main()
