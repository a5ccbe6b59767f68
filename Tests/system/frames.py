"""An HTTP/2 client that knows only frames: it sends any bytes, valid or not, and describes the frames that
come back."""
import socket
import ssl
import struct
import time

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
ALTSVC = 10
ES, EH, PADDED, PRIO, ACK = 1, 4, 8, 0x20, 1
PROTOCOL, INTERNAL, FLOW, STREAM_CLOSED, FRAME_SIZE, REFUSED, COMPRESSION = 1, 2, 3, 5, 6, 7, 9
CODES = {0: "NO_ERROR", 1: "PROTOCOL_ERROR", 2: "INTERNAL_ERROR", 3: "FLOW_CONTROL_ERROR", 5: "STREAM_CLOSED",
         6: "FRAME_SIZE_ERROR", 7: "REFUSED_STREAM", 8: "CANCEL", 9: "COMPRESSION_ERROR",
         11: "ENHANCE_YOUR_CALM"}
MAGIC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    """The bytes of a frame."""
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def settings(*pairs):
    """A SETTINGS frame with these (identifier, value) pairs."""
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", key, value) for key, value in pairs))


def integer(value, bits, first):
    """HPACK's integer behind the bits of `first` (RFC 7541 §5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = [first | most], value - most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes(out + [value])


def string(text):
    """A string literal of HPACK."""
    return integer(len(text), 7, 0) + text


def literal(name, value):
    """A field without indexing, its name written out."""
    return b"\0" + string(name) + string(value)


def block(*fields):
    """A header block of these (name, value) fields, none of them indexed."""
    return b"".join(literal(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields)


def request(method="GET", path="/healthz", scheme="http", extra=()):
    """The header block of a request."""
    return block((":method", method), (":scheme", scheme), (":path", path), (":authority", "localhost"),
                 *extra)


def headers(stream, fields=None, flags=ES | EH):
    """A HEADERS frame."""
    return frame(HEADERS, flags, stream, request() if fields is None else fields)


def window(stream, by):
    """A WINDOW_UPDATE frame."""
    return frame(WINDOW, 0, stream, struct.pack(">I", by))


def reset(stream, code=8):
    """A RST_STREAM frame."""
    return frame(RST, 0, stream, struct.pack(">I", code))


def status(fields):
    """The status, with which each header block of the server begins; 0 for an unknown one of the static
    table."""
    if fields[0] & 0x80:
        return {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}.get(fields[0] & 0x7F, 0)
    size, text = fields[1] & 0x7F, fields[2:]
    if not fields[1] & 0x80:
        return int(text[:size])
    bits, out = "".join(f"{byte:08b}" for byte in text[:size]), ""
    while len(out) < 3:
        width = 5 if bits[:5] in ("00000", "00001", "00010") else 6
        out += str(int(bits[:5], 2) if width == 5 else int(bits[:6], 2) - 0b011001 + 3)
        bits = bits[width:]
    return int(out)


class Connection:
    """`seen` has a word for each event: `200@1`, `data3@1`, with `+ES` at an end, `RST(CODE)@1`,
    `GOAWAY(CODE)`, `SETTINGS`, `ACK`, `PONG`, `CLOSED`."""

    def __init__(self, port, tls=None, preface=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.seen, self.rest = [], b""
        self.send(MAGIC + settings() if preface is None else preface)

    def send(self, piece):
        """Sends the bytes; nothing happens where the server has closed the connection."""
        try:
            self.socket.settimeout(5)
            self.socket.sendall(piece)
        except OSError:
            pass

    def close(self):
        """Closes the connection."""
        self.socket.close()

    @property
    def text(self):
        """All that was seen, as one line."""
        return " ".join(self.seen)

    def read(self, enough, within=3.0):
        """Reads until `enough(self)` holds. False after `within` s, or where the connection is closed
        before."""
        end = time.monotonic() + within
        while not enough(self):
            left = end - time.monotonic()
            if left <= 0 or "CLOSED" in self.seen:
                return False
            try:
                self.socket.settimeout(left)
                piece = self.socket.recv(65536)
            except (TimeoutError, ssl.SSLWantReadError):
                continue
            except OSError:
                piece = b""
            if not piece:
                self.seen.append("CLOSED")
            self.rest += piece
            self.take()
        return True

    def take(self):
        """Takes all whole frames out of what has come."""
        while len(self.rest) >= 9:
            if self.rest.startswith(b"HTTP/1."):
                self.seen.append(self.rest[9:12].decode())
                self.rest = b""
                return
            size = int.from_bytes(self.rest[:3], "big")
            if len(self.rest) < 9 + size:
                return
            kind, flags = self.rest[3], self.rest[4]
            stream, payload = int.from_bytes(self.rest[5:9], "big"), self.rest[9:9 + size]
            self.rest = self.rest[9 + size:]
            self.note(kind, flags, stream, payload)

    def note(self, kind, flags, stream, payload):
        """Adds a word to what was seen."""
        end = "+ES" if flags & ES else ""
        if kind == HEADERS:
            self.seen.append(f"{status(payload)}@{stream}{end}")
        elif kind == DATA:
            self.seen.append(f"data{len(payload)}@{stream}{end}")
        elif kind == RST:
            code = int.from_bytes(payload, "big")
            self.seen.append(f"RST({CODES.get(code, code)})@{stream}")
        elif kind == GOAWAY:
            code = int.from_bytes(payload[4:8], "big")
            self.seen.append(f"GOAWAY({CODES.get(code, code)})")
        elif kind == SETTINGS:
            self.seen.append("ACK" if flags & ACK else "SETTINGS")
        elif kind == PING:
            self.seen.append("PONG" if flags & ACK else "PING")
