"""Tidecast's servers under measurement: one on SQLite, and a gateway with shards on PostgreSQL. They run as
this script's user, from the release build."""
import os
import tempfile
import time

from bench.common import DATA, RELEASE
from system.checks import wait
from system.ports import free_port
from system.postgres import Database
from system.process import Server, remove

PARTITIONS = 32
SETTLE_SECONDS = 6


def make_folder():
    """A new folder on the repository's disk."""
    os.makedirs(DATA, exist_ok=True)
    return tempfile.mkdtemp(prefix="tidecast-bench-", dir=DATA)


class Tidecast(Server):
    """The server as its users run it: a project with keys, raised quotas, everything durable on a real disk.
    The constructor waits until it is ready; the end of the `with` block ends it and removes its folder."""
    wrapper = ()

    def __init__(self, *options, folder=None, binary=RELEASE):
        super().__init__(folder or make_folder(), *options, binary=binary)
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise

    def begin(self):
        """Starts the server, and makes the project."""
        self.start()
        self.wait_ready()
        self.prepare()

    def prepare(self):
        """Makes the project, its keys and its quotas."""
        self.command("project", "create", "bench", "--service-account", os.path.join(self.folder, "sa.json"))
        self.command("project", "quota", "bench", "--sends-per-minute", "6000000000",
                     "--subscriptions-per-second",
                     "100000000", "--registrations-per-second", "100000000", "--fanouts", "1000000")
        self.device_key = self.command("project", "key", "create", "bench", "--kind", "device").strip()
        self.token = self.command("project", "key", "create", "bench", "--kind", "bearer").strip()

    def load_options(self):
        """The variables and the options of a load on this server."""
        return [f"TIDECAST_API_KEY={self.device_key}", f"TIDECAST_TOKEN={self.token}",
                "--server", f"http://127.0.0.1:{self.port}", "--pid", str(self.process.pid)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.is_running():
            self.end()
        remove(self.folder)


class Shard(Server):
    """A node of the cluster on the database at `url`, with its data in `folder`/`name`."""
    wrapper = ()

    def __init__(self, folder, name, roles, url):
        super().__init__(os.path.join(folder, name), name=name, binary=RELEASE)
        os.mkdir(self.folder)
        self.options = cluster_options(name, roles, url)


def cluster_options(name, roles, url):
    """The options of a node with these roles."""
    return ["--engine", url, "--node", name, "--roles", roles, "--peer", f"127.0.0.1:{free_port()}",
            "--partitions",
            str(PARTITIONS)]


class OnPostgres(Tidecast):
    """A gateway and `shards` shards on a PostgreSQL of their own, on the same disk. Without shards the
    gateway is also a shard."""

    def __init__(self, shards=0):
        folder = make_folder()
        self.database, self.shards = Database(folder), []
        self.shard_count = shards
        super().__init__(*cluster_options("gateway", "gateway" if shards else "gateway,shard",
                                          self.database.url),
                         folder=folder)

    def begin(self):
        """Starts the shards and the gateway, and makes the project."""
        self.shards += [Shard(self.folder, f"shard-{number}", "shard", self.database.url)
                        for number in range(self.shard_count)]
        for shard in self.shards:
            shard.start()
        self.start()
        self.wait_ready()
        names = {shard.name for shard in self.shards} or {"gateway"}
        wait(lambda: set(self.owners()) == names, "each shard to own partitions")
        # Until each has its share: partitions move one after the other.
        time.sleep(SETTLE_SECONDS if self.shards else 0)
        self.prepare()

    def __exit__(self, *_):
        if self.is_running():
            self.end()
        for shard in self.shards:
            if shard.is_running():
                shard.end()
        self.database.stop()
        remove(self.folder)
