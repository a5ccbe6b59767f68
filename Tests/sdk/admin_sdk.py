"""The official firebase-admin SDK, unmodified, against a real server under FCM's own host names.

Run by admin_sdk.sh inside a network namespace whose hosts file points the names at 127.0.0.1.
Prints a line per check and a closing count; exits 1 where a check failed.
"""
import asyncio
import os
import subprocess
import threading
import time

import firebase_admin
import google.auth.credentials
from checks import PROJECT, Listener, check, end, raises, register, unregister
from firebase_admin import credentials, exceptions, messaging


def sends(tokens, listeners):
    """Subscriptions, and sends to a topic, a device and a condition."""
    result = messaging.subscribe_to_topic(tokens, "news")
    check("subscribe_to_topic", result.success_count == 3 and result.failure_count == 0, result.__dict__)
    result = messaging.subscribe_to_topic(tokens, "news")
    check("subscribe_to_topic again", result.success_count == 3, result.__dict__)
    name = messaging.send(messaging.Message(topic="news", data={"n": "1"}))
    check("send to a topic", name.startswith(f"projects/{PROJECT}/messages/"), name)
    for place, listener in enumerate(listeners):
        got = listener.wait(1)
        check(f"device {place} got it", [m["data"] for m in got] == [{"n": "1"}], got)

    messaging.send(messaging.Message(token=tokens[0],
                                     notification=messaging.Notification(title="t", body="b")))
    got = listeners[0].wait(2)
    check("send to a token", got[-1].get("notification") == {"title": "t", "body": "b"}, got)
    messaging.send(messaging.Message(condition="'news' in topics || 'none' in topics", data={"n": "2"}))
    got = listeners[1].wait(2)
    check("send to a condition", got[-1]["data"] == {"n": "2"}, got)
    name = messaging.send(messaging.Message(topic="news", data={"n": "dry"}), dry_run=True)
    check("dry run", name == f"projects/{PROJECT}/messages/fake_message_id", name)


def rich_message(listeners):
    """A message with all kinds of fields."""
    rich = messaging.Message(
        topic="news", data={"n": "rich"}, android=messaging.AndroidConfig(
            priority="high", ttl=3600.5, collapse_key="k",
            notification=messaging.AndroidNotification(
                title="a", color="#112233", channel_id="c", visibility="private", priority="max",
                vibrate_timings_millis=[100, 200], default_sound=True,
                light_settings=messaging.LightSettings(color="#aabbcc", light_on_duration_millis=200,
                                                       light_off_duration_millis=300),
            ),
            fcm_options=messaging.AndroidFCMOptions("label"),
        ),
        apns=messaging.APNSConfig(
            headers={"apns-priority": "10"},
            payload=messaging.APNSPayload(messaging.Aps(badge=3, alert=messaging.ApsAlert(title="x"))),
        ),
        webpush=messaging.WebpushConfig(
            headers={"Urgency": "high"}, notification=messaging.WebpushNotification(title="w",
                                                       actions=[messaging.WebpushNotificationAction("a",
                                                                                                    "b")]),
            fcm_options=messaging.WebpushFCMOptions(link="https://example.com"),
        ),
        fcm_options=messaging.FCMOptions("label"),
    )
    messaging.send(rich)
    got = listeners[2].wait(3)
    check("a rich message arrives whole", got[-1].get("android", {}).get("priority") == "HIGH", got[-1:])


def batches(listeners):
    """Many sends with one call."""
    batch = messaging.send_each([messaging.Message(topic="news", data={"n": str(i)}) for i in range(100)])
    check("send_each", batch.success_count == 100, [str(r.exception) for r in batch.responses if r.exception])

    async def many():
        return await messaging.send_each_async([messaging.Message(topic="quiet", data={"n": str(i)})
                                                for i in range(500)])

    batch = asyncio.run(many())
    check("send_each_async, one HTTP/2 connection", batch.success_count == 500, batch.failure_count)
    got = listeners[0].wait(1 + 1 + 1 + 1 + 100)
    numbers = [m["data"]["n"] for m in got if m.get("data", {}).get("n", "x").isdigit()][2:]
    check("all 100 came once", sorted(numbers, key=int) == [str(i) for i in range(100)], len(numbers))


def unsubscribes(tokens, listeners):
    """Ends of subscriptions, also by the older calls."""
    for legacy in ("subscribe_to_topic_legacy", "unsubscribe_from_topic_legacy"):
        if hasattr(messaging, legacy):
            result = getattr(messaging, legacy)(tokens, "old")
            check(legacy, result.success_count == 3, result.__dict__)
    result = messaging.unsubscribe_from_topic(tokens[:2], "news")
    check("unsubscribe_from_topic", result.success_count == 2, result.__dict__)
    before = len(listeners[0].messages)
    messaging.send(messaging.Message(topic="news", data={"n": "last"}))
    got = listeners[2].wait(len(listeners[2].messages) + 1, 3)
    check("who is still subscribed gets it", got[-1]["data"] == {"n": "last"}, got[-1:])
    check("who is not does not", len(listeners[0].messages) == before)


def errors(tokens):
    """Wrong requests, as the SDK's own exceptions."""
    raises("bad topic characters from another client's mouth", exceptions.InvalidArgumentError,
           lambda: messaging.send(messaging.Message(condition="'a' in", data={})))
    raises("malformed token", exceptions.InvalidArgumentError,
           lambda: messaging.send(messaging.Message(token="nonsense")),
           "The registration token is not a valid FCM registration token")
    raises("foreign token", messaging.SenderIdMismatchError,
           lambda: messaging.send(messaging.Message(token=os.environ["FOREIGN_TOKEN"])))
    unregister(tokens[1])
    raises("unregistered token", messaging.UnregisteredError,
           lambda: messaging.send(messaging.Message(token=tokens[1])))
    result = messaging.subscribe_to_topic([tokens[0], tokens[1], "nonsense"], "mixed")
    reasons = sorted(error.reason for error in result.errors)
    check("errors of single tokens", result.success_count == 1 and len(reasons) == 2, reasons)
    wrong = firebase_admin.initialize_app(
        credentials.Certificate(os.environ["SERVICE_ACCOUNT"]), {"projectId": "elsewhere"}, name="elsewhere")
    raises("another project", exceptions.PermissionDeniedError,
           lambda: messaging.send(messaging.Message(topic="news"), app=wrong))


def main():
    # The SDK keeps the first app as the default one.
    firebase_admin.initialize_app(credentials.Certificate(os.environ["SERVICE_ACCOUNT"]))
    devices = [register() for _ in range(3)]
    tokens = [device["token"] for device in devices]
    listeners = [Listener(device) for device in devices]
    sends(tokens, listeners)
    rich_message(listeners)
    batches(listeners)
    unsubscribes(tokens, listeners)
    errors(tokens)
    error_classes()


class StaticToken(credentials.Base):
    """A backend's own bearer token in place of a service account."""

    def __init__(self, token):
        self.token = token

    def get_credential(self):
        return FixedToken(self.token)


class FixedToken(google.auth.credentials.Credentials):
    def __init__(self, token):
        super().__init__()
        self.token = token

    def refresh(self, request):
        """Does nothing: the token stays the same."""


def error_classes():
    """Each class of error that such a server can cause, as the SDK's own exception."""
    def send(topic, **more):
        return messaging.send(messaging.Message(topic=topic, data={"n": "e"}), **more)

    # The SDK repeats these sends for 7 s, so they run at the same time.
    slow = [
        ("unavailable", exceptions.UnavailableError, "failpoint.unavailable.99"),
        ("internal", exceptions.InternalError, "failpoint.internal.99"),
        ("third-party credential", messaging.ThirdPartyAuthError, "failpoint.third-party-auth.99"),
        ("deadline", exceptions.DeadlineExceededError, "failpoint.deadline.99"),
    ]
    # Only debug builds have failpoints.
    has_failpoints = "debug" in os.environ["TIDECAST"]
    if has_failpoints:
        threads = [threading.Thread(target=raises, args=(name, kind, lambda topic=topic: send(topic)))
                   for name, kind, topic in slow]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        name = send("failpoint.unavailable.1")
        check("503, then 200: the SDK succeeds by itself", name.startswith(f"projects/{PROJECT}/messages/"),
              name)
    bad = firebase_admin.initialize_app(StaticToken("nonsense"), {"projectId": PROJECT}, name="bad")
    raises("unauthenticated", exceptions.UnauthenticatedError, lambda: send("news", app=bad))
    good = firebase_admin.initialize_app(StaticToken(os.environ["BEARER"]), {"projectId": PROJECT},
                                         name="good")
    check("a static bearer token", send("news", app=good).startswith("projects/"))
    for key, value in (("data", {"from": "x"}), ("data", {"k": "x" * 4097})):
        raises(f"invalid {key}", exceptions.InvalidArgumentError,
               lambda value=value: messaging.send(messaging.Message(topic="news", data=value)))
    subprocess.run([os.environ["TIDECAST"], "project", "quota", PROJECT, "--sends-per-minute", "60", "--data",
                    os.environ["DATA"]], check=True, stdout=subprocess.DEVNULL)

    def until_refused():
        for _ in range(200):
            send("news")

    began = time.time()
    raises("quota exceeded", messaging.QuotaExceededError, until_refused)
    check("the SDK did not wait for the quota", time.time() - began < 30, time.time() - began)


main()
end()
