"""Devices: they register, are subscribed, listen to a stream of server-sent events, and acknowledge."""
import http.client
import json
import socket
import threading
import time

from system.process import BACKEND, OWNER

FAULTS = (OSError, http.client.HTTPException)


def events(lines):
    """The events of a stream: (id, event, data), with None for a field that the event lacks. `lines` are
    bytes."""
    found = {}
    for line in lines:
        text = line.decode().rstrip("\r\n")
        name, colon, value = text.partition(": ")
        if not text:
            if "event" in found or "data" in found:
                yield found.get("id"), found.get("event"), found.get("data")
            found = {}
        elif colon and name in ("id", "event", "data"):
            found[name] = value


class EventStream:
    """A device's stream on a connection of its own. One thread reads it, and any thread may close it. Raises
    OSError and HTTPException where the server does not answer; `status` tells whether it took the device."""

    def __init__(self, connection, path, credential, resume=None):
        if connection.sock is None:
            connection.connect()
        self.connection, self.socket = connection, connection.sock
        headers = {"authorization": f"Bearer {credential}", "accept": "text/event-stream, application/json"}
        if resume:
            headers["last-event-id"] = resume
        connection.request("GET", f"{path}:listen", headers=headers)
        self.answer = connection.getresponse()
        self.status = self.answer.status

    def events(self):
        """`events` of this stream, until it ends or breaks."""
        return events(self.answer)

    def close(self):
        """Ends the connection. A reader in another thread then meets the end of the stream or an error."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        # The response holds the socket too.
        self.answer.close()
        self.connection.close()


def register(server, headers=OWNER, project="demo"):
    """Registers a device and returns the server's answer. Ends the test where the answer is not 200."""
    status, body = server.call("POST", f"/v1/projects/{project}/registrations", {}, headers)
    if status != 200:
        raise SystemExit(f"FAIL: not registered: {status} {body}")
    return json.loads(body)


def subscribe(server, topic, tokens, verb="batchAdd", headers=BACKEND):
    """Subscribes the tokens to the topic, or ends that with `batchRemove`. Ends the test where one token is
    refused."""
    status, body = server.call("POST", f"/iid/v1:{verb}",
                               {"to": f"/topics/{topic}", "registration_tokens": tokens}, headers)
    if status != 200 or json.loads(body)["results"] != [{}] * len(tokens):
        raise SystemExit(f"FAIL: {verb} of {topic}: {status} {body}")


class Device:
    """A device that listens on a server until the test ends. When its stream ends, the device opens the next
    one after a pause."""
    pause = 0.2
    # The device acknowledges each message whose number this divides; 0 for none. A device with more than 100
    # waiting messages at the end of its stream may get `deleted_messages` in place of some of them (FCM's
    # bound).
    acknowledged = 0

    def __init__(self, server, registration, project="demo"):
        self.server = server
        self.token, self.credential = registration["token"], registration["credential"]
        self.path = f"/v1/projects/{project}/registrations/{self.token.split(':')[0]}"
        self.seen, self.order, self.last, self.streams = {}, [], None, 0
        self.lock = threading.Lock()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        """Opens one stream after the other; the device's thread runs this."""
        while True:
            try:
                connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=60)
                stream = EventStream(connection, self.path, self.credential, self.last)
                if stream.status == 200:
                    self.streams += 1
                    for event in stream.events():
                        self.receive(*event)
            except FAULTS:
                pass
            time.sleep(self.pause)

    def receive(self, event, kind, data):
        """Takes one event of the stream. A message has its number in its data."""
        if kind != "message":
            return
        number = int(json.loads(data)["data"]["n"])
        with self.lock:
            if number not in self.seen:
                self.order.append(number)
            self.seen[number] = self.seen.get(number, 0) + 1
        # The device remembers each fifth event only, so that its next stream gets some messages again.
        if number % 5 == 0:
            self.last = event
        if self.acknowledged and number % self.acknowledged == 0:
            self.acknowledge(event)

    def acknowledge(self, event):
        """Acknowledges all messages up to the event. Where the server does not answer, nothing happens."""
        try:
            self.server.call("POST", f"{self.path}:acknowledge", {"eventId": event},
                             {"authorization": f"Bearer {self.credential}",
                              "content-type": "application/json"})
        except FAULTS:
            pass

    def counts(self):
        """How often each number came so far, in the order of their first arrivals."""
        with self.lock:
            return {number: self.seen[number] for number in self.order}
