"""PostgreSQL servers of the tests: each in a folder of its own, on a free port of 127.0.0.1."""
import glob
import os
import shutil
import subprocess
import sys

from system.ports import free_port

STORE = "tidecast"
# Each of the server's own keys in the database, and the first two bytes after its checksum, in hexadecimal:
# e501 where the key is sealed.
SECRETS = ("SELECT key, encode(substring(value FROM 9 FOR 2), 'hex') FROM (SELECT key, value FROM"
           " tidecast.key UNION ALL"
           " SELECT key, value FROM tidecast.setting WHERE key IN ('signing-keys', 'gossip-key')"
           " OR key LIKE 'web-push:%') AS all_of_them")


def find_programs():
    """The folder of the newest server programs; None where none is installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    return os.path.dirname(found[-1]) if found else None


def programs():
    """The folder of the newest server programs. Ends the script where none is installed."""
    found = find_programs()
    if not found:
        sys.exit("no PostgreSQL server is installed: tools/install-packages test")
    return found


class Database:
    """A PostgreSQL server with its folder in `folder`/pg. The constructor starts it; the script must stop
    it. A start gives `environment` to the server."""
    environment = {}

    def __init__(self, folder):
        self.programs, self.folder, self.port = programs(), os.path.join(folder, "pg"), free_port()
        self.url = f"postgres://{STORE}@127.0.0.1:{self.port}/{STORE}"
        os.mkdir(self.folder)
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")
            os.chmod(folder, 0o755)
        self.fill()

    def fill(self):
        """Makes the folder's contents, and starts the server."""
        self.run("initdb", "-D", f"{self.folder}/data", "-A", "trust", "-E", "UTF8", "-N", "-U", STORE)
        self.start()
        self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", STORE, STORE)

    def run(self, program, *arguments):
        """Runs a server program as the server's user. Raises CalledProcessError."""
        command = [f"{self.programs}/{program}", *arguments]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env={**os.environ, **self.environment})

    def start(self, *how):
        """Starts the server and waits until it takes connections; `how` are further options of pg_ctl."""
        options = f"-k {self.folder} -c listen_addresses=127.0.0.1 -c port={self.port} -c max_connections=60"
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-l", f"{self.folder}/log", "-o", options, *how,
                 "start")

    def stop(self):
        """Stops the server as a crash does (`immediate`). Raises CalledProcessError where it does not run."""
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-m", "immediate", "stop")

    def client(self, program, *words):
        """The command that runs a client program, such as psql, on the database."""
        return [f"{self.programs}/{program}", "-h", "127.0.0.1", "-p", str(self.port), "-U", STORE, "-d",
                STORE, *words]

    def rows(self, sql):
        """The lines of a query's result, with `|` between the columns."""
        return subprocess.run(self.client("psql", "-XAtc", sql), check=True, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=30).stdout.splitlines()
