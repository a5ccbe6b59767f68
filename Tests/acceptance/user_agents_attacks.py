"""Parts of user_agents.py: senders that flood, and requests without a handshake."""
import collections
import http.client
import os
import subprocess
import time
import urllib.parse

from system.checks import check
from system.node import start
from system.process import UNPRIVILEGED, Server
from system.shop import Project
from system.useragent import UserAgent


def floods(made):
    """One sender floods a user agent of its own. Its address is bounded, and addresses together do not use up
    the project's sends: a device's limit is the device's alone."""
    folder = os.path.join(made.folder, "flood")
    subprocess.run([UNPRIVILEGED, "mkdir", "-m", "755", folder], check=True)
    server = Server(folder, "--address-calls-per-minute", "60", name="flood")
    made.nodes.append(server)
    start([server])
    project = Project(server, "push")
    server.command("project", "quota", project.name, "--sends-per-minute", "1000")
    url = project.set_push("serve", "--origin", f"http://{server.host}:{server.port}")["userAgents"]
    own, other = UserAgent(url), UserAgent(url)
    own.connect()
    other.connect()
    target, channel = own.subscribe(), other.subscribe()
    statuses = collections.Counter()
    began = time.monotonic()
    for source in range(2, 7):
        came = flood(server, target, f"127.0.0.{source}", 100)
        statuses += came
    # Both bounds grow again while the flood lasts: by four messages and by one call a second.
    seconds = time.monotonic() - began + 1
    check(statuses[201] <= 240 + 4 * seconds and set(statuses) == {201, 429},
          f"a flooded device has its limit: {statuses}")
    refused = server.metrics()['tidecast_refused_by_address_total{what="calls"}']
    check(200 - seconds <= refused <= 200, f"each address has its bound: {refused:.0f} refused")
    came = flood(server, channel, "127.0.0.9", 50)
    check(came == {201: 50}, f"and another user agent gets its messages: {came}")


def flood(server, channel, source, messages):
    """Posts over one connection from a source address. Returns how many answers had which status."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30, source_address=(source, 0))
    came = collections.Counter()
    for _ in range(messages):
        connection.request("POST", urllib.parse.urlsplit(channel.endpoint).path, headers={"ttl": "0"})
        answer = connection.getresponse()
        answer.read()
        came[answer.status] += 1
    connection.close()
    return came


def without_handshake(server):
    """A request without a handshake is 426. Over HTTP/2 the answer has no field of a connection, which
    RFC 9113, section 8.2.2, forbids."""
    for version, shows in (("--http1.1", True), ("--http2-prior-knowledge", False)):
        answer = subprocess.run(["curl", "-sSi", version, f"http://127.0.0.1:{server.port}/push/push"],
                                capture_output=True, text=True, check=True).stdout.lower()
        head = answer.partition("\n\n")[0].splitlines()
        check(" 426" in head[0] and ("upgrade: websocket" in head) == shows
              and "sec-websocket-version: 13" in head,
              f"without a handshake: 426, with `upgrade` over HTTP/1.1 alone ({version})")
