"""Ports for servers under test. As a program it prints one."""
import random
import socket

_given = set()


def free_port():
    """A port where nobody listens, TCP or UDP.

    It is below those that the kernel gives to outgoing connections (from 32768), since one of these could take it while the
    server is not started yet, or is away."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
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
