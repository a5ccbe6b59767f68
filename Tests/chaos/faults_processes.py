"""Processes that are killed, stopped, or slow."""
import signal
import time

from registry import fault


@fault("2", "a gateway is killed in the middle of requests; clients go to another", seconds=6, broken=("gateway-2",))
def gateway_killed(run):
    victim = run.node("gateway-2")
    mark = len(run.workload.history.entries)
    victim.kill()
    run.sleep()
    victim.start()
    retries = [entry["retry"] for entry in run.workload.history.entries[mark:]
               if entry["kind"] == "invoke" and entry.get("retry")]
    run.note(retries=len(retries), most=max(retries, default=0))
    run.demand(max(retries, default=0) <= 1, "I5", f"a client had to try {max(retries, default=0)} times more, not once")
