"""Messages to push services, beside an nginx that takes everything at once: T18."""
import base64
import os
import secrets
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from bench.common import RELEASE, run, say, simulated
from bench.peers import Process, SecureNginx
from bench.servers import Tidecast
from system import kernel
from system.checks import wait
from system.shop import Project

DEVICES = 4000
MESSAGES = 5
ROUNDS = 3


def encoded(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def point():
    """A public key on P-256: 65 bytes."""
    private = subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt",
                              "ec_paramgen_curve:P-256"], check=True, capture_output=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubout", "-outform", "DER"], input=private, check=True,
                         capture_output=True).stdout
    return der[-65:], private


def register(shop, block_of):
    """Devices with addresses, subscribed to a topic."""
    def one(number):
        return shop.register(shop.install(), **block_of(number))
    with ThreadPoolExecutor(4) as pool:
        tokens = list(pool.map(one, range(DEVICES)))
    return tokens


def fan_out(shop, service, server, nginx, topic):
    """CPU-µs of the server and of nginx for a message, and messages a second."""
    runs = []
    for _ in range(ROUNDS + 1):
        before = shop.pushed("accepted", service)
        spent, other = kernel.cpu_seconds(server.process.pid), kernel.cpu_seconds(nginx.pid)
        began = time.monotonic()
        for number in range(MESSAGES):
            shop.publish(topic, notification={"title": "Rain", "body": "in an hour"},
                         data={"number": str(number)})
        count = DEVICES * MESSAGES
        goal = before + count
        wait(lambda goal=goal: shop.pushed("accepted", service) >= goal, "all pushes", 300)
        lasted = time.monotonic() - began
        runs.append(((kernel.cpu_seconds(server.process.pid) - spent) * 1e6 / count,
                     (kernel.cpu_seconds(nginx.pid) - other) * 1e6 / count, count / lasted))
    # The first run was the warm-up.
    return sorted(runs[1:])[ROUNDS // 2]


def t18(_):
    """Fan-outs to devices of two push services, one service after the other."""
    public, private = point()
    rows, figures = [], {}
    with Process() as files:
        run(RELEASE, "cert", "make", "--out", files.folder, "--name", "localhost")
        authority = os.path.join(files.folder, "ca.pem")
        key = os.path.join(files.folder, "apns.p8")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(private)
        with (Tidecast("--loops", "1") as server,
              SecureNginx(files.folder) as nginx):
            shop = Project(server)
            server.command("project", "quota", "shop", "--sends-per-minute", "6000000",
                           "--subscriptions-per-second", "1000000", "--registrations-per-second", "1000000",
                           "--fanouts", "1000000")
            host = f"localhost:{nginx.port}"
            server_key = shop.set_push("web", "--subject", "mailto:push@example.com", "--allow-host", host,
                                       "--ca", authority)["publicKey"]
            shop.set_push("apns", "--key", key, "--key-id", "ABCDE12345", "--team-id", "ABCDE12345",
                          "--bundle-id", "org.example.app", "--host", host, "--ca", authority)
            blocks = {
                "web": lambda _: {"web": {
                    "endpoint": f"https://{host}/push/{secrets.token_urlsafe(105)}",
                    "p256dh": encoded(public), "auth": encoded(secrets.token_bytes(16)),
                    "applicationPubKey": server_key}},
                "apns": lambda _: {"ios": {
                    "apns_token": secrets.token_hex(32), "apns_environment": "PROD",
                    "bundle_id": "org.example.app"}},
            }
            for service, block_of in blocks.items():
                tokens = register(shop, block_of)
                for first in range(0, DEVICES, 1000):
                    shop.subscribe(tokens[first:first + 1000], service)
                us, other, rate = fan_out(shop, service, server, nginx, service)
                say(f"  {service}: {us:.0f} µs a message ({60e6 / us:,.0f} a CPU-minute), {rate:,.0f} a"
                    f" second; nginx {other:.0f} µs")
                figures[service] = us
                rows.append(simulated(f"tidecast, {service}", f"{MESSAGES} sends to {DEVICES} devices", {},
                                      us=us, rate=rate, peer_us=other, operations=DEVICES * MESSAGES))
    rows[0].update(figures)
    return rows


LOADS = {"T18": t18}
