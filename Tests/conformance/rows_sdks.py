"""Rows of the table with recorded requests of SDKs that do not run in the tests themselves."""
import gzip
import json
import subprocess
import time
import urllib.parse

from harness import answer_of, error, expect
from http2_client import HTTP2
from rows_wire import base64url

SEND = "/v1/projects/shop/messages:send"


def signed(s, head, claims):
    """An assertion with exactly this head and these claims, signed with the key of `shop`."""
    path = f"{s.folder}/key.pem"
    with open(path, "w") as file:
        file.write(s.accounts["shop"]["private_key"])
    text = base64url(head.encode()) + b"." + base64url(claims.encode())
    done = subprocess.run(["openssl", "dgst", "-sha256", "-sign", path], input=text, capture_output=True,
                          check=True)
    return (text + b"." + base64url(done.stdout)).decode()


def over_http1(s, lines, body=b""):
    """Sends one request with exactly these lines, and returns the answer."""
    plain = s.connect()
    try:
        plain.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        response = b""
        while b"\r\n\r\n" not in response:
            got = plain.recv(65536)
            expect(got, "closed after", response)
            response += got
        head, rest = response.split(b"\r\n\r\n", 1)
        fields = {}
        for line in head.decode().split("\r\n")[1:]:
            name, value = line.split(":", 1)
            fields[name.strip().lower()] = value.strip()
        while len(rest) < int(fields["content-length"]):
            rest += plain.recv(65536)
        return answer_of(int(head.split(b" ")[1]), fields, rest)
    finally:
        plain.close()


def row_51(s):
    """Node's token request: no `kid`, and Google's audience in place of the one in the file."""
    now = int(time.time())
    google = "https://www.googleapis.com/auth"
    scopes = " ".join(f"{google}/{name}"
                      for name in ("cloud-platform", "firebase.database", "firebase.messaging",
                                                      "identitytoolkit", "userinfo.email"))
    claims = (f'{{"iss":"{s.accounts["shop"]["client_email"]}","scope":"{scopes}",'
              f'"aud":"https://oauth2.googleapis.com/token","exp":{now + 3600},"iat":{now}}}')
    for head in ('{"alg":"RS256"}', '{"alg":"RS256","typ":"JWT"}'):
        form = urllib.parse.urlencode({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
                                       "assertion": signed(s, head, claims)})
        answer = over_http1(s, ["POST /token HTTP/1.1",
                                "Content-Type: application/x-www-form-urlencoded;charset=UTF-8",
                                "Accept: */*", f"Content-Length: {len(form)}",
                                "Accept-Encoding: gzip,deflate",
                                "Host: oauth2.googleapis.com", "Connection: close"], form.encode())
        expect(answer.status == 200 and answer.json["token_type"] == "Bearer", head, answer.text)
        s.sent({"topic": "a"}, bearer=answer.json["access_token"])
    foreign = claims.replace(s.accounts["shop"]["client_email"], s.accounts["other"]["client_email"])
    for what, bad in (("another account's", signed(s, '{"alg":"RS256"}', foreign)),
                      ("nobody's",
                       signed(s, '{"alg":"RS256"}', claims.replace("tidecast@shop", "tidecast@none")))):
        form = urllib.parse.urlencode({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
                                       "assertion": bad})
        answer = s.call("POST", "/token", form.encode(), bearer=None,
                        headers={"content-type": "application/x-www-form-urlencoded"})
        expect(answer.status == 400 and answer.json["error"] == "invalid_grant", what, answer.text)


def row_52(s):
    """Java's send, with a length and in chunks, and its batch of tokens."""
    body = b'{"message":{"data":{"k":"v"},"topic":"java"}}'
    head = ["POST " + SEND + " HTTP/1.1", "Accept-Encoding: gzip", f"Authorization: Bearer {s.bearer}",
            "User-Agent: Google-HTTP-Java-Client/2.1.0 (gzip)", "X-GOOG-API-FORMAT-VERSION: 2",
            "X-Firebase-Client: fire-admin-java/9.10.0",
            "X-Goog-Api-Client: gl-java/17.0.1 fire-admin/9.10.0",
            "Content-Type: application/json; charset=UTF-8", "Host: fcm.googleapis.com",
            "Connection: Keep-Alive"]
    answer = over_http1(s, [*head, f"Content-Length: {len(body)}"], body)
    expect(answer.status == 200 and answer.json["name"].startswith("projects/shop/messages/"), answer.text)
    answer = over_http1(s, [*head, "Transfer-Encoding: chunked"],
                        b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
    expect(answer.status == 200, "chunked", answer.text)
    device = s.register()
    body = json.dumps({"to": "/topics/java", "registration_tokens": [device.token, "x"]}).encode()
    head[0], head[-2] = "POST /iid/v1:batchAdd HTTP/1.1", "Host: iid.googleapis.com"
    answer = over_http1(s, [*head, "access_token_auth: true", f"Content-Length: {len(body)}"], body)
    expect(answer.json == {"results": [{}, {"error": "INVALID_ARGUMENT"}]}, answer.text)


def row_53(s):
    """.NET's send, which always has `validate_only`, and its batch, with a header twice."""
    body = b'{"message":{"data":{"k":"v"},"topic":"net"},"validate_only":false}'
    head = ["POST " + SEND + " HTTP/1.1", "Host: fcm.googleapis.com", "X-GOOG-API-FORMAT-VERSION: 2",
            "X-Firebase-Client: fire-admin-dotnet/3.5.0", "X-Goog-Api-Client: gl-dotnet/8.0 fire-admin/3.5.0",
            f"Authorization: Bearer {s.bearer}", "Content-Type: application/json; charset=utf-8"]
    answer = over_http1(s, [*head, f"Content-Length: {len(body)}"], body)
    expect(answer.status == 200 and answer.json["name"].startswith("projects/shop/messages/"), answer.text)
    device = s.register()
    body = json.dumps({"to": "/topics/net", "registration_tokens": [device.token]}).encode()
    head[0], head[1] = "POST /iid/v1:batchAdd HTTP/1.1", "Host: iid.googleapis.com"
    answer = over_http1(s, [*head, "access_token_auth: true", head[4], f"Content-Length: {len(body)}"], body)
    expect(answer.json == {"results": [{}]}, answer.text)


def row_54(s):
    """Go's send over HTTP/2; `validate_only` comes before the message where it is set."""
    client = HTTP2(s, tls=True)
    extra = [("x-goog-api-format-version", "2"), ("x-firebase-client", "fire-admin-go/4.21.0"),
             ("x-goog-api-client", "gl-go/1.27.3 fire-admin/4.21.0"), ("accept-encoding", "gzip"),
             ("user-agent", "Go-http-client/2.0")]
    for body in (b'{"message":{"data":{"k":"v"},"topic":"go"}}',
                 b'{"validate_only":true,"message":{"data":{"k":"v"},"topic":"go"}}'):
        stream = client.request("POST", SEND, s.bearer, body, "https", "fcm.googleapis.com",
                                [*extra, ("content-length", str(len(body)))])
        client.push()
        answer = client.answer(stream)
        expect(answer.status == 200 and answer.json["name"].startswith("projects/shop/messages/"),
               answer.text)


def row_55(s):
    """The sample of FCM's page on topics, as printed there, with a comma before a closing brace."""
    device = s.register()
    s.subscribe("cats", device)
    stream = device.listen()
    sample = b"""{
   "message":{
    "condition": "'dogs' in topics || 'cats' in topics",
    "notification" : {
      "body" : "This is a Firebase Cloud Messaging Topic Message!",
      "title" : "FCM Message",
    }
  }
}"""
    answer = s.call("POST", SEND, sample)
    expect(answer.status == 200, answer.text)
    got = stream.messages(1)
    stream.close()
    expect(got[0]["notification"]
           == {"body": "This is a Firebase Cloud Messaging Topic Message!", "title": "FCM Message"}, got)
    expect(s.call("POST", SEND, b'{"message":{"topic":"a",,}}').status == 400, "two commas")


def row_56(s):
    """A body in gzip, as Google's generated clients send it, is read; another coding is 415, damage 400."""
    coded = {"content-encoding": "gzip"}
    body = gzip.compress(b'{"message":{"topic":"a"}}')
    answer = s.call("POST", SEND, body, headers=coded)
    expect(answer.status == 200 and answer.json["name"].startswith("projects/shop/messages/"), answer.text)
    half = gzip.compress(b'{"message":') + gzip.compress(b'{"topic":"a"}}')
    expect(s.call("POST", SEND, half, headers=coded).status == 200, "two members")
    for bad, why in ((body[:-1], "ends before"), (body[:-5] + b"xxxxx", "damaged"), (body + b"x", "behind"),
                     (b'{"message":{"topic":"a"}}', "damaged")):
        answer = s.call("POST", SEND, bad, headers=coded)
        error(answer, 400, "INVALID_ARGUMENT", "INVALID_ARGUMENT")
        expect(why in answer.json["error"]["message"], answer.text)
    answer = s.call("POST", SEND, body, headers={"content-encoding": "br"})
    error(answer, 415, "INVALID_ARGUMENT", "INVALID_ARGUMENT")
    expect("br" in answer.json["error"]["message"], answer.text)
    expect(answer.headers["accept-encoding"] == "gzip", answer.headers)
    client = HTTP2(s, tls=True)
    stream = client.request("POST", SEND, s.bearer, body, "https", "fcm.googleapis.com",
                            [("content-encoding", "gzip"), ("content-length", str(len(body)))])
    client.push()
    expect(client.answer(stream).status == 200, "over HTTP/2")


def row_57(s):
    """Forms of clients written by hand: strings for numbers, an encoded colon, the web SDK's `FIS`."""
    notification = {"notification_count": "5", "sticky": "true"}
    message = {"message": {"topic": "a", "android": {"notification": notification}}, "validate_only": "false"}
    name = s.call("POST", SEND.replace(":", "%3A"), message).json["name"]
    expect(name.startswith("projects/shop/messages/") and "fake" not in name, name)
    device = s.register()
    answer = s.call("POST", f"{device.path}/topicSubscriptions/web:subscribe", bearer=None,
                    headers={"x-goog-firebase-installations-auth": f"FIS {device.credential}",
                             "x-goog-api-key": s.key})
    expect(answer.status == 200, answer.text)


def installed(s, path="/v1/projects/shop/installations"):
    """A new installation, asked for as the web SDK asks."""
    body = {"fid": "cAAAAAAAAAAAAAAAAAAAAA", "authVersion": "FIS_v2", "appId": "1:5:web:a",
            "sdkVersion": "w:0.6.24"}
    answer = s.call("POST", path, body, bearer=None,
                    headers={"x-goog-api-key": s.key, "accept": "application/json",
                             "x-firebase-client": "eyJ2ZXJzaW9uIjoyfQ"})
    expect(answer.status == 200, answer.text)
    expect(answer.json["authToken"]["expiresIn"] == "604800s", answer.text)
    return answer.json


def auth(s, token, word="FIS "):
    return {"x-goog-api-key": s.key, "x-goog-firebase-installations-auth": word + token}


def row_59(s):
    """The web SDK's installation: an auth token, another one for the refresh token, the same device again."""
    made = installed(s)
    fid, token = made["fid"], made["authToken"]["token"]
    expect(s.key.startswith("A") and len(s.key) == 39, "the key's shape", s.key)
    generate = f"/v1/projects/shop/installations/{fid}/authTokens:generate"
    body = {"installation": {"sdkVersion": "w:0.6.24", "appId": "1:5:web:a"}}
    answer = s.call("POST", generate, body, bearer=None,
                    headers={"authorization": f"FIS_v2 {made['refreshToken']}"})
    expect(answer.status == 200 and answer.json["expiresIn"] == "604800s", answer.text)
    other = installed(s)
    for wrong in (other["refreshToken"], "x", ""):
        answer = s.call("POST", generate, body, bearer=None, headers={"authorization": f"FIS_v2 {wrong}"})
        expect(answer.json["error"]["code"] == 401, wrong, answer.text)
    first = s.call("POST", "/v1/projects/shop/registrations", {"fcm_sdk_version": "0.13.2"}, bearer=None,
                   headers=auth(s, token))
    expect(first.json["name"].endswith(f"/registrations/{fid}"), first.text)
    again = s.call("PATCH", f"/v1/projects/shop/registrations/{first.json['token']}", {}, bearer=None,
                   headers=auth(s, token))
    expect(again.json["token"] == first.json["token"], again.text)
    web = {"web": {"origin": "a.example", "endpoint": "https://b.example/c", "auth": "x", "p256dh": "y"}}
    answer = s.call("POST", "/v1/projects/shop/registrations", web, bearer=None, headers=auth(s, token))
    expect(answer.status == 400 and "Web Push" in answer.json["error"]["message"], answer.text)
    answer = s.call("POST", "/v1/projects/shop/registrations", {}, bearer=None, headers=auth(s, token[:-2]))
    expect(answer.status == 401 and answer.json["error"]["code"] == 401, answer.text)
    allowed = s.call("OPTIONS", generate, bearer=None).headers["access-control-allow-headers"]
    expect("x-firebase-client" in allowed and "accept" in allowed, allowed)
    answer = s.call("DELETE", f"/v1/projects/shop/registrations/{first.json['token']}", bearer=None,
                    headers=auth(s, token))
    expect(answer.status == 200 and answer.json == {}, answer.text)
    # The SDK's installation goes on, because the SDK registers again under the same auth token.
    refresh = {"authorization": f"FIS_v2 {made['refreshToken']}"}
    expect(s.call("POST", generate, body, bearer=None, headers=refresh).status == 200, "it goes on")
    answer = s.call("DELETE", f"/v1/projects/shop/installations/{fid}", {}, bearer=None, headers=refresh)
    expect(answer.status == 200, answer.text)
    expect(s.call("POST", generate, body, bearer=None, headers=refresh).status == 404, "it is gone")


def row_60(s):
    """iOS with an installation id: paths with a slash, its address at Apple, topics by its token."""
    made = installed(s, "/v1/projects/shop/installations/")
    fid, token = made["fid"], made["authToken"]["token"]
    ios = {"ios": {"apns_token": "c0ffee" * 10, "app_version": "1", "apns_environment": "SANDBOX",
                   "bundle_id": "org.example.app"}, "fcm_sdk_version": "fcm-12.19.0"}
    registrations = "/v1/projects/shop/registrations"
    answer = s.call("POST", registrations, ios, bearer=None, headers=auth(s, token, ""))
    expect(answer.status == 200 and answer.json["name"].endswith(fid), answer.text)
    topics = f"{registrations}/{fid}/topicSubscriptions"
    answer = s.call("POST", f"{topics}/apples:subscribe", bearer=None, headers=auth(s, token, ""))
    expect(answer.status == 200, answer.text)
    expect(s.call("POST", f"{topics}/apples:subscribe", bearer=None,
                  headers=auth(s, installed(s)["authToken"]["token"], "")).status == 403, "another's token")
    # The app is installed on a new phone: the same installation, another address, the same topics.
    ios["ios"]["apns_token"] = "beef" * 16
    expect(s.call("POST", registrations, ios, bearer=None, headers=auth(s, token, "")).status == 200, "again")
    own = s.call("GET", topics, bearer=None, headers=auth(s, token, ""))
    expect([one["topicName"] for one in own.json["topicSubscriptions"]] == ["apples"], own.text)
    info = s.call("GET", f"/iid/info/{fid}?details=true")
    expect(info.json["platform"] == "IOS" and "apples" in info.json["rel"]["topics"], info.text)
    bad = {"ios": {"apns_token": "xyz", "bundle_id": "a.b"}}
    answer = s.call("POST", registrations, bad, bearer=None, headers=auth(s, token, ""))
    error(answer, 400, "INVALID_ARGUMENT", "INVALID_ARGUMENT")
    answer = s.call("DELETE", f"/v1/projects/shop/installations/{fid}/", {}, bearer=None,
                    headers={"authorization": f"FIS_v2 {made['refreshToken']}"})
    expect(answer.status == 200, answer.text)
    expect(s.call("GET", f"{registrations}/{fid}").status == 404, "the device is gone")


def row_61(s):
    """A device's address and its auth token outlive a server that is killed."""
    made = installed(s)
    fid, token = made["fid"], made["authToken"]["token"]
    ios = {"ios": {"apns_token": "0a" * 32, "bundle_id": "org.example.app"}}
    answer = s.call("POST", "/v1/projects/shop/registrations", ios, bearer=None, headers=auth(s, token))
    expect(answer.status == 200, answer.text)
    s.kill()
    s.start()
    s.wait_ready()
    shown = s.call("GET", f"/v1/projects/shop/registrations/{fid}", bearer=None, headers=auth(s, token))
    transports = shown.json["transports"]
    expect([one["kind"] for one in transports] == ["ios"] and transports[0]["environment"] == "PROD",
           shown.text)
    expect("0a0a" not in shown.text, "an address is shown", shown.text)


ROWS = {number: function for name, function in list(globals().items()) if name.startswith("row_")
        for number in [int(name[4:])]}
