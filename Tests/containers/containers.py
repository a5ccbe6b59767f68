"""A cluster of deploy/compose*.yaml on a container engine, as a user runs it, and the load of Tests/chaos on
it.

All commands go through `docker` and `docker compose`. Requests go to the containers' addresses on this
machine and to the balancer's published port. Each wait is for a condition.
"""
import http.client
import json
import os
import re
import secrets
import ssl
import subprocess
import sys
import tempfile
import time

from system.process import ROOT

sys.path.insert(0, os.path.join(ROOT, "Tests/chaos"))
import checkers  # noqa: E402
import registers  # noqa: E402
from history import operations  # noqa: E402
from workload import Workload  # noqa: E402


def run(*words, check=True, limit=300, environment=None):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit,
                          check=False, env={**os.environ, **(environment or {})})
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:"
                           f" {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def docker(*words, **more):
    return run("docker", *words, **more)


def wait(condition, what, limit=60):
    """Waits until `condition` returns True. Any other value is the reason why not; the failure shows the last
    reason."""
    end = time.monotonic() + limit
    while True:
        found = condition()
        if found is True:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"waited {limit} s for {what}: {found}")
        time.sleep(0.1)


class Gateway:
    """A gateway's container, at its present address. `Edge` is the balancer's published port, with the
    authority of its clients."""

    def __init__(self, project, container):
        self.project, self.container, self.name = project, container, container

    def connection(self, timeout):
        return http.client.HTTPConnection(self.project.address(self.container), 8787, timeout=timeout)


class Edge:
    name = "balancer"

    def __init__(self, port, authority):
        self.port, self.context = port, ssl.create_default_context(cafile=authority)

    def connection(self, timeout):
        return http.client.HTTPSConnection("localhost", self.port, timeout=timeout, context=self.context)


class Tenant:
    """A project with its keys, made by the commands in the documents."""

    def __init__(self, cluster, name):
        self.id = name
        self.account = json.loads(cluster.exec("gateway", "tidecast", "project", "create", name,
                                               "--service-account", "-"))
        self.bearer, self.device_key = (
            json.loads(cluster.exec("gateway", "tidecast", "project", "key", "create", name, "--kind", kind,
                                    "--json"))["key"]
            for kind in ("bearer", "device"))


RUN = secrets.token_hex(3)


class Compose:
    """A compose project. Its name has a part of this run's own, so that it touches no other cluster and no
    other run."""

    def __init__(self, file, name, port):
        self.file, self.name, self.port = os.path.join(ROOT, "deploy", file), f"{name}-{RUN}", port
        self.environment = {"COMPOSE_PROJECT_NAME": self.name, "TIDECAST_PORT": str(port),
                            "TIDECAST_PUBLIC_URL": f"https://localhost:{port}"}
        self.work = tempfile.mkdtemp(prefix="tidecast-containers-")
        self.addresses = {}

    def __call__(self, *words, **more):
        return run("docker", "compose", "-f", self.file, *words, environment=self.environment, **more)

    def exec(self, service, *words, **more):
        return self("exec", "-T", service, *words, **more)

    def containers(self, service, everything=False):
        found = docker("ps", *(["-a"] if everything else []), "--format", "{{.Names}}", "--filter",
                       f"label=com.docker.compose.project={self.name}", "--filter",
                       f"label=com.docker.compose.service={service}").split()
        return sorted(found)

    def address(self, container):
        """A container's address. It is kept until `forget`, since a container that starts again may have
        another address."""
        if container not in self.addresses:
            self.addresses[container] = docker("inspect", "-f",
                                               "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
                                               container).strip() or "0.0.0.0"
        return self.addresses[container]

    def forget(self):
        self.addresses.clear()

    def gateways(self):
        return [Gateway(self, one) for one in self.containers("gateway")]

    def edge(self):
        path = os.path.join(self.work, "ca.pem")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.exec("gateway", "cat", "/secrets/edge/ca.pem"))
        return Edge(self.port, path)

    def view(self, container):
        # Ends with 1 where the node is not ready or a partition has no owner.
        shown = docker("exec", container, "tidecast", "cluster", "status", "--json", check=False)
        if not shown:
            raise RuntimeError(f"{container} shows no cluster")
        return json.loads(shown)

    def unsettled(self, gateways=3, shards=3):
        """Why the nodes are not all there, ready and in agreement; "" where they are."""
        nodes = self.containers("gateway") + self.containers("shard")
        if len(nodes) != gateways + shards:
            return f"there are {nodes}"
        owned = None
        for one in nodes:
            try:
                view = self.view(one)
            except RuntimeError as error:
                return str(error)
            if view["status"] != "ready" or view["unowned"]:
                return f"{one} says {view['status']}, {view['unowned']} partitions without an owner"
            alive = sorted(member["node"] for member in view["members"] if member["state"] == "alive")
            if alive != sorted(nodes):
                return f"{one} sees {alive} alive"
            owners = [(part["owner"], part["epoch"]) for part in view["partitions"]]
            owned = owned or owners
            if owners != owned:
                return f"{one} sees other owners"
        return ""

    def settle(self, what, gateways=3, shards=3, limit=90):
        self.forget()
        began = time.monotonic()
        wait(lambda: self.unsettled(gateways, shards) or True, f"all nodes to agree after {what}", limit)
        return time.monotonic() - began

    def cut(self, since):
        """How many connections to containers that had passed no check yet the balancer has cut since that
        time (seconds since 1970), by its own word."""
        said = docker("logs", "--since", f"{since:.3f}", self.containers("balancer")[0])
        unchecked, cut = set(), 0
        for slot, words in re.findall(r"^(?:Server )?gateways/(\S+) (.*)", said, re.MULTILINE):
            down = re.search(r"is DOWN, .* (\d+) sessions active", words)
            if down and slot in unchecked:
                cut += int(down.group(1))
            if words.startswith("changed its IP from (none)"):
                unchecked.add(slot)
            elif "Layer7 check" in words or down:
                unchecked.discard(slot)
        return cut

    def logs(self):
        return self("logs", "--no-color", "--tail", "10", check=False)

    def remove(self):
        self("down", "-v", "--timeout", "5", check=False)
        docker("network", "rm", f"{self.name}-aside", check=False)


class MixedLoad:
    """The load of Tests/chaos: subscriptions, sends and registrations with an SDK's retries, and devices that
    listen."""

    def __init__(self, ways, tenants, seed, rates=None):
        self.ways = ways
        self.work = Workload(self, tenants, seed, devices=4, rates=rates)
        self.work.prepare()
        self.work.begin()

    @property
    def gateways(self):
        return self.ways

    @property
    def entries(self):
        return self.work.history.entries

    def accepted(self):
        return sum(1 for one in operations(list(self.entries)) if one["op"] == "send"
                   and one["outcome"] == "ok")

    def goes_on(self, what, more=15, limit=60):
        """Waits until `more` further sends are acknowledged, at most `limit` s."""
        mark = self.accepted()
        wait(lambda: self.accepted() >= mark + more, f"sends to be acknowledged after {what}", limit)

    def end(self):
        """Ends the load, waits at most 30 s for the last messages, and returns the problems that the checkers
        find."""
        work = self.work
        try:
            work.stop()
            try:
                wait(lambda: registers.is_settled(list(self.entries)), "the last messages", 30)
            except TimeoutError:
                pass  # The checkers name the missing messages.
            for _ in range(20):
                final = work.final()
                if not checkers.members(final):
                    break
                time.sleep(0.5)
        finally:
            work.close()
        entries = list(self.entries)
        return (checkers.subscriptions(entries, final) + checkers.members(final, entries)
                + checkers.deliveries(entries)
                + checkers.repeats(entries) + checkers.order(entries) + registers.problems(entries))

    def summary(self):
        ops = [one for one in operations(list(self.entries)) if one["op"] not in ("bad", "acknowledge")]
        counts = {}
        for one in ops:
            name = one["op"] if one["outcome"] == "ok" else f"{one['op']} {one['status']}"
            counts[name] = counts.get(name, 0) + 1
        longest = max((one["ended"] - one["began"] for one in ops if one["ended"]), default=0)
        delivered = sum(1 for entry in self.entries if entry["kind"] == "deliver")
        words = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        return f"{words}; {delivered} deliveries; longest {longest:.2f} s"

    def refused(self):
        """The operations that did not succeed, except the wrong requests: [(operation, status, answer, how
        often)]."""
        counts = {}
        for one in operations(list(self.entries)):
            if one["op"] != "bad" and one["outcome"] != "ok":
                place = (one["op"], one["status"], one.get("answer", "")[:100])
                counts[place] = counts.get(place, 0) + 1
        return [(*place, count) for place, count in counts.items()]
