"""The state as the database has it: rows read with psql, independent of what nodes and gateways say."""
import os
import subprocess
import threading

from topology import MACHINES

SAMPLE = """SELECT p.id, coalesce(p.owner, 0), p.epoch, p.floor, greatest(p.floor - 1,
  (SELECT max(sequence) FROM tidecast.journal AS j WHERE j.partition = p.id)) FROM tidecast.partition AS p"""
# The high bits of a batch's id are its session; the low 40 bits are a number, 0 for a barrier.
JOURNAL = """SELECT p.id, p.floor, coalesce(min(j.sequence), 0), coalesce(max(j.sequence), 0),
  count(j.sequence),
  count(*) FILTER (WHERE j.before <> j.batch >> 40 AND j.batch & ((1::int8 << 40) - 1) <> 0)
FROM tidecast.partition AS p LEFT JOIN (
  SELECT *, lag(batch >> 40) OVER (PARTITION BY partition ORDER BY sequence) AS before FROM tidecast.journal
) AS j ON j.partition = p.id GROUP BY p.id, p.floor"""


class Database:
    def __init__(self, service="db"):
        setting = MACHINES.services()["db"]["environment"]
        self.folder = MACHINES.volume(service)
        self.user, self.password, self.name = (
            setting["POSTGRES_USER"], setting["POSTGRES_PASSWORD"], setting["POSTGRES_DB"])

    def command(self, *words):
        # A session over the local socket never waits long, and the faults of this driver do not end it.
        return (["psql", "-h", self.folder, "-U", self.user, "-d", self.name, "-XAtq", "-F", "|", *words],
                {**os.environ, "PGPASSWORD": self.password, "PGAPPNAME": "chaos", "PGCONNECT_TIMEOUT": "5"})

    def query(self, sql, timeout=20):
        command, environment = self.command("-v", "ON_ERROR_STOP=1", "-c", sql)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise OSError(done.stderr.strip())
        return [line.split("|") for line in done.stdout.splitlines() if line]

    def hold(self, *statements):
        """Starts a session that runs the statements and then stays open. `kill` of the returned process ends
        it."""
        command, environment = self.command("-v", "ON_ERROR_STOP=1")
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        for statement in statements:
            process.stdin.write(statement + ";\n")
        process.stdin.write("\\echo held\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.strip() == "held":
                return process
        raise OSError("the holding session ended")

    def journal(self):
        return [tuple(int(field) for field in row) for row in self.query(JOURNAL)]

    def sample(self):
        rows = [[int(field) for field in row] for row in self.query(SAMPLE, timeout=5)]
        return {row[0]: (row[1] or None, row[2], row[3], row[4]) for row in rows}


class Monitor(threading.Thread):
    """Samples the partitions' rows once a second, as far as the database answers."""

    def __init__(self, database):
        super().__init__(daemon=True)
        self.database, self.samples, self.over = database, [], threading.Event()

    def run(self):
        while True:
            try:
                self.samples.append(self.database.sample())
            except (OSError, ValueError, subprocess.TimeoutExpired):
                pass
            if self.over.wait(1):
                return

    def stop(self):
        self.over.set()
        self.join(timeout=30)

    def moves(self):
        """How often partitions changed their owners: the sum of the risen epochs over all partitions."""
        if len(self.samples) < 2:
            return 0
        first, last = (next(one for one in way if one) for way in (self.samples, reversed(self.samples)))
        return sum(last[one][1] - first[one][1] for one in first if one in last)
