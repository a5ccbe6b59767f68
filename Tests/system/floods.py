"""What hostile clients send: floods of HTTP/2 frames, and requests that come byte by byte."""
import os
import socket

from system.frames import MAGIC, frame, literal

PREFACE = MAGIC + frame(4)
# :method POST, :scheme http, :path /, in HPACK's static table.
HEADERS = bytes([0x83, 0x86, 0x84])


def streams(count, make):
    """What `make` gives for each of the first `count` numbers of a client's streams."""
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

HELLO = bytes.fromhex("1603010200010001fc0303") + b"\x07" * 500
# By name, what a slow client sends and to which port: the plain one, the plain one after a request that it
# kept open, or TLS.
PIECES = {
    "nothing at all": (b"", "plain"),
    "a preface, byte by byte": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "plain"),
    "HTTP/2 headers that never end": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
                                      + b"\x00\x00\xff\x01\x00\x00\x00\x00\x01" + b"\x00" * 200, "plain"),
    "HTTP/1.1 headers, byte by byte": (b"POST /x HTTP/1.1\r\nhost: localhost\r\nx-long: " + b"y" * 400,
                                       "plain"),
    "a later HTTP/1.1 header, byte by byte": (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-long: "
                                              + b"y" * 400, "kept"),
    "a TLS hello, byte by byte": (HELLO, "tls"),
}


def ends(address, pieces):
    """Sends `pieces` and reads the answers. True when the server closes the connection; false after 5 s in
    which nothing comes."""
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
