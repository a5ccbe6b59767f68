"""Faults of containers, for `tools/chaos --engine docker`: commands of `docker` on deploy/compose.yaml under
load."""
import itertools
import os
import random
import time

from containers import ROOT, Compose, MixedLoad, Tenant, docker, run, wait
from history import operations

from system.ports import free_port

FAULTS = {}


def fault(name, title, statuses=()):
    """`statuses`: the statuses that requests may get under the fault, in addition to 200, 503 and 504; 0 is a
    broken connection."""
    def register(work):
        FAULTS[name] = (title, work, {503, 504, *statuses})
        return work
    return register


def owned(cluster, node):
    for gateway in cluster.containers("gateway"):
        try:
            return sum(1 for one in cluster.view(gateway)["partitions"] if one["owner"] == node)
        except RuntimeError:
            continue
    return None


def inherited(cluster, node):
    wait(lambda: owned(cluster, node) == 0, f"the partitions of {node} to be taken over")


@fault("kill-shard", "a shard is killed, and started when others have its partitions")
def kill_shard(cluster, load, dice):
    victim = dice.choice(cluster.containers("shard"))
    docker("kill", victim)
    inherited(cluster, victim)
    load.goes_on("its death")
    docker("start", victim)


@fault("kill-two-shards", "two of three shards are killed, and started when the third has everything")
def kill_two_shards(cluster, load, dice):
    victims = dice.sample(cluster.containers("shard"), 2)
    docker("kill", *victims)
    for victim in victims:
        inherited(cluster, victim)
    load.goes_on("their death")
    docker("start", *victims)


@fault("kill-all-shards", "all shards are killed and started")
def kill_all_shards(cluster, load, dice):
    del dice
    shards = cluster.containers("shard")
    docker("kill", *shards)
    docker("start", *shards)
    load.goes_on("their start")


@fault("kill-gateway", "a gateway is killed and started", statuses=(0, 502))
def kill_gateway(cluster, load, dice):
    victim = dice.choice(cluster.containers("gateway"))
    docker("kill", victim)
    load.goes_on("its death")
    docker("start", victim)


@fault("pause-shard", "a shard is paused until others have its partitions, and continued")
def pause_shard(cluster, load, dice):
    victim = dice.choice(cluster.containers("shard"))
    docker("pause", victim)
    inherited(cluster, victim)
    load.goes_on("its pause")
    docker("unpause", victim)


@fault("disconnect-shard", "a shard is disconnected from the network, and connected again")
def disconnect_shard(cluster, load, dice):
    victim = dice.choice(cluster.containers("shard"))
    docker("network", "disconnect", f"{cluster.name}_default", victim)
    load.goes_on("it was cut off", more=60)
    docker("network", "connect", "--alias", "shard", f"{cluster.name}_default", victim)


@fault("restart-database", "PostgreSQL is restarted")
def restart_database(cluster, load, dice):
    del dice
    docker("restart", *cluster.containers("db"))
    load.goes_on("its restart")


@fault("kill-database", "PostgreSQL is killed and started")
def kill_database(cluster, load, dice):
    del dice
    database = cluster.containers("db")
    docker("kill", *database)
    docker("start", *database)
    load.goes_on("its start")


@fault("roll", "all six nodes are replaced one by one (deploy/roll)", statuses=(0,))
def roll(cluster, load, dice):
    del dice
    run(os.path.join(ROOT, "deploy/roll"), "shard", "gateway", limit=600,
        environment={**cluster.environment, "COMPOSE": f"docker compose -f {cluster.file}"})
    load.goes_on("the replacement")


def longest_silence(entries):
    """The longest time between two acknowledged sends, in seconds."""
    times = sorted(one["ended"] for one in operations(entries) if one["op"] == "send"
                   and one["outcome"] == "ok")
    return max((after - before for before, after in itertools.pairwise(times)), default=0)


def one_run(cluster, tenant, name, seed):
    title, work, statuses = FAULTS[name]
    cluster.settle("what was before")
    load = MixedLoad([*cluster.gateways(), cluster.edge()], [tenant], f"{seed}-{name}", rates={"send": 8.0})
    load.goes_on("the beginning")
    work(cluster, load, random.Random(f"{seed}-{name}"))
    healed = cluster.settle(title)
    load.goes_on("the end of the fault")
    problems = load.end()
    problems += [("I12", f"{op} was answered {status} {count} times: {answer}")
                 for op, status, answer, count in load.refused()
                 if status not in statuses]
    print(f"{name:18} {'ok' if not problems else f'{len(problems)} PROBLEMS':12} {title} (seed {seed})")
    print(f"    {load.summary()}; nothing acknowledged for {longest_silence(list(load.entries)):.1f} s at"
          " most; whole again after"
          f" {healed:.1f} s", flush=True)
    for problem in problems[:12]:
        print("    !", *problem)
    return not problems


def run_all(chosen, seed):
    cluster = Compose("compose.yaml", "tidecast-chaos", free_port())
    held = 0
    try:
        cluster.remove()
        cluster("up", "-d", "--wait", limit=1200)
        tenant = Tenant(cluster, f"chaos-{int(time.time())}")
        for name in chosen:
            try:
                held += one_run(cluster, tenant, name, seed)
            except (RuntimeError, TimeoutError, OSError) as error:
                print(f"{name:18} BROKEN OFF   {error}", flush=True)
                # The next fault must not get a cluster that this fault has left half broken.
                cluster("up", "-d", "--wait", "--force-recreate")
    finally:
        cluster.remove()
    print(f"chaos: {held} of {len(chosen)} faults held, seed {seed}")
    return 0 if held == len(chosen) else 1
