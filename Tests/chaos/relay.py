"""A relay between nodes and PostgreSQL that loses the answers to some appends.

    relay.py PORT DATABASE_PORT SEED PROBABILITY

The relay reads as much of the protocol as it needs: which prepared statements insert records into the
journal, and when the database has finished such a statement ("ready for query" comes after the commit). With
PROBABILITY it drops the answer to an append and cuts both connections: half of the time after the answer has
come, and half of the time before, so that not even the relay knows whether the database has committed. Ends
at the end of its standard input, and prints the counts.
"""
import random
import selectors
import socket
import sys


class Link:
    def __init__(self, client, server):
        self.client, self.server = client, server
        self.statements, self.started = set(), False
        self.from_client, self.from_server = b"", b""
        self.doomed = None  # None, "before" or "after"
        self.held = b""

    def messages(self, data, is_client):
        """(whole messages, the rest of the data)."""
        found, place = [], 0
        while True:
            head = 0 if is_client and not self.started else 1
            if len(data) < place + head + 4:
                break
            length = int.from_bytes(data[place + head:place + head + 4], "big") + head
            if len(data) < place + length:
                break
            message = data[place:place + length]
            if is_client and not self.started and message[4:8] == (196608).to_bytes(4, "big"):
                self.started = True
                found.append(b"\0" + message)
            else:
                found.append(message if head else b"\0" + message)
            place += length
        return found, data[place:]


class Relay:
    """Passes all bytes on, except that it loses the answers to a share of the appends."""

    def __init__(self, port, database, seed, share):
        self.database, self.share, self.random = database, share, random.Random(seed)
        self.choose = selectors.DefaultSelector()
        self.listener = socket.create_server(("0.0.0.0", port), backlog=64)
        self.choose.register(self.listener, selectors.EVENT_READ, None)
        self.choose.register(sys.stdin, selectors.EVENT_READ, None)
        self.counts = {"appends": 0, "before": 0, "after": 0}

    def close(self, link):
        for end in (link.client, link.server):
            try:
                self.choose.unregister(end)
            except (KeyError, ValueError):
                pass
            end.close()

    def client_said(self, link, data):
        found, link.from_client = link.messages(link.from_client + data, True)
        for message in found:
            kind, body = message[:1], message[5:]
            if kind == b"P":
                name, text = body.split(b"\0", 2)[:2]
                if b"INSERT INTO tidecast.journal" in text:
                    link.statements.add(name)
            elif kind == b"B" and body.split(b"\0", 2)[1] in link.statements:
                self.counts["appends"] += 1
                if self.random.random() < self.share:
                    link.doomed = self.random.choice(["before", "after"])
        link.server.sendall(data)
        if link.doomed == "before" and any(message[:1] == b"S" for message in found):
            self.counts["before"] += 1
            self.close(link)

    def server_said(self, link, data):
        if not link.doomed:
            link.client.sendall(data)
            return
        # The client gets nothing of the answer. When the answer is complete, the relay closes both
        # connections.
        link.held += data
        if link.held[-6:-1] == b"Z\0\0\0\5":
            self.counts["after"] += 1
            self.close(link)

    def accept(self):
        client, _ = self.listener.accept()
        server = socket.create_connection(("127.0.0.1", self.database), timeout=5)
        link = Link(client, server)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.choose.register(end, selectors.EVENT_READ, (link, end is client))

    def read(self, link, is_client):
        try:
            data = (link.client if is_client else link.server).recv(65536)
            if not data:
                self.close(link)
            elif is_client:
                self.client_said(link, data)
            else:
                self.server_said(link, data)
        except (OSError, ValueError):
            self.close(link)

    def run(self):
        """Relays until standard input ends, and then prints the counts."""
        print("ready", flush=True)
        while True:
            for key, _ in self.choose.select(1):
                if key.fileobj is sys.stdin:
                    print(f"{self.counts['appends']} appends, {self.counts['before']} cut before the answer"
                          " came,"
                          f" {self.counts['after']} after it had come")
                    return
                if key.fileobj is self.listener:
                    self.accept()
                else:
                    self.read(*key.data)


if __name__ == "__main__":
    Relay(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])).run()
