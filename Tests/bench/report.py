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

Made by `tools/bench`; the raw figures are in [benchmarks/results.json](benchmarks/results.json).
Every server ran on loopback on the same machine as its load, one after the other in the same run, and was
measured by the same client (`tidecast bench`, one thread, a process of its own). The key figure is **CPU-µs
each**: user and system time of the server's processes (`/proc/PID/stat`) for each operation; it changes least
on a shared machine. Of repeated runs the middle one stands. Differences under 15 % mean nothing.
[benchmarks/comparisons.md](benchmarks/comparisons.md) has runs of two builds in turn.

Tidecast's data was on disk and synced before each answer, its bearer, JSON and quotas checked, its quotas
raised with `tidecast project quota`. nginx ran with one worker; redis and nchan keep nothing on disk except
where `SADD` is named, which ran with `appendfsync always`. Events are about 200 bytes for all. The client
grants wide HTTP/2 windows, so that no server waits for window updates.
"""
LATENCIES = ["send to last delivery", "answer", "answer to a batch", "exec to ready"]


def write_page(results):
    """Writes docs/benchmarks.md from the results of all runs."""
    lines = [*INTRODUCTION.split("\n"), *targets_table(results), "",
             "![CPU for each operation beside peers](benchmarks/cpu.png)", ""]
    if os.path.exists(os.path.join(ROOT, "docs/benchmarks/latency.png")):
        lines += ["![Latencies](benchmarks/latency.png)", ""]
    for name in TARGETS:
        entry = results["targets"].get(name)
        if entry:
            lines += section(name, entry)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write("\n".join(lines).rstrip() + "\n")


def targets_table(results):
    """All targets with their figures, and whether they are met."""
    lines = ["## Targets", "", "| | work | figure | | must | aim | |",
             "| --- | --- | --: | --- | --: | --: | --- |"]
    for name, (work, figures) in TARGETS.items():
        entry = results["targets"].get(name)
        own = [row for row in (entry or {}).get("rows", []) if row["who"].startswith("tidecast")]
        for place, (key, unit, must, aim) in enumerate(figures):
            title = (name, work) if place == 0 else ("", "")
            value = own[0].get(key) if own else None
            result = verdict(value, unit, must, aim) if value is not None else "not measured"
            if own and own[0]["wrong"]:
                result += f" (wrong: {own[0]['wrong']})"
            lines.append(f"| {title[0]} | {title[1]} | {number(value)} | {unit} | {number(must)} |"
                         f" {number(aim)} | {result} |")
    return lines


def section(name, entry):
    """One target: a row for each server, the commands, and the machine."""
    facts = entry["machine"]
    lines = [f"## {name}: {TARGETS[name][0]}", ""]
    lines += ["| who | CPU-µs each | a second | p50 ms | p99 ms | of | what else |",
              "| --- | --: | --: | --: | --: | --- | --- |"]
    lines += [line_of(name, row) for row in entry["rows"]]
    lines += ["", "```sh", *dict.fromkeys(row["command"] for row in entry["rows"]), "```", ""]
    lines.append(
        f"{entry['when']}, revision `{entry['revision']}`: {facts['cpu']}, {facts['cores']} cores,"
        f" {facts['memory']} GiB, "
        f"{facts['system']}, kernel {facts['kernel']}, {facts['swift']}, nginx {facts['nginx']}, redis"
        f" {facts['redis']}; "
        f"a 4 KiB append with fdatasync took {facts['sync_ms']} ms, the load average before was"
        f" {facts['load']}.")
    return [*lines, ""]


def line_of(name, row):
    """The row of one server in a target's table."""
    latency_name = next((one for one in LATENCIES if one in row["latency"]
                         and row["latency"][one]["max"] > 0), None)
    if name == "T7":
        latency_name = "send to delivery"
    latency = row["latency"].get(latency_name, {}) if latency_name else {}
    facts = "; ".join(f"{key} {number(value)}" for key, value in row["facts"].items()
                      if value or key in ("missing", "duplicates"))
    runs = [one for one in row.get("all_us", []) if one]
    if row["us"] and len(runs) > 1:
        facts = f"runs {', '.join(number(one) for one in runs)} µs; " + facts
    rate = row["rate"] if row.get("us") else None
    return (f"| {row['who']} | {number(row.get('us'))} | {number(rate)} | {number(latency.get('p50'))} | "
            f"{number(latency.get('p99'))} | {latency_name or '–'} | {facts} |")


def plots():
    """Plots the results, by a Python that gets matplotlib from PyPI."""
    venv = os.path.join(ROOT, ".build/bench-venv")
    python = os.path.join(venv, "bin/python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "matplotlib"], check=True)
    subprocess.run([python, os.path.join(ROOT, "Tests/bench/plots.py"), RESULTS], check=True)
