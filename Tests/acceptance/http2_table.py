"""The rules of RFC 9113 and RFC 7541 for a server, one row each, in the order of h2spec's cases; see http_tables.sh."""
import struct
import sys

from table_server import begin, ending

from system.frames import (
    ACK,
    ALTSVC,
    CONTINUATION,
    DATA,
    EH,
    ES,
    GOAWAY,
    HEADERS,
    MAGIC,
    PADDED,
    PING,
    PRIO,
    PRIORITY,
    PUSH,
    RST,
    SETTINGS,
    WINDOW,
    Connection,
    block,
    frame,
    headers,
    integer,
    literal,
    request,
    reset,
    settings,
    string,
    window,
)

POST = request("POST")
# `custom-key` and `custom-value` in Huffman code (RFC 7541, C.4). The rows call a Huffman-coded string packed.
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


TABLE = [
    ("generic/1/1 client preface", [], word("SETTINGS")),
    ("generic/2/1 PRIORITY on an idle stream", [priority(1), headers(3)], answer(3)),
    ("generic/2/2 WINDOW_UPDATE on half-closed (remote)", [GET, window(1, 100)], answer()),
    ("generic/2/3 PRIORITY on half-closed (remote)", [GET, priority(1)], answer()),
    ("generic/2/4 RST_STREAM on half-closed (remote)", [GET, reset(1)], IGNORED),
    ("generic/2/5 PRIORITY on a closed stream", [GET, DONE, priority(1)], IGNORED),
    ("generic/3.1/1 DATA", [OPEN, frame(DATA, ES, 1, b"test")], answer()),
    ("generic/3.1/2 several DATA", [OPEN, frame(DATA, 0, 1, b"test"), frame(DATA, ES, 1, b"test")], answer()),
    ("generic/3.1/3 DATA with padding", [OPEN, frame(DATA, ES | PADDED, 1, b"\x05test" + bytes(5))], answer()),
    ("generic/3.2/1 HEADERS", [GET], answer()),
    ("generic/3.2/2 HEADERS with padding", [frame(HEADERS, ES | EH | PADDED, 1, b"\x05" + request() + bytes(5))], answer()),
    ("generic/3.2/3 HEADERS with priority", [frame(HEADERS, ES | EH | PRIO, 1, bytes(4) + b"\xff" + request())], answer()),
    ("generic/3.3/1 PRIORITY of weight 1", [priority(1, weight=0), GET], answer()),
    ("generic/3.3/2 PRIORITY of weight 256", [priority(1, weight=255), GET], answer()),
    ("generic/3.3/3 PRIORITY with a dependency", [priority(1, on=3), GET], answer()),
    ("generic/3.3/4 PRIORITY, exclusive", [priority(1, on=3, exclusive=True), GET], answer()),
    ("generic/3.3/5 PRIORITY for an idle stream, HEADERS on a lower", [priority(5), headers(3)], answer(3)),
    ("generic/3.4/1 RST_STREAM", [OPEN, reset(1)], IGNORED),
    ("generic/3.5/1 SETTINGS", [settings((3, 100))], word("ACK")),
    ("generic/3.7/1 PING", [], IGNORED),
    ("generic/3.8/1 GOAWAY", [frame(GOAWAY, payload=bytes(8))], word("CLOSED", "PONG")),
    ("generic/3.9/1 WINDOW_UPDATE of the connection", [window(0, 1), GET], answer()),
    ("generic/3.9/2 WINDOW_UPDATE of a stream", [GET, window(1, 1)], answer()),
    ("generic/3.10/1 CONTINUATION", [headers(1, request(), ES), frame(CONTINUATION, EH, 1, literal(b"x", b"y"))], answer()),
    ("generic/3.10/2 several CONTINUATION", [headers(1, request(), ES), frame(CONTINUATION, 0, 1, literal(b"x", b"y")),
                                            frame(CONTINUATION, EH, 1, literal(b"x", b"y"))], answer()),
    ("generic/4/1 GET", [GET], answer()),
    ("generic/4/2 HEAD", [headers(1, request("HEAD"))], word("200@1+ES")),
    ("generic/4/3 POST", [OPEN, frame(DATA, ES, 1, b"test")], answer()),
    ("generic/4/4 POST with trailers", [OPEN, frame(DATA, 0, 1, b"test"), headers(1, block(("x-test", "ok")))], answer()),
    ("generic/5/1 indexed field", [headers(1, b"\x82\x86\x84")], answer(codes=(404,))),
    ("generic/5/2 incremental, indexed name", field(b"\x50" + string(b"gzip")), answer()),
    ("generic/5/3 incremental, indexed name, packed", field(b"\x50" + VALUE), answer()),
    ("generic/5/4 incremental, new name", field(b"\x40" + string(b"x-test") + string(b"v")), answer()),
    ("generic/5/5 incremental, new name, packed", field(b"\x40" + KEY + VALUE), answer()),
    ("generic/5/6 without indexing, indexed name", field(b"\x0f\x04" + string(b"de")), answer()),
    ("generic/5/7 without indexing, indexed name, packed", field(b"\x0f\x04" + VALUE), answer()),
    ("generic/5/8 without indexing, new name", field(literal(b"x-test", b"v")), answer()),
    ("generic/5/9 without indexing, new name, packed", field(b"\0" + KEY + VALUE), answer()),
    ("generic/5/10 never indexed, indexed name", field(b"\x1f\x04" + string(b"de")), answer()),
    ("generic/5/11 never indexed, indexed name, packed", field(b"\x1f\x04" + VALUE), answer()),
    ("generic/5/12 never indexed, new name", field(b"\x10" + string(b"x-test") + string(b"v")), answer()),
    ("generic/5/13 never indexed, new name, packed", field(b"\x10" + KEY + VALUE), answer()),
    ("generic/5/14 table size update", [headers(1, integer(128, 5, 0x20) + request())], answer()),
    ("generic/5/15 several table size updates", [headers(1, b"\x20" + integer(4096, 5, 0x20) + request())], answer()),
    ("http2/3.5/1 valid preface", [], word("SETTINGS")),
    ("http2/3.5/2 invalid preface", [Preface(b"INVALID CONNECTION PREFACE\r\n\r\n")],
     word("CLOSED", FATAL[1])),
    ("http2/4.1/1 unknown frame type", [frame(0xFF, payload=bytes(8))], IGNORED),
    ("http2/4.1/2 undefined flags", [frame(PING, 0x16, payload=bytes(8))], IGNORED),
    ("http2/4.1/3 reserved bit", [frame(PING, 0, 1 << 31, bytes(8))], IGNORED),
    ("http2/4.2/1 DATA of 2^14", [OPEN, frame(DATA, ES, 1, bytes(1 << 14))], answer(codes=(200, 413))),
    ("http2/4.2/2 DATA over the frame size", [OPEN, frame(DATA, ES, 1, bytes(16385))], stream_error(SIZE)),
    ("http2/4.2/3 HEADERS over the frame size", [headers(1, bytes(16385))], connection_error(SIZE)),
    ("http2/4.3/1 invalid header block", [headers(1, b"\x80")], PACKED),
    ("http2/4.3/2 PRIORITY inside a header block", [headers(1, request(), ES), priority(1)], FATAL),
    ("http2/4.3/3 HEADERS of another stream inside", [headers(1, request(), ES), headers(3)], FATAL),
    ("http2/5.1/1 idle: DATA", [frame(DATA, ES, 1, b"test")], FATAL),
    ("http2/5.1/2 idle: RST_STREAM", [reset(1)], FATAL),
    ("http2/5.1/3 idle: WINDOW_UPDATE", [window(1, 100)], FATAL),
    ("http2/5.1/4 idle: CONTINUATION", [frame(CONTINUATION, EH, 1, request())], FATAL),
    ("http2/5.1/5 half-closed: DATA", [GET, frame(DATA, ES, 1, b"test")], stream_error(CLOSED)),
    ("http2/5.1/6 half-closed: HEADERS", [GET, GET], stream_error(CLOSED)),
    ("http2/5.1/7 half-closed: CONTINUATION", [GET, frame(CONTINUATION, EH, 1, literal(b"x", b"y"))], FATAL),
    ("http2/5.1/8 reset: DATA", [OPEN, reset(1), frame(DATA, ES, 1, b"test")], either(stream_error(CLOSED), IGNORED)),
    ("http2/5.1/9 reset: HEADERS", [OPEN, reset(1), GET], stream_error(CLOSED)),
    ("http2/5.1/10 reset: CONTINUATION", [OPEN, reset(1), frame(CONTINUATION, EH, 1, literal(b"x", b"y"))], FATAL),
    ("http2/5.1/11 closed: DATA", [GET, DONE, frame(DATA, ES, 1, b"test")], stream_error(CLOSED)),
    ("http2/5.1/12 closed: HEADERS", [GET, DONE, GET], connection_error(CLOSED)),
    ("http2/5.1/13 closed: CONTINUATION", [GET, DONE, frame(CONTINUATION, EH, 1, literal(b"x", b"y"))], FATAL),
    ("http2/5.1.1/1 even stream id", [headers(2)], FATAL),
    ("http2/5.1.1/2 smaller stream id", [headers(5), headers(3)], FATAL),
    ("http2/5.1.2/1 past MAX_CONCURRENT_STREAMS", [b"".join(headers(1 + 2 * n, POST, EH) for n in range(257))],
     either(stream_error(P, 513), word("RST(REFUSED_STREAM)@513"))),
    ("http2/5.3.1/1 HEADERS depends on itself", [frame(HEADERS, ES | EH | PRIO, 1, b"\0\0\0\x01\xff" + request())],
     either(BAD, answer())),
    ("http2/5.3.1/2 PRIORITY depends on itself", [priority(1, on=1)], either(BAD, IGNORED)),
    ("http2/5.4.1/1 invalid PING closes", [frame(PING, 0, 3, bytes(8))], word("CLOSED")),
    ("http2/5.4.1/2 invalid PING: GOAWAY first", [frame(PING, 0, 3, bytes(8))], FATAL),
    ("http2/5.5/1 unknown extension frame", [frame(0x16, payload=bytes(8))], IGNORED),
    ("http2/5.5/2 unknown frame inside a header block", [headers(1, request(), ES), frame(0x16, payload=bytes(8))], FATAL),
    ("http2/6.1/1 DATA on stream 0", [frame(DATA, ES, 0, b"test")], FATAL),
    ("http2/6.1/2 DATA on a stream that is not open", [GET, DONE, frame(DATA, ES, 1, b"test")], stream_error(CLOSED)),
    ("http2/6.1/3 DATA with invalid pad length", [OPEN, frame(DATA, ES | PADDED, 1, b"\x06test")], FATAL),
    ("http2/6.2/1 HEADERS without END_HEADERS, PRIORITY", [headers(1, request(), ES), priority(1)], FATAL),
    ("http2/6.2/2 HEADERS of another stream in between", [headers(1, request(), ES), headers(3)], FATAL),
    ("http2/6.2/3 HEADERS on stream 0", [headers(0)], FATAL),
    ("http2/6.2/4 HEADERS with invalid pad length", [frame(HEADERS, ES | EH | PADDED, 1, b"\xff" + request())], FATAL),
    ("http2/6.3/1 PRIORITY on stream 0", [priority(0)], FATAL),
    ("http2/6.3/2 PRIORITY not of 5 bytes", [OPEN, frame(PRIORITY, 0, 1, bytes(4))], stream_error(SIZE)),
    ("http2/6.4/1 RST_STREAM on stream 0", [reset(0)], FATAL),
    ("http2/6.4/2 RST_STREAM on an idle stream", [reset(1)], FATAL),
    ("http2/6.4/3 RST_STREAM not of 4 bytes", [OPEN, frame(RST, 0, 1, bytes(3))], connection_error(SIZE)),
    ("http2/6.5/1 SETTINGS ack with payload", [frame(SETTINGS, ACK, 0, bytes(1))], connection_error(SIZE)),
    ("http2/6.5/2 SETTINGS on a stream", [frame(SETTINGS, 0, 1, bytes(6))], FATAL),
    ("http2/6.5/3 SETTINGS not of 6n bytes", [frame(SETTINGS, 0, 0, bytes(3))], connection_error(SIZE)),
    ("http2/6.5.2/1 ENABLE_PUSH 2", [settings((2, 2))], FATAL),
    ("http2/6.5.2/2 INITIAL_WINDOW_SIZE over 2^31-1", [settings((4, 1 << 31))], connection_error(FLOW)),
    ("http2/6.5.2/3 MAX_FRAME_SIZE under 2^14", [settings((5, 16383))], FATAL),
    ("http2/6.5.2/4 MAX_FRAME_SIZE over 2^24-1", [settings((5, 1 << 24))], FATAL),
    ("http2/6.5.2/5 unknown setting", [settings((0xFF, 1))], IGNORED),
    ("http2/6.5.3/1 of several values the last counts", [settings((4, 100), (4, 1)), GET], word("data1@1")),
    ("http2/6.5.3/2 SETTINGS is acknowledged", [settings((4, 100))], word("ACK")),
    ("http2/6.7/1 PING", [], IGNORED),
    ("http2/6.7/2 PING with ACK", [frame(PING, ACK, 0, bytes(8))], IGNORED),
    ("http2/6.7/3 PING on a stream", [frame(PING, 0, 1, bytes(8))], FATAL),
    ("http2/6.7/4 PING not of 8 bytes", [frame(PING, payload=bytes(6))], connection_error(SIZE)),
    ("http2/6.8/1 GOAWAY on a stream", [frame(GOAWAY, 0, 1, bytes(8))], FATAL),
    ("http2/6.9/1 WINDOW_UPDATE of 0, connection", [window(0, 0)], FATAL),
    ("http2/6.9/2 WINDOW_UPDATE of 0, stream", [OPEN, window(1, 0)], BAD),
    ("http2/6.9/3 WINDOW_UPDATE not of 4 bytes", [frame(WINDOW, payload=bytes(3))], connection_error(SIZE)),
    ("http2/6.9.1/1 a window of 1 is kept", [settings((4, 1)), GET], word("data1@1")),
    ("http2/6.9.1/2 connection window over 2^31-1", [window(0, MOST), window(0, MOST)], connection_error(FLOW)),
    ("http2/6.9.1/3 stream window over 2^31-1", [OPEN, window(1, MOST), window(1, MOST)], stream_error(FLOW)),
    ("http2/6.9.2/1 INITIAL_WINDOW_SIZE changed behind HEADERS",
     [settings((4, 0)), GET, Until("200@1"), settings((4, 1))], word("data1@1")),
    ("http2/6.9.2/2 a negative window is kept",
     [settings((4, 2)), GET, Until("data2@1"), settings((4, 0)), window(1, 2), MARK, Until("PONG"), window(1, 1)],
     (lambda seen: "data1@1+ES" in seen and seen.index("data2@1") < seen.index("PONG") < seen.index("data1@1+ES"),
      "data2@1 PONG data1@1+ES")),
    ("http2/6.9.2/3 INITIAL_WINDOW_SIZE makes a window overflow",
     [settings((4, 1)), OPEN, window(1, MOST - 1), settings((4, MOST))], connection_error(FLOW)),
    ("http2/6.10/1 several CONTINUATION", [headers(1, request(), ES), frame(CONTINUATION, 0, 1, literal(b"x", b"y")),
                                          frame(CONTINUATION, EH, 1, literal(b"x", b"y"))], answer()),
    ("http2/6.10/2 CONTINUATION, then another frame",
     [headers(1, request(), 0), frame(CONTINUATION, 0, 1, literal(b"x", b"y")), frame(DATA, ES, 1, b"test")], FATAL),
    ("http2/6.10/3 CONTINUATION on stream 0", [headers(1, request(), ES), frame(CONTINUATION, EH, 0, b"")], FATAL),
    ("http2/6.10/4 CONTINUATION behind END_HEADERS", [OPEN, frame(CONTINUATION, EH, 1, literal(b"x", b"y"))], FATAL),
    ("http2/6.10/5 CONTINUATION behind CONTINUATION's end",
     [headers(1, POST, 0), frame(CONTINUATION, EH, 1, literal(b"x", b"y")), frame(CONTINUATION, EH, 1, literal(b"x", b"y"))],
     FATAL),
    ("http2/6.10/6 CONTINUATION behind DATA", [OPEN, frame(DATA, 0, 1, b"test"), frame(CONTINUATION, EH, 1, b"")], FATAL),
    ("http2/7/1 GOAWAY with an unknown code", [frame(GOAWAY, payload=bytes(4) + b"\0\0\0\xff")], word("CLOSED", "PONG")),
    ("http2/7/2 RST_STREAM with an unknown code", [OPEN, reset(1, 255)], IGNORED),
    ("http2/8.1/1 second HEADERS without END_STREAM", [OPEN, headers(1, block(("x-test", "ok")), EH)], BAD),
    ("http2/8.1.2/1 upper-case field name", with_fields(("X-TEST", "ok")), BAD),
    ("http2/8.1.2.1/1 unknown pseudo-header", pseudo((":test", "ok"), (":method", "GET")), BAD),
    ("http2/8.1.2.1/2 response pseudo-header", pseudo((":status", "200"), (":method", "GET")), BAD),
    ("http2/8.1.2.1/3 pseudo-header in trailers", [OPEN, headers(1, block((":method", "GET")))], BAD),
    ("http2/8.1.2.1/4 pseudo-header behind a field", [headers(1, block(("x-test", "ok")) + request())], BAD),
    ("http2/8.1.2.2/1 connection", with_fields(("connection", "keep-alive")), BAD),
    ("http2/8.1.2.2/2 te", with_fields(("te", "trailers, deflate")), BAD),
    ("http2/8.1.2.3/1 empty :path", [headers(1, request(path=""))], BAD),
    ("http2/8.1.2.3/2 no :method", without(":method"), BAD),
    ("http2/8.1.2.3/3 no :scheme", without(":scheme"), BAD),
    ("http2/8.1.2.3/4 no :path", without(":path"), BAD),
    ("http2/8.1.2.3/5 two :method", [headers(1, block((":method", "GET")) + request())], BAD),
    ("http2/8.1.2.3/6 two :scheme", [headers(1, block((":scheme", "http")) + request())], BAD),
    ("http2/8.1.2.3/7 two :path", [headers(1, block((":path", "/")) + request())], BAD),
    ("http2/8.1.2.6/1 content-length is not the DATA's",
     [headers(1, request("POST", extra=[("content-length", "1")]), EH), frame(DATA, ES, 1, b"test")], BAD),
    ("http2/8.1.2.6/2 content-length is not the sum of DATA",
     [headers(1, request("POST", extra=[("content-length", "1")]), EH), frame(DATA, 0, 1, b"test"),
      frame(DATA, ES, 1, b"test")], BAD),
    ("http2/8.2/1 PUSH_PROMISE", [frame(PUSH, EH, 1, b"\0\0\0\x03" + request())], FATAL),
    ("hpack/2.3.3/1 indexed field of no index", [headers(1, integer(70, 7, 0x80))], PACKED),
    ("hpack/2.3.3/2 literal of no index", [headers(1, integer(70, 4, 0) + string(b"v"))], PACKED),
    ("hpack/4.2/1 table size update at the end", [headers(1, request() + integer(1, 5, 0x20))], PACKED),
    ("hpack/5.2/1 packed, padding over 7 bits", field(literal(b"x", b"")[:-1] + b"\x82\x07\xff"), PACKED),
    ("hpack/5.2/2 packed, padding of zeros", field(literal(b"x", b"")[:-1] + b"\x81\x00"), PACKED),
    ("hpack/5.2/3 packed, EOS", field(literal(b"x", b"")[:-1] + b"\x84\xff\xff\xff\xff"), PACKED),
    ("hpack/6.1/1 index 0", [headers(1, b"\x80")], PACKED),
    ("hpack/6.3/1 table size over the setting", [headers(1, integer(4097, 5, 0x20) + request())], PACKED),
]

# Rules that h2spec does not test.
OWN = [
    ("own/3.4 preface broken behind PRI", [Preface(MAGIC[:20] + b"xx\r\n")], word("CLOSED", FATAL[1])),
    ("own/3.4 first frame is not SETTINGS", [Preface(MAGIC + MARK)], FATAL),
    ("own/3.4 first frame is a SETTINGS ack", [Preface(MAGIC + frame(SETTINGS, ACK))], FATAL),
    ("own/8.2.1 NUL in a value", with_fields(("x", "a\0b")), BAD),
    ("own/8.2.1 LF in a value", with_fields(("x", "a\nb")), BAD),
    ("own/8.2.1 CR in a value", with_fields(("x", "a\rb")), BAD),
    ("own/8.2.1 leading blank", with_fields(("x", " a")), BAD),
    ("own/8.2.1 trailing tab", with_fields(("x", "a\t")), BAD),
    ("own/8.2.1 colon inside a name", with_fields(("a:b", "x")), BAD),
    ("own/8.2.1 empty name", with_fields(("", "x")), BAD),
    ("own/8.2.1 blank in a name", with_fields(("a b", "x")), BAD),
    ("own/8.2.2 transfer-encoding", with_fields(("transfer-encoding", "chunked")), BAD),
    ("own/8.2.2 keep-alive", with_fields(("keep-alive", "1")), BAD),
    ("own/8.2.2 upgrade", with_fields(("upgrade", "h2c")), BAD),
    ("own/8.2.2 proxy-connection", with_fields(("proxy-connection", "x")), BAD),
    ("own/8.3.1 two :authority", [headers(1, block((":authority", "x")) + request())], BAD),
    ("own/8.3.1 empty :scheme", [headers(1, request(scheme=""))], BAD),
    ("own/8.3.1 :path without a slash", [headers(1, request(path="healthz"))], BAD),
    ("own/8.3.1 blank in :path", [headers(1, request(path="/heal thz"))], BAD),
    ("own/8.3.1 :method with a blank", [headers(1, request("GE T"))], BAD),
    ("own/8.3.1 :authority with userinfo", pseudo((":method", "GET"), (":scheme", "http"), (":path", "/healthz"),
                                                 (":authority", "me@localhost")), BAD),
    ("own/8.3.1 :scheme with a colon, as one SDK sends", [headers(1, request(scheme="https:"))], answer()),
    ("own/8.5 CONNECT without :path", pseudo((":method", "CONNECT"), (":authority", "localhost")), BAD),
    ("own/9.1 TRACE", [headers(1, request("TRACE"))], answer(codes=(405,))),
    ("own/9.1 a method that nobody knows", [headers(1, request("BREW"))], answer(codes=(501,))),
    ("own/8.1.1 two content-lengths that differ", with_fields(("content-length", "1"), ("content-length", "2")), BAD),
    ("own/8.1.1 content-length -1", with_fields(("content-length", "-1")), BAD),
    ("own/8.1.1 content-length with END_STREAM on HEADERS", with_fields(("content-length", "4")), BAD),
    ("own/8.1.1 content-length beyond 2^64", with_fields(("content-length", "9" * 30)), BAD),
    ("own/6.9.1 the client overflows the stream's window", [OPEN] + [frame(DATA, 0, 1, bytes(16384))] * 5,
     either(stream_error(FLOW), answer(codes=(413,)))),
    ("own/6.5.2 header list past MAX_HEADER_LIST_SIZE",
     [headers(1, request(extra=[("x", "y" * 9000)]), ES), frame(CONTINUATION, EH, 1, literal(b"x", b"y" * 9000))],
     either(answer(codes=(431,)), word("RST(ENHANCE_YOUR_CALM)@1"))),
    ("own/4.3 HPACK is in step behind a refused block",
     [headers(1, literal(b"A", b"x") + b"\x40" + string(b"x-test") + string(b"v")), headers(3, request() + b"\xbe")], answer(3)),
    ("own/8.1 more DATA than the path takes", [OPEN, frame(DATA, ES, 1, bytes(9000))], answer(codes=(413,))),
    ("own/8.1 content-length past what the path takes",
     [headers(1, request("POST", extra=[("content-length", "9000")]), EH)], answer(codes=(413,))),
    ("own/10.5 padding and nothing else, for ever", [OPEN] + [frame(DATA, PADDED, 1, b"\x03" + bytes(3)) * 100] * 40,
     word("CLOSED")),
    ("own/10.5 unknown frames for ever", [frame(0x30, payload=b"x") * 100] * 40, word("CLOSED")),
    ("own/10.5 ALTSVC for ever", [frame(ALTSVC, payload=b"\0\x01xy") * 100] * 40, word("CLOSED")),
    ("own/10.5 trailers for ever",
     [headers(1 + 2 * n, POST, EH) + headers(1 + 2 * n, block(("x", "y")), EH) * 5 for n in range(500)], word("CLOSED")),
]
# Rows where libnghttp2 itself decides otherwise: it ignores a stream id that is lower than an earlier one, and ends only the
# stream whose window an INITIAL_WINDOW_SIZE makes overflow.
KNOWN = {"http2/5.1.1/2 smaller stream id", "http2/6.9.2/3 INITIAL_WINDOW_SIZE makes a window overflow"}


def observe(port, tls, steps, holds):
    preface = steps[0].piece if steps and isinstance(steps[0], Preface) else MAGIC + settings()
    connection = Connection(port, tls, preface)
    for step in steps:
        if isinstance(step, Until):
            connection.read(lambda one: step.word in one.seen)
        elif not isinstance(step, Preface):
            connection.send(step)
    # A server that keeps the connection answers the mark, and has then read all frames before it.
    if not steps or not isinstance(steps[0], Preface):
        connection.send(MARK)
    passed = connection.read(lambda one: holds(one.seen))
    connection.close()
    return passed, connection.text


def run(server, rows, name):
    """Tries the rows over each way, prints how many are right, and returns a line for each wrong row."""
    wrong = []
    for way, port, tls in server.ways("h2"):
        good = 0
        for row, steps, (holds, wanted) in rows:
            passed, seen = observe(port, tls, steps, holds)
            good += passed
            if passed == (row in KNOWN):
                note = " (libnghttp2 is said to do otherwise)" if passed else ""
                wrong.append(f"FAIL {row}, {way}: {wanted} wanted, came: {seen[:200]}{note}")
        print(f"{name}, {way}: {good} of {len(rows)} as they should be")
    return wrong


def main():
    server = begin(sys.argv[1])
    wrong = run(server, TABLE, "h2spec's cases") + run(server, OWN, "our own")
    return ending(server, wrong)


if __name__ == "__main__":
    sys.exit(main())
