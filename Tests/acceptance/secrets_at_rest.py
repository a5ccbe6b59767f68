"""Secrets of a cluster, sealed in its database while its nodes serve: see secrets_at_rest.sh."""
import json
import signal
import subprocess

from system.checks import check, wait
from system.device import register
from system.node import making, start
from system.postgres import SECRETS


def run(database, nodes):
    one, two, three = nodes

    def stored():
        """The first two bytes of each secret in the database after its checksum, in hexadecimal."""
        return dict(row.split("|") for row in database.rows(SECRETS))

    def key():
        return subprocess.run([one.binary, "secrets", "key", "-"], check=True, capture_output=True,
                              text=True).stdout.strip()

    def roll(keys):
        """Restarts node by node with these secrets keys, while the other node serves."""
        for node in (one, two):
            node.end(signal.SIGTERM)
            node.environment = {"TIDECAST_SECRETS_KEY": keys}
            start([node])

    def refused(environment, sentence, what):
        three.environment = environment
        three.start()
        code = three.process.wait(timeout=30)
        check(code != 0 and sentence in three.log_text(), what)

    def sends(what):
        for node in (one, two):
            status, body = node.call("POST", "/v1/projects/demo/messages:send",
                                     {"message": {"token": device["token"]}})
            check(status == 200, f"{what}: {node.name} sends to the device: {body}")

    start((one, two))
    device = register(one)
    push = one.command("project", "push", "web", "demo", "--subject", "mailto:push@example.com")
    check(len(stored()) == 4 and not any(begin == "e501" for begin in stored().values()),
          f"without a key: {stored()}")
    first, second = key(), key()
    refused({"TIDECAST_SECRETS_KEY": first}, "one, two would stop",
            "a node that would seal under a key which the others lack does not begin")
    sends("beside it")
    check("e501" not in stored().values(), "and seals nothing")
    roll(f"plain {first}")
    check("e501" not in stored().values(), "nodes that have the key and do not use it yet")
    roll(first)
    check(set(stored().values()) == {"e501"} and len(stored()) == 4, f"sealed node by node: {stored()}")
    sends("sealed")
    refused({}, "was given none: give that key to every node",
            "a node without the key says so, and does not begin")
    refused({"TIDECAST_SECRETS_KEY": second}, "was given only", "nor does one with another key")
    one.command("key", "rotate", "signing")
    check(set(stored().values()) == {"e501"} and len(stored()) == 4,
          f"a new signing key is sealed: {stored()}")
    wait(lambda: "signing" in json.dumps(json.loads(two.command("key", "server", "--json"))),
         "the other node reads it")
    roll(f"{first},{second}")
    roll(f"{second},{first}")
    roll(second)
    sends("under the second key")
    check(two.command("project", "push", "web", "demo") == push, "the key for Web Push is the same")
    refused({"TIDECAST_SECRETS_KEY": first}, "was given only", "the first key opens nothing any more")
    for node in (one, two):
        log = node.log_text()
        check(first not in log and second not in log, f"{node.name} shows no key")
        check("gossip was refused" not in log, f"{node.name} understands the other's gossip")


def main():
    with making() as made:
        run(*made.cluster("one", "two", "three"))


if __name__ == "__main__":
    main()
