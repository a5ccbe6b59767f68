"""A strict stand-in for Apple's push service for tests: HTTP/2 by the package h2 over TLS, one thread for
each connection. A connection allows one stream until its first 200, and belongs to the first sender's team
and key. What a good client never does is a mistake, and stands in `mistakes`; what Apple only advises against
stands in `advice`.

    python3 -m system.apnsservice --self-test     clients that are not Tidecast's against the service
"""
import json
import queue
import ssl
import sys
import threading
import time

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from system.apnsrules import Binding, Keys, RefusedError, check_fields, check_payload, device_token
from system.ports import listen

# Fields whose values are another one in each request: they must not fill the service's compression table.
PASSING = {b":path", b"apns-id", b"apns-expiration", b"apns-collapse-id"}


class Plan:
    """What the service does with requests for a device. `status` with `reason` and `timestamp`, after `delay`
    seconds; or `act`: "refuse" (REFUSED_STREAM), "reset" (INTERNAL_ERROR), "cut" (closes the connection),
    "silence". `times`: for so many requests, then 200; None for ever."""

    def __init__(self, status=200, reason=None, *, timestamp=None, delay=0, act=None, times=None):
        self.status, self.reason, self.timestamp = status, reason, timestamp
        self.delay, self.act, self.times = delay, act, times


class Device:
    """What came for a device's token. `accepted`: (time, connection, message, fields) of each request with a
    200; `disowned`: the same of requests that a GOAWAY called not processed."""

    def __init__(self):
        self.plan, self.accepted, self.disowned, self.requests = None, [], [], 0


class APNsService:
    """The service on 127.0.0.1. `keys`: {key id: (team id, public key)}; `streams`: streams that a connection
    allows after its first 200; `record`: a file for one JSON line for each request and event."""

    def __init__(self, certificate, key, port, *, keys, streams=100, record=None):
        self.port, self.streams, self.offset = port, streams, 0
        self.keys = Keys(keys, self.clock)
        self.lock, self.devices, self.seen = threading.Lock(), {}, []
        self.mistakes, self.advice = [], []
        self.connections, self.count = {}, 0
        self.record = open(record, "a", encoding="utf-8") if record else None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.load_cert_chain(certificate, key)
        self.context.set_alpn_protocols(["h2"])
        self.listener = listen(port, self.serve)
        self.port = self.listener.getsockname()[1]

    def clock(self):
        """Seconds since 1970 as the service has them: `offset` moves them."""
        return time.time() + self.offset

    def device(self, token):
        with self.lock:
            return self.devices.setdefault(token, Device())

    def plan(self, token, *arguments, **named):
        """What happens to the next requests for a device: the arguments of Plan."""
        self.device(token).plan = Plan(*arguments, **named)

    def note(self, **what):
        what["at"] = time.monotonic()
        with self.lock:
            self.seen.append(what)
            if self.record:
                print(json.dumps(what), file=self.record, flush=True)

    def mistake(self, text):
        with self.lock:
            self.mistakes.append(text)
        self.note(event="mistake", text=text)

    def serve(self, raw):
        with self.lock:
            self.count += 1
            number = self.count
        try:
            raw.settimeout(10)
            secured = self.context.wrap_socket(raw, server_side=True)
        except OSError as error:
            self.note(event="no TLS", connection=number, text=str(error))
            raw.close()
            return
        if secured.selected_alpn_protocol() != "h2" or secured.version() not in ("TLSv1.2", "TLSv1.3"):
            self.mistake(f"ALPN {secured.selected_alpn_protocol()}, {secured.version()}")
            secured.close()
            return
        connection = Connection(self, secured, number)
        with self.lock:
            self.connections[number] = connection
        self.note(event="opened", connection=number)
        try:
            connection.run()
        except OSError as error:
            self.note(event="broken", connection=number, text=str(error))
        except h2.exceptions.ProtocolError as error:
            self.mistake(f"{type(error).__name__}: {error}")
        finally:
            with self.lock:
                self.connections.pop(number, None)
            secured.close()
            self.note(event="closed", connection=number)

    def each(self, command):
        """Has each connection carry out a command on its own thread."""
        with self.lock:
            for connection in self.connections.values():
                connection.commands.put(command)

    def allow(self, streams):
        """Open and later connections allow so many streams from now on."""
        self.streams = streams
        self.each(lambda connection: connection.allow(streams))

    def go_away(self, reason=None, *, processed=None):
        """All connections end. `processed`: how many of the streams under way are still answered; the others,
        and later ones, are not processed (GOAWAY's last stream). None: all are."""
        self.each(lambda connection: connection.go_away(reason, processed))

    def freeze(self):
        """All connections stay and do nothing more: no byte is read, none is written."""
        self.each(lambda connection: connection.freeze())

    def cut(self):
        """All connections break."""
        self.each(lambda connection: connection.cut())

    def close(self):
        self.listener.close()
        self.cut()
        if self.record:
            self.record.close()


class Connection:
    """One connection, on its own thread."""

    def __init__(self, service, secured, number):
        self.service, self.socket, self.number = service, secured, number
        self.commands, self.binding = queue.Queue(), Binding()
        config = h2.config.H2Configuration(client_side=False, header_encoding=None)
        self.h2 = h2.connection.H2Connection(config)
        self.h2.local_settings = Settings(client=False, initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: 1, SettingCodes.MAX_HEADER_LIST_SIZE: 8192})
        # Streams: (fields, body) while they come, and the answers that wait: (time, stream, plan).
        self.open, self.late = {}, []
        # What `accepted` of a device has of a stream.
        self.accepted = {}
        self.allowed, self.is_proven, self.last = 1, False, None
        self.is_cut, self.is_frozen = False, False
        # Bounds that the client has not acknowledged yet; it may still use the former one.
        self.unacknowledged = [1]

    def run(self):
        self.h2.initiate_connection()
        self.send()
        self.socket.settimeout(0.02)
        while not self.is_cut:
            self.carry_out()
            if self.is_cut:
                break
            if self.is_frozen:
                time.sleep(0.02)
                continue
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                continue
            if not data:
                return
            for event in self.h2.receive_data(data):
                self.take(event)
            self.send()

    def freeze(self):
        self.service.note(event="frozen", connection=self.number)
        self.is_frozen = True

    def send(self):
        self.socket.settimeout(10)
        self.socket.sendall(self.h2.data_to_send())
        self.socket.settimeout(0.02)

    def carry_out(self):
        """The commands, and the answers whose time has come."""
        while not self.commands.empty() and not self.is_cut:
            self.commands.get()(self)
        if self.is_cut or self.is_frozen:
            return
        now = time.monotonic()
        due = [late for late in self.late if late[0] <= now]
        self.late = [late for late in self.late if late[0] > now]
        for _, stream, answer in due:
            self.answer(stream, *answer)
        self.send()
        if self.last is not None and not self.open and not self.late:
            self.is_cut = True

    def take(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.begin(event)
        elif isinstance(event, h2.events.DataReceived):
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if event.stream_id in self.open:
                self.open[event.stream_id][1].extend(event.data)
        elif isinstance(event, h2.events.StreamEnded):
            if event.stream_id in self.open:
                self.finish(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.open.pop(event.stream_id, None)
            self.service.note(event="reset", connection=self.number, stream=event.stream_id)
        elif isinstance(event, h2.events.SettingsAcknowledged):
            if self.unacknowledged:
                self.allowed = self.unacknowledged.pop(0)
                self.service.note(event="bound", connection=self.number, streams=self.allowed)
        elif isinstance(event, h2.events.PriorityUpdated):
            self.service.mistake("a PRIORITY frame")
        elif isinstance(event, h2.events.PingReceived):
            self.service.note(event="ping", connection=self.number)
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.service.note(event="goodbye", connection=self.number, code=int(event.error_code))

    def begin(self, event):
        stream = event.stream_id
        if self.last is not None and stream > self.last:
            # The client may not know yet that the connection ends.
            return
        self.open[stream] = (event.headers, bytearray())
        if event.stream_ended:
            self.service.mistake("a request without a body")
        most = max([self.allowed, *self.unacknowledged])
        if len(self.open) > (most if self.is_proven else 1):
            self.service.mistake(f"{len(self.open)} streams at once, {most} allowed")
        for name, _ in self.h2.decoder.header_table.dynamic_entries:
            if bytes(name) in PASSING:
                self.service.advice.append(f"{bytes(name).decode()} is in the compression table")

    def finish(self, stream):
        """A request is whole."""
        raw, body = self.open[stream]
        fields = [(name.decode(), value.decode()) for name, value in raw]
        own = {name: value for name, value in fields if name.startswith(":")}
        what = {"event": "request", "connection": self.number, "stream": stream, "path": own[":path"],
                "fields": dict(fields), "open": len(self.open), "body": body.decode("utf-8", "replace")}
        try:
            token, message, found = self.checked(own, fields, bytes(body))
        except RefusedError as refused:
            self.service.note(**what, status=refused.status, reason=refused.reason)
            self.answer(stream, refused.status, refused.reason, None)
            return
        except Exception as error:  # pylint: disable=broad-except
            self.service.mistake(f"{type(error).__name__}: {error}")
            self.answer(stream, 400, "BadRequest", None)
            return
        device = self.service.device(token)
        device.requests += 1
        plan = self.next_plan(device)
        self.service.note(**what, status=plan.status, reason=plan.reason, act=plan.act)
        if plan.status == 200 and plan.act is None:
            self.accepted[stream] = device, (time.monotonic(), self.number, message, found)
            device.accepted.append(self.accepted[stream][1])
        self.act(stream, plan)

    def next_plan(self, device):
        plan = device.plan or Plan()
        if plan.times is not None:
            plan.times -= 1
            if plan.times <= 0:
                device.plan = None
        return plan

    def checked(self, own, fields, body):
        if own[":method"] != "POST":
            raise RefusedError(405, "MethodNotAllowed")
        assert own[":scheme"] == "https", own
        sent = [(name, value) for name, value in fields if not name.startswith(":")]
        authorization = dict(sent).get("authorization")
        team, key_id, issued = self.service.keys.sender(authorization)
        self.binding.check(team, key_id, authorization, issued)
        token = device_token(own[":path"])
        found = check_fields(sent)
        host = own.get(":authority", found.get("host"))
        assert host in ("localhost", f"localhost:{self.service.port}"), own
        return token, check_payload(body, found["apns-push-type"]), found

    def act(self, stream, plan):
        if plan.act == "refuse":
            self.reset(stream, h2.errors.ErrorCodes.REFUSED_STREAM)
        elif plan.act == "reset":
            self.reset(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
        elif plan.act == "cut":
            self.cut()
        elif plan.act is None:
            self.late.append((time.monotonic() + plan.delay, stream,
                              (plan.status, plan.reason, plan.timestamp)))
            if not plan.delay:
                self.carry_out()

    def answer(self, stream, status, reason, timestamp):
        if stream not in self.open:
            return
        fields, _ = self.open.pop(stream)
        self.accepted.pop(stream, None)
        answer = {"reason": reason} if reason else {}
        if timestamp is not None:
            answer["timestamp"] = timestamp
        body = json.dumps(answer).encode() if answer else b""
        echo = [(name.decode(), value.decode()) for name, value in fields if name == b"apns-id"]
        self.h2.send_headers(stream, [(":status", str(status)), *echo], end_stream=not body)
        if body:
            self.h2.send_data(stream, body, end_stream=True)
        if status == 200 and not self.is_proven:
            self.is_proven = True
            self.allow(self.service.streams)

    def reset(self, stream, code):
        self.open.pop(stream, None)
        self.h2.reset_stream(stream, code)

    def allow(self, streams):
        if self.is_proven:
            self.unacknowledged.append(streams)
            self.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: streams})

    def go_away(self, reason, processed):
        streams = sorted(self.open)
        left = [] if processed is None else streams[processed:]
        # A client's streams have odd numbers.
        self.last = max(left[0] - 2, 0) if left else self.h2.highest_inbound_stream_id
        for stream in left:
            self.open.pop(stream)
            device, accepted = self.accepted.pop(stream, (None, None))
            if device:
                device.accepted.remove(accepted)
                device.disowned.append(accepted)
        self.late = [late for late in self.late if late[1] in self.open]
        data = json.dumps({"reason": reason}).encode() if reason else b""
        self.service.note(event="goaway", connection=self.number, last=self.last, reason=reason)
        # h2 would send nothing more after a GOAWAY of its own.
        self.send()
        self.socket.sendall(GoAwayFrame(0, last_stream_id=self.last, additional_data=data).serialize())

    def cut(self):
        self.is_cut = True
        self.socket.close()


def main():
    if sys.argv[1:] != ["--self-test"]:
        print(__doc__)
        return 64
    from system import apnsselftest
    return apnsselftest.main()


if __name__ == "__main__":
    sys.exit(main())
