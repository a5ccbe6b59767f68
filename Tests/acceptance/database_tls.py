"""TLS between a node and its database: see database_tls.sh."""
import os
import shutil
import signal
import subprocess
import sys

os.environ["TIDECAST"] = sys.argv[1]
import cluster  # noqa: E402
from cluster_start import answer, check, log_of  # noqa: E402


def demand_tls(database, certificates):
    """Makes the database show a certificate for `localhost` and refuse TCP connections without TLS."""
    for name in ("server.pem", "server.key"):
        place = os.path.join(database.folder, name)
        shutil.copy(os.path.join(certificates, name), place)
        os.chmod(place, 0o600)
        if os.getuid() == 0:
            shutil.chown(place, "postgres")
    with open(f"{database.folder}/data/postgresql.conf", "a", encoding="utf-8") as file:
        file.write(f"ssl = on\nssl_cert_file = '{database.folder}/server.pem'\n"
                   f"ssl_key_file = '{database.folder}/server.key'\n")
    with open(f"{database.folder}/data/pg_hba.conf", "w", encoding="utf-8") as file:
        file.write("local all all trust\nhostssl all all 127.0.0.1/32 trust\nhostssl all all ::1/128 trust\n")
    database.stop()
    database.start()


def connections(database):
    """How many connections tidecast has to the database, and how many of them are without TLS."""
    done = subprocess.run(
        [f"{database.bin}/psql", "-h", database.folder, "-p", str(database.port), "-U", "tidecast", "-Atc",
         "SELECT count(*), count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
         " WHERE application_name = 'tidecast'", "tidecast"], check=True, capture_output=True, text=True)
    return tuple(map(int, done.stdout.strip().split("|")))


def main():
    folder = cluster.make_folder()
    nodes = []
    database = cluster.Database(folder)
    ours, theirs = os.path.join(folder, "ours"), os.path.join(folder, "theirs")
    for place in (ours, theirs):
        cluster.make_certificates(place, "--name", "localhost")
    base = f"postgres://tidecast@localhost:{database.port}/tidecast?"

    def node(name, options):
        made = cluster.Node(folder, name, database)
        database.url = base + options
        nodes.append(made)
        made.start()
        return made

    def refused(name, options, word, what):
        made = node(name, options)
        cluster.wait(lambda: word in answer(made, "/readyz"), f"a word of {word} in /readyz: {log_of(made)[-300:]}")
        check(made.process.poll() is None, what)
        made.end(signal.SIGTERM)

    try:
        demand_tls(database, ours)
        good = node("good", f"sslmode=verify-full&sslrootcert={ours}/ca.pem")
        good.wait_ready()
        status, _ = good.call("POST", "/v1/projects/demo/messages:send", {"message": {"topic": "a"}})
        count, plain = connections(database)
        check(status == 200 and count > 0 and plain == 0, f"verify-full: {count} connections, all of them TLS")
        refused("stranger", f"sslmode=verify-full&sslrootcert={theirs}/ca.pem", b"certificate verify failed",
                "another authority: not ready, and says that the certificate does not verify")
        refused("misnamed", f"host=127.0.0.1&sslmode=verify-full&sslrootcert={ours}/ca.pem", b"does not match host name",
                "another name: not ready, and says so")
        refused("plain", "sslmode=disable", b"no encryption", "without TLS: not ready, and says that the database wants it")
        # A node that connects again by itself must use TLS again.
        database.stop()
        database.start()
        cluster.wait(lambda: good.is_ready() and connections(database)[0] > 0, "the node to be back")
        status, _ = good.call("POST", "/v1/projects/demo/messages:send", {"message": {"topic": "a"}})
        check(status == 200 and connections(database)[1] == 0, "after the database ended: connected again, with TLS")
        print("database_tls: ok")
    except SystemExit:
        for one in nodes:
            print(f"--- {one.name}", log_of(one)[-1500:] if os.path.exists(os.path.join(one.folder, "log")) else "")
        raise
    finally:
        for one in nodes:
            if one.process and one.process.poll() is None:
                one.end(signal.SIGKILL)
        database.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
