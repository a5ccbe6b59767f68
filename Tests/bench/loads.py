"""The loads on one server: T1 to T11."""
import signal
import time

from bench.common import measure, shown
from bench.peers import Nginx, Redis
from bench.servers import Tidecast
from system import kernel

# After ten million registrations, before memory is read.
REST_SECONDS = 15


def fanout(repeat, tidecast_load, peer_load, redis_connections):
    """A fan-out by Tidecast and its peers, with events of about 200 bytes. The peers' envelope is smaller, so
    they get padding."""
    rows = []
    with Tidecast() as server:
        rows.append(measure("tidecast", tidecast_load, server.load_options(), repeat))
    with Nginx() as nginx:
        rows.append(measure("nchan, h2c", peer_load + ["--padding", "134"], nginx.options(), repeat))
    with Redis() as redis:
        load = peer_load + ["--padding", "124", "--connections", str(redis_connections)]
        rows.append(measure("redis pub/sub", load, redis.options(), repeat))
    return rows


def t1(repeat):
    """Sends, beside nginx's fixed answer."""
    rows = []
    with Tidecast() as server:
        rows.append(measure("tidecast", ["send", "--seconds", "8"], server.load_options(), repeat))
    with Nginx() as nginx:
        options = nginx.options()
        options[1] = "plain"
        load = ["send", "--path", "/return", "--seconds", "8"]
        rows.append(measure("nginx `return 200`, not durable", load, options, repeat))
    return rows


def t2(repeat):
    """A fan-out to 100 connections with 100 streams each."""
    load = ["fanout", "--seconds", "6"]
    return fanout(repeat, load, load, 10_000)


def t3(repeat, in_flight=1):
    """A fan-out to 10,000 connections."""
    load = ["fanout", "--connections", "10000", "--in-flight", str(in_flight), "--seconds", "6"]
    return fanout(repeat, load, load, 10_000)


def t4(repeat):
    """The same with four messages in flight."""
    return t3(repeat, 4)


def t5(repeat):
    """1,000 topics with ten streams each."""
    load = ["topics", "--seconds", "6"]
    return fanout(repeat, load, load, 10_000)


def t6(repeat):
    """Subscriptions, beside redis's sets."""
    rows = []
    with Tidecast() as server:
        rows.append(measure("tidecast", ["subscribe"], server.load_options(), repeat))
    with Redis(is_durable=True) as redis:
        rows.append(measure("redis `SADD`, always", ["subscribe"], redis.options(), repeat))
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


LOADS = {"T1": t1, "T2": t2, "T3": t3, "T4": t4, "T5": t5, "T6": t6, "T7": t7, "T8": t8, "T9": t9, "T10": t10,
         "T11": t11}
