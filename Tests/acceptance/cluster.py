"""Faults of a cluster of three nodes, and the promises that must hold under each of them: see cluster.sh."""
import json
import signal

from privileges import privileges

from system.checks import wait
from system.device import Device, register
from system.load import Load
from system.node import making, start
from system.process import BACKEND


def main():
    with making() as made:
        run(*made.cluster("one", "two", "three"))
        print("cluster: ok")


def run(database, nodes):
    one, two, three = nodes
    start(nodes)
    for node in nodes:
        assert not privileges(node.process.pid), (node.name, privileges(node.process.pid))
    print("three nodes serve, none of them with any privilege")
    devices = [Device(three, register(one)) for _ in range(5)]
    strangers = devices[4:]
    members = devices[:4]
    tokens = [device.token for device in members]

    def subscribed():
        status, body = two.call("POST", "/iid/v1:batchAdd", {"to": "/topics/news", "registration_tokens": tokens},
                                BACKEND)
        assert status == 200, (status, body)
        results = json.loads(body)["results"]
        # The first node made the project a moment ago. The second node may not know the project yet, and then answers INTERNAL.
        assert results in ([{}] * 4, [{"error": "INTERNAL"}] * 4), results
        return results == [{}] * 4

    wait(subscribed, "a subscription through a node that hears of the project")
    wait(lambda: all(device.streams for device in devices), "the streams")
    load = Load(one)
    # Six more projects. Their quota buckets are spread over the nodes, so that a node that dies has owned some of them.
    others = [Load(one, f"other-{number}") for number in range(6)]
    wait(lambda: all(len(one_load.accepted()) > 50 for one_load in [load] + others), "the first sends")
    print("registered through one, subscribed through two, listening on three, sending through one")

    def settled(what):
        for one_load in [load] + others:
            mark = one_load.mark()
            wait(lambda: len(one_load.accepted(mark)) > 50, f"sends after {what}")

    def marks():
        return [one_load.mark() for one_load in [load] + others]

    def two_is_back():
        two.start()
        two.wait_ready()
        wait(lambda: set(one.owners()) == {"one", "two", "three"}, "all three to own partitions")

    def failures(since):
        return {(one_load.path, *one): None for one_load, mark in zip([load] + others, since)
                for one in one_load.failures(mark).items()}

    streams = [device.streams for device in devices]
    mark = marks()
    two.end(signal.SIGKILL)
    settled("the kill")
    failed = list(failures(mark))
    assert not failed, f"sends failed when an owner was killed: {failed}"
    assert [device.streams for device in devices] == streams, "an owner's death ended a stream elsewhere"
    print("an owner was killed: no send failed, no stream ended")

    two_is_back()
    mark = marks()
    assert two.end(signal.SIGTERM) == 0
    settled("the leave")
    failed = list(failures(mark))
    assert not failed, f"sends failed when a node left in order: {failed}"
    assert [device.streams for device in devices] == streams, "a leave ended a stream elsewhere"
    print("a node left in order: no send failed, no stream ended")

    two_is_back()
    mark = marks()
    two.process.send_signal(signal.SIGSTOP)
    wait(lambda: "two" not in one.owners(), "the others to own what the sleeper had")
    # The heirs now answer the requests that the sleeping node had got. A node that wakes earlier could answer them with 504.
    settled("the sleeper's partitions were taken")
    two.process.send_signal(signal.SIGCONT)
    assert two.process.wait(timeout=30) == 70, "a fenced node steps down"
    settled("the sleeper")
    failed = list(failures(mark))
    assert not failed, f"sends failed when a node slept past its lease: {failed}"
    print("a node slept past its lease: it was fenced, found it out and stepped down; no send failed")

    two_is_back()
    database.stop()
    wait(lambda: not any(node.is_ready() for node in nodes), "all nodes to see that the database is away")
    database.start()
    for node in nodes:
        node.wait_ready()
    settled("the database's restart")
    print("the database was killed and came back")

    for one_load in [load] + others:
        one_load.end()
    accepted, refused = set(load.accepted()), load.failures()
    wait(lambda: all(accepted <= set(device.counts()) for device in members), "the last deliveries", 30)
    twice = 0
    for device in members:
        counts = device.counts()
        surplus = set(counts) - accepted - set(refused)
        assert not surplus, f"delivered and never accepted: {surplus}"
        wanted = [n for n in counts if n in accepted]
        assert wanted == sorted(wanted), "first deliveries out of order"
        twice += sum(count > 1 for count in counts.values())
    assert not any(device.counts() for device in strangers), "somebody got what is not for him"
    print(f"{len(accepted)} sends accepted, each delivered to {len(members)} devices in order;"
          f" {len(refused)} not accepted ({sorted(set(refused.values()))}), {twice} delivered again")


if __name__ == "__main__":
    main()
