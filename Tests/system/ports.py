"""Ports for servers under test, and who answers at one. As a program it prints a free one."""
import http.client
import os
import random
import socket
import threading

_given = set()
# Scripts that run at the same time have ranges of their own: between the choice of a port and its use another
# script could choose the same one.
FIRST, END = (int(bound) for bound in os.environ.get("TIDECAST_TEST_PORTS", "20000-32000").split("-"))


def free_port():
    """A free port, for TCP and UDP.

    The port is below the kernel's range for outgoing connections (from 32768): an outgoing connection could
    take a port of that range while the server does not run."""
    while True:
        port = random.SystemRandom().randrange(FIRST, END)
        if port in _given:
            continue
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        _given.add(port)
        return port


def listen(port, serve):
    """A listener on a port of 127.0.0.1, until it is closed. A thread of its own serves each connection."""
    listener = socket.create_server(("127.0.0.1", port), backlog=64)

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener


def status_at(port, path="/"):
    """The status of a GET on a port of 127.0.0.1; 0 where nobody answers within 5 s."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        link.request("GET", path)
        return link.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        link.close()


if __name__ == "__main__":
    print(free_port())
