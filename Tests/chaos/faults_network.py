"""Networks that lose, cut, delay and confuse."""
from registry import fault
from topology import DATABASE_PORT


@fault("12", "one-way cut: shard-1 hears nothing of the other nodes, and they hear it; the database is there",
       seconds=12)
def one_way(run):
    others = [name for name in run.cluster.nodes if name != "shard-1"]
    for name in others:
        run.cluster.rule("shard-1", "INPUT", "-s", run.cluster.address(name), "-j", "DROP")
    run.sleep()
    run.note(owned_when_cut=run.owned("shard-1"))


@fault("14", "a shard sees its peers and not the database: port 5432 is dropped without a word", seconds=14,
       may_stop=("shard-2",))
def no_database(run):
    node = run.node("shard-2")
    run.cluster.rule("shard-2", "OUTPUT", "-p", "tcp", "--dport", str(DATABASE_PORT), "-j", "DROP")
    given_up = run.until(lambda: run.owned("shard-2") == 0, run.seconds)
    run.note(partitions_taken_by_others_after=given_up and round(given_up, 2))
    left = run.seconds - (given_up or run.seconds)
    run.until(lambda: False, max(left, 0))
    try:
        run.note(it_says=node.view()["status"])
    except OSError as error:
        run.note(it_says=f"nothing: {error}")
