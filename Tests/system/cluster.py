"""A cluster of a compose file without a container engine: each service is a process in a network namespace.
See tools/cluster, and the nodes of tools/chaos, which have a supervisor of their own."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from system.checks import until
from system.compose import is_database, read_services
from system.network import Network, sh
from system.postgres import programs
from system.process import ROOT, UNPRIVILEGED

COMPOSE = os.path.join(ROOT, "deploy/compose.yaml")
# A service that has not ended by then is killed, as an engine kills a container after `stop_grace_period`.
STOP_SECONDS = 20
READY_SECONDS = 90
FENCED = 70
# The folder of the databases' folders; only their user may write into it.
VOLUMES = "/var/lib/postgresql"


def make_folder(path, user="nobody"):
    """Makes a folder that only `user` may enter, where it is not there."""
    if not os.path.exists(path):
        os.makedirs(path, 0o700)
        shutil.chown(path, user)


class Cluster:
    """The cluster `name` on the /24 `subnet`, whose nodes run `binary`. Logs and process ids are in
    `state`."""

    def __init__(self, name, subnet, binary):
        self.name, self.binary, self.network = name, binary, Network(name, subnet)
        self.state = os.path.join(ROOT, ".build/cluster" if name == "tidecast" else f".build/cluster-{name}")

    def read(self, path):
        """The services of a compose file."""
        return read_services(path, self.node_folder, self.volume)

    def services(self):
        """The services of the file that is up, as `up` read them; where none is up, the services of
        deploy/compose.yaml."""
        path = os.path.join(self.state, "services.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        return self.read(COMPOSE)

    def node_folder(self, name):
        """A node's folder. It is outside of the repository, which may lie in a folder that only root may
        enter."""
        return os.path.join("/run", self.network.namespace(name))

    def volume(self, name):
        """A database's folder."""
        return os.path.join(VOLUMES, self.network.namespace(name))

    def address(self, name):
        """A service's address."""
        return self.network.address(self.services(), name)

    def log(self, name):
        """The path of a service's log."""
        return os.path.join(self.state, f"{name}.log")

    def pid_file(self, name):
        """The path of the file that has a service's process id."""
        return os.path.join(self.state, f"{name}.pid")

    def pid_of(self, name):
        """The id of a service's process; None where it does not run."""
        try:
            with open(self.pid_file(name), encoding="utf-8") as file:
                pid = int(file.read())
            os.kill(pid, 0)
            return pid
        except (OSError, ValueError):
            return None

    def note_pid(self, name, pid):
        """Stores the id of a service's process."""
        with open(self.pid_file(name), "w", encoding="utf-8") as file:
            file.write(str(pid))

    def in_container(self, name, words):
        """The command that runs `words` in the service's namespace, and its environment."""
        service = self.services()[name]

        def here(word):
            target = next((target for target in service["places"] if f"{word}/".startswith(f"{target}/")),
                          None)
            return service["places"][target] + word[len(target):] if target else word
        environment = {**os.environ,
                       **{key: here(str(value)) for key, value in service.get("environment", {}).items()}}
        become = []
        if is_database(service):
            environment["PATH"] = f"{programs()}:{environment['PATH']}"
        if "user" in service:
            become = ["setpriv", f"--reuid={service['user']}", f"--regid={service['user']}", "--init-groups",
                      "--"]
        elif not is_database(service):
            become = [UNPRIVILEGED]
        return self.network.in_namespace(name, *become, *(here(word) for word in words)), environment

    def start_database(self, name, service):
        """Does the work of the image's own entry point."""
        tools, folder, setting = programs(), self.volume(name), service["environment"]
        as_server = ["runuser", "-u", "postgres", "--"]
        if not os.path.exists(folder):
            make_folder(self.node_folder(name), "postgres")
            secret = os.path.join(self.node_folder(name), "secret")
            with open(secret, "w", encoding="utf-8") as file:
                file.write(setting["POSTGRES_PASSWORD"])
            os.chmod(secret, 0o644)
            sh(*as_server, f"{tools}/initdb", "-D", folder, "-U", setting["POSTGRES_USER"], "-A",
               "scram-sha-256",
               "-E", "UTF8", f"--pwfile={secret}", quiet=True)
            with open(f"{folder}/pg_hba.conf", "a", encoding="utf-8") as file:
                file.write("host all all 0.0.0.0/0 scram-sha-256\n")
        options = f"-c listen_addresses=* -c unix_socket_directories={folder} -c max_connections=200"
        sh(*self.network.in_namespace(name, *as_server, f"{tools}/pg_ctl", "-D", folder, "-w", "-l",
                                      f"{folder}/log",
                                      "-o", options, "start"), quiet=True)
        with open(f"{folder}/postmaster.pid", encoding="utf-8") as file:
            self.note_pid(name, file.readline().strip())
        environment = {**os.environ, "PGPASSWORD": setting["POSTGRES_PASSWORD"]}
        subprocess.run([f"{tools}/createdb", "-h", folder, "-U", setting["POSTGRES_USER"],
                        setting["POSTGRES_DB"]],
                       env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def start(self, name):
        """Starts a service that does not run, and waits until its process is there."""
        service = self.services()[name]
        if self.pid_of(name):
            return
        if os.path.exists(self.pid_file(name)):
            os.unlink(self.pid_file(name))
        if is_database(service) and "entrypoint" not in service:
            return self.start_database(name, service)
        for place, source in service["copies"].items():
            shutil.copy(source, place)
        for place in service["places"].values():
            make_folder(place, service.get("user", "nobody"))
        words = [*service.get("entrypoint", [self.binary]), *service.get("command", [])]
        command, environment = self.in_container(name, words)
        pid_file = self.pid_file(name)
        # A fenced node must be started again; in a container, `restart: always` does that.
        loop = (f"while :; do \"$@\" & echo $! > {pid_file}; wait $!; [ $? -eq {FENCED} ] || exit; "
                "sleep 1; done")
        with open(self.log(name), "ab") as log:
            subprocess.Popen(["/bin/sh", "-c", loop, "sh", *command], stdin=subprocess.DEVNULL,
                             stdout=log, stderr=log, env=environment, start_new_session=True)
        while not os.path.exists(pid_file):
            time.sleep(0.01)

    def is_ready(self, name):
        """Whether a node's /readyz answers with 200."""
        return sh(*self.network.in_namespace(name, "curl", "-sf", "-m", "2", "http://127.0.0.1:8787/readyz"),
                  check=False, quiet=True).returncode == 0

    def up(self, path):
        """Starts all services of a compose file, and returns when all nodes are ready."""
        found = self.read(path)
        if not os.path.exists(self.binary):
            sys.exit(f"{self.binary} is not there: swift build -c release --product tidecast")
        if os.path.exists(self.state):
            self.down()
        os.makedirs(self.state)
        with open(os.path.join(self.state, "services.json"), "w", encoding="utf-8") as file:
            os.chmod(file.name, 0o600)
            json.dump(found, file)
        self.network.make(found)
        for name in found:
            self.start(name)
        nodes = [name for name, service in found.items() if not is_database(service)]
        if until(lambda: all(self.is_ready(name) for name in nodes), READY_SECONDS, 0.2) is None:
            sys.exit("not ready: " + ", ".join(name for name in nodes if not self.is_ready(name)))
        self.status()
        for name in nodes:
            if name.startswith("gateway"):
                print(f"{name}: http://{self.address(name)}:8787")

    def status(self):
        """Prints the cluster as a gateway sees it, and returns the command's exit code."""
        if not os.path.exists(self.state):
            sys.exit("there is no cluster here: tools/cluster up")
        gateway = next((name for name in self.services() if name.startswith("gateway") and self.pid_of(name)),
                       None)
        if gateway is None:
            sys.exit("no gateway runs: tools/cluster start gateway-1")
        data = os.path.join(self.node_folder(gateway), "data")
        return sh(*self.network.in_namespace(gateway, self.binary, "cluster", "status", "--data", data),
                  check=False).returncode

    def end(self, name, how):
        """Sends the signal `how` to a service, and waits until its process has ended."""
        pid = self.pid_of(name)
        if pid is None:
            return print(f"{name} does not run")
        os.kill(pid, how)
        limit = time.monotonic() + STOP_SECONDS
        while self.pid_of(name) == pid:
            if time.monotonic() > limit:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        # The other processes of a container end with its first process.
        left = subprocess.run(["ip", "netns", "pids", self.network.namespace(name)], check=True,
                              capture_output=True, text=True).stdout
        for pid in map(int, left.split()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def down(self):
        """Ends everything, and removes the namespaces and folders."""
        found = self.services()
        # SIGQUIT also ends a database at once, and the database frees its shared memory. Its process may
        # still be a script that waits.
        for how in (signal.SIGQUIT, signal.SIGKILL):
            for name, service in reversed(list(found.items())):
                pid = self.pid_of(name)
                if pid and (how == signal.SIGKILL or is_database(service)):
                    os.kill(pid, how)
            time.sleep(0.5)
        self.network.remove(found)
        for name in found:
            shutil.rmtree(self.volume(name), ignore_errors=True)
            shutil.rmtree(self.node_folder(name), ignore_errors=True)
            for place in found[name]["copies"]:
                if os.path.exists(place):
                    os.unlink(place)
        shutil.rmtree(self.state, ignore_errors=True)
