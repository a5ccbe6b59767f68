"""Devices that swap topics, conditions over these topics, and reads of the devices' topics.

Each device makes the changes of a cycle one after the other, each answered before the next begins. So it is
at each moment in one of the topics of its pair in `either`, and at no moment in the first topic of its pair
in `alone` without the second. The checkers do not rest on that: they judge by the history.
"""
import itertools

from client import Pace, spawn
from history import LATEST_EFFECT

PAIRS = 2


class Swaps:
    def __init__(self, workload, mark):
        self.workload = workload
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
            for operator, pairs in (("||", self.either), ("&& !", self.alone)):
                yield spawn(self.run_conditions, project, operator, pairs)
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

    def run_conditions(self, project, operator, pairs):
        client = self.workload.client(f"condition-{operator}-{project.id}")
        for _ in Pace(self.workload.over, self.workload.rates["condition"], client.random):
            x, y = client.random.choice(pairs)
            words = f"'{x}' in topics || '{y}' in topics" if operator == "||" else \
                f"'{x}' in topics && !('{y}' in topics)"
            self.workload.send(client, project, {"condition": words}, operator=operator, topics=[x, y])

    def run_reads(self, project, devices):
        """Reads devices' topics by `iid/info`, and by the devices' lists."""
        client = self.workload.client(f"read-{project.id}")
        headers = {"authorization": f"Bearer {project.bearer}", "access_token_auth": "true"}
        for _ in Pace(self.workload.over, self.workload.rates["read"], client.random):
            device = client.random.choice(devices)
            is_info = client.random.random() < 0.5
            path = f"/iid/info/{device.token}?details=true" if is_info else \
                f"/v1/projects/{project.id}/registrations/{device.fid}/topicSubscriptions"
            number, outcome, status, answer = self.workload.attempt(
                client, client.pick(), "read", "GET", path, None, headers, project=project.id,
                device=device.fid)
            fields = {"answer": str(answer)[:200]}
            if outcome == "ok":
                found = answer.get("rel", {}).get("topics", {}) if is_info else \
                    [one["topicName"] for one in answer["topicSubscriptions"]]
                fields = {"topics": sorted(found)}
            self.workload.history.complete(number, outcome, status, **fields)
