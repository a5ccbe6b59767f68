"""Faults of processes: killed, stopped, or slow."""
import base64
import os
import signal
import threading
import time

from faults_network import fenced_since, sessions
from registry import fault

from system import placement

CGROUP = "/sys/fs/cgroup/cpu"
# Between the restarts of two nodes.
BETWEEN_NODES_SECONDS = 3.5


def owners(run):
    """partition -> the node that owns it, as the database has it."""
    return dict(run.database.query(
        "SELECT p.id, s.node FROM tidecast.partition AS p JOIN tidecast.session AS s ON s.id = p.owner AND"
        " s.alive"))


def owned_by(run, name):
    return {one for one, owner in owners(run).items() if owner == name}


def first_heir(run, name):
    """Kills a shard. Returns the node that takes the first of its partitions (or `None`), all its partitions,
    and the seconds."""
    mine, heirs = owned_by(run, name), []
    run.node(name).kill()

    def inherited():
        heirs.extend(node for one, node in owners(run).items() if one in mine and node != name)
        return heirs
    taken = run.until(inherited, 20, step=0.01)
    run.demand(heirs, "I11", "nobody took over")
    return next(iter(heirs), None), mine, taken


def wakes_and_stops(run, node, rule):
    """Continues a node that was fenced while it was stopped. The node must notice and end with 70. Returns
    the seconds until then."""
    mark, ends = time.monotonic(), len(node.exits)
    node.send_signal(signal.SIGCONT)
    run.until(lambda: len(node.exits) > ends, 15)
    run.demand([code for _, code, _ in node.exits[ends:]] == [70], rule,
               "a fenced node did not step down by its fail-stop")
    return round(time.monotonic() - mark, 2)


@fault("1", "the owner of a third of the partitions is killed under load", seconds=6)
def owner_killed(run):
    run.node("shard-1").kill()
    taken = run.until(lambda: run.owned("shard-1") == 0, 20)
    run.note(taken_over_after=taken and round(taken, 2))
    run.until(lambda: False, max(0, run.seconds - (taken or 0)))


@fault("2", "a gateway is killed in the middle of requests; clients go to another", seconds=6,
       broken=("gateway-2",))
def gateway_killed(run):
    victim = run.node("gateway-2")
    mark = len(run.workload.history.so_far())
    victim.kill()
    run.sleep()
    victim.start()
    retries = [entry["retry"] for entry in run.workload.history.so_far()[mark:]
               if entry["kind"] == "invoke" and entry.get("retry")]
    run.note(retries=len(retries), most=max(retries, default=0))
    run.demand(max(retries, default=0) <= 1, "I5",
               f"a client had to try {max(retries, default=0)} times more, not once")


@fault("3", "a zombie owner: stopped past its lease, and continued when others have its partitions",
       seconds=8, may_stop=("shard-2",))
def zombie(run):
    node = run.node("shard-2")
    node.send_signal(signal.SIGSTOP)
    run.sleep()
    run.note(owned_when_it_wakes=run.owned("shard-2"))
    run.note(steps_down_after=wakes_and_stops(run, node, "I13"))


@fault("4", "short stalls: shard-1 is stopped for 0.3 and 0.8 s again and again, then three times for 1.5 s",
       seconds=18, may_stop=("shard-1",))
def stalls(run):
    """A lease lasts 1.5 s, so each stall of 1.5 s may move a partition, and at most once."""
    def stop(length):
        run.node("shard-1").send_signal(signal.SIGSTOP)
        time.sleep(length)
        run.node("shard-1").send_signal(signal.SIGCONT)
        time.sleep(0.7)

    def epochs():
        return {one: row[1] for one, row in run.database.sample().items()}
    before, count, end = sessions(run), 0, time.monotonic() + run.seconds * 0.6
    while time.monotonic() < end:
        stop((0.3, 0.8)[count % 2])
        count += 1
    run.note(short_stalls=count, fenced_by_them=fenced_since(run, before))
    run.demand(not fenced_since(run, before), "I8",
               "a node that stalled for less than its lease was declared dead")
    first = epochs()
    for _ in range(3):
        stop(1.5)
    now = epochs()
    most = max(now[one] - first[one] for one in first)
    run.note(fenced_by_stalls_of_a_lease=fenced_since(run, before), most_moves_of_a_partition=most)
    run.demand(most <= 3, "I8", f"a partition moved {most} times in three stalls")


@fault("5", "a sick observer: shard-3 gets 5 % of a processor", seconds=20, may_stop=("shard-3",), limit=15)
def sick(run):
    before, group = sessions(run), os.path.join(CGROUP, "chaos-sick")
    os.makedirs(group, exist_ok=True)

    def put(place, name, value):
        with open(os.path.join(place, name), "w", encoding="utf-8") as file:
            file.write(str(value))
    put(group, "cpu.cfs_period_us", 100_000)
    put(group, "cpu.cfs_quota_us", 5_000)
    pid = run.node("shard-3").pid
    put(group, "cgroup.procs", pid)
    try:
        run.sleep()
        run.note(fenced=fenced_since(run, before))
    finally:
        if run.node("shard-3").is_running():
            put(CGROUP, "cgroup.procs", run.node("shard-3").pid)
        run.until(lambda: not open(os.path.join(group, "cgroup.procs"), encoding="utf-8").read().strip(), 5)
        os.rmdir(group)
    others = [node for node in fenced_since(run, before) if node != "shard-3"]
    run.demand(not others, "I8", f"{others} were declared dead by a sick node")


@fault("6", "a rolling restart: every node in its turn is told to end in order, and started again",
       seconds=30, broken=("*",))
def rolling(run):
    codes, times = [], []
    for node in run.cluster.nodes.values():
        began = time.monotonic()
        codes.append(node.kill(signal.SIGTERM))
        times.append(round(time.monotonic() - began, 1))
        node.start()
        run.until(lambda node=node: run.cluster.is_ready(node), 15)
        time.sleep(BETWEEN_NODES_SECONDS)
    run.note(codes=codes, seconds_to_end=times)
    run.demand(set(codes) == {0}, "I13", f"nodes ended with {codes}")


@fault("7", "the heir is killed as soon as it has taken its first partition of a killed owner", seconds=12)
def heir_killed(run):
    heir, mine, taken = first_heir(run, "shard-1")
    if heir is None:
        return
    had = len(mine & owned_by(run, heir))
    run.node(heir).kill()
    last = next(name for name in ("shard-2", "shard-3") if name != heir)
    whole = run.until(lambda: run.owned(last) == 256, 25)
    run.note(heir=heir, first_taken_after=taken and round(taken, 2),
             it_had_taken=f"about {had} of {len(mine)}", the_last_has_all_after=whole and round(whole, 2))
    run.demand(whole is not None and whole < 12, "I11", "the last node did not take everything within 12 s")


@fault("8", "a crash loop: shard-2 is killed again as soon as it has started", seconds=15)
def crash_loop(run):
    node, count, end = run.node("shard-2"), 0, time.monotonic() + run.seconds
    while time.monotonic() < end:
        node.kill()
        count += 1
        time.sleep(0.3)
        node.start()
        time.sleep(run.random.uniform(0.2, 2.0))
    run.note(kills=count)


@fault("37", "a stale writer after compaction: shard-1 sleeps, its heir writes snapshots and frees what it"
             " knew, it wakes",
       seconds=40, may_stop=("shard-1",), limit=15)
def stale_writer(run):
    node, project = run.node("shard-1"), run.workload.projects[0]
    mine = {int(one) for one in owned_by(run, "shard-1")}
    topic = next(name for name in (f"bulk-{number}" for number in range(1000))
                 if placement.partition_of(name, project.number, 256) in mine)
    partition = placement.partition_of(topic, project.number, 256)
    last = run.database.sample()[partition][3]
    node.send_signal(signal.SIGSTOP)
    run.until(lambda: run.owned("shard-1") == 0, 15)
    over = threading.Event()

    def fill(number):
        """Sends data that does not compress, until the partition has written two snapshots."""
        client = run.workload.client(f"compact-{number}")
        while not over.is_set():
            noise = base64.b64encode(client.random.randbytes(2900)).decode()
            client.call(client.pick(), "POST", f"/v1/projects/{project.id}/messages:send", {
                "message": {"topic": topic, "android": {"ttl": "0s"}, "data": {"x": noise}}},
                {"authorization": f"Bearer {project.bearer}"})
    threads = [threading.Thread(target=fill, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    freed = run.until(lambda: run.database.sample()[partition][2] > last + 1, run.seconds, step=0.5)
    over.set()
    for thread in threads:
        thread.join(timeout=30)
    now = run.database.sample()[partition]
    run.note(partition=partition, it_knew_the_journal_up_to=last, floor_now=now[2], last_now=now[3])
    run.demand(freed is not None, "I3", "nothing was freed, so nothing was tried")
    wakes_and_stops(run, node, "I3")


@fault("38", "two take over at once: an heir sleeps in the middle of taking, another fences it, and it wakes",
       seconds=14, may_stop=("shard-2", "shard-3"), limit=15)
def two_take(run):
    heir, _, _ = first_heir(run, "shard-1")
    if heir is None:
        return
    other = next(name for name in ("shard-2", "shard-3") if name != heir)
    run.node(heir).send_signal(signal.SIGSTOP)
    # Until the other heir is in the middle of taking the sleeper's partitions.
    fenced = run.until(lambda: run.owned(other) not in (None, 0) and not owned_by(run, heir), 12, step=0.02)
    run.node(heir).send_signal(signal.SIGCONT)
    whole = run.until(lambda: run.owned(other) == 256, 20)
    run.note(sleeper=heir, fenced_after=fenced and round(fenced, 2),
             the_other_has_all_after=whole and round(whole, 2))
