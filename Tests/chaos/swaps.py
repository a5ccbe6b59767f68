"""Devices that swap topics, conditions over these topics, and reads of the devices' topics.

A device makes the changes of a cycle one after the other, each answered before the next begins. So the device
is at each moment in one of the topics of its pair in `either`, and at no moment in the first topic of its
pair in `alone` without the second. The checkers do not rest on that: they judge by the history.
"""
import itertools

from client import Pace, spawn
from history import LATEST_EFFECT

PAIRS = 2
# Sends that follow reads of a project and wait for their answers.
FOLLOWING_MAX = 8


class Swaps:
    def __init__(self, workload, mark):
        self.workload, self.clients = workload, itertools.count()
        pairs = [[(f"{kind}-{number}-x-{mark}", f"{kind}-{number}-y-{mark}") for number in range(PAIRS)]
                 for kind in ("either", "alone")]
        self.either, self.alone = pairs
        self.topics = [topic for pair in self.either + self.alone for topic in pair]

    def prepare(self, client, devices):
        """Puts the devices of a project into the first topics of their pairs in `either`."""
        for number, (x, _) in enumerate(self.either):
            self.workload.change(client, devices[number::PAIRS], x, True)

    def begin(self):
        workload = self.workload
        for project in workload.projects:
            mine = [device for device in workload.devices if device.project is project]
            for number, device in enumerate(mine):
                yield spawn(self.run_swaps, device, number % PAIRS)
            for pairs in (self.either, self.alone):
                yield spawn(self.run_conditions, project, pairs)
            yield spawn(self.run_reads, project, mine)

    def run_swaps(self, device, number):
        client = self.workload.client(f"swap-{device.fid}")
        (x, y), (first, second) = self.either[number], self.alone[number]
        cycles = [itertools.cycle([(y, True), (x, False), (x, True), (y, False)]),
                  itertools.cycle([(second, True), (first, True), (first, False), (second, False)])]
        for _ in Pace(self.workload.over, self.workload.rates["swap"], client.random):
            topic, is_on = next(client.random.choice(cycles))
            # A try without an answer may take effect later. Until then it would leave the order of the
            # changes open.
            while not self.workload.change(client, [device], topic, is_on):
                if self.workload.over.wait(LATEST_EFFECT):
                    return

    def run_conditions(self, project, pairs):
        """Sends to the condition that always or never holds of a pair, and to the one that changes."""
        client = self.workload.client(f"condition-{pairs[0][0]}-{project.id}")
        for _ in Pace(self.workload.over, self.workload.rates["condition"], client.random):
            x, y = client.random.choice(pairs)
            operator = client.random.choice(["||", "&& !"])
            words = f"'{x}' in topics || '{y}' in topics" if operator == "||" else \
                f"'{x}' in topics && !('{y}' in topics)"
            self.workload.send(client, project, {"condition": words}, operator=operator, topics=[x, y])

    def run_reads(self, project, devices):
        """Reads the topics of devices with a change under way, by `iid/info` and by the devices' lists. A
        send to the topic of the change follows each such read."""
        workload, sends = self.workload, []
        client = workload.client(f"read-{project.id}")
        for _ in Pace(workload.over, workload.rates["read"], client.random):
            changing = workload.changing_in(project)
            device, topic = client.random.choice(changing) if changing else \
                (client.random.choice(devices), None)
            found = self.read(client, project, device)
            sends = [one for one in sends if one.is_alive()]
            if topic and found is not None and len(sends) < FOLLOWING_MAX:
                sends.append(spawn(self.follow, project, topic))
        for one in sends:
            one.join()

    def follow(self, project, topic):
        client = self.workload.client(f"follow-{next(self.clients)}")
        self.workload.send(client, project, {"topic": topic}, topic=topic)

    def read(self, client, project, device):
        """The topics that the server names, or `None`."""
        is_info = client.random.random() < 0.5
        path = f"/iid/info/{device.token}?details=true" if is_info else \
            f"/v1/projects/{project.id}/registrations/{device.fid}/topicSubscriptions"
        number, outcome, status, answer = self.workload.attempt(
            client, client.pick(), "read", "GET", path, None,
            {"authorization": f"Bearer {project.bearer}", "access_token_auth": "true"}, project=project.id,
            device=device.fid)
        if outcome != "ok":
            return self.workload.history.complete(number, outcome, status, answer=str(answer)[:200])
        found = sorted(answer.get("rel", {}).get("topics", {}) if is_info else
                       (one["topicName"] for one in answer["topicSubscriptions"]))
        self.workload.history.complete(number, outcome, status, topics=found)
        return found
