"""TLS handshakes beside nginx's: T17."""
import re
import statistics
import subprocess
import time

from bench.common import RELEASE, run, say, simulated
from bench.peers import Process, SecureNginx
from bench.servers import Tidecast
from system import kernel
from system.ports import free_port
from system.process import tls_words

S_TIME = ["openssl", "s_time", "-new", "-tls1_3", "-time", "3", "-connect"]
H2LOAD = ["h2load", "-n", "1000", "-c", "1000", "-r", "400"]


def handshakes(port):
    """Full handshakes by four clients at once, for 3 s; their number."""
    clients = [subprocess.Popen([*S_TIME, f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True)
               for _ in range(4)]
    return sum(int(re.search(r"(\d+) connections in \d+ real", client.communicate()[0])[1])
               for client in clients)


def first_requests(port):
    """A request on each of 1,000 new connections; the number of answers with 200."""
    out = run(*H2LOAD, f"https://127.0.0.1:{port}/healthz")
    return int(re.search(r"(\d+) 2xx", out)[1])


def t17(_):
    """Both servers in turn, ten times after a warm-up; the figure is the median of the ratios."""
    spent = {}
    with Process() as files:
        run(RELEASE, "cert", "make", "--out", files.folder, "--name", "localhost")
        port = free_port()
        with (Tidecast("--loops", "1", *tls_words(port, files.folder)) as server,
              SecureNginx(files.folder) as nginx):
            sides = [("tidecast", server.process.pid, port), ("nginx", nginx.pid, nginx.port)]
            for _ in range(11):
                for name, load in (("handshake", handshakes), ("request", first_requests)):
                    for who, pid, port in sides:
                        before, began = kernel.cpu_seconds(pid), time.monotonic()
                        count = load(port)
                        lasted = time.monotonic() - began
                        time.sleep(0.2)
                        spent.setdefault((name, who),
                                         []).append(((kernel.cpu_seconds(pid) - before) * 1e6 / count, count,
                                                     lasted))
    rows, ratios = [], {}
    for name, command in (("handshake", S_TIME), ("request", H2LOAD)):
        # The first run of each was the warm-up.
        pairs = sorted(zip(spent[name, "tidecast"][1:], spent[name, "nginx"][1:], strict=True),
                       key=lambda pair: pair[0][0] / pair[1][0])
        ratios[name] = statistics.median(own[0] / other[0] for own, other in pairs)
        for place, who in enumerate(("tidecast", "nginx")):
            runs = [pair[place] for pair in pairs]
            us = statistics.median(one[0] for one in runs)
            say(f"  {who}, {name}: {us:.0f} µs each of " + ", ".join(f"{one[0]:.0f}" for one in runs))
            rows.append(simulated(
                f"{who}, {name}", " ".join(command) + " …", {}, us=us, all_us=[one[0] for one in runs],
                rate=statistics.median(one[1] / one[2] for one in runs),
                operations=sum(one[1] for one in runs)))
        say(f"  {name}: {ratios[name]:.2f} times nginx's, of "
            + ", ".join(f"{own[0] / other[0]:.2f}" for own, other in pairs))
    rows[0].update(ratios)
    return rows


LOADS = {"T17": t17}
