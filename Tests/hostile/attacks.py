"""The attacks of docs/threat-model.md. Each attack gets the server's ports and the seconds that it may last.
It returns the connections that the server must close, or none where the clients close them."""
import base64
import collections
import itertools
import json
import os
import select
import socket
import ssl
import time

from system import floods, frames

Target = collections.namedtuple("Target", "plain secure")
# How many source addresses a storm has; all of 127.0.0.0/8 belongs to this machine.
SOURCES = 8


def connect(port, source=None):
    one = socket.socket()
    if source:
        one.bind((source, 0))
    one.settimeout(5)
    one.connect(("127.0.0.1", port))
    return one


def post(path, body, *fields):
    lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def send_some(one, piece):
    """Sends as much as the socket takes now. False where the server has closed the connection."""
    try:
        one.setblocking(False)
        one.send(piece)
    except BlockingIOError:
        pass
    except OSError:
        return False
    return True


def pump(port, make, count, seconds, once=False):
    """Keeps `count` connections open. Each sends the pieces of `make()` without end and reads the answers. A
    closed connection is replaced. `once`: each sends one piece, and is reset when the server answers."""
    end, open_now, poll = time.monotonic() + seconds, {}, select.epoll()

    def begin():
        one = connect(port)
        one.setblocking(False)
        open_now[one.fileno()] = [one, b""]
        poll.register(one.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def step(state, events):
        one = state[0]
        if events & ~(select.EPOLLIN | select.EPOLLOUT):
            return False
        if events & select.EPOLLIN and (not one.recv(1 << 18) or once):
            return False
        if events & select.EPOLLOUT:
            state[1] = state[1] or make()
            state[1] = state[1][one.send(state[1]):]
            if once and not state[1]:
                poll.modify(one, select.EPOLLIN)
        return True

    while time.monotonic() < end:
        while len(open_now) < count:
            begin()
        for descriptor, events in poll.poll(0.1):
            state = open_now[descriptor]
            try:
                goes_on = step(state, events)
            except BlockingIOError:
                goes_on = True
            except OSError:
                goes_on = False
            if not goes_on:
                poll.unregister(descriptor)
                closed = open_now.pop(descriptor)[0]
                if once:
                    closed.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                closed.close()
    for one, _ in open_now.values():
        one.close()
    return []


def behind_upgrade(to, seconds,
                   head=b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"):
    """Up to 200 MiB after a request that asks for another protocol."""
    one, sent, end = connect(to.plain), 0, time.monotonic() + seconds
    one.sendall(head)
    one.settimeout(0.5)
    try:
        while sent < 200 << 20 and time.monotonic() < end:
            sent += one.send(b"A" * (1 << 16))
    except OSError:
        pass
    return [one]


def behind_connect(to, seconds):
    """Up to 200 MiB after a CONNECT."""
    return behind_upgrade(to, seconds, b"CONNECT x:80 HTTP/1.1\r\nhost: localhost\r\n\r\n")


def unfinished_bodies(to, seconds):
    """Bodies that are never whole: 100 connections of HTTP/1.1 with one each, 100 of HTTP/2 with 100 each."""
    left = []
    for number in range(200):
        one = connect(to.plain)
        if number % 2:
            one.sendall(post("/v1/projects/p/messages:send", b"", "authorization: Bearer owner")
                        .replace(b"length: 0", b"length: 65000"))
            send_some(one, b"{" * 60000)
        else:
            fields = frames.request("POST", "/v1/projects/p/messages:send",
                                    extra=[("authorization", "Bearer owner")])
            one.sendall(floods.PREFACE)
            for stream in range(1, 200, 2):
                piece = frames.headers(stream, fields, frames.EH) + frames.frame(frames.DATA, 0, stream,
                                                                                 b"{" * 4000)
                if not send_some(one, piece):
                    break
        left.append(one)
    time.sleep(seconds / 2)
    return left


def closed_windows(to, seconds):
    """50 connections with 100 answers each, which the client's window of 0 holds back."""
    left = []
    for _ in range(50):
        one = connect(to.plain)
        one.sendall(frames.MAGIC + frames.settings((4, 0)))
        for stream in range(1, 200, 2):
            one.sendall(frames.headers(stream, frames.request(path="/metrics")))
        left.append(one)
    time.sleep(seconds / 2)
    return left


def indexed_fields(to, seconds):
    """60 connections of 250 requests with bodies that are never whole; 3 bytes stand for 12 KB of fields of
    each."""
    left, named = [], frames.integer(62, 7, 0x80) * 3
    for _ in range(60):
        one = connect(to.plain)
        # This puts a field into the HPACK table that the server keeps for the client.
        first = frames.integer(0, 6, 0x40) + frames.string(b"x") + frames.string(b"y" * 3900)
        pieces = [frames.MAGIC + frames.settings(), frames.headers(1, frames.request() + first)]
        for stream in range(3, 503, 2):
            path = "/v1/projects/p/registrations"
            pieces.append(frames.headers(stream, frames.request("POST", path) + named, frames.EH))
        try:
            one.sendall(b"".join(pieces))
        except OSError:
            pass
        left.append(one)
    time.sleep(seconds / 2)
    return left


def waiting_fields(to, seconds):
    """3,000 connections of HTTP/1.1 from 8 addresses with 10 KB of fields and a body that never comes."""
    left, fields = [], [f"x-{number}: {'y' * 90}" for number in range(90)]
    piece = post("/v1/projects/p/registrations", b"", *fields).replace(b"length: 0", b"length: 4096")
    for number in range(3000):
        one = connect(to.plain, f"127.0.0.{2 + number % SOURCES}")
        send_some(one, piece)
        left.append(one)
    time.sleep(seconds / 2)
    return left


def unread_streams(to, seconds):
    """100 connections of HTTP/2 with wide windows that ask for 200 answers and read nothing."""
    left, end = [], time.monotonic() + seconds
    for _ in range(100):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(5)
        one.connect(("127.0.0.1", to.plain))
        asks = [frames.headers(stream, frames.request(path="/metrics")) for stream in range(1, 401, 2)]
        send_some(one,
                  frames.MAGIC + frames.settings((4, 1 << 30)) + frames.window(0, 1 << 30) + b"".join(asks))
        left.append(one)
    time.sleep(max(0, end - time.monotonic()))
    return left


def unread_answers(to, seconds):
    """100 connections that send requests without end and read nothing."""
    left, end = [connect(to.plain) for _ in range(100)], time.monotonic() + seconds
    asks = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n" * 100
    while time.monotonic() < end:
        for one in left:
            send_some(one, asks)
        time.sleep(0.05)
    return left


def silence(to, seconds):
    """1,000 connections that send nothing, half of them on the port with TLS."""
    left = [connect(to.secure if number % 2 else to.plain) for number in range(1000)]
    time.sleep(seconds / 2)
    return left


def slow_headers(to, seconds):
    """Single bytes with pauses, of each kind in floods.py."""
    left, end = [], time.monotonic() + seconds
    for piece, kind in floods.PIECES.values():
        for _ in range(20):
            one = connect(to.secure if kind == "tls" else to.plain)
            if kind == "kept":
                one.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                one.recv(65536)
            left.append([one, piece])
    for place in itertools.count():
        for one, piece in left:
            send_some(one, piece[place:place + 1])
        if time.monotonic() > end:
            return [one for one, _ in left]
        time.sleep(0.2)


def storm(to, seconds, count=15_000):
    """15,000 connections at the same time, as far as the server accepts them; some send a request."""
    kept, said = [], [b"", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
                      floods.PREFACE + frames.headers(1), b"PRI"]
    for number in range(count):
        one = socket.socket()
        one.bind((f"127.0.0.{2 + number % SOURCES}", 0))
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", to.secure if number % 10 == 9 else to.plain))
        kept.append((one, said[number % 4]))
        if number % 100 == 99:
            time.sleep(0.01)
    for one, piece in kept:
        send_some(one, piece)
    time.sleep(seconds / 2)
    for one, _ in kept:
        one.close()
    return []


def storm_again(to, seconds):
    """The same storm at a server that has seen one: half a minute later memory is back within a tenth."""
    return storm(to, seconds)


def short_storm(to, seconds):
    """A storm of 2,000 connections."""
    return storm(to, seconds, 2000)


def rounds(to, seconds, makes):
    """One flood after the other, each until the server closes its connection."""
    end = time.monotonic() + seconds
    for make in itertools.cycle(makes):
        if time.monotonic() > end:
            return []
        if not floods.ends(("127.0.0.1", to.plain), make()):
            raise SystemExit("a flood was not closed")


def frame_floods(to, seconds):
    """All floods of floods.py in turn."""
    return rounds(to, seconds, list(floods.FLOODS.values()))


def rapid_reset(to, seconds):
    """Requests that the client resets at once, and requests that make the server reset."""
    return rounds(to, seconds, [floods.FLOODS["rapid reset"], floods.FLOODS["MadeYouReset"]])


def hpack_bombs(to, seconds):
    """One field of 4,000 bytes in the table, and header blocks that name it 4,000 times."""
    def pieces():
        bomb = frames.integer(0, 6, 0x40) + frames.string(b"x") + frames.string(b"y" * 4000)
        yield frames.headers(1, frames.request() + bomb)
        for stream in range(3, 4000, 2):
            yield frames.headers(stream, frames.request() + frames.integer(62, 7, 0x80) * 4000)
    return rounds(to, seconds, [pieces])


def large_forms(to, seconds):
    """Forms of 23 KB with 3,000 fields, and JSON with 5,000 names, from a client without a key."""
    form = post("/token", b"&".join(b"a%d=b" % number for number in range(3000))[:32000],
                "content-type: application/x-www-form-urlencoded")
    names = post("/v1/projects/p/messages:send",
                 json.dumps({f"k{number}": 1 for number in range(5000)}).encode()[:64000])
    pieces = itertools.cycle([form, names])
    return pump(to.plain, lambda: next(pieces), 8, seconds)


def bad_assertions(to, seconds):
    """Assertions with a signature of the right size and a wrong value."""
    def part(value):
        return base64.urlsafe_b64encode(value).rstrip(b"=")
    claims = {"iss": "a@p", "aud": "http://localhost/token", "iat": int(time.time()),
              "exp": int(time.time()) + 3000}
    token = b".".join([part(b'{"alg":"RS256","typ":"JWT","kid":"k"}'), part(json.dumps(claims).encode()),
                       part(b"\x07" * 256)])
    body = b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=" + token
    piece = post("/token", body, "content-type: application/x-www-form-urlencoded")
    return pump(to.plain, lambda: piece, 16, seconds)


def scrapes(to, seconds):
    """250 connections that ask for /metrics, each again as soon as it is answered."""
    return pump(to.plain, lambda: b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n", 250, seconds)


def garbage(to, seconds):
    """Random bytes on the port with TLS."""
    junk = os.urandom(4096)
    return pump(to.secure, lambda: junk, 16, seconds)


def handshakes(to, seconds):
    """TLS handshakes on 32 connections at a time, each cut off with a reset when the server has answered the
    client's hello, which costs the server its signature and the client nothing."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = outgoing.read()
    return pump(to.secure, lambda: hello, 32, seconds, once=True)


def registrations(to, seconds):
    """Registrations without end."""
    piece = post("/v1/projects/flood/registrations", b"{}", "authorization: Bearer owner")
    return pump(to.plain, lambda: piece, 8, seconds)


def over_quota(to, seconds):
    """Sends of one project without end."""
    body = json.dumps({"message": {"topic": "news", "data": {"a": "b" * 100}}}).encode()
    piece = post("/v1/projects/flood/messages:send", body, "authorization: Bearer owner")
    return pump(to.plain, lambda: piece * 8, 16, seconds)


def large_bodies(to, seconds):
    """Sends of one project, with JSON of 4,600 names."""
    body = json.dumps({"message": {"topic": "news",
                                   "data": {f"k{number}": "" for number in range(4600)}}}).encode()
    assert len(body) < 64 << 10
    piece = post("/v1/projects/flood/messages:send", body, "authorization: Bearer owner")
    return pump(to.plain, lambda: piece, 8, seconds)


def restless_device(to, seconds):
    """One device that opens one listening connection after the other."""
    with connect(to.plain) as one:
        one.sendall(post("/v1/projects/flood/registrations", b"{}", "authorization: Bearer owner",
                         "connection: close"))
        said = b""
        while piece := one.recv(65536):
            said += piece
    made = json.loads(said.split(b"\r\n\r\n", 1)[1])
    if "token" not in made:
        return []
    ask = (f"GET /v1/projects/flood/registrations/{made['token'].split(':')[0]}:listen HTTP/1.1\r\nhost:"
           " localhost\r\n"
           f"authorization: Bearer {made['credential']}\r\n\r\n").encode()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with connect(to.plain) as one:
            one.sendall(ask)
            one.recv(200)
    return []


ATTACKS = {
    "upgrade": behind_upgrade, "connect": behind_connect, "bodies": unfinished_bodies,
    "windows": closed_windows,
    "fields": indexed_fields, "heads": waiting_fields, "unread": unread_answers,
    "streams": unread_streams, "silent": silence,
    "slow": slow_headers, "storm": storm, "storm_again": storm_again, "floods": frame_floods,
    "resets": rapid_reset, "hpack": hpack_bombs, "forms": large_forms, "assertions": bad_assertions,
    "scrapes": scrapes,
    "garbage": garbage, "handshakes": handshakes, "registrations": registrations, "quota": over_quota,
    "large": large_bodies, "device": restless_device,
}
