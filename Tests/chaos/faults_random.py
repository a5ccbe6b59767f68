"""Random faults, by seed: several things broken at once, each for a moment."""
import signal
import subprocess
import time

from faults_database import end_connections
from registry import fault
from topology import DATABASE_PORT, MACHINES


def tell_to_end(node):
    node.ended_by_us, node.wants_running = True, False
    node.send_signal(signal.SIGTERM)


def start_again(node):
    """Starts a node that was told to end. A node that does not end within 5 s is killed, as a supervisor does
    it."""
    try:
        node.process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        node.kill()
    node.start()


def breakages(run):
    """Name -> (break, mend), with nodes chosen by the run's generator."""
    rng, cluster = run.random, run.cluster
    one, other = rng.sample(list(cluster.nodes), 2)
    node = cluster.nodes[one]

    def both(rule_of):
        return lambda: cluster.rule(*rule_of), lambda: cluster.unrule(*rule_of)
    deaf = (one, "INPUT", "-s", cluster.address(other), "-j", "DROP")
    lossy = (one, "INPUT", "-s", f"{MACHINES.network.subnet}.0/24", "-m", "statistic", "--mode", "random",
             "--probability", "0.2",
             "-j", "DROP")
    no_database = (one, "OUTPUT", "-p", "tcp", "--dport", str(DATABASE_PORT), "-j", "DROP")
    refused = (one, "OUTPUT", "-p", "tcp", "--dport", str(DATABASE_PORT), "-j", "REJECT", "--reject-with",
               "tcp-reset")
    return {
        f"{one} killed": (node.kill, node.start),
        f"{one} ended": (lambda: tell_to_end(node), lambda: start_again(node)),
        f"{one} stopped": (
            lambda: node.send_signal(signal.SIGSTOP), lambda: node.send_signal(signal.SIGCONT)),
        f"{one} deaf for {other}": both(deaf),
        f"{one} loses a fifth": both(lossy),
        f"{one} without database": both(no_database),
        f"{one} refused by the database": both(refused),
        f"{one} and {other} cut": (lambda: cluster.cut(one, other), lambda: cluster.mend(one, other)),
        "connections ended": (lambda: end_connections(run), lambda: None),
    }, one


@fault("57", "random everything: up to three things broken at once, each for half a second to seven",
       seconds=40, may_stop=("*",), broken=("*",), limit=15)
def everything(run):
    open_ones, done, end = [], [], time.monotonic() + run.seconds
    while time.monotonic() < end or open_ones:
        now = time.monotonic()
        for entry in [one for one in open_ones if one[0] <= now]:
            entry[2]()
            open_ones.remove(entry)
        busy = {entry[3] for entry in open_ones}
        if now < end and len(open_ones) < 3:
            choices, node = breakages(run)
            name = run.random.choice(list(choices))
            # A node that does not run, or that another fault holds, is left alone. At most one shard is away
            # at a time.
            away = any(one.startswith("shard") for one in busy) and node.startswith("shard")
            if node not in busy and not away and run.node(node).is_running():
                choices[name][0]()
                open_ones.append((now + run.random.uniform(0.5, 7), name, choices[name][1], node))
                done.append(name)
                run.workload.history.note("fault", what="break", value=name)
        time.sleep(run.random.uniform(0.1, 1.0))
    run.note(broken=done)
