"""The cluster under test: the topology of deploy/compose.yaml in network namespaces of its own, and the ways to break it.

tools/cluster makes the network, under another name and on another subnet, so that both can run at once. This module starts
the nodes, with one supervisor thread each, since the checkers need to know how and when each process ended.
"""
import ctypes
import importlib.machinery
import importlib.util
import json
import os
import signal
import socket
import subprocess
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("TIDECAST_CLUSTER", "chaos")
os.environ.setdefault("TIDECAST_NETWORK", "10.78.0")
os.environ.setdefault("TIDECAST", os.path.join(ROOT, ".build/debug/tidecast"))

API_PORT, PEER_PORT, DATABASE_PORT = 8787, 8788, 5432


def _load_tool():
    loader = importlib.machinery.SourceFileLoader("tidecast_cluster", os.path.join(ROOT, "tools/cluster"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidecast_cluster", loader))
    loader.exec_module(module)
    return module


tool = _load_tool()
BINARY = tool.BINARY
_plain_services = tool.services
_cached = {}


def _services():
    """The services of deploy/compose.yaml. Shards also get a data folder, for the admin socket over which the driver asks
    them."""
    if not _cached:
        for name, service in _plain_services().items():
            service = dict(service)
            if "command" in service and "--data" not in service["command"]:
                service["command"] = [*service["command"], "--data", "/run/tidecast/data"]
            _cached[name] = service
    return _cached


tool.services = _services


def _die_with_parent():
    """The child dies with its parent, so that a run that breaks off leaves no process."""
    ctypes.CDLL("libc.so.6").prctl(1, signal.SIGKILL)


class Node:
    """One tidecast process and its supervisor, which starts it again after a fail-stop (70), as `restart: always` does."""

    def __init__(self, name, cluster):
        self.name, self.cluster = name, cluster
        self.is_gateway, self.is_shard = name.startswith("gateway"), name.startswith("shard")
        self.address = tool.address(name)
        self.folder = tool.node_folder(name)
        self.log_path = os.path.join(tool.STATE, f"{name}.log")
        self.process = None
        self.exits = []  # (monotonic time, code, whether this driver ended it)
        self.ended_by_us = False
        self.wants_running = False
        self.environment = {}
        # The driver and the supervisor may start the process at the same moment.
        self.starting = threading.Lock()

    def start(self):
        with self.starting:
            if self.process and self.process.poll() is None:
                return
            self.ended_by_us, self.wants_running = False, True
            self._spawn()
        threading.Thread(target=self._supervise, args=(self.process,), daemon=True).start()

    def _spawn(self):
        service = tool.services()[self.name]
        command = [self.folder if word.startswith("/run/") else word for word in service["command"]]
        tool.make_folder(self.folder)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                tool.in_namespace(self.name, tool.UNPRIVILEGED, BINARY, *command), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, preexec_fn=_die_with_parent,
                env={**os.environ, "TIDECAST_ENGINE": service["environment"]["TIDECAST_ENGINE"], **self.environment})
        with open(os.path.join(tool.STATE, f"{self.name}.pid"), "w", encoding="utf-8") as file:
            file.write(str(self.process.pid))

    def _supervise(self, process):
        """Runs until its process has ended: to the kernel, the parent of a process is the thread that started it, and the process
        dies with its parent."""
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

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def send_signal(self, how):
        self.process.send_signal(how)

    def kill(self, how=signal.SIGKILL, limit=40):
        self.ended_by_us, self.wants_running = True, False
        self.send_signal(how)
        return self.process.wait(timeout=limit)

    def view(self, timeout=3):
        """The cluster as this node sees it (as in `tidecast cluster status --json`), over its admin socket."""
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(timeout)
            link.connect(os.path.join(self.folder, "admin.sock"))
            link.sendall(b"GET /admin/cluster HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            data = b""
            while True:
                piece = link.recv(65536)
                if not piece:
                    break
                data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise OSError(head.decode(errors="replace"))
        return json.loads(body)

    def usage(self):
        """Open descriptors and resident KiB of the process."""
        try:
            with open(f"/proc/{self.pid}/status", encoding="utf-8") as file:
                resident = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
            return len(os.listdir(f"/proc/{self.pid}/fd")), resident
        except (OSError, StopIteration):
            return None

    def log_since(self, place):
        with open(self.log_path, "rb") as file:
            file.seek(place)
            return file.read().decode(errors="replace")

    def log_size(self):
        return os.path.getsize(self.log_path)


class Cluster:
    """PostgreSQL, three shards, three gateways, and the switch between them."""

    def __init__(self):
        self.nodes = {name: Node(name, self) for name in tool.services() if name != "db"}
        self.gateways = [node for node in self.nodes.values() if node.is_gateway]
        self.shards = [node for node in self.nodes.values() if node.is_shard]
        self.database_options = ""

    def up(self):
        if not os.path.exists(BINARY):
            raise SystemExit(f"{BINARY} is not there: swift build")
        if os.path.exists(tool.STATE):
            tool.down()
        os.makedirs(tool.STATE)
        tool.make_network()
        tool.start("db")
        for node in self.nodes.values():
            node.start()
        self.wait(lambda: all(self.is_ready(node) for node in self.nodes.values()), "all nodes to be ready", 90)

    def down(self):
        for node in self.nodes.values():
            if node.is_running():
                node.wants_running, node.ended_by_us = False, True
                node.send_signal(signal.SIGCONT)
                node.send_signal(signal.SIGKILL)
                node.process.wait()
        tool.down()

    @staticmethod
    def wait(condition, what, limit):
        end = time.monotonic() + limit
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {limit} s for {what}")
            time.sleep(0.1)

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
        return subprocess.run(tool.in_namespace(name, *command), check=check, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)

    def rule(self, name, *words):
        """Adds a rule of the packet filter in a node's namespace, such as `INPUT -s ADDRESS -j DROP`."""
        self.in_space(name, "iptables", "-w", "-A", *words)

    def unrule(self, name, *words):
        self.in_space(name, "iptables", "-w", "-D", *words)

    def address(self, name):
        return tool.address(name)

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
        for name in tool.services():
            for table in ("filter", "nat", "mangle"):
                self.in_space(name, "iptables", "-w", "-t", table, "-F")
            self.in_space(name, "tc", "qdisc", "del", "dev", "eth0", "root", check=False)
        for node in self.nodes.values():
            if node.is_running():
                node.send_signal(signal.SIGCONT)
