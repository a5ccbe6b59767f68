"""A server, a well-behaved client, and the effect of an attack on both; see tools/hostile."""
import os
import resource
import select
import subprocess
import sys
import time
import traceback

from attacks import ATTACKS, Target, short_storm

from system import kernel
from system.checks import until
from system.process import ROOT, SecureServer, make_folder, remove

HERE = os.path.dirname(os.path.abspath(__file__))
# Sends a second of the well-behaved client.
RATE = 100
# MiB by which memory may grow in an attack: the bound for its connections (EdgeConfiguration), and a debug
# build's overhead.
GROWTH_MIB = {"upgrade": 32, "connect": 32, "bodies": 160, "windows": 64, "fields": 128, "heads": 128,
              "unread": 96, "streams": 128, "silent": 64}
GROWTH_OTHER_MIB = 256
# Seconds; more than the server's longest deadlines: 60 s until streams are reset, and 120 s until their
# connection is idle.
PATIENCE = 200
# Seconds from the end of a storm, and of another attack, until memory is read again.
STORM_LATER, LATER = 30, 12
# Seconds for which the client is alone before an attack.
ALONE, ALONE_SHORT = 4, 1


def share(values, part):
    """The quantile `part` of the values; NaN where there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else float("nan")


class Trial:
    def __init__(self, program, seconds, is_short):
        self.program, self.seconds, self.is_short, self.wrong = program, seconds, is_short, []

    def __enter__(self):
        # The storm needs a descriptor for each connection, in this process and in the server.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        os.umask(0o022)
        self.work = make_folder()
        self.server = SecureServer(self.work, binary=self.program)
        self.server.start()
        self.server.wait_ready()
        self.target, self.pid = Target(self.server.port, self.server.secure), self.server.process.pid
        with open(f"{self.work}/beside", "wb") as out:
            self.beside = subprocess.Popen(
                [sys.executable, f"{HERE}/beside.py", str(self.server.port), str(RATE)], stdout=out,
                env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "Tests")})
        until(lambda: os.path.getsize(f"{self.work}/beside") > 0, 30)
        return self

    def __exit__(self, kind, *_):
        self.beside.kill()
        self.beside.wait()
        if self.server.is_running():
            try:
                self.server.end(limit=30)
            except subprocess.TimeoutExpired:
                self.server.kill()
        if self.server.process.returncode != 0:
            self.wrong.append(f"the server ended with {self.server.process.returncode}")
        if self.wrong or kind:
            print(*self.server.log_text().splitlines(True)[-20:], sep="", end="")
        remove(self.work)

    # One attack

    def attack(self, name):
        """Runs one attack, and returns its figures."""
        is_storm = name in ("storm", "storm_again")
        if is_storm and self.is_short:
            work = short_storm
        else:
            work = ATTACKS[name]
        began = time.monotonic()
        time.sleep(ALONE_SHORT if self.is_short else ALONE)
        before, descriptors, cpu = kernel.resident(self.pid), kernel.descriptors(
            self.pid), kernel.cpu_seconds(self.pid)
        attacks = time.monotonic()
        said, child = self.start(work, descriptors)
        most, ended, rid, is_well = before, None, None, True
        while True:
            most = max(most, kernel.resident(self.pid))
            if select.select([said], [], [], 0.05)[0]:
                word = os.read(said, 1)
                if word == b"a":
                    ended, used = time.monotonic(), kernel.cpu_seconds(self.pid) - cpu
                elif word == b"r":
                    rid = time.monotonic() - ended
                elif word == b"x":
                    self.wrong.append(f"{name}: what the attacker left open is open {PATIENCE} s later")
                else:
                    is_well = word != b"f" and ended is not None
                    break
            self.alive(name)
        os.close(said)
        os.waitpid(child, 0)
        if not is_well:
            self.wrong.append(f"{name}: the attack itself failed")
            ended, used = ended or time.monotonic(), 0
        now = self.settle(descriptors)
        self.catch_up(ended)
        if now > descriptors + 4:
            self.wrong.append(f"{name}: {descriptors} descriptors before, {now} after")
        if not self.is_short:
            time.sleep(STORM_LATER if is_storm else LATER)
        after = kernel.resident(self.pid)
        if most > before + GROWTH_MIB.get(name, GROWTH_OTHER_MIB):
            self.wrong.append(f"{name}: memory grew from {before:.0f} to {most:.0f} MiB")
        if name == "storm_again" and not self.is_short and after > before * 1.1:
            self.wrong.append(f"{name}: memory was {before:.0f} MiB before, and is {after:.0f} MiB after it")
        alone, beside = self.latencies(began, attacks), self.latencies(attacks, ended)
        return {
            "attack": name, "rss": [round(one, 1) for one in (before, most, after)],
            "p50": [round(share(one, 0.5), 2) for one in (alone[0], beside[0])],
            "p99": [round(share(one, 0.99), 2) for one in (alone[0], beside[0])], "failed": beside[1],
            "cpu": round(used / max(0.1, ended - attacks), 2), "rid": rid and round(rid, 1),
            "descriptors": [descriptors, now],
        }

    def start(self, work, descriptors):
        """Starts a process that attacks, and returns a pipe from it. The process writes `a` after the attack;
        then `r` when the server has closed all connections that the attack left open, and has no more than
        `descriptors` again, or `x` where the server does not; `f` where the attack failed. Then it closes the
        pipe."""
        said, say = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if child:
            os.close(say)
            return said, child
        try:
            # Real attackers use machines of their own: here the server and the well-behaved client get the
            # processor first.
            os.nice(10)
            left = work(self.target, self.seconds)
            os.write(say, b"a")
            if left and not self.is_short:
                # Closed by the server's descriptors: who reads nothing cannot see the end of its connection.
                is_rid = until(lambda: kernel.descriptors(self.pid) <= descriptors, PATIENCE, 0.2)
                os.write(say, b"r" if is_rid else b"x")
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
            os.write(say, b"f")
        finally:
            os._exit(0)

    def settle(self, wanted):
        """The number of the server's descriptors, as soon as it is at most `wanted`, or after 30 s."""
        until(lambda: kernel.descriptors(self.pid) <= wanted, 30, 0.2)
        return kernel.descriptors(self.pid)

    def catch_up(self, ended):
        """Waits, at most 30 s, until sends that were due after `ended` are answered: then the earlier sends
        have their answers too."""
        until(lambda: len(self.latencies(ended, float("inf"))[0]) >= RATE / 4, 30, 0.2)

    def alive(self, name):
        if not self.server.is_running():
            self.wrong.append(f"{name}: the server ended")
            raise SystemExit(f"FAIL {name}: the server ended with {self.server.process.returncode}")

    def latencies(self, begin, end):
        """For the sends that were due between `begin` and `end`: their milliseconds, and how many were not
        answered with 200."""
        times, failed = [], 0
        with open(f"{self.work}/beside", encoding="ascii") as file:
            for line in file:
                fields = line.split()
                if len(fields) == 3 and begin <= float(fields[0]) < end:
                    times.append(float(fields[1]))
                    failed += fields[2] != "200"
        return times, failed

    # The table

    header = (f"{'attack':14} {'RSS before':>10} {'most':>6} {'after':>6} {'p50':>6} {'beside':>7} {'p99':>6}"
              f" {'beside':>7}"
              f" {'failed':>6} {'CPU':>5} {'rid':>6} {'descriptors':>11}")

    def line(self, row):
        rid = "left" if row["rid"] is None else f"{row['rid']:.1f}"
        (before, most, after), (p50, p50s), (p99, p99s) = row["rss"], row["p50"], row["p99"]
        return (f"{row['attack']:14} {before:10.1f} {most:6.1f} {after:6.1f} {p50:6.1f} {p50s:7.1f}"
                f" {p99:6.1f} {p99s:7.1f}"
                f" {row['failed']:6} {row['cpu']:5.2f} {rid:>6}"
                f" {row['descriptors'][0]:5}/{row['descriptors'][1]:<5}")
