"""An operator refuses the certificate of a node. See cluster_refused.sh."""
import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess

from cluster_certificates import Named, cert, first_certificate

from system.checks import check, until, wait
from system.node import making, start

# The order of the curve P-256 (FIPS 186-4 D.1.2.3).
ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551
REFUSES = "shows a certificate that the cluster refuses"
TRIES = "tidecast_peer_certificates_refused_total"
# Seconds until all links are cut; without a cut they would stand for ever.
CUT_SECONDS = 15


def fingerprint(file):
    """The SHA-256 of the first certificate of a PEM file, as OpenSSL prints it."""
    digits = hashlib.sha256(first_certificate(file)).hexdigest().upper()
    return ":".join(digits[at:at + 2] for at in range(0, 64, 2))


def element(der, at):
    """The content and the end of the DER element at `at`."""
    length, start = der[at + 1], at + 2
    if length > 127:
        start += length & 127
        length = int.from_bytes(der[at + 2:start], "big")
    return der[start:start + length], start + length


def encoded(tag, content):
    """A DER element."""
    length = len(content)
    size = b"" if length < 128 else length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 128 | len(size)]) + size + content if size else bytes([tag, length]) + content


def number(value):
    """A positive INTEGER of DER."""
    return encoded(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def twin(file):
    """The PEM of the first certificate with the other form of its ECDSA signature, (r, n - s)."""
    whole, _ = element(first_certificate(file), 0)
    _, signed = element(whole, 0)
    _, algorithm = element(whole, signed)
    bits, _ = element(whole, algorithm)
    pair, _ = element(bits[1:], 0)
    left, at = element(pair, 0)
    right, _ = element(pair, at)
    signature = encoded(0x30, number(int.from_bytes(left, "big"))
                        + number(ORDER - int.from_bytes(right, "big")))
    der = encoded(0x30, whole[:algorithm] + encoded(3, b"\0" + signature))
    return ("-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der).decode()
            + "-----END CERTIFICATE-----\n")


def copy(source, target):
    """Copies a certificate and its key, with their owner."""
    for end in ("pem", "key"):
        shutil.copy2(f"{source}.{end}", f"{target}.{end}")
        owner = os.stat(f"{source}.{end}")
        os.chown(f"{target}.{end}", owner.st_uid, owner.st_gid)


def said(node, *words, fails=None):
    """What a command prints; it must fail, and say `fails`, where that is given."""
    done = node.run("cluster", *words)
    text = done.stdout + done.stderr
    if fails:
        check(done.returncode != 0 and fails in text, f"cluster {words[0]} is refused: {text.strip()[:160]}")
    elif done.returncode != 0:
        raise SystemExit(f"FAIL: cluster {' '.join(words)}: {text}")
    return text


def stand(*nodes):
    """Waits until each of the nodes is ready and has a link to each of the others."""
    for node in nodes:
        node.wait_ready()
    names = {node.name for node in nodes}
    wait(lambda: all(not node.links_down() and names == {one["node"] for one in node.view()["members"]}
                     for node in nodes), "all links to stand")


def owned(node, name):
    """How many partitions the node `name` owns, as `node` sees it."""
    return next((one["partitions"] for one in node.view()["members"] if one["node"] == name), 0)


def is_cut(node, *others):
    """Whether no link stands between `node` and the others, in either direction, for its certificate."""
    return (all(REFUSES in one.links_down().get(node.name, "") for one in others)
            and all(REFUSES in node.links_down().get(one.name, "") for one in others))


def mistakes(one, three, former):
    """What would be done by mistake is refused, and nothing is cut."""
    own = fingerprint(f"{one.shows}.pem")
    said(one, "refuse", "AB:CD", fails="64 hexadecimal digits")
    said(one, "refuse", former[:-1], fails="64 hexadecimal digits")
    said(one, "refuse", hashlib.sha1(b"x").hexdigest(), fails="64 hexadecimal digits")
    said(one, "accept", "nothing", fails="64 hexadecimal digits")
    said(one, "refuse", own, fails="one, the node that was asked, shows this certificate itself")
    said(one, "refuse", own, "--force", fails="one, the node that was asked, shows this certificate itself")
    said(one, "refuse", other_form(one.shows), "--force",
         fails="one, the node that was asked, shows this certificate itself")
    said(one, "refuse", former, fails="three shows this certificate now")
    said(one, "accept", former, fails="does not refuse the certificate")
    check(not one.links_down() and not three.links_down() and one.view()["refusedCertificates"] == [],
          "nothing was refused for all that")


def refuse(one, two, three, former):
    """Refuses the certificate that node three shows."""
    members = {member["node"]: member["certificate"] for member in one.view()["members"]}
    check(members == {node.name: fingerprint(f"{node.shows}.pem") for node in (one, two, three)},
          "cluster status shows the certificate of each node")
    printed = subprocess.run(["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in",
                              f"{three.shows}.pem"], check=True, capture_output=True, text=True).stdout
    check(printed.strip().endswith(f"={former}"), "and openssl prints it so")
    text = said(one, "refuse", former.replace(":", "").lower(), "--force")
    check(former in text and "cut off until they have another: three" in text, text.strip())
    passed = until(lambda: is_cut(three, one, two), CUT_SECONDS)
    check(passed is not None, f"all links of the node were cut and stay down ({passed:.1f} s)")
    wait(lambda: three.asked("/readyz")[0] == 503 and "refuses this node's certificate" in
         three.asked("/readyz")[1], "the node to say why it is not ready")
    wait(lambda: owned(one, "three") == 0 and all(one.owners()), "its partitions to have other owners")
    check(True, f"its partitions have other owners: {three.asked('/readyz')[1].strip()}")
    check(all(REFUSES in node.log_text() and node.metrics()[TRIES] > 0 for node in (one, two)),
          "the other nodes log and count it")
    check(one.view()["refusedCertificates"] == [former] and former in one.shown(), "cluster status lists it")
    entry = json.loads(one.command("audit", "--json"))[0]
    check(entry["action"] == "cluster.refuse" and entry["what"] == f"{former}, forced",
          f"the audit log has it: {entry}")


def other_form(file):
    """Writes the certificate with the other form of its signature, and returns its fingerprint."""
    with open(f"{file}-twin.pem", "w", encoding="ascii") as out:
        out.write(twin(f"{file}.pem"))
    return fingerprint(f"{file}-twin.pem")


def thieves(folder, database, nodes, one, two, three, stolen):
    """Processes with a copy of the refused certificate and its key, while node three is down."""
    three.end(signal.SIGTERM)
    copy(stolen, f"{stolen}-twin")
    check(other_form(stolen) != fingerprint(f"{stolen}.pem"),
          "the other form of the signature has another fingerprint")
    for form in (stolen, f"{stolen}-twin"):
        own = os.path.join(folder, os.path.basename(form))
        os.mkdir(own)
        os.chmod(own, 0o777)
        thief = Named(own, "three", database)
        thief.shows = form
        nodes.append(thief)
        tries = {node: node.metrics()[TRIES] for node in (one, two)}
        thief.start()
        wait(lambda tries=tries: all(node.metrics()[TRIES] >= tries[node] + 2 for node in (one, two)),
             "the process to try")
        wait(lambda thief=thief: is_cut(thief, one, two), "each try to be refused, in both directions")
        check(not thief.is_ready(), f"a process with {os.path.basename(form)} gets no link")
        thief.end(signal.SIGTERM)


def main():
    with making() as made:
        os.chmod(made.folder, 0o777)
        database, folder = made.database(), os.path.join(made.folder, "certificates")
        cert("make", "--cluster", "--out", folder, "--node", "one", "two", "three")
        one, two, three = (Named(made.folder, name, database) for name in ("one", "two", "three"))
        made.nodes += [one, two, three]
        for node in (one, two, three):
            node.shows = f"{folder}/{node.name}"
        start((one, two, three))
        stand(one, two, three)
        stolen, former = f"{folder}/stolen", fingerprint(f"{folder}/three.pem")
        copy(f"{folder}/three", stolen)
        mistakes(one, three, former)
        refuse(one, two, three, former)

        said(two, "accept", former)
        stand(one, two, three)
        wait(lambda: owned(one, "three") > 0, "the node to own partitions again")
        check(one.view()["refusedCertificates"] == [], "accept is the way back, without a restart")

        said(two, "refuse", other_form(three.shows))
        wait(lambda: is_cut(three, one, two), "the other form to cut the links too")
        wait(lambda: "refuses this node's certificate" in three.asked("/readyz")[1], "the node to know of it")
        said(two, "accept", other_form(three.shows))
        stand(one, two, three)

        said(two, "refuse", former, "--force")
        wait(lambda: is_cut(three, one, two), "the links to be cut again")
        for node in (one, two, three):
            node.end(signal.SIGTERM)
        for node in (one, two, three):
            node.start()
        for node in (one, two):
            node.wait_ready()
        wait(lambda: is_cut(three, one, two), "the refusal to hold after a restart of all nodes")
        check(one.view()["refusedCertificates"] == [former] and not three.is_ready()
              and owned(one, "three") == 0, "the refusal holds after a restart of all nodes")

        cert("sign", "three", "--authority", folder, "--force")
        stand(one, two, three)
        check(True, "another certificate brings the node back, without a restart")
        tries = one.metrics()[TRIES]
        thieves(made.folder, database, made.nodes, one, two, three, stolen)
        check(one.metrics()[TRIES] > tries and two.is_ready() and all(one.owners()), "the cluster serves")
        three.start()
        stand(one, two, three)
        said(one, "refuse", fingerprint(f"{folder}/two.pem").replace(":", ""), fails="two shows this")
        print("cluster_refused: ok")


if __name__ == "__main__":
    main()
