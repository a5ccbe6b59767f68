"""The balancer of the compose files, HAProxy with the text of deploy/balancer.cfg, before one server."""
import os
import subprocess

from system.checks import until
from system.ports import free_port, status_at
from system.process import ROOT

START_SECONDS = 30


class HAProxy:
    """Clients reach the balancer at `port`; `health` is the port for its own health. The server has
    `/readyz` at `probe` and TLS at `secure`, all on 127.0.0.1. The configuration is in `folder`."""

    def __init__(self, folder, probe, secure, port=None, health=None):
        self.port, self.health = port or free_port(), health or free_port()
        self.folder, self.process = folder, None
        with open(os.path.join(ROOT, "deploy/balancer.cfg"), encoding="utf-8") as file:
            text = file.read()
        for old, new in (("bind :8443", f"bind 127.0.0.1:{self.port}"),
                         ("bind 127.0.0.1:8404", f"bind 127.0.0.1:{self.health}"),
                         ("check port 8789 ", f"check port {probe} "),
                         ("server-template gateway- 32 gateway:8443 resolvers containers init-addr none"
                          " resolve-prefer ipv4", f"server gateway 127.0.0.1:{secure}")):
            if text.count(old) != 1:
                raise SystemExit(f"FAIL: deploy/balancer.cfg does not say once: {old}")
            text = text.replace(old, new)
        self.config = os.path.join(folder, "balancer.cfg")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)

    def start(self):
        """Starts the balancer as the image does, and waits until it is ready."""
        with open(os.path.join(self.folder, "balancer.log"), "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(["haproxy", "-W", "-db", "-f", self.config],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if until(self.is_ready, START_SECONDS) is None:
            raise SystemExit(f"FAIL: the balancer is not ready within {START_SECONDS} s")

    def is_ready(self):
        return status_at(self.health, "/readyz") == 200

    def end(self, how):
        """Sends the signal, and waits for the end."""
        self.process.send_signal(how)
        self.process.wait(START_SECONDS)
