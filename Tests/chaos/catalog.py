"""All faults, and runs of several."""
import json
import os
import subprocess
import sys
import traceback

import faults_clocks  # noqa: F401  (they register themselves)
import faults_database  # noqa: F401
import faults_load  # noqa: F401
import faults_network  # noqa: F401
import faults_processes  # noqa: F401
import faults_random  # noqa: F401
import faults_scripts  # noqa: F401
import faults_selection  # noqa: F401
from registry import FAULTS, key
from runner import Bench, show


def numbers():
    return sorted(FAULTS, key=key)


def note(report, json_path):
    if json_path:
        with open(json_path, "a", encoding="utf-8") as file:
            file.write(json.dumps(report) + "\n")


def held(fault, json_path):
    """Runs the fault's script. True where the script ends with 0; `None` where the script cannot run here
    (77)."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "acceptance")
    code = subprocess.run([os.path.join(folder, fault.script[0]), *fault.script[1:]], check=False).returncode
    word = {0: "held", 77: "SKIPPED"}.get(code, "NOT HELD")
    print(f"{fault.number:>4}  {word:12} {fault.title}", flush=True)
    if code != 77:
        problems = [f"{fault.script[0]} ends with {code}"] if code else []
        note({"fault": fault.number, "title": fault.title, "known": fault.known, "problems": problems},
             json_path)
    return None if code == 77 else code == 0


def run(chosen, seed, seconds=None, json_path=None):
    if os.getuid() != 0:
        sys.exit("network namespaces need root")
    bench, failed, skipped = Bench(), 0, 0
    try:
        for number in chosen:
            if FAULTS[number].script:
                ending = held(FAULTS[number], json_path)
                failed += ending is False
                skipped += ending is None
                continue
            try:
                report = bench.run(FAULTS[number], seed, seconds)
            except Exception:  # The other faults must still run, on a cluster of their own.
                print(f"{number:>4}  BROKEN OFF   {FAULTS[number].title}\n{traceback.format_exc()}",
                      flush=True)
                failed += 1
                bench.close()
                continue
            show(report)
            note(report, json_path)
            if report["problems"]:
                failed += not report["known"]
                bench.close()
    finally:
        bench.close()
    passed_over = f", {skipped} skipped" if skipped else ""
    print(f"chaos: {len(chosen) - failed - skipped} of {len(chosen)} faults held{passed_over}, seed {seed}")
    return 1 if failed else 0
