"""Clients of a server behind nginx: see nginx.sh."""
import http.client
import json
import ssl
import subprocess
import sys
import time

from pywebpush import WebPusher
from recorded import Shop, Way, exchanges, replay
from websockets.exceptions import ConnectionClosed, InvalidStatus

from system.checks import check, wait
from system.nginx import Nginx
from system.ports import free_port
from system.process import Server, make_certificates, tls_words
from system.useragent import UserAgent

WORK, RECORDINGS = sys.argv[1:]
CERTIFICATES = f"{WORK}/edge"
AUTHORITY = f"{CERTIFICATES}/ca.pem"
# For so long nginx lets a server be silent: by default, and at the site that has too little.
DEFAULT, SHORT = 60, 20
# A server writes to each stream so often, and asks each silent user agent after so long.
SILENCE = 25
LIMIT = 30


def request(port, method, path, body=None, source="127.0.0.1", **headers):
    """Status, fields and text of a request over HTTP/1.1."""
    context = ssl.create_default_context(cafile=AUTHORITY)
    link = http.client.HTTPSConnection("localhost", port, timeout=LIMIT, context=context,
                                       source_address=(source, 0))
    try:
        link.request(method, path, json.dumps(body) if isinstance(body, dict) else body,
                     {"content-type": "application/json", **headers})
        answer = link.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        link.close()


class Stream:
    """A device's event stream, read by curl until it ends; curl does not begin again."""

    def __init__(self, shop, port, version, name):
        self.name, self.path = name, f"{WORK}/{name}"
        status, made = shop.call("POST", f"{shop.path}/registrations", {}, shop.backend)
        assert status == 200, (status, made)
        self.token = made["token"]
        listen = f"https://localhost:{port}{shop.path}/registrations/{self.token}:listen"
        with open(self.path, "wb") as file:
            self.process = subprocess.Popen(
                ["curl", "-siN", f"--http{version}", "--cacert", AUTHORITY, listen,
                 "-H", f"authorization: Bearer {made['credential']}"], stdout=file, stdin=subprocess.DEVNULL)
        wait(lambda: ": listening" in self.text(), f"{name} to begin", LIMIT)
        check(self.text().startswith(f"HTTP/{version} 200"), f"{name} begins")
        self.hears(shop, "early")

    def text(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def is_open(self):
        return self.process.poll() is None

    def hears(self, shop, word):
        message = {"message": {"token": self.token, "data": {"word": word}}}
        began = time.monotonic()
        status, answer = shop.call("POST", f"{shop.path}/messages:send", message, shop.backend)
        assert status == 200, (status, answer)
        wait(lambda: f'"{word}"' in self.text(), f"{self.name} to bring {word}", LIMIT)
        check(time.monotonic() - began < 5, f"{self.name} brings {word} at once")


def agent_at(port):
    """A user agent that sends no PING itself, with a channel."""
    agent = UserAgent(f"wss://localhost:{port}/push/shop", AUTHORITY)
    agent.connect(ping_interval=None)
    return agent, agent.subscribe()


def push(port, channel, text):
    """A sender's message to a channel, through nginx."""
    data = WebPusher(channel.subscription()).encode(text.encode(), content_encoding="aes128gcm")["body"]
    path = "/push/" + channel.endpoint.partition("/push/")[2]
    status, _, answer = request(port, "POST", path, data, ttl="600", **{"content-encoding": "aes128gcm"})
    check(status == 201, f"a sender's message is answered {status} {answer}")


def bearer_of(shop):
    return {"authorization": shop.backend["authorization"]}


def plain_site(shop, port):
    """What passes a site that has `proxy_pass` and nothing else."""
    send = {"message": {"topic": "news"}}
    path = f"{shop.path}/messages:send"
    bearer = bearer_of(shop)
    check(request(port, "POST", path, send, **bearer)[0] == 200, "a send passes proxy_pass alone")
    body = {"to": "/topics/news", "registration_tokens": [shop.make_device()]}
    status, _, text = request(port, "POST", "/iid/v1:batchAdd", body, access_token_auth="true", **bearer)
    check((status, text) == (401, '{"error":"UNAUTHENTICATED"}'), f"a batch does not: {status} {text}")
    try:
        agent_at(port)
    except InvalidStatus as refused:
        check(refused.response.status_code == 426, f"a WebSocket does not: {refused}")
    else:
        check(False, "a WebSocket passes proxy_pass alone")


def addresses(shop, port):
    """Bounds hold for the client that nginx names, whatever the client writes."""
    path, key = f"{shop.path}/registrations", {"x-goog-api-key": shop.app["x-goog-api-key"]}
    for _ in range(3):
        check(request(port, "POST", path, {}, "127.0.0.9", **key)[0] == 200, "a registration passes")
    for forged in ({}, {"X-Forwarded-For": "192.0.2.7"}):
        status = request(port, "POST", path, {}, "127.0.0.9", **key, **forged)[0]
        check(status == 429, f"past its bound an address is answered {status} with {forged}")
    check(request(port, "POST", path, {}, "127.0.0.8", **key)[0] == 200, "another address has its own bound")
    check(request(port, "GET", "/metrics")[0] == 404, "the metrics are not public")


def refusals(shop, port):
    """The server's own answers come through, not pages of nginx, and so do names."""
    bearer = bearer_of(shop)
    send = f"{shop.path}/messages:send"
    for status, path, body, word in (
            (413, send, {"message": {"topic": "a", "data": {"k": "x" * 70_000}}}, "INVALID_ARGUMENT"),
            (404, send, {"message": {"token": shop.gone}}, "UNREGISTERED"),
            (404, "/prefix" + send, {}, "<html"),
            (200, send.replace(":", "%3A"), {"message": {"topic": "a"}}, "name")):
        code, _, text = request(port, "POST", path, body, **bearer)
        check(code == status and word in text, f"{status} {word}: {code} {text[:60].strip()}")
    # nginx passes a path on as it came, with what looks like another escape.
    topics = f"{shop.path}/registrations/{shop.make_device()}/topicSubscriptions"
    request(port, "POST", f"{topics}?topic_name=a%252Fb", {}, **bearer)
    code, _, text = request(port, "GET", f"{topics}/a%252Fb", **bearer)
    check(code == 200 and json.loads(text)["topicName"] == "a%2Fb", f"a topic with a percent sign: {text}")


def legacy(exchange):
    """The exchange as `enableLegacyHttpTransport` makes the SDK send it."""
    asked = exchange["request"]
    fields = [["Host", "fcm.googleapis.com"],
              *([name, value] for name, value in asked["headers"] if name[0] != ":")]
    return {**exchange, "request": {**asked, "http": "HTTP/1.1", "headers": fields}}


def recordings(shops, port, direct):
    """Each SDK's requests are answered as without nginx; those of Node over HTTP/2 by nginx, with 400."""
    seen = set()
    for name, recorded in exchanges(RECORDINGS):
        through, refused = Way(port, CERTIFICATES), 0
        for exchange in recorded:
            where = f"{name}, {exchange['what']}"
            if [":scheme", "https:"] in exchange["request"]["headers"]:
                status, text = replay(Way(port, CERTIFICATES), exchange, shops, WORK)
                if status != 400 or "<center>nginx" not in text:
                    raise SystemExit(f"FAIL: {where}: {status} {text}")
                exchange, refused = legacy(exchange), refused + 1
            alone, behind = (replay(way, exchange, shops, WORK) for way in (direct, through))
            if alone[0] != exchange["answer"]["status"] or behind != alone:
                raise SystemExit(f"FAIL: {where}: {alone} without nginx, {behind} behind it")
        seen.add(name.split("-")[0])
        check((refused > 0) == name.startswith("node"),
              f"{name}: {len(recorded)} requests pass, {refused} of them over HTTP/1.1 alone")
    check(seen == {"go", "java", "node", "python"}, f"recordings of {sorted(seen)}")


def without_http2(port):
    """A client that offers HTTP/2 alone, as the Node SDK does, has no connection."""
    try:
        Way(port, CERTIFICATES).connect("h2").close()
    except ssl.SSLError as error:
        check("ALPN" in str(error).upper() or "PROTOCOL" in str(error).upper(), f"no HTTP/2: {error}")
    else:
        check(False, "a client of HTTP/2 passes a front of HTTP/1.1")


def cut(streams, agent, began):
    """The site that does not wait long enough: what is silent there does end."""
    for stream in streams:
        wait(lambda stream=stream: not stream.is_open(), f"{stream.name} to end", SILENCE + SHORT + 5)
        check(True, f"at a site that waits {SHORT} s {stream.name} ends")
    try:
        agent.hear(SHORT)
        check(False, "a user agent hears something")
    except ConnectionClosed:
        check(time.monotonic() - began < SILENCE + SHORT + 5, "and so does a user agent's connection")


def alive(shop, streams, agent, channel, port):
    """What was silent is there."""
    for stream in streams:
        check(stream.is_open(), f"{stream.name} is open")
        count = stream.text().count(": keep-alive")
        check(count >= DEFAULT // SILENCE, f"{stream.name} has had {count} comments")
        stream.hears(shop, "late")
    push(port, channel, "late")
    one, text = agent.notification()
    check(text == b"late", "a user agent has its connection")
    agent.acknowledge(one)


def drain(server, streams):
    """A server that ends says so to each stream."""
    server.end()
    for stream in streams:
        wait(lambda stream=stream: not stream.is_open(), f"{stream.name} to end", LIMIT)
        check(stream.process.returncode == 0 and "event: reconnect" in stream.text().rpartition("late")[2],
              f"{stream.name} ends in order")


def main():
    make_certificates(CERTIFICATES, "--name", "localhost", "fcm.googleapis.com")
    secure = free_port()
    server = Server(WORK, *tls_words(secure, CERTIFICATES), "--proxy", "127.0.0.1",
                    "--address-registrations-per-minute", "3")
    server.start()
    nginx = Nginx(WORK, server.port, CERTIFICATES)
    site, plain = nginx.site(), nginx.site(lines="proxy_pass http://127.0.0.1:8787;")
    short, old = nginx.site(more=f"proxy_read_timeout {SHORT}s;"), nginx.site(version="")
    try:
        server.wait_ready()
        shops = {name: Shop(server, name) for name in ("shop", "other")}
        shop = shops["shop"]
        shop.gone = shop.make_device()
        shop.call("DELETE", f"{shop.path}/registrations/{shop.gone}", None, shop.backend)
        server.command("project", "push", "serve", "shop", "--origin", f"https://localhost:{site}")
        nginx.start()
        streams = {name: [Stream(shop, port, version, f"{name}-{version}") for version in ("1.1", "2")]
                   for name, port in (("site", site), ("plain", plain), ("short", short))}
        agent, channel = agent_at(site)
        impatient, _ = agent_at(short)
        began = time.monotonic()
        plain_site(shop, plain)
        addresses(shop, site)
        refusals(shop, site)
        without_http2(old)
        recordings(shops, site, Way(secure, CERTIFICATES))
        cut(streams["short"], impatient, began)
        time.sleep(max(0.0, began + DEFAULT + SILENCE / 4 - time.monotonic()))
        print(f"after {time.monotonic() - began:.0f} s:")
        silent = streams["site"] + streams["plain"]
        alive(shop, silent, agent, channel, site)
        drain(server, silent)
    finally:
        nginx.end()
        server.kill()


main()
