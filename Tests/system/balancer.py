"""A balancer in front of several nodes, as an app sees a cluster: one port, and TCP connections that each go
to one node."""
import contextlib
import itertools
import socket
import threading

from system.ports import free_port, listen


class Balancer:
    """Gives each connection to the next node that takes one, until the test ends. While `passes` is clear, no
    byte passes, no connection ends, and a new one gets no answer, as where a network drops all packets."""
    host = "127.0.0.1"

    def __init__(self, nodes):
        self.nodes, self.port, self.turns = nodes, free_port(), itertools.count()
        self.passes = threading.Event()
        self.passes.set()
        self.listener = listen(self.port, self.serve)

    def serve(self, client):
        """Connects the client with a node, and closes the client's connection where no node takes one."""
        turn = next(self.turns)
        with client:
            self.passes.wait()
            for place in range(len(self.nodes)):
                node = self.nodes[(turn + place) % len(self.nodes)]
                with contextlib.suppress(OSError):
                    server = socket.create_connection((node.host, node.port))
                    break
            else:
                return
            with server:
                back = threading.Thread(target=self.pump, args=(server, client), daemon=True)
                back.start()
                self.pump(client, server)
                back.join()

    def pump(self, source, target):
        """Copies bytes until one side ends, and then ends both."""
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self.passes.wait()
                target.sendall(data)
        self.passes.wait()
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
