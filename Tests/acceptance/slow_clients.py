"""Slow clients of every kind against a real server; see slow_clients.sh."""
import os
import select
import socket
import subprocess
import sys
import time
import urllib.request

from ports import free_port

UNPRIVILEGED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/unprivileged")
EACH = 60
HELLO = bytes.fromhex("1603010200010001fc0303") + b"\x07" * 500
PIECES = {
    "nothing at all": (b"", "plain"),
    "a preface, byte by byte": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "plain"),
    "HTTP/2 headers that never end": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
                                      + b"\x00\x00\xff\x01\x00\x00\x00\x00\x01" + b"\x00" * 200, "plain"),
    "HTTP/1.1 headers, byte by byte": (b"POST /x HTTP/1.1\r\nhost: localhost\r\nx-long: " + b"y" * 400, "plain"),
    "a later HTTP/1.1 header, byte by byte": (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-long: " + b"y" * 400, "kept"),
    "a TLS hello, byte by byte": (HELLO, "tls"),
}


def main(program, work):
    plain, tls = free_port(), free_port()
    subprocess.run([UNPRIVILEGED, program, "cert", "make", "--out", f"{work}/certs", "--name", "localhost"], check=True,
                   stdout=subprocess.DEVNULL)
    with open(f"{work}/log", "wb") as log:
        server = subprocess.Popen(
            [UNPRIVILEGED, program, "server", "--dev", "--data", f"{work}/data", "--listen", f"127.0.0.1:{plain}",
             "--listen-tls", f"127.0.0.1:{tls}", "--cert", f"{work}/certs/server.pem", "--key", f"{work}/certs/server.key"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        return run(server, plain, tls)
    finally:
        server.kill()
        server.wait()


def honest(plain):
    with urllib.request.urlopen(f"http://127.0.0.1:{plain}/healthz", timeout=5) as answer:
        return answer.status == 200


def run(server, plain, tls):
    for _ in range(200):
        try:
            if honest(plain):
                break
        except OSError:
            time.sleep(0.05)
    descriptors = len(os.listdir(f"/proc/{server.pid}/fd"))
    clients = []
    for name, (piece, kind) in PIECES.items():
        for _ in range(EACH):
            client = socket.create_connection(("127.0.0.1", tls if kind == "tls" else plain))
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
        if not honest(plain):
            print("FAIL an honest client was not served")
            return 1
        time.sleep(0.1)
    took = time.monotonic() - began
    failed = 0
    for name, count in left.items():
        failed += count > 0
        print(f"{'FAIL' if count else 'ok  '} {name}: {EACH - count} of {EACH} closed")
    time.sleep(1.5)
    now = len(os.listdir(f"/proc/{server.pid}/fd"))
    if now > descriptors + 4 or server.poll() is not None:
        failed += 1
        print(f"FAIL {descriptors} descriptors before, {now} after")
    print(f"after {took:.0f} s; {descriptors} descriptors before, {now} after")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
