"""The relay from the registration to the other Firebase project: see fcm_relay.sh."""
import json
import os
import time

from system.checks import check, wait
from system.device import Device
from system.fcmservice import FCMService
from system.node import making
from system.ports import free_port
from system.process import Server, make_certificates
from system.pushservice import PushService
from system.shop import Project

DEVICES = 220


def private_file(path, text):
    """A file that only its owner may read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    return path


class Upstream:
    """A server that stands for FCM, with a project `theirs`."""

    def __init__(self, folder, certificates):
        tls = free_port()
        self.url = f"https://localhost:{tls}"
        self.server = Server(
            folder, "--listen-tls", f"127.0.0.1:{tls}", "--cert", os.path.join(certificates, "server.pem"),
            "--key", os.path.join(certificates, "server.key"), "--public-url", self.url + "/",
            name="upstream")
        self.server.start()
        self.server.wait_ready()
        self.account = self.server.command("project", "create", "theirs", "--service-account", "-")
        key = json.loads(self.server.command("project", "key", "create", "theirs", "--kind", "device",
                                             "--json"))["key"]
        self.app = {"x-goog-api-key": key, "content-type": "application/json"}

    def register(self):
        status, body = self.server.call("POST", "/v1/projects/theirs/registrations", {}, self.app)
        assert status == 200, (status, body)
        return json.loads(body)


class Phone(Device):
    """An app of the other project, which keeps whole messages."""

    def __init__(self, server, registration):
        self.messages = []
        super().__init__(server, registration, project="theirs")

    def receive(self, event, kind, data):
        if kind == "message":
            self.messages.append(json.loads(data))
            self.last = event


def has_message(device, key, value):
    return any((message.get("data") or {}).get(key) == value for message in device.messages)


def through_tidecast(shop, upstream, file, authority):
    """A second server takes the relayed messages, and shows what its apps get."""
    answer = shop.set_push("fcm", "--service-account", file, "--endpoint", upstream.url, "--ca", authority)
    check(answer["state"] == "on" and answer["projectId"] == "theirs"
          and answer["tokenUri"] == upstream.url + "/token", "the relay is set, and says where it leads")
    check("PRIVATE" not in json.dumps([answer, shop.push_status()]), "no answer shows the account's key")
    registration = upstream.register()
    phone = Phone(upstream.server, registration)
    installation = shop.install()
    token = shop.register(installation, fcm={"token": registration["token"]})
    shown = shop.device(token)
    check(shown["platform"] == "ANDROID" and shown["transports"][0]["kind"] == "fcm"
          and registration["token"] not in json.dumps(shown), "the device shows its service, not its token")
    shop.subscribe([token], "news")
    shop.publish("news", notification={"title": "Hello"}, data={"n": "1"})
    wait(lambda: has_message(phone, "n", "1"), "the app to get a message to its topic")
    first = phone.messages[-1]
    check(first["data"]["tidecast_topic"] == "news" and first["notification"]["title"] == "Hello",
          "the topic's name comes in the data")
    status, _ = shop.send(token=token, data={"n": "2"})
    check(status == 200, "a send to the device is taken")
    wait(lambda: has_message(phone, "n", "2"), "the app to get it")
    check("tidecast_topic" not in phone.messages[-1]["data"], "a message to the device has no topic")
    others = [shop.register(shop.install(), fcm={"token": upstream.register()["token"]}) for _ in range(20)]
    shop.subscribe(others, "others")
    status, _ = upstream.server.call("DELETE", f"/v1/projects/theirs/registrations/{registration['token']}",
                                     None, {"authorization": f"Bearer {registration['credential']}"})
    check(status == 200, "the app's registration there ends")
    shop.ends([token], "others", "the token to end here")
    error = shop.send(token=token, data={"to": "nobody"})[1]
    check(error["details"][0]["errorCode"] == "UNREGISTERED", "the next send is answered UNREGISTERED")
    check(shop.alarms("wrong_target", "fcm") == 0, "a token that has ended is nobody's mistake")
    again = upstream.register()
    phone = Phone(upstream.server, again)
    check(shop.register(installation, fcm={"token": again["token"]}) == token, "the device comes back")
    shop.publish("news", data={"n": "3"})
    wait(lambda: has_message(phone, "n", "3"), "the device to be subscribed still")


def taken(service, device, key, value):
    return [message for message in service.taken[device] if message["data"].get(key) == value]


def rows(shop, service, tokens):
    """Each answer of FCM has its meaning for the message and for the device."""
    for number, (script, ends, comes) in enumerate([
            ([(404, "UNREGISTERED", None, None)], True, False),
            ([(403, "SENDER_ID_MISMATCH", None, None)], True, False),
            ([(400, "INVALID_ARGUMENT", "message.token", None)], True, False),
            ([(400, "INVALID_ARGUMENT", "message.data", None)], False, False),
            ([(503, "UNAVAILABLE", None, 1)], False, True),
            ([(500, "INTERNAL", None, None)], False, True)]):
        device, token = tokens[number]
        status, code = script[0][:2]
        # The word that a device is gone counts when it comes again.
        service.scripts[device] = list(script) * (100 if ends else 1)
        assert shop.send(token=token, data={"row": str(number)})[0] == 200
        wait(lambda device=device: service.refused[device], f"the answer {status} {code}")
        if ends:
            shop.ends([token], "all", "the token to end")
        if comes:
            wait(lambda number=number, device=device: taken(service, device, "row", str(number)),
                 "another try", 30)
        if not ends:
            assert shop.send(token=token, data={"after": "all"})[0] == 200
            wait(lambda device=device: taken(service, device, "after", "all"), "the next message")
        check(len(taken(service, device, "row", str(number))) == comes, f"{status} {code} means what it says")
    check(shop.alarms("wrong_target", "fcm") >= 2, "tokens of another project raise an alarm")


def another_account(shop, service, staging, tokens, files, authority):
    """An operator sets the account of another project for some seconds: that project knows no token."""
    phones = tokens[40:60]
    shop.subscribe([token for _, token in phones], "phones")
    shop.set_push("fcm", "--service-account", files[1], "--endpoint", staging.url, "--ca", authority)
    shop.publish("phones", data={"during": "it"})
    wait(lambda: len(staging.refused) >= 5, "the other project to deny some phones")
    time.sleep(3)
    check(all(shop.send(token=token, data={"k": "v"})[0] == 200 for _, token in phones),
          "no send to a phone is refused")
    shop.set_push("fcm", "--service-account", files[0], "--endpoint", service.url, "--ca", authority)
    shop.publish("phones", data={"after": "it"})
    for device, _ in phones:
        for key in ("during", "after"):
            wait(lambda device=device, key=key: taken(service, device, key, "it"), f"the message {key} it")
    check(shop.members("phones") == len(phones),
          f"the account of another project for 3 s ends none of {len(phones)} phones, and loses nothing")
    check(all(shop.send(token=token, data={"k": "v"})[0] == 200 for _, token in phones),
          "each phone can be sent to")
    check(shop.alarms("doubted", "fcm") > 0
          and "says of many devices that they are gone" in shop.server.log_text(),
          "an alarm tells the operator")


def quota(shop, service, tokens):
    """429 stops the whole project for as long as FCM says."""
    service.everything = (429, "QUOTA_EXCEEDED", None, 4)
    device, token = tokens[10]
    assert shop.send(token=token, data={"over": "quota"})[0] == 200
    wait(lambda: service.refused[device], "429")
    begun = service.refused[device][0][1]
    service.everything = None
    other, token = tokens[11]
    assert shop.send(token=token, data={"over": "quota"})[0] == 200
    for one in (device, other):
        wait(lambda one=one: taken(service, one, "over", "quota"), "the message after the pause", 90)
    check(len(service.refused[other]) == 0, "after 429 no device of the project was tried")
    check(shop.pushed("throttled", "fcm") >= 1 and begun > 0, "the metrics count it")


def renewed_once(shop, service, tokens):
    """FCM takes back the access token while many messages are on their way."""
    fetches = service.fetches
    service.free = 1
    service.holds.set()
    name = shop.publish("all", data={"burst": "1"})
    wait(lambda: service.held >= 32,
         "as many messages at FCM as one service may have of a partition's places")
    service.access.clear()
    service.holds.clear()
    for device, _ in tokens[20:]:
        wait(lambda device=device: taken(service, device, "burst", "1"), f"{name} at each device", 90)
    check(service.fetches == fetches + 1,
          "thirty-two messages whose token was refused brought one other token")
    check(all(len(taken(service, device, "burst", "1")) == 1 for device, _ in tokens[20:]),
          "each device gets the message once")


def refused_account(shop, service, tokens, file, authority):
    """The account is refused; messages wait for the operator, and go when the settings are new."""
    service.refuses_account = True
    # New settings begin without an access token.
    shop.set_push("fcm", "--service-account", file, "--endpoint", service.url, "--ca", authority)
    device, token = tokens[30]
    assert shop.send(token=token, data={"held": "1"})[0] == 200
    wait(lambda: shop.pushed("credentials", "fcm") > 0, "the refusal of the account")
    wait(lambda: "invalid_grant" in shop.server.log_text(), "a line for the operator")
    service.refuses_account = False
    shop.set_push("fcm", "--service-account", file, "--endpoint", service.url, "--ca", authority)
    wait(lambda: taken(service, device, "held", "1"), "the message, as soon as the account is set again", 30)
    check(True, "a refused account holds messages, and another setting lets them go at once")


def killed(shop, service, tokens):
    service.holds.set()
    name = shop.publish("all", data={"killed": "1"})
    wait(lambda: service.held >= 1, "messages at FCM")
    shop.server.kill()
    service.holds.clear()
    shop.server.start()
    shop.server.wait_ready()
    for device, _ in tokens[20:]:
        wait(lambda device=device: taken(service, device, "killed", "1"),
             f"{name} after the server's start", 120)
    check(True, "messages that waited when the server was killed come after its start")


def off(shop, service, tokens):
    shop.server.command("project", "push", "off", "shop", "fcm")
    device, token = tokens[31]
    count = len(service.taken[device])
    assert shop.send(token=token, data={"off": "1"})[0] == 200
    wait(lambda: "does not use" in shop.server.log_text(), "a line about the service that is off")
    check(len(service.taken[device]) == count, "a relay that is off sends nothing")
    shop.set_push("fcm")
    wait(lambda: taken(service, device, "off", "1"), "the message when the relay is on again", 30)
    check(True, "and sends what has waited when it is on again")


def two_addresses(shop, service, certificates):
    """A device whose project has no Web Push gets its messages from FCM, and from its browser later."""
    browsers = PushService(
        os.path.join(certificates, "server.pem"), os.path.join(certificates, "server.key"), free_port())
    key = shop.set_push(
        "web", "--subject", "mailto:push@example.com", "--allow-host", f"localhost:{browsers.port}", "--ca",
        os.path.join(certificates, "ca.pem"))["publicKey"]
    browser, installation, device = browsers.browser("both"), shop.install(), "both:APA91b"
    token = shop.register(installation, web=browser.block(key))
    assert shop.register(installation, fcm={"token": device}) == token
    shop.server.command("project", "push", "off", "shop", "web")
    assert shop.send(token=token, data={"by": "fcm"})[0] == 200
    wait(lambda: taken(service, device, "by", "fcm"), "the message from the service that the project has")
    check(not browser.accepted, "a device is reached by the first service that its project has")
    shop.set_push("web")
    name = shop.send(token=token, data={"by": "web"})[1]
    wait(lambda: name in browser.ids(), "the next message from the service that is on again")
    check(len(browser.ids()) == 1 and not taken(service, device, "by", "web"),
          "the service that is on again has the next message, and no other")
    browsers.close()


def against_fake(shop, service, staging, account, folder, certificates):
    authority = os.path.join(certificates, "ca.pem")
    file = private_file(os.path.join(folder, "fake.json"), json.dumps({**account,
                                                                       "token_uri": service.url + "/token"}))
    other = private_file(os.path.join(folder, "staging.json"), json.dumps(staging.account))
    shop.set_push("fcm", "--service-account", file, "--endpoint", service.url, "--ca", authority)
    devices = [f"fake-{number}:APA91b" for number in range(DEVICES)]
    tokens = [(device, shop.register(shop.install(), fcm={"token": device})) for device in devices]
    shop.subscribe([token for _, token in tokens[20:]], "all")
    another_account(shop, service, staging, tokens, (file, other), authority)
    rows(shop, service, tokens)
    quota(shop, service, tokens)
    renewed_once(shop, service, tokens)
    refused_account(shop, service, tokens, file, authority)
    killed(shop, service, tokens)
    off(shop, service, tokens)
    two_addresses(shop, service, certificates)
    check(not service.mistakes, f"the fake understood each request: {service.mistakes[:3]}")
    log = shop.server.log_text()
    check("PRIVATE" not in log and "access-" not in log and "APA91b" not in log, "the log has no secret")


def main():
    with making() as made, making() as others:
        certificates = os.path.join(made.folder, "certificates")
        make_certificates(certificates, "--name", "localhost")
        authority = os.path.join(certificates, "ca.pem")
        upstream = Upstream(others.folder, certificates)
        others.nodes.append(upstream.server)
        account = json.loads(upstream.account)
        server = made.server()
        shop = Project(server)
        file = private_file(os.path.join(made.folder, "account.json"), upstream.account)
        through_tidecast(shop, upstream, file, authority)
        port = free_port()
        service = FCMService(
            os.path.join(certificates, "server.pem"), os.path.join(certificates, "server.key"), port,
            {**account, "token_uri": f"https://localhost:{port}/token"})
        port = free_port()
        staging = FCMService(
            os.path.join(certificates, "server.pem"), os.path.join(certificates, "server.key"), port,
            {**account, "project_id": "staging", "token_uri": f"https://localhost:{port}/token"})
        staging.everything = (403, "SENDER_ID_MISMATCH", None, None)
        against_fake(shop, service, staging, account, made.folder, certificates)
        server.end()
        upstream.server.end()
        service.close()
        staging.close()


main()
