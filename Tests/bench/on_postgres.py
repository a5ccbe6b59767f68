"""The loads on PostgreSQL: beside SQLite (PG), on more shards (GROWTH), and for ten minutes (SOAK)."""
import subprocess

from bench.common import measure, say
from bench.loads import WORK, in_turn
from bench.servers import OnPostgres, Tidecast
from system import kernel


def on_postgres(repeat):
    """Each load on SQLite and on PostgreSQL in turn; the figure is PostgreSQL divided by SQLite."""
    rows, ratios = [], {}
    for name in WORK:
        ratios[name], pair = in_turn(name, [("SQLite", Tidecast), ("PostgreSQL", OnPostgres)], repeat)
        rows += pair
    rows[0] = {**rows[0], **ratios}
    return rows


def growth(_):
    """The same load on one, two and four shards: each shard spends less CPU time as their number rises."""
    rows = []
    for count in (1, 2, 4):
        with OnPostgres(shards=count) as server:
            pids = [shard.process.pid for shard in server.shards]
            before = [kernel.cpu_seconds(pid) for pid in pids]
            row = measure(f"tidecast, {count} shards", ["topics", "--seconds", "8"], server.load_options())
            spent = sorted((kernel.cpu_seconds(pid) - was) * 1e6 / row["operations"]
                           for pid, was in zip(pids, before, strict=True))
        row["facts"] = {**row["facts"], "CPU-µs a delivery of the busiest shard": spent[-1],
                        "of the idlest": spent[0], "of all shards": sum(spent)}
        say(f"    shards: {', '.join(f'{one:.2f}' for one in spent)} CPU-µs a delivery")
        row["busiest"], row["mean"] = spent[-1], sum(spent) / len(spent)
        rows.append(row)
    rows[0] = {**rows[0], "share": rows[-1]["busiest"] / rows[0]["busiest"],
               "mean": rows[-1]["mean"] / rows[0]["mean"]}
    return rows


def soak(_, minutes=10):
    """Ten minutes of load beside another client's idle transaction in the same database, which keeps the
    database from cleaning up."""
    rows = []
    with OnPostgres() as server:
        idle = subprocess.Popen(["psql", "-q", server.database.url], stdin=subprocess.PIPE, text=True,
                                stdout=subprocess.DEVNULL)
        idle.stdin.write("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tidecast.partition;\n")
        idle.stdin.flush()
        try:
            for minute in range(minutes):
                rows.append(measure(f"tidecast, minute {minute + 1}", ["send", "--seconds", "55"],
                                    server.load_options()))
        finally:
            idle.stdin.close()
            idle.wait()
    rates = [row["rate"] for row in rows]
    rows[0] = {**rows[0], "kept": min(rates[-3:]) / max(rates[:3])}
    return rows


LOADS = {"PG": on_postgres, "GROWTH": growth, "SOAK": soak}
