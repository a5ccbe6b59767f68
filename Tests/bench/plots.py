"""Plots docs/benchmarks/results.json as small PNG files in the same folder. Run by tools/bench, by a Python
with matplotlib: plots.py RESULTS"""
import json
import os
import sys

import matplotlib

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from bench.targets import TARGETS  # noqa: E402

RESULTS = sys.argv[1]
FOLDER = os.path.dirname(os.path.abspath(RESULTS))
TITLES = {"T1": "T1 send", "T2": "T2 100 conns × 100 streams", "T3": "T3 10,000 conns",
          "T4": "T4 the same, 4 in flight",
          "T5": "T5 1,000 topics × 10", "T6": "T6 subscribe"}
OWN, OTHER = "#1f6feb", "#b0b7c0"


def name_of(row):
    """A server's short name."""
    return row["who"].replace("`", "").replace(", not durable", "").replace(", always", "")


def save(figure, name):
    """Writes a plot beside the results."""
    figure.savefig(os.path.join(FOLDER, name), dpi=80)
    plt.close(figure)


def plot_cpu(targets):
    """CPU time for each operation, with the limits, as cpu.png."""
    measured = [name for name in TITLES if name in targets]
    if not measured:
        return
    figure, axes = plt.subplots(2, 3, figsize=(11, 5.2), layout="constrained")
    for axis in axes.flat[len(measured):]:
        axis.axis("off")
    for axis, name in zip(axes.flat, measured, strict=False):
        rows = [row for row in targets[name]["rows"] if row.get("us")]
        bars = axis.barh([name_of(row) for row in rows], [row["us"] for row in rows],
                         color=[OWN if row["who"] == "tidecast" else OTHER for row in rows])
        axis.bar_label(bars, fmt="%.3g", padding=2, fontsize=8)
        _, _, must, aim = TARGETS[name][1][0]
        axis.axvline(must, color="#c62828", linewidth=1, linestyle="--", label=f"must {must}")
        axis.axvline(aim, color="#2e7d32", linewidth=1, linestyle=":", label=f"aim {aim}")
        axis.set_title(TITLES[name], fontsize=10)
        axis.set_xlim(0, max([row["us"] for row in rows] + [must]) * 1.2)
        axis.invert_yaxis()
        axis.tick_params(labelsize=8)
        axis.legend(fontsize=7, loc="lower right")
    figure.suptitle("CPU-µs of the server for each operation (shorter is better)", fontsize=11)
    save(figure, "cpu.png")


def plot_latencies(targets):
    """From send to the last delivery, as latency.png."""
    rows = [(name, row) for name in ["T2", "T3", "T4", "T5", "T7", "T10"] if name in targets
            for row in targets[name]["rows"] if "send to last delivery" in row["latency"]]
    if not rows:
        return
    figure, axis = plt.subplots(figsize=(9, 0.32 * len(rows) + 1.2), layout="constrained")
    for place, (_, row) in enumerate(rows):
        latency = row["latency"]["send to last delivery"]
        color = OWN if row["who"] == "tidecast" else OTHER
        axis.plot([latency["p50"], latency["p99"]], [place, place], color=color, linewidth=3)
        axis.plot(latency["p50"], place, "o", color=color)
        axis.plot(latency["p99"], place, "|", color=color, markersize=10)
    axis.set_yticks(range(len(rows)), [f"{name} {name_of(row)}" for name, row in rows], fontsize=8)
    axis.set_xscale("log")
    axis.set_xlabel("ms from send to the last delivery: p50 (dot) to p99 (bar)", fontsize=9)
    axis.grid(axis="x", which="both", linewidth=0.3)
    axis.invert_yaxis()
    save(figure, "latency.png")


def main():
    with open(RESULTS, encoding="utf-8") as file:
        targets = json.load(file)["targets"]
    plot_cpu(targets)
    plot_latencies(targets)


if __name__ == "__main__":
    main()
