"""Rows of the table about authentication, quotas, and HTTP itself."""
import base64
import concurrent.futures
import json
import signal
import subprocess
import time
import urllib.parse

import harness
from harness import Server, error, expect
from http2_client import HTTP2

JAVA = {"INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNAUTHENTICATED", "PERMISSION_DENIED",
        "NOT_FOUND",
        "CONFLICT", "ABORTED", "ALREADY_EXISTS", "RESOURCE_EXHAUSTED", "CANCELLED", "DATA_LOSS", "UNKNOWN",
        "INTERNAL",
        "UNAVAILABLE", "DEADLINE_EXCEEDED"}


SEND = "/v1/projects/shop/messages:send"
BODY = json.dumps({"message": {"topic": "wire", "data": {"k": "v"}}}).encode()


# So long the bucket fills again, by 100 tokens.
REFILL_SECONDS = 1


def row_16(s):
    """A missing or invalid bearer token is refused; a fresh access token from the token endpoint is
    accepted."""
    for bearer in (None, "nonsense", "tca.AAAA"):
        error(s.send({"topic": "a"}, bearer=bearer), 401, "UNAUTHENTICATED")
    error(s.send({"topic": "a"}, bearer=None, headers={"authorization": "Basic eDp5"}), 401,
          "UNAUTHENTICATED")
    fresh = exchange(s, assertion(s)).json["access_token"]
    s.sent({"topic": "a"}, bearer=fresh)
    error(s.send({"topic": "a"}, bearer=fresh[:-2] + "AA"), 401, "UNAUTHENTICATED")


def limited(**quotas):
    return Server(quotas=[word for name, value in quotas.items()
                          for word in (f"--{name.replace('_', '-')}", str(value))])


def row_17(_):
    """A refusal for quota has all details that SDKs read."""
    with_few = limited(sends_per_minute=60)
    try:
        while (answer := with_few.send({"topic": "a"})).status == 200:
            pass
        details = error(answer, 429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
        expect(set(details) >= {"FcmError", "QuotaFailure", "ErrorInfo", "RetryInfo"}, details)
        expect(details["RetryInfo"]["retryDelay"].endswith("s"), details)
        expect(details["ErrorInfo"]["reason"] and details["ErrorInfo"]["metadata"]["quota_metric"], details)
        metadata = details["ErrorInfo"]["metadata"]
        expect(metadata["quota_limit"] == "SendsPerMinutePerProject" and metadata["quota_limit_value"] == "60"
               and metadata["quota_unit"] == "1/min/{project}", metadata)
    finally:
        with_few.close()


def row_58(_):
    """A send with invalid content also costs a token; a send with an invalid or another project's credential
    costs none."""
    with_few = limited(sends_per_minute=10)
    try:
        for bearer in ("nonsense", with_few.other_bearer):
            for _ in range(12):
                expect(with_few.send({"topic": "a b"}, bearer=bearer).status in (401, 403), bearer)
        answers = [with_few.send({"topic": "a b"}).status for _ in range(12)]
        expect(answers[:10] == [400] * 10 and 429 in answers, answers)
        error(with_few.send({"topic": "a"}), 429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
    finally:
        with_few.close()


def row_18(_):
    """No Retry-After on refused sends by default: one SDK would block its caller for that time."""
    with_few = limited(sends_per_minute=60)
    try:
        while (answer := with_few.send({"topic": "a"})).status == 200:
            pass
        expect(answer.status == 429 and "retry-after" not in answer.headers, answer.headers)
    finally:
        with_few.close()


def row_19(s):
    """Every `status` that any row saw is one that Java's SDK knows."""
    error(s.send({"topic": "failpoint.internal.1"}), 500, "INTERNAL", "INTERNAL")
    error(s.send({"topic": "failpoint.deadline.1"}), 504, "DEADLINE_EXCEEDED")
    error(s.send({"topic": "failpoint.third-party-auth.1"}), 401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR")
    expect(harness.seen_statuses <= JAVA, harness.seen_statuses - JAVA)
    expect(len(harness.seen_statuses) >= 4, harness.seen_statuses)


def row_20(s):
    """503, then 200: one delivery."""
    topic = "failpoint.unavailable.1"
    device = s.register()
    s.subscribe(topic, device)
    stream = device.listen()
    connection = s.http()
    error(s.send({"topic": topic, "data": {"n": "1"}}, connection=connection), 503, "UNAVAILABLE",
          "UNAVAILABLE")
    expect(s.send({"topic": topic, "data": {"n": "1"}}, connection=connection).status == 200, "the second")
    got = stream.only(1)
    stream.close()
    expect([one["data"] for one in got] == [{"n": "1"}], got)


def row_21(s):
    """A connection that drops after the request: its message comes at most once, and a later message still
    comes."""
    device = s.register()
    s.subscribe("wire21", device)
    stream = device.listen()
    for n in range(20):
        body = json.dumps({"message": {"topic": "wire21", "data": {"n": str(n)}}}).encode()
        plain = s.connect()
        plain.sendall(b"POST %s HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\ncontent-length:"
                      b" %d\r\n\r\n%s"
                      % (SEND.encode(), s.bearer.encode(), len(body), body))
        plain.close()
    s.sent({"topic": "wire21", "data": {"n": "end"}})
    got = []
    while "end" not in got:
        more = stream.messages(1)
        expect(more, "the last message does not come", got)
        got.append(more[0]["data"]["n"])
    # Messages of the dropped connections may come after the last one.
    got += [one["data"]["n"] for one in stream.messages(20, 1)]
    stream.close()
    expect(len(got) == len(set(got)) and "end" in got, got)


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def assertion(s, account=None, key=None, **claims):
    """A JWT as Google's libraries make it, signed by openssl(1)."""
    account = account or s.accounts["shop"]
    now = int(time.time())
    payload = {"iat": now, "exp": now + 3600, "iss": account["client_email"], "aud": account["token_uri"],
               "scope": "https://www.googleapis.com/auth/cloud-platform"
                        " https://www.googleapis.com/auth/firebase", **claims}
    head = {"typ": "JWT", "alg": "RS256", "kid": account["private_key_id"]}
    text = base64url(json.dumps(head).encode()) + b"." + base64url(json.dumps(payload).encode())
    path = f"{s.folder}/key.pem"
    with open(path, "w") as file:
        file.write(key or account["private_key"])
    signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", path], input=text, capture_output=True,
                               check=True)
    return (text + b"." + base64url(signature.stdout)).decode()


def exchange(s, jwt, grant="urn:ietf:params:oauth:grant-type:jwt-bearer"):
    form = urllib.parse.urlencode({"assertion": jwt, "grant_type": grant}).encode()
    return s.call("POST", "/token", form, bearer=None,
                  headers={"content-type": "application/x-www-form-urlencoded"})


def row_34(s):
    """The exchange of a signed assertion for an access token."""
    good = exchange(s, assertion(s))
    expect(good.status == 200 and good.json["token_type"] == "Bearer" and good.json["expires_in"] <= 3600,
           good.text)
    s.sent({"topic": "a"}, bearer=good.json["access_token"])
    now = int(time.time())
    expect(exchange(s, assertion(s, iat=now + 60, exp=now + 3600)).status == 200,
           "a clock that is a minute ahead")
    other_key = s.accounts["other"]["private_key"]
    jwt = assertion(s)
    for what, bad in (("another's key", assertion(s, key=other_key)),
                      ("audience", assertion(s, aud="https://x/token")),
                      ("expired", assertion(s, iat=now - 7200, exp=now - 3600)),
                      ("too long", assertion(s, exp=now + 7200)), ("nobody", assertion(s, iss="x@y")),
                      ("cut", jwt[:-10]), ("empty", ""), ("no dots", "abc"),
                      ("no signature", jwt.rsplit(".", 1)[0] + "."),
                      ("scope", assertion(s, scope="https://www.googleapis.com/auth/drive"))):
        answer = exchange(s, bad)
        expect(answer.status == 400 and answer.json["error"] in ("invalid_grant", "invalid_scope"), what,
               answer.text)
    expect(exchange(s, jwt, grant="password").status == 400, "grant type")


def row_35(s):
    """HTTP/2 as Node's SDK speaks it: `:scheme` with a colon, the port in `:authority`."""
    client = HTTP2(s, tls=True)
    stream = client.request("POST", SEND, s.bearer, BODY, scheme="https:", authority="fcm.googleapis.com:443")
    client.push()
    expect(client.answer(stream).status == 200, client.answers)
    plain = HTTP2(s)
    stream = plain.request("POST", SEND, s.bearer, BODY, scheme="https:", authority="fcm.googleapis.com:443")
    plain.push()
    expect(plain.answer(stream).status == 200, plain.answers)


def row_36(s):
    """500 requests on one connection, 100 at a time."""
    client = HTTP2(s, tls=True)
    streams, sent = [], 0
    while sent < 500:
        while sent < 500 and sent - len(client.done) < 100:
            streams.append(client.request("POST", SEND, s.bearer, BODY, scheme="https"))
            sent += 1
        client.push()
        before = len(client.done)
        expect(client.read(lambda before=before: len(client.done) > before), "no answer after", before)
    statuses = {client.answer(stream).status for stream in streams}
    expect(statuses == {200}, statuses)


def row_37(s):
    """500 new TLS connections at once; keep-alive; a DELETE without a body and with `content-length: 0`."""
    with concurrent.futures.ThreadPoolExecutor(500) as pool:
        statuses = set(pool.map(lambda _: s.call("POST", SEND, BODY, tls=True).status, range(500)))
    expect(statuses == {200}, statuses)
    connection = s.http(tls=True)
    connection.connect()
    first = connection.sock
    for _ in range(5):
        expect(s.call("POST", SEND, BODY, connection=connection).status == 200, "keep-alive")
    device = s.register()
    answer = s.call("DELETE", f"{device.path}/topicSubscriptions/x?allow_missing=true", connection=connection,
                    headers={"content-length": "0"})
    expect(answer.status == 200 and connection.sock is first, answer.text)
    connection.close()


def row_38(s):
    """A client without ALPN speaks HTTP/1.1; a client with ALPN gets a protocol that it offers, h2 first."""
    for alpn, wanted in ((None, None), (["http/1.1"], "http/1.1"), (["h2"], "h2"),
                         (["h2", "http/1.1"], "h2")):
        secure = s.connect(tls=True, alpn=alpn)
        expect(secure.selected_alpn_protocol() == wanted, alpn, secure.selected_alpn_protocol())
        if wanted != "h2":
            secure.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            expect(secure.recv(64).startswith(b"HTTP/1.1 200"), alpn)
        secure.close()


def row_39(s):
    """A client that ends each session with GOAWAY leaves no connection at the server."""
    before = s.metric("tidecast_connections")
    for _ in range(20):
        client = HTTP2(s, tls=True)
        streams = [client.request("POST", SEND, s.bearer, BODY, scheme="https") for _ in range(10)]
        client.push()
        for stream in streams:
            expect(client.answer(stream).status == 200, client.answers)
        client.h2.close_connection()
        client.push()
        client.socket.close()
    for _ in range(100):
        if s.metric("tidecast_connections") <= before:
            return
        time.sleep(0.05)
    raise harness.MismatchError(f"{s.metric('tidecast_connections')} connections, {before} before")


def row_40(_):
    """An orderly end: GOAWAY without error, an answer to each accepted request, exit code 0."""
    s = Server()
    try:
        client = HTTP2(s)
        streams = [client.request("POST", SEND, s.bearer, BODY) for _ in range(50)]
        client.push()
        expect(client.read(lambda: len(client.done) >= 1), "no answer")
        s.process.send_signal(signal.SIGTERM)
        client.read(lambda: False, 5)
        expect(client.goaway is not None and int(client.goaway.error_code) == 0, client.goaway)
        last = client.goaway.last_stream_id
        unanswered = [one for one in streams if one <= last
                      and client.answers.get(one, {}).get(":status") != "200"]
        expect(not unanswered, "unanswered", unanswered, "of last", last)
        expect(s.process.wait(timeout=30) == 0, s.process.returncode)
    finally:
        s.close()


def row_46(_):
    """The burst passes, more is refused, and tokens come back continuously (here with 1/100 of the default
    quota)."""
    s = limited(sends_per_minute=6000)
    try:
        passed, seconds = burst(s, 9000)
        # A loop that stands still for longer than the lease of its tokens loses these tokens, and they count
        # as spent.
        expect(3000 <= passed <= 6000 + 100 * seconds + 1, passed, "in", seconds)
        time.sleep(REFILL_SECONDS)
        again, seconds = burst(s, 1000)
        expect(50 <= again <= 100 * (seconds + 1.5) + 10, again, "a second later, in", seconds)
    finally:
        s.close()


def burst(s, count):
    """Sends on one HTTP/2 connection, 100 at a time. Returns how many were accepted, and the seconds."""
    began = time.monotonic()
    client = HTTP2(s, window=1 << 20)
    sent, streams = 0, []
    while sent < count:
        while sent < count and sent - len(client.done) < 100:
            streams.append(client.request("POST", SEND, s.bearer, BODY))
            sent += 1
        client.push()
        before = len(client.done)
        expect(client.read(lambda before=before: len(client.done) > before), "no answer after", before)
    expect(client.read(lambda: len(client.done) == count), "answers", len(client.done))
    statuses = [client.answers[stream][":status"] for stream in streams]
    expect(set(statuses) <= {"200", "429"}, set(statuses))
    return statuses.count("200"), time.monotonic() - began


def row_47(_):
    """Subscription changes are counted in devices, not in requests."""
    s = limited(subscriptions_per_second=50)
    try:
        devices = [s.register() for _ in range(40)]
        tokens = [device.token for device in devices]
        began = time.monotonic()
        results = s.iid("batchAdd", "r47", tokens).json["results"] + s.iid("batchAdd", "r47b",
                                                                           tokens).json["results"]
        seconds = time.monotonic() - began
        made = results.count({})
        expect(25 <= made <= 50 + 50 * seconds + 1, made, "in", seconds)
        expect(all(one in ({}, {"error": "RESOURCE_EXHAUSTED"}) for one in results), results)
        whole = s.iid("batchAdd", "r47c", tokens)
        expect(whole.status == 429 or {"error": "RESOURCE_EXHAUSTED"} in whole.json["results"], whole.text)
        expect(whole.status != 429 or isinstance(whole.json["error"], str), whole.text)
    finally:
        s.close()


def row_48(s):
    """The old batch request does not exist, as at FCM: a 404 that no SDK takes for the end of a device."""
    headers = {"content-type": "multipart/mixed; boundary=__END_OF_PART__"}
    for path in ("/batch", "/v1", "/fcm/send", "/prefix" + SEND):
        not_found(s.call("POST", path, b"--__END_OF_PART__--\r\n", headers=headers), path)


def row_49(s):
    """A body that is not JSON gets an error in JSON, and the connection goes on."""
    connection = s.http()
    connection.connect()
    first = connection.sock
    for body in (b"", b"{", b"hello", b"[]", b'"x"', b"\xff\xfe", b'{"message":', BODY[:-1],
                 b'{"message":{"topic":"\\ud800"}}',
                 BODY + b"x", b"[" * 10_000, b'{"message":{"data":{"a":01}}}'):
        error(s.call("POST", SEND, body, connection=connection), 400, "INVALID_ARGUMENT", "INVALID_ARGUMENT",
              row=body[:20])
    for kind in ("text/plain", "application/xml"):
        answer = s.call("POST", SEND, b"<x/>", connection=connection, headers={"content-type": kind})
        error(answer, 400, "INVALID_ARGUMENT", "INVALID_ARGUMENT")
    expect(s.call("POST", SEND, BODY, connection=connection).status == 200 and connection.sock is first,
           "goes on")
    connection.close()
    # The server answers an endless body with 413 and makes the client stop sending. The connection goes on.
    client = HTTP2(s)
    stream = client.request_open("POST", SEND, s.bearer)
    sent = 0
    while stream not in client.done and sent < 8 << 20:
        room = min(client.h2.local_flow_control_window(stream), 16384)
        if room == 0:
            expect(client.read(lambda: stream in client.done
                               or client.h2.local_flow_control_window(stream) > 0), "window")
            continue
        client.h2.send_data(stream, b"x" * room)
        client.push()
        sent += room
        client.read(lambda: stream in client.done, 0.0005)
    expect(client.answers[stream][":status"] == "413" and sent < 6 << 20, client.answers, sent)
    stream = client.request("POST", SEND, s.bearer, BODY)
    client.push()
    expect(client.answer(stream).status == 200, "goes on")


def row_50(s):
    """Unknown paths and methods: a page, as at FCM. SDKs take NOT_FOUND in JSON for the end of a device."""
    for method, path in (("GET", "/"), ("GET", SEND), ("POST", "/v2/x"), ("PUT", SEND),
                         ("DELETE", "/iid/v1:batchAdd"),
                         ("GET", "/v1/projects/shop"), ("POST", "/v1/projects/shop/messages:sendAll"),
                         ("GET", "/a" * 400),
                         ("PUT", "/v1/projects/shop/registrations/x"), ("GET", "/%00"),
                         ("POST", "/index.html")):
        not_found(s.call(method, path), method, path)


def not_found(answer, *what):
    kind = answer.headers["content-type"]
    expect(answer.status == 404 and kind.startswith("text/html"), *what, answer.headers)
    expect("NOT_FOUND" not in answer.text and answer.json is None, *what, answer.text)


ROWS = {number: function for name, function in list(globals().items()) if name.startswith("row_")
        for number in [int(name[4:])]}
