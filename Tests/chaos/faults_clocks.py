"""Wall clocks that leap. A node that is to see another time restarts with Tests/system/world.c preloaded."""
import time

from registry import fault

from system.process import make_folder, remove
from system.world import World

LEAPS = {"271 days ahead": 271 * 86_400, "back to 1970": -int(time.time())}


def start_with(run, node, environment):
    node.kill()
    node.environment = environment
    node.start()
    run.until(lambda: run.cluster.is_ready(node), 30)


def leaps(run, name):
    """The clock leaps away and back. While the clock is wrong this node is not ready, and all other nodes
    stay ready."""
    folder = make_folder()
    world, node = World(folder), run.node(name)
    others = [one for one in run.cluster.nodes.values() if one is not node]
    try:
        start_with(run, node, world.environment)
        for what, seconds in LEAPS.items():
            world.wall_is_ahead(seconds)
            seen = run.until(lambda: not run.cluster.is_ready(node), run.seconds)
            time.sleep(run.seconds / 4)
            run.demand(all(run.cluster.is_ready(one) for one in others), "I11",
                       "a node whose clock is right is not ready")
            world.wall_is_ahead(0)
            again = run.until(lambda: run.cluster.is_ready(node), 90)
            run.note(**{what: {"not ready after": seen and round(seen, 2),
                               "ready again after": again and round(again, 2)}})
            run.demand(again is not None, "I11", "the node is not ready though its clock is right")
            run.demand(seen is not None or not node.is_shard, "I11",
                       "a shard whose clock is wrong calls itself ready")
    finally:
        start_with(run, node, {})
        remove(folder)


@fault("40", "the clock of a shard leaps: 271 days ahead, back, to 1970, back", seconds=16)
def clock_of_a_shard(run):
    leaps(run, "shard-1")


@fault("41", "the clock of a gateway leaps: 271 days ahead, back, to 1970, back", seconds=8,
       broken=("gateway-1",))
def clock_of_a_gateway(run):
    leaps(run, "gateway-1")
