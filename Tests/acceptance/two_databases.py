"""Faults of a cluster on two databases, and the promises that must hold under each of them: see
two_databases.sh."""
import itertools
import json
import os
import shutil
import signal
import subprocess
import time

from system.checks import check, wait
from system.device import Device, register, subscribe
from system.load import Load, failures, settled
from system.node import Node, making, start
from system.process import BACKEND

BEGAN = time.monotonic()
# Seconds between two sends to a topic. While a partition moves, or its database is away, so few messages come
# together that they stay below the 100 messages that may wait for a device.
PAUSE = 0.8
# How long the test looks which topics go on, and how long a database is frozen; and how long a message may
# take.
AWAY_SECONDS, DELIVERED_SECONDS = 6, 2
CONDITION = 77_000_000
TOPICS = [f"topic-{number}" for number in range(16)]


class Listener(Device):
    """A device that also counts how often the server told it that messages were dropped."""
    told = 0

    def receive(self, event, kind, data):
        self.told += kind == "deleted_messages"
        super().receive(event, kind, data)


class SlowLoad(Load):
    """Sends slowly to a topic of its own, with numbers of its own. It can be paused."""
    is_paused = False
    is_resting = False

    def __init__(self, node, topic):
        super().__init__(node, topic=topic, pause=PAUSE,
                         numbers=itertools.count(TOPICS.index(topic) * 1_000_000 + 1))

    def send(self, number):
        while self.is_paused:
            self.is_resting = True
            time.sleep(0.04)
        self.is_resting = False
        return super().send(number)

    def begun(self, moment):
        """The accepted sends that began after the moment."""
        return [number for number in self.accepted() if self.times[number][0] > moment]


def processes(database):
    """The process ids of the database server: its first process and the children."""
    with open(os.path.join(database.folder, "data", "postmaster.pid"), encoding="ascii") as file:
        first = int(file.readline())
    with open(f"/proc/{first}/task/{first}/children", encoding="ascii") as file:
        return [first, *(int(word) for word in file.read().split())]


def wrongly_named(folder, one, home, other, third):
    """Nodes whose databases are named wrongly. Each must say why and end, and must harm nothing."""
    cases = [
        ("forgotten", (home,), "spread over 2 databases, and 1 is named"),
        ("swapped", (other, home), "--engine names database 2 of 2"),
        ("foreign", (home, third), "has no identity of a cluster"),
        ("surplus", (home, other, third), "spread over 2 databases, and 3 are named"),
        ("twice", (home, home), "name the home of a cluster as database"),
    ]
    for name, databases, sentence in cases:
        node = Node(folder, name, *databases)
        # Without --partitions.
        node.options = []
        node.start()
        code = node.process.wait(timeout=30)
        check(code != 0 and sentence in node.log_text(), f"{name}: \"{sentence}\"")
    tables = third.rows("SELECT count(*) FROM tidecast.partition")
    check(tables == ["0"] and one.is_ready(), "nothing was made in the third database, and the node goes on")


def both_own(one):
    """Whether both nodes own partitions in both databases, as the node `one` sees it."""
    return {"one", "two"} == set(one.owners()[0::2]) == set(one.owners()[1::2])


def begin(folder, home, other, third, nodes):
    """Starts the nodes, and returns devices and loads in both databases."""
    one, _ = nodes
    start(nodes)
    check([int(row) % 2 for row in home.rows("SELECT id FROM tidecast.partition")] == [0] * 16
          and [int(row) % 2 for row in other.rows("SELECT id FROM tidecast.partition")] == [1] * 16,
          "half of the partitions live in each database")
    wrongly_named(folder, one, home, other, third)
    wait(lambda: both_own(one),
         "both nodes to own partitions in both databases")

    devices = [listener(one) for _ in range(4)]
    for topic in TOPICS:
        change(one, "Add", topic, devices)
    wait(lambda: all(device.streams for device in devices), "the streams")
    loads = [SlowLoad(one, topic) for topic in TOPICS]

    settled(loads, "the beginning", 3)
    check(True, "16 topics in both databases: registered, subscribed, listening, sending")
    return devices, loads


def kill_a_node(nodes, loads):
    """A node is killed. No send may fail."""
    one, two = nodes
    marks = [load.mark() for load in loads]
    two.end(signal.SIGKILL)
    settled(loads, "the kill", 3)
    failed = failures(loads, marks)
    check(not failed, f"a node was killed: no send failed {failed}")
    wait(lambda: set(one.owners()) == {"one"}, "the other to own everything")
    check(True, "the other node has taken over everything in both databases")


def stop_a_database(nodes, loads, other):
    """The second database is away for a while. Returns the loads that go on meanwhile, and those that do
    not."""
    one, two = nodes
    other.stop()
    wait(lambda: one.metrics()["tidecast_databases_away"] == 1, "the node to see that a database is away")
    # Sends that were under way when the database ended may still be accepted.
    moment = time.monotonic()
    time.sleep(AWAY_SECONDS)
    flowing = [load for load in loads if len(load.begun(moment)) > 3]
    stopped = [load for load in loads if not load.begun(moment)]
    check(flowing and stopped and len(flowing) + len(stopped) == len(loads),
          f"a database was stopped: {len(flowing)} topics go on, {len(stopped)} in it do not")
    # Sends under way wait, since no node knows whether their records are durable. The node refuses new sends
    # at once.
    check("away: database 2" in one.shown(), "`cluster status` names it")
    answers = [one.call("POST", "/v1/projects/demo/messages:send",
                        {"message": {"topic": load.topic, "data": {"n": "0"}}}) for load in stopped]
    # The node gives this reason at once. A send that waits instead ends at its deadline, with another reason.
    check(all(status == 503 and b"database is away" in body for status, body in answers) and one.is_ready(),
          f"those get {answers[0]}, and the node is ready")
    condition = " || ".join(f"'{load.topic}' in topics" for load in flowing[:2])
    status, _ = one.call("POST", "/v1/projects/demo/messages:send",
                         {"message": {"condition": condition, "data": {"n": str(CONDITION)}}})
    check(status == 200, "a condition over topics of the other database is accepted")
    two.start()
    two.wait_ready()
    check(two.metrics()["tidecast_databases_away"] == 1,
          "a node begins while the database is away, and is ready")
    settled(flowing, "the second node's return", 3)
    other.start()
    wait(lambda: one.metrics()["tidecast_databases_away"] == two.metrics()["tidecast_databases_away"] == 0,
         "the database to be seen again")
    settled(loads, "the database's return", 3)
    wait(lambda: "" not in one.owners(), "everything to be owned again")
    check(True, "the database is back: all topics go on")
    wait(lambda: both_own(one),
         "both nodes to own partitions in both databases again")
    return flowing, stopped


def freeze_a_database(nodes, flowing, loads, other):
    """The second database is frozen for a while. The topics in the home must go on."""
    one, two = nodes
    frozen = processes(other)
    for process in frozen:
        os.kill(process, signal.SIGSTOP)
    try:
        wait(lambda: one.metrics()["tidecast_databases_away"] == 1, "the frozen database to count as away")
        settled(flowing, "the database froze", 3)
        time.sleep(AWAY_SECONDS)
        settled(flowing, "the database has been frozen for a while", 3)
        check(one.is_ready() and two.is_ready() and one.process.poll() is two.process.poll() is None,
              "a database froze: the topics in the other go on, and no node loses its lease")
    finally:
        for process in frozen:
            os.kill(process, signal.SIGCONT)
    settled(loads, "the database thawed", 3)


def stop_the_home(nodes, loads, stopped, home):
    """The home database is away for a while."""
    # Sends to topics in the other database could still be accepted, and their messages for devices in the
    # home would come together.
    for load in stopped:
        load.is_paused = True
    wait(lambda: all(load.is_resting for load in stopped), "the sends under way to end")
    home.stop()
    wait(lambda: not any(node.is_ready() for node in nodes), "both nodes to see that their home is away")
    check(True, "without the home database a node is not ready")
    home.start()
    for node in nodes:
        node.wait_ready()
    for load in stopped:
        load.is_paused = False
    settled(loads, "the home's return", 3)
    check(True, "the home database was stopped and is back: all topics go on")


def leave(nodes, loads):
    """A node leaves in order. No send may fail."""
    one, two = nodes
    marks = [load.mark() for load in loads]
    check(two.end(signal.SIGTERM) == 0, "a node leaves in order")
    settled(loads, "the leave", 3)
    failed = failures(loads, marks)
    check(not failed, f"no send failed {failed}")


def conclude(devices, loads):
    """All that was accepted has arrived."""
    for load in loads:
        load.end()
    accepted = [CONDITION] + [name for load in loads for name in load.accepted()]
    try:
        wait(lambda: all(set(accepted) <= set(device.counts()) for device in devices), "the last deliveries",
             40)
    except SystemExit:
        for number, device in enumerate(devices):
            lost = sorted(set(accepted) - set(device.counts()))
            when = [tuple(round(at - BEGAN, 2) for at in load.times[name])
                    for load in loads for name in lost if name in load.times]
            print(f"device {number}, {device.streams} streams, told {device.told} times: missing {lost},"
                  f" asked and answered at {when}")
        raise
    unknown = {name for load in loads for name in load.failures()}
    check(not any(set(device.counts()) - set(accepted) - unknown for device in devices),
          "nothing arrived that was never sent")
    check(not any(device.told for device in devices), "no device was told of dropped messages")
    check(len(accepted) > 300,
          f"{len(accepted)} sends accepted, each delivered to 4 devices; {len(unknown)} not accepted")


def run(folder, home, other, third, nodes):
    devices, loads = begin(folder, home, other, third, nodes)
    kill_a_node(nodes, loads)
    flowing, stopped = stop_a_database(nodes, loads, other)
    freeze_a_database(nodes, flowing, loads, other)
    stop_the_home(nodes, loads, stopped, home)
    leave(nodes, loads)
    conclude(devices, loads)
    return devices


def listener(node):
    """A device that is registered at the node, and listens there."""
    return Listener(node, register(node))


def subscriptions(node, device):
    """The topics of the device, as the server says; `None` where the server does not know the device."""
    status, body = node.call("GET", f"/iid/info/{device.token}?details=true",
                             headers=BACKEND)
    return set(json.loads(body).get("rel", {}).get("topics", {})) if status == 200 else None


def change(node, kind, topic, devices):
    subscribe(node, topic, [device.token for device in devices], f"batch{kind}")


def went_back(database, nodes, devices):
    """One database goes back to an earlier state of its disk, as after the restore of a snapshot; the other
    database goes on."""
    one, two = nodes
    wait(lambda: both_own(one), "both to own partitions")
    data, copy = f"{database.folder}/data", f"{database.folder}/copy"
    frozen = processes(database)
    for process in frozen:
        os.kill(process, signal.SIGSTOP)
    subprocess.run(["cp", "-a", data, copy], check=True)
    for process in frozen:
        os.kill(process, signal.SIGCONT)
    os.unlink(f"{copy}/postmaster.pid")

    # One of the two databases will forget all these changes.
    devices = devices + [listener(one) for _ in range(8)]
    for number, topic in enumerate(TOPICS):
        change(one, "Add", topic, devices[4:])
        change(one, "Remove", topic, devices[number % 4:number % 4 + 1])
        assert one.call("POST", "/v1/projects/demo/messages:send",
                        {"message": {"topic": topic, "data": {"n": "0"}}})[0] == 200
    database.stop()
    shutil.rmtree(data)
    os.rename(copy, data)
    database.start()
    wait(lambda: one.process.poll() == two.process.poll() == 70, "both nodes to notice")
    check(all("the database went back" in node.log_text() for node in nodes),
          "an old disk: both nodes notice, say so, and end")
    start(nodes)
    wait(lambda: "" not in one.owners(), "everything to be owned again")

    known = {device: subscriptions(one, device) for device in devices}
    kept = [device for device in devices if known[device] is not None]
    wait(lambda: all(device.streams > 1 for device in kept), "the devices to come back")
    wrong = ["not tried"]
    for attempt in range(1, 20):
        sent = {topic: 90_000_000 + attempt * 1000 + number for number, topic in enumerate(TOPICS)}
        for topic, name in sent.items():
            status, body = one.call("POST", "/v1/projects/demo/messages:send",
                                    {"message": {"topic": topic, "data": {"n": str(name)}}})
            assert status == 200, (status, body)
        # A wrong message would come in this time, so this is no wait for the right ones.
        time.sleep(DELIVERED_SECONDS)
        wrong = [(topic, devices.index(device), topic in known[device]) for topic, name in sent.items()
                 for device in kept
                 if (name in device.seen) != (topic in known[device])]
        if not wrong:
            break
    check(not wrong, f"of {len(devices)} devices {len(kept)} are known; each gets what it is subscribed to,"
                     f" and nothing else {wrong}")
    late = listener(two)
    change(two, "Add", TOPICS[0], [late] + kept[:1])
    change(two, "Remove", TOPICS[1], kept)
    wait(lambda: late.streams, "the new device's stream")
    for number in range(2):
        one.call("POST", "/v1/projects/demo/messages:send",
                 {"message": {"topic": TOPICS[number], "data": {"n": f"9999{number}"}}})
    wait(lambda: 99990 in late.seen and 99990 in kept[0].seen, "the new device's message")
    check(not any(99991 in device.seen for device in kept), "subscriptions go on to change")


def main():
    with making() as made:
        for name in ("home", "other", "third"):
            place = os.path.join(made.folder, name)
            os.mkdir(place)
            made.database(place)
        databases, nodes = made.databases, made.nodes
        nodes += [Node(made.folder, name, *databases[:2]) for name in ("one", "two")]
        devices = run(made.folder, *databases, nodes)
        nodes[1].start()
        nodes[1].wait_ready()
        went_back(databases[1], nodes, devices)
        went_back(databases[0], nodes, devices)
        print("two_databases: ok")


if __name__ == "__main__":
    main()
