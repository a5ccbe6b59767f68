"""One run: a load, a fault in the middle of it, healing, a quiet time, and then the checkers."""
import json
import os
import time

import checkers
import registers
from database import Database, Monitor
from history import operations
from setup import Project
from topology import Cluster
from workload import Workload

from system.checks import until
from system.process import ROOT

LOGS = os.path.join(ROOT, ".build/chaos")
# The load runs for the first of these times before the fault, and for the second after the limit of the
# fault. In the third, a message that comes again would come.
WARM_UP_SECONDS, AFTER_SECONDS, QUIET_SECONDS = 3, 4, 1


class Run:
    """A fault's view of the run: the cluster, the load, and the places for facts and problems."""

    def __init__(self, cluster, workload, database, seed, seconds):
        self.cluster, self.workload, self.database = cluster, workload, database
        self.seed, self.seconds = seed, seconds
        self.random = workload.client("fault").random
        self.facts, self.problems, self.monitor = {}, [], None

    def note(self, **facts):
        self.facts.update(facts)
        for name, value in facts.items():
            self.workload.history.note("fault", what=name, value=str(value))

    def lost(self, since):
        """Notes that the database has lost some or all records that were acknowledged since `since`."""
        self.workload.history.note("lost", since=since)
        self.monitor.samples.append(None)

    def demand(self, holds, invariant, sentence):
        if not holds:
            self.problems.append((invariant, sentence))

    def sleep(self, share=1.0):
        """Sleeps for a share of the fault's seconds."""
        time.sleep(self.seconds * share)

    def node(self, name):
        return self.cluster.nodes[name]

    def owned(self, node):
        """How many partitions a node owns, as the first answering gateway sees it; `None` where no gateway
        answers."""
        for gateway in self.cluster.gateways:
            try:
                return sum(1 for one in gateway.view()["partitions"] if one["owner"] == node)
            except (OSError, ValueError):
                continue
        return None

    def until(self, condition, limit, step=0.05):
        """Seconds until `condition` holds; `None` where it does not hold within `limit` s."""
        return until(condition, limit, step)


class Bench:
    """One cluster for one fault after the other. After a fault that broke something, the next fault gets a
    new cluster."""

    def __init__(self, projects=4):
        self.project_count = projects
        self.cluster, self.projects, self.database = None, [], None

    def ensure(self):
        if self.cluster:
            return
        self.cluster = Cluster()
        self.cluster.up()
        self.database = Database()
        self.projects = [Project(f"chaos-{number}", self.cluster) for number in range(self.project_count)]
        for project in self.projects:
            project.wait_known(self.cluster)

    def close(self):
        if self.cluster:
            self.cluster.down()
            self.cluster = None

    def run(self, fault, seed, seconds):
        self.ensure()
        Cluster.wait(lambda: self.cluster.agreement() is None, "the nodes to agree before the fault", 40)
        began = time.monotonic()
        places = {node.name: node.log_size() for node in self.cluster.nodes.values()}
        exits_before = {node.name: len(node.exits) for node in self.cluster.nodes.values()}
        workload = Workload(self.cluster, self.projects, seed, rates=fault.rates)
        run = Run(self.cluster, workload, self.database, seed, seconds or fault.seconds)
        run.monitor = monitor = Monitor(self.database)
        try:
            workload.prepare()
            monitor.start()
            workload.begin()
            time.sleep(WARM_UP_SECONDS)
            before = self.usage()
            workload.history.note("fault", what="begins", value=fault.title)
            try:
                fault.work(run)
            finally:
                self.cluster.heal()
                for node in self.cluster.nodes.values():
                    node.start()
            healed = time.monotonic()
            workload.history.note("fault", what="healed", value="")
            # All nodes may agree for a moment on an old view, so the agreement must last for 1 s.
            why, converged, since = None, None, None
            while time.monotonic() < healed + 45:
                why = self.cluster.agreement()
                since = (since or time.monotonic()) if why is None else None
                if since and time.monotonic() > since + 1:
                    converged = since - healed
                    break
                time.sleep(0.2)
            run.note(disagreement=why) if converged is None else None
            time.sleep(max(AFTER_SECONDS, healed + fault.limit + AFTER_SECONDS - time.monotonic()))
            workload.stop()
            drained = self.drain(workload)
            final = self.final(workload)
            journal = self.database.journal()
            after = self.usage()
        finally:
            workload.close()
            monitor.stop()
        entries = workload.history.so_far()
        undecided = registers.undecided(entries)
        if undecided:
            run.note(registers_not_decided=undecided)
        ends = [(node.name, code, ours, "stopping" in node.log_since(places[node.name]))
                for node in self.cluster.nodes.values()
                for _, code, ours in node.exits[exits_before[node.name]:]]
        problems = run.problems + checkers.subscriptions(entries, final) + checkers.members(final, entries) \
            + checkers.deliveries(entries) + checkers.repeats(entries) + checkers.order(entries) \
            + registers.problems(entries) \
            + checkers.statuses(entries, fault.broken, fault.extra) + checkers.journal(journal) \
            + checkers.epochs(monitor.samples) + checkers.exits(ends, fault.may_stop) \
            + checkers.usage(before, after) + checkers.progress(entries, healed, converged, fault.limit,
                                                                fault.broken)
        report = self.report(fault, run, entries, seed, converged, drained, monitor, ends, problems, began)
        self.keep(fault, workload, final, report, places)
        return report

    def usage(self):
        found = {}
        for node in self.cluster.nodes.values():
            usage = node.usage() if node.is_running() else None
            if usage:
                found[node.name] = (node.pid, *usage)
        return found

    @staticmethod
    def drain(workload):
        """Waits until every message that must arrive has arrived. Returns the seconds, or `None` after 30
        s."""
        began = time.monotonic()
        while not registers.is_settled(workload.history.so_far()):
            if time.monotonic() > began + 30:
                return None
            time.sleep(0.5)
        time.sleep(QUIET_SECONDS)
        return time.monotonic() - began

    @staticmethod
    def final(workload):
        """The final state. It is read again, up to 5 times, while topics and devices differ: outbox entries
        may be under way."""
        for _ in range(5):
            final = workload.final()
            if not checkers.members(final):
                break
            time.sleep(1)
        return final

    @staticmethod
    def report(fault, run, entries, seed, converged, drained, monitor, ends, problems, began):
        ops = [op for op in operations(entries) if op["op"] not in ("bad", "acknowledge")]
        counts = {}
        for op in ops:
            how = "lost" if op["outcome"] == "lost" else op["status"]
            name = op["op"] if op["outcome"] == "ok" else f"{op['op']} {how}"
            counts[name] = counts.get(name, 0) + 1
        delivered = [(entry["device"], entry["n"]) for entry in entries if entry["kind"] == "deliver"]
        longest = max((op["ended"] - op["began"] for op in ops if op["ended"]), default=0)
        return {
            "fault": fault.number, "title": fault.title, "seed": seed,
            "seconds": round(time.monotonic() - began, 1),
            "operations": counts, "retries": max((op.get("retry", 0) for op in ops), default=0),
            "longest": round(longest, 2), "deliveries": len(delivered),
            "again": len(delivered) - len(set(delivered)),
            "agreed": None if converged is None else round(converged, 2),
            "drained": None if drained is None else round(drained, 1), "moves": monitor.moves(),
            "known": fault.known, "ends": [f"{node} {code}" for node, code, _, _ in ends], "facts": run.facts,
            "problems": [f"{invariant}: {text}" for invariant, text in problems]}

    def keep(self, fault, workload, final, report, places):
        """Stores the history, the final state, the report and the nodes' logs, for the search of a cause."""
        folder = os.path.join(LOGS, f"{fault.number}-{report['seed']}")
        os.makedirs(folder, exist_ok=True)
        workload.history.write(os.path.join(folder, "history.jsonl"))
        for name, content in (("final", final), ("report", report)):
            with open(os.path.join(folder, f"{name}.json"), "w", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
        for node in self.cluster.nodes.values():
            with open(os.path.join(folder, f"{node.name}.log"), "w", encoding="utf-8") as file:
                file.write(node.log_since(places[node.name]))


def show(report):
    """Prints a report for a reader."""
    verdict = "ok" if not report["problems"] else f"{len(report['problems'])} PROBLEMS"
    if report["problems"] and report["known"]:
        verdict = f"KNOWN ({len(report['problems'])})"
    counts = ", ".join(f"{count} {name}" for name, count in sorted(report["operations"].items()))
    print(f"{report['fault']:>4}  {verdict:12} {report['title']}  ({report['seconds']} s, seed"
          f" {report['seed']})")
    print(f"      {counts}; longest {report['longest']} s, at most {report['retries']} retries")
    print(f"      {report['deliveries']} deliveries, {report['again']} again; {report['moves']} moves; agreed"
          " after"
          f" {report['agreed']} s, all arrived after {report['drained']} s; ends: {report['ends'] or 'none'}")
    for name, value in report["facts"].items():
        print(f"      {name}: {value}")
    if report["known"]:
        print(f"      known: {report['known']}")
    for problem in report["problems"][:12]:
        print(f"      ! {problem}")
    if len(report["problems"]) > 12:
        print(f"      ! and {len(report['problems']) - 12} more")
    print(flush=True)
