"""Some faults in one run, for tools/test, in less than a minute."""
import time

from faults_database import end_connections, relay, unrelay
from registry import fault


@fault("0", "the short selection: lost answers of the database, a cut, ended connections, a gateway killed",
       seconds=20, broken=("gateway-2",), limit=6, may_stop=("shard-1",))
def selection(run):
    process = relay(run, ["shard-1"], "0.15")
    run.cluster.cut("gateway-1", "shard-1")
    run.sleep(0.4)
    run.cluster.mend("gateway-1", "shard-1")
    run.note(relay=unrelay(run, process))
    run.node("gateway-2").kill()
    run.sleep(0.1)
    run.node("gateway-2").start()
    ended = 0
    for _ in range(5):
        ended += end_connections(run)
        time.sleep(run.seconds * 0.06)
    run.note(ended=ended)
