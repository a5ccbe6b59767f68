"""User agents of a cluster, through kill -9 of an owner and of their own node: see user_agents_cluster.sh."""
import contextlib
import json

import requests
from pywebpush import WebPusher
from websockets.exceptions import WebSocketException

from system.checks import check, wait
from system.node import making, start
from system.shop import Project
from system.useragent import UserAgent

# Enough that the devices are in partitions of all nodes.
AGENTS = 24


def send(channel, text):
    """Whether the message was accepted."""
    data = WebPusher(channel.subscription()).encode(text.encode(), content_encoding="aes128gcm")["body"]
    with contextlib.suppress(requests.RequestException):
        return requests.post(channel.endpoint, data=data, timeout=40, headers={
            "ttl": "600", "content-encoding": "aes128gcm"}).status_code == 201
    return False


def send_all(channels, text):
    """Sends to each channel until the message is accepted."""
    for channel in channels:
        wait(lambda channel=channel: send(channel, text), f"{text} to be accepted", 60)


def hears(agent, text, former):
    """The user agent gets the message once. A send whose answer was lost may have come before as well."""
    while True:
        one, got = agent.notification(60)
        agent.acknowledge(one)
        assert got.decode() not in former, f"{got} came again"
        if got.decode() == text:
            return


def wait_acknowledged(node, project):
    """Waits until all acknowledgements are durable: what is not may come again."""
    def is_done():
        with contextlib.suppress(OSError):
            status, body = node.call("GET", f"{project.path}/registrations", headers=project.backend)
            return status == 200 and not any(one["waitingCount"] for one in json.loads(body)["registrations"])
        return False
    wait(is_done, "all acknowledgements to be durable", 60)


def move(agents, source, target):
    """Their node is dead, and the user agents connect to another one, as behind a balancer."""
    for agent in agents:
        agent.url = agent.url.replace(str(source.port), str(target.port))
        for channel in agent.channels.values():
            channel.endpoint = channel.endpoint.replace(str(source.port), str(target.port))

    def is_back(agent):
        with contextlib.suppress(OSError, TimeoutError, WebSocketException):
            return agent.connect()
        return None
    for agent in agents:
        uaid = agent.uaid
        wait(lambda agent=agent: is_back(agent), "a user agent to come back", 60)
        assert agent.uaid == uaid


def main():
    with making() as made:
        _, nodes = made.cluster("node-a", "node-b", "node-c")
        start(nodes)
        first, second, third = nodes
        project = Project(first, "push")
        url = project.set_push("serve", "--origin", f"http://127.0.0.1:{first.port}")["userAgents"]
        wait(lambda: all(node.call("GET", "/push/push")[0] == 426 for node in nodes),
             "all nodes to know the service")
        agents = [UserAgent(url) for _ in range(AGENTS)]
        channels = []
        for agent in agents:
            agent.connect()
            channels.append(agent.subscribe())
        send_all(channels, "one")
        for agent in agents:
            hears(agent, "one", ())
        wait_acknowledged(third, project)
        check(True, "user agents of one node get what is sent in a cluster of three")
        second.kill()
        send_all(channels, "two")
        for agent in agents:
            hears(agent, "two", ("one",))
        wait_acknowledged(third, project)
        check(True, "with an owner killed, connections stay, and nothing is missing or comes again")
        first.kill()
        move(agents, first, third)
        send_all(channels, "three")
        for agent in agents:
            hears(agent, "three", ("one", "two"))
        check(True, "with their own node killed, user agents come back elsewhere as they were")


main()
