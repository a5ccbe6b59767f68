"""The rules of RFC 9112 for a server, one row each: a name, the bytes that the client sends, and the statuses
that the server may answer, with `closed` where the server must then close the connection and `open` where it
must not. `|` separates alternatives. See http_tables.sh."""
import re
import socket
import ssl
import sys
import time

from table_server import begin, ending

CRLF = b"\r\n"
HOST = b"host: localhost\r\n"
# A path that takes a body: here anybody may register a device.
REGISTRATIONS = "/v1/projects/demo/registrations"
BATCH = b"POST /v1/projects/demo/messages:send HTTP/1.1\r\n" + HOST + b"authorization: Bearer owner\r\n"


def get(*lines, path="/healthz", version="1.1", method="GET", host=True):
    fields = [line.encode("latin-1") if isinstance(line, str) else line for line in lines]
    return b"".join([f"{method} {path} HTTP/{version}\r\n".encode("latin-1"), HOST if host else b"",
                     *(field + CRLF for field in fields), CRLF])


def post(*lines, body=b"", **options):
    return get(*lines, method="POST", **options) + body


def chunked(body, **options):
    return post("transfer-encoding: chunked", body=body, **options)


SECOND = get()
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SMUGGLED = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n"
REFUSED = "400 closed"
TABLE = [
    ("CL.TE", post("content-length: 5", "transfer-encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED), REFUSED),
    ("TE.CL", post("transfer-encoding: chunked", "content-length: 4",
                   body=b"5\r\nhello\r\n0\r\n\r\n" + SMUGGLED), REFUSED),
    ("TE: xchunked", post("transfer-encoding: xchunked", body=b"0\r\n\r\n"), "400 closed|501 closed"),
    ("TE: chunked, identity", post("transfer-encoding: chunked, identity", body=b"0\r\n\r\n"),
     "400 closed|501 closed"),
    ("TE: gzip, chunked", post("transfer-encoding: gzip, chunked", body=b"0\r\n\r\n"), "501 closed"),
    ("TE: gzip", post("transfer-encoding: gzip", body=b"0\r\n\r\n"), "400 closed|501 closed"),
    ("TE twice", post("transfer-encoding: chunked", "transfer-encoding: chunked", body=b"0\r\n\r\n"),
     "400 closed|501 closed"),
    ("TE : blank before the colon", post("transfer-encoding : chunked", body=b"0\r\n\r\n"), REFUSED),
    ("TE: vertical tab", post("transfer-encoding: \x0bchunked", body=b"0\r\n\r\n"), REFUSED),
    ("TE in HTTP/1.0", post("transfer-encoding: chunked", body=b"0\r\n\r\n", version="1.0"), REFUSED),
    ("CL twice, differing", post("content-length: 0", "content-length: 3", body=b"abc"), REFUSED),
    ("CL: 0, 37", post("content-length: 0, 37", body=b"x" * 37), REFUSED),
    ("CL: +0", post("content-length: +0"), REFUSED),
    ("CL: -1", post("content-length: -1"), REFUSED),
    ("CL: 0x0", post("content-length: 0x0"), REFUSED),
    ("CL: 2^64", post("content-length: 18446744073709551616"), "400 closed|413 closed"),
    ("CL: 2^63", post("content-length: 9223372036854775808"), "400 closed|413 closed"),
    ("CL: empty", post("content-length: "), REFUSED),
    ("CL: 1e1", post("content-length: 1e1", body=b"x" * 10), REFUSED),
    ("CL: a blank inside", post("content-length: 1 0", body=b"x" * 10), REFUSED),
    ("obs-fold", get("x: a", " b"), REFUSED),
    ("bare LF", b"GET /healthz HTTP/1.1\nhost: localhost\n\n", REFUSED),
    ("bare LF behind one field", b"GET /healthz HTTP/1.1\r\nhost: localhost\nx: y\r\n\r\n", REFUSED),
    ("bare CR in a value", get("x: a\rb"), REFUSED),
    ("CR CR LF", get("x: a\r"), REFUSED),
    ("NUL in a value", get("x: a\0b"), REFUSED),
    ("high bytes in a value", get("x: \xe4\xf6"), "200 open"),
    ("NUL in the target", get(path="/heal\0thz"), REFUSED),
    ("blank first line of fields", b"GET /healthz HTTP/1.1\r\n x: y\r\nhost: localhost\r\n\r\n", REFUSED),
    ("no Host", get(host=False), REFUSED),
    ("two Hosts", get("host: other"), REFUSED),
    ("Host with a path", get("host: a/b@c", host=False), REFUSED),
    ("Host with userinfo", get("host: me@localhost", host=False), REFUSED),
    ("Host, empty", get("host:", host=False), "200 open"),
    ("Host with a port", get("host: localhost:80", host=False), "200 open"),
    ("Host, IPv6", get("host: [::1]:80", host=False), "200 open"),
    ("no Host in HTTP/1.0", get(host=False, version="1.0"), "200 closed"),
    ("chunk with an extension", chunked(b"2;a=b\r\n{}\r\n0\r\n\r\n", path=REGISTRATIONS), "200 open"),
    ("chunk: bare LF behind an extension", chunked(b"1;a=b\nx\r\n0\r\n\r\n"), REFUSED),
    ("chunk of 10000000000000000", chunked(b"10000000000000000\r\nx"), REFUSED),
    ("chunk of 0x3", chunked(b"0x3\r\nabc\r\n0\r\n\r\n"), REFUSED),
    ("chunk of -3", chunked(b"-3\r\nabc\r\n0\r\n\r\n"), REFUSED),
    ("chunk of a blank", chunked(b" \r\nabc\r\n0\r\n\r\n"), REFUSED),
    ("chunk longer than it says", chunked(b"3\r\nabcdef\r\n0\r\n\r\n"), REFUSED),
    ("chunk: LF behind the data", chunked(b"3\r\nabc\n0\r\n\r\n"), REFUSED),
    ("chunks past what the path takes", chunked(b"ffff\r\n" + bytes(0xffff)), "413 closed"),
    ("trailers", chunked(b"2\r\n{}\r\n0\r\nx-test: y\r\n\r\n", path=REGISTRATIONS), "200 open"),
    ("trailer flood of 1 MB", chunked(b"1\r\nx\r\n0\r\n" + b"x-test: y\r\n" * 100_000),
     "400 closed|431 closed"),
    ("three in a row", SECOND * 3, "200 200 200 open"),
    ("5,000 in a row", SECOND * 5000, "200 " * 5000 + "open"),
    ("200 fields", get(*["x: y"] * 200), "431 closed"),
    ("20 KB of fields", get(*[f"x{n}: " + "y" * 1000 for n in range(20)]), "431 closed"),
    ("a value of 10 MB", get()[:-2] + b"x: " + b"y" * 10_000_000, "400 closed|431 closed"),
    ("10 MB of fields", get()[:-2] + b"x: y\r\n" * 1_600_000, "400 closed|431 closed"),
    ("a target of 100 KB", get(path="/" + "x" * 100_000), "400 closed|431 closed|414 closed"),
    ("a target of 10 MB", b"GET /" + b"x" * 10_000_000, "400 closed|431 closed|414 closed"),
    ("Expect: 100-continue",
     post("expect: 100-continue", "content-length: 2", body=b"{}", path=REGISTRATIONS), "100 200 open"),
    ("Expect in HTTP/1.0", post("expect: 100-continue", "content-length: 2", body=b"{}", path=REGISTRATIONS,
                                version="1.0"), "200 closed"),
    ("Expect with more than the path takes", post("expect: 100-continue", "content-length: 10000000"),
     "413 closed"),
    ("Expect with more than a send takes", BATCH + b"expect: 100-continue\r\ncontent-length: 100000\r\n\r\n",
     "413 closed"),
    ("Expect with what a send takes", BATCH + b"expect: 100-continue\r\ncontent-length: 50000\r\n\r\n",
     "100 open"),
    ("a send that nobody signed", b"POST /v1/projects/demo/messages:send HTTP/1.1\r\n" + HOST
     + b"expect: 100-continue\r\ncontent-length: 50000\r\n\r\n", "401 closed"),
    ("more than the path takes, and the body", post("content-length: 3000000", body=bytes(3_000_000)),
     "413 closed"),
    ("absolute-form", get(path="http://localhost/healthz"), "200 open"),
    ("absolute-form without a path", get(path="http://localhost"), "200 open"),
    ("absolute-form, its authority counts", get(path="http://me@x/healthz"), REFUSED),
    ("asterisk-form", get(path="*", method="OPTIONS"), "204 open"),
    ("CONNECT", get(path="localhost:80", method="CONNECT"), "405 closed|501 closed"),
    ("CONNECT, then anything", get(path="localhost:80", method="CONNECT") + bytes(1 << 20),
     "405 closed|501 closed"),
    ("TRACE", get(method="TRACE"), "405 open"),
    ("a method of others", get(method="PROPFIND"), "501 open"),
    ("HTTP/1.0", get(version="1.0"), "200 closed"),
    ("HTTP/1.0 keep-alive", get("connection: keep-alive", version="1.0") * 2, "200 200 open"),
    ("HTTP/0.9", b"GET /healthz\r\n\r\n", REFUSED),
    ("HTTP/2.0", get(version="2.0"), REFUSED),
    ("HTTP/1.9", get(version="1.9"), REFUSED),
    ("Connection: close", get("connection: close"), "200 closed"),
    ("Upgrade: h2c", get("connection: upgrade", "upgrade: h2c"), "200 closed"),
    ("Upgrade: h2c, then another", get("connection: upgrade", "upgrade: h2c") + SECOND, "200 closed"),
    ("Upgrade: websocket, then anything", get("connection: upgrade", "upgrade: websocket") + bytes(1 << 20),
     "200 closed"),
    ("Upgrade without Connection, then another", get("upgrade: websocket") + SECOND, "200 closed"),
    ("Upgrade: websocket, a tab behind the word, then others",
     get("connection: upgrade\t", "upgrade: websocket") + SECOND * 50, "200 closed"),
    ("Upgrade: websocket, a tab inside the list, then others",
     get("connection: upgrade\t, x", "upgrade: websocket") + SECOND * 50, "200 closed"),
    ("Upgrade: h2c with its settings, then HTTP/2",
     get("connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQAAP__")
     + PREFACE + bytes(100), "200 closed"),
    ("Upgrade with a body, then another",
     post("connection: upgrade", "upgrade: h2c", "content-length: 2", body=b"{}", path=REGISTRATIONS)
     + SECOND, "200 closed"),
    ("Upgrade and Expect, then another",
     post("connection: upgrade", "upgrade: h2c", "expect: 100-continue", "content-length: 2", body=b"{}",
          path=REGISTRATIONS) + SECOND, "100 200 closed"),
    ("the preface of HTTP/2 behind a request", SECOND + PREFACE, "200 400 closed"),
    ("the preface of HTTP/2 behind an empty line", CRLF + PREFACE, REFUSED),
    ("Connection: close and a tab", get("connection: close\t") + SECOND, "200 closed|200 200 open"),
    ("CL and a tab", post("content-length: 2\t", body=b"{}", path=REGISTRATIONS) + SECOND, REFUSED),
    ("CL and a blank", post("content-length: 2 ", body=b"{}", path=REGISTRATIONS) + SECOND,
     "200 200 open|413 closed"),
    ("TE: chunked and a tab", post("transfer-encoding: chunked\t", body=b"2\r\n{}\r\n0\r\n\r\n",
                                    path=REGISTRATIONS) + SECOND,
     "200 200 open|400 closed|501 closed"),
    ("Expect and a tab", post("expect: 100-continue\t", "content-length: 2", body=b"{}",
                              path=REGISTRATIONS) + SECOND, "200 200 open|100 200 200 open"),
    ("HEAD, then another", get(method="HEAD") + SECOND, "200 200 open"),
    ("GET with a body, then another", get("content-length: 3") + b"abc" + SECOND, "200 200 open"),
    ("lower-case method", get(method="get"), "400 closed|501 closed"),
    ("odd method", get(method="G@T"), REFUSED),
    ("tab in the request line", b"GET\t/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", REFUSED),
    ("CRLF in front", CRLF * 2 + SECOND, "200 open"),
    ("path with dots", get(path="/./healthz"), "404 open"),
    ("garbage", b"\x16\x03\x01\x02\x00\x01\x00garbage\r\n\r\n", REFUSED),
    ("admin over TCP", get(path="/admin/projects"), "404 open"),
]


def observe(port, tls, piece, wanted):
    """The server's answers, in the table's words. After the last wanted answer the client listens 0.15 s
    longer."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    if tls:
        connection = tls.wrap_socket(connection, server_hostname="localhost")
    came, end, closed = b"", time.monotonic() + 20, False
    connection.setblocking(False)
    while not closed and time.monotonic() < end:
        quiet = True
        try:
            got = connection.recv(65536)
            closed, came, quiet = got == b"", came + got, False
        except (BlockingIOError, TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            closed = True
        try:
            if piece and not closed:
                piece = piece[connection.send(piece[:65536]):]
                quiet = False
        except OSError:
            pass
        if not quiet:
            continue
        if not piece and words(came, False) in wanted:
            # No further answer may come.
            end = min(end, time.monotonic() + 0.15)
        time.sleep(0.005)
    connection.close()
    return words(came, closed)


def words(came, closed):
    statuses = re.findall(rb"HTTP/1\.1 (\d\d\d) ", came)
    return " ".join([status.decode() for status in statuses] + ["closed" if closed else "open"])


def main():
    server = begin(sys.argv[1])
    wrong = []
    for way, port, tls in server.ways("http/1.1"):
        good = 0
        for row, piece, allowed in TABLE:
            wanted = allowed.split("|")
            seen = observe(port, tls, piece, wanted)
            good += seen in wanted
            if seen not in wanted:
                wrong.append(f"FAIL {row}, {way}: {allowed[:60]} wanted, came: {seen[:60]}")
        print(f"HTTP/1.1, {way}: {good} of {len(TABLE)} as they should be")
    return ending(server, wrong)


if __name__ == "__main__":
    sys.exit(main())
