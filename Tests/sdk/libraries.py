"""Libraries of other authors, unmodified. Run by libraries.sh. Each send is heard by a device that
listens, and each refusal is the library's own exception for it. Only a device that is gone may look like
one that is gone."""
import asyncio
import json
import logging
import os
import shutil
import subprocess
import warnings

import apprise
import httplib2
import libraries_other
from async_firebase import AsyncFirebaseClient, errors, messages
from async_firebase.messages import MulticastMessage
from checks import PLAIN, PROJECT, Listener, check, end, raises, register, unregister
from google.oauth2 import service_account
from google_auth_httplib2 import AuthorizedHttp
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError
from pyfcm import FCMNotification
from pyfcm import errors as pyfcm_errors

ACCOUNT = os.environ["SERVICE_ACCOUNT"]
FOREIGN = os.environ["FOREIGN_TOKEN"]
BAD = "fvJ2:APA91bnonsense"
SCOPE = "https://www.googleapis.com/auth/firebase.messaging"


class Phones:
    """Two devices that listen, one that is gone, and what is to come next."""

    def __init__(self):
        devices = [register() for _ in range(3)]
        self.tokens = [device["token"] for device in devices[:2]]
        self.gone = devices[2]["token"]
        unregister(self.gone)
        self.listeners = [Listener(device) for device in devices[:2]]
        self.seen = [0, 0]

    def heard(self, name, *wanted, place=0):
        """The device must get exactly these numbers `n`, or titles of notifications, in any order."""
        listener = self.listeners[place]
        got = listener.wait(self.seen[place] + len(wanted))[self.seen[place]:]
        self.seen[place] += len(got)
        words = [one.get("data", {}).get("n") or one.get("notification", {}).get("title") for one in got]
        check(f"{name}: device {place} got it", sorted(map(str, words)) == sorted(wanted), got)
        return got

    def subscribe(self, topic):
        """Subscribes the first device, for a library that cannot."""
        libraries_other.call("POST", f"/iid/v1/{self.tokens[0]}/rel/topics/{topic}")


def elsewhere():
    """The account's file, changed so that the library asks for the other project."""
    with open(ACCOUNT) as file:
        account = json.load(file)
    return {**account, "project_id": "other"}


def rotate():
    """The answer to a leak: every access token ends at once."""
    words = ["key", "rotate", "signing", "--at-once", "--data", os.environ["DATA"]]
    subprocess.run([os.environ["UNPRIVILEGED"], os.environ["TIDECAST"], *words], check=True,
                   stdout=subprocess.DEVNULL)


def pyfcm(phones):
    """PyFCM, which takes one look at the status of an answer."""
    client = FCMNotification(service_account_file=ACCOUNT, project_id=PROJECT)
    phones.subscribe("pyfcm")
    answer = client.notify(fcm_token=phones.tokens[0], notification_title="p1", notification_body="b",
                           android_config={"priority": "high", "ttl": "60s"})
    check("PyFCM notify", answer["name"].startswith(f"projects/{PROJECT}/messages/"), answer)
    client.notify(topic_name="pyfcm", data_payload={"n": "p2"})
    client.notify(topic_condition="'pyfcm' in topics && !('none' in topics)", data_payload={"n": "p3"})
    answer = client.notify(fcm_token=phones.tokens[0], data_payload={"n": "dry"}, dry_run=True)
    check("PyFCM dry run", answer["name"].endswith("/fake_message_id"), answer)
    answers = client.async_notify_multiple_devices(
        [{"fcm_token": token, "data_payload": {"n": "p4"}} for token in (*phones.tokens, phones.gone)])
    check("PyFCM async_notify_multiple_devices",
          ["name" in one for one in answers] == [True, True, False], answers)
    phones.heard("PyFCM", "p1", "p2", "p3", "p4")
    phones.heard("PyFCM", "p4", place=1)
    raises("PyFCM gone", pyfcm_errors.FCMNotRegisteredError, lambda: client.notify(fcm_token=phones.gone))
    raises("PyFCM bad token", pyfcm_errors.InvalidDataError, lambda: client.notify(fcm_token=BAD))
    raises("PyFCM foreign token", pyfcm_errors.FCMSenderIdMismatchError,
           lambda: client.notify(fcm_token=FOREIGN))
    strange = service_account.Credentials.from_service_account_info(elsewhere(), scopes=[SCOPE])
    raises("PyFCM another project", pyfcm_errors.FCMSenderIdMismatchError,
           lambda: FCMNotification(credentials=strange).notify(fcm_token=phones.tokens[0]))
    rotate()
    client.notify(fcm_token=phones.tokens[0], data_payload={"n": "p5"})
    phones.heard("PyFCM, after all access tokens ended", "p5")


async def async_firebase(phones, use_http2):
    """async-firebase, over HTTP/1.1 or HTTP/2. It asks oauth2.googleapis.com, whatever the file says."""
    name = "async-firebase over HTTP/2" if use_http2 else "async-firebase"
    topic = f"af{use_http2}~x%20"

    def message(number, **target):
        return messages.Message(data={"n": number}, **target)

    async with AsyncFirebaseClient(use_http2=use_http2) as client:
        client.creds_from_service_account_file(ACCOUNT)
        result = await client.subscribe_to_topic([*phones.tokens, phones.gone, BAD], topic)
        reasons = [(error.index, error.reason) for error in result.errors]
        check(f"{name} subscribe_to_topic", result.success_count == 2
              and reasons == [(2, "UNREGISTERED"), (3, "INVALID_ARGUMENT")], reasons)
        result = await client.subscribe_to_topic(phones.tokens, topic)
        check(f"{name} subscribe_to_topic again", result.success_count == 2, result)
        answer = await client.send(message("f1", token=phones.tokens[0]))
        check(f"{name} send", answer.success and answer.message_id.startswith(f"projects/{PROJECT}/"), answer)
        batch = await client.send_each([message("f2", topic=topic), message("x", token=phones.gone),
                                        message("x", token=BAD), message("x", token=FOREIGN)])
        kinds = [type(one.exception) for one in batch.responses]
        check(f"{name} send_each",
              kinds == [type(None), errors.UnregisteredError, errors.InvalidArgumentError,
                        errors.SenderIdMismatchError], kinds)
        batch = await client.send_each_for_multicast(MulticastMessage(data={"n": "f3"}, tokens=phones.tokens))
        check(f"{name} send_each_for_multicast", batch.success_count == 2, batch)
        result = await client.unsubscribe_from_topic([phones.tokens[0]], topic)
        check(f"{name} unsubscribe_from_topic", result.success_count == 1, result)
        await client.send(message("f4", topic=topic))
        result = await client.subscribe_devices_to_topic([phones.tokens[0], phones.gone], topic)
        check(f"{name} subscribe_devices_to_topic",
              [one.reason for one in result.errors] == ["NOT_FOUND"], result)
        await client.send(message("f5", topic=topic))
        phones.heard(name, "f1", "f2", "f3", "f5")
        phones.heard(name, "f2", "f3", "f4", "f5", place=1)
        client.FCM_ENDPOINT = "/prefix" + client.FCM_ENDPOINT
        answer = await client.send(message("x", token=phones.tokens[0]))
        check(f"{name} wrong path", type(answer.exception) is errors.NotFoundError, answer.exception)
        del client.FCM_ENDPOINT
        rotate()
        answer = await client.send(message("x", token=phones.tokens[0]))
        check(f"{name} ended token", type(answer.exception) is errors.UnauthenticatedError, answer.exception)
        client.creds_from_service_account_info(elsewhere())
        answer = await client.send(message("x", token=phones.tokens[0]))
        check(f"{name} another project", type(answer.exception) is errors.PermissionDeniedError,
              answer.exception)


def google_client(phones):
    """google-api-python-client with the description of FCM that its package has."""
    credentials = service_account.Credentials.from_service_account_file(ACCOUNT, scopes=[SCOPE])
    projects = build("fcm", "v1", credentials=credentials, static_discovery=True).projects()

    def send(body, project=PROJECT, through=projects):
        return through.messages().send(parent=f"projects/{project}", body=body).execute()

    def refused(name, status, word, body, **more):
        try:
            send(body, **more)
        except HttpError as error:
            details = error.error_details if isinstance(error.error_details, list) else []
            words = [one["errorCode"] for one in details if "errorCode" in one]
            check(f"google-api {name}", error.status_code == status and words == word, (error, words))
        else:
            check(f"google-api {name}", False, "nothing was raised")

    topics = projects.registrations().topicSubscriptions()
    device = f"projects/{PROJECT}/registrations/{phones.tokens[0]}"
    topics.create(parent=device, topicName="google", body={}).execute()
    listed = topics.list(parent=device).execute()["topicSubscriptions"]
    check("google-api topicSubscriptions", "google" in [one["topicName"] for one in listed], listed)
    answer = send({"message": {"topic": "google", "data": {"n": "g1"}}})
    check("google-api send", answer["name"].startswith(f"projects/{PROJECT}/messages/"), answer)
    def at(endpoint):
        return build("fcm", "v1", http=AuthorizedHttp(credentials, httplib2.Http()),
                     client_options={"api_endpoint": endpoint}).projects()

    send({"message": {"token": phones.tokens[0], "data": {"n": "g2"}}}, through=at(PLAIN))
    refused("gone", 404, ["UNREGISTERED"], {"message": {"token": phones.gone}})
    refused("bad token", 400, ["INVALID_ARGUMENT"], {"message": {"token": BAD}})
    refused("foreign token", 403, ["SENDER_ID_MISMATCH"], {"message": {"token": FOREIGN}})
    refused("another project", 403, [], {"message": {"token": phones.tokens[0]}}, project="other")
    refused("wrong path", 404, [], {"message": {"token": phones.tokens[0]}}, through=at(PLAIN + "/prefix/"))
    rotate()
    send({"message": {"topic": "google", "data": {"n": "g3"}}})
    topics.delete(name=f"{device}/topicSubscriptions/google").execute()
    send({"message": {"topic": "google", "data": {"n": "x"}}})
    phones.heard("google-api, also after all access tokens ended", "g1", "g2", "g3")


def apprise_notify(phones):
    """apprise with `fcm://` and a service account. It says only whether all was sent."""
    phones.subscribe("apprise")

    def notify(title, target):
        client = apprise.Apprise()
        client.add(f"fcm://{PROJECT}/{target}/?mode=oauth2&keyfile={ACCOUNT}&+k=v")
        return client.notify(title=title, body="b")

    check("apprise to a device", notify("a1", phones.tokens[0]))
    check("apprise to a topic", notify("a2", "%23apprise"))
    got = phones.heard("apprise", "a1", "a2")
    check("apprise: its data", all(one["data"] == {"k": "v"} for one in got), got)
    check("apprise gone", not notify("x", phones.gone))
    check("apprise foreign token", not notify("x", FOREIGN))


def main():
    warnings.simplefilter("ignore", DeprecationWarning)
    # The libraries log each refusal that these checks want.
    logging.disable(logging.WARNING)
    phones = Phones()
    pyfcm(phones)
    for use_http2 in (False, True):
        asyncio.run(async_firebase(phones, use_http2))
    google_client(phones)
    apprise_notify(phones)
    for language in ("ruby", "php"):
        if shutil.which(language) is None:
            print(f"left out: {language} is not installed")
        else:
            libraries_other.run(language, phones)
    end()


main()
