"""Draining nodes: see cluster_drain.sh."""
import json
import signal

from system.checks import check, wait
from system.node import making, start


def command(node, *words):
    """Runs a command over the node's admin socket, and returns the exit code and the output."""
    done = node.run(*words, timeout=None)
    return done.returncode, done.stdout + done.stderr


def view(node):
    done = node.run("cluster", "status", "--json", timeout=None)
    return json.loads(done.stdout) if done.stdout else None


def owners(node):
    found = view(node)
    return None if found is None or found["unowned"] else {one["owner"] for one in found["partitions"]}


def run(one, two, gateway):
    gateway.options += ["--roles", "gateway"]
    start((one, two, gateway))
    wait(lambda: owners(one) == {"one", "two"}, "both to own partitions")

    code, said = command(one, "cluster", "drain", "two")
    check(code == 0 and "uncordon two" in said, "a drain says how to take it back")
    check(two.process.wait(timeout=60) == 0, "the drained node ended with 0")
    wait(lambda: owners(one) == {"one"}, "one to own everything")

    two.start()
    wait(lambda: "uncordon two" in two.asked("/readyz")[1], "the restarted node to say that it is kept out")
    check(two.asked("/readyz")[0] == 503 and two.asked("/healthz")[0] == 200,
          "restarted, it is alive and not ready")
    check(owners(one) == {"one"}, "it owns nothing")
    check(view(one)["cordoned"] == ["two"], "the status names it")
    check("cluster uncordon" in command(one, "cluster", "status")[1], "the table names it")
    two.process.send_signal(signal.SIGTERM)
    check(two.process.wait(timeout=10) == 0, "while it waits it ends on SIGTERM")

    code, said = command(one, "cluster", "drain", "one")
    check(code != 0 and "the last shard" in said, "the last shard is not drained without --force")
    check(one.is_ready(), "it goes on")

    two.start()
    wait(lambda: "uncordon two" in two.asked("/readyz")[1], "the restarted node to wait again")
    code, said = command(one, "cluster", "uncordon", "two")
    check(code == 0, "uncordoned")
    two.wait_ready()
    wait(lambda: owners(one) == {"one", "two"}, "the node to have its share again")
    print("ok: without a restart it came back and has its share")

    check(command(one, "cluster", "drain", "nobody")[0] != 0, "a node that is not there cannot be drained")
    code, _ = command(two, "cluster", "drain", "one")
    check(code == 0 and one.process.wait(timeout=60) == 0, "drained by the other")
    code, said = command(two, "cluster", "drain", "two", "--force")
    check(two.process.wait(timeout=60) == 0, "with --force the last shard goes too")
    wait(lambda: "no shard" in gateway.asked("/readyz")[1], "the gateway to say that there is no shard")
    check(gateway.asked("/readyz")[0] == 503, "a cluster without shards is not ready, and says why")
    check(command(gateway, "cluster", "uncordon", "one")[0] == 0, "a gateway lets a shard in again")
    one.start()
    one.wait_ready()
    gateway.wait_ready()
    check(owners(gateway) == {"one"}, "and is ready again when the shard has everything")


def main():
    with making() as made:
        run(*made.cluster("one", "two", "gateway")[1])
        print("cluster_drain: ok")


if __name__ == "__main__":
    main()
