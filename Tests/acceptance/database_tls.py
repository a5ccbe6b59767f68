"""TLS between a node and its database: see database_tls.sh."""
import os
import shutil
import signal
import subprocess

from system.checks import check, wait
from system.node import Node, making
from system.process import make_certificates


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
    # Over the local socket: over TCP the database demands TLS of this session too.
    sql = ("SELECT count(*), count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING"
           " (pid)"
           " WHERE application_name = 'tidecast'")
    done = subprocess.run(database.client("psql", "-h", database.folder, "-Atc", sql), check=True,
                          capture_output=True, text=True)
    return tuple(map(int, done.stdout.strip().split("|")))


def main():
    with making() as made:
        run(made, made.folder, made.database())
        print("database_tls: ok")


def run(made, folder, database):
    ours, theirs = os.path.join(folder, "ours"), os.path.join(folder, "theirs")
    for place in (ours, theirs):
        make_certificates(place, "--name", "localhost")
    base = f"postgres://tidecast@localhost:{database.port}/tidecast?"

    def node(name, options):
        found = Node(folder, name, database)
        database.url = base + options
        made.nodes.append(found)
        found.start()
        return found

    def refused(name, options, word, what):
        found = node(name, options)
        wait(lambda: word in found.asked("/readyz")[1], f"a word of {word} in /readyz")
        check(found.is_running(), what)
        found.end(signal.SIGTERM)

    demand_tls(database, ours)
    good = node("good", f"sslmode=verify-full&sslrootcert={ours}/ca.pem")
    good.wait_ready()
    status, _ = good.call("POST", "/v1/projects/demo/messages:send", {"message": {"topic": "a"}})
    count, plain = connections(database)
    check(status == 200 and count > 0 and plain == 0, f"verify-full: {count} connections, all of them TLS")
    refused("stranger", f"sslmode=verify-full&sslrootcert={theirs}/ca.pem", "certificate verify failed",
            "another authority: not ready, and says that the certificate does not verify")
    refused("misnamed", f"host=127.0.0.1&sslmode=verify-full&sslrootcert={ours}/ca.pem",
            "does not match host name",
            "another name: not ready, and says so")
    refused("plain", "sslmode=disable", "no encryption",
            "without TLS: not ready, and says that the database wants it")
    # A node that connects again by itself must use TLS again.
    database.stop()
    database.start()
    wait(lambda: good.is_ready() and connections(database)[0] > 0, "the node to be back")
    status, _ = good.call("POST", "/v1/projects/demo/messages:send", {"message": {"topic": "a"}})
    check(status == 200 and connections(database)[1] == 0,
          "after the database ended: connected again, with TLS")


if __name__ == "__main__":
    main()
