"""Owners of partitions are killed in the middle of a fan-out to a push service: see push_owner_killed.sh."""
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from system.checks import check, wait
from system.node import making, start
from system.ports import free_port
from system.process import make_certificates
from system.pushservice import PushService
from system.shop import Shop

# Pushes that wait for an answer when the owner is killed, at the least.
IN_FLIGHT = 8
BATCH = 1000
# Of the devices of a partition, one in so many.
SPREAD = 50
THREADS = 6


class Fleet:
    """Browsers of one project, registered at a node and subscribed to one topic."""

    def __init__(self, shop, service, count):
        self.shop, self.service = shop, service
        with ThreadPoolExecutor(THREADS) as pool:
            made = list(pool.map(self.register, range(count)))
        self.browsers = [browser for browser, _ in made]
        self.tokens = [token for _, token in made]
        for first in range(0, count, BATCH):
            shop.subscribe(self.tokens[first:first + BATCH], "news")

    def register(self, number):
        browser = self.service.browser(f"browser-{number}")
        return browser, self.shop.tell(self.shop.install(), browser)

    def having(self, name):
        """How many browsers have the message."""
        return sum(1 for browser in self.browsers if name in browser.ids())

    def wait_for(self, name, count, what, limit=60):
        """Waits until `count` browsers have the message, at most `limit` s."""
        wait(lambda: self.having(name) >= count, what, limit)

    def doubles(self, name):
        """How many pushes of the message came again. Each try has the same Topic."""
        times = [browser.ids().count(name) for browser in self.browsers]
        topics = {topic for browser in self.browsers
                  for _, topic, message in browser.accepted + browser.refused
                  if message["fcmMessageId"] == name}
        assert len(topics) == 1, f"the tries of one message have the Topics {topics}"
        return sum(times) - len(times)


def kill_pusher(fleet, nodes, outcome):
    """Kills the node to which the service has answered with `outcome` most often, which owns the devices. The
    backend goes on at another node. Returns the dead node."""
    metric = f'tidecast_pushes_total{{outcome="{outcome}",service="web"}}'
    victim = max(nodes, key=lambda node: node.metrics().get(metric, 0))
    fleet.shop.server = next(node for node in nodes if node is not victim)
    victim.kill()
    return victim


def in_the_middle(fleet, nodes):
    """The owner dies while its devices are pushed. Returns the message's id and the dead node."""
    service, everybody = fleet.service, len(fleet.browsers)
    service.left = everybody // 2
    name = fleet.shop.publish("news", data={"the": "first"})
    wait(lambda: service.waiting >= IN_FLIGHT, "half of the browsers to have the message")
    # A send to a device is accepted when all former records of its partition are durable.
    for token in fleet.tokens[::SPREAD]:
        status, said = fleet.shop.send(token=token, data={"behind": "the acceptances"})
        assert status == 200, said
    victim = kill_pusher(fleet, nodes, "accepted")
    check(fleet.having(name) < everybody, "an owner died in the middle of its fan-out")
    service.stalls.clear()
    fleet.wait_for(name, everybody, "all browsers to have the message", 180)
    return name, victim


def while_failing(fleet, nodes, seconds):
    """The service answers 503 for a time, then 429, and an owner dies meanwhile. Returns what `in_the_middle`
    does."""
    service, everybody = fleet.service, len(fleet.browsers)
    service.status, service.retry_after = 503, None
    name = fleet.shop.publish("news", data={"during": "a failure"})
    wait(lambda: any(browser.refused for browser in fleet.browsers), "a push to be refused")
    victim = kill_pusher(fleet, nodes, "failed")
    over = threading.Event()
    threading.Timer(seconds, over.set).start()
    wait(lambda: victim.name not in fleet.shop.server.owners(), "the partitions to have another owner")
    over.wait()
    service.status, service.retry_after = 429, 2
    throttled = sum(len(browser.refused) for browser in fleet.browsers)
    wait(lambda: sum(len(browser.refused) for browser in fleet.browsers) > throttled,
         "a push to be throttled", 400)
    service.status, service.retry_after = 201, None
    fleet.wait_for(name, everybody, "all browsers to have the message after the failure", 900)
    return name, victim


def main(count, seconds):
    with making() as made:
        _, nodes = made.cluster("one", "two", "three")
        certificates = os.path.join(made.folder, "push")
        make_certificates(certificates, "--name", "localhost")
        service = PushService(os.path.join(certificates, "server.pem"),
                              os.path.join(certificates, "server.key"), free_port())
        start(nodes)
        shop = Shop(nodes[0], service, os.path.join(certificates, "ca.pem"))
        # All browsers register and subscribe as fast as they can.
        nodes[0].command("project", "quota", shop.name, "--subscriptions-per-second", "100000",
                         "--registrations-per-second", "100000")
        fleet = Fleet(shop, service, count)
        check(True, f"{count} browsers are registered")
        faults = [in_the_middle(fleet, nodes)]
        heirs = [node for node in nodes if node is not faults[0][1]]
        wait(lambda: any(node.metrics()["tidecast_pushes_again_total"] for node in heirs),
             "an heir to count what it pushes for the dead owner")
        start([faults[0][1]])
        wait(lambda: set(nodes[0].owners()) == {node.name for node in nodes}, "each node to own partitions")
        faults.append(while_failing(fleet, nodes, seconds))
        last = shop.publish("news", data={"the": "last"})
        fleet.wait_for(last, count, "all browsers to have the last message", 120)
        # A device gets its messages one after the other: with the last one all tries of the others are over.
        check(fleet.doubles(last) == 0, "a message without a fault comes once")
        doubles = fleet.doubles(faults[0][0])
        check(0 < doubles <= service.waiting,
              f"{doubles} pushes came again, of {service.waiting} that were at the service")
        check(fleet.doubles(faults[1][0]) == 0, "what the service had refused came once")
        check(not service.mistakes, f"the service understood each push: {service.mistakes[:3]}")
        service.close()


main(int(sys.argv[1]), float(sys.argv[2]))
