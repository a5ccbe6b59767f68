"""Faults of a cluster of three nodes, and the promises that must hold under each of them: see cluster.sh."""
import json
import signal

from privileges import privileges

from system.checks import wait
from system.device import Device, register
from system.load import Load, failures, settled
from system.node import making, start
from system.process import BACKEND


class Scenario:
    """Three nodes, five devices that listen on the third, and loads of seven projects through the first."""

    def __init__(self, database, nodes):
        self.database, self.nodes = database, nodes
        self.one, self.two, three = nodes
        devices = [Device(three, register(self.one)) for _ in range(5)]
        self.members, self.strangers = devices[:4], devices[4:]
        self.devices = devices
        wait(self.subscribed, "a subscription through a node that hears of the project")
        wait(lambda: all(device.streams for device in devices), "the streams")
        # Six more projects. Their quota buckets are spread over the nodes, so that a node that dies has owned
        # some of them.
        self.load = Load(self.one)
        self.loads = [self.load] + [Load(self.one, f"other-{number}") for number in range(6)]
        wait(lambda: all(len(load.accepted()) > 50 for load in self.loads), "the first sends")
        print("registered through one, subscribed through two, listening on three, sending through one")

    def subscribed(self):
        tokens = [device.token for device in self.members]
        status, body = self.two.call("POST", "/iid/v1:batchAdd",
                                     {"to": "/topics/news", "registration_tokens": tokens},
                                     BACKEND)
        assert status == 200, (status, body)
        results = json.loads(body)["results"]
        # The first node made the project a moment ago. The second node may not know the project yet, and then
        # answers INTERNAL.
        assert results in ([{}] * 4, [{"error": "INTERNAL"}] * 4), results
        return results == [{}] * 4

    def settled(self, what):
        settled(self.loads, what, 51, 60)

    def marks(self):
        return [load.mark() for load in self.loads]

    def check_unharmed(self, marks, streams, what):
        """No send has failed, and no stream has ended."""
        failed = failures(self.loads, marks)
        assert not failed, f"sends failed when {what}: {failed}"
        assert streams is None or [device.streams
                                   for device in self.devices] == streams, f"a stream ended when {what}"

    def two_is_back(self):
        start([self.two])
        wait(lambda: set(self.one.owners()) == {"one", "two", "three"}, "all three to own partitions")

    def killed_and_left(self):
        streams = [device.streams for device in self.devices]
        marks = self.marks()
        self.two.end(signal.SIGKILL)
        self.settled("the kill")
        self.check_unharmed(marks, streams, "an owner was killed")
        print("an owner was killed: no send failed, no stream ended")
        self.two_is_back()
        marks = self.marks()
        assert self.two.end(signal.SIGTERM) == 0
        self.settled("the leave")
        self.check_unharmed(marks, streams, "a node left in order")
        print("a node left in order: no send failed, no stream ended")
        self.two_is_back()

    def slept(self):
        marks = self.marks()
        self.two.process.send_signal(signal.SIGSTOP)
        wait(lambda: "two" not in self.one.owners(), "the others to own what the sleeper had")
        # The heirs now answer the requests that the sleeping node had got. A node that wakes earlier could
        # answer them with 504.
        self.settled("the sleeper's partitions were taken")
        self.two.process.send_signal(signal.SIGCONT)
        assert self.two.process.wait(timeout=30) == 70, "a fenced node steps down"
        self.settled("the sleeper")
        self.check_unharmed(marks, None, "a node slept past its lease")
        print("a node slept past its lease: it was fenced, found it out and stepped down; no send failed")
        self.two_is_back()

    def database_killed(self):
        self.database.stop()
        wait(lambda: not any(node.is_ready() for node in self.nodes),
             "all nodes to see that the database is away")
        self.database.start()
        for node in self.nodes:
            node.wait_ready()
        self.settled("the database's restart")
        print("the database was killed and came back")

    def check_deliveries(self):
        for load in self.loads:
            load.end()
        accepted, refused = set(self.load.accepted()), self.load.failures()
        wait(lambda: all(accepted <= set(device.counts()) for device in self.members), "the last deliveries",
             30)
        twice = 0
        for device in self.members:
            counts = device.counts()
            surplus = set(counts) - accepted - set(refused)
            assert not surplus, f"delivered and never accepted: {surplus}"
            wanted = [n for n in counts if n in accepted]
            assert wanted == sorted(wanted), "first deliveries out of order"
            twice += sum(count > 1 for count in counts.values())
        assert not any(device.counts() for device in self.strangers), "somebody got what is not for him"
        print(f"{len(accepted)} sends accepted, each delivered to {len(self.members)} devices in order;"
              f" {len(refused)} not accepted ({sorted(set(refused.values()))}), {twice} delivered again")


def run(database, nodes):
    start(nodes)
    for node in nodes:
        assert not privileges(node.process.pid), (node.name, privileges(node.process.pid))
    print("three nodes serve, none of them with any privilege")
    scenario = Scenario(database, nodes)
    scenario.killed_and_left()
    scenario.slept()
    scenario.database_killed()
    scenario.check_deliveries()


def main():
    with making() as made:
        run(*made.cluster("one", "two", "three"))
        print("cluster: ok")


if __name__ == "__main__":
    main()
