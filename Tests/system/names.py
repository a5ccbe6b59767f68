"""A name server for tests (RFC 1035): it answers one IPv4 address for every name, or nothing at all."""
import socket
import struct
import threading

HOST_ADDRESS, INTERNET = 1, 1


def answer(query, address):
    """The answer to a query of one question. Other kinds of addresses exist for no name."""
    end = query.index(b"\0", 12) + 1
    question = query[12:end + 4]
    kind, place = struct.unpack("!HH", question[-4:])
    is_known = (kind, place) == (HOST_ADDRESS, INTERNET)
    head = query[:2] + struct.pack("!HHHHH", 0x8580, 1, is_known, 0, 0)
    # The name is that of the question, and nobody may keep the address.
    record = struct.pack("!HHHIH", 0xC00C, HOST_ADDRESS, INTERNET, 0, 4) + socket.inet_aton(address)
    return head + question + (record if is_known else b"")


class NameServer:
    """The server at port 53 of 127.0.0.1. `address` may change; `asked` counts the questions. It leaves names
    that begin with `silent` without an answer: `unanswered` has them."""

    def __init__(self, address, silent=None):
        self.address, self.asked, self.silent, self.unanswered = address, 0, silent, set()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        """Answers until the test ends."""
        while True:
            query, client = self.socket.recvfrom(512)
            self.asked += 1
            first = query[13:13 + query[12]].decode()
            if self.silent and first.startswith(self.silent):
                self.unanswered.add(first)
                continue
            self.socket.sendto(answer(query, self.address), client)
