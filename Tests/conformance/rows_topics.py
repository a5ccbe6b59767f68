"""Rows of the table about subscriptions, quotas and devices' own calls."""
import concurrent.futures
import time

from harness import error, expect, quoted

OAUTH = {"access_token_auth": "true"}


def word(answer, http_status):
    """Checks an error of the IID API, which is a plain string, and returns the string."""
    expect(answer.status == http_status, answer.status, "wanted", http_status, answer.text)
    expect(isinstance((answer.json or {}).get("error"), str), answer.text)
    return answer.json["error"]


def fill(s, count):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda _: s.register(), range(count)))


def row_22(s):
    """A batch of 1, of 1,000, of 1,001, of none."""
    device = s.register()
    s.subscribe("r22", device)
    expect(s.iid("batchAdd", "r22", [device.token] * 1000).json == {"results": [{}] * 1000}, "1,000")
    word(s.iid("batchAdd", "r22", [device.token] * 1001), 400)
    word(s.iid("batchAdd", "r22", []), 400)
    word(s.iid("batchAdd", "a b", [device.token]), 400)


def row_23(s):
    """Results keep the length and the order of the tokens; a subscription that exists already is a
    success."""
    devices = [s.register() for _ in range(3)]
    tokens = [devices[0].token, "nonsense", devices[1].token, devices[2].token]
    for _ in range(2):
        results = s.iid("batchAdd", "r23", tokens).json["results"]
        expect(results == [{}, {"error": "INVALID_ARGUMENT"}, {}, {}], results)


def row_24(s):
    """A batch with an unregistered device; a device's 2,001st topic. (Above the rate: row 47.)"""
    gone = s.register()
    s.call("DELETE", gone.path)
    device = s.register()
    results = s.iid("batchAdd", "r24", [gone.token, device.token]).json["results"]
    expect(results == [{"error": "NOT_FOUND"}, {}], results)
    full = s.register()

    def add(n):
        answer = s.iid("batchAdd", f"r24-{n}", [full.token])
        expect(answer.json == {"results": [{}]}, n, answer.text)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(add, range(2000)))
    results = s.iid("batchAdd", "r24-2000", [full.token]).json["results"]
    expect(results == [{"error": "TOO_MANY_TOPICS"}], results)
    answer = s.call("POST", f"{full.path}/topicSubscriptions?topic_name=r24-2000", {})
    error(answer, 400, "INVALID_ARGUMENT", "TOO_MANY_TOPICS")
    expect(s.iid("batchAdd", "r24-7", [full.token]).json == {"results": [{}]}, "one that it has")


def row_25(s):
    """Removing a subscription that does not exist succeeds."""
    device = s.register()
    expect(s.iid("batchRemove", "never", [device.token]).json == {"results": [{}]}, "never there")


def row_26(s):
    """A request without the header `access_token_auth`, or with a legacy key, is refused."""
    device = s.register()
    word(s.iid("batchAdd", "r26", [device.token], headers={}), 401)
    body = {"to": "/topics/r26", "registration_tokens": [device.token]}
    word(s.call("POST", "/iid/v1:batchAdd", body, bearer=None, headers={"authorization": "key=AAAA"}), 401)
    word(s.call("POST", "/iid/v1:batchAdd", body, bearer=None,
                headers={"authorization": "key=AAAA", **OAUTH}), 401)
    word(s.call("POST", "/iid/v1:batchAdd", body, bearer="nonsense", headers=OAUTH), 401)
    other = s.iid("batchAdd", "r26", [device.token], bearer=s.other_bearer).json["results"]
    expect(other[0]["error"] in ("INVALID_ARGUMENT", "PERMISSION_DENIED"), other)


def row_27(s):
    """One token twice: a result for each."""
    device = s.register()
    results = s.iid("batchAdd", "r27", [device.token, device.token, device.fid]).json["results"]
    expect(results == [{}, {}, {}], results)


def row_28(s):
    """Creating a subscription, and creating it again."""
    device = s.register()
    path = f"{device.path}/topicSubscriptions"
    for parameter in ("topic_name", "topicName"):
        made = s.call("POST", f"{path}?{parameter}=r28-{parameter}", {})
        expect(made.status == 200 and made.json["topicName"] == f"r28-{parameter}", made.text)
        expect(made.json["name"]
               == f"projects/shop/registrations/{device.fid}/topicSubscriptions/r28-{parameter}"
               and made.json["createTime"].endswith("Z"), made.text)
        error(s.call("POST", f"{path}?{parameter}=r28-{parameter}", {}), 409, "ALREADY_EXISTS")


def row_29(s):
    """Deleting a subscription that does not exist."""
    path = f"{s.register().path}/topicSubscriptions/never"
    for parameter in ("allow_missing", "allowMissing"):
        answer = s.call("DELETE", f"{path}?{parameter}=true")
        expect(answer.status == 200 and answer.json == {}, answer.text)
    error(s.call("DELETE", path), 404, "NOT_FOUND")
    error(s.call("GET", path), 404, "NOT_FOUND")


def row_30(s):
    """Names in paths are decoded once, after the path is split."""
    device = s.register()
    base = f"/v1/projects/shop/registrations/{quoted(device.token)}/topicSubscriptions"
    made = s.call("POST", f"{base}?topic_name={quoted('news%25~x')}", {})
    expect(made.status == 200 and made.json["topicName"] == "news%25~x", made.text)
    got = s.call("GET", f"{base}/news%2525~x")
    expect(got.status == 200 and got.json["topicName"] == "news%25~x", got.text)
    expect(s.call("DELETE", f"{base}/news%2525~x").json == {}, "delete")
    slashed = s.call("GET", f"/v1/projects/shop/registrations/{quoted('a:APA/91+b')}/topicSubscriptions")
    error(slashed, 400, "INVALID_ARGUMENT", "INVALID_ARGUMENT")


def row_31(s):
    """Lists come in pages of 1,000 by default and of 2,000 at most; a walk over the pages misses nothing."""
    device = s.register()
    names = {f"r31-{n}" for n in range(1500)}

    def add(name):
        return s.iid("batchAdd", name, [device.token]).status

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        expect(set(pool.map(add, names)) == {200}, "subscribing")
    path = f"{device.path}/topicSubscriptions"
    first = s.call("GET", path).json
    expect(len(first["topicSubscriptions"]) == 1000 and first["nextPageToken"],
           len(first["topicSubscriptions"]))
    whole = s.call("GET", f"{path}?pageSize=5000").json
    expect(len(whole["topicSubscriptions"]) == 1500 and not whole.get("nextPageToken"), "5,000")
    walked, token, pages = [], "", 0
    while True:
        page = s.call("GET", f"{path}?pageSize=400&pageToken={quoted(token)}").json
        walked += [one["topicName"] for one in page["topicSubscriptions"]]
        pages += 1
        token = page.get("nextPageToken")
        if not token:
            break
    expect(pages == 4 and len(walked) == 1500 and set(walked) == names, pages, len(walked))


def row_32(s):
    """Each API shows the subscriptions that the other API made, with their dates."""
    device = s.register()
    s.subscribe("r32-iid", device)
    s.call("POST", f"{device.path}/topicSubscriptions?topic_name=r32-v1", {})
    info = s.call("GET", f"/iid/info/{device.token}?details=true").json
    today = time.strftime("%Y-%m-%d", time.gmtime())
    expect(set(info["rel"]["topics"]) == {"r32-iid", "r32-v1"}, info)
    expect(info["rel"]["topics"]["r32-v1"]["addDate"] == today, info)
    expect("rel" not in s.call("GET", f"/iid/info/{device.token}").json, "without details")
    listed = s.call("GET", f"{device.path}/topicSubscriptions").json["topicSubscriptions"]
    expect({one["topicName"] for one in listed} == {"r32-iid", "r32-v1"}, listed)
    s.call("DELETE", device.path)
    word(s.call("GET", f"/iid/info/{device.token}"), 404)


def row_33(s):
    """One device's relation with a topic, made and ended twice."""
    device = s.register()
    for method in ("POST", "POST", "DELETE", "DELETE"):
        answer = s.call(method, f"/iid/v1/{device.token}/rel/topics/r33", headers=OAUTH)
        expect(answer.status == 200 and answer.json == {}, method, answer.text)


def row_41(s):
    """The form request of iOS: the beginning of the answer's text counts (`token=` or `Error=`)."""
    device = s.register()
    login = {"authorization": f"AidLogin {device.fid}:{device.credential}", "app": "com.example", "info": "1",
             "content-type": "application/x-www-form-urlencoded"}
    form = (f"sender={quoted(device.token)}&app=com.example&device=1&app_ver=1"
            f"&X-gcm.topic=%2Ftopics%2Fr41&X-scope=%2Ftopics%2Fr41")

    def post(body, headers=login):
        return s.call("POST", "/iid/register", body.encode(), bearer=None, headers=headers)

    expect(post(form).text.startswith("token="), post(form).text)
    expect("r41" in s.call("GET", f"/iid/info/{device.token}?details=true").text, "subscribed")
    expect(post(form + "&delete=true").text.startswith("token="), "delete")
    expect("r41" not in s.call("GET", f"/iid/info/{device.token}?details=true").text, "unsubscribed")
    wrong = {**login, "authorization": f"AidLogin {device.fid}:wrong"}
    for bad, headers in ((form, wrong), (form.replace(quoted(device.token), "x"), login), ("", login),
                         (form.replace("r41", "a%20b"), login)):
        expect(post(bad, headers).text.startswith("Error="), bad)


def row_42(s):
    """The requests of Android: a refusal is 4xx, which is final; the SDK would repeat a request after 5xx for
    hours."""
    device = s.register()
    headers = {"x-goog-api-key": s.key, "x-goog-firebase-installations-auth": device.credential}
    for verb, there in (("subscribe", True), ("subscribe", True), ("unsubscribe", False),
                        ("unsubscribe", False)):
        answer = s.call("POST", f"{device.path}/topicSubscriptions/r42%~:{verb}", bearer=None,
                        headers=headers)
        expect(answer.status == 200, verb, answer.text)
        expect(("r42%~" in s.call("GET", f"/iid/info/{device.token}?details=true").text) == there, verb)
    for bad in ({**headers, "x-goog-firebase-installations-auth": "wrong"}, {"x-goog-api-key": s.key}):
        answer = s.call("POST", f"{device.path}/topicSubscriptions/r42:subscribe", bearer=None, headers=bad)
        expect(answer.status in (401, 403), answer.status, answer.text)
    s.call("DELETE", device.path)
    answer = s.call("POST", f"{device.path}/topicSubscriptions/r42:subscribe", bearer=None, headers=headers)
    expect(400 <= answer.status < 500, answer.status)


ROWS = {number: function for name, function in list(globals().items()) if name.startswith("row_")
        for number in [int(name[4:])]}
