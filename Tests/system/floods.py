"""Floods of hostile HTTP/2 clients."""
import os

from system.frames import MAGIC, frame, literal

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
