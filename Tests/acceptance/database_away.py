"""What operators and backends hear while the database is away: see database_away.sh."""
import json
from concurrent.futures import ThreadPoolExecutor

from system.checks import check, wait
from system.node import making, start

SEND = "/v1/projects/demo/messages:send"
STANDING = ("tidecast_ready", 'tidecast_database_up{database="1"}',
            'tidecast_database_away_seconds{database="1"}', "tidecast_databases_away")


def standing(node):
    figures = node.metrics()
    return tuple(figures[name] for name in STANDING)


def lines(node, level):
    """The log's lines of this level, without the moment."""
    return [line for line in map(json.loads, node.log_text().splitlines()) if line["level"] == level]


def listen(node, made):
    """The answer to a device that opens its stream."""
    path = f"/v1/projects/demo/registrations/{made['token']}:listen"
    return node.call("GET", path, headers={"authorization": f"Bearer {made['credential']}"}, timeout=120)


def run(database, nodes):
    one, _ = nodes
    start(nodes)
    send = {"message": {"topic": "news"}}
    wait(lambda: one.call("POST", SEND, send)[0] == 200, "a first send")
    check(standing(one) == (1, 1, 0, 0), "a cluster in order has its metrics")
    check(one.run("cluster", "status").returncode == 0, "its status ends with 0")

    made = json.loads(one.call("POST", "/v1/projects/demo/registrations", {})[1])

    database.stop()
    wait(lambda: not any(node.is_ready() for node in nodes), "the nodes to see it")
    ready, up, seconds, away = standing(one)
    check((ready, up, away) == (0, 0, 1), "the metrics say that the database is away")
    wait(lambda: standing(one)[2] > seconds, "the seconds to pass")
    waiting = ThreadPoolExecutor().submit(listen, one, made)
    told = [line for line in lines(one, "error") if "the database is away" in line["message"]]
    check(len(told) == 1 and told[0]["database"] == "1" and told[0]["reason"],
          f"an error says so once: {told}")
    done = one.run("cluster", "status")
    check(done.returncode == 1 and "seen by one, which cannot reach the database: " in done.stdout
          and "away: database 1" in done.stdout and not done.stderr,
          f"the status says it in a sentence, and ends with 1: {done.stdout.splitlines()[-1]}")
    check(one.run("cluster", "status", "--json").returncode == 1, "so it does with --json")
    wait(lambda: b"the database cannot be reached" in one.call("POST", SEND, send)[1],
         "a send to hear that the database cannot be reached")
    status, body = waiting.result()
    check(status == 503 and b"no owner answered in time" in body, f"a new stream gets an answer: {body}")

    database.start()
    for node in nodes:
        node.wait_ready()
    wait(lambda: standing(one) == (1, 1, 0, 0), "the metrics to say that it is back")
    back = [line for line in lines(one, "notice") if line["message"] == "a database is back"]
    check(len(back) == 1 and int(back[0]["seconds"]) >= 0, "a notice says that it is back")
    wait(lambda: one.run("cluster", "status").returncode == 0, "the status to end with 0 again")


def main():
    with making() as made:
        run(*made.cluster("one", "two"))
        print("database_away: ok")


if __name__ == "__main__":
    main()
