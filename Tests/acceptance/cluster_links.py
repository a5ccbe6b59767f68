"""TCP between the nodes of a cluster is cut, and UDP is not. See cluster_links.sh."""
import signal
import sys
import time

from system.checks import check, wait
from system.node import Node, making, reset_tcp, start

CUT_SECONDS = 15
# Lines that a node may log during the cut: one for each link, a few for each node that it suspects, and its
# own readiness.
LINES_MAX = 40


def cut_and_heal(gateway, shards):
    names = [shard.name for shard in shards]
    check(gateway.metrics().get("tidecast_peer_links_down") == 0, "no link is down")
    before = {node: len(node.log_text().splitlines()) for node in [gateway, *shards]}
    began = time.monotonic()
    reset_tcp("-A", shards, ["--dport"])
    wait(lambda: gateway.asked("/readyz")[0] == 503, "the gateway to be not ready", 30)
    told = gateway.asked("/readyz")[1]
    check(all(name in told for name in names) and "Connection refused" in told,
          f"the gateway says whom it cannot reach and why: {told.strip()}")
    links = gateway.status()["linksDown"]
    check(sorted(link["peer"] for link in links) == names and all(link["node"] == "gateway" for link in links)
          and all("Connection refused" in link["reason"] for link in links),
          f"cluster status --json has the links: {links}")
    shown = gateway.shown()
    check(all(f"link down: gateway to {name}, for " in shown for name in names), "cluster status shows them")
    check(gateway.metrics().get("tidecast_peer_links_down") == len(shards),
          "tidecast_peer_links_down counts them")
    # Only a cut that lasts shows whether the log floods.
    wait(lambda: time.monotonic() - began > CUT_SECONDS, "the cut to last", CUT_SECONDS + 5)
    for node in [gateway, *shards]:
        lines = node.log_text().splitlines()[before[node]:]
        # On a busy machine the steps above take longer, so the bound grows with the time.
        lasted = time.monotonic() - began
        limit = LINES_MAX * max(1, lasted / CUT_SECONDS)
        check(len(lines) <= limit, f"{node.name} logged {len(lines)} lines in {lasted:.0f} s")
    told = [line for line in gateway.log_text().splitlines() if "a node cannot be reached over TCP" in line]
    # A node logs a failed link once a minute, and on a busy machine the cut may last longer than a minute.
    check(all(any(f'"{name}"' in line for line in told) for name in names) and len(told) <= 2 * len(shards)
          and "Connection refused" in told[0],
          f"the gateway has logged each failed link, with its reason: {told}")
    check("not ready" in gateway.log_text(), "the gateway has logged that it is not ready")
    reset_tcp("-D", shards, ["--dport"])
    for node in [gateway, *shards]:
        node.wait_ready()
    check(True, "all are ready again when the cut is over")
    wait(lambda: all(any("a node can be reached over TCP again" in line and f'"{name}"' in line
                         for line in gateway.log_text().splitlines()) for name in names),
         "a line for each link that stands again")
    wait(lambda: "link down" not in gateway.shown(), "no link to be down")
    answer = gateway.call("POST", "/v1/projects/demo/messages:send", {"message": {"topic": "news"}})
    check(answer[0] == 200, "a send through the gateway is accepted")


def stop_in_order(nodes):
    for node in nodes:
        code = node.end(signal.SIGTERM)
        check(code == 0, f"{node.name} ended with {code}")
        found = [line for line in node.log_text().splitlines() if "ERROR" in line]
        check(not found, f"the log of {node.name} has no ERROR after an orderly end {found[:3]}")


def main():
    with making() as made:
        database, nodes = made.database(), made.nodes
        for name, roles in [("shard-1", "shard"), ("shard-2", "shard"), ("gateway", "gateway")]:
            node = Node(made.folder, name, database)
            node.options = ["--partitions", "32", "--roles", roles]
            nodes.append(node)
        gateway, shards = nodes[2], nodes[:2]
        gateway.start()
        wait(lambda: gateway.asked("/readyz")[0] == 503, "the gateway to answer")
        wait(lambda: gateway.status()["members"], "the gateway to be a member")
        status, said = gateway.asked("/readyz")
        check(status == 503, f"a gateway without any shard is not ready: {said.strip()}")
        start(shards)
        gateway.wait_ready()
        # Both shards must own partitions, so that the gateway has to reach each of them.
        wait(lambda: all(one["partitions"] for one in gateway.status()["members"]
                         if one["roles"] == "shard"), "both shards to own partitions")
        if "--stop" not in sys.argv:
            cut_and_heal(gateway, shards)
        stop_in_order([gateway, *shards])
        print("cluster_links: ok")


if __name__ == "__main__":
    main()
