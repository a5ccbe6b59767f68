"""Sends that come while the disk stalls: see stalled_disk.sh."""
import asyncio
import collections
import random
import sys

from system.openloop import Caller, Stream, burst_http1, message, register, several, subscribe, until
from system.world import WorldServer

SEND = "/v1/projects/demo/messages:send"
# Most of the devices are in one partition: a project's first 4,096 devices go to one partition.
DEVICES, SENDS, SYNC = 3200, 900, 0.4
# Each 15th send goes to the topic `rare`. So few sends can all wait for a device that is away.
RARE = 15
SAMPLE = 6


async def check_health(server, devices):
    """The server must call itself ready, and truly be ready: each partition must carry out a request."""
    said = await server.ready_word()
    assert said == (200, "ready"), said
    numbers = await server.metrics()
    for name in ("tidecast_partitions_lost_total", "tidecast_partitions_quarantined",
                 "tidecast_bodies_gone_total"):
        assert numbers[name] == 0, (name, numbers[name])
    # Topics in all partitions, and devices in the partitions that have devices.
    work = [message(0, {"topic": f"probe-{number}"}) for number in range(200)]
    work += [message(0, {"token": device["token"]}) for device in random.sample(devices, 50)]
    await several(server.host, server.port, [("POST", SEND, one) for one in work])


def check_came(streams, wanted, possible, what):
    for stream in streams:
        came = [number for number in stream.now if number > 0]
        stream.check_once()
        assert not wanted - set(came), f"{what}: {len(wanted - set(came))} acknowledged sends did not come"
        assert set(
            came) <= possible, f"{what}: {sorted(set(came) - possible)[:5]} came, and were not acknowledged"


async def run(server):
    await server.start()
    at = (server.host, server.port)
    devices = await register(*at, DEVICES)
    chosen = random.sample(devices, 3 * SAMPLE)
    # The devices of the first list listen from now on. The devices of the second list listen for the first
    # time when all is over. The devices of the third list are subscribed only to the topic of few sends.
    listening, absent, away = ([Stream(one) for one in chosen[kind::3]] for kind in range(3))
    patient = {stream.token for stream in away}
    await subscribe(*at, "broad", [one for one in devices if one["token"] not in patient])
    await subscribe(*at, "rare", [one for one in devices if one["token"] in patient])
    for stream in listening:
        stream.open(*at)
    # A first send shows when the devices listen.
    caller = Caller(*at)
    await caller.wanted("POST", SEND, message(0, {"topic": "broad"}))
    await until(lambda: all(0 in one.now for one in listening), "the streams to hear a first send")
    print(f"{DEVICES} devices of one project are subscribed to a topic, {len(listening)} of them listen")

    topics = {number: "rare" if number % RARE == 0 else "broad" for number in range(1, SENDS + 1)}
    server.world.syncs_take(SYNC)
    answered = await burst_http1(*at, SEND, [message(number, {"topic": topic}, 1000)
                                             for number, topic in topics.items()])
    statuses = dict(zip(topics, answered, strict=True))
    accepted = {topic: {number for number, status in statuses.items() if status == 200
                        and topics[number] == topic}
                for topic in ("broad", "rare")}
    counts = dict(collections.Counter(statuses.values()))
    print(f"{SENDS} sends of 1 kB at once, while each sync takes {SYNC} s longer: {counts}")
    # A bound may refuse some sends (429, 503). Nothing broke that could leave a send in doubt (504, 0).
    assert set(counts) <= {200, 429, 503}, counts
    assert accepted["broad"] and accepted["rare"], "nothing was accepted"
    await until(lambda: all(accepted["broad"] <= set(one.now) for one in listening),
                "everything that was acknowledged to be delivered")
    server.world.syncs_take(0)
    check_came(listening, accepted["broad"], accepted["broad"], "while it ran")
    await check_health(server, devices)
    print(f"{len(accepted['broad'])} of them, acknowledged, came to all that listen, once; no partition was"
          " lost")

    for stream in listening:
        stream.close()
    caller.close()
    await server.end()
    await server.start()
    caller = Caller(*at)
    for stream in listening:
        stream.open(*at, resuming=True)
    for stream in absent + away:
        stream.open(*at)
    await until(lambda: all(accepted["rare"] <= set(one.now) for one in away),
                "what was acknowledged to come to who was away")
    check_came(away, accepted["rare"], accepted["rare"], "after the restart")
    # The other devices had too many waiting messages: the server tells them so, and they get the next send.
    await caller.wanted("POST", SEND, message(SENDS + 1, {"topic": "broad"}))
    await until(lambda: all(SENDS + 1 in one.now for one in listening + absent),
                "a send after the restart to come")
    for stream in absent:
        assert stream.dropped or accepted["broad"] <= set(
            stream.now), "sends are missing, and the device is not told"
    for stream in listening:
        again = set(stream.now) & accepted["broad"]
        assert not again, f"what it had resumed from came again: {sorted(again)[:5]}"
    await check_health(server, devices)
    print("after a restart it is there for who was away, and every partition serves")
    await server.end()


def main():
    server = WorldServer(sys.argv[1])
    try:
        asyncio.run(run(server))
        print("stalled_disk: ok")
    finally:
        server.kill()


if __name__ == "__main__":
    main()
