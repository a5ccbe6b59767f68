"""Hostile HTTP/2 clients against a real server. The server must close each connection, and serve an honest
client meanwhile."""
import socket
import sys

from system import kernel
from system.floods import FLOODS, ends
from system.process import DevelopmentServer


def main(work):
    server = DevelopmentServer(work)
    server.start()
    try:
        server.wait_ready()
        failures = attack(server)
    finally:
        server.kill()
    print("\n".join(failures))
    return 1 if failures else 0


def attack(server):
    """Makes all floods, and returns a sentence for each broken promise."""
    def honest():
        return server.call("GET", "/healthz", timeout=5) == (200, b"ok\n")

    failures = []
    for name, pieces in FLOODS.items():
        closed = ends((server.host, server.port), pieces())
        if not closed:
            failures.append(f"{name}: the connection stayed open")
        if not honest():
            failures.append(f"{name}: an honest client was not served")
        print(("ok   " if closed else "FAIL ") + name)
    with socket.create_connection((server.host, server.port)) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00garbage\r\n\r\n" * 10)
        connection.settimeout(5)
        data = connection.recv(1000)
        if data == b"" or data.startswith(b"HTTP/1.1 400"):
            print("ok   TLS junk on the cleartext port")
        else:
            failures.append(f"TLS junk on the cleartext port was answered {data!r}")
    print(f"resident after all: {kernel.resident(server.process.pid):.0f} MiB")
    if server.end(limit=30) != 0:
        failures.append("the server did not end well")
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
