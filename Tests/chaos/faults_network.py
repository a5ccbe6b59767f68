"""Faults of the network: cuts, loss, delay, and packets that make no sense."""
import os
import random
import socket
import subprocess
import sys
import threading
import time

from registry import fault
from topology import DATABASE_PORT, MACHINES, METRICS_PORT, PEER_PORT

HERE = os.path.dirname(os.path.abspath(__file__))
# Between two cuts.
WHOLE_SECONDS = 3


def deafen(run, name):
    """The node gets no packet of any other node; the database's answers still reach it."""
    for other in run.cluster.nodes:
        if other != name:
            run.cluster.rule(name, "INPUT", "-s", run.cluster.address(other), "-j", "DROP")


def sessions(run):
    """node -> its living session. A node with another session afterwards was fenced in between."""
    return {row[0]: row[1] for row in run.database.query("SELECT node, id FROM tidecast.session WHERE alive")}


def fenced_since(run, before):
    now = sessions(run)
    return sorted(node for node in before if now.get(node) != before[node])


def links(run, one, other):
    """How many TCP connections between two nodes the first node believes to stand."""
    shown = run.cluster.in_space(one, "ss", "-Htn", "state", "established", "dst", run.cluster.address(other))
    return len(shown.stdout.splitlines())


def cut_between(run, some, others):
    for one in some:
        for other in others:
            run.cluster.cut(one, other)


def the_rest(run, some):
    return [name for name in MACHINES.services() if name not in some]


def sees(run, gateway, *shards):
    """Whether the shards own all partitions, as the gateway sees it."""
    try:
        return all(one["owner"] in shards for one in run.node(gateway).view(timeout=2)["partitions"])
    except (OSError, ValueError):
        return False


def words(run, names):
    """Node by node, the state that a node says of itself; "nothing" where the node does not answer."""
    said = {}
    for name in names:
        try:
            said[name] = run.node(name).view(timeout=2)["status"][:60]
        except OSError:
            said[name] = "nothing"
    return said


def part(run, few, others, is_served, limit):
    """Cuts the few from the others for the fault's time. `is_served` must hold within `limit` s."""
    cut_between(run, few, others)
    after = run.until(is_served, limit)
    run.sleep(max(0.0, 1 - (after or 0) / run.seconds))
    run.note(all_owned_on_one_side_after=after and round(after, 2))
    run.demand(after is not None, "I11", "on neither side of the cut all partitions have owners")


def silenced(run, few):
    said = words(run, few)
    run.note(they_say=said)
    run.demand("ready" not in said.values(), "I12", "a node without the database calls itself ready")


@fault("11", "a minority: gateway-1 and shard-1 are cut from the other nodes and from the database",
       seconds=14, may_stop=("gateway-1", "shard-1"), broken=("gateway-1",))
def minority(run):
    few = ["gateway-1", "shard-1"]
    part(run, few, the_rest(run, few), lambda: sees(run, "gateway-2", "shard-2", "shard-3"), run.seconds)
    silenced(run, few)


@fault("11b", "two halves for a minute, the database on one side: gateway-1, shard-1 and shard-2, and the"
              " others", seconds=60,
       may_stop=("gateway-1", "shard-1", "shard-2"), broken=("gateway-1",))
def halves(run):
    few = ["gateway-1", "shard-1", "shard-2"]
    part(run, few, the_rest(run, few), lambda: sees(run, "gateway-2", "shard-3"), 20)
    silenced(run, few)


@fault("11c", "two equal halves for a minute, and both see the database", seconds=60, broken=("*",))
def equal_halves(run):
    before = sessions(run)
    part(run, ["gateway-1", "shard-1", "shard-2"], ["gateway-2", "gateway-3", "shard-3"],
         lambda: sees(run, "gateway-1", "shard-1", "shard-2") or sees(run, "gateway-2", "shard-3"), 20)
    run.note(fenced=fenced_since(run, before), they_say=words(run, run.cluster.nodes))


@fault("12", "one-way cut: shard-1 hears nothing of the other nodes, and they hear it; the database is there",
       seconds=12)
def one_way(run):
    before = sessions(run)
    deafen(run, "shard-1")
    run.sleep()
    run.note(fenced=fenced_since(run, before))


@fault("13", "a bridge: nothing between shard-1 and shard-2, both see everybody else", seconds=10)
def bridge(run):
    before = sessions(run)
    run.cluster.cut("shard-1", "shard-2")
    run.sleep()
    run.note(fenced=fenced_since(run, before))
    run.demand(not fenced_since(run, before), "I8",
               "a node that only one other could not reach was declared dead")


@fault("13b",
       "a bridge, again and again: gateway-1 and shard-1 are cut for about as long as it takes to notice it",
       seconds=40)
def bridges(run):
    lengths, end = [], time.monotonic() + run.seconds
    while time.monotonic() < end:
        lengths.append(round(run.random.uniform(6.5, 10.5), 1))
        run.cluster.cut("gateway-1", "shard-1")
        time.sleep(lengths[-1])
        run.cluster.mend("gateway-1", "shard-1")
        time.sleep(WHOLE_SECONDS)
    run.note(cuts=lengths)


@fault("14", "a shard sees its peers and not the database: port 5432 is dropped without a word", seconds=14,
       may_stop=("shard-2",))
def no_database(run):
    node = run.node("shard-2")
    run.cluster.rule("shard-2", "OUTPUT", "-p", "tcp", "--dport", str(DATABASE_PORT), "-j", "DROP")
    began = time.monotonic()
    says, told, given_up = {}, None, None
    while time.monotonic() < began + run.seconds:
        if given_up is None and run.owned("shard-2") == 0:
            given_up = round(time.monotonic() - began, 1)
        try:
            word = node.view(timeout=1)["status"]
        except OSError:
            word = "nothing"
        if word != "ready" and told is None:
            told = round(time.monotonic() - began, 1)
        says[word[:60]] = says.get(word[:60], 0) + 1
        time.sleep(0.1)
    run.note(taken_by_others_after=given_up, not_ready_after=told, it_says=says)
    run.demand(told is not None and told < 3, "I12", "a node without its database called itself ready")


@fault("15", "a shard sees the database and none of its peers", seconds=12, may_stop=("shard-1",))
def no_peers(run):
    before = sessions(run)
    cut_between(run, ["shard-1"], [other for other in run.cluster.nodes if other != "shard-1"])
    run.sleep()
    run.note(fenced=fenced_since(run, before), still_owns=run.owned("shard-1"))


@fault("16", "every node loses 5, then 20, then 30 % of all packets from other nodes, gossip and TCP",
       seconds=24, limit=15)
def loss(run):
    before = sessions(run)
    for share in (0.05, 0.2, 0.3):
        for name in run.cluster.nodes:
            for other in run.cluster.nodes:
                if other != name:
                    run.cluster.rule(name, "INPUT", "-s", run.cluster.address(other), "-m", "statistic",
                                     "--mode",
                                     "random", "--probability", str(share), "-j", "DROP")
        run.sleep(1 / 3)
        run.note(**{f"fenced_at_{int(share * 100)}_percent": fenced_since(run, before)})
        run.cluster.heal()
    run.demand(not fenced_since(run, before), "I8", "a node that only loses packets was declared dead")


def wire(run, name, *words):
    """Puts wire.py between a node and the switch (the kernel of the test machine has no netem)."""
    place = list(MACHINES.services()).index(name)
    for space, link in ((MACHINES.network.switch, f"port{place}"),
                        (MACHINES.network.namespace(name), "eth0")):
        # wire.py reads frames as they are, so the interfaces must make whole frames with checksums.
        for what in ("tx", "tso", "gso", "gro"):
            subprocess.run(["ip", "netns", "exec", space, "ethtool", "-K", link, what, "off"], check=False,
                           capture_output=True)
    subprocess.run(["ip", "-n", MACHINES.network.switch, "link", "add", f"wire{place}", "type", "veth",
                    "peer", "name",
                    f"end{place}"], check=True)
    subprocess.run(["ip", "-n", MACHINES.network.switch, "link", "set", f"end{place}", "master", "bridge0",
                    "up"], check=True)
    subprocess.run(["ip", "-n", MACHINES.network.switch, "link", "set", f"wire{place}", "up"], check=True)
    for link in (f"wire{place}", f"end{place}"):
        for what in ("tx", "tso", "gso", "gro"):
            subprocess.run(["ip", "netns", "exec", MACHINES.network.switch, "ethtool", "-K", link, what,
                            "off"], check=False,
                           capture_output=True)
    process = subprocess.Popen(["ip", "netns", "exec", MACHINES.network.switch, sys.executable,
                                os.path.join(HERE, "wire.py"),
                                f"port{place}", f"wire{place}", str(run.seed), *words], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    subprocess.run(["ip", "-n", MACHINES.network.switch, "link", "set", f"port{place}", "nomaster"],
                   check=True)
    return process, place


def unwire(process, place):
    subprocess.run(["ip", "-n", MACHINES.network.switch, "link", "set", f"port{place}", "master", "bridge0"],
                   check=True)
    process.stdin.close()
    words = process.stdout.read().strip()
    process.wait(timeout=10)
    subprocess.run(["ip", "-n", MACHINES.network.switch, "link", "del", f"wire{place}"], check=True)
    return words


@fault("17", "delay of 20 to 120 ms, reordering and doubling of everything to and from shard-1 and gateway-1",
       seconds=15)
def delay(run):
    before = sessions(run)
    wires = [wire(run, name, "20", "120", "0.05") for name in ("shard-1", "gateway-1")]
    run.sleep()
    seen = [unwire(*one) for one in wires]
    run.note(wires=seen, fenced=fenced_since(run, before))
    run.demand(not fenced_since(run, before), "I8", "a node that is only slow to reach was declared dead")


@fault("18", "swizzle-clog: nodes are cut off from all others one by one, and come back in another order",
       seconds=20, may_stop=("*",), broken=("*",))
def swizzle(run):
    names = run.random.sample(list(run.cluster.nodes), 4)
    for name in names:
        cut_between(run, [name], the_rest(run, [name]))
        time.sleep(run.seconds / 8)
    back = run.random.sample(names, 4)
    for name in back:
        for other in MACHINES.services():
            # `mend` also removes the other node's rule. That rule is still needed where the other node is cut
            # off itself.
            if other != name:
                run.cluster.mend(name, other)
        time.sleep(run.seconds / 8)
    run.note(cut=names, back=back)


@fault("19", "half-open connections: what goes between gateway-1 and shard-1 is dropped without a word",
       seconds=14)
def half_open(run):
    before = links(run, "gateway-1", "shard-1")
    run.cluster.cut("gateway-1", "shard-1")
    gone = run.until(lambda: links(run, "gateway-1", "shard-1") == 0, run.seconds, step=0.2)
    other = run.until(lambda: links(run, "shard-1", "gateway-1") == 0, max(0.1, run.seconds - (gone or 0)),
                      step=0.2)
    run.note(connections=before, found_after=gone and round(gone, 1),
             other_side_found_after=None if other is None else round((gone or 0) + other, 1))
    run.demand(gone is not None and gone <= 10.5 and other is not None, "I10",
               "a connection that nothing comes through was kept for more than ten seconds")
    left = run.seconds - (gone or run.seconds) - (other or 0)
    time.sleep(max(0, left))


@fault("20", "narrow link: 1 Mbit a second from shard-1, with payloads of 3 KB", seconds=15, limit=15)
def narrow(run):
    before = sessions(run)
    run.cluster.shape("shard-1", "tbf", "rate", "1mbit", "burst", "16kbit", "latency", "200ms")
    client, over = run.workload.client("large"), threading.Event()
    done = []

    def push():
        while not over.is_set():
            project = client.random.choice(run.workload.projects)
            status, _ = client.call(client.pick(), "POST", f"/v1/projects/{project.id}/messages:send", {
                "message": {"topic": f"large-{client.random.randrange(40)}", "data": {"x": "y" * 3000}}},
                {"authorization": f"Bearer {project.bearer}"})
            done.append(status)
    thread = threading.Thread(target=push, daemon=True)
    thread.start()
    run.sleep()
    over.set()
    thread.join(timeout=35)
    run.note(large_sends={status: done.count(status) for status in set(done)},
             fenced=fenced_since(run, before))
    run.demand(not fenced_since(run, before), "I8", "a node behind a narrow link was declared dead")


@fault("21", "garbage to the peer ports of shard-1 and gateway-1, by TCP and UDP; real gossip again, late,"
             " cut and changed",
       seconds=10)
def garbage(run):
    before, rng, sent = sessions(run), random.Random(run.seed), 0
    counters = ("tidecast_peer_refused_total", "tidecast_gossip_refused_total")
    refused = {(name, counter): metric(run, name, counter) for name in ("shard-1", "gateway-1")
               for counter in counters}
    place = list(MACHINES.services()).index("shard-1")
    again = subprocess.Popen(["ip", "netns", "exec", MACHINES.network.switch, sys.executable,
                              os.path.join(HERE, "replay.py"),
                              f"port{place}", str(run.seconds), str(run.seed)], stdout=subprocess.PIPE,
                             text=True)
    end = time.monotonic() + run.seconds
    while time.monotonic() < end:
        for name in ("shard-1", "gateway-1"):
            address = run.cluster.address(name)
            piece = rng.choice([
                rng.randbytes(rng.randrange(1, 3000)), b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n",
                b"\x16\x03\x01\x02\x00" * 9,
                b"\x00" * rng.randrange(1, 40), (1 << 30).to_bytes(4, "little") + rng.randbytes(30)])
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
                for port in (PEER_PORT, PEER_PORT + 1):
                    try:
                        datagram.sendto(piece[:1400], (address, port))
                    except OSError:
                        pass
            try:
                with socket.create_connection((address, PEER_PORT), timeout=2) as link:
                    link.sendall(piece)
                    if rng.random() < 0.5:
                        link.settimeout(0.2)
                        link.recv(100)
            except OSError:
                pass
            sent += 1
        time.sleep(0.01)
    words = again.communicate(timeout=20)[0].strip()
    counted = {f"{name} {counter}": int(metric(run, name, counter) - count)
               for (name, counter), count in refused.items()}
    run.note(pieces=sent, replayed=words, refused=counted, fenced=fenced_since(run, before))
    run.demand(all(counted.values()), "I10", "garbage was not counted")
    run.demand(not fenced_since(run, before), "I8", "garbage made a node die")


def metric(run, name, wanted):
    import urllib.request
    with urllib.request.urlopen(f"http://{run.cluster.address(name)}:{METRICS_PORT}/metrics",
                                timeout=5) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(wanted + " "):
                return float(line.split()[1])
    return 0.0
