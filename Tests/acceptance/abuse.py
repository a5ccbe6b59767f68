"""Hostile HTTP/2 clients against a real server: each is closed, and an honest client is served all the while."""
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

from ports import free_port

TIDECAST, WORK = sys.argv[1:3]
PORT = free_port()
UNPRIVILEGED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/unprivileged")
with open(f"{WORK}/log", "wb") as log:
    server = subprocess.Popen(
        [UNPRIVILEGED, TIDECAST, "server", "--dev", "--data", f"{WORK}/data", "--listen", f"127.0.0.1:{PORT}"],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
failures = []


def honest():
    return urllib.request.urlopen(f"http://127.0.0.1:{PORT}/healthz", timeout=5).read() == b"ok\n"


for _ in range(200):
    try:
        if honest():
            break
    except OSError:
        time.sleep(0.05)


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4)
# :method POST, :scheme http, :path /, in HPACK's static table.
HEADERS = bytes([0x83, 0x86, 0x84])


def literal(name, value):
    def string(text):
        if len(text) < 127:
            return bytes([len(text)]) + text
        rest, out = len(text) - 127, [127]
        while rest >= 128:
            out.append(rest % 128 + 128)
            rest //= 128
        return bytes(out + [rest]) + text

    return b"\x00" + string(name) + string(value)


def is_closed(name, pieces):
    """Sends pieces, reading what comes, until the server closes; a server that goes on taking them fails."""
    with socket.create_connection(("127.0.0.1", PORT), timeout=5) as connection:
        connection.sendall(PREFACE)
        closed = False
        try:
            connection.settimeout(0.001)
            for piece in pieces:
                connection.settimeout(5)
                connection.sendall(piece)
                connection.settimeout(0.0005)
                try:
                    if connection.recv(65536) == b"":
                        closed = True
                        break
                except TimeoutError:
                    pass
            connection.settimeout(5)
            while not closed:
                if connection.recv(65536) == b"":
                    closed = True
        except TimeoutError:
            pass
        except OSError:
            closed = True
    if not closed:
        failures.append(f"{name}: the connection stayed open")
    if not honest():
        failures.append(f"{name}: an honest client was not served")
    print(("ok   " if closed else "FAIL ") + name)


def streams(count, make):
    return (make(1 + 2 * i) for i in range(count))


is_closed("PING flood", (frame(6, payload=b"12345678") * 50 for _ in range(40)))
is_closed("SETTINGS flood", (frame(4) * 50 for _ in range(40)))
is_closed("PRIORITY flood", (frame(2, stream=1, payload=b"\0\0\0\0\x10") * 100 for _ in range(40)))
is_closed("empty DATA flood", [frame(1, 4, 1, HEADERS)] + [frame(0, 0, 1) * 100] * 40)
is_closed("WINDOW_UPDATE flood", (frame(8, payload=b"\0\0\0\x01") * 500 for _ in range(100)))
is_closed("rapid reset", streams(2000, lambda s: frame(1, 5, s, HEADERS) + frame(3, stream=s, payload=b"\0\0\0\x08")))
is_closed("CONTINUATION flood", [frame(1, 0, 1, HEADERS)] + [frame(9, 0, 1, literal(b"x", b"y"))] * 200)
is_closed("MadeYouReset", streams(2000, lambda s: frame(1, 4, s, HEADERS) + frame(8, stream=s, payload=b"\0\0\0\0")))
is_closed("malformed requests", streams(1000, lambda s: frame(1, 5, s, HEADERS + literal(b"connection", b"close"))))
is_closed("garbage", [os.urandom(4096)] * 4)
with socket.create_connection(("127.0.0.1", PORT)) as connection:
    connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00garbage\r\n\r\n" * 10)
    connection.settimeout(5)
    data = connection.recv(1000)
    print("ok   TLS junk on the cleartext port" if data.startswith(b"HTTP/1.1 400") or data == b"" else f"FAIL {data!r}")
rss = int(next(line for line in open(f"/proc/{server.pid}/status") if line.startswith("VmRSS")).split()[1])
print(f"resident after all: {rss // 1024} MiB")
server.send_signal(signal.SIGTERM)
if server.wait(timeout=30) != 0:
    failures.append("the server did not end well")
print("\n".join(failures))
sys.exit(1 if failures else 0)
