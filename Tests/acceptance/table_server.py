"""A development server for the tables of HTTP behaviours, in cleartext and over TLS."""
import os
import ssl
import subprocess
import time
import urllib.request

from ports import free_port

UNPRIVILEGED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/unprivileged")


class Server:
    def __init__(self, program, work):
        self.plain, self.secure = free_port(), free_port()
        subprocess.run([UNPRIVILEGED, program, "cert", "make", "--out", f"{work}/certs", "--name", "localhost"], check=True,
                       stdout=subprocess.DEVNULL)
        with open(f"{work}/log", "ab") as log:
            self.process = subprocess.Popen(
                [UNPRIVILEGED, program, "server", "--dev", "--data", f"{work}/data", "--listen", f"127.0.0.1:{self.plain}",
                 "--listen-tls", f"127.0.0.1:{self.secure}", "--cert", f"{work}/certs/server.pem",
                 "--key", f"{work}/certs/server.key"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(200):
            try:
                if self.answers():
                    return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("the server was not ready within 10 s")

    def answers(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.plain}/healthz", timeout=5) as answer:
            return answer.read() == b"ok\n"

    def ways(self, protocol):
        """The two ways to reach the server: a name, a port, and the TLS context (None for cleartext)."""
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        tls.set_alpn_protocols([protocol])
        return [("cleartext", self.plain, None), ("TLS", self.secure, tls)]

    def ending(self, wrong):
        """Kills the server, prints `wrong`, and returns the exit code: 0 where no row was wrong and the server still ran."""
        if self.process.poll() is not None:
            wrong.append("FAIL the server did not live through it")
        self.process.kill()
        self.process.wait()
        print(*wrong, sep="\n", end="")
        return 1 if wrong else 0
