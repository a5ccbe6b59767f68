"""Clusters of three nodes on PostgreSQL, one of which is killed or leaves under load: T12, T13, T14."""
import http.client
import itertools
import json
import os
import threading
import time
from signal import SIGKILL, SIGTERM

from bench.common import RELEASE, say, simulated
from system import placement
from system.checks import wait
from system.load import Load
from system.node import Made, Node, start
from system.process import OWNER

TOPICS, ROUNDS, PARTITIONS = 32, 6, 32
# Before the first fault; after a kill and after a leave; and after a node is ready again, while partitions
# move.
BEFORE_SECONDS, KILLED_SECONDS, LEFT_SECONDS, SETTLE_SECONDS = 3, 8, 3, 6
# A topic whose owner lives is answered within this time.
AT_ONCE_SECONDS = 0.2
QUOTA_SECONDS = 5


class Nodes:
    """Three nodes on PostgreSQL for the time of a `with` block."""

    def __enter__(self):
        self.made = Made()
        database = self.made.database()
        self.nodes = self.made.nodes
        self.nodes += [Node(self.made.folder, name, database, binary=RELEASE)
                       for name in ("one", "two", "three")]
        start(self.nodes)
        self.begin()
        time.sleep(BEFORE_SECONDS)
        return self

    def begin(self):
        """Begins the load."""
        raise NotImplementedError

    def __exit__(self, *_):
        self.made.end()


class TopicLoads(Nodes):
    """A sender for each of 32 topics through the first node."""

    def begin(self):
        """Begins the loads."""
        self.loads = [Load(self.nodes[0], topic=f"topic-{number}") for number in range(TOPICS)]

    def ended_since(self, at):
        """(topic, begin, end, status) of each send that has ended after `at`, in s of the monotonic clock."""
        for load in self.loads:
            statuses = load.outcomes()
            for number, (began, ended) in list(load.times.items()):
                if ended > at and number in statuses:
                    yield load.topic, began, ended, statuses[number]

    def __exit__(self, *_):
        for load in self.loads:
            load.is_over = True
        for load in self.loads:
            load.end()
        super().__exit__()


def row(figures, count, command="tools/bench T12 T13", **facts):
    """The row of a run with `count` requests."""
    say("  " + ", ".join(f"{name} {value:.3g}" for name, value in figures.items()) + f" of {count} requests")
    return simulated("tidecast", command, {"requests": count, **facts}, **{**figures, "operations": count})


def again(node):
    """Starts the node again, and waits until the partitions have moved."""
    start([node])
    time.sleep(SETTLE_SECONDS)


def t12(_):
    """The gaps of the topics of a killed owner, s."""
    gaps = []
    with TopicLoads() as load:
        for _ in range(ROUNDS):
            at = time.monotonic()
            load.nodes[1].end(SIGKILL)
            time.sleep(KILLED_SECONDS)
            done = list(load.ended_since(at))
            for topic in {one.topic for one in load.loads}:
                first = min(ended for name, _, ended, status in done if name == topic and status == 200) - at
                # Topics that the dead node did not own were answered at once, and do not count.
                if first > AT_ONCE_SECONDS:
                    gaps.append(first)
            again(load.nodes[1])
    gaps.sort()
    return [row({"p50": gaps[len(gaps) // 2], "p99": gaps[int(len(gaps) * 0.99)]}, len(gaps))]


def t13(_):
    """The failed requests of a planned leave, and the longest request, s."""
    failed, longest, count = 0, 0, 0
    with TopicLoads() as load:
        for _ in range(ROUNDS):
            at = time.monotonic()
            load.nodes[1].end(SIGTERM)
            time.sleep(LEFT_SECONDS)
            under_way = [(ended - began, status) for _, began, ended, status in load.ended_since(at)]
            for status in {status for _, status in under_way if status != 200}:
                say(f"  status {status}: {sum(1 for _, one in under_way if one == status)}")
            count += len(under_way)
            failed += sum(1 for _, status in under_way if status != 200)
            longest = max(longest, *(length for length, _ in under_way))
            again(load.nodes[1])
    return [row({"failed": failed, "longest": longest}, count)]


class QuotaLoad(Nodes):
    """As many sends to one project as the nodes answer, through all of them."""
    RATE = 200

    def begin(self):
        """Makes the project, and begins the sends."""
        one = self.nodes[0]
        one.command("project", "create", "quota", "--service-account", os.path.join(one.folder, "quota.json"))
        one.command("project", "quota", "quota", "--sends-per-minute", str(self.RATE * 60))
        self.project = next(found["projectNumber"]
                            for found in json.loads(one.command("project", "list", "--json"))
                            if found["project"] == "quota")
        self.done, self.refused, self.is_over = [], 0, False
        wait(lambda: all('"quota"' in node.command("project", "list", "--json") for node in self.nodes),
             "each node to know the project")
        self.threads = [threading.Thread(target=self.spend, args=(number,)) for number in range(15)]
        for thread in self.threads:
            thread.start()

    def spend(self, number):
        """Sends a message without a receiver that does not wait, again after each answer."""
        body = json.dumps({"message": {"topic": f"topic-{number}", "android": {"ttl": "0s"},
                                       "data": {"n": "1"}}})
        node, link = self.nodes[number % 3], None
        while not self.is_over:
            try:
                link = link or http.client.HTTPConnection("127.0.0.1", node.port, timeout=40)
                link.request("POST", "/v1/projects/quota/messages:send", body, OWNER)
                answer = link.getresponse()
                answer.read()
                status = answer.status
            except (OSError, http.client.HTTPException):
                link, status = None, 0
                time.sleep(0.1)
            if status == 200:
                self.done.append(time.monotonic())
            elif status == 429:
                self.refused += 1
                time.sleep(0.005)

    def owner(self):
        """The node that owns the project's buckets."""
        name = self.nodes[0].owners()[placement.home_partition(self.project, PARTITIONS)]
        return next(node for node in self.nodes if node.name == name)

    def line(self, since, until):
        """The most by which the admissions exceed RATE × time. The value itself means nothing; its changes
        do."""
        done = sorted(self.done)
        return max(count - self.RATE * end for count, end in enumerate(done) if since < end <= until)

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()
        super().__exit__()


def t14(_):
    """While the bucket is empty, the admissions follow RATE × time. The death of the bucket's owner must not
    lift them."""
    lifts, pauses = [], []
    with QuotaLoad() as load:
        wait(lambda: load.refused >= 200, "the bucket to be empty", 600)
        for _ in range(ROUNDS):
            began = time.monotonic()
            time.sleep(QUOTA_SECONDS)
            owner, at = load.owner(), time.monotonic()
            owner.end(SIGKILL)
            time.sleep(KILLED_SECONDS)
            lifts.append(load.line(at, time.monotonic()) - load.line(began, at))
            ends = [at, *sorted(end for end in list(load.done) if end > at)]
            pauses.append(max(after - before for before, after in itertools.pairwise(ends)))
            again(owner)
        count = len(load.done)
    worst = max(max(lifts), 0) / load.RATE * 100
    say(f"  kills: {', '.join(f'{lift:+.0f} sends' for lift in lifts)}; longest without: {max(pauses):.2f} s")
    return [row({"over": worst}, count, "tools/bench T14",
                **{"kills": len(lifts), "seconds without any, at the longest": max(pauses)})]


LOADS = {"T12": t12, "T13": t13, "T14": t14}
