"""Web Push: the requests of the web SDK with a subscription, and the key for pages."""
import os

from harness import expect
from rows_sdks import auth, installed

REGISTRATIONS = "/v1/projects/shop/registrations"
# A subscription's keys, from RFC 8291 appendix A.
P256DH = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"


def set_web_push(s, *words):
    """The key that a page gives to its browser, after this change of the project's settings."""
    return s.admin("project", "push", "web", "shop", "--subject", "mailto:push@example.com", *words).strip()


def subscription(key, **changed):
    """The `web` block of the SDK (0.13.2), with the fields in the SDK's order."""
    web = {"origin": "shop.example", "endpoint": "https://updates.push.services.mozilla.com/wpush/v2/a",
           "auth": AUTH, "p256dh": P256DH, "applicationPubKey": key, **changed}
    return {"web": {name: value for name, value in web.items() if value is not None}}


def asked(s, method, path, token, body, word="FIS "):
    """A request of the web SDK. The SDK ignores the status of these answers and reads their JSON."""
    answer = s.call(method, path, body, bearer=None,
                    headers={**auth(s, token, word), "accept": "application/json"})
    expect(isinstance(answer.json, dict), method, path, answer.status, answer.text)
    expect(answer.headers.get("access-control-allow-origin") == "*", method, path, answer.headers)
    return answer


def services(s, token, fid):
    shown = asked(s, "GET", f"{REGISTRATIONS}/{fid}", token, None)
    return [one["service"] for one in shown.json["transports"]]


def row_62(s):
    """The web SDK's `getToken`, weekly PATCH, new `vapidKey` and `deleteToken`, in their order."""
    key = set_web_push(s)
    made = installed(s)
    fid, token = made["fid"], made["authToken"]["token"]
    first = asked(s, "POST", REGISTRATIONS, token, subscription(key))
    expect(first.status == 200 and first.json["token"].startswith(fid), first.text)
    expect("error" not in first.json and first.json["name"].endswith(f"/registrations/{fid}"), first.text)
    expect(services(s, token, fid) == ["https://updates.push.services.mozilla.com"], "the address is stored")
    # The SDK puts the token into the path without encoding its colon.
    path = f"{REGISTRATIONS}/{first.json['token']}"
    again = asked(s, "PATCH", path, token, subscription(key))
    expect(again.json["token"] == first.json["token"], again.text)
    # The page has another key: the SDK deletes the registration, and makes one under the same auth token.
    other = set_web_push(s, "--new-key")
    expect(other != key and len(other) == 87, other)
    expect(asked(s, "DELETE", path, token, None).json == {}, "DELETE")
    expect(services(s, token, fid) == [], "no address is left")
    second = asked(s, "POST", REGISTRATIONS, token, subscription(other))
    expect(second.status == 200 and "token" in second.json, second.text)
    # A subscription is bound to its key for ever, so that a page with the former key goes on.
    expect(asked(s, "POST", REGISTRATIONS, token, subscription(key)).status == 200, "the former key")
    info = s.call("GET", f"/iid/info/{fid}")
    expect(info.json["platform"] == "CHROME", info.text)
    expect(asked(s, "DELETE", path, token, None).json == {}, "deleteToken")
    answer = s.call("DELETE", f"/v1/projects/shop/installations/{fid}", {}, bearer=None,
                    headers={"authorization": f"FIS_v2 {made['refreshToken']}"})
    expect(answer.status == 200, answer.text)
    expect(s.call("GET", f"{REGISTRATIONS}/{fid}").status == 404, "the device is gone")


def row_63(s):
    """A subscription with a wrong part is answered 400 with the field, and the developer reads the reason."""
    key = set_web_push(s, "--allow-host", "push.example.com:8443")
    token = installed(s)["authToken"]["token"]
    for field, changed in (
            ("web.endpoint", {"endpoint": "http://updates.push.services.mozilla.com/a"}),
            ("web.endpoint", {"endpoint": "https://169.254.169.254/latest"}),
            ("web.endpoint", {"endpoint": "https://localhost/a"}),
            ("web.endpoint", {"endpoint": "https://push.example.com/a"}),
            ("web.endpoint", {"endpoint": "https://u@fcm.googleapis.com/a"}),
            ("web.endpoint", {"endpoint": "https://fcm.googleapis.com/" + "x" * 2048}),
            ("web.endpoint", {"endpoint": None}), ("web.p256dh", {"p256dh": P256DH[:-1] + "8"}),
            ("web.p256dh", {"p256dh": AUTH}), ("web.auth", {"auth": P256DH}), ("web.auth", {"auth": None}),
            ("web.application_pub_key", {"applicationPubKey": P256DH}),
            # The SDK leaves it out where the page gave no key: then the subscription is under Google's own.
            ("web.application_pub_key", {"applicationPubKey": None})):
        answer = asked(s, "POST", REGISTRATIONS, token, subscription(key, **changed))
        violation = answer.json["error"]["details"][0]["fieldViolations"][0]
        expect(answer.status == 400 and violation["field"] == field, field, answer.text)
    expect(f"Pass vapidKey: {key}" in answer.json["error"]["message"], answer.text)
    listed = {"endpoint": "https://push.example.com:8443/a"}
    answer = asked(s, "POST", REGISTRATIONS, token, subscription(None, **listed), "")
    expect(answer.status == 200, "a listed service, and another client's no key for the newest", answer.text)
    snake = {"web": {"endpoint": "https://web.push.apple.com/a", "p256dh": P256DH + "=", "auth": AUTH + "==",
                     "application_pub_key": key}, "fcm_sdk_version": "0.13.2"}
    answer = asked(s, "POST", REGISTRATIONS, token, snake)
    expect(answer.status == 200, "snake case and padding", answer.text)


def row_64(s):
    """A page reads the key under the app's key; `off` ends this and takes no subscription."""
    path, key = "/v1/projects/shop/webPushKey", set_web_push(s)
    token = installed(s)["authToken"]["token"]
    asks = ({"x-goog-api-key": s.key}, {"x-goog-firebase-installations-auth": f"FIS {token}"},
            {"authorization": f"Bearer {s.bearer}"})
    for headers in asks:
        answer = s.call("GET", path, bearer=None, headers=headers)
        expect(answer.json == {"publicKey": key}, headers, answer.text)
        expect(answer.headers["access-control-allow-origin"] == "*", answer.headers)
    for headers in ({}, {"x-goog-api-key": s.other_key}, {"authorization": f"Bearer {s.other_bearer}"}):
        expect(s.call("GET", path, bearer=None, headers=headers).status in (401, 403), headers)
    expect("GET" in s.call("OPTIONS", path, bearer=None).headers["access-control-allow-methods"], "preflight")
    s.admin("project", "push", "off", "shop", "web")
    expect(s.call("GET", path).status == 404, "off")
    answer = asked(s, "POST", REGISTRATIONS, token, subscription(key))
    violation = answer.json["error"]["details"][0]["fieldViolations"][0]
    expect(answer.status == 400 and violation["field"] == "web", answer.text)
    expect(set_web_push(s) == key, "the key stays")


def row_65(s):
    """The settings for Web Push and a subscription outlive a server that is killed; no log has a secret."""
    key = set_web_push(s, "--push-ca", os.path.join(s.certificates, "ca.pem"))
    made = installed(s)
    fid, token = made["fid"], made["authToken"]["token"]
    secret = "https://fcm.googleapis.com/fcm/send/capability"
    expect(asked(s, "POST", REGISTRATIONS, token, subscription(key, endpoint=secret)).status == 200, "taken")
    s.kill()
    # No server runs: the command opens the folder itself.
    shown = s.admin("project", "push", "status", "shop")
    expect(key in shown and "mailto:push@example.com" in shown and " own" in shown, shown)
    s.start()
    s.wait_ready()
    expect(s.call("GET", "/v1/projects/shop/webPushKey").json == {"publicKey": key}, "the key is the same")
    expect(services(s, token, fid) == ["https://fcm.googleapis.com"], "the address is stored")
    log = s.log_text()
    expect("project.push" in log and "capability" not in log and AUTH not in log, "the log has the address")


def row_70(s):
    """Preflights of all the web SDK's calls allow its methods and headers; a page may read errors too."""
    made = installed(s)
    fid, token = made["fid"], made["authToken"]["token"]
    installation, registration = "/v1/projects/shop/installations", f"{REGISTRATIONS}/{fid}:abc"
    for method, path, wanted in (
            ("POST", installation, "accept,content-type,x-firebase-client,x-goog-api-key"),
            ("POST", f"{installation}/{fid}/authTokens:generate",
             "accept,authorization,content-type,x-firebase-client,x-goog-api-key"),
            ("DELETE", f"{installation}/{fid}", "accept,authorization,content-type,x-goog-api-key"),
            *((method, path, "accept,content-type,x-goog-api-key,x-goog-firebase-installations-auth")
              for method, path in (("POST", REGISTRATIONS), ("PATCH", registration),
                                   ("DELETE", registration)))):
        answer = s.call("OPTIONS", path, bearer=None,
                        headers={"origin": "https://shop.example", "access-control-request-method": method,
                                 "access-control-request-headers": wanted})
        allowed = {name: {one.strip() for one in answer.headers[f"access-control-allow-{name}"].split(",")}
                   for name in ("methods", "headers")}
        expect(answer.status == 204 and method in allowed["methods"], method, path, answer.headers)
        expect(set(wanted.split(",")) <= allowed["headers"], method, path, allowed)
        expect(answer.headers["access-control-allow-origin"] == "*", method, path)
        refused = s.call(method, path, b"{", bearer=None, headers={"origin": "https://shop.example"})
        expect(refused.status in (400, 401, 404) and refused.json["error"]["code"] == refused.status,
               method, path, refused.text)
        expect(refused.headers["access-control-allow-origin"] == "*", method, path, refused.headers)
    expect(services(s, token, fid) == [], "nothing was changed")


ROWS = {number: function for name, function in list(globals().items()) if name.startswith("row_")
        for number in [int(name[4:])]}
