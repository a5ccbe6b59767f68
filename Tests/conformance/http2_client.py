"""An HTTP/2 client for the rows that look at frames and streams."""
import time

import h2.config
import h2.connection
import h2.events
from harness import answer_of, expect


class HTTP2:
    """An HTTP/2 client that sends any request, valid or not."""

    def __init__(self, server, tls=False, window=None):
        self.socket = server.connect(tls, ["h2"])
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8",
                                           validate_outbound_headers=False, normalize_outbound_headers=False)
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        if window:
            self.h2.increment_flow_control_window(window)
        self.answers, self.bodies, self.done, self.goaway = {}, {}, set(), None
        self.rest = b""
        self.push()

    def push(self):
        self.socket.sendall(self.h2.data_to_send())

    def request(self, method, path, bearer, body=None, scheme="http", authority="localhost", extra=()):
        stream = self.h2.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path),
                  ("authorization", f"Bearer {bearer}"), ("content-type", "application/json"), *extra]
        self.h2.send_headers(stream, fields, end_stream=body is None)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=True)
        return stream

    def request_open(self, method, path, bearer):
        """Sends the headers of a request; the body comes later."""
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream,
                             [(":method", method), (":scheme", "http"), (":authority", "x"), (":path", path),
                                      ("authorization", f"Bearer {bearer}")])
        self.push()
        return stream

    def read(self, until, seconds=20):
        """Handles frames until `until()` holds. False where the server closes, or the time runs out,
        before."""
        end = time.monotonic() + seconds
        while not until():
            self.socket.settimeout(max(0.01, end - time.monotonic()))
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                return False
            if not data:
                return False
            for event in self.events(data):
                if isinstance(event, h2.events.ResponseReceived):
                    self.answers[event.stream_id] = dict(event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)):
                    self.done.add(event.stream_id)
                elif isinstance(event, h2.events.ConnectionTerminated):
                    self.goaway = event
            self.push()
        return True

    def events(self, data):
        """The events of all whole frames that have come. After a GOAWAY the streams up to its last one go on
        (RFC 9113 §6.8), where h2 takes the connection for closed: so it gets one frame at a time, and is
        opened again behind that frame."""
        self.rest += data
        while len(self.rest) >= 9 and len(self.rest) >= 9 + int.from_bytes(self.rest[:3], "big"):
            end = 9 + int.from_bytes(self.rest[:3], "big")
            frame, self.rest = self.rest[:end], self.rest[end:]
            yield from self.h2.receive_data(frame)
            if self.h2.state_machine.state == h2.connection.ConnectionState.CLOSED:
                self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN

    def answer(self, stream):
        expect(self.read(lambda: stream in self.done), "no answer on stream", stream)
        headers = self.answers.get(stream, {})
        return answer_of(int(headers.get(":status", 0)), headers, self.bodies.get(stream, b""))
