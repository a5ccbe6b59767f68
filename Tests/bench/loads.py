"""The loads on one server: T1 to T11."""
import signal
import time

from bench.common import measure, say, shown
from bench.peers import Nginx, Redis
from bench.servers import Tidecast
from system import kernel

# After ten million registrations, before memory is read.
REST_SECONDS = 15


# The loads that two servers are compared by. The figure of T7 is a latency, the others' is CPU time.
WORK = {
    "T1": ["send", "--seconds", "8"],
    "T2": ["fanout", "--seconds", "6"],
    "T3": ["fanout", "--connections", "10000", "--in-flight", "1", "--seconds", "6"],
    "T4": ["fanout", "--connections", "10000", "--in-flight", "4", "--seconds", "6"],
    "T5": ["topics", "--seconds", "6"],
    "T6": ["subscribe"],
    "T7": ["latency", "--seconds", "10"],
}


def in_turn(name, servers, repeat):
    """A load of WORK on two servers in turn, at least three times, since the machine's speed changes within
    minutes: the ratio of the second to the first in the median pair, and the rows of that pair.
    `servers` has the name and the start of each."""
    pairs = []
    for _ in range(max(repeat, 3)):
        pair = []
        for who, start in servers:
            with start() as running:
                pair.append(measure(f"tidecast, {name} on {who}", WORK[name], running.load_options()))
        figures = [row["latency"]["send to delivery"]["p50"] if name == "T7" else row["us"] for row in pair]
        pairs.append((figures[1] / figures[0], pair))
    pairs.sort(key=lambda one: one[0])
    ratio, pair = pairs[len(pairs) // 2]
    say(f"  {name}: {ratio:.2f} times as much, of " + ", ".join(f"{one[0]:.2f}" for one in pairs))
    return ratio, pair


def tidecast(name, repeat):
    """The row of Tidecast for a load of WORK."""
    with Tidecast() as server:
        return measure("tidecast", WORK[name], server.load_options(), repeat)


def fanout(name):
    """A fan-out by Tidecast and its peers, with events of about 200 bytes. The peers' envelope is smaller, so
    they get padding."""
    def rows(repeat):
        found = [tidecast(name, repeat)]
        with Nginx() as nginx:
            found.append(measure("nchan, h2c", WORK[name] + ["--padding", "134"], nginx.options(), repeat))
        with Redis() as redis:
            load = WORK[name] + ["--padding", "124", "--connections", "10000"]
            found.append(measure("redis pub/sub", load, redis.options(), repeat))
        return found
    return rows


def t1(repeat):
    """Sends, beside nginx's fixed answer."""
    rows = [tidecast("T1", repeat)]
    with Nginx() as nginx:
        options = nginx.options()
        options[1] = "plain"
        load = WORK["T1"] + ["--path", "/return"]
        rows.append(measure("nginx `return 200`, not durable", load, options, repeat))
    return rows


def t6(repeat):
    """Subscriptions, beside redis's sets."""
    rows = [tidecast("T6", repeat)]
    with Redis(is_durable=True) as redis:
        rows.append(measure("redis `SADD`, always", WORK["T6"], redis.options(), repeat))
    return rows


def t7(repeat):
    """The latency of a send to a device."""
    with Tidecast() as server:
        row = measure("tidecast", ["latency", "--seconds", "20"], server.load_options(), repeat)
    arrival = row["latency"]["send to delivery"]
    row["p50"], row["p99"] = arrival["p50"], arrival["p99"]
    return [row]


def t8(_):
    """The memory of ten million devices."""
    with Tidecast() as server:
        load = ["fill", "--devices", "10000000", "--topics", "1000000", "--subscriptions", "50000000"]
        row = measure("tidecast", load, server.load_options())
        # The figure is that of a server at rest.
        time.sleep(REST_SECONDS)
        row["gib"] = kernel.resident(server.process.pid) * (1 << 20) / 1e9
        row["us"] = None
    return [row]


def t9(_):
    """Each figure has a server of its own: memory that another load has left would hide the figure."""
    rows = []
    peers = [("tidecast", Tidecast, lambda server: server.load_options()),
             ("nchan, h2c", Nginx, lambda server: server.load_options()),
             ("nchan, HTTP/1.1", Nginx, lambda server: server.options(version=1))]
    for who, kind, options in peers:
        with kind() as server:
            row = measure(who, ["memory"], options(server))
        row["connection"] = row["facts"]["KiB a connection with one stream"]
        row["us"] = None
        if who != "nchan, HTTP/1.1":
            with kind() as server:
                more = measure(who, ["memory", "--connections", "400", "--streams", "100"], options(server))
            row["stream"] = more["facts"]["KiB a further stream"]
        rows.append(row)
    return rows


def t10(repeat):
    """The latency of a condition over five large topics."""
    with Tidecast() as server:
        row = measure("tidecast", ["condition"], server.load_options(), 1)
    row["last_p50"] = row["latency"]["send to last delivery"]["p50"]
    row["us"] = None
    return [row]


def t11(_):
    """The time of a restart, after an orderly end and after a kill."""
    rows = []
    with Tidecast() as server:
        fill = ["fill", "--devices", "100000", "--topics", "1000", "--subscriptions", "10000000", "--zipf",
                "0"]
        filled = measure("filling", fill, server.load_options())
        for who, how, flags in [("tidecast, after SIGTERM", signal.SIGTERM, []),
                                ("tidecast, after SIGKILL", signal.SIGKILL, ["--crash"])]:
            if server.is_running():
                server.end(how)
            load = ["restart", "--times", "3", "--server", f"http://127.0.0.1:{server.port}", *flags]
            row = measure(who, load, ["--", server.binary, "server", *server.words()])
            row["command"] = shown(load) + " -- tidecast server …"
            row["ready"] = row["latency"]["exec to ready"]["p50"] / 1000
            row["subscriptions"] = filled["operations"]
            row["us"] = None
            rows.append(row)
    return rows


LOADS = {"T1": t1, **{name: fanout(name) for name in ("T2", "T3", "T4", "T5")}, "T6": t6, "T7": t7, "T8": t8,
         "T9": t9, "T10": t10, "T11": t11}
