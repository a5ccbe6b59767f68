"""Nodes of a cluster on one PostgreSQL, all on 127.0.0.1, and what a test has made so far."""
import contextlib
import os
import signal
import subprocess

from system.ports import free_port
from system.postgres import Database
from system.process import UNPRIVILEGED, DevelopmentServer, Server, make_certificates, make_folder, remove

LOG_LINES_SHOWN = 60


class Node(DevelopmentServer):
    """A node with its data and its log in `folder`/`name`. Nodes of one `folder` share a certificate for
    their links. The database is the home; a cluster may be spread over `further` databases."""

    def __init__(self, folder, name, database, *further, binary=None):
        own = os.path.join(folder, name)
        super().__init__(own, "--partitions", "32", name=name, binary=binary)
        self.database, self.further = database, further
        self.peer, self.data, self.log = free_port(), own, os.path.join(own, "log")
        subprocess.run([UNPRIVILEGED, "mkdir", "-m", "700", own], check=True)
        self.certificates = os.path.join(folder, "certificates")
        if not os.path.exists(self.certificates):
            make_certificates(self.certificates, "--cluster", binary=self.binary)

    def words(self):
        """The command line after `tidecast server`."""
        spread = [word for one in self.further for word in ("--further-engine", one.url)]
        return ["--node", self.name, "--engine", self.database.url, *spread, "--peer",
                f"127.0.0.1:{self.peer}",
                *self.links(), *super().words()]

    def links(self):
        """The options for the links between nodes."""
        return ["--peer-cert", f"{self.certificates}/peer.pem", "--peer-key", f"{self.certificates}/peer.key",
                "--peer-ca", f"{self.certificates}/ca.pem"]


def reset_tcp(action, nodes, directions):
    """Adds (-A) or deletes (-D) rules: the kernel answers each TCP packet to (--dport) or from (--sport) the
    peer port of one of the nodes with a reset. With one of the directions alone, what a node writes to a
    connection that the other one began still arrives."""
    for node in nodes:
        for port in directions:
            subprocess.run(["iptables", "-w", action, "INPUT", "-p", "tcp", port, str(node.peer), "-j",
                            "REJECT", "--reject-with", "tcp-reset"], check=True)


def start(nodes):
    """Starts the nodes, and waits until all of them are ready."""
    for node in nodes:
        node.start()
    for node in nodes:
        node.wait_ready()


class Made:
    """The folder, the databases and the nodes that a test has made so far."""

    def __init__(self):
        self.folder, self.databases, self.nodes = make_folder(), [], []

    def database(self, folder=None):
        """A new database, in this test's folder or in another one."""
        self.databases.append(Database(folder or self.folder))
        return self.databases[-1]

    def cluster(self, *names):
        """A new database, and nodes of these names on it, not started."""
        database = self.database()
        self.nodes += [Node(self.folder, name, database) for name in names]
        return database, self.nodes

    def server(self, *words):
        """A server on its own, with its data in this test's folder, that is ready."""
        self.nodes.append(Server(self.folder, *words))
        start(self.nodes[-1:])
        return self.nodes[-1]

    def print_logs(self):
        """Prints the last lines of each node's log."""
        for node in self.nodes:
            lines = node.log_text().splitlines(True)[-LOG_LINES_SHOWN:]
            print(f"--- {node.name}\n" + "".join(lines))

    def check_logs(self):
        """No line of a log shows an enumeration of Swift's, as in `refused("the reason")`."""
        for node in self.nodes:
            dumps = [line for line in node.log_text().splitlines() if '(\\"' in line]
            if dumps:
                raise SystemExit(f"FAIL: {node.name} logs a value as Swift prints it: {dumps[0]}")

    def end(self):
        """Ends all processes, and removes the folder."""
        for node in self.nodes:
            if node.is_running():
                node.process.send_signal(signal.SIGCONT)
                node.kill()
        for database in self.databases:
            # A test may have stopped the database.
            with contextlib.suppress(subprocess.CalledProcessError):
                database.stop()
        remove(self.folder)


@contextlib.contextmanager
def making():
    """Gives a `Made`, and ends and removes all of it at the end. Where the test fails, it prints the nodes'
    logs."""
    made = Made()
    try:
        yield made
        made.check_logs()
    except BaseException:
        made.print_logs()
        raise
    finally:
        made.end()
