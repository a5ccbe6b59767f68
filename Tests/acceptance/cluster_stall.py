"""Outboxes and conditions stand still while the links between two nodes are cut. See cluster_stall.sh."""
import contextlib
import http.client
import json

from system.checks import check, wait
from system.device import register
from system.node import making, reset_tcp, start
from system.process import BACKEND

TOPICS = [f"t{number}" for number in range(8)]
# An outbox stands still after 30 s.
STALL_SECONDS = 90


def ask(node, topic, token):
    """Asks for a subscription and does not wait: the answer comes when the topic's partition has it."""
    body = {"to": f"/topics/{topic}", "registration_tokens": [token]}
    with contextlib.suppress(OSError, http.client.HTTPException):
        node.call("POST", "/iid/v1:batchAdd", body, BACKEND, timeout=1)


def subscribed(node, token):
    """The topics of the token that have answered, as `iid/info` says."""
    status, body = node.call("GET", f"/iid/info/{token}?details=true", headers=BACKEND)
    return set(json.loads(body).get("rel", {}).get("topics", {})) if status == 200 else set()


def send(node):
    """Sends to a condition and does not wait: the answer comes when all partitions have decided."""
    message = {"condition": f"'{TOPICS[0]}' in topics || '{TOPICS[1]}' in topics"}
    with contextlib.suppress(OSError, http.client.HTTPException):
        node.call("POST", "/v1/projects/demo/messages:send", {"message": message}, BACKEND, timeout=1)


def stalled(nodes, what="outboxes"):
    """The outboxes or conditions that the nodes' metrics count."""
    return sum(node.metrics()[f"tidecast_{what}_stalled"] for node in nodes)


def says_nothing(node):
    """Whether `cluster check` finds nothing."""
    done = node.run("cluster", "check")
    return done.returncode == 0 and done.stdout == "no outbox and no condition stands still\n"


def names(node):
    """What `cluster check` names, where it ends with 1."""
    done = node.run("cluster", "check")
    return done.stdout if done.returncode == 1 else ""


def main():
    with making() as made:
        _, nodes = made.cluster("one", "two")
        start(nodes)
        # No partition has a reason to move later, since each node has its share.
        wait(lambda: all(abs(node.owners().count("one") - node.owners().count("two")) <= 1 for node in nodes),
             "both nodes to own as many partitions")
        token = register(nodes[0])["token"]
        check(all(says_nothing(node) for node in nodes) and stalled(nodes) == 0, "nothing stands still")
        check(stalled(nodes, "conditions") == 0, "nor does a condition")
        reset_tcp("-A", nodes, ["--dport", "--sport"])
        # One of the nodes owns the device's partition, and the other one owns about half of the topics'.
        for node in nodes:
            for topic in TOPICS:
                ask(node, topic, token)
            send(node)
        wait(lambda: stalled(nodes) > 0, "an outbox to stand still", STALL_SECONDS)
        wait(lambda: stalled(nodes, "conditions") > 0, "a condition to stand still", STALL_SECONDS)
        for node in nodes:
            wait(lambda node=node: "stands still: conditions of partition " in names(node),
                 f"`cluster check` at {node.name} to name a condition")
            wait(lambda node=node: "stands still: the outbox of partition " in names(node),
                 f"`cluster check` at {node.name} to say so")
            # The command ends with 1, as the node is not ready.
            status = node.run("cluster", "status").stdout
            check("stands still: " in status, f"`cluster status` at {node.name} too")
        found = json.loads(nodes[0].run("cluster", "check", "--json").stdout)["stalled"]
        owners = nodes[0].owners()
        check(any(one["outboxes"] for one in found) and all(owners[outbox["partition"]] == one["node"]
                            and owners[outbox["to"]] == outbox["owner"] != one["node"]
                            for one in found for outbox in one["outboxes"]),
              f"it names the owners of both ends: {found}")
        check(any("an outbox stands still" in node.log_text() for node in nodes), "the log says so")
        check(any("a condition stands still" in node.log_text() for node in nodes), "of conditions as well")
        reset_tcp("-D", nodes, ["--dport", "--sport"])
        wait(lambda: stalled(nodes) + stalled(nodes, "conditions") == 0, "outboxes and conditions to move")
        for node in nodes:
            wait(lambda node=node: says_nothing(node), f"`cluster check` at {node.name} to find nothing")
        check(any("no outbox stands still any more" in node.log_text() for node in nodes), "so does the log")
        wait(lambda: subscribed(nodes[0], token) == set(TOPICS), "the subscriptions to be done")
        print("cluster_stall: ok")


if __name__ == "__main__":
    main()
