"""Gossip (T15) and whole clusters (T16), simulated in virtual time."""
import json
import os
import re
import subprocess

from bench.common import number, run, say, simulated
from system.process import ROOT


def gossip(nodes, lost, hours):
    """Simulates membership alone, on a simulated network in virtual time."""
    figures = json.loads(run(os.path.join(ROOT, ".build/release/gossip-bench"),
                             *map(str, [nodes, lost, hours, 1])))
    # Each packet also has 25 bytes of seal, and 28 bytes of UDP and IP headers.
    sent = figures["datagram_bytes_s"] + 53 * figures["datagrams_s"] + figures["stream_bytes_s"]
    facts = {"packets a second": figures["datagrams_s"], "KB a second": sent / 1000,
             "simulated hours": figures["hours"],
             "false deaths": figures["false_deaths"],
             "simulated hours for one of CPU": figures["hours_per_cpu_hour"]}
    row = simulated(f"tidecast, {nodes} nodes, {lost / 10:g} % lost",
                    "gossip-bench NODES LOST-OF-A-THOUSAND HOURS SEED",
                    facts, packets=figures["datagrams_s"], kilobytes=sent / 1000,
                    false=figures["false_deaths"], wrong={} if figures["whole"] else {"views": 1})
    say(f"  {row['who']}: " + ", ".join(f"{name} {number(value)}" for name, value in row["facts"].items()))
    return row


def t15(_):
    """Gossip of clusters of 10 to 1,000 nodes."""
    subprocess.run(["swift", "build", "-c", "release", "--product", "gossip-bench"], cwd=ROOT, check=True,
                   env={**os.environ, "TIDECAST_BENCH": "1"}, stdout=subprocess.DEVNULL)
    rows = [gossip(50, 50, 24)]
    return rows + [gossip(nodes, lost, hours) for nodes, lost, hours in
                   [(50, 0, 1), (50, 200, 1), (10, 50, 1), (100, 50, 1), (300, 50, 0.1), (1000, 50, 0.05)]]


def t16(_):
    """Simulates whole clusters of five nodes under load, with faults and checkers."""
    subprocess.run(["swift", "build", "-c", "release", "--product", "simulate"], cwd=ROOT, check=True,
                   env={**os.environ, "TIDECAST_BENCH": "1"}, stdout=subprocess.DEVNULL)
    command = [os.path.join(ROOT, ".build/release/simulate"), "--seeds", "1-4", "--seconds", "600"]
    done = subprocess.run(command, text=True, capture_output=True)
    hours = [float(one) for one in re.findall(r"([0-9.]+) hours per CPU-hour", done.stdout)]
    if done.returncode != 0 or not hours:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    say(f"  {hours[-1]:.0f} simulated hours for an hour of CPU")
    return [simulated("tidecast, 5 nodes", "simulate --seeds 1-4 --seconds 600",
                      {"simulated hours for one of CPU": hours[-1]}, hours=hours[-1])]


LOADS = {"T15": t15, "T16": t16}
