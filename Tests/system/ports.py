"""Ports for servers under test. As a program it prints one."""
import os
import random
import socket

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


if __name__ == "__main__":
    print(free_port())
