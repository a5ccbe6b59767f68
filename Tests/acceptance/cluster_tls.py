"""TLS sessions between the gateways of a cluster. See cluster_tls.sh."""
import os
import shutil
import signal
import subprocess
import sys

os.environ.setdefault("TIDECAST", sys.argv[1])
import cluster  # noqa: E402

cluster.BINARY = sys.argv[1]
VERSIONS = ("-tls1_3", "-tls1_2")


def client(node, *options, wait=0.0):
    """The output of a handshake by openssl, which stays connected for `wait` seconds."""
    process = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{node.tls}", "-servername", "localhost",
                                *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        process.wait(timeout=wait)
    except subprocess.TimeoutExpired:
        pass
    return process.communicate(timeout=20)[0].decode(errors="replace")


def keep(node, file, version):
    # TLS 1.3 sends its tickets after the handshake.
    client(node, version, "-sess_out", file, wait=1)
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
    node = cluster.Node(folder, name, database)
    node.tls = cluster.free_port()
    shown = os.path.join(folder, f"shown-{name}")
    cluster.make_certificates(shown, "--name", "localhost")
    node.options += ["--listen-tls", f"127.0.0.1:{node.tls}", "--cert", f"{shown}/server.pem", "--key",
                     f"{shown}/server.key"]
    return node


def main():
    ours, theirs = cluster.make_folder(), cluster.make_folder()
    databases, nodes = [], []
    try:
        databases = [cluster.Database(folder) for folder in (ours, theirs)]
        one, two = (gateway(ours, name, databases[0]) for name in ("one", "two"))
        stranger = gateway(theirs, "three", databases[1])
        nodes = [one, two, stranger]
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_ready()
        files = {version: os.path.join(ours, version) for version in VERSIONS}
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
            expect(two, file, version, "Reused", "also when both have begun anew")
    finally:
        for node in nodes:
            if node.process and node.process.poll() is None:
                node.process.kill()
                node.process.wait()
        for database in databases:
            database.stop()
        for folder in (ours, theirs):
            shutil.rmtree(folder, ignore_errors=True)


main()
