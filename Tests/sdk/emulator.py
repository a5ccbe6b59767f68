"""A backend's tests, as a developer would write them for a development server. Run by emulator.sh.

Prints a line per check and a closing count; exits 1 where a check failed.
"""
import json
import time
import urllib.error
import urllib.request

import firebase_admin
import google.auth.credentials
from checks import PLAIN, PROJECT, Listener, check, end, raises, register
from firebase_admin import credentials, exceptions, messaging


class Token(google.auth.credentials.Credentials):
    def refresh(self, request):
        self.token = "owner"


class Owner(credentials.Base):
    """A development server accepts the bearer `owner` for every project."""

    def get_credential(self):
        return Token()


def emulator(method, path, body=None):
    request = urllib.request.Request(
        f"{PLAIN}/emulator/v1/projects/{PROJECT}{path}", method=method,
        data=None if body is None else json.dumps(body).encode())
    return json.load(urllib.request.urlopen(request))


def sent():
    return [message["message"] for message in emulator("GET", "/messages")["messages"]]


def main():
    app = firebase_admin.initialize_app(Owner(), {"projectId": PROJECT, "httpTimeout": 2})
    device = register()
    token = device["token"]

    # The messages that were sent.
    check("nothing was sent", sent() == [], sent())
    messaging.subscribe_to_topic([token], "news")
    listener = Listener(device)
    name = messaging.send(messaging.Message(topic="news", data={"n": "1"}))
    check("the device gets it", [message["data"] for message in listener.wait(1)] == [{"n": "1"}])
    messages = emulator("GET", "/messages")["messages"]
    check("the emulator tells it",
          [m["message"] for m in messages] == [{"topic": "news", "data": {"n": "1"}}], messages)
    check("by its name", messages[0]["name"] == name, messages)
    raises("a token that is none", exceptions.InvalidArgumentError,
           lambda: messaging.send(messaging.Message(fid="none")))
    check("what was refused was not sent", len(sent()) == 1, sent())

    # Faults: the SDK itself sends again after 503.
    emulator("POST", "/faults", {"error": "UNAVAILABLE", "times": 2})
    messaging.send(messaging.Message(topic="news", data={"n": "2"}))
    check("sent in the third try", len(sent()) == 2 and emulator("GET", "/faults") == {"faults": []}, sent())
    for error, kind in [
        ("UNREGISTERED", messaging.UnregisteredError),
        ("SENDER_ID_MISMATCH", messaging.SenderIdMismatchError),
        ("QUOTA_EXCEEDED", messaging.QuotaExceededError),
        ("THIRD_PARTY_AUTH_ERROR", messaging.ThirdPartyAuthError),
        ("INVALID_ARGUMENT", exceptions.InvalidArgumentError),
        ("PERMISSION_DENIED", exceptions.PermissionDeniedError),
    ]:
        emulator("POST", "/faults", {"error": error, "times": 0, "device": token})
        raises(error, kind, lambda: messaging.send(messaging.Message(fid=token, data={"n": "no"})))
        messaging.send(messaging.Message(topic="news", data={"n": error}))
        emulator("DELETE", "/faults")
    check("others were sent meanwhile", len(sent()) == 8, sent())
    emulator("POST", "/faults", {"delay": "1.2s"})
    began = time.monotonic()
    messaging.send(messaging.Message(fid=token, data={"n": "late"}))
    check("a send that takes longer", time.monotonic() - began >= 1.2)

    # A new test begins with an empty project.
    emulator("DELETE", "/messages")
    check("the messages are forgotten", sent() == [], sent())
    emulator("DELETE", "")
    raises("the devices of before are another project's", messaging.SenderIdMismatchError,
           lambda: messaging.send(messaging.Message(fid=token, data={"n": "gone"})))
    messaging.send(messaging.Message(topic="news", data={"n": "anew"}))
    check("the project begins anew", sent() == [{"topic": "news", "data": {"n": "anew"}}], sent())

    # Without an SDK: a header field of the request asks for a fault.
    request = urllib.request.Request(
        f"{PLAIN}/v1/projects/{PROJECT}/messages:send", data=b'{"message":{"topic":"news"}}',
        headers={"authorization": "Bearer owner", "x-tidecast-fault": "INTERNAL"})
    try:
        urllib.request.urlopen(request)
        check("a field asks for a fault", False, "it was accepted")
    except urllib.error.HTTPError as error:
        check("a field asks for a fault", error.code == 500, error)
    firebase_admin.delete_app(app)
    end()


main()
