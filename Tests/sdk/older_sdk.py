"""An older firebase-admin, unmodified: token exchange, sends, topics over the Instance ID API. Run by
admin_sdk.sh, as admin_sdk.py is; the argument is the version that must be installed."""
import os
import sys
import warnings

import firebase_admin
from checks import Listener, check, end, raises, register, unregister
from firebase_admin import credentials, exceptions, messaging

BAD_TOKEN = "The registration token is not a valid FCM registration token"


def main():
    check("the version", firebase_admin.__version__ == sys.argv[1], firebase_admin.__version__)
    firebase_admin.initialize_app(credentials.Certificate(os.environ["SERVICE_ACCOUNT"]))
    devices = [register() for _ in range(3)]
    tokens = [device["token"] for device in devices]
    listeners = [Listener(device) for device in devices]

    result = messaging.subscribe_to_topic([*tokens, "nonsense"], "older")
    errors = [(error.index, error.reason) for error in result.errors]
    check("subscribe_to_topic", result.success_count == 3 and errors == [(3, "INVALID_ARGUMENT")], errors)
    name = messaging.send(messaging.Message(topic="older", data={"n": "1"}))
    check("send to a topic", name.startswith("projects/shop/messages/"), name)
    for place, listener in enumerate(listeners):
        got = listener.wait(1)
        check(f"device {place} got it", [one["data"] for one in got] == [{"n": "1"}], got)
    messaging.send(messaging.Message(condition="'older' in topics || 'none' in topics", data={"n": "2"}))
    messaging.send(messaging.Message(token=tokens[0], data={"n": "3"}))
    got = listeners[0].wait(3)
    check("send to a condition and to a token", sorted(one["data"]["n"] for one in got) == ["1", "2", "3"],
          got)
    for target in ({"topic": "older"}, {"token": tokens[0]}):
        name = messaging.send(messaging.Message(**target), dry_run=True)
        check(f"dry run to a {list(target)[0]}", name == "projects/shop/messages/fake_message_id", name)

    unregister(tokens[2])
    batch = messaging.send_each([
        messaging.Message(topic="older", data={"n": "4"}), messaging.Message(token="nonsense"),
        messaging.Message(token=tokens[1], data={"n": "5"}), messaging.Message(token=tokens[2])])
    check("send_each", [one.success for one in batch.responses] == [True, False, True, False],
          batch.responses)
    kinds = [type(batch.responses[place].exception) for place in (1, 3)]
    check("send_each's errors", kinds == [exceptions.InvalidArgumentError, messaging.UnregisteredError],
          kinds)
    raises("a bad token", exceptions.InvalidArgumentError,
           lambda: messaging.send(messaging.Message(token="fvJ2:APA91bnonsense")), BAD_TOKEN)
    raises("another project's token", messaging.SenderIdMismatchError,
           lambda: messaging.send(messaging.Message(token=os.environ["FOREIGN_TOKEN"])))
    if hasattr(messaging, "send_all"):
        raises("send_all",
               exceptions.NotFoundError, lambda: messaging.send_all([messaging.Message(topic="older")]))

    result = messaging.unsubscribe_from_topic(tokens[:2], "older")
    check("unsubscribe_from_topic", result.success_count == 2, result.__dict__)
    before = len(listeners[0].wait(4))
    messaging.send(messaging.Message(topic="older", data={"n": "6"}))
    messaging.send(messaging.Message(token=tokens[0], data={"n": "7"}))
    got = listeners[0].wait(before + 1)
    check("who left gets nothing more", [one["data"]["n"] for one in got[before:]] == ["7"], got)


warnings.simplefilter("ignore", DeprecationWarning)
main()
end()
