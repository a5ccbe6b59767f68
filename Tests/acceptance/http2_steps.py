"""The steps and the expectations that the rows of http2_table.py are made of."""
import struct

from system.frames import (
    EH,
    PING,
    PRIORITY,
    block,
    frame,
    headers,
    request,
)

POST = request("POST")
# `custom-key` and `custom-value` in Huffman code (RFC 7541, C.4). The rows call a Huffman-coded string
# packed.
KEY, VALUE = bytes.fromhex("8825a849e95ba97d7f"), bytes.fromhex("8925a849e95bb8e8b4bf")
MARK = frame(PING, payload=b"the mark")
MOST = 2**31 - 1


class Until:
    """A step that waits until this word has come."""

    def __init__(self, word):
        self.word = word


class Preface:
    """A first step that replaces the client's preface."""

    def __init__(self, piece):
        self.piece = piece


def priority(stream, on=0, weight=15, exclusive=False):
    return frame(PRIORITY, 0, stream, struct.pack(">IB", on | exclusive << 31, weight))


# What a row expects: a function of the words that came, and a text that a failed row prints.
def word(*wanted):
    return lambda seen: any(one in seen for one in wanted), " or ".join(wanted)


def answer(stream=1, codes=(200,)):
    def holds(seen):
        return any(f"{code}@{stream}+ES" in seen for code in codes) or (
            any(f"{code}@{stream}" in seen for code in codes)
            and any(one.startswith("data") and one.endswith(f"@{stream}+ES") for one in seen))
    return holds, f"{codes[0]}@{stream}"


def either(*several):
    return lambda seen: any(holds(seen) for holds, _ in several), " or ".join(text for _, text in several)


def connection_error(code):
    return word(f"GOAWAY({code})")


def stream_error(code, stream=1):
    return word(f"RST({code})@{stream}", f"GOAWAY({code})")


P, CLOSED, SIZE, FLOW = "PROTOCOL_ERROR", "STREAM_CLOSED", "FRAME_SIZE_ERROR", "FLOW_CONTROL_ERROR"
IGNORED, FATAL, BAD = word("PONG"), connection_error(P), stream_error(P)
PACKED = connection_error("COMPRESSION_ERROR")
DONE = Until("data3@1+ES")
GET = headers(1)
OPEN = headers(1, POST, EH)
# Where a body may come: in a development server anybody may register a device.
UPLOAD = headers(1, request("POST", path="/v1/projects/demo/registrations"), EH)


def field(piece):
    """A GET whose header block ends with this piece."""
    return [headers(1, request() + piece)]


def with_fields(*extra):
    return [headers(1, request(extra=extra))]


def pseudo(*fields):
    return [headers(1, block(*fields))]


def without(name):
    fields = [(":method", "GET"), (":scheme", "http"), (":path", "/healthz"), (":authority", "localhost")]
    return [headers(1, block(*(one for one in fields if one[0] != name)))]
