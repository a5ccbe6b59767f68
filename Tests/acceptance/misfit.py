"""Journals whose records do not fit together: see misfit.sh."""
import concurrent.futures
import contextlib
import ctypes
import os
import signal
import sqlite3
import struct

from system.checks import check, wait
from system.device import Device, register, subscribe
from system.node import making, start
from system.process import OWNER, DevelopmentServer

# The devices of a project are in one partition, as long as they are few.
PROJECTS, DEVICES = 24, 4
# A record's header: magic, version and flags, then the checksum, then what the checksum is of: first the
# partition and the sequence.
CHECKED, PLACE = 12, "<HQ"


def xxh3(data, seed):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    library.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return library.XXH3_64bits_withSeed(data, len(data), seed)


def moved(payload, partition, sequence):
    """The record as it would be stored in another place: the checksum matches."""
    start_of_it, rest = payload[:4], payload[CHECKED + struct.calcsize(PLACE):]
    checked = struct.pack(PLACE, partition, sequence) + rest
    return start_of_it + struct.pack("<Q", xxh3(checked, struct.unpack("<I", start_of_it)[0])) + checked


def damage(rows):
    """Rows in place of some of `rows` ((partition, sequence) -> payload, the last of each partition
    registrations): the last two of a partition are swapped, and the last of another one takes the place
    before it too."""
    last = {}
    for partition, sequence in rows:
        last[partition] = max(sequence, last.get(partition, 0))
    (one, at), (other, end) = sorted(last.items(), key=lambda pair: -pair[1])[:2]
    places = {(one, at): (one, at - 1), (one, at - 1): (one, at), (other, end - 1): (other, end)}
    return {place: moved(rows[source], *place) for place, source in places.items()}


def fill(server):
    """Registers devices one after the other: a record for each. Returns their projects and registrations."""
    return [(f"p{project}", register(server, project=f"p{project}"))
            for project in range(PROJECTS) for _ in range(DEVICES)]


def send(server, project, target, number=0):
    """The status of a send."""
    message = {"message": {**target, "data": {"n": str(number)}}}
    return server.call("POST", f"/v1/projects/{project}/messages:send", message, OWNER)[0]


def answers(server, devices):
    """The devices to which sends are accepted, and how many sends wait for a partition that nobody can
    read."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(devices)) as pool:
        found = list(pool.map(lambda one: send(server, one[0], {"token": one[1]["token"]}), devices))
    check(set(found) <= {200, 503}, f"no device is unknown: {sorted(set(found))}")
    whole = [one for one, status in zip(devices, found, strict=True) if status == 200]
    return whole, found.count(503)


def condition_reaches(server, project, registration):
    """A condition over topics whose partition is whole reaches a device of a whole partition."""
    topic = next(name for name in map("topic-{}".format, range(64))
                 if send(server, project, {"topic": name}) == 200)
    subscribe(server, topic, [registration["token"]])
    device = Device(server, registration, project)
    wait(lambda: device.streams, "the stream")
    status = send(server, project, {"condition": f"'{topic}' in topics || '{topic}2' in topics"}, 1)
    wait(lambda: 1 in device.seen, "the condition's message")
    check(status == 200, "a condition reaches a device that can be reached")


def serves_the_rest(server, devices, count):
    whole, refused = answers(server, devices)
    check(len(whole) > refused > 0,
          f"{server.name} serves the others: {len(whole)} accepted, {refused} refused")
    condition_reaches(server, *whole[0])
    text = server.log_text()
    check("quarantine" in text, f"the log of {server.name} says so")
    check(server.is_running() and server.metrics()["tidecast_partitions_quarantined"] == count,
          f"{count} partitions are quarantined")


def lone(made):
    server = DevelopmentServer(made.folder, "--partitions", "8")
    made.nodes.append(server)
    start([server])
    devices = fill(server)
    path = os.path.join(server.data, "tidecast.db")
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as stored:
        rows = {(one, at): payload for one, at, payload in
                stored.execute("SELECT partition, sequence, payload FROM journal")}
    server.end(signal.SIGTERM)

    def store(some):
        with contextlib.closing(sqlite3.connect(path)) as stored, stored:
            stored.executemany("UPDATE journal SET payload = ? WHERE partition = ? AND sequence = ?",
                               [(payload, *place) for place, payload in some.items()])

    store(damage(rows))
    server.start()
    wait(lambda: server.asked("/readyz")[0], "an answer")
    serves_the_rest(server, devices, 2)
    server.end(signal.SIGTERM)
    store({place: rows[place] for place in damage(rows)})
    start([server])
    check(answers(server, devices)[1] == 0, "with the records back it serves all")
    server.end(signal.SIGTERM)


def cluster(made):
    database, nodes = made.cluster("one", "two", "three")
    nodes = list(nodes)
    # A node alone moves no partition, so each journal ends with registrations.
    start(nodes[:1])
    devices = fill(nodes[0])
    rows = {}
    for line in database.rows("SELECT partition, sequence, encode(payload, 'hex') FROM tidecast.journal"):
        partition, sequence, payload = line.split("|")
        rows[int(partition), int(sequence)] = bytes.fromhex(payload)
    nodes[0].kill()
    changed = damage(rows)
    database.rows(";".join(
        f"UPDATE tidecast.journal SET payload = '\\x{payload.hex()}' WHERE partition = {partition} AND"
        f" sequence = {sequence}" for (partition, sequence), payload in changed.items()))
    start(nodes)
    first = nodes[0].owners()[min(changed)[0]]
    nodes.sort(key=lambda node: node.name != first)
    # Node after node takes what is damaged over, and the last one has all of it.
    first = nodes[0].owners()[min(changed)[0]]
    nodes.sort(key=lambda node: node.name != first)
    while len(nodes) > 1:
        nodes[0].kill()
        nodes.pop(0)
        wait(lambda: set(nodes[0].owners()) == {node.name for node in nodes}, "the others to own all")
        check(all(node.is_running() for node in nodes), "no heir ends")
    left = nodes[0]
    wait(lambda: left.metrics()["tidecast_partitions_quarantined"] == 2, "the last one to have read them")
    serves_the_rest(left, devices, 2)


def main():
    for part in (lone, cluster):
        with making() as made:
            part(made)
    print("misfit: ok")


if __name__ == "__main__":
    main()
