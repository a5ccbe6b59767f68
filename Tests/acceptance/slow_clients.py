"""Slow clients of every kind against a real server; see slow_clients.sh."""
import select
import socket
import sys
import time

from system import kernel
from system.checks import until
from system.floods import PIECES
from system.process import SecureServer

EACH = 60
# Until the server has closed its side of the last connections.
CLOSED_SECONDS = 5


def main(work):
    server = SecureServer(work)
    server.start()
    try:
        server.wait_ready()
        return run(server)
    finally:
        server.kill()


def honest(server):
    return server.call("GET", "/healthz", timeout=5)[0] == 200


def run(server):
    descriptors = kernel.descriptors(server.process.pid)
    clients = []
    for name, (piece, kind) in PIECES.items():
        for _ in range(EACH):
            client = socket.create_connection((server.host, server.secure if kind == "tls" else server.port))
            if kind == "kept":
                client.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                client.recv(65536)
            client.setblocking(False)
            clients.append([name, client, piece, 0])
    began = time.monotonic()
    left = {name: EACH for name in PIECES}
    while clients and time.monotonic() - began < 30:
        readable = set(select.select([client[1] for client in clients], [], [], 0)[0])
        still = []
        for client in clients:
            name, connection, piece, sent = client
            closed = False
            try:
                if connection in readable and connection.recv(65536) == b"":
                    closed = True
                elif sent < len(piece):
                    connection.send(piece[sent:sent + 1])
                    client[3] += 1
            except BlockingIOError:
                pass
            except OSError:
                closed = True
            if closed:
                left[name] -= 1
                connection.close()
            else:
                still.append(client)
        clients = still
        if not honest(server):
            print("FAIL an honest client was not served")
            return 1
        time.sleep(0.1)
    took = time.monotonic() - began
    failed = 0
    for name, count in left.items():
        failed += count > 0
        print(f"{'FAIL' if count else 'ok  '} {name}: {EACH - count} of {EACH} closed")
    until(lambda: kernel.descriptors(server.process.pid) <= descriptors + 4, CLOSED_SECONDS)
    now = kernel.descriptors(server.process.pid)
    if now > descriptors + 4 or not server.is_running():
        failed += 1
        print(f"FAIL {descriptors} descriptors before, {now} after")
    print(f"after {took:.0f} s; {descriptors} descriptors before, {now} after")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
