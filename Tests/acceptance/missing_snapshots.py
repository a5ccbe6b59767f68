"""A data folder without its snapshots: see missing_snapshots.sh."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import signal
import sqlite3

from system.checks import check, wait
from system.node import making
from system.process import OWNER, DevelopmentServer

# A snapshot is due after 8 MiB of journal, and the journal is trimmed to the older of two.
SENDERS, SENDS, BODY = 8, 700, "x" * 3900


def send(server):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=40)
    for number in range(SENDS):
        message = {"message": {"topic": "news", "data": {"n": f"{number} {BODY}"}}}
        connection.request("POST", "/v1/projects/demo/messages:send", json.dumps(message), OWNER)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
    connection.close()


def fill(server):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for done in [pool.submit(send, server) for _ in range(SENDERS)]:
            done.result()


def is_trimmed(server):
    """Whether the journal does not begin with its first record any more."""
    with contextlib.closing(sqlite3.connect(f"file:{server.data}/tidecast.db?mode=ro", uri=True)) as stored:
        return stored.execute("SELECT min(sequence) FROM journal").fetchone()[0] > 1


def run(server):
    snapshots, kept = os.path.join(server.data, "snapshots"), os.path.join(server.folder, "kept")
    server.start()
    server.wait_ready()
    fill(server)
    wait(lambda: is_trimmed(server), "a snapshot, and the journal to be trimmed")
    server.end(signal.SIGTERM)
    os.rename(snapshots, kept)
    os.mkdir(snapshots)
    os.chmod(snapshots, 0o700)
    os.chown(snapshots, os.stat(kept).st_uid, os.stat(kept).st_gid)

    server.start()
    answers = []
    wait(lambda: answers.append(server.asked("/readyz")) or answers[-1][0], "an answer")
    code, text = answers[-1]
    check(code == 503 and "partitions that cannot be read: 0 (" in text and "no snapshot can be read" in text,
          f"the first answer has the partition and the reason: {code} {text.strip()}")
    wait(lambda: server.metrics()["tidecast_partitions_quarantined"] == 1, "the partition to be quarantined")
    check(server.asked("/readyz")[0] == 503 and server.metrics()["tidecast_ready"] == 0, "it stays not ready")
    server.end(signal.SIGTERM)

    os.rmdir(snapshots)
    os.rename(kept, snapshots)
    server.start()
    server.wait_ready()
    check(server.asked("/readyz") == (200, "ready\n"), "with the snapshots back it is ready")
    damaged_snapshot(server, snapshots)
    another_database(server, snapshots)
    replaced(server)


def damaged_snapshot(server, snapshots):
    """A partition's newest snapshot is cut short: the older one serves, and the log says so."""
    server.end(signal.SIGTERM)
    with contextlib.closing(sqlite3.connect(f"file:{server.data}/tidecast.db?mode=ro", uri=True)) as stored:
        names = [name for name, in stored.execute(
            "SELECT name FROM snapshot WHERE partition = 0 ORDER BY covering DESC")]
    check(len(names) == 2, f"the partition has two snapshots: {names}")
    newest = os.path.join(snapshots, names[0])
    os.truncate(newest, os.path.getsize(newest) // 2)
    server.start()
    server.wait_ready()
    check("a snapshot cannot be read" in server.log_text() and names[0] in server.log_text(),
          "with a damaged snapshot the older one serves, and the log says so")


def another_database(server, snapshots):
    """A start without the database, and a look by a command: neither may cost the snapshots."""
    server.end(signal.SIGTERM)
    before, database = sorted(os.listdir(snapshots)), os.path.join(server.data, "tidecast.db")
    os.rename(database, server.folder + "/tidecast.db")
    listed = server.run("project", "list")
    check(listed.returncode != 0 and "has no data" in listed.stderr, f"a command makes none: {listed.stderr}")
    server.start()
    check(server.process.wait(timeout=60) == 70 and "has snapshots and no data" in server.log_text(),
          "a server does not begin anew beside snapshots")
    check(sorted(os.listdir(snapshots)) == before, "which stay as they were")
    os.rename(server.folder + "/tidecast.db", database)
    server.start()
    server.wait_ready()
    check(True, "with the database back it is ready")


def replaced(server):
    """Somebody moves the folder away under the running server."""
    os.rename(server.data, server.folder + "/aside")
    try:
        status = server.call("POST", "/v1/projects/demo/messages:send", {"message": {"topic": "news"}})[0]
    except (OSError, http.client.HTTPException):
        status = 0
    code = server.process.wait(timeout=60)
    check(status != 200 and code == 70 and "was removed or replaced" in server.log_text(),
          f"a server whose folder is moved away acknowledges nothing, and ends: {status}, {code}")
    os.rename(server.folder + "/aside", server.data)
    server.start()
    server.wait_ready()


def main():
    with making() as made:
        server = DevelopmentServer(made.folder, "--partitions", "1")
        made.nodes.append(server)
        run(server)
        print("missing_snapshots: ok")


if __name__ == "__main__":
    main()
