"""Checkers of the invariants, over the history of the clients' operations and events and over the final
state.

Each checker takes plain data and returns pairs of the broken invariant and a sentence; none for a good run.
`selftest.py` shows each checker failing on a doctored history.
"""
import collections
import itertools

from history import LATEST_EFFECT, operations


def latest(operation):
    """The latest time at which an operation may take effect."""
    if operation["outcome"] in ("ok", "lost"):
        return operation["ended"]
    return max(operation["ended"] or 0, operation["began"] + LATEST_EFFECT)


def changes_of(ops):
    """(device, topic) -> the changes that may have taken effect, by the time when they began."""
    found = collections.defaultdict(list)
    for op in ops:
        if op["op"] in ("subscribe", "unsubscribe") and op["outcome"] != "fail":
            found[op["device"], op["topic"]].append(op)
    for changes in found.values():
        changes.sort(key=lambda op: op["began"])
    return found


def states_after(changes):
    """The possible states of a subscription when all changes are over: a set of truth values."""
    states = {False}
    for op in changes:
        value = op["op"] == "subscribe"
        if op["outcome"] != "ok":
            states = states | {value}
            continue
        # An earlier change without an answer may still take effect after this one.
        late = {one["op"] == "subscribe" for one in changes
                if one["began"] < op["began"] and one["outcome"] != "ok" and latest(one) >= op["began"]}
        states = {value} | late
    return states


def subscriptions(entries, final):
    """I1, I2: no acknowledged change is lost or undone, and no subscription exists that no client asked
    for."""
    problems = []
    ops = operations(entries)
    changes, forgotten = changes_of(ops), lost_devices(ops)
    for device, topics in final["lists"].items():
        if not isinstance(topics, list):
            if device in forgotten:
                continue
            problems.append(("I1",
                             f"the registration {device} was acknowledged and is answered with {topics}"))
            continue
        have = set(topics)
        for (owner, topic), list_of_changes in changes.items():
            if owner != device:
                continue
            states = states_after(list_of_changes)
            if states == {True} and topic not in have:
                problems.append(("I1", f"{device}: the acknowledged subscription to {topic} is lost"))
            if states == {False} and topic in have:
                problems.append(("I2", f"{device}: the acknowledged end of {topic} is undone"))
        for topic in have:
            if not any(op["op"] == "subscribe" for op in changes.get((device, topic), [])):
                problems.append(("I2", f"{device}: nobody ever subscribed it to {topic}"))
    return problems


def lost_devices(ops):
    """The devices whose registration a database may have lost."""
    return {op["device"] for op in ops if op["op"] == "register" and op["outcome"] == "lost"}


def members(final, entries=()):
    """I4: each topic counts as many members as devices list the topic."""
    counts = collections.Counter()
    forgotten = lost_devices(operations(entries))
    for device, topics in final["lists"].items():
        if not isinstance(topics, list):
            if device in forgotten:
                continue
            return []
        for topic in topics:
            counts[f"{final['projects'][device]}/{topic}"] += 1
    return [("I4", f"{topic} counts {count} members, and {counts[topic]} devices are subscribed to it")
            for topic, count in final["members"].items() if count != counts[topic]]


def certainly(changes, began, ended):
    """Whether a device was subscribed during all of [began, ended]."""
    for on in changes:
        if on["op"] != "subscribe" or on["outcome"] != "ok" or on["ended"] > began:
            continue
        if all(off["op"] == "subscribe" or latest(off) < on["began"] or off["began"] > ended
               for off in changes):
            return True
    return False


def possibly(changes, began, ended):
    """Whether a device may have been subscribed at some time of [began, ended]."""
    on = [op for op in changes if op["op"] == "subscribe" and op["began"] <= ended]
    if not on:
        return False
    for off in changes:
        if off["op"] == "unsubscribe" and off["outcome"] == "ok" and off["ended"] <= began:
            if all(latest(op) < off["began"] or op["began"] > ended for op in on):
                return False
    return True


# What a send asks of its topics, by its operator.
HOLDS = {
    None: lambda one: one,
    "&&": lambda one, other: one and other,
    "||": lambda one, other: one or other,
    "&& !": lambda one, other: one and not other,
}


def moments(changes, began, ended):
    """Times of [began, ended], such that each state that the changes allow in that span is there at one of
    them."""
    times = {op["began"] for op in changes} | {op["ended"] for op in changes if op["ended"]}
    points = [began, *sorted(time for time in times if began < time < ended), ended]
    return points + [(one + other) / 2 for one, other in itertools.pairwise(points)]


def verdicts(op, changes, ended):
    """What a send demands of a device with these changes, a list for each of the send's topics: whether the
    device must get it, and whether it may. A condition is decided at one moment for all its topics."""
    outcomes = set()
    for moment in moments([one for some in changes for one in some], op["began"], ended):
        values = [{True} if certainly(one, moment, moment) else
                  {True, False} if possibly(one, moment, moment) else {False} for one in changes]
        outcomes |= {HOLDS[op.get("operator")](*one) for one in itertools.product(*values)}
    return outcomes == {True}, True in outcomes


def targets(op, devices, changes):
    """(devices that must get the send `op`, devices that may get it)."""
    if "device" in op:
        return {op["device"]}, {op["device"]}
    ended = op["ended"] if op["outcome"] == "ok" else latest(op)
    topics = [op["topic"]] if "topic" in op else op["topics"]
    found = {device: verdicts(op, [changes.get((device, topic), []) for topic in topics], ended)
             for device in devices[op["project"]]}
    return {one for one, (must, _) in found.items() if must}, {one for one, (_, may) in found.items() if may}


def devices_of(ops):
    found = collections.defaultdict(list)
    for op in ops:
        if op["op"] == "register" and op["outcome"] in ("ok", "lost"):
            found[op["project"]].append(op["device"])
    return found


def listening(entries):
    """Devices that ever listened. Only for these devices the history shows which messages arrived."""
    return {entry["device"] for entry in entries if entry["kind"] == "stream"}


def missing(entries):
    """Pairs of an acknowledged send and a device that must have received it and has not."""
    ops = operations(entries)
    changes, devices, listeners = changes_of(ops), devices_of(ops), listening(entries)
    got = {(entry["device"], entry["n"]) for entry in entries if entry["kind"] == "deliver"}
    # A device that is told of dropped messages may lack any message that was sent before.
    told = {entry["device"]: entry["t"] for entry in entries
            if entry["kind"] == "told" and entry["what"] == "deleted_messages"}
    lost = lost_devices(ops)
    return [(op, device) for op in ops if op["op"] == "send" and op["outcome"] == "ok"
            for device in targets(op, devices, changes)[0]
            if device in listeners and device not in lost and op["began"] >= told.get(device, 0)
            and (device, op["n"]) not in got]


def deliveries(entries):
    """I5, I6: every acknowledged send reaches every subscribed device and no other device. A send that was
    refused with the promise that nothing happened reaches no device."""
    problems = []
    ops = operations(entries)
    changes, devices = changes_of(ops), devices_of(ops)
    sends = {op["n"]: op for op in ops if op["op"] == "send"}
    for op, device in missing(entries):
        what = op.get("topic") or op.get("topics") or "one device"
        problems.append(("I5", f"send {op['n']} to {what} was acknowledged at {op['ended']:.3f} and did not"
                               f" reach {device}"))
    allowed, ids = {}, collections.defaultdict(set)
    for entry in entries:
        if entry["kind"] != "deliver":
            continue
        n, device = entry["n"], entry["device"]
        op = sends.get(n)
        if op is None:
            problems.append(("I5", f"{device} got {n}, which nobody sent"))
            continue
        ids[n].add(entry["message"])
        if op["outcome"] == "fail":
            problems.append(("I6", f"send {n} was answered {op['status']}, and {device} got it"))
        if n not in allowed:
            allowed[n] = targets(op, devices, changes)[1]
        if device not in allowed[n]:
            problems.append(("I5", f"{device} got {n}, which was not for it"))
    problems += [("I6", f"one try of a send became {len(found)} messages: {n}")
                 for n, found in ids.items() if len(found) > 1]
    return problems


def repeats(entries):
    """I5: no message comes twice on one stream, and none comes on a stream that began after the message's
    acknowledgement."""
    problems, ops = [], operations(entries)
    # A database that lost its end may have kept such a send and not its delivery.
    returning = {op["n"] for op in ops if op["op"] == "send" and op["outcome"] in ("lost", "unknown")} \
        if any(entry["kind"] == "lost" for entry in entries) else set()
    streams = collections.defaultdict(list)  # stream -> [(event, n)]
    began = {}  # stream -> when
    of_device = collections.defaultdict(list)
    for entry in entries:
        if entry["kind"] == "stream":
            began[entry["stream"]] = entry["t"]
            of_device[entry["device"]].append(entry["stream"])
        elif entry["kind"] == "deliver":
            streams[entry["stream"]].append((entry["event"], entry["n"], entry["t"]))
    for name, seen in streams.items():
        counts = collections.Counter(n for _, n, _ in seen)
        problems += [("I5", f"{n} came {count} times on the stream {name}")
                     for n, count in counts.items() if count > 1]
    acknowledged = sorted((op for op in ops if op["op"] == "acknowledge" and op["outcome"] == "ok"),
                          key=lambda op: op["ended"])
    done = collections.defaultdict(dict)  # device -> n -> when its acknowledgement was answered
    for op in acknowledged:
        for name in reversed(of_device[op["device"]]):
            before = [(event, n) for event, n, at in streams[name] if at <= op["began"]]
            if any(event == op["event"] for event, _ in before):
                for event, n in before:
                    done[op["device"]].setdefault(n, op["ended"])
                    if event == op["event"]:
                        break
                break
    for device, names in of_device.items():
        for name in names:
            for _, n, _ in streams[name]:
                if n not in returning and n in done[device] and done[device][n] < began[name]:
                    problems.append(("I5", f"{device} got {n} again on {name}, after its acknowledgement"))
    return problems


def order(entries):
    """G4: a device gets the sends to one topic in the order in which they were accepted; only first
    deliveries count."""
    problems = []
    sends = {op["n"]: op for op in operations(entries) if op["op"] == "send" and "topic" in op}
    seen, newest = set(), {}
    for entry in entries:
        if entry["kind"] != "deliver" or entry["n"] not in sends or (entry["device"], entry["n"]) in seen:
            continue
        seen.add((entry["device"], entry["n"]))
        op = sends[entry["n"]]
        place = (entry["device"], op["project"], op["topic"])
        last = newest.get(place)
        # The earlier send was accepted before the other send was even asked for, and was delivered after it.
        if last and op["outcome"] == "ok" and op["ended"] < last["began"]:
            problems.append(("I5", f"{entry['device']} got {last['n']} of {op['topic']} before {op['n']},"
                                   " accepted earlier"))
        if last is None or op["began"] > last["began"]:
            newest[place] = op
    return problems


def statuses(entries, broken=(), extra=()):
    """I12: each operation has a right status. `broken`: gateways whose connections may break ("*": all);
    `extra`: further statuses that are right under the fault."""
    problems = collections.Counter()
    ops = operations(entries)
    forgotten = lost_devices(ops)
    for op in ops:
        if op["ended"] is None:
            problems[f"{op['op']} was never answered"] += 1
            continue
        if op.get("device") in forgotten and op["status"] == 404:
            continue
        right = {200, 503, *extra}
        if op["op"] == "send":
            right |= {504}
        if op["op"] == "bad":
            # 504: the gateway did not learn in time whether the device exists
            right = {op["expected"], 503, 504}
        if op["gateway"] in broken or "*" in broken:
            right |= {0}
        if op["status"] not in right:
            problems[f"{op['op']} through {op['gateway']} was answered {op['status']}"
                     f" ({op.get('answer', '')[:120]})"] += 1
    return [("I12", f"{text}, {count} times") for text, count in problems.items()]


def journal(rows):
    """I3, from the database's rows: (partition, floor, first, last, count, changes of writer without a
    barrier)."""
    problems = []
    for partition, floor, first, last, count, torn in rows:
        if count and last - first + 1 != count:
            problems.append(("I3", f"partition {partition}: {count} records at {first} to {last}, so some are"
                                   " missing"))
        if count and first > floor:
            problems.append(("I3",
                             f"partition {partition}: its floor is {floor}, and its first record {first}"))
        if torn:
            problems.append(("I3", f"partition {partition}: {torn} times another session writes on without a"
                                   " barrier"))
    return problems


def epochs(samples):
    """I3: no partition ever goes back. A sample: {partition: (owner, epoch, floor, last)}; `None` where the
    database lost records."""
    problems, before = [], {}
    for sample in samples:
        if sample is None:
            before = {}
            continue
        for partition, (owner, epoch, floor, last) in sample.items():
            if partition in before:
                owner_was, epoch_was, floor_was, last_was = before[partition]
                if epoch < epoch_was or floor < floor_was or last < last_was:
                    problems.append(("I3",
                                     f"partition {partition} went back: epoch {epoch_was} to {epoch}, floor"
                                           f" {floor_was} to {floor}, last {last_was} to {last}"))
                if epoch == epoch_was and owner not in (owner_was, None):
                    problems.append(("I3", f"partition {partition}: two owners in epoch {epoch}"))
            before[partition] = (owner, epoch, floor, last)
    return problems


def exits(ends, may_stop=()):
    """I13: no node ends by itself but by an allowed fail-stop. An end: (node, code, whether the driver ended
    it, whether the log names a fail-stop)."""
    problems = []
    for node, code, is_ours, is_named in ends:
        if is_ours:
            continue
        if code == 70 and is_named and (node in may_stop or "*" in may_stop):
            continue
        problems.append(("I13",
                         f"{node} ended by itself with {code}" + ("" if is_named else ", without a word")))
    return problems


def usage(before, after, descriptors=40, kibibytes=60_000):
    """I10: descriptors and memory of each process are back near their earlier values. {node: (pid,
    descriptors, KiB)}."""
    problems = []
    for node, (pid, files, memory) in after.items():
        if node not in before or before[node][0] != pid:
            continue
        _, files_before, memory_before = before[node]
        if files > files_before + descriptors:
            problems.append(("I10", f"{node} has {files} descriptors, and had {files_before}"))
        if memory > memory_before * 1.5 + kibibytes:
            problems.append(("I10", f"{node} holds {memory // 1024} MiB, and held {memory_before // 1024}"))
    return problems


def progress(entries, healed, converged, limit, broken=()):
    """I8, I11: all nodes agree within `limit` s of the fault's end, and from then on every operation
    succeeds."""
    if converged is None:
        return [("I11", f"the nodes did not agree within {limit} s of the end of the fault")]
    problems = []
    if converged > limit:
        problems.append(("I11", f"the nodes agreed {converged:.1f} s after the end of the fault, not within"
                                f" {limit} s"))
    served = healed + max(converged, limit)
    ops = operations(entries)
    forgotten = lost_devices(ops)
    bad = collections.Counter((op["op"], op["status"]) for op in ops
                              if op["op"] != "bad" and op["began"] > served and op["outcome"] != "ok"
                              and not (op["status"] == 404 and op.get("device") in forgotten)
                              # The client may have kept a connection to a gateway that has ended since.
                              and not (op["status"] == 0 and (op["gateway"] in broken or "*" in broken)))
    problems += [("I11", f"{count} times {op} was answered {status}, long after the end of the fault")
                 for (op, status), count in bad.items()]
    return problems
