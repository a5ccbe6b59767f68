"""Each device's subscriptions as registers, one for each topic. Changes write them; sends and reads of the
device's topics read them. Some order of all operations, each between its invocation and its answer, must
explain what clients saw: a history is linearizable (Wing and Gong, "Testing and Verifying Concurrent
Objects", 1993).

Topics that stand in one condition form one object, because a condition reads them at one moment.
"""
import bisect
import collections
import dataclasses
import math

from checkers import HOLDS, changes_of, devices_of, latest, missing
from history import operations

# A search stops at so many configurations, and says nothing then.
BUDGET = 200_000


@dataclasses.dataclass
class Step:
    """One operation on an object. `state` has a bit for each topic of the object."""
    began: float
    ended: float
    words: str
    # A change without an answer may take effect at any later time, or never.
    is_optional: bool = False
    # A change: the bit, and its new value.
    bit: int = 0
    value: bool | None = None
    # A read: the states in which it sees what it saw.
    agrees: frozenset = frozenset()

    @property
    def is_read(self):
        return self.value is None

    def after(self, state):
        return state | self.bit if self.value else state & ~self.bit


def is_explained(steps, budget=BUDGET):
    """Whether some order of the steps explains the reads, from the state 0 on; `None` where the search was
    given up."""
    required = sum(1 << number for number, step in enumerate(steps) if not step.is_optional)
    seen, stack = set(), [(0, 0)]
    while stack:
        done, state = stack.pop()
        candidates = [0]
        while candidates:
            # A step may be the next one where no other step ended before it began.
            limit = min((step.ended for number, step in enumerate(steps)
                         if required & ~done & 1 << number), default=math.inf)
            candidates = [number for number, step in enumerate(steps)
                          if not done & 1 << number and step.began <= limit]
            # A read that agrees with the state changes nothing, so it need not wait.
            now = [number for number in candidates if steps[number].is_read and state in steps[number].agrees]
            if not now:
                break
            done |= sum(1 << number for number in now)
        if required & ~done == 0:
            return True
        for number in candidates:
            if steps[number].is_read:
                continue
            following = (done | 1 << number, steps[number].after(state))
            if following not in seen:
                seen.add(following)
                stack.append(following)
        if len(seen) > budget:
            return None
    return False


def objects(ops):
    """topic -> the topics of its object, as (project, topics in order)."""
    found = {}
    for op in ops:
        topics = {op["topic"]} if "topic" in op else set(op.get("topics", ())) if op["op"] == "send" else ()
        if not topics:
            continue
        joined = set(topics).union(*(found.get((op["project"], topic), ()) for topic in topics))
        for topic in joined:
            found[op["project"], topic] = joined
    return {place: tuple(sorted(topics)) for place, topics in found.items()}


class Steps:
    """The steps of each object: (device, topics) -> [Step]."""

    def __init__(self, entries):
        ops = operations(entries)
        self.found = collections.defaultdict(list)
        self.objects, self.devices = objects(ops), devices_of(ops)
        self.project = {device: project for project, mine in self.devices.items() for device in mine}
        self.got, self.told, self.listens = {}, {}, {}
        for entry in entries:
            if entry["kind"] == "deliver":
                self.got.setdefault((entry["device"], entry["n"]), entry["t"])
            elif entry["kind"] == "told" and entry["what"] == "deleted_messages":
                self.told[entry["device"]] = entry["t"]
            elif entry["kind"] == "stream":
                self.listens.setdefault(entry["device"], entry["t"])
        # A send without an answer may have been one of those that a database lost.
        self.is_whole = not any(entry["kind"] == "lost" for entry in entries)
        self.add_changes(ops)
        for op in ops:
            if op["op"] == "read" and op["outcome"] == "ok":
                self.add_read(op)
            elif op["op"] == "send" and op["outcome"] in ("ok", "unknown") and "device" not in op:
                self.add_send(op)

    def add_changes(self, ops):
        for (device, topic), changes in changes_of(ops).items():
            topics = self.objects[self.project[device], topic]
            for op in changes:
                is_sure = op["outcome"] == "ok"
                self.found[device, topics].append(Step(
                    op["began"], op["ended"] if is_sure else math.inf, f"{op['op']} {topic}",
                    is_optional=not is_sure, bit=1 << topics.index(topic), value=op["op"] == "subscribe"))

    def add_read(self, op):
        for topics in {topics for (project, _), topics in self.objects.items() if project == op["project"]}:
            state = sum(1 << number for number, topic in enumerate(topics) if topic in op["topics"])
            self.found[op["device"], topics].append(Step(
                op["began"], op["ended"], f"a read of {sorted(set(topics) & set(op['topics']))}",
                agrees=frozenset([state])))

    def add_send(self, op):
        names = [op["topic"]] if "topic" in op else op["topics"]
        topics = self.objects[op["project"], names[0]]
        places = [topics.index(topic) for topic in names]
        states = collections.defaultdict(set)
        for state in range(1 << len(topics)):
            states[HOLDS[op.get("operator")](*(bool(state >> place & 1) for place in places))].add(state)
        for device in self.devices[op["project"]]:
            came = self.got.get((device, op["n"]))
            if came is None and (op["outcome"] != "ok" or op["began"] < self.told.get(device, 0)):
                continue
            if op["began"] < self.listens.get(device, math.inf) or (op["outcome"] != "ok"
                                                                    and not self.is_whole):
                continue
            ended = op["ended"] if op["outcome"] == "ok" else latest(op)
            self.found[device, topics].append(Step(
                op["began"], min(ended, came or math.inf),
                f"send {op['n']}, which {'came' if came else 'did not come'}",
                agrees=frozenset(states[came is not None])))


def prefix(steps, ends, count):
    """The steps as they were when `count` of the answers had come."""
    until = ends[count - 1]
    return [step if step.ended <= until else dataclasses.replace(step, is_optional=True, ended=math.inf)
            for step in steps if step.ended <= until or (step.began <= until and not step.is_read)]


def verdicts(entries):
    """(device, topics), steps, and whether they are explained, of each object."""
    for (device, topics), steps in Steps(entries).found.items():
        yield device, topics, steps, is_explained(steps)


def undecided(entries):
    """How many objects have so many changes at once that the search was given up."""
    return sum(1 for *_, verdict in verdicts(entries) if verdict is None)


def problems(entries):
    """I9: what reads and sends see of each device's subscriptions has an order."""
    found = []
    for device, topics, steps, verdict in verdicts(entries):
        if verdict is not False:
            continue
        ends = sorted(step.ended for step in steps if not step.is_optional)
        place = bisect.bisect_left(range(1, len(ends)), True,
                                   key=lambda count: is_explained(prefix(steps, ends, count)) is False)
        last = next(step for step in steps if not step.is_optional and step.ended == ends[place])
        found.append(("I9", f"{device}: no order of the operations on {', '.join(topics)} explains"
                            f" {last.words}, answered at {last.ended:.3f}"))
    return found


def is_settled(entries):
    """Whether all messages have come that must come: a message on its way may explain what reads saw."""
    return not missing(entries) and not problems(entries)
