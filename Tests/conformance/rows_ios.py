"""The SDKs for phones: iOS with tokens (its check-in, its token, its topics), and bodies in gzip."""
import gzip
import json
import urllib.parse
import zlib

from harness import error, expect
from rows_sdks import SEND, auth, installed

REGISTRATIONS = "/v1/projects/shop/registrations"


def checkin(s, known=(0, 0)):
    """A check-in as the SDK (12.19) writes it; the answer's JSON. The SDK ignores the status."""
    body = {"checkin": {"iosbuild": {"model": "iPhone15,2", "os_version": "IOS_17.1"}, "type": 2,
                        "user_number": 0, "last_checkin_msec": 0},
            "fragment": 0, "locale": "en_US", "version": 2, "digest": "", "time_zone": "Europe/Berlin",
            "user_serial_number": 0, "id": known[0], "security_token": known[1]}
    answer = s.call("POST", "/checkin", body, bearer=None)
    expect(answer.status == 200, answer.text)
    return answer.json


def login_of(made):
    return made["android_id"], made["security_token"]


def form(pairs):
    """A form as `URLComponents` writes it: `+` and `:` stay as they are."""
    return urllib.parse.urlencode(pairs, safe="+:*/", quote_via=urllib.parse.quote).encode()


def register(s, login, token, apns="p_" + "c0" * 32, proposed="cAAAAAAAAAAAAAAAAAAAAA", **more):
    """The SDK's token request; the answer's text."""
    pairs = {"X-osv": "17.1", "device": login[0], "X-scope": "*", "plat": "2", "app": "org.example.app",
             "app_ver": "1.0+5", "X-cliv": "fiid-12.19.0", **more}
    if "delete" not in more:
        pairs |= {"sender": "123456789012", "X-subtype": "123456789012", "appid": proposed,
                  "apns_token": apns, "gmp_app_id": "1:123456789012:ios:0a1b"}
    answer = s.call("POST", "/register", form(pairs), bearer=None,
                    headers={"content-type": "application/x-www-form-urlencoded",
                             "authorization": f"AidLogin {login[0]}:{login[1]}", "app": "org.example.app",
                             "info": "", "x-goog-firebase-installations-auth": token,
                             "x-firebase-client": "fire-fcm/12.19.0", "x-firebase-client-log-type": "0"})
    expect(answer.headers["content-type"].startswith("text/plain"), answer.headers)
    return answer.text


def change(s, login, token, topic, *more):
    """The SDK's subscription request: a body that it puts together as text."""
    body = f"sender={token}&app=org.example.app&device={login[0]}&app_ver=1.0+5" \
           f"&X-gcm.topic=/topics/{topic}&X-scope=/topics/{topic}" + "".join(more)
    return s.call("POST", "/iid/register", body.encode(), bearer=None,
                  headers={"authorization": f"AidLogin {login[0]}:{login[1]}", "app": "org.example.app",
                           "content-type": "application/x-www-form-urlencoded"}).text


def topics_of(s, fid, token):
    own = s.call("GET", f"{REGISTRATIONS}/{fid}/topicSubscriptions", bearer=None, headers=auth(s, token, ""))
    return sorted(one["topicName"] for one in own.json["topicSubscriptions"])


def token_in(text):
    """The token as the SDK reads it: between the first `=` and the next."""
    parts = text.split("\n")[0].split("=")
    expect(parts[0] == "token" and len(parts) == 2, text)
    return parts[1]


def row_66(s):
    """iOS with tokens: checkin answers numbers, which outlive a restart; nobody gets another's login."""
    made = checkin(s)
    for name in ("android_id", "security_token"):
        expect(type(made[name]) is int and 0 < made[name] < 2 ** 63, name, made)
    login = login_of(made)
    expect(login_of(checkin(s, login)) == login, "the phone keeps its login")
    for known in ((login[0], login[1] ^ 1), (login[0], 0), (login[0] ^ 1, login[1]), (-1, -1)):
        expect(checkin(s, known)["android_id"] not in (known[0], login[0]), known)
    odd = {"id": str(login[0]), "security_token": "x", "new": [{}]}
    strings = s.call("POST", "/checkin", odd, bearer=None)
    expect(strings.json["android_id"] != login[0], "unknown input is passed over", strings.text)
    s.kill()
    s.start()
    s.wait_ready()
    expect(login_of(checkin(s, login)) == login, "no record is needed to know a login")


def row_67(s):
    """iOS with tokens: register answers `token=FID:…`, keeps device and topics; delete is `deleted=`."""
    made = installed(s, "/v1/projects/shop/installations/")
    fid, token = made["fid"], made["authToken"]["token"]
    login = login_of(checkin(s))
    first = token_in(register(s, login, token))
    expect(first.startswith(fid + ":") and first != fid, first)
    expect(s.call("GET", f"/iid/info/{first}").json["platform"] == "IOS", "the address is stored")
    s.sent({"token": first})
    expect(s.iid("batchAdd", "pears", [first]).json == {"results": [{}]}, "a backend subscribes the token")
    # The app was installed on the same phone again: another address, the same device and token.
    expect(token_in(register(s, login, token, "s_" + "beef" * 20)) == first, "the same token")
    shown = s.call("GET", f"{REGISTRATIONS}/{fid}", bearer=None, headers=auth(s, token, ""))
    environments = [one["environment"] for one in shown.json["transports"]]
    expect(environments == ["SANDBOX"], shown.text)
    expect(topics_of(s, fid, token) == ["pears"], "the topics stay")
    for text, word in ((register(s, login, token[:-2]), "AUTHENTICATION_FAILED"),
                       (register(s, (login[0], login[1] ^ 1), token), "RST"),
                       (register(s, login, token, "x_00"), "INVALID_PARAMETERS")):
        expect(text == f"Error={word}", text)
    gone = register(s, login, token, delete="true")
    expect(gone.startswith("deleted="), gone)
    shown = s.call("GET", f"{REGISTRATIONS}/{fid}", bearer=None, headers=auth(s, token, ""))
    expect(shown.json["transports"] == [], shown.text)
    # deleteData: without a sender.
    gone = register(s, login, token, delete="true", **{"iid-operation": "delete"})
    expect(gone.startswith("deleted="), gone)


def row_68(s):
    """iOS with tokens: a decimal secret changes the topics of its own token only."""
    made = installed(s)
    login, token = login_of(checkin(s)), made["authToken"]["token"]
    mine = token_in(register(s, login, token))
    expect(change(s, login, mine, "plums") == f"token={mine}", "subscribe")
    expect(change(s, login, mine, "pl%25ums~") == f"token={mine}", "an encoded topic")
    expect(topics_of(s, made["fid"], token) == ["pl%ums~", "plums"], "both topics")
    other = login_of(checkin(s))
    short = mine[:45]
    for who, what in ((other, mine), ((login[0], login[1] ^ 1), mine), (login, short), (other, short),
                      (login, mine[:-1] + ("A" if mine[-1] != "A" else "Q"))):
        expect(change(s, who, what, "figs") == "Error=AUTHENTICATION_FAILED", who == other, what)
    theirs = token_in(register(s, other, installed(s)["authToken"]["token"]))
    expect(change(s, login, theirs, "figs") == "Error=AUTHENTICATION_FAILED", "another phone's token")
    expect(change(s, other, theirs, "figs") == f"token={theirs}", "its own")
    expect(change(s, login, mine, "plums", "&delete=true") == f"token={mine}", "unsubscribe")
    expect(topics_of(s, made["fid"], token) == ["pl%ums~"], "one topic is left")
    s.kill()
    s.start()
    s.wait_ready()
    expect(change(s, login, mine, "dates") == f"token={mine}", "no record is needed to know the binding")
    answer = s.call("DELETE", f"/v1/projects/shop/installations/{made['fid']}/", {}, bearer=None,
                    headers={"authorization": f"FIS_v2 {made['refreshToken']}"})
    expect(answer.status == 200, answer.text)
    expect(change(s, login, mine, "dates") == "Error=INVALID_SENDER", "the device is gone")
    expect(register(s, login, token) == "Error=INVALID_SENDER", "and gets no token")


def row_69(s):
    """Android's installations: bodies in gzip, to the byte of the path's bound; a bomb is 413."""
    key = {"x-goog-api-key": s.key, "x-android-package": "org.example.app", "x-android-cert": "00" * 20,
           "content-encoding": "gzip", "accept": "application/json", "cache-control": "no-cache"}
    body = b'{"fid":"cAAAAAAAAAAAAAAAAAAAAA","appId":"1:5:android:a","authVersion":"FIS_v2",' \
           b'"sdkVersion":"a:19.0.1"}'
    path = "/v1/projects/shop/installations"
    made = s.call("POST", path, gzip.compress(body), bearer=None, headers=key)
    expect(made.status == 200 and made.json["authToken"]["expiresIn"] == "604800s", made.text)
    generate = s.call("POST", f"{path}/{made.json['fid']}/authTokens:generate", gzip.compress(
        b'{"installation":{"sdkVersion":"a:19.0.1"}}'), bearer=None,
        headers=key | {"authorization": f"FIS_v2 {made.json['refreshToken']}"})
    expect(generate.json["token"].startswith("tci."), generate.text)
    full = body + b" " * (4096 - len(body))
    expect(s.call("POST", path, gzip.compress(full), bearer=None, headers=key).status == 200, "4,096 bytes")
    error(s.call("POST", path, gzip.compress(full + b" "), bearer=None, headers=key), 413, "INVALID_ARGUMENT",
          "INVALID_ARGUMENT")
    bomb = zlib.compressobj(9, wbits=31)
    packed = bomb.compress(bytes(64 << 20)) + bomb.flush()
    coded = {"content-encoding": "gzip"}
    expect(len(packed) < 65536, len(packed))
    error(s.call("POST", SEND, packed, headers=coded), 413, "INVALID_ARGUMENT", "INVALID_ARGUMENT")
    answer = s.iid("batchAdd", "a", ["x"], headers=coded | {"access_token_auth": "true"})
    expect(answer.status == 400 and "gzip" in answer.json["error"], "a plain body", answer.text)
    tokens = json.dumps({"to": "/topics/a", "registration_tokens": [s.register().token]}).encode()
    answer = s.call("POST", "/iid/v1:batchAdd", gzip.compress(tokens),
                    headers=coded | {"access_token_auth": "true"})
    expect(answer.json == {"results": [{}]}, answer.text)


ROWS = {number: function for name, function in list(globals().items()) if name.startswith("row_")
        for number in [int(name[4:])]}
