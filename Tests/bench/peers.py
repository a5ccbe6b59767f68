"""The peers on this machine: nginx with nchan, nginx with TLS, and redis. Each runs in a folder of its
own."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile

from bench.common import say
from system import kernel
from system.checks import until
from system.ports import free_port
from system.process import ROOT

NCHAN_MODULE = "/usr/lib/nginx/modules/ngx_nchan_module.so"
START_SECONDS = 30


def install():
    """Installs the peers' packages. A policy file keeps apt from starting their services (invoke-rc.d(8))."""
    wanted = {"/usr/sbin/nginx": "nginx", NCHAN_MODULE: "libnginx-mod-nchan",
              "/usr/bin/redis-server": "redis-server"}
    missing = [package for path, package in wanted.items() if not os.path.exists(path)]
    if not missing:
        return
    say("Installing " + " ".join(missing))
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    script = """
set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  printf '#!/bin/sh\\nexit 101\\n' > $policy; chmod +x $policy
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "$@"
"""
    subprocess.run(sudo + ["sh", "-c", script, "install"] + missing, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL)


class Process:
    """A server process with a folder of its own. The end of the `with` block ends the process and removes the
    folder."""

    def __init__(self, folder_of=None):
        self.folder = tempfile.mkdtemp(prefix="tidecast-bench-", dir=folder_of)
        self.process = None

    def spawn(self, *command):
        """Starts the process, which logs to the folder."""
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_port(self, port):
        """Waits until the process listens on the port. Raises RuntimeError where it ends before, and after 30
        s."""
        def has_come():
            if self.process.poll() is not None:
                raise RuntimeError(self.log_end())
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return True
            except OSError:
                return False
        if until(has_come, START_SECONDS) is None:
            raise RuntimeError(self.log_end())

    def log_end(self):
        """The last 2,000 characters of the log."""
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def end(self, how=signal.SIGTERM):
        """Ends the process with the signal, or after 60 s by SIGKILL."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)


class Nginx(Process):
    """nginx with nchan, one worker: HTTP/2 and HTTP/1.1 without TLS on two ports of the same channels."""

    def __init__(self):
        super().__init__()
        self.h2, self.h1 = free_port(), free_port()
        reply = '{\\"name\\": \\"projects/bench/messages/' + "0" * 62 + '\\"}'
        temporary = "".join(f"  {kind}_temp_path {self.folder}/{kind};\n"
                            for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
        user = "user root;\n" if os.geteuid() == 0 else ""
        with open(os.path.join(self.folder, "nginx.conf"), "w") as file:
            file.write(f"""load_module {NCHAN_MODULE};
{user}worker_processes 1; worker_rlimit_nofile 20000; daemon off;
pid {self.folder}/pid; error_log {self.folder}/error.log;
events {{ worker_connections 19000; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 3600s; http2_max_concurrent_streams 1024;
  nchan_shared_memory_size 512M;
{temporary}  server {{
    listen 127.0.0.1:{self.h2} http2 backlog=4096; listen 127.0.0.1:{self.h1} backlog=4096;
    location = /return {{ return 200 "{reply}"; }}
    location ~ ^/sub/(\\w+)$ {{
      nchan_subscriber eventsource; nchan_channel_id $1; nchan_subscriber_first_message newest;
      nchan_subscriber_timeout 0;
    }}
    location ~ ^/pub/(\\w+)$ {{ nchan_publisher; nchan_channel_id $1; nchan_message_buffer_length 10; }}
  }}
}}
""")
        self.spawn("/usr/sbin/nginx", "-p", self.folder, "-c", os.path.join(self.folder, "nginx.conf"))
        self.wait_port(self.h1)
        self.pids = [str(pid) for pid in kernel.children(self.process.pid)]

    def options(self, version=2):
        """The options of a load on nchan over HTTP/2 or HTTP/1.1."""
        if version == 1:
            return ["--kind", "nchan-h1", "--server", f"127.0.0.1:{self.h1}",
                    "--publish-server", f"127.0.0.1:{self.h2}", "--pid", ",".join(self.pids)]
        return ["--kind", "nchan", "--server", f"127.0.0.1:{self.h2}", "--pid", ",".join(self.pids)]


class SecureNginx(Process):
    """nginx with one worker: HTTP/2 over TLS, with a fixed answer. With `is_logged` the file `paths` has the
    path of each request. At `unavailable_port` each answer is 503."""

    def __init__(self, certificates, is_logged=False):
        super().__init__()
        self.port, self.unavailable_port = free_port(), free_port()
        self.paths = os.path.join(self.folder, "paths")
        log = "access_log off"
        if is_logged:
            log = f"log_format paths '$request_uri'; access_log {self.paths} paths"
        user = "user root;\n" if os.geteuid() == 0 else ""
        temporary = "".join(f"  {kind}_temp_path {self.folder}/{kind};\n"
                            for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
        with open(os.path.join(self.folder, "nginx.conf"), "w") as file:
            file.write(f"""{user}worker_processes 1; worker_rlimit_nofile 20000; daemon off;
pid {self.folder}/pid; error_log {self.folder}/error.log;
events {{ worker_connections 19000; }}
http {{
  {log}; keepalive_requests 1000000000;
{temporary}  server {{
    listen 127.0.0.1:{self.port} ssl http2 backlog=4096; ssl_protocols TLSv1.2 TLSv1.3;
    ssl_certificate {certificates}/server.pem; ssl_certificate_key {certificates}/server.key;
    location / {{ return 200 "ok\\n"; }}
  }}
  server {{
    listen 127.0.0.1:{self.unavailable_port} ssl http2 backlog=4096; access_log off;
    ssl_certificate {certificates}/server.pem; ssl_certificate_key {certificates}/server.key;
    location / {{ return 503; }}
  }}
}}
""")
        self.spawn("/usr/sbin/nginx", "-p", self.folder, "-c", os.path.join(self.folder, "nginx.conf"))
        self.wait_port(self.port)
        self.pid = kernel.children(self.process.pid)[0]


class Redis(Process):
    """redis, without persistence, or with each write synced (`is_durable`)."""

    def __init__(self, is_durable=False):
        super().__init__(os.path.join(ROOT, ".build") if is_durable else None)
        self.port = free_port()
        durable = ["--appendonly", "yes", "--appendfsync", "always"] if is_durable else ["--appendonly", "no"]
        self.spawn("/usr/bin/redis-server", "--port", str(self.port), "--bind", "127.0.0.1",
                   "--protected-mode", "no",
                   "--save", "", "--maxclients", "19000", "--dir", self.folder,
                   "--client-output-buffer-limit", "pubsub 0 0 0", *durable)
        self.wait_port(self.port)

    def options(self):
        """The options of a load on redis."""
        return ["--kind", "redis", "--server", f"127.0.0.1:{self.port}", "--pid", str(self.process.pid)]
