"""HTTP as a backend and a device speak it, with the retries of an SDK."""
import http.client
import json
import random
import select
import socket
import threading
import time

from topology import API_PORT

from system.device import EventStream

# The server answers within its own deadline of 25 s.
TIMEOUT = 30.0
# The retries of the official SDKs: at most four, on 503, the first after 0.5 s and each later pause twice as
# long.
RETRIES = 4
BACKOFF = 0.5

FAULTS = (OSError, http.client.HTTPException, ValueError)


def connection(gateway, timeout):
    """A connection to a gateway's plain port. A gateway that is reached in another way has a `connection` of
    its own."""
    if hasattr(gateway, "connection"):
        return gateway.connection(timeout)
    return http.client.HTTPConnection(gateway.address, API_PORT, timeout=timeout)


def is_ended(link):
    """Whether the other side has ended this idle connection. HTTP libraries look before they use a connection
    again (urllib3's `is_connection_dropped`); http.client does not."""
    if not link.sock:
        return False
    # `select` knows no descriptor above 1,023, and a herd has more.
    looks = select.poll()
    looks.register(link.sock, select.POLLIN)
    return bool(looks.poll(0))


class Client:
    """One thread's connections: one to each gateway, kept open."""

    def __init__(self, gateways, seed):
        self.gateways, self.random = gateways, random.Random(seed)
        self.kept = {}

    def call(self, gateway, method, path, body=None, headers=None):
        """(status, JSON). Status 0: the connection broke, so the outcome is not known."""
        link = self.kept.pop(gateway.name, None)
        if link is None or is_ended(link):
            link = connection(gateway, TIMEOUT)
        try:
            if link.sock is None:
                link.timeout = 3
                link.connect()
                link.sock.settimeout(TIMEOUT)
                link.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.request(method, path, json.dumps(body) if body is not None else None,
                         {"content-type": "application/json", **(headers or {})})
            answer = link.getresponse()
            raw = answer.read()
            if not answer.will_close:
                self.kept[gateway.name] = link
            return answer.status, json.loads(raw or b"{}")
        except FAULTS as error:
            link.close()
            return 0, {"error": repr(error)}

    def pick(self, without=None):
        others = [one for one in self.gateways if one is not without]
        return self.random.choice(others or self.gateways)

    def pauses(self):
        """The seconds to wait before each retry."""
        for number in range(RETRIES):
            yield BACKOFF * 2 ** number * self.random.uniform(0.8, 1.2)


def open_stream(gateway, project, device, credential, last_event=None):
    """A device's stream at a gateway. Raises one of FAULTS where the gateway does not answer within 3 s."""
    link = connection(gateway, 3)
    link.connect()
    # The server sends a comment every 25 s.
    link.sock.settimeout(35)
    return EventStream(link, f"/v1/projects/{project}/registrations/{device}", credential, last_event)


class Pace:
    """A loop with `per_second` rounds a second on average, at random times, until `over` is set."""

    def __init__(self, over, per_second, rng):
        self.over, self.per_second, self.random = over, per_second, rng

    def __iter__(self):
        while not self.over.wait(self.random.expovariate(self.per_second)):
            yield time.monotonic()


def spawn(work, *arguments):
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread
