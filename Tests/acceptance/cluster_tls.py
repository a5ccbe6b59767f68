"""TLS sessions between the gateways of a cluster. See cluster_tls.sh."""
import os
import signal
import subprocess

from system.checks import until
from system.node import Node, making, start
from system.ports import free_port
from system.process import make_certificates, tls_words

VERSIONS = ("-tls1_3", "-tls1_2")


def client(node, *options, until_made=None):
    """The output of a handshake by openssl, which stays connected until the file `until_made` is there, at
    most 10 s."""
    process = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{node.tls}", "-servername",
                                "localhost",
                                *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    if until_made:
        until(lambda: os.path.exists(until_made) and os.path.getsize(until_made) > 0, 10)
    return process.communicate(timeout=20)[0].decode(errors="replace")


def keep(node, file, version):
    # TLS 1.3 sends its tickets after the handshake.
    client(node, version, "-sess_out", file, until_made=file)
    if not os.path.exists(file):
        raise SystemExit(f"FAIL: {version}: {node.name} gave no session")


def expect(node, file, version, word, what):
    said = client(node, version, "-sess_in", file)
    if f"\n{word}, TLSv1" not in said:
        raise SystemExit(f"FAIL: {version}: {what}\n{said}")
    if "Early data was accepted" in said:
        raise SystemExit(f"FAIL: {version}: early data was accepted")
    print(f"ok    {version[1:]}: {what}", flush=True)


def gateway(folder, name, database):
    node = Node(folder, name, database)
    node.tls = free_port()
    shown = os.path.join(folder, f"shown-{name}")
    make_certificates(shown, "--name", "localhost")
    node.options += tls_words(node.tls, shown)
    return node


def main():
    with making() as ours, making() as theirs:
        database = ours.database()
        ours.nodes += [gateway(ours.folder, name, database) for name in ("one", "two")]
        one, two = ours.nodes
        stranger = gateway(theirs.folder, "three", theirs.database())
        theirs.nodes.append(stranger)
        nodes = [one, two, stranger]
        start(nodes)
        files = {version: os.path.join(ours.folder, version) for version in VERSIONS}
        for version, file in files.items():
            keep(one, file, version)
            expect(one, file, version, "Reused", "a session resumes where it began")
            expect(two, file, version, "Reused", "and at the other gateway")
            expect(stranger, file, version, "New", "and not at another cluster's")
        for node in (one, two):
            node.end(signal.SIGTERM)
            node.start()
        for node in (one, two):
            node.wait_ready()
        for version, file in files.items():
            expect(two, file, version, "Reused", "also when both have begun again")


if __name__ == "__main__":
    main()
