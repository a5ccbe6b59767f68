"""Rows of the table about messages and their targets."""
import json
import time

from harness import error, expect

BAD = (400, "INVALID_ARGUMENT")
# Longer than a time to live of 1 s.
EXPIRED_SECONDS = 1.5


def row_1(s):
    """A send to each kind of target is answered with 200 and a name of its own."""
    device = s.register()
    names = [s.sent({target: value, "data": {"n": "1"}}) for target, value in [
        ("topic", "one"), ("token", device.token), ("fid", device.fid), ("token", device.fid),
        ("condition", "'one' in topics")]]
    expect(len(set(names)) == 5, names)
    expect(all(name.startswith("projects/shop/messages/") for name in names), names)


def row_2(s):
    """A request may name its project by number; another project's bearer key is refused."""
    number = next(one["projectNumber"] for one in json.loads(s.admin("project", "list", "--json"))
                  if one["project"] == "shop")
    expect(s.send({"topic": "a"}, project=number).status == 200, "by number")
    error(s.send({"topic": "a"}, bearer=s.other_bearer), 403, "PERMISSION_DENIED")
    error(s.send({"topic": "a"}, project="other"), 403, "PERMISSION_DENIED")


def row_3(s):
    """validate_only validates the whole message and delivers nothing."""
    device = s.register()
    s.subscribe("dry", device)
    stream = device.listen()
    for spelling in ("validate_only", "validateOnly"):
        for target in ({"topic": "dry"}, {"condition": "'dry' in topics"}, {"token": device.token}):
            name = s.sent({**target, "data": {"n": "dry"}}, extra={spelling: True})
            expect(name == "projects/shop/messages/fake_message_id", name)
    error(s.send({"topic": "dry", "data": {"from": "x"}}, extra={"validate_only": True}), *BAD,
          "INVALID_ARGUMENT")
    s.sent({"topic": "dry", "data": {"n": "wet"}}, extra={"validate_only": False})
    got = stream.only(1)
    stream.close()
    expect([one["data"]["n"] for one in got] == ["wet"], got)


def row_4(s):
    """Both spellings of fields (snake case and camel case), mixed in one body as one SDK does."""
    device = s.register()
    stream = device.listen()
    s.sent({"token": device.token, "android": {
        "collapse_key": "k", "notification": {"click_action": "c", "eventTime": "2026-01-01T00:00:00Z"},
        "fcmOptions": {"analyticsLabel": "l"}}, "fcm_options": {"analyticsLabel": "m"}})
    got = stream.messages(1)[0]
    stream.close()
    expect(got["android"]["notification"] == {"clickAction": "c", "eventTime": "2026-01-01T00:00:00Z"}, got)
    expect(got["collapseKey"] == "k" and got["android"]["fcmOptions"] == {"analyticsLabel": "l"}, got)


def row_5(s):
    """Priority in lower case and upper case."""
    for word in ("high", "HIGH", "normal", "NORMAL"):
        s.sent({"topic": "a", "android": {"priority": word}})
    error(s.send({"topic": "a", "android": {"priority": "urgent"}}), *BAD, None, "message.android.priority")


def row_6(s):
    """An unknown field is refused by name; of a repeated key the last value counts."""
    details = error(s.send({"topic": "a", "colour": "red"}), *BAD)
    expect("colour" in str(details["BadRequest"]), details)
    device = s.register()
    stream = device.listen()
    body = b'{"message":{"token":"x","token":"%s","data":{"k":"1","k":"2"}}}' % device.token.encode()
    expect(s.call("POST", "/v1/projects/shop/messages:send", body).status == 200, "duplicate keys")
    got = stream.messages(1)
    stream.close()
    expect(got[0]["data"] == {"k": "2"}, got)


def row_7(s):
    """A send without a target, or with two targets, is refused."""
    answer = s.send({"data": {"a": "b"}})
    error(answer, *BAD, "INVALID_ARGUMENT")
    expect("Recipient of the message is not set." in answer.text, answer.text)
    error(s.send({"topic": "a", "condition": "'a' in topics"}), *BAD, "INVALID_ARGUMENT")
    error(s.call("POST", "/v1/projects/shop/messages:send", {}), *BAD, "INVALID_ARGUMENT")


def row_8(s):
    """A number in the place of a string is refused."""
    error(s.send({"topic": "a", "data": {"x": "y", "n": 12}}), *BAD, None, "message.data[1].value")


def row_9(s):
    """Data keys that are reserved for client libraries are refused."""
    for key in ("from", "message_type", "google.x", "gcm.notification.x"):
        error(s.send({"topic": "a", "data": {key: "1"}}), *BAD, "INVALID_ARGUMENT", "message.data", row=key)
    for key in ("collapse_key", "fromage", "googly", "gcm"):
        s.sent({"topic": "a", "data": {key: "1"}})


def row_10(s):
    """A payload of 4,096 bytes is accepted; one byte more is refused."""
    for target in ({"topic": "a"}, {"token": s.register().token}):
        s.sent({**target, "data": {"k": "x" * 4095}})
        error(s.send({**target, "data": {"k": "x" * 4096}}), *BAD, "INVALID_ARGUMENT")
        error(s.send({**target, "data": {"k": "x" * 4000}, "notification": {"title": "y" * 100}}), *BAD,
              "INVALID_ARGUMENT")


def row_11(s):
    """Time to live: its form and its bounds; a fraction of a second is rounded down."""
    for ttl in ("0s", "3.500000000s", "2419200s"):
        s.sent({"topic": "a", "android": {"ttl": ttl}})
    for ttl in ("-1s", "2419201s", "3500", "3.5", "1.s", "s", "1e3s", 3500):
        answer = s.send({"topic": "a", "android": {"ttl": ttl}})
        expect(answer.status == 400 and "message.android.ttl" in answer.text, ttl, answer.text)
    device = s.register()
    s.sent({"token": device.token, "data": {"n": "short"}, "android": {"ttl": "1.999s"}})
    s.sent({"token": device.token, "data": {"n": "long"}, "android": {"ttl": "60s"}})
    time.sleep(EXPIRED_SECONDS)
    stream = device.listen()
    got = stream.only(1)
    stream.close()
    expect([one["data"]["n"] for one in got] == ["long"], got)


def row_12(s):
    """Topic names: length and characters."""
    for name in ("x" * 900, "-_.~%", "%25", "A-z_0.9~%", "a"):
        s.sent({"topic": name})
    for name in ("x" * 901, "a b", "a/b", "é", "a:b", "", "a+b"):
        error(s.send({"topic": name}), *BAD, "INVALID_ARGUMENT", "message.topic", row=name)


def row_13(s):
    """Conditions: order of operations, five topics, errors."""
    devices = {letter: s.register() for letter in "abc"}
    for letter, device in devices.items():
        s.subscribe(f"c13-{letter}", device)
    both = s.register()
    for letter in "ac":
        s.subscribe(f"c13-{letter}", both)
    streams = {name: device.listen() for name, device in [*devices.items(), ("both", both)]}

    def reached(condition, wanted):
        s.sent({"condition": condition, "data": {"c": condition}})
        # The marker for each device follows the condition.
        for device in [*devices.values(), both]:
            s.sent({"token": device.token, "data": {"c": "end"}})
        who = set()
        for name, stream in streams.items():
            got = []
            while "end" not in got:
                more = stream.messages(1)
                expect(more, "no marker for", name)
                got.append(more[0]["data"]["c"])
            # The condition's message may come after the marker: where none is wanted, the row waits 0.3 s for
            # it.
            late = [] if condition in got else stream.messages(1, 10 if name in wanted else 0.3)
            if condition in got or any(one["data"]["c"] == condition for one in late):
                who.add(name)
        return who == wanted

    a, b, c = (f"'c13-{letter}' in topics" for letter in "abc")
    expect(reached(f"{a} || {b}", {"a", "b", "both"}), "or")
    expect(reached(f"{a} && {c}", {"both"}), "and")
    expect(reached(f"{a} || {b} && {c}", {"both"}), "left to right")
    expect(reached(f"{a} || ({b} && {c})", {"a", "both"}), "parentheses first")
    expect(reached(f"{a} && !({c})", {"a"}), "not")
    for stream in streams.values():
        stream.close()
    five = " || ".join(f"'t{n}' in topics" for n in range(5))
    s.sent({"condition": five})
    s.sent({"condition": f"({five}) && 't0' in topics"})
    for bad in (f"{five} || 't5' in topics", "('a' in topics", "a in topics", "'a' in topics &&", "",
                "'a' in topic",
                "'a' in topics & 'b' in topics", "\"a\" in topics", "'a' in topics)",
                "(" * 300 + "'a' in topics"):
        error(s.send({"condition": bad}), *BAD, "INVALID_ARGUMENT", "message.condition", row=bad[:40])


def row_14(s):
    """Tokens: of an unregistered device, malformed, of another project."""
    device = s.register()
    expect(s.call("DELETE", device.path).status == 200, "unregister")
    error(s.send({"token": device.token}), 404, "NOT_FOUND", "UNREGISTERED")
    live = s.register()
    for bad in ("", "x", "abc:def", live.token[:-1], live.token[:-4] + "AAAA", live.token + "x", "x" * 45,
                "é"):
        error(s.send({"token": bad}), *BAD, "INVALID_ARGUMENT", "message.token", row=bad)
    error(s.send({"token": live.fid + ":" + device.token.split(":")[1]}), *BAD, "INVALID_ARGUMENT",
          "message.token")
    error(s.send({"token": s.register("other").token}), 403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH")


def row_15(s):
    """The installation id of an unregistered device."""
    device = s.register()
    s.call("DELETE", device.path)
    error(s.send({"fid": device.fid}), 404, "NOT_FOUND", "UNREGISTERED")
    error(s.send({"fid": "x"}), *BAD, "INVALID_ARGUMENT", "message.fid")


def row_43(s):
    """The 101st waiting message drops the others, and the server tells the device once."""
    device = s.register()
    s.subscribe("many", device)
    for n in range(101):
        s.sent({"topic": "many", "data": {"n": str(n)}})
    stream = device.listen()
    got = stream.take(2)
    more = stream.take(1, 0.5)
    stream.close()
    expect([event for _, event, _ in got] == ["deleted_messages", "message"], got)
    expect(got[1][2]["data"] == {"n": "100"} and not more, got, more)
    device.acknowledge(got[1][0])
    stream = device.listen()
    expect(not stream.take(1, 0.5), "told twice")
    stream.close()


def row_44(s):
    """A collapse key replaces the waiting message of the same key; a fifth key drops one message."""
    device = s.register()
    for n in range(3):
        s.sent({"token": device.token, "data": {"n": str(n)}, "android": {"collapse_key": "same"}})
    stream = device.listen()
    got = stream.only(1)
    stream.close()
    expect([one["data"]["n"] for one in got] == ["2"], got)
    other = s.register()
    for n in range(5):
        s.sent({"token": other.token, "data": {"n": str(n)},
                "apns": {"headers": {"apns-collapse-id": f"k{n}"}}})
    stream = other.listen()
    got = stream.only(4)
    stream.close()
    expect(len(got) == 4 and got[-1]["data"]["n"] == "4", got)


def row_45(s):
    """An expired message is dropped; a message with a time to live of 0 s goes only to listening devices."""
    device = s.register()
    s.sent({"token": device.token, "data": {"n": "now"}, "android": {"ttl": "0s"}})
    s.sent({"token": device.token, "data": {"n": "1"}, "webpush": {"headers": {"TTL": "1"}}})
    s.sent({"token": device.token, "data": {"n": "60"}, "webpush": {"headers": {"TTL": "60"}}})
    time.sleep(EXPIRED_SECONDS)
    stream = device.listen()
    got = stream.only(1)
    expect([one["data"]["n"] for one in got] == ["60"], got)
    s.sent({"token": device.token, "data": {"n": "live"}, "android": {"ttl": "0s"}})
    got = stream.messages(1)
    stream.close()
    expect([one["data"]["n"] for one in got] == ["live"], got)


ROWS = {number: function for name, function in list(globals().items()) if name.startswith("row_")
        for number in [int(name[4:])]}
