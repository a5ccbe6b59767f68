"""What all parts of tools/bench use."""
import json
import os
import subprocess

from system.process import ROOT

RELEASE = os.path.join(ROOT, ".build/release/tidecast")
# Servers keep their data on the disk that the repository is on.
DATA = os.path.join(ROOT, ".build/bench-data")


def say(text):
    """Prints a line at once."""
    print(text, flush=True)


def run(*command, **options):
    """What a command prints. Raises CalledProcessError."""
    return subprocess.run(command, check=True, text=True, capture_output=True, **options).stdout


def shown(arguments):
    """The command line of a row's load, for the page, without ports."""
    words, hide = [], {"--server", "--publish-server", "--pid"}
    skip = False
    for word in arguments:
        if skip or word in hide:
            skip = not skip
            continue
        words.append(word)
    return "tidecast bench " + " ".join(words)


def measure(who, load, options, repeat=1):
    """Runs a load `repeat` times; the row is the run with the median figure. Options of the form
    TIDECAST_NAME=VALUE are variables."""
    keys = dict(word.split("=", 1) for word in options if word.startswith("TIDECAST_"))
    arguments = load + [word for word in options if not word.startswith("TIDECAST_")]
    runs = []
    for _ in range(repeat):
        done = subprocess.run([RELEASE, "bench", arguments[0], "--json", *arguments[1:]], text=True,
                              capture_output=True, env={**os.environ, **keys})
        if done.returncode != 0:
            raise RuntimeError(f"{shown(arguments)}: {done.stderr[-2000:]}")
        runs.append(json.loads(done.stdout.strip().splitlines()[-1]))
    runs.sort(key=lambda one: one.get("microsecondsEach") or one["seconds"])
    report = runs[len(runs) // 2]
    row = {"who": who, "command": shown(arguments), "rate": report["perSecond"],
           "operations": report["operations"],
           "seconds": report["seconds"], "us": report.get("microsecondsEach"), "facts": report["facts"],
           "latency": report["latencyMilliseconds"], "statuses": report["statuses"],
           "all_us": [one.get("microsecondsEach") for one in runs]}
    bad = {status: count for status, count in report["statuses"].items() if not status.startswith("2")}
    wrong = {name: report["facts"][name] for name in
             ["missing", "duplicates", "refused sends", "broken streams", "refused tokens", "errors"]
             if report["facts"].get(name)}
    row["wrong"] = {**bad, **wrong}
    us = f"{row['us']:.3g} µs each, " if row["us"] else ""
    say(f"  {who:24} {us}{row['rate']:,.0f} {report['unit']}s/s"
        + (f"  WRONG: {row['wrong']}" if row["wrong"] else ""))
    return row


def simulated(who, command, facts, **figures):
    """The row of a simulation, or of a load that no client of the bench measures."""
    return {"who": who, "us": None, "rate": 0, "operations": 0, "latency": {}, "statuses": {}, "all_us": [],
            "wrong": {},
            "command": command, "facts": facts, **figures}


def number(value):
    """A figure for the page: three digits, or whole thousands; – for none."""
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
