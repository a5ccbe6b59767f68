"""Two backends with the official firebase-admin SDK at two gateways of a cluster, and devices at the third
gateway.

Run by cluster_sdk.sh. Each backend is a process of its own in its gateway's namespace, where FCM's host names
point at that gateway. It reads its calls as lines of JSON. Prints a line per check and a closing count; exits
1 where a check failed.
"""
import json
import os
import subprocess
import sys
import urllib.parse

from system.checks import until, wait
from system.device import Device, register
from system.process import Server

PROJECT = "shop"
TOPIC = "news"


class Backend:
    """The SDK in a process of its own, in a gateway's namespace."""

    def __init__(self, gateway):
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", f"{os.environ['SPACE']}-{gateway}", sys.executable, __file__, "backend"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, call, **arguments):
        """The value that the SDK returned, or the name of the exception that it raised."""
        self.process.stdin.write(json.dumps({"call": call, **arguments}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)


def serve():
    """The backend's process: carries out the calls that it reads."""
    import firebase_admin
    from firebase_admin import credentials, exceptions, messaging
    firebase_admin.initialize_app(credentials.Certificate(os.environ["SERVICE_ACCOUNT"]))
    calls = {
        "subscribe": lambda tokens, topic: messaging.subscribe_to_topic(tokens, topic).success_count,
        "unsubscribe": lambda tokens, topic: messaging.unsubscribe_from_topic(tokens, topic).success_count,
        "send": lambda n, **target: messaging.send(messaging.Message(data={"n": n}, **target)),
        "each": lambda n, tokens: messaging.send_each(
            [messaging.Message(data={"n": n}, token=token) for token in tokens]).success_count,
    }
    for line in sys.stdin:
        words = json.loads(line)
        try:
            answer = calls[words.pop("call")](**words)
        except exceptions.FirebaseError as error:
            answer = type(error).__name__
        print(json.dumps(answer), flush=True)


class Listener(Device):
    """A device that is registered at gateway-3 and listens there. It keeps the numbers of its messages as
    they come."""
    pause = 0.1

    def __init__(self):
        place = urllib.parse.urlsplit(os.environ["DEVICES"])
        gateway = Server("", name="gateway-3")
        gateway.host, gateway.port = place.hostname, place.port
        self.got = []
        super().__init__(gateway, register(gateway, {"x-goog-api-key": os.environ["DEVICE_KEY"]}, PROJECT),
                         PROJECT)

    def receive(self, event, kind, data):
        self.last = event
        if kind == "message":
            self.got.append(json.loads(data)["data"]["n"])

    def has(self, wanted, seconds=15):
        """Whether exactly the wanted numbers have come, in order, within `seconds`."""
        return until(lambda: self.got == wanted, seconds, 0.02) is not None


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, name, found, wanted=True):
        if found == wanted:
            self.passed += 1
            print(f"ok   {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAIL {name}: {found!r} instead of {wanted!r}", flush=True)


def cluster(*words):
    done = subprocess.run([os.environ["CLUSTER"], *words], capture_output=True, text=True, check=True)
    return done.stdout


def owner_of_most():
    view = json.loads(cluster("exec", "gateway-1", "tidecast", "cluster", "status", "--json", "--data",
                              "/run/tidecast/data"))
    owners = [one["owner"] for one in view["partitions"]]
    return max(sorted(set(owners)), key=owners.count)


def main():
    check = Checks()
    one, two = Backend("gateway-1"), Backend("gateway-2")
    devices = [Listener() for _ in range(4)]
    tokens = [device.token for device in devices]
    wait(lambda: all(device.streams for device in devices), "the streams")

    check("subscribe through gateway-1", one("subscribe", tokens=tokens, topic=TOPIC), 4)
    check("send through gateway-2",
          two("send", n="1", topic=TOPIC).startswith(f"projects/{PROJECT}/messages/"))
    check("devices at gateway-3 have it", [device.has(["1"]) for device in devices], [True] * 4)
    check("send to a condition",
          two("send", n="2", condition=f"'{TOPIC}' in topics && !('none' in topics)")[:9], "projects/")
    # Only sends to one topic arrive in the order in which they were accepted, so the script waits for this
    # send.
    check("devices have it as well", [device.has(["1", "2"]) for device in devices], [True] * 4)
    check("send to each token", two("each", n="3", tokens=tokens), 4)
    check("devices have all three", [device.has(["1", "2", "3"]) for device in devices], [True] * 4)
    check("unsubscribe through gateway-2", two("unsubscribe", tokens=tokens[:1], topic=TOPIC), 1)
    check("send through gateway-1", one("send", n="4", topic=TOPIC)[:9], "projects/")
    check("who is subscribed has it", [device.has(["1", "2", "3", "4"]) for device in devices[1:]],
          [True] * 3)
    check("nobody's token", one("send", n="x", token=tokens[0][:22] + ":" + "A" * 100),
          "InvalidArgumentError")

    victim = owner_of_most()
    cluster("kill", victim)
    sent = [str(number) for number in range(5, 25)]
    check(f"twenty sends while {victim} is dead", [two("send", n=n, topic=TOPIC)[:9] for n in sent],
          ["projects/"] * 20)
    check("they come, in order", [device.has(["1", "2", "3", "4"] + sent) for device in devices[1:]],
          [True] * 3)
    cluster("start", victim)
    check("who unsubscribed has none of them", devices[0].got, ["1", "2", "3"])
    check("no device had to come back", [device.streams for device in devices], [1] * 4)
    one.end()
    two.end()
    print(f"{check.passed} passed, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(serve() if sys.argv[1:] == ["backend"] else main())
