"""Clients of a server behind the balancer of the compose files: see balancer.sh."""
import http.client
import json
import os
import signal
import socket
import ssl
import struct
import sys
import threading
import time

import h2.config
import h2.connection
import h2.events
from websockets.sync.client import connect

from system.haproxy import HAProxy

WORK, SERVER = os.environ["WORK"], int(os.environ["SERVER"])
PORT, BALANCER, TLS, HEALTH, PROBE = (
    int(os.environ[name]) for name in ("PORT", "BALANCER", "TLS", "HEALTH", "PROBE"))
LIMIT = 30
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
CONTEXT = ssl.create_default_context(cafile=os.path.join(WORK, "edge/ca.pem"))


def check(condition, what):
    if not condition:
        sys.exit(f"FAIL: {what}")


def wait(condition, what):
    end = time.monotonic() + LIMIT
    while not condition():
        check(time.monotonic() < end, f"{what} within {LIMIT} s")
        time.sleep(0.05)


def request(method, path, body=None, source="127.0.0.5", port=None, tls=True, **headers):
    """Status and JSON of a request over HTTP/1.1; status 0 where there was no answer."""
    where = {"host": "localhost", "port": port or BALANCER, "timeout": 10,
             "source_address": (source, 0)}
    link = (http.client.HTTPSConnection(context=CONTEXT, **where) if tls
            else http.client.HTTPConnection(**where))
    try:
        link.request(method, path, None if body is None else json.dumps(body),
                     {"Authorization": "Bearer owner", **headers})
        answer = link.getresponse()
        text = answer.read()
    except OSError:
        return 0, None
    except http.client.HTTPException:
        return 0, None
    finally:
        link.close()
    try:
        return answer.status, json.loads(text)
    except ValueError:
        return answer.status, text.decode()


def send(name, to):
    status, answer = request("POST", "/v1/projects/demo/messages:send",
                             {"message": {**to, "data": {"name": name}}})
    check(status == 200, f"a send was answered {status}: {answer}")


class HTTP2:
    """A connection over HTTP/2 that writes what Google's SDK for Node does: its scheme, and its authority
    with a port."""

    def __init__(self):
        CONTEXT.set_alpn_protocols(["h2"])
        self.socket = CONTEXT.wrap_socket(socket.create_connection(("127.0.0.1", BALANCER), LIMIT),
                                          server_hostname="localhost")
        check(self.socket.selected_alpn_protocol() == "h2", "the server does not offer HTTP/2")
        CONTEXT.set_alpn_protocols(["http/1.1"])
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False))
        self.h2.initiate_connection()
        self.socket.sendall(self.h2.data_to_send())

    def events(self):
        self.socket.settimeout(LIMIT)
        data = self.socket.recv(65536)
        found = self.h2.receive_data(data) if data else [None]
        self.socket.sendall(self.h2.data_to_send())
        return found

    def post(self, path, body):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [
            (":path", path), (":method", "POST"), (":scheme", "https:"),
            (":authority", "fcm.googleapis.com:443"), ("authorization", "Bearer owner"),
            ("access_token_auth", "true"), ("content-type", "application/json;charset=utf-8")])
        self.h2.send_data(stream, json.dumps(body).encode(), end_stream=True)
        self.socket.sendall(self.h2.data_to_send())
        status = None
        while True:
            for event in self.events():
                check(event is not None, f"the connection ended before the answer to {path}")
                check(not isinstance(event, h2.events.StreamReset), f"{path} was reset")
                if isinstance(event, h2.events.ResponseReceived):
                    status = int(dict(event.headers)[":status"])
                if isinstance(event, h2.events.StreamEnded):
                    return status


class Stream:
    """A device's event stream over HTTP/1.1, which begins again by itself."""

    def __init__(self, device):
        self.path = f"/v1/projects/demo/registrations/{device['token']}:listen"
        self.credential, self.text, self.opened, self.cut = device["credential"], "", 0, 0
        threading.Thread(target=self.run, daemon=True).start()
        wait(lambda: self.opened, "the stream does not begin")

    def run(self):
        while True:
            link = http.client.HTTPSConnection("localhost", BALANCER, context=CONTEXT, timeout=LIMIT)
            try:
                link.request("GET", self.path, headers={"Authorization": f"Bearer {self.credential}"})
                answer = link.getresponse()
                self.opened += answer.status == 200
                while line := answer.readline():
                    self.text += line.decode()
                self.cut += answer.status == 200
            except TimeoutError:
                pass
            except (OSError, http.client.HTTPException):
                pass
            link.close()
            time.sleep(0.1)

    def hears(self, name):
        wait(lambda: f'"{name}"' in self.text, f"the stream does not bring {name}")


def metric(name):
    link = http.client.HTTPConnection("127.0.0.1", PROBE, timeout=LIMIT)
    link.request("GET", "/metrics")
    text = link.getresponse().read().decode()
    link.close()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " "))


def transports(device):
    link = HTTP2()
    check(link.post("/iid/v1:batchAdd",
                    {"to": "/topics/news", "registration_tokens": [device["token"]]}) == 200,
          "a subscription over HTTP/2 does not pass")
    stream = Stream(device)
    check(link.post("/v1/projects/demo/messages:send",
                    {"message": {"topic": "news", "data": {"name": "over-two"}}}) == 200,
          "a send over HTTP/2 does not pass")
    stream.hears("over-two")
    send("over-one", {"topic": "news"})
    stream.hears("over-one")
    with connect(f"wss://localhost:{BALANCER}/push/demo", ssl=CONTEXT, open_timeout=LIMIT) as agent:
        agent.send(json.dumps({"messageType": "hello", "use_webpush": True, "uaid": ""}))
        answer = json.loads(agent.recv(LIMIT))
        check(answer["status"] == 200, f"the user agent hears {answer}")
    print("ok: HTTP/2, HTTP/1.1, an event stream and a WebSocket")
    return stream


def addresses():
    """Bounds hold for the client that the balancer names, whatever the client writes."""
    path = "/v1/projects/demo/registrations"
    for _ in range(3):
        check(request("POST", path, {}, "127.0.0.9", Authorization="")[0] == 200, "a registration is refused")
    for forged in ({}, {"X-Forwarded-For": "192.0.2.7"}):
        status = request("POST", path, {}, "127.0.0.9", Authorization="", **forged)[0]
        check(status == 429, f"past its bound an address is answered {status} with {forged}")
    check(request("POST", path, {}, "127.0.0.8", Authorization="")[0] == 200, "another address is refused")
    check(request("GET", "/metrics")[0] == 404, "the metrics are public")
    print("ok: the client's own address")


def malformed():
    addresses_of_tcp = socket.inet_aton("192.0.2.1") * 2 + struct.pack(">HH", 1, 2)
    good = SIGNATURE + b"\x21\x11" + struct.pack(">H", 12) + addresses_of_tcp
    bad = [SIGNATURE + b"\x31\x11\x00\x0c" + addresses_of_tcp, SIGNATURE + b"\x21\x11\xff\xff",
           SIGNATURE + b"\x21\x99\x00\x00", good[:14] + b"\x00\x04" + b"abcd"]
    former, count = metric("tidecast_proxy_headers_refused_total"), 0
    for port in (TLS, PORT):
        for source, header in [*(("127.0.0.1", one) for one in bad), ("127.0.0.2", good)]:
            with socket.create_connection(("127.0.0.1", port), LIMIT, (source, 0)) as link:
                link.sendall(header)
                try:
                    check(link.recv(1) == b"", "a malformed header is answered")
                except ConnectionResetError:
                    pass
            count += 1
    check(metric("tidecast_proxy_headers_refused_total") == former + count, "not each header is counted")
    # The same from the balancer's address is one of its clients.
    with socket.create_connection(("127.0.0.1", PORT), LIMIT) as link:
        link.sendall(good + b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        check(link.recv(12) == b"HTTP/1.1 200", "a good header is refused")
    # A client without an address is one of the balancer's all the same.
    with socket.create_connection(("127.0.0.1", PORT), LIMIT) as link:
        link.sendall(SIGNATURE + b"\x21\x00\0\0GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")
        check(link.recv(12) == b"HTTP/1.1 404", "a client without an address reads the metrics")
    print("ok: malformed headers, and headers of strangers")


def without_answer(begin, stream, what):
    """Runs `begin`; says for how long there was no answer, and until when the stream was back."""
    opened, since = stream.opened, time.monotonic()
    begin()
    last = longest = 0
    back = None
    while back is None or time.monotonic() < since + 3:
        check(time.monotonic() < since + LIMIT, f"after {what} the stream does not come back")
        if request("GET", "/healthz")[0] == 200:
            now = time.monotonic() - since
            longest, last = max(longest, now - last), now
        if back is None and stream.opened > opened:
            back = time.monotonic() - since
        time.sleep(0.02)
    send(what, {"topic": "news"})
    stream.hears(what)
    print(f"ok: {what}: {longest:.1f} s without an answer, the stream is back after {back:.1f} s")


def frozen(stream):
    """The balancer ends the connections of a server that does not answer, long before a client notices."""
    opened, cut = stream.opened, stream.cut
    os.kill(SERVER, signal.SIGSTOP)
    try:
        wait(lambda: stream.cut > cut, "the stream of a frozen server does not end")
    finally:
        os.kill(SERVER, signal.SIGCONT)
    wait(lambda: stream.opened > opened, "the stream does not come back")
    send("after-the-frost", {"topic": "news"})
    stream.hears("after-the-frost")
    print("ok: a frozen server loses its connections")


def main():
    balancer = HAProxy(WORK, PROBE, TLS, port=BALANCER, health=HEALTH)
    balancer.start()
    try:
        CONTEXT.set_alpn_protocols(["http/1.1"])
        device = request("POST", "/v1/projects/demo/registrations", {}, Authorization="")[1]
        stream = transports(device)
        addresses()
        malformed()
        without_answer(lambda: balancer.process.send_signal(signal.SIGUSR2), stream, "a-reload")

        def restart():
            balancer.end(signal.SIGUSR1)
            balancer.start()
        without_answer(restart, stream, "a-restart")
        frozen(stream)
        link = HTTP2()
        link.post("/iid/v1:batchAdd", {"to": "/topics/news", "registration_tokens": [device["token"]]})
        os.kill(SERVER, signal.SIGTERM)
        events = []
        while None not in events:
            events += link.events()
        check(any(isinstance(event, h2.events.ConnectionTerminated) for event in events),
              f"a server that ends says no GOAWAY: {events}")
        print("ok: GOAWAY of a server that ends")
    finally:
        balancer.end(signal.SIGTERM)


main()
