"""What a stored folder must hold, and the demands that a server of today must meet on it: see formats.py."""
import http.client
import json
import os
import subprocess
import time

from system.checks import check
from system.device import EventStream, subscribe
from system.process import UNPRIVILEGED

# One device is in so many topics with long names that its partition's snapshot has several parts.
LONG = [f"long-{number:03d}-" + "x" * 780 for number in range(350)]
# The data of sends to this device with a ttl of 0 s, so that no message waits: 24 KB each in the journal,
# which packs them.
BULK = "\u0001" * 4000
SENDS_PER_MINUTE = 60


def ask(node, method, path, body=None, bearer="owner"):
    """The answer as an object. Any status but 200 fails the test."""
    headers = {"authorization": f"Bearer {bearer}", "content-type": "application/json",
               "access_token_auth": "true"}
    status, answer = node.call(method, path, body, headers)
    if status != 200:
        raise SystemExit(f"FAIL: {method} {path[:100]}: {status} {answer[:300]}")
    return json.loads(answer)


def command(node, *words, token=None):
    """Runs a command with --json: over the network where an operator's token is given, else over the admin
    socket."""
    way = ["--server", f"http://{node.host}:{node.port}"] if token else ["--data", node.data]
    done = subprocess.run([UNPRIVILEGED, node.binary, *words, "--json", *way], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **({"TIDECAST_TOKEN": token} if token else {})})
    if done.returncode != 0:
        raise SystemExit(f"FAIL: {' '.join(words)}: {done.stderr[:500]}")
    return json.loads(done.stdout)


def send(node, where, number, more=None):
    message = {**where, "data": {"n": str(number)}, **(more or {})}
    return ask(node, "POST", "/v1/projects/demo/messages:send", {"message": message})["name"]


def change(node, kind, topic, devices):
    subscribe(node, topic, [device["token"] for device in devices], f"batch{kind}")


def topics(node, device):
    found = ask(node, "GET", f"/iid/info/{device['token']}?details=true")
    return sorted(found.get("rel", {}).get("topics", {}))


def listen(node, device, until, resume=None):
    """The event ids of the messages that come, by number, until `until` is true of the numbers."""
    came = {}
    connection = http.client.HTTPConnection(node.host, node.port, timeout=40)
    path = f"/v1/projects/demo/registrations/{device['token'].split(':')[0]}"
    stream = EventStream(connection, path, device["credential"], resume)
    assert stream.status == 200, (stream.status, stream.answer.read())
    for event, kind, data in stream.events():
        if kind == "message":
            came[int(json.loads(data)["data"]["n"])] = event
            if until(set(came)):
                break
    stream.close()
    return came


def registered(node, project):
    found, page = [], ""
    while True:
        answer = ask(node, "GET", f"/v1/projects/{project}/registrations?pageSize=100{page}")
        found += [one["name"] for one in answer.get("registrations", [])]
        if not answer.get("nextPageToken"):
            return sorted(found)
        page = f"&pageToken={answer['nextPageToken']}"


def fill(node, is_enough):
    """Sends until the partition of the device in the long topics has snapshots."""
    for number in range(8000):
        if number % 20 == 0 and is_enough():
            return
        send(node, {"topic": LONG[0]}, 0, {"data": {"n": "0", "bulk": BULK}, "android": {"ttl": "0s"}})
    raise SystemExit("FAIL: no snapshot was made")


def acknowledge_much(node, other, is_enough):
    """Makes all that a stored folder must hold, and returns what the server has acknowledged, for
    `demand`."""
    devices = [ask(node, "POST", "/v1/projects/demo/registrations", {}) for _ in range(6)]
    change(node, "Add", "news", devices[:5])
    change(node, "Add", "sport", devices[:3])
    change(node, "Remove", "sport", devices[2:3])
    for topic in LONG:
        change(node, "Add", topic, devices[4:5])
    send(node, {"topic": "news"}, 1)
    event = listen(node, devices[0], lambda came: 1 in came)[1]
    fid = devices[0]["token"].split(":")[0]
    ask(node, "POST", f"/v1/projects/demo/registrations/{fid}:acknowledge", {"eventId": event},
        devices[0]["credential"])
    # The second device acknowledges when it comes back, by the id of its last event.
    devices[1]["resume"] = listen(other, devices[1], lambda came: 1 in came)[1]
    fill(node, is_enough)
    send(node, {"topic": "news"}, 2)
    send(other, {"condition": "'news' in topics && !('sport' in topics)"}, 3)
    send(node, {"token": devices[0]["token"]}, 4)
    send(other, {"topic": "sport"}, 5)
    for number in (6, 7):
        send(node, {"topic": "news"}, number, {"android": {"collapse_key": "score"}})
    waiting = [{2, 4, 5, 7}, {2, 5, 7}, {1, 2, 3, 7}, {1, 2, 3, 7}, {1, 2, 3, 7}, set()]
    ended = devices.pop()
    waiting.pop()
    ask(node, "DELETE", f"/v1/projects/demo/registrations/{ended['token'].split(':')[0]}")
    for device, numbers in zip(devices, waiting, strict=True):
        device["waiting"] = sorted(numbers)

    # The command runs without privileges, so it writes the file into the node's folder.
    command(node, "project", "create", "shop", "--service-account", f"{node.data}/account.json", "--force")
    os.unlink(f"{node.data}/account.json")
    keys = {kind: command(node, "project", "key", "create", "shop", "--kind", kind)["key"]
            for kind in ("device", "bearer")}
    command(node, "project", "quota", "shop", "--sends-per-minute", str(SENDS_PER_MINUTE))
    for _ in range(SENDS_PER_MINUTE - 10):
        ask(node, "POST", "/v1/projects/shop/messages:send", {"message": {"topic": "a"}}, keys["bearer"])
    lives = {name: command(node, "key", "create", "shop", "--kind", "bearer", "--name", name, "--expires",
                           "90d")
             for name in ("expiring", "revoked")}
    lives["operator"] = command(node, "key", "create", "--kind", "operator", "--role", "read", "--name",
                                "operator")
    command(node, "key", "revoke", lives["revoked"]["id"], "--yes")
    for own in ("registration", "signing"):
        command(node, "key", "rotate", own)
    return {"recorded": time.time(), "lives": lives, "devices": devices, "ended": ended["token"],
            "keys": keys,
            "registered": registered(node, "demo")}


def demand_lives(node, other, lives):
    """Credentials with an end, revoked credentials, the audit log, and the server's own keys. The first
    revision has none of them."""
    for name, wanted in (("expiring", 200), ("revoked", 401)):
        status, answer = other.call("POST", "/v1/projects/shop/messages:send", {"message": {"topic": "a"}},
                                    {"authorization": f"Bearer {lives[name]['key']}",
                                     "content-type": "application/json"})
        # The project's quota may be spent, and the server checks the key first: a valid key is answered with
        # 200 or 429.
        check(status in {wanted, 429 if wanted == 200 else wanted},
              f"the {name} key: {status} {answer[:200]}")
    listed = {one["name"]: one
              for one in command(other, "key", "list", "shop", token=lives["operator"]["key"])}
    check(listed["expiring"]["expireTime"] == lives["expiring"]["expireTime"],
          "an operator's token lists when a key ends")
    done = {entry["action"] for entry in command(node, "audit")}
    check({"key.create", "key.revoke", "key.rotate"} <= done,
          f"the audit log says what was done: {sorted(done)}")
    own = command(node, "key", "server")
    check(len(own["registration"]) == 2 and len(own["signing"]) >= 1, "rotated keys of the server are there")


def topics_known(number):
    return sorted(["news"] + (["sport"] if number < 2 else []) + (LONG if number == 4 else []))


def demand(node, other, known):
    """All that the earlier server acknowledged must hold in this one, and new requests must work."""
    found = [command(one, "project", "quota", "shop") for one in (node, other)]
    check(all(one["limits"]["sendsPerMinute"] == SENDS_PER_MINUTE for one in found),
          "the quota that was set is known")
    # In a cluster the last node to leave has no heir for the tokens that are left: buckets then begin empty.
    # `left` is missing where no node has opened the bucket yet.
    for left in (one["left"] for one in found if "left" in one):
        check(left["sends"] < SENDS_PER_MINUTE, f"what was spent is spent: {left}")
    check(registered(node, "demo") == known["registered"], f"{len(known['registered'])} devices are known")
    for number, device in enumerate(known["devices"]):
        found = topics(other, device)
        check(found == topics_known(number), f"device {number} is in its {len(found)} topics")
    status, answer = node.call("POST", "/v1/projects/demo/messages:send",
                               {"message": {"token": known["ended"]}})
    check(status == 404 and b"UNREGISTERED" in answer, "a device that was unregistered is told to be")
    send(other, {"topic": "news"}, 100)
    for number, device in enumerate(known["devices"]):
        wanted = set(device["waiting"]) | {100}
        came = listen(node, device, wanted.issubset, device.get("resume"))
        check(set(came) == wanted, f"device {number} gets what waited, and what is new: {sorted(came)}")
    keys = known["keys"]
    status, answer = other.call("POST", "/v1/projects/shop/registrations", {},
                                {"x-goog-api-key": keys["device"]})
    check(status == 200, f"the device key registers: {status} {answer[:200]}")
    device = json.loads(answer)
    end = time.monotonic() + 30
    while True:
        status, answer = other.call("POST", "/v1/projects/shop/messages:send",
                                    {"message": {"token": device["token"]}},
                                    {"authorization": f"Bearer {keys['bearer']}",
                                     "content-type": "application/json"})
        if status != 429 or time.monotonic() > end:
            break
        time.sleep(0.5)
    check(status == 200, f"the bearer key sends: {status} {answer[:200]}")
    status, _ = other.call("POST", "/v1/projects/shop/messages:send", {"message": {"topic": "a"}},
                           {"authorization": f"Bearer {keys['device']}", "content-type": "application/json"})
    check(status in (401, 403), "the device key does not")
    if "lives" in known:
        demand_lives(node, other, known["lives"])
