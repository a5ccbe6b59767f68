"""A balancer in front of several nodes, as an app sees a cluster: one port, and TCP connections that each go
to one node."""
import contextlib
import itertools
import socket
import threading

from system.ports import free_port


class Balancer:
    """Gives each connection to the next node that takes one, until the test ends."""
    host = "127.0.0.1"

    def __init__(self, nodes):
        self.nodes, self.port, self.turns = nodes, free_port(), itertools.count()
        self.listener = socket.create_server((self.host, self.port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        """Takes connections; the balancer's thread runs this."""
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client, next(self.turns)), daemon=True).start()

    def serve(self, client, turn):
        """Connects the client with a node, and closes the client's connection where no node takes one."""
        with client:
            for place in range(len(self.nodes)):
                node = self.nodes[(turn + place) % len(self.nodes)]
                with contextlib.suppress(OSError):
                    server = socket.create_connection((node.host, node.port))
                    break
            else:
                return
            with server:
                back = threading.Thread(target=pump, args=(server, client), daemon=True)
                back.start()
                pump(client, server)
                back.join()


def pump(source, target):
    """Copies bytes until one side ends, and then ends both."""
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
