"""Secrets of a cluster, sealed in its database while its nodes serve: see secrets_at_rest.sh."""
import json
import os
import signal
import subprocess
import sys

import cluster

cluster.BINARY = sys.argv[1]
SECRETS = ("SELECT key, encode(substring(value FROM 9 FOR 2), 'hex') FROM (SELECT key, value FROM tidecast.key UNION ALL"
           " SELECT key, value FROM tidecast.setting WHERE key IN ('signing-keys', 'token-signing-key', 'gossip-key')) AS all_of_them")


def check(holds, what):
    if not holds:
        raise SystemExit(f"FAIL: {what}")
    print(f"ok: {what}", flush=True)


def log_of(node):
    with open(os.path.join(node.folder, "log"), encoding="utf-8", errors="replace") as file:
        return file.read()


def run(database, nodes):
    one, two, three = nodes

    def stored():
        """The first two bytes of each secret in the database after its checksum, in hexadecimal."""
        done = subprocess.run(
            [f"{database.bin}/psql", "-h", "127.0.0.1", "-p", str(database.port), "-U", "tidecast", "-AtF", " ", "-c", SECRETS,
             "tidecast"], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return dict(line.split(" ") for line in done.stdout.splitlines())

    def key():
        return subprocess.run([cluster.BINARY, "secrets", "key", "-"], check=True, capture_output=True, text=True).stdout.strip()

    def roll(keys):
        """Restarts node by node with these secrets keys, while the other node serves."""
        for node in (one, two):
            node.end(signal.SIGTERM)
            node.environment = {"TIDECAST_SECRETS_KEY": keys}
            node.start()
            node.wait_ready()

    def refused(environment, sentence, what):
        three.environment = environment
        three.start()
        code = three.process.wait(timeout=30)
        check(code != 0 and sentence in log_of(three), what)

    def sends(what):
        for node in (one, two):
            status, body = node.call("POST", "/v1/projects/demo/messages:send", {"message": {"token": device["token"]}})
            check(status == 200, f"{what}: {node.name} sends to the device: {body}")

    for node in (one, two):
        node.start()
    for node in (one, two):
        node.wait_ready()
    device = json.loads(one.call("POST", "/v1/projects/demo/registrations", {})[1])
    check(len(stored()) == 3 and not any(begin == "e501" for begin in stored().values()), f"without a key: {stored()}")
    first, second = key(), key()
    roll(f"plain {first}")
    check("e501" not in stored().values(), "nodes that have the key and do not use it yet")
    roll(first)
    check(set(stored().values()) == {"e501"} and len(stored()) == 3, f"sealed node by node: {stored()}")
    sends("sealed")
    refused({}, "was given none: give it to every node", "a node without the key says so, and does not begin")
    refused({"TIDECAST_SECRETS_KEY": second}, "was given only", "nor does one with another key")
    subprocess.run([cluster.BINARY, "key", "rotate", "signing", "--data", one.data], check=True, stdout=subprocess.DEVNULL,
                   stdin=subprocess.DEVNULL)
    check(set(stored().values()) == {"e501"} and len(stored()) == 4, f"a new signing key is sealed: {stored()}")
    cluster.wait(lambda: "signing" in json.dumps(json.loads(subprocess.run(
        [cluster.BINARY, "key", "server", "--json", "--data", two.data], check=True, capture_output=True, text=True,
        stdin=subprocess.DEVNULL).stdout)), "the other node reads it")
    roll(f"{first},{second}")
    roll(f"{second},{first}")
    roll(second)
    sends("under the second key")
    refused({"TIDECAST_SECRETS_KEY": first}, "was given only", "the first key opens nothing any more")
    for node in (one, two):
        log = log_of(node)
        check(first not in log and second not in log, f"{node.name} shows no key")
        check("gossip was refused" not in log, f"{node.name} understands the other's gossip")


with cluster.making() as made:
    run(*made.cluster("one", "two", "three"))
