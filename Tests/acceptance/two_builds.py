"""Two builds in one cluster: see two_builds.sh."""
import json
import os
import signal
import sys

from assertion import access_token, exchange

from system import admin
from system.checks import check, wait
from system.device import Device
from system.load import Load, settled
from system.node import Node, making, start
from system.process import BACKEND

TODAY, FORMER = os.environ["TIDECAST"], sys.argv[1]
TOPICS = [f"topic-{number}" for number in range(8)]
# The numbers of the messages to conditions and to devices.
DIRECT = {900_001, 900_002, 800_001, 800_002}


class Listener(Device):
    """A device that acknowledges each twentieth message."""
    acknowledged = 20


class LoadOfBoth(Load):
    """Sends to the topics in turn, through both nodes in turn. Where a connection breaks, it sends again
    through the other node."""

    def __init__(self, nodes):
        self.nodes = nodes
        super().__init__(nodes[0], pause=0.02)

    def message(self, number):
        return {"topic": TOPICS[number % len(TOPICS)], "data": {"n": str(number)}}

    def send(self, number):
        self.server = self.nodes[number % 2]
        status = super().send(number)
        if status == 0:
            self.server = self.nodes[1 - number % 2]
            status = super().send(number)
        return status


def ask(node, path, body):
    status, answer = node.call("POST", path, body, BACKEND)
    if status != 200:
        raise SystemExit(f"FAIL: {path}: {status} {answer[:300]}")
    return json.loads(answer)


def refusals(nodes):
    """The log lines in which a node says that it did not understand something."""
    found = []
    for node in nodes:
        with open(os.path.join(node.folder, "log"), encoding="utf-8", errors="replace") as log:
            found += [line.strip() for line in log
                      if any(word in line for word in ("not understood", "unknown kind",
                                                       "no version of frames", "quarantined",
                                                       "makes no sense", "gossip could not be read",
                                                       "newer tidecast",
                                                       "gossip was refused"))
                      # This line comes from the gossip of a node that begins, before the other node has read
                      # its row in the database.
                      and "of nobody whom the database shows" not in line]
    return found


def credentials(today, former):
    """The credentials of each build must count at the other, and must end at the other when a build ends
    them."""
    nodes = (today, former)
    send, body = "/v1/projects/shop/messages:send", {"message": {"topic": "none", "data": {"n": "1"}}}

    def sends(node, token):
        return node.call("POST", send, body,
                         {"authorization": f"Bearer {token}", "content-type": "application/json"})[0]

    def both(token, status, what):
        for node in nodes:
            wait(lambda node=node: sends(node, token) == status, f"{node.name}: {what}", 30)
        check(True, what)
    path = os.path.join(former.folder, "shop.json")
    former.command("project", "create", "shop", "--service-account", path)
    with open(path, encoding="utf-8") as file:
        account = json.load(file)
    wait(lambda: exchange(today, account)[0] == 200, "the account to be known")
    token = access_token(today, account)
    for node in nodes:
        both(access_token(node, account), 200,
             f"an access token of the node of {node.name}, for an account from before")
    key = json.loads(today.command("key", "create", "shop", "--kind", "bearer", "--name", "new", "--json"))
    both(key["key"], 200, "a key that today's build made")
    old = former.command("project", "key", "create", "shop", "--kind", "bearer").strip()
    both(old, 200, "a key that the former build made")
    listed = {one["kind"]: one["id"]
              for one in json.loads(today.command("key", "list", "shop", "--json")) if one["id"] != key["id"]}
    for identity in (key["id"], listed["bearer"], listed["service-account"]):
        today.command("key", "revoke", identity, "--yes")
    both(key["key"], 401, "what is revoked ends at both")
    both(old, 401, "and what the former build has made as well")
    wait(lambda: [exchange(node, account)[0] for node in nodes] == [400, 400],
         "the account to be known no more")
    wait(lambda: sends(today, token) == 401, "its access tokens to end under today's build")
    # Not with the former build's command line, which may or may not ask for a confirmation.
    status, said = admin.ask(former.data, "DELETE", "/admin/projects/shop", timeout=60)
    check(status == 200, f"the project is deleted: {said}")
    both(old, 401, "the former build deletes the project")
    check(json.loads(today.command("key", "list", "--json")) == [], "and nothing of it is listed")


def shared(nodes):
    """Whether all running nodes see that both own partitions."""
    return all(set(node.owners()) == {"today", "former"} for node in nodes if node.is_running())


def wait_for_all(node):
    """Waits until the node owns all partitions."""
    wait(lambda: set(node.owners()) == {node.name}, "the other to own everything")


def cross(nodes):
    """Registers, subscribes and sends through both builds, and returns the devices."""
    today, former = nodes
    devices = []
    for number in range(8):
        made, listens = nodes[number % 2], nodes[number // 2 % 2]
        devices.append(Listener(listens, ask(made, "/v1/projects/demo/registrations", {})))
    tokens = [device.token for device in devices]
    for number, topic in enumerate(TOPICS):
        found = ask(nodes[number % 2], "/iid/v1:batchAdd",
                    {"to": f"/topics/{topic}", "registration_tokens": tokens})
        assert found["results"] == [{}] * len(tokens), found
    found = ask(today, "/iid/v1:batchRemove",
                {"to": f"/topics/{TOPICS[0]}", "registration_tokens": tokens[:1]})
    found = ask(former, "/iid/v1:batchAdd", {"to": f"/topics/{TOPICS[0]}", "registration_tokens": tokens[:1]})
    wait(lambda: all(device.streams for device in devices), "the streams")
    for number, node in enumerate(nodes):
        ask(node, "/v1/projects/demo/messages:send", {"message": {
            "condition": f"'{TOPICS[1]}' in topics && '{TOPICS[2]}' in topics",
            "data": {"n": str(900_001 + number)}}})
        for device in devices:
            ask(node, "/v1/projects/demo/messages:send",
                {"message": {"token": device.token, "data": {"n": str(800_001 + number)}}})
    wait(lambda: all(DIRECT <= set(device.counts()) for device in devices), "conditions and direct messages")
    check(True, "registered, subscribed, sent to topics, conditions and devices, each by the one and heard by"
                " the other")
    return devices


def leaves(nodes, load):
    """Each node leaves in order, and comes back."""
    today, former = nodes
    for leaver, stayer in ((former, today), (today, former)):
        mark = load.mark()
        check(leaver.end(signal.SIGTERM) == 0, f"the node of {leaver.name} leaves in order")
        wait_for_all(stayer)
        settled([load], "the leave", 20)
        start([leaver])
        wait(lambda: shared(nodes), "both to own partitions again")
        settled([load], "the return", 20)
        lost = {number: status for number, status in load.failures(mark).items() if status not in (0, 503)}
        check(not lost, f"partitions went from {leaver.name} to {stayer.name} and back {lost}")


def kills(nodes, load):
    """Each node is killed, and comes back."""
    today, former = nodes
    for victim, other in ((former, today), (today, former)):
        victim.end(signal.SIGKILL)
        wait_for_all(other)
        settled([load], "the kill", 20)
        start([victim])
        wait(lambda: shared(nodes), "both to own partitions again")
        settled([load], "the return", 20)
        check(True, f"the node of {victim.name} was killed: {other.name} took over, and gave back")


def moves(nodes, load):
    """As in a rolling upgrade: the former node moves to today's build, and back to its own build while the
    other runs."""
    former = nodes[1]
    for build, which, what in ((TODAY, "one build now", "goes on under today's"),
                               (FORMER, "two builds again", "goes back")):
        check(former.end(signal.SIGTERM) == 0, "it leaves in order")
        former.binary = build
        start([former])
        wait(lambda: shared(nodes), f"both to own partitions, of {which}")
        settled([load], f"its node {what}", 20)
        check(True, f"the node of the former build {what}")


def conclude(nodes, devices, load):
    """All that was accepted has arrived, and each node has understood the other."""
    load.end()
    accepted = set(load.accepted())
    wait(lambda: all(accepted <= set(device.counts()) for device in devices), "the last deliveries", 60)
    unknown = set(load.failures())
    surplus = [set(device.counts()) - accepted - unknown - DIRECT for device in devices]
    check(not any(surplus), f"nothing arrived that was never sent {surplus}")
    check(len(accepted) > 200, f"{len(accepted)} sends accepted, each delivered to {len(devices)} devices;"
                               f" {len(unknown)} not accepted")
    found = refusals(nodes)
    check(not found, f"neither node met a word that it does not understand {found[:3]}")


def run(nodes):
    start(nodes)
    wait(lambda: shared(nodes), "both to own partitions, and to agree")
    check(True, "a node of each build owns partitions")
    devices = cross(nodes)
    credentials(*nodes)
    load = LoadOfBoth(nodes)
    settled([load], "the beginning", 20)
    leaves(nodes, load)
    kills(nodes, load)
    moves(nodes, load)
    conclude(nodes, devices, load)


def main():
    with making() as made:
        database = made.database()
        for name, build in (("today", TODAY), ("former", FORMER)):
            made.nodes.append(Node(made.folder, name, database, binary=build))
        run(made.nodes)
    print("two_builds: ok")


if __name__ == "__main__":
    main()
