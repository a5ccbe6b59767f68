"""Push services whose names nobody answers for: see push_names.sh."""
import os

from system.checks import check, wait
from system.names import NameServer
from system.node import making
from system.process import make_certificates
from system.pushservice import PushService
from system.shop import Shop

HOST, SILENT = "push.example.com", "silent"
DEVICES, MESSAGES, LOOPS, PLACES = 80, 20, 1, 4


def main():
    with making() as made:
        certificates = os.path.join(made.folder, "certificates")
        make_certificates(certificates, "--name", HOST)
        names = NameServer("127.0.0.1", silent=SILENT)
        service = PushService(os.path.join(certificates, "server.pem"),
                              os.path.join(certificates, "server.key"), 443, host=HOST)
        server = made.server("--loops", str(LOOPS))
        shop = Shop(server, service, os.path.join(certificates, "ca.pem"), allowed=HOST)
        shop.set_push("web", "--allow-host", HOST, "--allow-host", "*.example.com")
        browser = service.browser("browser")
        tokens = [shop.tell(shop.install(), browser)]
        shop.subscribe(tokens, "news")
        first = shop.publish("news", data={"n": "0"})
        wait(lambda: first in browser.ids(), "the first message")
        for number in range(DEVICES):
            block = browser.block(shop.server_key)
            block["endpoint"] = f"https://{SILENT}{number}.example.com/push"
            tokens.append(shop.register(shop.install(), web=block))
        shop.subscribe(tokens[1:], "news")
        sent = []
        for number in range(1, MESSAGES + 1):
            sent.append(shop.publish("news", data={"n": str(number)}))
            wait(lambda: sent[-1] in browser.ids(), "a message beside names without an answer")
            asked, failed = len(names.unanswered), shop.pushed("failed")
            check(asked <= failed + PLACES * LOOPS,
                  f"{asked} names asked for, {failed:.0f} attempts over: {PLACES} at once")
        # Each attempt ends when the resolver gives up, and makes room for the next name.
        wait(lambda: shop.pushed("failed") > 0 and len(names.unanswered) > PLACES, "the next names' turn",
             120)
        check(not service.mistakes, f"the service understood each push: {service.mistakes[:3]}")
        server.end()
        service.close()
        print("push_silent_names: ok")


main()
