"""A push service whose name leads elsewhere after the registration: see push_names.sh."""
import os

from system.checks import check, wait
from system.names import NameServer
from system.node import making
from system.process import make_certificates
from system.pushservice import PushService
from system.shop import Shop

# Nobody is at the public address: the namespace has no way out.
HOST, PUBLIC, PRIVATE = "push.example.com", "8.8.8.8", "127.0.0.1"


def rebound(shop, names, service, browser, token):
    """The name leads to a public address, and then to this machine, where a service waits."""
    def failure():
        return shop.device(token)["transports"][0].get("lastFailure", {})

    status, first = shop.send(token=token, data={"n": "1"})
    assert status == 200, first
    wait(lambda: failure() and names.asked, "an attempt at the public address")
    check(f"Failed to connect to {HOST}" in shop.server.log_text(), "a public address is tried")
    names.address, asked, tries = PRIVATE, names.asked, failure()["tries"]
    wait(lambda: failure()["tries"] >= tries + 2, "two attempts at the private address", 120)
    check(names.asked >= asked + 2 and service.connections == 0,
          f"a name that leads to {PRIVATE} by now is asked for each time, and not dialled")
    shop.allow(HOST)
    wait(lambda: first in browser.ids(), "the message, as soon as the operator lists the name itself", 120)
    check(service.connections > 0, "where the operator has listed the name, the same address is dialled")


def main():
    with making() as made:
        certificates = os.path.join(made.folder, "certificates")
        make_certificates(certificates, "--name", HOST)
        names = NameServer(PUBLIC)
        service = PushService(os.path.join(certificates, "server.pem"),
                              os.path.join(certificates, "server.key"), 443, host=HOST)
        server = made.server()
        shop = Shop(server, service, os.path.join(certificates, "ca.pem"), allowed="*.example.com")
        browser = service.browser("browser")
        token = shop.tell(shop.install(), browser)
        rebound(shop, names, service, browser, token)
        check(not service.mistakes, f"the service understood each push: {service.mistakes[:3]}")
        server.end()
        service.close()


main()
