"""All faults, and runs of several."""
import json
import os
import sys
import traceback

import faults_clocks  # noqa: F401  (they register themselves)
import faults_database  # noqa: F401
import faults_load  # noqa: F401
import faults_network  # noqa: F401
import faults_processes  # noqa: F401
import faults_random  # noqa: F401
import faults_selection  # noqa: F401
from registry import FAULTS, key
from runner import Bench, show


def numbers():
    return sorted(FAULTS, key=key)


def run(chosen, seed, seconds=None, json_path=None):
    if os.getuid() != 0:
        sys.exit("network namespaces need root")
    bench, failed = Bench(), 0
    try:
        for number in chosen:
            try:
                report = bench.run(FAULTS[number], seed, seconds)
            except Exception:  # Whatever it is, the other faults are still to be run, on a cluster of their own.
                print(f"{number:>4}  BROKEN OFF   {FAULTS[number].title}\n{traceback.format_exc()}", flush=True)
                failed += 1
                bench.close()
                continue
            show(report)
            if json_path:
                with open(json_path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(report) + "\n")
            if report["problems"]:
                failed += not report["known"]
                bench.close()
    finally:
        bench.close()
    print(f"chaos: {len(chosen) - failed} of {len(chosen)} faults held, seed {seed}")
    return 1 if failed else 0
