"""Each checker finds nothing in a good history, and finds the one error that is planted into the same
history."""
import copy

import checkers
import quota_window
import registers
from history import operations

from system import placement


def invoke(t, number, op, **fields):
    return {"t": t, "kind": "invoke", "op": op, "number": number, "gateway": "gateway-1", "retry": 0,
            **fields}


def answer(t, number, outcome="ok", status=200, **fields):
    return {"t": t, "kind": outcome, "number": number, "status": status, **fields}


def deliver(t, device, stream, n, message=None):
    return {"t": t, "kind": "deliver", "device": device, "stream": stream, "event": f"e{n}", "n": n,
            "message": message or f"m{n}"}


def told(t, device, stream):
    return {"t": t, "kind": "told", "device": device, "stream": stream, "event": "e0",
            "what": "deleted_messages"}


def at(entry):
    return entry["t"]


GOOD = [
    invoke(0.0, 1, "register", project="p"), answer(0.1, 1, device="d"),
    invoke(0.1, 2, "register", project="p"), answer(0.2, 2, device="x"),
    invoke(0.2, 3, "subscribe", project="p", device="d", topic="news"), answer(0.3, 3),
    {"t": 0.4, "kind": "stream", "device": "d", "stream": "d/1", "gateway": "gateway-1", "resumed": False},
    {"t": 0.4, "kind": "stream", "device": "x", "stream": "x/1", "gateway": "gateway-1", "resumed": False},
    invoke(1.0, 4, "send", project="p", topic="news", n=1), answer(1.1, 4), deliver(1.2, "d", "d/1", 1),
    invoke(2.0, 5, "send", project="p", topic="news", n=2), answer(2.1, 5), deliver(2.2, "d", "d/1", 2),
    invoke(2.3, 6, "acknowledge", device="d", event="e2"), answer(2.4, 6),
    invoke(2.5, 7, "subscribe", project="p", device="x", topic="news"), answer(2.6, 7),
    invoke(2.7, 8, "unsubscribe", project="p", device="x", topic="news"), answer(2.8, 8),
    {"t": 3.0, "kind": "stream", "device": "d", "stream": "d/2", "gateway": "gateway-2", "resumed": True},
    invoke(3.1, 9, "send", project="p", topic="news", n=3), answer(3.2, 9, "fail", 503),
    invoke(3.3, 10, "send", project="p", topics=["news", "news"], operator="&&", n=4), answer(3.4, 10),
    deliver(3.5, "d", "d/2", 4),
    invoke(3.6, 11, "bad", expected=404), answer(3.7, 11, "ok", 404),
    invoke(50.0, 12, "send", project="p", topic="other", n=5), answer(50.1, 12),
]
FINAL = {"lists": {"d": ["news"], "x": []}, "members": {"p/news": 1}, "projects": {"d": "p", "x": "p"}}
JOURNAL = [(0, 5, 3, 9, 7, 0)]
SAMPLES = [{0: (1, 4, 2, 8)}, {0: (2, 5, 2, 9)}]
EXITS = [("shard-1", -9, True, False), ("shard-2", 70, False, True)]
USAGE = ({"shard-1": (7, 50, 90_000)}, {"shard-1": (7, 55, 95_000)})


# Two devices swap topics while sends to conditions wait for their answer. The device d is in x or in y at
# each moment, and s is at no moment in x without y.
SWAPS = [
    invoke(0.0, 1, "register", project="p"), answer(0.1, 1, device="d"),
    invoke(0.0, 2, "register", project="p"), answer(0.1, 2, device="s"),
    {"t": 0.2, "kind": "stream", "device": "d", "stream": "d/1", "gateway": "gateway-1", "resumed": False},
    {"t": 0.2, "kind": "stream", "device": "s", "stream": "s/1", "gateway": "gateway-1", "resumed": False},
    invoke(0.3, 3, "subscribe", project="p", device="d", topic="y"), answer(0.4, 3),
    invoke(0.3, 4, "subscribe", project="p", device="s", topic="y"), answer(0.4, 4),
    invoke(0.5, 5, "subscribe", project="p", device="s", topic="x"), answer(0.6, 5),
    invoke(1.0, 6, "send", project="p", topics=["x", "y"], operator="||", n=1),
    invoke(1.0, 7, "send", project="p", topics=["x", "y"], operator="&& !", n=2),
    invoke(2.0, 8, "subscribe", project="p", device="d", topic="x"), answer(2.1, 8),
    invoke(2.0, 9, "unsubscribe", project="p", device="s", topic="x"), answer(2.1, 9),
    invoke(3.0, 10, "unsubscribe", project="p", device="d", topic="y"), answer(3.1, 10),
    invoke(3.0, 11, "unsubscribe", project="p", device="s", topic="y"), answer(3.1, 11),
    deliver(4.9, "d", "d/1", 1), answer(5.0, 6), answer(5.0, 7),
]


def read(t, number, *topics, device="d", seconds=0.1):
    return [invoke(t, number, "read", project="p", device=device),
            answer(t + seconds, number, topics=list(topics))]


# A change takes as long as its topic's owner is being replaced. Reads and sends beside the change agree on
# when it took effect.
BESIDE = [
    invoke(0.0, 1, "register", project="p"), answer(0.1, 1, device="d"),
    {"t": 0.2, "kind": "stream", "device": "d", "stream": "d/1", "gateway": "gateway-1", "resumed": False},
    invoke(1.0, 2, "subscribe", project="p", device="d", topic="t"),
    *read(1.2, 3), invoke(1.4, 4, "send", project="p", topic="t", n=1), answer(1.5, 4),
    *read(1.6, 5, "t"), invoke(1.8, 6, "send", project="p", topic="t", n=2), answer(1.9, 6),
    deliver(1.9, "d", "d/1", 2), *read(2.0, 7, "t"), answer(3.0, 2),
]


def without(entries, **fields):
    return [one for one in entries if any(one.get(key) != value for key, value in fields.items())]


def changed(entries, number, **fields):
    """The entries with other fields in the answer to one operation."""
    return [{**one, **fields} if one.get("number") == number and one["kind"] != "invoke" else one
            for one in entries]


def with_final(device, topics):
    final = copy.deepcopy(FINAL)
    final["lists"][device] = topics
    return final


def swapped(number, began, ended):
    """The swaps with another time of one change."""
    times = {"invoke": began, "ok": ended}
    return sorted([{**one, "t": times[one["kind"]]} if one.get("number") == number else one
                   for one in SWAPS], key=at)


# A name, the checker on a doctored history, and a part of the sentence that the checker must return.
DOCTORED = [
    ("a subscription is lost", lambda: checkers.subscriptions(GOOD, with_final("d", [])), "is lost"),
    ("an end is undone", lambda: checkers.subscriptions(GOOD, with_final("x", ["news"])), "is undone"),
    ("a phantom", lambda: checkers.subscriptions(GOOD, with_final("d", ["news", "spam"])), "nobody ever"),
    ("a registration is gone", lambda: checkers.subscriptions(GOOD, with_final("d", 404)), "registration"),
    ("a topic's set has lost a member", lambda: checkers.members({**FINAL, "members": {"p/news": 0}}),
     "counts 0"),
    ("a send is lost", lambda: checkers.deliveries(without(GOOD, kind="deliver", n=1)), "did not reach"),
    ("a send is lost after its device was told of others",
     lambda: checkers.deliveries(sorted(without(GOOD, kind="deliver", n=2) + [told(1.5, "d", "d/1")],
                                        key=at)),
     "did not reach"),
    ("a condition's send is lost", lambda: checkers.deliveries(without(GOOD, kind="deliver", n=4)),
     "did not reach"),
    ("a stranger gets it", lambda: checkers.deliveries(GOOD + [deliver(4, "x", "x/1", 1)]), "not for it"),
    ("nobody sent it", lambda: checkers.deliveries(GOOD + [deliver(4, "d", "d/2", 99)]), "nobody sent"),
    ("refused and delivered", lambda: checkers.deliveries(GOOD + [deliver(4, "d", "d/2", 3)]),
     "answered 503"),
    ("one try, two messages", lambda: checkers.deliveries(GOOD + [deliver(4, "d", "d/2", 1, "other")]),
     "became 2"),
    ("again after its acknowledgement", lambda: checkers.repeats(GOOD + [deliver(4, "d", "d/2", 1)]),
     "again"),
    ("twice on a stream", lambda: checkers.repeats(GOOD + [deliver(2.25, "d", "d/1", 2)]), "came 2 times"),
    ("out of order", lambda: checkers.order(without(GOOD, kind="deliver", n=1) + [deliver(4, "d", "d/2", 1)]),
     "before 1"),
    ("a wrong status", lambda: checkers.statuses(changed(GOOD, 3, status=500)), "answered 500"),
    ("200 for what is not there", lambda: checkers.statuses(changed(GOOD, 11, status=200)), "answered 200"),
    ("504 for what may be repeated", lambda: checkers.statuses(changed(GOOD, 8, status=504)), "answered 504"),
    ("a gateway that nobody touched hangs up", lambda: checkers.statuses(changed(GOOD, 4, status=0)),
     "answered 0"),
    ("an operation is never answered", lambda: checkers.statuses(without(GOOD, number=4, kind="ok")),
     "never answered"),
    ("a hole in the journal", lambda: checkers.journal([(0, 5, 3, 9, 6, 0)]), "missing"),
    ("cut above the floor", lambda: checkers.journal([(0, 2, 3, 9, 7, 0)]), "floor"),
    ("a zombie's record", lambda: checkers.journal([(0, 5, 3, 9, 7, 1)]), "without a barrier"),
    ("an epoch falls", lambda: checkers.epochs(SAMPLES[::-1]), "went back"),
    ("two owners of an epoch", lambda: checkers.epochs([{0: (1, 4, 2, 8)}, {0: (2, 4, 2, 8)}]), "two owners"),
    ("a trap", lambda: checkers.exits([("shard-1", -5, False, False)]), "ended by itself"),
    ("a fail-stop that the fault does not name", lambda: checkers.exits(EXITS), "shard-2"),
    ("descriptors leak", lambda: checkers.usage(USAGE[0], {"shard-1": (7, 500, 95_000)}), "descriptors"),
    ("memory leaks", lambda: checkers.usage(USAGE[0], {"shard-1": (7, 55, 950_000)}), "MiB"),
    ("no agreement", lambda: checkers.progress(GOOD, 5, None, 10), "did not agree"),
    ("a late agreement", lambda: checkers.progress(GOOD, 5, 12.0, 10), "agreed 12.0 s"),
    ("failures long after", lambda: checkers.progress(changed(GOOD, 12, kind="unknown", status=504), 5, 2.0,
                                                      10),
     "long after"),
    ("a swap is lost", lambda: checkers.deliveries(without(SWAPS, kind="deliver", n=1)), "did not reach d"),
    ("a swap is taken for what it never was",
     lambda: checkers.deliveries(SWAPS + [deliver(6, "s", "s/1", 2)]),
     "s got 2, which was not for it"),
    ("a send is behind a read", lambda: registers.problems(without(BESIDE, kind="deliver")),
     "explains send 2, which did not come"),
    ("a read is behind a send", lambda: registers.problems(
        sorted(BESIDE + read(1.51, 8, seconds=0.05) + [deliver(3, "d", "d/1", 1)], key=at)),
     "explains a read of []"),
    ("a read goes back", lambda: registers.problems(BESIDE[:-1] + read(2.2, 8) + BESIDE[-1:]),
     "explains a read of []"),
    ("a condition is behind a read", lambda: registers.problems(
        sorted(without(SWAPS, n=1, kind="deliver") + read(2.2, 12, "x", "y"), key=at)), "explains send 1"),
    ("a read shows a swap in no order", lambda: registers.problems(
        sorted(SWAPS + read(2.2, 12), key=at)), "explains a read of []"),
]


def unknown_is_left_open():
    """An unanswered change leaves the state open. A later change closes it again only where it comes late
    enough."""
    open_end = GOOD + [invoke(60, 20, "unsubscribe", project="p", device="d", topic="news"),
                       answer(61, 20, "unknown", 503)]
    closed = open_end + [invoke(99, 21, "subscribe", project="p", device="d", topic="news"), answer(99.1, 21)]
    early = open_end + [invoke(62, 21, "subscribe", project="p", device="d", topic="news"), answer(62.1, 21)]
    assert not checkers.subscriptions(open_end, FINAL) and not checkers.subscriptions(open_end,
                                                                                      with_final("d", []))
    assert checkers.subscriptions(closed, with_final("d", []))
    assert not checkers.subscriptions(early, with_final("d", []))


def what_a_database_lost_is_left_open():
    """What a database lost is left open, and nothing else: changes acknowledged before and after the loss
    must hold."""
    lost = [entry for entry in GOOD if entry["t"] <= 2.0] + [{"t": 2.0, "kind": "lost", "since": 1.0}] \
        + [entry for entry in GOOD if entry["t"] > 2.0]
    assert not checkers.deliveries(without(lost, kind="deliver", n=1))
    assert checkers.deliveries(without(lost, kind="deliver", n=2))
    assert checkers.subscriptions(lost, with_final("d", []))
    assert not checkers.repeats(lost + [deliver(4, "d", "d/2", 1)])
    assert checkers.repeats(lost + [deliver(4, "d", "d/2", 2)])
    early = [entry for entry in GOOD if entry["t"] <= 0.3] + [{"t": 0.3, "kind": "lost", "since": 0.0}] \
        + [entry for entry in GOOD if entry["t"] > 0.3]
    assert not checkers.subscriptions(early, with_final("d", [])) + checkers.subscriptions(early,
                                                                                           with_final("d",
                                                                                                      404))
    assert not checkers.members(with_final("d", 404), GOOD) and checkers.members({**with_final("d", 404)},
                                                                                 early)
    assert not checkers.epochs([SAMPLES[1], None, SAMPLES[0]])


def an_open_order_is_left_open():
    """Changes that overlap leave the order open, and so do a removal beside a send and a change without an
    answer."""
    for entries in (swapped(8, 2.0, 3.05), swapped(10, 2.05, 3.1)):
        assert not checkers.deliveries(without(entries, kind="deliver", n=1))
        assert not registers.problems(without(entries, kind="deliver", n=1))
    assert not checkers.deliveries(swapped(9, 2.0, 3.05) + [deliver(6, "s", "s/1", 2)])
    lost = without(without(BESIDE, kind="deliver"), number=7)
    off = [invoke(1.75, 9, "unsubscribe", project="p", device="d", topic="t"),
           answer(1.77, 9, "unknown", 503)]
    assert registers.problems(lost) and not registers.problems(sorted(lost + off, key=at))
    never = changed(BESIDE, 2, kind="unknown", status=503)
    assert not registers.problems(never[:6] + never[-1:] + read(4, 9)) and not registers.problems(never)
    assert registers.problems(never + read(4, 9))


def a_search_has_an_end():
    """Many changes at once and a read that none of them explains: the search is given up."""
    steps = [registers.Step(0, 10, "", bit=1 << number, value=True) for number in range(12)]
    steps.append(registers.Step(11, 12, "", agrees=frozenset([0])))
    assert registers.is_explained(steps) is False and registers.is_explained(steps, budget=100) is None


def quota_windows():
    """A quota of 100 a second and a burst of 50. Requests within it must stay below it; a bucket that is full
    again must not."""
    steady = [(number / 100, number / 100 + 0.005) for number in range(500)]
    burst = [(0.0, 0.005)] * 50
    again = [(3.0, 3.005)] * 50
    return quota_window.overshoot(steady + burst, 100, 50), quota_window.overshoot(steady + burst + again,
                                                                                   100, 50)


def run():
    good = {
        "subscriptions": checkers.subscriptions(GOOD, FINAL), "members": checkers.members(FINAL),
        "deliveries": checkers.deliveries(GOOD), "repeats": checkers.repeats(GOOD),
        "order": checkers.order(GOOD),
        "statuses": checkers.statuses(GOOD), "journal": checkers.journal(JOURNAL),
        "epochs": checkers.epochs(SAMPLES), "exits": checkers.exits(EXITS, ["shard-2"]),
        "swaps": checkers.deliveries(SWAPS), "registers": registers.problems(GOOD),
        "registers of swaps": registers.problems(SWAPS), "registers beside": registers.problems(BESIDE),
        "usage": checkers.usage(*USAGE), "progress": checkers.progress(GOOD, 5, 2.0, 10)}
    failures = [f"{name} speaks on a good history: {said}" for name, said in good.items() if said]
    for name, check, wanted in DOCTORED:
        said = [text for _, text in check()]
        if not any(wanted in text for text in said):
            failures.append(f"not seen: {name}: {said}")
    unknown_is_left_open()
    what_a_database_lost_is_left_open()
    an_open_order_is_left_open()
    a_search_has_an_end()
    # The vectors of Tests/Core/PlacementTests.
    assert [placement.topic_hash(*one)
            for one in [("", 0), ("news", 2), ("weather", 1), ("12345678", 7)]] == [
        0x1EDEB8DBEF6672C7, 0x493CC1B99482BDBF, 0x3DE93776B5B8D010, 0x8C1A9562D966F647]
    kept, broken = quota_windows()
    assert kept <= 1 and broken > 45, (kept, broken)
    assert len(operations(GOOD)) == 12
    for failure in failures:
        print(failure)
    print(f"selftest: {len(good)} good histories, {len(DOCTORED) - len(failures)} of {len(DOCTORED)} planted"
          " faults seen")
    return 1 if failures else 0
