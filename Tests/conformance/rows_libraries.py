"""Rows of the table with the requests of other authors' libraries that no test can install. They are written
from the libraries' sources, with the version, the commit and its day in each row."""
import json
import re
import time
import urllib.parse

import h2.settings
from harness import expect
from http2_client import HTTP2
from rows_sdks import SEND, over_http1, signed
from rows_wire import not_found

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
GOOGLE = "https://www.googleapis.com"


class Client:
    """A library's connection: curl or Mint over HTTP/2 with TLS, with exactly these fields."""

    def __init__(self, server, authority="fcm.googleapis.com", settings=None):
        self.http2, self.authority = HTTP2(server, tls=True), authority
        if settings:
            self.http2.h2.update_settings(settings)
            self.http2.push()

    def ask(self, method, path, fields, body=b""):
        """The answer to a request."""
        stream = self.http2.h2.get_next_available_stream_id()
        self.http2.h2.send_headers(stream, [
            (":method", method), (":path", path), (":scheme", "https"), (":authority", self.authority),
            *fields], end_stream=not body)
        if body:
            self.http2.h2.send_data(stream, body, end_stream=True)
        self.http2.push()
        return self.http2.answer(stream)

    def send(self, fields, message, path=SEND, **more):
        """The answer to a send."""
        return self.ask("POST", path, fields, json.dumps({"message": message, **more}).encode())


def access(answer, *what):
    """The access token of a token answer that has what libraries read."""
    made = answer.json or {}
    expect(answer.status == 200 and made.get("token_type") == "Bearer" and made.get("access_token")
           and 0 < made.get("expires_in", 0) <= 3600, *what, answer.status, answer.text)
    return made["access_token"]


def claims(s, audience, scope, skew=0):
    """The claims of an assertion. PHP writes slashes so."""
    now = int(time.time())
    return json.dumps({"iss": s.accounts["shop"]["client_email"], "exp": now + 3600, "iat": now - skew,
                       "aud": audience, "scope": scope}).replace("/", r"\/")


def ends(s):
    """Tokens for which each library must have another word: of a device that is gone, of one of another
    project, and one that the server has never made."""
    gone, foreign = s.register(), s.register("other")
    expect(s.call("DELETE", gone.path).status == 200, "the device does not end")
    return gone.token, foreign.token, "fvJ2:APA91bnonsense"


def row_71(s):
    """firebase-php (kreait, now beste) 8.6: its token, a send, a check of tokens, a token's topics."""
    # beste/firebase-php 8.6.0, 831c0e6, October 2026: Factory, Messaging, RequestFactory,
    # AppInstanceApiClient, SendReport. google-auth-library-php 1.52.0, 7a7e5ab, 2026-06-23: OAuth2::toJwt.
    scope = " ".join(f"{GOOGLE}/auth/{name}" for name in (
        "iam", "cloud-platform", "firebase", "firebase.database", "firebase.messaging",
        "firebase.remoteconfig", "userinfo.email", "securetoken"))
    head = {"typ": "JWT", "alg": "RS256", "kid": s.accounts["shop"]["private_key_id"]}
    jwt = signed(s, json.dumps(head), claims(s, "https://oauth2.googleapis.com/token", scope, skew=60))
    form = f"grant_type={urllib.parse.quote(GRANT, safe='')}&assertion={jwt}".encode()
    agent = ("user-agent", "GuzzleHttp/7")
    oauth = Client(s, "oauth2.googleapis.com")
    bearer = access(oauth.ask("POST", "/token", [
        ("cache-control", "no-store"), ("content-type", "application/x-www-form-urlencoded"), agent], form))
    fields = [("content-type", "application/json; charset=UTF-8"), ("authorization", f"Bearer {bearer}"),
              agent]
    device = s.register()
    stream, client = device.listen(), Client(s)
    # What SetApnsPushTypeIfNeeded and SetApnsContentAvailableIfNeeded add.
    answer = client.send(fields, {"token": device.token, "data": {"n": "php"}, "apns": {
        "headers": {"apns-push-type": "background"}, "payload": {"aps": {"content-available": 1}}}})
    expect(answer.status == 200 and answer.json["name"].startswith("projects/shop/messages/"), answer.text)
    expect([one["data"] for one in stream.messages(1)] == [{"n": "php"}], "the message does not come")
    stream.close()
    gone, foreign, bad = ends(s)
    for token, status, is_invalid in ((device.token, 200, False), (gone, 404, False), (foreign, 403, False),
                                      (bad, 400, True)):
        # `validateRegistrationTokens` sends a message of a token alone. It calls tokens invalid by the
        # message, and unknown by the status.
        answer = client.send(fields, {"token": token}, validate_only=True)
        text = answer.json.get("error", {}).get("message", "")
        expect(answer.status == status, token, answer.text)
        expect(bool(re.search(r"((not.+valid)|invalid).+token", text, re.I)) == is_invalid, token, text)
    iid = Client(s, "iid.googleapis.com")
    fields = [("access_token_auth", "true"), ("authorization", f"Bearer {bearer}"), agent]
    wanted = {"results": [{}, {"error": "NOT_FOUND"}, {"error": "INVALID_ARGUMENT"}]}
    for verb in ("Add", "Remove", "Add"):
        body = json.dumps({"to": "/topics/php", "registration_tokens": [device.token, gone, bad]})
        answer = iid.ask("POST", f"/iid/v1:batch{verb}", [*fields, ("content-type", "application/json")],
                         body.encode())
        expect(answer.json == wanted, verb, answer.text)
    # `getAppInstance` and `unsubscribeFromAllTopics` ask this path, without `info`.
    for path in (f"/iid/{device.token}?details=true", f"/iid/info/{device.token}?details=true"):
        shown = iid.ask("GET", path, fields)
        expect(shown.status == 200 and list(shown.json["rel"]["topics"]) == ["php"], path, shown.text)
    expect(iid.ask("GET", f"/iid/{gone}?details=true", fields).status == 404, "a device that is gone")
    expect(iid.ask("GET", f"/iid/{bad}?details=true", fields).status == 400, "a bad token")
    for path in ("/iid/info", "/iid/v1:batchImport", "/iid/v1:batchAdd", "/iid/x", f"/iid/x/{device.token}"):
        not_found(iid.ask("GET", path, fields), path)


def row_72(s):
    """Goth 1.4 and Pigeon 2.1 (Elixir): a token at Google's older path, sends over Mint, their words for
    errors."""
    # peburrows/goth 1.4.5, f3f3027, 2024-12-20: Goth.Token. codedge-llc/pigeon 2.1.0, 712d5c2, 2025-05-25:
    # Pigeon.FCM, its config and its error.
    url = f"{GOOGLE}/oauth2/v4/token"
    jwt = signed(s, '{"alg":"RS256","typ":"JWT"}', claims(s, url, f"{GOOGLE}/auth/cloud-platform"))
    # The grant type is not encoded.
    form = f"grant_type={GRANT}&assertion={jwt}".encode()
    answer = over_http1(s, ["POST /oauth2/v4/token HTTP/1.1", f"content-length: {len(form)}",
                            "host: www.googleapis.com", "user-agent: mint/1.6.2",
                            "content-type: application/x-www-form-urlencoded"], form)
    bearer = access(answer)
    settings = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1,
                h2.settings.SettingCodes.MAX_FRAME_SIZE: 2**24 - 1}
    client = Client(s, settings=settings)
    # The dispatcher connects before there is a message, and sends when it has one.
    client.http2.read(lambda: False, 1)
    fields = [("accept", "application/json"), ("authorization", f"{answer.json['token_type']} {bearer}"),
              ("content-type", "application/json"), ("user-agent", "mint/1.6.2")]
    device = s.register()
    stream = device.listen()
    s.subscribe("elixir", device)
    for target in ({"token": device.token}, {"topic": "elixir"}, {"condition": "'elixir' in topics"}):
        answer = client.send(fields, {**target, "notification": {"body": "test message"},
                                      "data": {"key": "value"}})
        expect(answer.status == 200 and answer.json["name"], target, answer)
    expect(len(stream.only(3)) == 3, "not all messages come")
    stream.close()
    # `new/1` sends an empty notification.
    answer = client.send(fields, {"token": device.token, "notification": {}}, validate_only=True)
    expect(answer.json["name"].endswith("/fake_message_id"), answer.text)
    gone, foreign, bad = ends(s)
    for message, other, wanted in (({"token": gone}, None, "UNREGISTERED"),
                                 ({"token": foreign}, None, "SENDER_ID_MISMATCH"),
                                 ({"token": bad}, None, "INVALID_ARGUMENT"),
                                 ({"topic": "a b"}, None, "INVALID_ARGUMENT"),
                                 ({"topic": "failpoint.unavailable.2"}, None, "UNAVAILABLE"),
                                 ({"topic": "failpoint.internal.2"}, None, "INTERNAL"),
                                 ({"topic": "a"}, "ended", "UNAUTHENTICATED"),
                                 ({"topic": "a"}, s.other_bearer, "PERMISSION_DENIED")):
        own = [(name, f"Bearer {other}" if other and name == "authorization" else value)
               for name, value in fields]
        answer = client.send(own, message)
        # The first code among the details, else the status.
        codes = [one["errorCode"] for one in answer.json["error"].get("details", []) if "errorCode" in one]
        expect((codes or [answer.json["error"]["status"]])[0] == wanted, wanted, answer.text)


def row_73(s):
    """The gem fcm 2 (Ruby): topics and conditions; device groups, and the forms of fcm 1, are refused."""
    # decision-labs/fcm, 0208b66, after 2.0.1; 1.0.8 is 40eb6ef, 2023-03-22. lib/fcm.rb.
    fields = ["Content-Type: application/json", "access_token_auth: true", "User-Agent: Faraday v2.9.0",
              "Accept-Encoding: gzip;q=1.0,deflate;q=0.6,identity;q=0.3", "Accept: */*"]

    def post(path, body, host="fcm.googleapis.com", bearer=f"Bearer {s.bearer}", method="POST", extra=()):
        text = b"" if body is None else json.dumps(body).encode()
        return over_http1(s, [f"{method} {path} HTTP/1.1", *fields, f"Authorization: {bearer}",
                              f"Host: {host}", f"Content-Length: {len(text)}", *extra], text)

    device = s.register()
    stream = device.listen()
    iid = "iid.googleapis.com"
    answer = post(f"/iid/v1/{device.token}/rel/topics/gems", None, iid)
    expect((answer.status, answer.json) == (200, {}), answer.text)
    # Options come beside the target, and nil is null.
    for target in ({"topic": "gems"}, {"condition": "'gems' in topics"}, {"token": device.token}):
        answer = post(SEND, {"message": {**target, "data": {"n": "1"}, "apns": None}})
        expect(answer.status == 200, answer.text)
    expect(len(stream.only(3)) == 3, "not all messages come")
    stream.close()
    shown = post(f"/iid/info/{device.token}?details=true", None, iid, method="GET")
    expect(list(shown.json["rel"]["topics"]) == ["gems"], shown.text)
    answer = post("/iid/v1:batchRemove", {"to": "/topics/gems", "registration_tokens": [device.token]}, iid)
    expect(answer.json == {"results": [{}]}, answer.text)
    # Groups, which the gem asks at android.googleapis.com.
    group = {"registration_ids": [device.token], "operation": "create", "notification_key_name": "g"}
    for method, path, body in (("POST", "/gcm/notification", group),
                               ("GET", "/gcm/notification?notification_key_name=g", None)):
        not_found(post(path, body, "android.googleapis.com", method=method, extra=["project_id: 5"]), path)
    # fcm 1 has a server key: no path takes one, and none says that a device has ended.
    key = "key=AAAA"
    not_found(post("/fcm/send", {"registration_ids": [device.token]}, bearer=key), "/fcm/send")
    for answer in (post(f"/iid/v1/{device.token}/rel/topics/gems", None, iid, key),
                   post("/iid/v1:batchAdd", {"to": "/topics/a", "registration_tokens": [device.token]}, iid,
                        key),
                   post(f"/iid/info/{device.token}", None, iid, key, "GET")):
        expect((answer.status, answer.json) == (401, {"error": "UNAUTHENTICATED"}), answer.text)


def row_74(s):
    """Appwrite's adapter (utopia-php/messaging 2.0): its token, its message with all blocks, what it calls
    expired."""
    # utopia-php/messaging, 7fa2acd, 2026-07-14: Adapter\Push\FCM, Helpers\JWT, Adapter.
    url = f"{GOOGLE}/oauth2/v4/token"
    scope = f"{GOOGLE}/auth/firebase.messaging"
    jwt = signed(s, '{"typ":"JWT","alg":"RS256"}', claims(s, url, scope, skew=60))
    form = urllib.parse.urlencode({"grant_type": GRANT, "assertion": jwt}).encode()
    agent = ("user-agent", "Appwrite FCM Message Sender")
    google = Client(s, "www.googleapis.com")
    bearer = access(google.ask("POST", "/oauth2/v4/token",
                               [("content-type", "application/x-www-form-urlencoded"), agent], form))
    fields = [("content-type", "application/json"), ("authorization", f"Bearer {bearer}"), agent]
    device, client = s.register(), Client(s)
    stream = device.listen()
    picture = "https://example.com/a.png"
    message = {"notification": {"title": "t", "body": "b"}, "data": {"k": "v"}, "android": {
        "notification": {"click_action": "OPEN", "image": picture, "sound": "ding", "icon": "i",
                         "color": "#ff0000", "tag": "g"}, "priority": "high"},
        "apns": {"payload": {"aps": {"category": "OPEN", "mutable-content": 1, "badge": 3,
                                     "sound": {"critical": 1, "name": "ding"}, "content-available": 1}},
                 "fcm_options": {"image": picture}, "headers": {"apns-priority": "10"}}}
    answer = client.send(fields, {**message, "token": device.token})
    expect(answer.status == 200, answer.text)
    got = stream.messages(1)
    stream.close()
    expect(got and got[0]["notification"]["title"] == "t" and got[0]["data"] == {"k": "v"}, got)
    gone, foreign, bad = ends(s)
    # By the status alone it calls a token expired, and its users delete that.
    for token, path, bearer_of, is_expired in (
            (gone, SEND, bearer, True), (foreign, SEND, bearer, False), (bad, SEND, bearer, False),
            (device.token, "/prefix" + SEND, bearer, False), (device.token, SEND, "ended", False),
            (device.token, SEND.replace("shop", "nobody"), bearer, False)):
        own = [(name, f"Bearer {bearer_of}" if name == "authorization" else value) for name, value in fields]
        answer = client.send(own, {**message, "token": token}, path)
        status = (answer.json or {}).get("error", {}).get("status")
        expect((status in ("UNREGISTERED", "NOT_FOUND")) == is_expired, token, path, answer.text)


ROWS = {number: function for name, function in list(globals().items()) if name.startswith("row_")
        for number in [int(name[4:])]}
