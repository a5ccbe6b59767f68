"""Messages to push services, beside an nginx that takes everything at once: T18, and T19 with services that
do not take anything beside it."""
import base64
import collections
import contextlib
import os
import secrets
import socket
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


def register(shop, block_of, count):
    """Devices with addresses; their tokens."""
    def one(number):
        return shop.register(shop.install(), **block_of(number))
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(one, range(count)))


def subscribe(shop, tokens, topic):
    for first in range(0, len(tokens), 1000):
        shop.subscribe(tokens[first:first + 1000], topic)


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


@contextlib.contextmanager
def services(*silent, is_logged=False):
    """A server with a project that pushes to an nginx as Apple's service and as one of Web Push. Further
    services of Web Push are the nginx at which each answer is 503, and the hosts `silent`. Yields the
    project, the nginx, and what makes an address of a device: at Apple's, and at each service of Web Push."""
    public, private = point()
    with Process() as files:
        run(RELEASE, "cert", "make", "--out", files.folder, "--name", "localhost")
        authority = os.path.join(files.folder, "ca.pem")
        key = os.path.join(files.folder, "apns.p8")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(private)
        with (Tidecast("--loops", "1") as server, SecureNginx(files.folder, is_logged) as nginx):
            shop = Project(server)
            server.command("project", "quota", "shop", "--sends-per-minute", "6000000",
                           "--subscriptions-per-second", "1000000", "--registrations-per-second", "1000000",
                           "--fanouts", "1000000")
            hosts = (f"localhost:{nginx.port}", f"localhost:{nginx.unavailable_port}", *silent)
            allowed = [word for host in hosts for word in ("--allow-host", host)]
            server_key = shop.set_push("web", "--subject", "mailto:push@example.com", *allowed,
                                       "--ca", authority)["publicKey"]
            shop.set_push("apns", "--key", key, "--key-id", "ABCDE12345", "--team-id", "ABCDE12345",
                          "--bundle-id", "org.example.app", "--host", hosts[0], "--ca", authority)

            def web(host):
                return lambda _: {"web": {
                    "endpoint": f"https://{host}/push/{secrets.token_urlsafe(105)}",
                    "p256dh": encoded(public), "auth": encoded(secrets.token_bytes(16)),
                    "applicationPubKey": server_key}}

            def apple(_):
                return {"ios": {"apns_token": secrets.token_hex(32), "apns_environment": "PROD",
                                "bundle_id": "org.example.app"}}

            yield shop, nginx, apple, *map(web, hosts)


def t18(_):
    """Fan-outs to devices of two push services, one service after the other."""
    rows, figures = [], {}
    with services() as (shop, nginx, apple, web, _):
        for service, block_of in (("web", web), ("apns", apple)):
            subscribe(shop, register(shop, block_of, DEVICES), service)
            us, other, rate = fan_out(shop, service, shop.server, nginx, service)
            say(f"  {service}: {us:.0f} µs a message ({60e6 / us:,.0f} a CPU-minute), {rate:,.0f} a"
                f" second; nginx {other:.0f} µs")
            figures[service] = us
            rows.append(simulated(f"tidecast, {service}", f"{MESSAGES} sends to {DEVICES} devices", {},
                                  us=us, rate=rate, peer_us=other, operations=DEVICES * MESSAGES))
    rows[0].update(figures)
    return rows


# T19: devices of each of three services.
THIRD = 33_333
# Seconds for which a message to a dead service is tried.
DEAD_SECONDS = 90


@contextlib.contextmanager
def silent_service():
    """Yields the address of a service that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        yield f"localhost:{listener.getsockname()[1]}"


def taken(shop):
    return shop.pushed("accepted", "web") + shop.pushed("accepted", "apns")


def seconds_of_fan_out(shop, topic, count):
    """Sends to the topic, and returns the seconds until the living services have taken `count` messages."""
    goal, began = taken(shop) + count, time.monotonic()
    shop.publish(topic, notification={"title": "Rain", "body": "in an hour"},
                 webpush={"headers": {"TTL": str(DEAD_SECONDS)}})
    wait(lambda: taken(shop) >= goal, "the messages at the living services", 600)
    return time.monotonic() - began


def killed(shop, nginx, count):
    """Kills the server in the middle of a fan-out and starts it again. Returns how many devices got the
    message more than once, and how many never."""
    def asked():
        with open(nginx.paths, encoding="ascii") as file:
            return collections.Counter(file.read().split())

    before, goal = asked(), taken(shop) + count // 3
    shop.publish("living", notification={"title": "Rain", "body": "in an hour"})
    wait(lambda: taken(shop) >= goal, "a third of the messages", 600)
    shop.server.kill()
    shop.server.start()
    shop.server.wait_ready()
    wait(lambda: len(asked() - before) >= count, "the message at all devices", 600)
    # What the process that was killed had under way comes again early, long before the last device's turn.
    times = (asked() - before).values()
    return sum(one > 1 for one in times), count - len(times)


def t19(_):
    """Fan-outs to the devices of two services that answer, with and without those of two dead services; then
    to all that can be reached, across a kill."""
    with (silent_service() as silent,
          services(silent, is_logged=True) as (shop, nginx, apple, web, unavailable, away)):
        server = shop.server
        for topics, block_of, share in ((("living", "all"), web, 1), (("living", "all"), apple, 1),
                                        (("all",), unavailable, 0.5), (("all",), away, 0.5)):
            tokens = register(shop, block_of, int(THIRD * share))
            for topic in topics:
                subscribe(shop, tokens, topic)
        seconds_of_fan_out(shop, "living", 2 * THIRD)
        runs, resident = {"living": [], "all": []}, [kernel.resident(server.process.pid)]
        for _ in range(ROUNDS):
            for topic, found in runs.items():
                found.append(2 * THIRD / seconds_of_fan_out(shop, topic, 2 * THIRD))
                resident.append(kernel.resident(server.process.pid))
            # Then nothing for the dead services is left, and the next run is without it.
            time.sleep(DEAD_SECONDS)
        alone, beside = (sorted(found)[ROUNDS // 2] for found in runs.values())
        share = 100 * beside / alone
        say(f"  {alone:,.0f} messages a second without the dead services, {beside:,.0f} beside it:"
            f" {share:.0f} %; memory {resident[0]:.0f} to at most {max(resident):.0f} MiB")
        repeated, missing = killed(shop, nginx, 2 * THIRD)
        say(f"  after a kill in the middle {repeated} messages came again, {missing} never")
        work = f"{ROUNDS} sends to {2 * THIRD} devices, and to as many and those of dead services, in turn"
        return [simulated("tidecast", work, {}, rate=beside, operations=ROUNDS * 5 * THIRD, share=share,
                          repeated=repeated, missing=missing, growth=max(resident) - resident[0])]


LOADS = {"T18": t18, "T19": t19}
