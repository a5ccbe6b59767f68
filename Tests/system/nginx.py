"""nginx as Debian configures it, before one server. The site is the one of docs/admin-sdks.md."""
import os
import re
import shutil
import signal
import subprocess

from system.checks import until
from system.ports import free_port, status_at
from system.process import ROOT, UNPRIVILEGED

CONFIGURATION = "/etc/nginx/nginx.conf"
PAGE = "docs/admin-sdks.md"
START_SECONDS = 30


def program():
    """The path of nginx, or None."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def replaced(text, pairs):
    """The text with each first word of `pairs` in the text replaced, which must be there once."""
    for old, new in pairs:
        if text.count(old) != 1:
            raise SystemExit(f"FAIL: nginx's text does not say once: {old}")
        text = text.replace(old, new)
    return text


class Nginx:
    """Sites before a server that listens without TLS at `server` on 127.0.0.1. `certificates`: the folder of
    `server.pem` and `server.key`. `folder` belongs to the user of nginx, and has the configuration and the
    logs."""

    def __init__(self, folder, server, certificates):
        self.folder, self.server, self.certificates = folder, server, certificates
        self.sites, self.process, self.ports = "", None, []

    def site(self, more="", lines=None, version=" http2"):
        """Adds the page's site and returns its port. `more`: further lines of its location; `lines`: all
        lines of the location in place of the page's; `version`: what the listener offers with HTTP/1.1."""
        with open(os.path.join(ROOT, PAGE), encoding="utf-8") as file:
            text = re.search(r"```nginx\n(.*?)```", file.read(), re.S)[1]
        port = free_port()
        pairs = [("listen 443 ssl http2;", f"listen 127.0.0.1:{port} ssl{version};"),
                 ("certs/server.pem", f"{self.certificates}/server.pem"),
                 ("certs/server.key", f"{self.certificates}/server.key")]
        text = replaced(text, pairs)
        if lines is not None:
            text = f"{text.partition('underscores_in_headers')[0]}location / {{\n{lines} }}\n}}\n"
        text = replaced(text, [("proxy_pass http://127.0.0.1:8787;",
                                f"proxy_pass http://127.0.0.1:{self.server};\n{more}")])
        self.sites += text
        self.ports.append(port)
        return port

    def start(self):
        """Starts nginx, and waits until it serves."""
        with open(CONFIGURATION, encoding="utf-8") as file:
            text = file.read()
        own = "".join(f"{kind}_temp_path {self.folder}/{kind};\n"
                      for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        text = replaced(text, [
            ("user www-data;", "daemon off;"), ("/run/nginx.pid", f"{self.folder}/pid"),
            ("/var/log/nginx/error.log", f"{self.folder}/error.log"),
            ("/var/log/nginx/access.log", f"{self.folder}/access.log"),
            ("include /etc/nginx/modules-enabled/*.conf;", ""), ("include /etc/nginx/conf.d/*.conf;", own),
            ("include /etc/nginx/sites-enabled/*;", self.sites)])
        path = os.path.join(self.folder, "nginx.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        with open(os.path.join(self.folder, "nginx.out"), "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [UNPRIVILEGED, program(), "-e", f"{self.folder}/error.log", "-p", self.folder, "-c", path],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if until(self.serves, START_SECONDS) is None:
            raise SystemExit(f"FAIL: nginx does not serve within {START_SECONDS} s: {self.said()}")

    def serves(self):
        """Whether nginx answers at its last site."""
        if self.process.poll() is not None:
            raise SystemExit(f"FAIL: nginx has ended: {self.said()}")
        return status_at(self.ports[-1]) == 400

    def said(self):
        """What nginx has said of errors."""
        text = ""
        for name in ("nginx.out", "error.log"):
            if os.path.exists(f"{self.folder}/{name}"):
                with open(f"{self.folder}/{name}", encoding="utf-8", errors="replace") as file:
                    text += file.read()
        return text[-2000:]

    def end(self):
        """Ends nginx, if it runs."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(START_SECONDS)
