"""The cluster under test: the topology of deploy/compose.yaml in network namespaces of its own, and the ways
to break it.

The cluster has another name and another subnet than the one of tools/cluster, so that both can run at once.
This module starts the nodes, with one supervisor thread each, since the checkers need to know how and when
each process ended.
"""
import ctypes
import json
import os
import signal
import subprocess
import threading
import time

import system.cluster
from system import admin, kernel
from system.checks import until
from system.process import UNPRIVILEGED, Server, program

API_PORT, PEER_PORT, METRICS_PORT, DATABASE_PORT = 8787, 8788, 8789, 5432


class Machines(system.cluster.Cluster):
    """The services of deploy/compose.yaml and their namespaces. Shards also get a data folder, for the admin
    socket over which the driver asks them."""
    found = None

    def services(self):
        if self.found is None:
            self.found = self.read(system.cluster.COMPOSE)
            for service in self.found.values():
                if "command" in service and "--data" not in service["command"]:
                    service["command"] = [*service["command"], "--data", "/run/tidecast/data"]
        return self.found


MACHINES = Machines(os.environ.get("TIDECAST_CLUSTER", "chaos"),
                    os.environ.get("TIDECAST_NETWORK", "10.78.0"), program())


def die_with_parent():
    """The child dies with its parent, so that a run that breaks off leaves no process."""
    ctypes.CDLL("libc.so.6").prctl(1, signal.SIGKILL)


class Node(Server):
    """One tidecast process and its supervisor, which starts it again after a fail-stop (70), as `restart:
    always` does."""

    def __init__(self, name):
        folder = MACHINES.node_folder(name)
        super().__init__(folder, name=name)
        self.is_gateway, self.is_shard = name.startswith("gateway"), name.startswith("shard")
        self.address, self.data, self.log = MACHINES.address(name), folder, MACHINES.log(name)
        self.host, self.port = self.address, API_PORT
        self.wrapper = MACHINES.network.in_namespace(name, UNPRIVILEGED)
        self.exits = []  # (monotonic time, code, whether this driver ended it)
        self.ended_by_us = False
        self.wants_running = False
        # The driver and the supervisor may start the process at the same moment.
        self.starting = threading.Lock()

    def words(self):
        service = MACHINES.services()[self.name]
        return [self.folder if word.startswith("/run/") else word for word in service["command"][1:]]

    def start(self):
        with self.starting:
            if self.is_running():
                return
            self.ended_by_us, self.wants_running = False, True
            self._spawn()
        threading.Thread(target=self._supervise, args=(self.process,), daemon=True).start()

    def _spawn(self):
        system.cluster.make_folder(self.folder)
        engine = MACHINES.services()[self.name]["environment"]["TIDECAST_ENGINE"]
        self.environment = {**self.environment, "TIDECAST_ENGINE": engine}
        super().start(preexec_fn=die_with_parent)
        MACHINES.note_pid(self.name, self.process.pid)

    def _supervise(self, process):
        """Runs until its process has ended: to the kernel, the parent of a process is the thread that started
        it, and the process dies with its parent."""
        while True:
            code = process.wait()
            self.exits.append((time.monotonic(), code, self.ended_by_us))
            if code != 70:
                return
            time.sleep(1)
            with self.starting:
                if not self.wants_running or self.process is not process:
                    return
                self._spawn()
                process = self.process

    @property
    def pid(self):
        return self.process.pid

    def send_signal(self, how):
        self.process.send_signal(how)

    def kill(self, how=signal.SIGKILL, limit=40):
        self.ended_by_us, self.wants_running = True, False
        self.send_signal(how)
        return self.process.wait(timeout=limit)

    def view(self, timeout=3):
        """The cluster as this node sees it (as in `tidecast cluster status --json`), over its admin
        socket."""
        status, said = admin.ask(self.folder, "GET", "/admin/cluster", timeout=timeout)
        if status != 200:
            raise OSError(f"{status} {said}")
        return json.loads(said)

    def usage(self):
        """Open descriptors and resident KiB of the process; None where it has ended."""
        try:
            return kernel.descriptors(self.pid), round(kernel.resident(self.pid) * 1024)
        except (OSError, StopIteration):
            return None

    def log_since(self, place):
        with open(self.log, "rb") as file:
            file.seek(place)
            return file.read().decode(errors="replace")

    def log_size(self):
        return os.path.getsize(self.log)


class Cluster:
    """PostgreSQL, three shards, three gateways, and the switch between them."""

    def __init__(self):
        self.nodes = {name: Node(name) for name in MACHINES.services() if name != "db"}
        self.gateways = [node for node in self.nodes.values() if node.is_gateway]
        self.shards = [node for node in self.nodes.values() if node.is_shard]
        self.database_options = ""

    def up(self):
        if not os.path.exists(MACHINES.binary):
            raise SystemExit(f"{MACHINES.binary} is not there: swift build")
        if os.path.exists(MACHINES.state):
            MACHINES.down()
        os.makedirs(MACHINES.state)
        MACHINES.network.make(MACHINES.services())
        MACHINES.start("db")
        for node in self.nodes.values():
            node.start()
        self.wait(lambda: all(self.is_ready(node) for node in self.nodes.values()), "all nodes to be ready",
                  90)

    def down(self):
        for node in self.nodes.values():
            if node.is_running():
                node.wants_running, node.ended_by_us = False, True
                node.send_signal(signal.SIGCONT)
                node.send_signal(signal.SIGKILL)
                node.process.wait()
        MACHINES.down()

    @staticmethod
    def wait(condition, what, limit):
        if until(condition, limit, 0.1) is None:
            raise TimeoutError(f"waited {limit} s for {what}")

    def is_ready(self, node):
        try:
            return node.is_running() and node.view()["status"] == "ready"
        except (OSError, ValueError):
            return False

    def agreement(self):
        """Why the running nodes do not all see one whole cluster; `None` where they do."""
        views = {}
        for node in self.nodes.values():
            if not node.is_running():
                return f"{node.name} does not run"
            try:
                view = node.view()
            except (OSError, ValueError) as error:
                return f"{node.name} does not answer: {error}"
            if view["status"] != "ready":
                return f"{node.name} is not ready: {view['status']}"
            if view["unowned"]:
                return f"{node.name} sees {view['unowned']} partitions without an owner"
            names = sorted(member["node"] for member in view["members"])
            if names != sorted(self.nodes):
                return f"{node.name} sees the members {names}"
            views[node.name] = [(one["owner"], one["epoch"]) for one in view["partitions"]]
        different = {str(view) for view in views.values()}
        return None if len(different) == 1 else "views differ: " + self._difference(views)

    @staticmethod
    def _difference(views):
        first = next(iter(views))
        for name, view in views.items():
            wrong = [place for place, one in enumerate(view) if one != views[first][place]]
            if wrong:
                return f"{name} and {first} about {len(wrong)} partitions, such as {wrong[0]}"
        return ""

    # Ways to break the cluster. `heal` undoes all of them.

    def in_space(self, name, *command, check=True):
        return subprocess.run(MACHINES.network.in_namespace(name, *command), check=check, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)

    def rule(self, name, *words):
        """Adds a rule of the packet filter in a node's namespace, such as `INPUT -s ADDRESS -j DROP`."""
        self.in_space(name, "iptables", "-w", "-A", *words)

    def unrule(self, name, *words):
        self.in_space(name, "iptables", "-w", "-D", *words)

    def address(self, name):
        return MACHINES.address(name)

    def cut(self, one, other):
        """Drops all packets between the two in both directions, without an error to either side."""
        self.rule(one, "INPUT", "-s", self.address(other), "-j", "DROP")
        self.rule(other, "INPUT", "-s", self.address(one), "-j", "DROP")

    def mend(self, one, other):
        self.unrule(one, "INPUT", "-s", self.address(other), "-j", "DROP")
        self.unrule(other, "INPUT", "-s", self.address(one), "-j", "DROP")

    def shape(self, name, *words):
        """Puts a queueing discipline on a node's interface."""
        self.in_space(name, "tc", "qdisc", "replace", "dev", "eth0", "root", *words)

    def heal(self):
        for name in MACHINES.services():
            for table in ("filter", "nat", "mangle"):
                self.in_space(name, "iptables", "-w", "-t", table, "-F")
            self.in_space(name, "tc", "qdisc", "del", "dev", "eth0", "root", check=False)
        for node in self.nodes.values():
            if node.is_running():
                node.send_signal(signal.SIGCONT)
