"""Draining nodes: see cluster_drain.sh."""
import json
import signal
import subprocess
import sys

import cluster

cluster.BINARY = sys.argv[1]


def command(node, *words):
    """Runs a command over the node's admin socket, and returns the exit code and the output."""
    done = subprocess.run([cluster.BINARY, *words, "--data", node.folder], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def view(node):
    code, said = command(node, "cluster", "status", "--json")
    return json.loads(said) if code == 0 else None


def owners(node):
    found = view(node)
    return None if found is None or found["unowned"] else {one["owner"] for one in found["partitions"]}


def check(holds, what):
    if not holds:
        raise SystemExit(f"FAIL: {what}")
    print(f"ok: {what}")


def answer(node, path):
    try:
        return node.call("GET", path, timeout=2)
    except OSError:
        return 0, b""


def run(one, two, gateway):
    gateway.options += ["--roles", "gateway"]
    for node in (one, two, gateway):
        node.start()
    for node in (one, two, gateway):
        node.wait_ready()
    cluster.wait(lambda: owners(one) == {"one", "two"}, "both to own partitions")

    code, said = command(one, "cluster", "drain", "two")
    check(code == 0 and "uncordon two" in said, "a drain says how to take it back")
    check(two.process.wait(timeout=60) == 0, "the drained node ended with 0")
    cluster.wait(lambda: owners(one) == {"one"}, "one to own everything")

    two.start()
    cluster.wait(lambda: b"uncordon two" in answer(two, "/readyz")[1], "the restarted node to say that it is kept out")
    check(answer(two, "/readyz")[0] == 503 and answer(two, "/healthz")[0] == 200, "restarted, it is alive and not ready")
    check(owners(one) == {"one"}, "it owns nothing")
    check(view(one)["cordoned"] == ["two"], "the status names it")
    check("cluster uncordon" in command(one, "cluster", "status")[1], "the table names it")
    two.process.send_signal(signal.SIGTERM)
    check(two.process.wait(timeout=10) == 0, "while it waits it ends on SIGTERM")

    code, said = command(one, "cluster", "drain", "one")
    check(code != 0 and "the last shard" in said, "the last shard is not drained without --force")
    check(one.is_ready(), "it goes on")

    two.start()
    cluster.wait(lambda: b"uncordon two" in answer(two, "/readyz")[1], "the restarted node to wait again")
    code, said = command(one, "cluster", "uncordon", "two")
    check(code == 0, "uncordoned")
    two.wait_ready()
    cluster.wait(lambda: owners(one) == {"one", "two"}, "the node to have its share again")
    print("ok: without a restart it came back and has its share")

    check(command(one, "cluster", "drain", "nobody")[0] != 0, "a node that is not there cannot be drained")
    code, _ = command(two, "cluster", "drain", "one")
    check(code == 0 and one.process.wait(timeout=60) == 0, "drained by the other")
    code, said = command(two, "cluster", "drain", "two", "--force")
    check(two.process.wait(timeout=60) == 0, "with --force the last shard goes too")
    cluster.wait(lambda: b"no shard" in answer(gateway, "/readyz")[1], "the gateway to say that there is no shard")
    check(answer(gateway, "/readyz")[0] == 503, "a cluster without shards is not ready, and says why")
    check(command(gateway, "cluster", "uncordon", "one")[0] == 0, "a gateway lets a shard in again")
    one.start()
    one.wait_ready()
    gateway.wait_ready()
    check(owners(gateway) == {"one"}, "and is ready again when the shard has everything")


def main():
    with cluster.making() as made:
        run(*made.cluster("one", "two", "gateway")[1])
        print("cluster_drain: ok")


if __name__ == "__main__":
    main()
