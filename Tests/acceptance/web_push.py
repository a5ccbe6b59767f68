"""Web Push from the registration to the browser: see web_push.sh."""
import os
import re
import time

from system.checks import check, wait
from system.node import making
from system.ports import free_port
from system.process import make_certificates
from system.pushservice import PushService
from system.shop import Shop

DEVICES = 40


def have(browsers, name):
    return all(name in browser.ids() for browser in browsers)


def fan_out(shop, browsers):
    name = shop.publish("news", notification={"title": "Hello"}, data={"k": "v"})
    wait(lambda: have(browsers, name), "all browsers to have a message to their topic")
    _, topic, message = browsers[0].accepted[-1]
    check(topic == name.replace("projects/shop/messages/", "") or len(topic) <= 32, "a push has a Topic")
    check(message["notification"]["title"] == "Hello" and message["data"] == {"k": "v"}
          and message["from"] == "/topics/news", "the browser's worker gets what Firebase's expects")


def collapses(shop, browsers):
    """A collapse key of any form becomes a Topic that services take (RFC 8030, section 5.4), one for each."""
    topics = {}
    for key in ("k" * 40, "k" * 39 + "l", "score of the match", "score", "k" * 40):
        name = shop.publish("news", data={"key": key}, android={"collapse_key": key})
        wait(lambda name=name: have(browsers, name), "all browsers to have a message with a collapse key")
        found = {topic for browser in browsers for _, topic, message in browser.accepted
                 if message["fcmMessageId"] == name}
        check(len(found) == 1 and all(re.fullmatch("[A-Za-z0-9_-]{1,32}", topic) for topic in found),
              f"the collapse key \"{key}\" has one Topic, {min(found)}")
        topics.setdefault(key, set()).update(found)
    check(topics["score"] == {"score"}, "a key that is a Topic already stays")
    check(len(set.union(*topics.values())) == len(topics), "equal keys have one Topic, others have others")


def failing(shop, service, browsers, tokens):
    service.status, service.retry_after = 503, 1
    name = shop.publish("news", data={"during": "a failure"})
    wait(lambda: any(browser.refused for browser in browsers), "a push to be refused")
    # The others may wait because the service is left alone.
    refused = next(number for number, browser in enumerate(browsers) if browser.refused)

    def shown():
        return shop.device(tokens[refused])["transports"][0]

    wait(lambda: shown()["pushState"] in ("WAITING", "PAUSED"), "the device to show that it waits")
    def refusals():
        return sum(len(browser.refused) for browser in browsers)

    before = refusals()
    service.status = 429
    wait(lambda: refusals() > before, "a push to be throttled")
    service.status, service.retry_after = 201, None
    wait(lambda: have(browsers, name), "all browsers to have the message after the failure", 150)
    wait(lambda: shown().get("lastAccepted", {}).get("message", "").endswith(name),
         "the device to show its last push")
    check(shown()["lastFailure"]["outcome"] in ("failed", "throttled"),
          "a device shows what its push service took, and what it did not take")
    answers = {one["outcome"]: one["count"] for one in shop.answers(name)}
    check(answers["accepted"] == len(browsers) and answers["failed"] >= 1,
          "a message shows how often its push service took it, and how often not")
    shown_by_command = shop.server.command("project", "push", "message", shop.name, name)
    check("accepted" in shown_by_command, "the command line shows it too")
    check(True, "a service that answers 503 and then 429 gets the message when it is well again")
    topics = {topic for browser in browsers for _, topic, message in browser.refused + browser.accepted
              if message["fcmMessageId"] == name}
    check(len(topics) == 1, "each try of the message has the same Topic")


def denied(shop, service, browsers, tokens):
    """A machine before the service answers 404 to everybody for some seconds."""
    names = [shop.publish("news", data={"before": "it"})]
    wait(lambda: have(browsers, names[0]), "a message before the machine is wrong")
    until, service.status = time.monotonic() + 3, 404
    while time.monotonic() < until:
        names.append(shop.publish("news", data={"during": "it"}))
        time.sleep(0.3)
    service.status = 201
    check(sum(len(browser.refused) > 0 for browser in browsers) >= len(browsers) / 4,
          "the service has said of many devices that they are gone")
    check(all(shop.send(token=token, data={"k": "v"})[0] == 200 for token in tokens), "no send is refused")
    names.append(shop.publish("news", data={"after": "it"}))
    for name in names:
        wait(lambda name=name: have(browsers, name), "each message at all browsers")
    check(True, f"a service that denies {len(browsers)} devices for 3 s ends none of them, and loses nothing")
    for browser in browsers:
        browser.refused.clear()


def gone(shop, service, installation, browser, token):
    browser.status = 410
    status, _ = shop.send(token=token, data={"to": "nobody"})
    check(status == 200, "a send to a device whose address is gone unnoticed is accepted")
    check(shop.send(token=token, data={"to": "nobody"})[0] == 200, "one word of its service ends nobody")
    shop.ends([token], "news", "the address to end")
    status, error = shop.send(token=token, data={"to": "nobody"})
    check(error["details"][0]["errorCode"] == "UNREGISTERED", "the next send is answered UNREGISTERED")
    again = service.browser("again")
    check(shop.tell(installation, again) == token, "the same installation has the same token again")
    status, name = shop.send(token=token, data={"to": "somebody"})
    check(status == 200, "a send to the device is accepted again")
    wait(lambda: name in again.ids(), "the new address to get it")
    name = shop.publish("news", data={"still": "subscribed"})
    wait(lambda: name in again.ids(), "the device to be subscribed still")
    return again


def unreachable(shop, service):
    """A device whose address stays gone ends, with its topics; a device that tells another does not."""
    ends, stays = shop.install(), shop.install()
    first, second = service.browser("leaves"), service.browser("moves")
    tokens = [shop.tell(ends, first), shop.tell(stays, second)]
    shop.subscribe(tokens, "far")
    shop.subscribe(tokens, "away")
    check(shop.members("far") == 2, "two devices have the topic")
    first.status = second.status = 410
    shop.publish("far", data={"to": "nobody"})
    shop.ends(tokens, "news", "both addresses to end")
    again = service.browser("moved")
    check(shop.tell(stays, again) == tokens[1], "one of the devices tells another address")
    status, _ = shop.call("GET", f"/iid/info/{tokens[0]}", None, shop.backend)
    check(status == 200, "the other device is there for a while, with its topics")
    wait(lambda: shop.members("far") == 1 and shop.members("away") == 1,
         "the topics of the device to be gone")
    status, _ = shop.call("GET", f"/iid/info/{tokens[0]}", None, shop.backend)
    check(status == 404, "nothing is left of the device")
    check(shop.send(token=tokens[0], data={"k": "v"})[0] == 404, "a send to it is UNREGISTERED")
    status, _ = shop.call("POST", f"{shop.path}/registrations", {"web": again.block(shop.server_key)}, ends)
    check(status != 200, "its installation has ended too")
    name = shop.publish("far", data={"to": "one"})
    wait(lambda: name in again.ids(), "the other device to have its topics still")
    ends = shop.install()
    check(shop.tell(ends, service.browser("new")) not in tokens, "an app that comes again registers anew")


def killed(shop, service, browsers):
    """The server dies with messages at the service and in its journal."""
    before = service.waiting
    service.stalls.set()
    names = [shop.publish("news", data={"n": str(number)}) for number in range(5)]
    wait(lambda: service.waiting > before, "pushes to wait at the service")
    shop.server.kill()
    service.stalls.clear()
    shop.server.start()
    shop.server.wait_ready()
    for name in names:
        wait(lambda name=name: have(browsers, name), "all messages after the server was killed", 120)
    check(True, "messages that waited when the server was killed come after its start")


def looked_at(shop, service, browsers):
    """A command in the folder of a stopped server, or in a copy of it, pushes nothing."""
    service.status = 503
    name = shop.publish("news", data={"for": "later"})
    tried = sum(len(browser.refused) for browser in browsers)
    wait(lambda: sum(len(browser.refused) for browser in browsers) > tried, "a push to be refused")
    shop.server.end()
    service.status = 201
    for _ in range(5):
        check("shop" in shop.server.command("project", "list"), "a command in the folder")
    check(not any(name in browser.ids() for browser in browsers), "commands push nothing")
    shop.server.start()
    shop.server.wait_ready()
    wait(lambda: have(browsers, name), "the message from the server", 150)


def ends(shop, service, browsers):
    """Each platform's time to live is its own, and nothing is sent after its end."""
    def ttls(name):
        return [ttl for browser in browsers for found, ttl in browser.times if found == name]

    name = shop.publish("news", data={"for": "browsers"}, android={"ttl": "0s"})
    wait(lambda: have(browsers, name), "all browsers to have a message whose android.ttl is 0")
    check(min(ttls(name)) > 2_419_000, "an android.ttl of 0 does not stop the web copy, nor shorten it")
    name = shop.publish("news", data={"now": "or never"}, webpush={"headers": {"TTL": "0"}},
                        android={"ttl": "600s"})
    wait(lambda: have(browsers, name), "all browsers to have a message whose TTL is 0")
    check(set(ttls(name)) == {0}, "a message whose TTL is 0 says so to the service")
    service.status = 503
    never = shop.publish("news", data={"never": "mind"}, webpush={"headers": {"TTL": "0"}})
    short = shop.publish("news", data={"too": "late"}, webpush={"headers": {"TTL": "3"}},
                         android={"ttl": "600s"})
    over = time.monotonic() + 4
    wait(lambda: ttls(never), "the service to refuse the message whose TTL is 0")
    # On a busy machine the short message may end before its first attempt.
    wait(lambda: time.monotonic() > over, "the end of the short message")
    service.status = 201
    name = shop.publish("news", data={"in": "time"})
    wait(lambda: have(browsers, name), "all browsers to have the message after the failure", 150)
    found = {message for browser in browsers for message in browser.ids()}
    check(short not in found, "nothing is sent after its end, though the service was away until then")
    # Devices for which the service was left alone get their attempt within half a minute of the send.
    check(len(ttls(never)) <= len(browsers), "a TTL of 0 is one attempt, no retry")


def once(browsers):
    """Nothing comes again, except what was at the service when the server died: with the same Topic."""
    doubles = 0
    for browser in browsers:
        tried = [(topic, message["fcmMessageId"]) for _, topic, message in browser.accepted]
        doubles += len(tried) - len(set(tried))
        assert len({name for _, name in tried}) == len(set(tried)), "a message came with two Topics"
    check(doubles <= len(browsers), f"{doubles} pushes came again, no more than were on their way")


def main():
    with making() as made:
        certificates = os.path.join(made.folder, "certificates")
        make_certificates(certificates, "--name", "localhost")
        service = PushService(os.path.join(certificates, "server.pem"),
                              os.path.join(certificates, "server.key"), free_port())
        # Long enough for a device to come back while its address is gone.
        server = made.server("--unreachable-seconds", "25")
        shop = Shop(server, service, os.path.join(certificates, "ca.pem"))
        installations = [shop.install() for _ in range(DEVICES)]
        browsers = [service.browser(f"browser-{number}") for number in range(DEVICES)]
        tokens = [shop.tell(*one) for one in zip(installations, browsers, strict=True)]
        shop.subscribe(tokens, "news")
        fan_out(shop, browsers)
        collapses(shop, browsers)
        denied(shop, service, browsers, tokens)
        failing(shop, service, browsers, tokens)
        browsers[0] = gone(shop, service, installations[0], browsers[0], tokens[0])
        ends(shop, service, browsers)
        unreachable(shop, service)
        killed(shop, service, browsers)
        looked_at(shop, service, browsers)
        name = shop.publish("news", data={"the": "last"})
        wait(lambda: have(browsers, name), "the last message")
        once(browsers)
        check(shop.pushed("accepted") >= DEVICES, "the metrics count what the service took")
        check(not service.mistakes, f"the service understood each push: {service.mistakes[:3]}")
        server.end()
        service.close()


main()
