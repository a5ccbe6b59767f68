"""The tokens of two nodes for Apple's push service: see apns_cluster.sh."""
import json

from system.apnsrules import decoded
from system.apple import TEAM, Apple, Phone
from system.checks import check, wait
from system.node import making, start
from system.shop import Project

KEY = "KEY0000001"
# Devices of one project are in few partitions, so projects are made until both nodes push.
PROJECTS_MAX = 40
# How long a token stays the same: APNsSigner.
PERIOD = 40 * 60
PUSHED = 'tidecast_pushes_total{outcome="accepted",service="apns"}'


def tokens(service):
    """(key id, team, iat, token) of each request, in their order."""
    found = []
    for note in list(service.seen):
        if note["event"] == "request":
            token = note["fields"]["authorization"].split(" ")[1]
            head, claims, _ = token.split(".")
            head, claims = json.loads(decoded(head)), json.loads(decoded(claims))
            found.append((head["kid"], claims["iss"], claims["iat"], token))
    return found


def pushed(node):
    return node.metrics().get(PUSHED, 0)


def check_tokens(service, processes):
    """`processes`: how many have pushed. Each signs by itself, and a signature has a random part."""
    found = tokens(service)
    times = [at for _, _, at, _ in found]
    periods = sorted(set(times))
    check({(key, team) for key, team, *_ in found} == {(KEY, TEAM)}, "all tokens tell the key and its team")
    check(times == sorted(times) and len(periods) <= 2 and all(at % PERIOD == 0 for at in periods),
          f"the tokens of {len(times)} requests tell one time of signing: nodes do not take turns")
    distinct = len({token for *_, token in found})
    check(distinct <= processes * len(periods),
          f"{processes} processes have shown {distinct} tokens, one each in {PERIOD // 60} minutes")


def to_all(phones):
    """Sends messages to each phone, and waits for all of them."""
    for _ in range(5):
        names = [phone.send(data={"for": "all"}) for phone in phones]
        for phone, name in zip(phones, names, strict=True):
            phone.wait_for(name, 120)


def make_phones(nodes, apple):
    """A phone in each of so many projects that both nodes push."""
    file, phones = apple.make_key(KEY, TEAM), []
    while not all(pushed(node) > 0 for node in nodes):
        if len(phones) == PROJECTS_MAX:
            raise SystemExit(f"FAIL: with {PROJECTS_MAX} projects one node pushes nothing")
        shop = Project(nodes[len(phones) % 2], f"shop-{len(phones)}")
        apple.set_key(shop, file, KEY, TEAM)
        phones.append(Phone(shop, apple.service))
        phones[-1].wait_for(phones[-1].send(data={"the": "first"}), 120)
    return phones


def own_partitions(nodes):
    wait(lambda: set(nodes[0].owners()) == {node.name for node in nodes}, "each node to own partitions")


def main():
    with making() as made:
        _, nodes = made.cluster("one", "two")
        apple = Apple(made.folder, "push")
        start(nodes)
        own_partitions(nodes)
        phones = make_phones(nodes, apple)
        check(True, f"with {len(phones)} projects of one key both nodes push")
        to_all(phones)
        check_tokens(apple.service, 2)
        nodes[1].kill()
        for phone in phones:
            phone.shop.server = nodes[0]
        to_all(phones)
        start([nodes[1]])
        own_partitions(nodes)
        to_all(phones)
        wait(lambda: pushed(nodes[1]) > 0, "the node that was killed to push again")
        check_tokens(apple.service, 3)
        check(not apple.service.mistakes, f"the service understood each push: {apple.service.mistakes[:3]}")
        refused = [note for note in apple.service.seen if note.get("status", 200) != 200]
        check(not refused, f"the service refused no token: {refused[:1]}")
        apple.service.close()


main()
