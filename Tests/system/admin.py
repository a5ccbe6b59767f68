"""Requests over a server's admin socket. The command line can also work where no process runs; these requests
cannot."""
import http.client
import json
import os
import socket

from system.process import OWNER


class AdminConnection(http.client.HTTPConnection):
    """A connection to the admin socket in a server's data folder."""

    def __init__(self, folder, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = os.path.join(folder, "admin.sock")

    def connect(self):
        """Connects to the socket. Raises OSError where no process listens there."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(folder, method, path, body=None, timeout=30):
    """Status and text of a request to the server with this data folder. Raises OSError and HTTPException."""
    connection = AdminConnection(folder, timeout)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, OWNER)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
