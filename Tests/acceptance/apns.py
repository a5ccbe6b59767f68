"""Apple's push service from the registration to the phone: see apns.sh."""
import re
import secrets
import time

from system.apple import APP, OTHER_APP, OTHER_TEAM, TEAM, THIRD_APP, Apple, Phone, all_got
from system.checks import check, wait
from system.node import making
from system.shop import Project

DEVICES = 30


def without_key(shop, phone):
    """A project without a key: its messages wait, and the log says so once."""
    names = [phone.send(data={"early": str(number)}) for number in range(3)]
    wait(lambda: "does not use" in shop.server.log_text(), "a line about the missing key")
    check(shop.server.log_text().count("does not use") == 1 and phone.device.requests == 0,
          "messages wait for a project's first key, and the log says so once")
    return names


def fan_out(shop, phones):
    name = shop.publish("news", notification={"title": "Hello", "body": "you"}, data={"k": "v"})
    wait(lambda: all_got(phones, name), "all phones to have a message to their topic")
    _, _, message, fields = phones[0].device.accepted[-1]
    check(fields["apns-topic"] == APP and fields["apns-push-type"] == "alert"
          and fields["apns-priority"] == "10", "an alert has its topic, type and priority")
    check(fields["apns-collapse-id"] == name and re.fullmatch(r"[0-9a-f-]{36}", fields["apns-id"]),
          "the message's id is the collapse id, and each push has an id of its own")
    left = int(fields["apns-expiration"]) - time.time()
    check(29 * 86400 < left < 31 * 86400, "without a header the message may wait 30 days")
    check(message["aps"]["alert"] == {"title": "Hello", "body": "you"} and message["k"] == "v"
          and message["from"] == "/topics/news", "the payload is what Firebase's SDK reads")
    ids = {phone.device.accepted[-1][3]["apns-id"] for phone in phones}
    check(len(ids) == len(phones), "no two pushes have one id")
    name = phones[1].send(data={"silent": "1"})
    phones[1].wait_for(name)
    _, _, message, fields = phones[1].device.accepted[-1]
    check(fields["apns-push-type"] == "background" and fields["apns-priority"] == "5"
          and message["aps"] == {"content-available": 1}, "data alone wakes the app in the background")


def activities(phone):
    """A live activity has a token of its own, whose end is not the device's."""
    token = secrets.token_hex(32)
    apns = {"liveActivityToken": token, "payload": {"aps": {"event": "update", "content-state": {}}}}
    phone.send(apns=apns)
    activity = phone.service.device(token)
    wait(lambda: activity.accepted, "the update of a live activity")
    _, _, _, fields = activity.accepted[-1]
    check(fields["apns-topic"] == f"{APP}.push-type.liveactivity"
          and fields["apns-push-type"] == "liveactivity", "a live activity has its topic and its token")
    phone.service.plan(token, 410, "Unregistered")
    phone.send(apns=apns)
    name = phone.send(data={"after": "the activity"})
    phone.wait_for(name)
    check(activity.requests == 2, "an activity that has ended does not end its device")


def gone(shop, phone):
    phone.plan(410, "Unregistered", timestamp=int((time.time() - 86400) * 1000), times=1)
    name = phone.send(data={"old": "news"})
    phone.wait_for(name)
    check(phone.device.requests >= 2, "a 410 from before the registration does not end the token")
    phone.plan(410, "Unregistered", timestamp=int(time.time() * 1000))
    phone.send(data={"to": "nobody"})
    shop.ends([phone.token], "news", "the token to end")
    check(True, "after a 410 the next send is answered UNREGISTERED")
    former = phone.token
    check(phone.renew() == former, "the app that registers again has its former registration")
    name = shop.publish("news", data={"still": "subscribed"})
    phone.wait_for(name)
    check(True, "and its topics")


def wrong_token(shop, phone):
    alarms = shop.alarms("wrong_target", "apns")
    phone.plan(400, "BadDeviceToken")
    phone.send(data={"to": "nobody"})
    shop.ends([phone.token], "news", "the wrong token to end")
    check(shop.alarms("wrong_target", "apns") > alarms, "BadDeviceToken ends the token, with an alarm")
    phone.renew()
    phone.wait_for(phone.send(data={"new": "token"}))


def troubles(phones):
    """Answers after which a message comes again."""
    for phone, plan in zip(phones, [(503, "ServiceUnavailable"), (500, "InternalServerError"),
                                    (403, "UnrelatedKeyIdInToken")], strict=True):
        phone.plan(*plan, times=1)
        phone.wait_for(phone.send(data={"n": "1"}))
        check(phone.device.requests >= 2, f"{plan[0]} {plan[1]}: the message comes again")
    phone = phones[0]
    phone.plan(413, "PayloadTooLarge", times=1)
    name = phone.send(data={"n": "2"})
    phone.wait_for(phone.send(data={"n": "3"}))
    check(phone.got(name) == 0, "a message that Apple refuses is given up")
    for act in ("refuse", "reset", "cut"):
        phone.plan(act=act, times=1)
        phone.wait_for(phone.send(data={"act": act}))
        check(True, f"a stream that the service ends ({act}) is sent again")
    phone.service.go_away("Shutdown")
    phone.wait_for(phone.send(data={"after": "GOAWAY"}))
    check(True, "after GOAWAY messages go on another connection")


def refused_key(shop, apple, phones):
    """Apple refuses the key; all messages wait, and go as soon as there is a new key."""
    apple.keys.clear()
    names = [shop.publish("news", data={"held": str(number)}) for number in range(3)]
    wait(lambda: shop.pushed("credentials", "apns") > 0, "Apple to refuse the key")
    wait(lambda: "refuses the project's key" in shop.server.log_text(), "a line for the operator")
    check(shop.alarms("credentials", "apns") > 0, "a refused key raises an alarm")
    answer = apple.give(shop, "KEY0000002", TEAM)
    check([key["keyId"] for key in answer["keys"]] == ["KEY0000002"], "a new key replaces the former one")
    for name in names:
        wait(lambda name=name: all_got(phones, name), "all messages that were held")
    check(True, "messages that a refused key holds go as soon as there is another")


def told(shop, apple):
    """While Apple refuses the key of an app, a backend that sends to one phone hears so."""
    apple.give(shop, "KEY0000004", TEAM, THIRD_APP)
    known = apple.keys.pop("KEY0000004")
    phones = [Phone(shop, apple.service, THIRD_APP) for _ in range(6)]
    shop.subscribe([phone.token for phone in phones], "third")
    held = [shop.publish("third", data={"held": "1"})]
    wait(lambda: shop.send(token=phones[0].token, data={"n": "1"})[0] == 401, "a send that is refused")
    error = shop.send(token=phones[5].token, data={"n": "2"})[1]
    codes = [detail["errorCode"] for detail in error["details"]]
    check(error["status"] == "UNAUTHENTICATED" and codes == ["THIRD_PARTY_AUTH_ERROR"],
          "a send to one phone is answered THIRD_PARTY_AUTH_ERROR")
    held.append(shop.publish("third", data={"held": "2"}))
    apple.keys["KEY0000004"] = known
    for name in held:
        wait(lambda name=name: all_got(phones, name), "what was held, after the next try", 240)
    phones[0].wait_for(phones[0].send(data={"n": "3"}))
    check(all(message.get("n") in (None, "1", "3") for phone in phones
              for _, _, message, _ in phone.device.accepted),
          "sends to topics were held; with a good key sends to phones are taken, and what was refused is not")


def another_team(shop, apple, phones):
    """Two apps of two teams have connections of their own."""
    others = [Phone(shop, apple.service, OTHER_APP) for _ in range(5)]
    shop.subscribe([phone.token for phone in others], "news")
    name = shop.publish("news", data={"two": "teams"})
    wait(lambda: all_got(phones, name), "the first app's phones")
    check(all(phone.device.requests == 0 for phone in others),
          "an app without a key gets nothing, and holds up none")
    apple.give(shop, "KEY0000003", OTHER_TEAM, OTHER_APP)
    wait(lambda: all_got(others, name), "the second app's phones, with their key")
    connections = [{accepted[1] for phone in some for accepted in phone.device.accepted}
                   for some in (phones, others)]
    check(not connections[0] & connections[1], "two teams share no connection")
    status = shop.push_status()["apns"]
    pairs = [(key["bundleId"], key["teamId"]) for key in status["keys"]]
    check(pairs == [(APP, TEAM), (OTHER_APP, OTHER_TEAM)]
          and "PRIVATE" not in str(status), "the status shows both keys, without their secrets")
    return others


def throttled(phone, other):
    phone.plan(429, "TooManyRequests", times=1)
    name = phone.send(data={"later": "1"})
    wait(lambda: phone.device.requests and not phone.device.plan, "429")
    other.wait_for(other.send(data={"now": "1"}), 20)
    check(phone.got(name) == 0, "a phone that Apple throttles holds up no other phone")
    phone.wait_for(name, 120)
    check(phone.got(name) == 1, "and gets its message later")


def killed(shop, phones):
    """The server dies with messages at Apple and in its journal."""
    for phone in phones:
        phone.plan(delay=3, times=1)
    names = [shop.publish("news", data={"n": str(number)}) for number in range(5)]
    wait(lambda: any(phone.got(names[0]) for phone in phones), "the first message at Apple")
    shop.server.kill()
    shop.server.start()
    shop.server.wait_ready()
    for name in names:
        wait(lambda name=name: all_got(phones, name), "all messages after the server was killed", 120)
    check(True, "messages that waited when the server was killed come after its start")
    doubles = 0
    for phone in phones:
        tried = [(message["gcm.message_id"], fields["apns-collapse-id"], fields["apns-id"])
                 for _, _, message, fields in phone.device.accepted]
        doubles += len(tried) - len(set(tried))
        assert len({name for name, _, _ in tried}) == len(set(tried)), "a message came with two collapse ids"
    check(True, f"{doubles} pushes came again, each with the ids of the first")


def everything(shop, apple):
    service = apple.service
    phone = Phone(shop, service)
    early = without_key(shop, phone)
    apple.give(shop, "KEY0000001", TEAM)
    for name in early:
        phone.wait_for(name)
    check([message["early"] for _, _, message, _ in phone.device.accepted] == ["0", "1", "2"],
          "what has waited for the key comes in order")
    phones = [phone] + [Phone(shop, service) for _ in range(DEVICES - 1)]
    shown = shop.device(phone.token)
    check(shown["platform"] == "IOS" and shown["transports"][0]["bundleId"] == APP
          and phone.apns not in str(shown).lower(), "the device shows its app, not its token")
    shop.subscribe([phone.token for phone in phones], "news")
    fan_out(shop, phones)
    activities(phones[2])
    gone(shop, phones[3])
    wrong_token(shop, phones[4])
    troubles(phones[5:8])
    refused_key(shop, apple, phones[:20])
    others = another_team(shop, apple, phones[:20])
    told(shop, apple)
    killed(shop, phones[:10] + others)
    throttled(phones[20], phones[21])
    tokens = {what["fields"]["authorization"] for what in service.seen if what.get("status") == 200}
    keys = 5  # The second team's, the first team's three, and the one of the server's second life.
    check(len(tokens) <= 2 * keys, f"{len(tokens)} tokens for all messages, one for each key and 40 minutes")
    check(not service.mistakes, f"the service understood each push: {service.mistakes[:3]}")
    check(not service.advice, f"and the client followed Apple's advice: {service.advice[:3]}")
    log = shop.server.log_text()
    check("PRIVATE" not in log and "bearer ey" not in log and phones[0].apns not in log,
          "the log has no secret")


def main():
    with making() as made:
        apple = Apple(made.folder)
        server = made.server()
        everything(Project(server), apple)
        server.end()
        apple.service.close()


main()
