"""Recorded requests of SDKs through the balancer of the compose files: see balancer_sdks.sh."""
import signal
import sys

from recorded import Shop, Way, exchanges, replay

from system.checks import check
from system.haproxy import HAProxy
from system.ports import free_port
from system.process import Server, make_certificates, tls_words

WORK, RECORDINGS = sys.argv[1:]


def main():
    certificates = f"{WORK}/edge"
    make_certificates(certificates, "--name", "localhost")
    secure = free_port()
    probe = free_port()
    server = Server(WORK, *tls_words(secure, certificates), "--proxy", "127.0.0.1", "--listen-metrics",
                    f"127.0.0.1:{probe}")
    balancer = HAProxy(WORK, probe, secure)
    server.start()
    try:
        server.wait_ready()
        balancer.start()
        shops = {name: Shop(server, name) for name in ("shop", "other")}
        direct, through = Way(secure, certificates), Way(balancer.port, certificates)
        seen = set()
        for name, recorded in exchanges(RECORDINGS):
            for exchange in recorded:
                wanted = exchange["answer"]["status"]
                alone, behind = (replay(way, exchange, shops, WORK) for way in (direct, through))
                where = f"{name}, {exchange['what']}"
                if alone[0] != wanted or behind != alone:
                    raise SystemExit(f"FAIL: {where}: {alone} without a balancer, {behind} behind it")
            versions = ", ".join(sorted({one["request"]["http"] for one in recorded}))
            seen.add(name.split("-")[0])
            check(len(recorded) >= 9, f"{name}: {len(recorded)} requests over {versions}")
        check(seen == {"go", "java", "node", "python"}, f"recordings of {sorted(seen)}")
    finally:
        if balancer.process:
            balancer.end(signal.SIGTERM)
        server.end()


main()
