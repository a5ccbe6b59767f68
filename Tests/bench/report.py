"""The machine, the page docs/benchmarks.md, and its plots."""
import os
import platform
import statistics
import subprocess
import sys
import time

from bench.common import number, run
from bench.targets import TARGETS
from system.process import ROOT

RESULTS = os.path.join(ROOT, "docs/benchmarks/results.json")
PAGE = os.path.join(ROOT, "docs/benchmarks.md")


def sync_milliseconds():
    """The disk's own limit in ms: an append of 4 KiB and fdatasync, median of 200."""
    path = os.path.join(ROOT, ".build/bench-data/sync")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    times = []
    for _ in range(200):
        began = time.perf_counter()
        os.write(file, b"x" * 4096)
        os.fdatasync(file)
        times.append((time.perf_counter() - began) * 1000)
    os.close(file)
    os.unlink(path)
    return statistics.median(times)


def machine():
    """What the page says of this machine and of the programs."""
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")),
                     platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    nginx = subprocess.run(["/usr/sbin/nginx", "-v"], capture_output=True,
                           text=True).stderr.split("/")[-1].strip()
    redis = run("/usr/bin/redis-server", "--version").split("v=")[1].split()[0]
    return {"cpu": model, "cores": os.cpu_count(), "memory": round(memory), "kernel": platform.release(),
            "system": next((line.split('"')[1]
                            for line in open("/etc/os-release") if line.startswith("PRETTY_NAME")), ""),
            "swift": run("swift", "--version").split("\n")[0], "nginx": nginx, "redis": redis,
            "load": round(os.getloadavg()[0], 1), "sync_ms": round(sync_milliseconds(), 2)}


def verdict(figure, unit, must, aim):
    """Whether a figure meets its aim, or what it must meet."""
    if must is None:
        return ""
    is_rate = unit.endswith("a second") or unit.startswith(("simulated hours", "% of the rate"))

    def better(limit):
        return figure >= limit if is_rate else figure <= limit
    if aim is not None and better(aim):
        return "aim met"
    return "must met" if better(must) else "**must missed**"


INTRODUCTION = """# Benchmarks

Made by `tools/bench`; [benchmarks/results.json](benchmarks/results.json) has the raw figures, dates and
commands. Every server ran on loopback on the same machine as its load, one after the other in the same run,
measured by the same client (`tidecast bench`, one thread). The key figure is **CPU-µs each**: user and system
time of the server's processes for each operation, of repeated runs the middle one. Differences under 15 %
mean nothing: compare two builds in turn in one run.

Tidecast's data was on disk and synced before each answer, with bearer, JSON and quotas checked. nginx ran
with one worker; redis and nchan keep nothing on disk except for `SADD`, with `appendfsync always`. Events are
about 200 bytes.
"""
# Facts that the page leaves out: results.json has them.
LEFT_OUT = ("body bytes", "bytes a delivery", "messages", "requests", "resident before, MiB",
            "resident with connections, MiB", "registration CPU µs", "registrations a second")
# Targets of which the first table says enough.
WITHOUT_ROWS = ("T11", "T15", "T17", "T18", "PG", "SOAK", "GROWTH")


def write_page(results):
    """Writes docs/benchmarks.md from the results of all runs."""
    lines = [*INTRODUCTION.split("\n"), machine_line(results), "", *targets_table(results), "",
             "![CPU for each operation beside peers](benchmarks/cpu.png)", ""]
    if os.path.exists(os.path.join(ROOT, "docs/benchmarks/latency.png")):
        lines += ["![Latencies](benchmarks/latency.png)", ""]
    lines += ["## Beside peers", "", "CPU-µs each; results.json has rates and latencies.", ""]
    for name in TARGETS:
        entry = results["targets"].get(name)
        if entry and name not in WITHOUT_ROWS and len(entry["rows"]) > 1:
            lines.append(f"- {name}: " + "; ".join(peer_of(row) for row in entry["rows"]))
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write("\n".join(lines).rstrip() + "\n")


def machine_line(results):
    """The machine of the newest run."""
    facts = max(results["targets"].values(), key=lambda entry: entry["when"])["machine"]
    return (f"The machine: {facts['cpu']}, {facts['cores']} cores, {facts['memory']} GiB, {facts['system']},"
            f" kernel {facts['kernel']}, {facts['swift']}, nginx {facts['nginx']}, redis {facts['redis']}; "
            f"a 4 KiB append with fdatasync takes {facts['sync_ms']} ms.")


def targets_table(results):
    """All targets with their figures, and whether they are met."""
    lines = ["## Targets", "", "| | work | figure (must, aim) | |", "| --- | --- | --- | --- |"]
    for name, (work, figures) in TARGETS.items():
        entry = results["targets"].get(name)
        own = [row for row in (entry or {}).get("rows", []) if row["who"].startswith("tidecast")]
        texts, verdicts = [], []
        for key, unit, must, aim in figures:
            value = own[0].get(key) if own else None
            bounds = "" if must is None else f" ({number(must)}, {number(aim)})"
            texts.append(f"{number(value)} {unit}{bounds}")
            verdicts.append(verdict(value, unit, must, aim) if value is not None else "not measured")
        wrong = f" (wrong: {own[0]['wrong']})" if own and own[0]["wrong"] else ""
        results_of = "; ".join(dict.fromkeys(verdicts)) + wrong
        lines.append(f"| {name} | {work} | {'; '.join(texts)} | {results_of} |")
    return lines


def peer_of(row):
    """One server with its CPU for each operation, or what else was measured of it."""
    facts = "; ".join(f"{number(value)} {key}" for key, value in row["facts"].items()
                      if value and key not in LEFT_OUT)
    return f"{row['who']} {number(row['us']) if row.get('us') else facts}"


def plots():
    """Plots the results, by a Python that gets matplotlib from PyPI."""
    venv = os.path.join(ROOT, ".build/bench-venv")
    python = os.path.join(venv, "bin/python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "matplotlib"], check=True)
    subprocess.run([python, os.path.join(ROOT, "Tests/bench/plots.py"), RESULTS], check=True)
