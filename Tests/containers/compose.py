"""The compose files as a user runs them: see compose.sh. `compose.py [cluster] [replicated] [small]`; all
three by default."""
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

from containers import ROOT, Compose, MixedLoad, Tenant, docker, run, wait

from system.ports import free_port
from system.postgres import SECRETS

SEED = int(os.environ.get("SEED", time.time() % 100_000))
# The statuses that a client may see during a fault: 503 (not done), 504 and 0 (outcome unknown).
WITH_RETRIES = {0, 503, 504}


def say(*words):
    print(*words, flush=True)


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def verdict(load, what):
    problems = load.end()
    say(f"{what}: {load.summary()}")
    for problem in problems[:10]:
        say("  !", *problem)
    check(not problems, f"{len(problems)} promises were broken: {what}")
    strange = [one for one in load.refused() if one[1] not in WITH_RETRIES]
    check(not strange, f"{what}: {strange}")


def request(way, method, path, body, headers):
    link = way.connection(30)
    link.request(method, path, json.dumps(body), {"content-type": "application/json", **headers})
    answer = link.getresponse()
    raw = answer.read()
    check(answer.status == 200, f"{way.name}: {method} {path} was answered {answer.status} {raw[:200]}")
    return json.loads(raw)


def one_message(tenant, first, second, third):
    """A device registers and is subscribed through `first`, and listens at `third`. It must get a send
    through `second`."""
    device = request(first, "POST", f"/v1/projects/{tenant.id}/registrations", {},
                     {"x-goog-api-key": tenant.device_key})
    backend = {"authorization": f"Bearer {tenant.bearer}", "access_token_auth": "true"}
    done = request(first, "POST", "/iid/v1:batchAdd",
                   {"to": "/topics/news", "registration_tokens": [device["token"]]}, backend)
    check(done["results"] == [{}], done)
    link = third.connection(30)
    link.request("GET", f"/v1/projects/{tenant.id}/registrations/{device['token']}:listen", headers={
        "authorization": f"Bearer {device['credential']}"})
    stream = link.getresponse()
    check(stream.status == 200, f"{third.name}: listening was answered {stream.status}")
    name = request(second, "POST", f"/v1/projects/{tenant.id}/messages:send",
                   {"message": {"topic": "news", "data": {"k": "v"}}}, backend)["name"]
    seen = first_messages(stream, name)
    check(seen[:1] and seen[0] in name, f"sent was {name}, and there came {seen}")
    link.close()
    return device


def first_messages(stream, name, limit=60):
    """The ids of the messages up to the message `name`, or of the messages that came within `limit` s."""
    seen, end = [], time.monotonic() + limit
    # The server sends a comment every 25 s, so the loop checks the time at least that often.
    for line in stream:
        if line.startswith(b"data: "):
            seen.append(json.loads(line[6:]).get("messageId", ""))
        if (seen and seen[-1] and seen[-1] in name) or time.monotonic() > end:
            break
    return seen


def hygiene(cluster):
    """No container runs as root, `docker inspect` shows no secret, and each volume has a name."""
    names = [one for service in ("db", "gateway", "shard", "balancer") for one in cluster.containers(service)]
    shown = docker("inspect", *names)
    password = cluster.exec("db", "cat", "/secrets/database/password").strip()
    check(len(password) >= 32 and password not in shown, "the database's password is in `docker inspect`")
    for one in json.loads(shown):
        config, host, name = one["Config"], one["HostConfig"], one["Name"]
        check(config["User"].split(":")[0] not in ("", "0", "root"), f"{name} runs as {config['User']!r}")
        check(host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"]
              and "no-new-privileges:true" in host["SecurityOpt"],
              f"{name} is not closed up")
        check(host["Memory"] and host["LogConfig"]["Config"].get("max-size"), f"{name} has no limits")
        anonymous = [mount for mount in one["Mounts"] if mount["Type"] == "volume"
                     and len(mount["Name"]) == 64]
        check(not anonymous, f"{name} has a volume without a name: {anonymous}")
    for service, path in (("gateway", "/secrets/database/password"), ("db", "/secrets/edge/server.key"),
                          ("db", "/secrets/node/peer.key"), ("db", "/secrets/node/secrets.key")):
        refused = subprocess.run(["docker", "exec", cluster.containers(service)[0], "cat", path],
                                 capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        check("Permission denied" in refused.stderr, f"{service} can read {path}")


def sealed(cluster):
    """The cluster's own keys are sealed in the database from the first start on."""
    stored = cluster.exec("db", "psql", "-U", "tidecast", "-At", "-c", SECRETS, "tidecast").split()
    check(len(stored) >= 3 and all(one.endswith("|e501") for one in stored),
          f"keys are not sealed in the database: {stored}")


def faults(cluster, tenant, ways):
    load = MixedLoad(ways, [tenant], SEED)
    load.goes_on("the beginning")
    docker("restart", cluster.containers("gateway")[1])
    say(f"  a gateway restarted: whole again after {cluster.settle('a restart'):.1f} s")
    load.goes_on("a gateway's restart")
    victim = cluster.containers("shard")[0]
    docker("kill", victim)
    wait(lambda: not any(one["owner"] == victim
                         for one in cluster.view(cluster.containers("gateway")[0])["partitions"]),
         "the dead shard's partitions to be taken over")
    load.goes_on("a shard's death")
    docker("start", victim)
    say(f"  a shard killed and started: whole again after {cluster.settle('a shard was back'):.1f} s")
    victim, network = cluster.containers("shard")[1], f"{cluster.name}_default"
    docker("network", "disconnect", network, victim)
    load.goes_on("a shard was cut off", more=40)
    # The engine does not restore the container's alias, by which the other nodes find it.
    docker("network", "connect", "--alias", "shard", network, victim)
    say("  a shard disconnected and connected: whole again after"
        f" {cluster.settle('the network was back'):.1f} s")
    victim = cluster.containers("shard")[2]
    docker("pause", victim)
    wait(lambda: not any(one["owner"] == victim
                         for one in cluster.view(cluster.containers("gateway")[0])["partitions"]),
         "the paused shard's partitions to be taken over")
    load.goes_on("a shard was paused")
    docker("unpause", victim)
    say(f"  a shard paused: whole again after {cluster.settle('it was continued'):.1f} s")
    docker("restart", cluster.containers("db")[0])
    say(f"  the database restarted: whole again after {cluster.settle('its restart'):.1f} s")
    load.goes_on("the database's restart")
    verdict(load, "faults")


def rolling(cluster, tenant, edge):
    load = MixedLoad([edge], [tenant], SEED + 1)
    load.goes_on("the beginning")
    before = set(cluster.containers("gateway") + cluster.containers("shard"))
    began, since = time.monotonic(), time.time()
    run(os.path.join(ROOT, "deploy/roll"), "shard", "gateway", environment={
        **cluster.environment, "COMPOSE": f"docker compose -f {cluster.file}"}, limit=400)
    say(f"  all six replaced one by one in {time.monotonic() - began:.1f} s")
    cluster.settle("the rolling replacement")
    after = set(cluster.containers("gateway") + cluster.containers("shard"))
    check(len(after) == 6 and not before & after, f"{before} became {after}")
    # A plain `up` must not replace the containers again.
    cluster("up", "-d", "--wait")
    check(after == set(cluster.containers("gateway") + cluster.containers("shard")),
          "`up` replaced containers once more")
    load.goes_on("the rolling replacement")
    verdict(load, "rolling")
    # HAProxy takes a container for up as soon as it has a name, and cuts a client that it sends there if the
    # first check fails. No other request may fail.
    refused, cut = load.refused(), cluster.cut(since)
    lost = sum(count for _, status, _, count in refused if status == 0)
    check(all(status == 0 for _, status, _, _ in refused) and lost <= cut,
          f"requests failed while containers were replaced, of which the balancer cut {cut}: {refused}")
    say(f"  the balancer cut {cut} connections, and {lost} requests with them")


def scaling(cluster):
    cluster("up", "-d", "--wait", "--no-recreate", "--scale", "gateway=5", "--scale", "shard=4")
    say(f"  five gateways and four shards: of one mind after {cluster.settle('scaling', 5, 4):.1f} s")
    gateway, shards = cluster.containers("gateway")[0], set(cluster.containers("shard"))

    def spread():
        """True where each shard owns partitions and each partition has an owner. While partitions move to the
        new shard, one that was given up and is not yet taken has no owner for a moment, and nodes that agree
        may do so between two moves."""
        owned = {one["owner"] for one in cluster.view(gateway)["partitions"]}
        return owned == shards or f"the partitions' owners are {owned}"
    wait(spread, "each shard to own partitions")


def cordoning(cluster):
    shard, gateway = cluster.containers("shard")[0], cluster.containers("gateway")[0]
    docker("exec", gateway, "tidecast", "cluster", "drain", shard)

    def owns():
        return sum(1 for one in cluster.view(gateway)["partitions"] if one["owner"] == shard)
    wait(lambda: owns() == 0, "the drained shard to own nothing")
    # The shard stays out, whether the engine starts it (since it has ended), an operator, or `up`.
    docker("restart", shard)
    cluster("up", "-d", "--no-recreate", "--scale", "gateway=5", "--scale", "shard=4")

    def says():
        """True where the shard's /readyz says that the shard is kept out; else the text of /readyz or the
        error."""
        cluster.forget()
        try:
            with urllib.request.urlopen(f"http://{cluster.address(shard)}:8789/readyz", timeout=5):
                return "it is ready"
        except urllib.error.HTTPError as error:
            words = error.read().decode()
            return f"uncordon {shard}" in words or words
        except OSError as error:
            return str(error)
    wait(says, "the drained shard to begin again, and to say that it is kept out")
    check(shard in cluster.view(gateway)["cordoned"], "the cluster does not name who is kept out")
    check(owns() == 0, "a drained shard owns partitions again after a restart")
    wait(lambda: not cluster.view(gateway)["unowned"], "the partitions to have owners")
    docker("exec", gateway, "tidecast", "cluster", "uncordon", shard)
    cluster.settle("uncordoning", 5, 4)
    wait(lambda: owns() > 0, "the shard to own partitions again")
    say("  a drained shard stayed out until it was uncordoned")


def down_and_up(cluster, tenant, device):
    """A message to a device that is away must come after the whole cluster was stopped and started."""
    edge = cluster.edge()
    backend = {"authorization": f"Bearer {tenant.bearer}"}
    name = request(edge, "POST", f"/v1/projects/{tenant.id}/messages:send",
                   {"message": {"token": device["token"], "data": {"before": "down"}}}, backend)["name"]
    cluster("down")
    began = time.monotonic()
    cluster("up", "-d", "--wait")
    say(f"  down and up: {time.monotonic() - began:.1f} s")
    edge = cluster.edge()
    link = edge.connection(30)
    link.request("GET", f"/v1/projects/{tenant.id}/registrations/{device['token']}:listen", headers={
        "authorization": f"Bearer {device['credential']}"})
    stream = link.getresponse()
    check(stream.status == 200, f"listening after `up` was answered {stream.status}")
    seen = first_messages(stream, name)
    check(seen and seen[-1] and seen[-1] in name, f"sent before `down` was {name}, and there came {seen}")
    link.close()


def the_cluster():
    cluster = Compose("compose.yaml", "tidecast-test", free_port())
    try:
        cluster.remove()
        began = time.monotonic()
        cluster("up", "-d", "--wait", limit=1200)
        up = time.monotonic()
        tenant = Tenant(cluster, "shop")
        account = time.monotonic()
        check(tenant.account["token_uri"] == f"https://localhost:{cluster.port}/token",
              tenant.account["token_uri"])
        cluster.settle("the start")
        edge, gateways = cluster.edge(), cluster.gateways()
        one_message(tenant, *gateways)
        device = one_message(tenant, edge, edge, edge)
        say(f"up after {up - began:.1f} s, a service-account file and keys {account - up:.1f} s later; a"
            " device subscribed through"
            " one gateway got at another what was sent through the third, and so through the balancer with"
            " TLS")
        hygiene(cluster)
        sealed(cluster)
        faults(cluster, tenant, [*gateways, edge])
        rolling(cluster, tenant, edge)
        scaling(cluster)
        cordoning(cluster)
        down_and_up(cluster, tenant, device)
        cluster("down", "-v")
        left = docker("volume", "ls", "-q", "--filter",
                      f"label=com.docker.compose.project={cluster.name}").split()
        check(not left, f"volumes are left: {left}")
    except BaseException:
        say(cluster.logs())
        raise
    finally:
        cluster.remove()


def the_replicated():
    cluster = Compose("compose.replicated.yaml", "tidecast-test-replicated", free_port())
    try:
        cluster.remove()
        cluster("up", "-d", "--wait")
        tenant = Tenant(cluster, "shop")
        cluster.settle("the start")
        load = MixedLoad([*cluster.gateways(), cluster.edge()], [tenant], SEED + 2)
        load.goes_on("the beginning")
        docker("kill", cluster.containers("db-1")[0])
        began = time.monotonic()
        run(os.path.join(ROOT, "deploy/failover"), "db-1", environment={
            **cluster.environment, "COMPOSE": f"docker compose -f {cluster.file}"}, limit=120)
        load.goes_on("the failover")
        say(f"  the primary killed and replaced: sends go on {time.monotonic() - began:.1f} s after the"
            " command")
        cluster("start", "db-1")
        wait(lambda: cluster.exec("db-1", "/database.sh", "state", check=False).split()[::2]
             == ["standby", "following"],
             "the old primary to follow the new one")
        cluster.settle("the failover")
        verdict(load, "a failover")
    except BaseException:
        say(cluster.logs())
        raise
    finally:
        cluster.remove()


def the_small_ones():
    """One server with a volume, and the development server, each through its published port."""
    single = Compose("compose.single.yaml", "tidecast-test-single", free_port())
    single.environment["TIDECAST_PUBLIC_URL"] = f"http://localhost:{single.port}"
    try:
        single.remove()
        single("up", "-d", "--wait")
        account = json.loads(single.exec("tidecast", "tidecast", "project", "create", "shop",
                                         "--service-account", "-"))
        check(account["token_uri"] == f"http://localhost:{single.port}/token", account["token_uri"])
        single("down")
        single("up", "-d", "--wait")
        check("shop" in single.exec("tidecast", "tidecast", "project", "list"),
              "the project did not outlive `down`")
        say("one server: its data outlives `down`")
    finally:
        single.remove()
    dev = Compose("compose.dev.yaml", "tidecast-test-dev", free_port())
    try:
        dev.remove()
        dev("up", "-d", "--wait")
        asked = urllib.request.Request(f"http://localhost:{dev.port}/v1/projects/any/messages:send",
                                       method="POST", data=b'{"message": {"topic": "news"}}',
                                       headers={"authorization": "Bearer owner"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            check(answer.status == 200, answer.status)
        say("the development server is reached through its published port")
    finally:
        dev.remove()


def main():
    chosen = sys.argv[1:] or ["small", "cluster", "replicated"]
    say(f"seed {SEED}")
    for name in chosen:
        began = time.monotonic()
        {"cluster": the_cluster, "replicated": the_replicated, "small": the_small_ones}[name]()
        say(f"ok: {name}, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
