"""TCP between the nodes of a cluster is cut, and UDP is not. See cluster_links.sh."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

os.environ.setdefault("TIDECAST", sys.argv[1])
import cluster  # noqa: E402

cluster.BINARY = sys.argv[1]
CUT_SECONDS = 15
# Lines that a node may log during the cut: one for each link, a few for each node that it suspects, and its own readiness.
LINES_MAX = 40


def log_of(node):
    with open(os.path.join(node.folder, "log"), encoding="utf-8", errors="replace") as file:
        return file.read()


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAIL: {what}")
    print(f"ok    {what}", flush=True)


def readiness(node):
    try:
        status, body = node.call("GET", "/readyz", timeout=2)
        return status, body.decode()
    except OSError:
        return 0, ""


def metric(node, name):
    text = node.call("GET", "/metrics")[1].decode()
    return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"{name} ")), None)


def status(node, *options):
    done = subprocess.run([cluster.BINARY, "cluster", "status", "--data", node.folder, *options], check=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    return done.stdout.decode()


def tcp(action, nodes):
    """Adds (-A) or deletes (-D) a rule: the kernel answers each TCP packet to the peer port of one of the nodes with a reset."""
    for node in nodes:
        subprocess.run(["iptables", "-w", action, "INPUT", "-p", "tcp", "--dport", str(node.peer), "-j", "REJECT",
                        "--reject-with", "tcp-reset"], check=True)


def cut_and_heal(gateway, shards):
    names = [shard.name for shard in shards]
    check(metric(gateway, "tidecast_peer_links_down") == 0, "no link is down")
    before = {node: len(log_of(node).splitlines()) for node in [gateway, *shards]}
    began = time.monotonic()
    tcp("-A", shards)
    cluster.wait(lambda: readiness(gateway)[0] == 503, "the gateway to be not ready", 30)
    told = readiness(gateway)[1]
    check(all(name in told for name in names) and "Connection refused" in told,
          f"the gateway says whom it cannot reach and why: {told.strip()}")
    links = json.loads(status(gateway, "--json"))["linksDown"]
    check(sorted(link["peer"] for link in links) == names and all(link["node"] == "gateway" for link in links)
          and all("Connection refused" in link["reason"] for link in links), f"cluster status --json has the links: {links}")
    shown = status(gateway)
    check(all(f"link down: gateway to {name}, for " in shown for name in names), "cluster status shows them")
    check(metric(gateway, "tidecast_peer_links_down") == len(shards), "tidecast_peer_links_down counts them")
    # Only a cut that lasts shows whether the log floods.
    cluster.wait(lambda: time.monotonic() - began > CUT_SECONDS, "the cut to last", CUT_SECONDS + 5)
    for node in [gateway, *shards]:
        lines = log_of(node).splitlines()[before[node]:]
        # On a busy machine the steps above take longer, so the bound grows with the time.
        lasted = time.monotonic() - began
        limit = LINES_MAX * max(1, lasted / CUT_SECONDS)
        check(len(lines) <= limit, f"{node.name} logged {len(lines)} lines in {lasted:.0f} s")
    told = [line for line in log_of(gateway).splitlines() if "a node cannot be reached over TCP" in line]
    # A node logs a failed link once a minute, and on a busy machine the cut may last longer than a minute.
    check(all(any(f'"{name}"' in line for line in told) for name in names) and len(told) <= 2 * len(shards)
          and "Connection refused" in told[0], f"the gateway has logged each failed link, with its reason: {told}")
    check("not ready" in log_of(gateway), "the gateway has logged that it is not ready")
    tcp("-D", shards)
    for node in [gateway, *shards]:
        node.wait_ready()
    check(True, "all are ready again when the cut is over")
    cluster.wait(lambda: all(any("a node is reached again" in line and f'"{name}"' in line
                                 for line in log_of(gateway).splitlines()) for name in names),
                 "a line for each link that stands again")
    cluster.wait(lambda: "link down" not in status(gateway), "no link to be down")
    answer = gateway.call("POST", "/v1/projects/demo/messages:send", {"message": {"topic": "news"}})
    check(answer[0] == 200, "a send through the gateway is accepted")


def stop_in_order(nodes):
    for node in nodes:
        code = node.end(signal.SIGTERM)
        check(code == 0, f"{node.name} ended with {code}")
        found = [line for line in log_of(node).splitlines() if "ERROR" in line]
        check(not found, f"the log of {node.name} has no ERROR after an orderly end {found[:3]}")


def main():
    folder = cluster.make_folder()
    nodes = []
    database = cluster.Database(folder)
    try:
        for name, roles in [("shard-1", "shard"), ("shard-2", "shard"), ("gateway", "gateway")]:
            node = cluster.Node(folder, name, database)
            node.options = ["--partitions", "32", "--roles", roles]
            nodes.append(node)
        gateway, shards = nodes[2], nodes[:2]
        gateway.start()
        cluster.wait(lambda: readiness(gateway)[0] == 503, "the gateway to answer")
        cluster.wait(lambda: json.loads(status(gateway, "--json"))["members"], "the gateway to be a member")
        check(readiness(gateway)[0] == 503, f"a gateway without any shard is not ready: {readiness(gateway)[1].strip()}")
        for shard in shards:
            shard.start()
        for node in nodes:
            node.wait_ready()
        # Both shards must own partitions, so that the gateway has to reach each of them.
        cluster.wait(lambda: all(one["partitions"] for one in json.loads(status(gateway, "--json"))["members"]
                                 if one["roles"] == "shard"), "both shards to own partitions")
        if "--stop" not in sys.argv:
            cut_and_heal(gateway, shards)
        stop_in_order([gateway, *shards])
        print("cluster_links: ok")
    except SystemExit:
        for one in nodes:
            print(f"--- {one.folder}", log_of(one)[-3000:] if os.path.exists(os.path.join(one.folder, "log")) else "")
        raise
    finally:
        for one in nodes:
            if one.process and one.process.poll() is None:
                one.process.send_signal(signal.SIGKILL)
                one.process.wait()
        try:
            database.stop()
        except subprocess.CalledProcessError:
            pass
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
