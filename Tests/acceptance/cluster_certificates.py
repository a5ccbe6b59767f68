"""Nodes authenticate each other by certificates of their own. See cluster_certificates.sh."""
import json
import os
import signal
import socket
import ssl
import subprocess
import time

from system.checks import check, wait
from system.node import Node, making, start
from system.process import UNPRIVILEGED, program

PASSPHRASE = "kept by the operator"


class Named(Node):
    """A node with the certificate `shows`, or without TLS between nodes where `shows` is None."""
    shows = None

    def links(self):
        if not self.shows:
            return []
        return ["--peer-cert", f"{self.shows}.pem", "--peer-key", f"{self.shows}.key", "--peer-ca",
                os.path.join(os.path.dirname(self.shows), "ca.pem")]

    def view(self):
        """The output of `cluster status` at this node; a cluster without members where the node does not
        answer."""
        done = self.run("cluster", "status", "--json")
        return {"members": [], "linksDown": []} if not done.stdout else json.loads(done.stdout)

    def links_down(self):
        return {link["peer"]: link["reason"]
                for link in self.view()["linksDown"] if link["node"] == self.name}


def cert(*words, passphrase=None, fails=None):
    environment = {name: value for name, value in os.environ.items() if name != "TIDECAST_CA_PASSPHRASE"}
    if passphrase:
        environment["TIDECAST_CA_PASSPHRASE"] = passphrase
    done = subprocess.run([UNPRIVILEGED, program(), "cert", *words], env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if fails:
        check(done.returncode != 0 and fails in done.stdout,
              f"cert {words[0]} is refused: {done.stdout.strip()}")
    elif done.returncode:
        raise SystemExit(f"FAIL: cert {' '.join(words)}: {done.stdout}")


def shown(node, folder, name):
    """The certificate that the node shows on its peer port to the node `name`, DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(f"{folder}/ca.pem")
    context.load_cert_chain(f"{folder}/{name}.pem", f"{folder}/{name}.key")
    with socket.create_connection(("127.0.0.1", node.peer), timeout=10) as plain:
        with context.wrap_socket(plain) as connection:
            return connection.getpeercert(binary_form=True)


def first_certificate(file):
    with open(file, encoding="ascii") as text:
        pem = text.read()
    end = "-----END CERTIFICATE-----\n"
    return ssl.PEM_cert_to_DER_cert(pem[:pem.index(end) + len(end)])


def authority(folder):
    """Makes an authority whose key has a passphrase, and later signs one more node's certificate. Each wrong
    use must be refused."""
    secret = os.path.join(os.path.dirname(folder), "passphrase")
    with open(secret, "w", encoding="ascii") as file:
        file.write(PASSPHRASE + "\n")
    os.chown(secret, os.stat(os.path.dirname(folder)).st_uid, -1)
    os.chmod(secret, 0o644)
    making = ("make", "--cluster", "--out", folder, "--node", "one", "two", "--passphrase-file", secret)
    cert(*making, fails="can be read by others")
    os.chmod(secret, 0o600)
    cert(*making)
    for file in ("ca.key", "one.key", "two.key"):
        check(os.stat(f"{folder}/{file}").st_mode & 0o777 == 0o600, f"{file} is its owner's alone")
    with open(f"{folder}/ca.key", encoding="ascii") as file:
        check("ENCRYPTED PRIVATE KEY" in file.read(), "the authority's key is encrypted")
    cert("sign", "three", "--authority", folder, fails="is encrypted")
    os.chmod(f"{folder}/ca.key", 0o644)
    cert("sign", "three", "--authority", folder, passphrase=PASSPHRASE, fails="can be read by others")
    os.chmod(f"{folder}/ca.key", 0o600)
    cert("sign", "three", "--authority", folder, passphrase="another one", fails="does not open")
    cert("sign", "one", "--authority", folder, passphrase=PASSPHRASE, fails="would be replaced")
    cert("sign", "../three", "--authority", folder, passphrase=PASSPHRASE, fails="cannot name files")
    cert("sign", "three", "--authority", folder, passphrase=PASSPHRASE)


def named(folder, database, nodes):
    certificates = os.path.join(folder, "certificates")
    authority(certificates)

    def make(name, shows):
        node = Named(folder, name, database)
        node.shows = shows
        nodes.append(node)
        node.start()
        return node

    one, two, three = (make(name, f"{certificates}/{name}") for name in ("one", "two", "three"))
    for node in (one, two, three):
        node.wait_ready()
    wait(lambda: all(not node.links_down() and len(node.view()["members"]) == 3
                     for node in (one, two, three)), "all links to stand")
    check(True, "nodes with certificates of their own are ready and reach each other")

    thief = make("thief", f"{certificates}/three")
    check(thief.process.wait(timeout=60) != 0
          and "is the certificate of three, and this node is thief" in thief.log_text(),
          "a node does not start with another's certificate")
    reading_again(certificates, one, two, three)
    unnamed(folder, certificates, one, two, make)
    return one, two, three


def unnamed(folder, certificates, one, two, make):
    """A node whose certificate is valid and names no node. All nodes also trust the authority of this
    certificate."""
    shared = os.path.join(folder, "shared")
    cert("make", "--cluster", "--out", shared)
    with open(f"{shared}/ca.pem", encoding="ascii") as file:
        theirs = file.read()
    taken = {node: node.log_text().count("a new certificate is in use") for node in (one, two)}
    with open(f"{certificates}/ca.pem", "a", encoding="ascii") as file:
        file.write(theirs)
    with open(f"{certificates}/ca.pem", encoding="ascii") as file:
        both = file.read()
    with open(f"{shared}/ca.pem", "w", encoding="ascii") as file:
        file.write(both)
    wait(lambda: all(node.log_text().count("a new certificate is in use") > taken[node]
                     for node in (one, two)),
         "the authorities to be read again when their file changes")
    check(one.metrics()["tidecast_peer_links_down"] == 0 and two.metrics()["tidecast_peer_links_down"] == 0,
          "no link is down for that")
    four = make("four", f"{shared}/peer")
    words = "node four shows a certificate that names no node"
    wait(lambda: words in one.log_text() and words in two.log_text(), "the node to be refused by name")
    wait(lambda: all(words in four.links_down().get(name, "") for name in ("one", "two")),
         "cluster status of the refused node to say why")
    check(True, f"its operator reads why: {four.links_down()['one']}")
    told = []

    def is_told():
        status, body = four.call("GET", "/readyz", timeout=2)
        told[:] = [body.decode()]
        return status == 503 and words in told[0]

    # No link of node four stands in either direction: both sides of a link check the name in the other side's
    # certificate.
    wait(is_told, "its /readyz to say why")
    check(True, f"and in /readyz: {told[0].strip()}")
    four.end(signal.SIGKILL)
    two.end(signal.SIGTERM)
    two.options.append("--allow-shared-peer-cert")
    two.start()
    two.wait_ready()
    four.start()
    # A ready node reaches an owner of partitions. Only node two accepts node four, so node four has reached
    # node two.
    four.wait_ready()
    wait(lambda: "one" in four.links_down(), "the node to be refused by the others")
    check("two" not in four.links_down(), f"no link to the one that allows it is down: {four.links_down()}")
    check(True, "--allow-shared-peer-cert believes it")
    four.end(signal.SIGTERM)


def reading_again(certificates, one, two, three):
    before = shown(one, certificates, "two")
    check(before == first_certificate(f"{certificates}/one.pem"), "the node shows its certificate")
    broken = one.log_text().count("a node cannot be reached") + two.log_text().count("a node cannot be"
                                                                                     " reached")
    cert("sign", "one", "--authority", certificates, "--force", passphrase=PASSPHRASE)
    after = first_certificate(f"{certificates}/one.pem")
    check(before != after, "there is another certificate for it")
    wait(lambda: shown(one, certificates, "two") == after, "it to be shown without a word")
    cert("sign", "one", "--authority", certificates, "--force", passphrase=PASSPHRASE)
    lines = one.log_text().count("a new certificate is in use")
    # tools/unprivileged replaces itself by the server (exec), so the signal goes to the server.
    one.process.send_signal(signal.SIGHUP)
    wait(lambda: one.log_text().count("a new certificate is in use") > lines, "SIGHUP to have it read")
    now = first_certificate(f"{certificates}/one.pem")
    check(shown(one, certificates, "two") == now, "the newest is shown")
    with open(f"{certificates}/one.key", "r+", encoding="ascii") as file:
        file.truncate(40)
    wait(lambda: "a new certificate cannot be used: the former certificate stays in use" in one.log_text(),
         "half a key to be refused")
    check(shown(one, certificates, "two") == now, "and the one before is shown")
    check(one.log_text().count("a node cannot be reached") + two.log_text().count("a node cannot be reached")
          == broken
          and not one.links_down() and not three.links_down(), "no connection was cut for all that")
    cert("sign", "one", "--authority", certificates, "--force", passphrase=PASSPHRASE)
    wait(lambda: shown(one, certificates, "two") == first_certificate(f"{certificates}/one.pem"),
         "a whole pair to be taken again")


def without_tls(folder, database, nodes):
    """Nodes without TLS. A client without the cluster's key sends a node's greeting back to the node, and
    must be cut off."""
    five, six = Named(folder, "five", database), Named(folder, "six", database)
    nodes += [five, six]
    start((five, six))
    wait(lambda: not five.links_down() and not six.links_down(), "nodes without TLS to reach each other")
    refused = five.metrics()["tidecast_peer_refused_total"]
    heard = b""
    with socket.create_connection(("127.0.0.1", five.peer), timeout=20) as connection:
        while True:
            try:
                some = connection.recv(65536)
                if not some:
                    break
                heard += some
                connection.sendall(some)
            except (ConnectionResetError, BrokenPipeError):
                break
    check(len(heard) < 2000, f"an echo of the greeting is cut off after {len(heard)} bytes")
    wait(lambda: "does not prove that it has this cluster's key" in five.log_text(), "the log to say why")
    check(five.metrics()["tidecast_peer_refused_total"] > refused, "and the metric to count it")
    replayed(five, six)


def replayed(node, other):
    if os.getuid() != 0:
        print("skipped: only root hears the gossip of others")
        return
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)) as ear:
        ear.bind(("lo", 0))
        ear.settimeout(1)
        recorded = set()
        end = time.monotonic() + 30
        while len(recorded) < 10 and time.monotonic() < end:
            try:
                packet = ear.recv(65536)
            except TimeoutError:
                continue
            start = (packet[0] & 15) * 4
            if packet[9] == 17 and int.from_bytes(packet[start + 2:start + 4], "big") == node.peer:
                recorded.add(packet[start + 8:])
    check(len(recorded) == 10, "gossip was recorded")
    before, sent = node.metrics()["tidecast_gossip_replayed_total"], 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
        mouth.bind(("127.0.0.1", 0))
        mouth.settimeout(2)
        for datagram in recorded:
            for _ in range(3):
                mouth.sendto(datagram, ("127.0.0.1", node.peer))
                sent += 1
        wait(lambda: node.metrics()["tidecast_gossip_replayed_total"] >= before + sent,
             "each datagram that comes again to be refused")
        try:
            answer = mouth.recv(2000)
        except TimeoutError:
            answer = None
        check(answer is None, "none of them is answered")
    check(all(one["state"] == "alive" for one in node.view()["members"] if one["node"] == other.name),
          "the nodes go on")


def main():
    with making() as made:
        os.chmod(made.folder, 0o777)
        database = made.database()
        for node in named(made.folder, database, made.nodes):
            node.end(signal.SIGTERM)
        without_tls(made.folder, database, made.nodes)
        print("cluster_certificates: ok")


if __name__ == "__main__":
    main()
