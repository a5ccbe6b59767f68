"""Shared by the scripts in this folder: checks that are counted, and devices that listen."""
import json
import os
import threading
import urllib.request

from system.checks import until
from system.device import events

PROJECT = os.environ["PROJECT"]
PLAIN = os.environ["PLAIN"]  # the server's URL without TLS, for the devices
KEY = os.environ["DEVICE_KEY"]
counts = {True: 0, False: 0}


def check(name, condition, detail=""):
    counts[bool(condition)] += 1
    print(f"ok   {name}" if condition else f"FAIL {name} {detail}")


def raises(name, kind, body, text=None):
    """`body` must raise exactly `kind`. `text`: the exception's text, where it is promised too."""
    try:
        body()
    except kind as error:
        check(name, type(error) is kind, f"got {type(error)}")
        if text is not None:
            check(f"{name}: its text", str(error) == text, f"got {error}")
    except Exception as error:  # noqa: BLE001
        check(name, False, f"got {type(error).__name__}: {error}")
    else:
        check(name, False, "nothing was raised")


def end():
    """Prints the closing count, and ends the process."""
    print(f"{counts[True]} passed, {counts[False]} failed", flush=True)
    os._exit(1 if counts[False] else 0)


def register(project=PROJECT, key=KEY):
    request = urllib.request.Request(
        f"{PLAIN}/v1/projects/{project}/registrations", data=b"{}", headers={"x-goog-api-key": key}
    )
    return json.load(urllib.request.urlopen(request))


def unregister(token):
    request = urllib.request.Request(
        f"{PLAIN}/v1/projects/{PROJECT}/registrations/{token}",
        method="DELETE", headers={"authorization": f"Bearer {os.environ['BEARER']}"})
    urllib.request.urlopen(request).read()


class Listener(threading.Thread):
    """A device that reads its stream and keeps the messages."""

    def __init__(self, device):
        super().__init__(daemon=True)
        url = f"{PLAIN}/v1/projects/{PROJECT}/registrations/{device['token']}:listen"
        self.response = urllib.request.urlopen(f"{url}?credential={device['credential']}")
        self.messages = []
        self.start()

    def run(self):
        for _, _, data in events(self.response):
            self.messages.append(json.loads(data))

    def wait(self, count, seconds=10):
        until(lambda: len(self.messages) >= count, seconds, 0.02)
        return self.messages
