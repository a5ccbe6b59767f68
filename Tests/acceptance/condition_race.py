"""Conditions whose topics change while an owner is replaced: see condition_race.sh."""
import json
import signal
import threading
import time

from system import placement
from system.checks import check, wait
from system.device import FAULTS, Device, register, subscribe
from system.node import making, start
from system.process import BACKEND, OWNER

PARTITIONS, PAIRS = 32, 24
MARK = 1_000_000


class Case:
    """A device with two topics of its own, of which the owner of `y` is killed."""

    def __init__(self, node, number, names, wanted):
        self.node, self.number, self.wanted, self.answers = node, number, wanted, {}
        self.x, self.y = names
        registration = register(node)
        self.token = registration["token"]
        subscribe(node, self.y, [self.token])
        if not wanted:
            subscribe(node, self.x, [self.token])
        self.device = Device(node, registration)

    def change(self, verb, topic):
        body = {"to": f"/topics/{topic}", "registration_tokens": [self.token]}
        return self.call("POST", f"/iid/v1:{verb}", body)

    def call(self, method, path, body):
        try:
            return self.node.call(method, path, body, BACKEND)[0]
        except FAULTS:
            return 0

    def send(self):
        operator = "||" if self.wanted else "&& !"
        condition = f"'{self.x}' in topics {operator}('{self.y}' in topics)"
        message = {"condition": condition, "data": {"n": str(self.number)}}
        self.answers["send"] = self.call("POST", "/v1/projects/demo/messages:send", {"message": message})

    def swap(self):
        first, second = (("batchAdd", self.x), ("batchRemove", self.y)) if self.wanted else (
            ("batchRemove", self.x), ("batchRemove", self.y))
        self.answers["first"] = self.change(*first)
        self.answers["second"] = self.change(*second)

    def run(self):
        sender = threading.Thread(target=self.send)
        sender.start()
        time.sleep(0.1)
        self.swap()
        sender.join()

    @property
    def counts(self):
        return set(self.answers.values()) == {200}


def partitions_of(node, owner):
    return {number for number, name in enumerate(node.owners()) if name == owner}


def reads(node, project, victim, lost):
    """Changes and reads of one pair while its topic's owner is replaced: a read that says "subscribed" is
    followed by a send, which must come."""
    topic = placement.topics_of(lost, project, 1, PARTITIONS)[0]
    registration = register(node)
    device, token = Device(node, registration), registration["token"]
    wait(lambda: device.streams > 0, "the stream to begin")
    victim.end(signal.SIGKILL)
    change = threading.Thread(target=subscribe, args=(node, topic, [token]))
    change.start()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        status, body = node.call("GET", f"/iid/info/{token}?details=true", None, OWNER)
        if status == 200 and topic in json.loads(body).get("rel", {}).get("topics", {}):
            break
    else:
        raise SystemExit("FAIL: no read says that the device is subscribed")
    message = {"topic": topic, "data": {"n": str(MARK)}}
    status, body = node.call("POST", "/v1/projects/demo/messages:send", {"message": message}, BACKEND)
    check(status == 200, f"the send behind the read is accepted: {body}")
    wait(lambda: MARK in device.seen, "the message that was sent behind the read")
    change.join()
    check(True, "a send finds what a read has said, while the topic's owner is replaced")


def main():
    with making() as made:
        _, nodes = made.cluster("one", "two", "three")
        start(nodes)
        one, two = nodes[0], nodes[1]
        wait(lambda: set(one.owners()) == {"one", "two", "three"}, "each node to own partitions")
        register(one)
        project = one.project_number()
        lost = partitions_of(one, "two")
        kept = set(range(PARTITIONS)) - lost
        names = list(zip(*(placement.topics_of(some, project, 2 * PAIRS, PARTITIONS)
                           for some in (kept, lost)), strict=True))
        cases = [Case(one, number + 1, names[number], number % 2 == 0) for number in range(2 * PAIRS)]
        wait(lambda: all(case.device.streams > 0 for case in cases), "the streams to begin")
        two.end(signal.SIGKILL)
        threads = [threading.Thread(target=case.run) for case in cases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counted = [case for case in cases if case.counts]
        check(len(counted) > PAIRS, f"{len(counted)} of {len(cases)} swaps beside a send were answered 200")
        wait(lambda: all(case.number in case.device.seen for case in counted if case.wanted),
             "each device that was in one of two topics at each moment to get its message")
        check(True, "each device that was in one of two topics at each moment got its message")
        check(not any(case.number in case.device.seen for case in counted if not case.wanted),
              "no device got a message to which it was entitled at no moment")
        two.start()
        two.wait_ready()
        wait(lambda: partitions_of(one, "two"), "the node that came back to own partitions", 60)
        reads(one, project, two, partitions_of(one, "two"))
        print("condition_race: ok")


if __name__ == "__main__":
    main()
