"""Hostile HTTP/2 clients against a real server. The server must close each connection, and serve an honest client meanwhile."""
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

from frames import MAGIC, frame, literal
from ports import free_port

UNPRIVILEGED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/unprivileged")
PREFACE = MAGIC + frame(4)
# :method POST, :scheme http, :path /, in HPACK's static table.
HEADERS = bytes([0x83, 0x86, 0x84])


def streams(count, make):
    return (make(1 + 2 * i) for i in range(count))


# By name, the pieces that a client sends after the preface until the server closes the connection.
FLOODS = {
    "PING flood": lambda: (frame(6, payload=b"12345678") * 50 for _ in range(40)),
    "SETTINGS flood": lambda: (frame(4) * 50 for _ in range(40)),
    "PRIORITY flood": lambda: (frame(2, stream=1, payload=b"\0\0\0\0\x10") * 100 for _ in range(40)),
    "empty DATA flood": lambda: [frame(1, 4, 1, HEADERS)] + [frame(0, 0, 1) * 100] * 40,
    "WINDOW_UPDATE flood": lambda: (frame(8, payload=b"\0\0\0\x01") * 500 for _ in range(100)),
    "rapid reset": lambda: streams(
        2000, lambda s: frame(1, 5, s, HEADERS) + frame(3, stream=s, payload=b"\0\0\0\x08")),
    "CONTINUATION flood": lambda: [frame(1, 0, 1, HEADERS)] + [frame(9, 0, 1, literal(b"x", b"y"))] * 200,
    "MadeYouReset": lambda: streams(
        2000, lambda s: frame(1, 4, s, HEADERS) + frame(8, stream=s, payload=b"\0\0\0\0")),
    "malformed requests": lambda: streams(
        1000, lambda s: frame(1, 5, s, HEADERS + literal(b"connection", b"close"))),
    "garbage": lambda: [os.urandom(4096)] * 4,
}


def ends(address, pieces):
    """Sends `pieces` and reads the answers. True when the server closes the connection; false after 5 s in which nothing
    comes."""
    with socket.create_connection(address, timeout=5) as connection:
        try:
            connection.sendall(PREFACE)
            for piece in pieces:
                connection.settimeout(5)
                connection.sendall(piece)
                connection.settimeout(0.0005)
                try:
                    if connection.recv(65536) == b"":
                        return True
                except TimeoutError:
                    pass
            connection.settimeout(5)
            while connection.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
    return True


def main(program, work):
    port = free_port()

    def honest():
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).read() == b"ok\n"

    with open(f"{work}/log", "wb") as log:
        server = subprocess.Popen(
            [UNPRIVILEGED, program, "server", "--dev", "--data", f"{work}/data", "--listen", f"127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    failures = []
    for _ in range(200):
        try:
            if honest():
                break
        except OSError:
            time.sleep(0.05)
    for name, pieces in FLOODS.items():
        closed = ends(("127.0.0.1", port), pieces())
        if not closed:
            failures.append(f"{name}: the connection stayed open")
        if not honest():
            failures.append(f"{name}: an honest client was not served")
        print(("ok   " if closed else "FAIL ") + name)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00garbage\r\n\r\n" * 10)
        connection.settimeout(5)
        data = connection.recv(1000)
        if data == b"" or data.startswith(b"HTTP/1.1 400"):
            print("ok   TLS junk on the cleartext port")
        else:
            failures.append(f"TLS junk on the cleartext port was answered {data!r}")
    rss = int(next(line for line in open(f"/proc/{server.pid}/status") if line.startswith("VmRSS")).split()[1])
    print(f"resident after all: {rss // 1024} MiB")
    server.send_signal(signal.SIGTERM)
    if server.wait(timeout=30) != 0:
        failures.append("the server did not end well")
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
