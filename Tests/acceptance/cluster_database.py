"""The primary of a replicated database dies under load, and deploy/failover promotes a standby: see
cluster_database.sh."""
import json
import os
import signal
import subprocess
import time

from system.checks import wait
from system.device import Device, register, subscribe
from system.load import Load, settled
from system.process import ROOT, Server, program

TOOL, FAILOVER = os.path.join(ROOT, "tools/cluster"), os.path.join(ROOT, "deploy/failover")
STATE = os.path.join(ROOT, ".build/cluster-replicas")
SERVERS = ("db-1", "db-2", "db-3")
ENVIRONMENT = {**os.environ, "TIDECAST": program(), "TIDECAST_CLUSTER": "replicas",
               "TIDECAST_NETWORK": "10.79.0",
               "COMPOSE": TOOL}


# The test takes 20 s on an idle machine.
SECONDS_MAX = 180


def run(*words, check=True, limit=100):
    done = subprocess.run(words, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=limit, check=False)
    if check and done.returncode != 0:
        raise SystemExit(f"FAIL: {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


class Gateway(Server):
    """A gateway that tools/cluster started; the test reaches it by its address."""

    def __init__(self, name, host):
        super().__init__("", name=name)
        self.host, self.port, self.headers = host, 8787, {}

    def call(self, method, path, body=None, headers=None, timeout=40):
        return super().call(method, path, body, headers or self.headers, timeout)


def server_state(name):
    return run(TOOL, "exec", "-T", name, "/database.sh", "state", check=False).split()


def not_ready():
    return [name for kind in ("shard", "gateway") for name in (f"{kind}-1", f"{kind}-2", f"{kind}-3")
            if not run(TOOL, "exec", name, "curl", "-s", "-m", "2", "http://127.0.0.1:8787/readyz", "-o",
                       "/dev/null",
                       "-w", "%{http_code}", check=False) == "200"]


def test():
    lines = run(TOOL, "up", "--file", os.path.join(ROOT, "deploy/compose.replicated.yaml")).splitlines()
    one, two, three = (Gateway(*line.removesuffix(":8787").split(": http://")) for line in lines[-3:])

    def tidecast(*words):
        return run(TOOL, "exec", "gateway-1", "tidecast", *words, "--data", "/run/tidecast/data")

    tidecast("project", "create", "demo", "--service-account", "/run/tidecast/account.json")
    bearer, key = (json.loads(tidecast("project", "key", "create", "demo", "--kind", kind, "--json"))["key"]
                   for kind in ("bearer", "device"))
    for gateway in (one, two, three):
        gateway.headers = {"authorization": f"Bearer {bearer}", "access_token_auth": "true"}
    device = Device(three, register(one, {"x-goog-api-key": key}))
    subscribe(two, "news", [device.token], headers=two.headers)
    wait(lambda: device.streams, "the stream")
    load = Load(one)
    wait(lambda: len(load.accepted()) > 30, "the first sends")
    print("registered through one, subscribed through two, listening on three, sending through one")

    def failover(old):
        began = time.monotonic()
        words = run(FAILOVER, old)
        settled([load], "the failover", 31)
        wait(lambda: not not_ready(), "all nodes to be ready")
        run(TOOL, "start", old)
        wait(lambda: server_state(old)[::2] == ["standby", "following"], f"{old} to follow the new primary")
        new = next(name for name in SERVERS if server_state(name) == ["primary"])
        print(f"{old} replaced by {new}; all is well {time.monotonic() - began:.1f} s after it was asked for"
              f" ({words.splitlines()[-1].split('.')[0]})")
        return new

    wrong = subprocess.run([FAILOVER, "db-3"], env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, check=False)
    assert wrong.returncode == 1 and "db-1 is the primary already" in wrong.stderr, wrong
    run(TOOL, "kill", "db-2")
    settled([load], "the death of one standby", 31)
    refused = subprocess.run([FAILOVER, "db-1"], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "Nothing was changed" in refused.stderr, refused
    run(TOOL, "start", "db-2")
    wait(lambda: server_state("db-2")[::2] == ["standby", "following"], "db-2 to follow again")
    print("without one standby sends go on, and a failover that could lose something is refused")

    run(TOOL, "kill", "db-1")
    wait(not_ready, "a node to see that its database is away")
    new = failover("db-1")
    # An orderly failover: the primary is alive, and deploy/failover stops it first.
    failover(new)
    load.end()
    accepted = set(load.accepted())
    wait(lambda: accepted <= set(device.counts()), "every acknowledged message to arrive", 20)
    print(f"{len(accepted)} sends acknowledged, all arrived; not acknowledged: {len(load.failures())}")
    stopped = [name for name in os.listdir(STATE) if name.startswith(("shard", "gateway"))
               and name.endswith(".log")
               and '"stopping"' in open(os.path.join(STATE, name), encoding="utf-8").read()]
    assert not stopped, f"{stopped} stopped, though nothing was lost"


def give_up(*_):
    raise SystemExit(f"FAIL: not done within {SECONDS_MAX} s")


def main():
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS_MAX)
    try:
        test()
        print("cluster_database: ok")
    except BaseException:
        for name in (*SERVERS, "shard-1", "gateway-1"):
            print(f"--- {name}\n" + "\n".join(run(TOOL, "log", name, check=False).splitlines()[-12:]))
        raise
    finally:
        signal.alarm(0)
        run(TOOL, "down", check=False)


if __name__ == "__main__":
    main()
