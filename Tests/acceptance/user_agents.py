"""A project as a push service for user agents and UnifiedPush senders: see user_agents.sh."""
import json
import os
import signal
import socket
import time

import requests
from cryptography.hazmat.primitives import serialization
from py_vapid import Vapid02
from pywebpush import WebPusher
from user_agents_attacks import floods, without_handshake
from websockets.exceptions import ConnectionClosed, InvalidStatus

from system.checks import check, wait
from system.node import making, start
from system.ports import free_port
from system.process import Server, make_certificates, tls_words
from system.shop import Project
from system.useragent import UserAgent, text_of

MESSAGES = 60
# Messages of 4 KB, more than the server's queue and the kernel hold for one connection.
LARGE = 150
BACK_OFF = 4774


class Sender:
    """The server of a page or of an app, with a key of its own (RFC 8292)."""

    def __init__(self):
        self.vapid = Vapid02()
        self.vapid.generate_keys()
        self.key = self.vapid.public_key.public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)

    def token(self, endpoint, **claims):
        """The field of a signed message."""
        origin = endpoint.partition("/push/")[0]
        return self.vapid.sign({"sub": "mailto:a@example.com", "aud": origin, **claims})


def body(channel, text):
    """An encrypted message."""
    return WebPusher(channel.subscription()).encode(text.encode(), content_encoding="aes128gcm")["body"]


def post(channel, data, headers=None, *, ttl="600", coding="aes128gcm"):
    """The answer to a POST."""
    fields = {"ttl": ttl, "content-encoding": coding, **(headers or {})}
    return requests.post(channel.endpoint, data=data, timeout=30,
                         headers={name: value for name, value in fields.items() if value is not None})


def send(channel, text, **more):
    """Sends an encrypted message that must be accepted."""
    answer = post(channel, body(channel, text), **more)
    assert answer.status_code == 201, (answer.status_code, answer.text)
    return answer


def count(server, outcome):
    """How many messages had this outcome."""
    return server.metrics()[f'tidecast_user_agent_messages_total{{outcome="{outcome}"}}']


def waiting(server, project):
    """How many messages wait for the devices of a project."""
    status, answer = server.call("GET", f"/v1/projects/{project.name}/registrations", headers=project.backend)
    assert status == 200, answer
    return sum(one["waitingCount"] for one in json.loads(answer)["registrations"])


def rules(agent):
    """How senders are answered."""
    channel = agent.subscribe()
    answer = send(channel, "rules")
    check(answer.headers["ttl"] == "600" and "/push/v1/messages/" in answer.headers["location"]
          and answer.headers["access-control-allow-origin"] == "*",
          "a message is answered 201, with its place, its time to live and open to pages")
    one, text = agent.notification()
    check(text == b"rules" and one["channelID"] == channel.name, "the user agent opens the message")
    agent.acknowledge(one)
    check(post(channel, b"x" * 4096).status_code == 201, "4,096 bytes are taken")
    agent.acknowledge(agent.waiting.pop() if agent.waiting else agent.hear())
    for status, words, arguments in (
            (413, "4,097 bytes", {"data": b"x" * 4097}), (413, "a megabyte", {"data": b"x" * (1 << 20)}),
            (400, "no TTL", {"data": b"x", "ttl": None}),
            (400, "a bad Topic", {"data": b"x", "headers": {"topic": "a b"}}),
            (400, "no content encoding", {"data": b"x", "coding": None}),
            (415, "another content encoding", {"data": b"x", "coding": "br"}),
            (400, "the draft's encoding without its fields", {"data": b"x", "coding": "aesgcm"})):
        check(post(channel, **arguments).status_code == status, f"{words}: {status}")
    former = WebPusher(channel.subscription()).encode(b"by the draft", content_encoding="aesgcm")
    fields = {"encryption": f"salt={former['salt'].decode()}",
              "crypto-key": f"dh={former['crypto_key'].decode()}"}
    answer = post(channel, former["body"], fields, coding="aesgcm")
    check(answer.status_code == 201, "the draft's encoding is taken")
    one, text = agent.notification()
    check(text == b"by the draft", "the user agent opens a message of the draft's encoding")
    agent.acknowledge(one)
    answer = requests.get(channel.endpoint, timeout=20)
    check(answer.json() == {"unifiedpush": {"version": 1}}, "the endpoint says that it is one of UnifiedPush")
    channel.endpoint, genuine = channel.endpoint[:-1], channel.endpoint
    check(post(channel, b"x").status_code == 404, "an endpoint that nobody made: 404")
    channel.endpoint = genuine
    check(agent.unsubscribe(channel) == 200 and post(channel, b"x").status_code == 410,
          "a subscription that has ended: 410, at once")


def signed(agent):
    """A subscription that only one sender may use."""
    sender, other = Sender(), Sender()
    channel = agent.subscribe(sender.key)
    data = body(channel, "signed")
    check(post(channel, data).status_code == 401, "without a signature: 401")
    check(post(channel, data, other.token(channel.endpoint)).status_code == 403, "another sender: 403")
    for words, claims in (("another audience", {"aud": "https://elsewhere.example"}),
                          ("a token of two days", {"exp": int(time.time()) + 2 * 86_400}),
                          ("a token that has ended", {"exp": int(time.time()) - 120})):
        token = sender.token(channel.endpoint, **claims)
        check(post(channel, data, token).status_code == 403, f"{words}: 403")
    check(post(channel, data, sender.token(channel.endpoint)).status_code == 201, "the sender itself: 201")
    one, text = agent.notification()
    check(text == b"signed", "the message of the right sender comes")
    agent.acknowledge(one)


def away(server, project, agent):
    """What comes while the user agent is away: Topic, time to live, order."""
    channel = agent.subscribe()
    wait(lambda: waiting(server, project) == 0, "all former messages to be acknowledged")
    agent.close()
    wait(lambda: server.metrics()["tidecast_user_agents"] == 0, "the server to notice that it is away")
    send(channel, "now or never", ttl="0")
    for text in ("first score", "second score"):
        send(channel, text, headers={"topic": "score"})
    send(channel, "last")
    uaid = agent.uaid
    agent.connect()
    check(agent.uaid == uaid, "a user agent that comes back keeps its uaid")
    got = [agent.notification() for _ in range(2)]
    check([text for _, text in got] == [b"second score", b"last"],
          "a Topic replaces what waits, and TTL 0 does not wait")
    send(channel, "now", ttl="0")
    one, text = agent.notification()
    check(text == b"now", "TTL 0 reaches a user agent that is connected")
    agent.acknowledge(*[one for one, _ in got], one)


def shares(server, project, agent):
    """A site that sends too much to a user agent that is away loses its own messages."""
    quiet, loud = agent.subscribe(), agent.subscribe()
    wait(lambda: waiting(server, project) == 0, "all former messages to be acknowledged")
    agent.close()
    wait(lambda: server.metrics()["tidecast_user_agents"] == 0, "the server to notice that it is away")
    send(quiet, "quiet")
    for number in range(100):
        send(loud, f"loud {number}")
    check(waiting(server, project) == 2, "past 100 messages the subscription with most loses its own")
    agent.connect()
    got = [agent.notification() for _ in range(2)]
    check([text for _, text in got] == [b"quiet", b"loud 99"], "and the other site's message comes")
    agent.acknowledge(*[one for one, _ in got])


def killed(server, project, agent):
    """kill -9 with messages that are acknowledged, delivered, and neither."""
    channel = agent.subscribe()
    wait(lambda: waiting(server, project) == 0, "all former messages to be acknowledged")
    for number in range(MESSAGES):
        send(channel, f"message {number}")
    got = [agent.notification() for _ in range(MESSAGES)]
    check([text.decode() for _, text in got] == [f"message {number}" for number in range(MESSAGES)],
          "messages come in their order")
    third = MESSAGES // 3
    # Backwards: the session keeps what the log cannot hear of yet.
    for one, _ in reversed(got[:third]):
        agent.acknowledge(one)
    # Beyond the first gap an acknowledgement is not durable.
    wait(lambda: waiting(server, project) == MESSAGES - third, "the acknowledgements to be durable")
    server.end(signal.SIGKILL)
    server.start()
    server.wait_ready()
    send(channel, "after the kill")
    agent.connect()
    again = [agent.notification() for _ in range(MESSAGES - third + 1)]
    texts = [text.decode() for _, text in again]
    check(texts == [f"message {number}" for number in range(third, MESSAGES)] + ["after the kill"],
          "after kill -9 nothing acknowledged comes again, and nothing is missing")
    check({one["version"] for one, _ in again[:-1]} == {one["version"] for one, _ in got[third:]},
          "what comes again has its former version, so a browser knows it")
    agent.acknowledge(*[one for one, _ in again])
    wait(lambda: waiting(server, project) == 0, "all to be acknowledged")
    agent.close()
    agent.connect()
    send(channel, "only this")
    one, text = agent.notification()
    check(text == b"only this", "and nothing of it comes again later")
    agent.acknowledge(one)


def codes(server, agent):
    """What the user agent did with its messages is counted."""
    channel = agent.subscribe()
    outcomes = ("delivered", "undecipherable", "undelivered")
    before = {outcome: count(server, outcome) for outcome in outcomes}
    for code in (100, 101, 102):
        send(channel, "coded")
        one = agent.notification()[0]
        agent.acknowledge(one, code=code)
    wait(lambda: all(count(server, outcome) == former + 1 for outcome, former in before.items()),
         "each code to be counted")
    check(True, "codes 100, 101 and 102 are counted")


def slow(server, agent):
    """A user agent that does not read for a while misses nothing."""
    slow_one = UserAgent(agent.url)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect((server.host, server.port))
    slow_one.connect(sock=plain, max_queue=1)
    channel = slow_one.subscribe()
    for number in range(LARGE):
        send(channel, f"{number}:".ljust(3900, "."))
    behind = server.metrics()['tidecast_deliveries_total{outcome="behind"}']
    check(behind > 0, "its connection has fallen behind")
    for number in range(LARGE):
        one, text = slow_one.notification()
        assert text.startswith(f"{number}:".encode()), (number, text[:20])
        slow_one.acknowledge(one)
    check(True, f"{LARGE} long messages come in their order to a user agent that read none of them at first")
    slow_one.close()


def closes(server, agent):
    """How the server ends connections."""
    twin = UserAgent(agent.url)
    twin.uaid = agent.uaid
    twin.connect()
    check(code_of(agent) == BACK_OFF, "a second connection with the uaid ends the first one")
    twin.say()
    check(twin.hear() == {}, "a ping is answered")
    twin.say()
    check(code_of(twin) == BACK_OFF, "a second ping within 45 s ends the connection")
    nobody = UserAgent(agent.url)
    nobody.uaid = text_of(b"\x00" * 33)
    nobody.connect()
    check(nobody.uaid != text_of(b"\x00" * 33), "an unknown uaid becomes another one")
    nobody.socket.send("{")
    check(code_of(nobody) == 1002, "a message that is no JSON ends the connection")
    try:
        UserAgent(agent.url + "-unknown").connect()
        check(False, "a project that does not exist")
    except InvalidStatus as refused:
        check(refused.response.status_code == 404, "a project that is no push service: 404")


def code_of(agent):
    """The code with which the server closes the connection."""
    try:
        while True:
            agent.hear()
    except ConnectionClosed as closed:
        return closed.rcvd.code


def pipelined(server, project, agent):
    """A client that sends more requests behind its handshake, before it has the answer."""
    made = server.call("POST", f"/v1/projects/{project.name}/registrations", {}, project.backend)
    device = json.loads(made[1])
    host = f"host: {server.host}:{server.port}\r\n"
    key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n"
    listen = (f"GET /v1/projects/{project.name}/registrations/{device['token']}:listen"
              f"?credential={device['credential']} HTTP/1.1\r\n{host}\r\n")
    agents, before = server.metrics()["tidecast_user_agents"], server.metrics()["tidecast_streams"]
    for word, status in (("upgrade", b"101"), ("upgrade\t", b"426"), ("upgrade\t, x", b"426")):
        shake = (f"GET /push/{project.name} HTTP/1.1\r\n{host}upgrade: websocket\r\n"
                 f"connection: {word}\r\n{key}\r\n")
        for behind in (shake * 50, listen * 50):
            for _ in range(5):
                with socket.create_connection((server.host, server.port), timeout=20) as plain:
                    plain.sendall((shake + behind + f"GET /healthz HTTP/1.1\r\n{host}\r\n").encode())
                    answer = plain.recv(65536)
                    assert answer.startswith(b"HTTP/1.1 " + status), (word, answer[:60])
    wait(lambda: server.metrics()["tidecast_user_agents"] == agents, "the sessions to end")
    wait(lambda: server.metrics()["tidecast_streams"] == before, "the streams to end")
    check(True, "requests behind a handshake leave neither sessions nor streams")
    agent.say()
    check(agent.hear() == {}, "and others are connected as before")


def unused(server, project, agent):
    """A user agent that asks for no channel leaves no device behind."""
    def devices():
        answer = server.call("GET", f"/v1/projects/{project.name}/registrations", headers=project.backend)[1]
        return len(json.loads(answer).get("registrations", []))
    before = devices()
    visitor = UserAgent(agent.url)
    visitor.connect()
    check(devices() == before + 1, "a user agent is a device of the project")
    visitor.close()
    wait(lambda: devices() == before, "the device without a channel to end")
    check(True, "a device that no channel needs ends with its connection")


def stops(server, project, agent):
    """The operator switches the service off, and on again."""
    agent.connect()
    channel = agent.subscribe()
    server.command("project", "push", "off", project.name, "serve")
    check(code_of(agent) == 1012, "where the service is switched off, its connections end")
    check(post(channel, b"x").status_code == 503, "and senders are told to come back")
    project.set_push("serve")
    agent.connect()
    send(channel, "on again")
    check(agent.notification()[1] == b"on again", "switched on again, all endpoints are as they were")
    server.command("project", "delete", project.name, "--yes")
    check(code_of(agent) == 1012 and post(channel, b"x").status_code == 410,
          "with the project its subscriptions end")


def over_tls(made):
    """The same over TLS, as user agents connect."""
    folder = os.path.join(made.folder, "tls")
    certificates, secure = os.path.join(folder, "certificates"), free_port()
    make_certificates(certificates, "--name", "localhost")
    server = Server(folder, *tls_words(secure, certificates), name="tls")
    made.nodes.append(server)
    start([server])
    project, origin = Project(server, "push"), f"https://localhost:{secure}"
    authority = os.path.join(certificates, "ca.pem")
    agent = UserAgent(project.set_push("serve", "--origin", origin)["userAgents"], authority)
    agent.connect()
    channel = agent.subscribe()
    answer = requests.post(channel.endpoint, data=body(channel, "over TLS"), timeout=30, verify=authority,
                           headers={"ttl": "60", "content-encoding": "aes128gcm"})
    check(answer.status_code == 201 and agent.notification()[1] == b"over TLS",
          "user agents connect over TLS, and senders post over TLS")


def main():
    with making() as made:
        server = made.server()
        project = Project(server, "push")
        origin = f"http://127.0.0.1:{server.port}"
        agent = UserAgent(project.set_push("serve", "--origin", origin)["userAgents"])
        agent.connect()
        rules(agent)
        without_handshake(server)
        signed(agent)
        codes(server, agent)
        away(server, project, agent)
        shares(server, project, agent)
        killed(server, project, agent)
        unused(server, project, agent)
        pipelined(server, project, agent)
        slow(server, agent)
        closes(server, agent)
        stops(server, project, agent)
        over_tls(made)
        floods(made)
        server.end()


main()
