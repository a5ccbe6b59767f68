"""The load of a run: backends that subscribe, send and register; devices that listen, resume and acknowledge.

All operations go through all gateways. One thread changes the subscriptions of all devices of a project, one
change after the other, so that each device's subscriptions follow from the history. Devices subscribe to the
topics named `stable-` before the load begins, and these subscriptions never change: the fan-out of conditions
over these topics is exact. Conditions over topics that change are in `swaps.py`.
"""
import itertools
import json
import threading
import time

from client import FAULTS, Client, Pace, open_stream, spawn
from history import History
from setup import TOKEN_OF_NOBODY
from swaps import Swaps

# Each run has topics with a number of its own, so that an earlier run's subscriptions do not count.
_runs = itertools.count(1)


class Device:
    def __init__(self, project, answer):
        self.project = project
        self.fid, self.token = answer["name"].split("/")[-1], answer["token"]
        self.credential = answer["credential"]
        self.stream, self.opened, self.until = None, 0, None
        self.last_event = None


class Workload:
    def __init__(self, cluster, projects, seed, devices=5, rates=None):
        self.cluster, self.projects, self.seed = cluster, projects, seed
        self.history = History()
        mark = next(_runs)
        self.stable = [f"stable-{number}-{mark}" for number in range(4)]
        self.churn = [f"churn-{number}-{mark}" for number in range(8)]
        self.swaps = Swaps(self, mark)
        # Operations a second: of a device for `swap`, else of a project.
        self.rates = {"change": 3.0, "send": 3.0, "bad": 1.0, "register": 0.3, "swap": 0.7, "condition": 1.0,
                      "read": 3.0, **(rates or {})}
        self.over, self.closing = threading.Event(), threading.Event()
        self.device_count = devices
        self.devices, self.late, self.gone = [], [], []
        self.threads, self.listeners = [], []
        self.numbers = iter(range(1, 1 << 60))
        self.lock = threading.Lock()
        self.changing = set()  # pairs of a device and a topic with a change under way
        self.wishes = {}  # (device, topic) -> the last change that the load asked for

    def client(self, name):
        return Client(self.cluster.gateways, f"{self.seed}-{name}")

    # Operations. Each adds itself to the history.

    def attempt(self, client, gateway, op, method, path, body, headers, **fields):
        """One try of an operation. The outcome of a 503 depends on whether the operation may be repeated."""
        history = self.history
        number = history.invoke(op, gateway=gateway.name, **fields)
        status, answer = client.call(gateway, method, path, body, headers)
        if status == 200:
            outcome = "ok"
        elif status in (400, 401, 403, 404, 409, 429) or (status == 503 and op == "send"):
            outcome = "fail"
        else:
            outcome = "unknown"
        return number, outcome, status, answer

    def repeat(self, client, op, method, path, body, headers, fields, more=None):
        """Repeats an operation as an SDK does: on 503 and on a broken connection, never on 504. Returns the
        last answer."""
        gateway, pauses, tries = client.pick(), client.pauses(), 0
        while True:
            extra = more() if more else {}
            sent = extra.pop("body", body)
            number, outcome, status, answer = self.attempt(
                client, gateway, op, method, path, sent, headers, retry=tries, **fields, **extra)
            self.history.complete(number, outcome, status,
                                  **({"answer": str(answer)[:200]} if outcome != "ok" else {}),
                                  **({"device": answer["name"].split("/")[-1]} if op == "register"
                                     and status == 200 else {}))
            if status not in (0, 503):
                return status, answer
            pause = next(pauses, None)
            if pause is None or self.closing.wait(pause):
                return status, answer
            gateway, tries = client.pick(gateway), tries + 1

    def register(self, client, project):
        status, answer = self.repeat(
            client, "register", "POST", f"/v1/projects/{project.id}/registrations", {},
            {"x-goog-api-key": project.device_key}, {"project": project.id})
        return Device(project, answer) if status == 200 else None

    def change(self, client, devices, topic, is_on):
        """Changes the subscriptions of some devices to a topic: one operation in the history for each
        device. Returns whether the first try was answered with success for all."""
        pairs = {(device, topic) for device in devices}
        self.changing |= pairs
        try:
            return self.try_changes(client, devices, topic, is_on)
        finally:
            self.changing -= pairs

    def changing_in(self, project):
        """The changes under way of devices that listen."""
        return [(device, topic) for device, topic in list(self.changing)
                if device.project is project and device.opened]

    def try_changes(self, client, devices, topic, is_on):
        project, op = devices[0].project, "subscribe" if is_on else "unsubscribe"
        pauses, tries, gateway = client.pauses(), 0, client.pick()
        while devices:
            fields = [{"project": project.id, "device": one.fid, "topic": topic, "gateway": gateway.name,
                       "retry": tries} for one in devices]
            numbers = [self.history.invoke(op, **one) for one in fields]
            status, results, answer = self.ask_change(client, gateway, devices, topic, is_on)
            left = []
            for number, device, result in zip(numbers, devices, results, strict=True):
                if result == "":
                    self.history.complete(number, "ok", 200)
                elif result in ("INTERNAL", None):
                    self.history.complete(number, "unknown", status if result is None else 503,
                                          answer=str(answer)[:120])
                    left.append(device)
                else:
                    self.history.complete(number, "fail", 429 if result == "RESOURCE_EXHAUSTED" else 400,
                                          answer=result)
            devices, tries = left, tries + 1
            if devices:
                pause = next(pauses, None)
                if pause is None or self.closing.wait(pause):
                    return False
                gateway = client.pick(gateway)
        return tries == 1 and not any(results)

    @staticmethod
    def ask_change(client, gateway, devices, topic, is_on):
        """(status, for each device "" for done, `None` for not known, else the error, answer)."""
        project = devices[0].project
        headers = {"authorization": f"Bearer {project.bearer}", "access_token_auth": "true"}
        if len(devices) == 1 and client.random.random() < 0.5:
            path = f"/v1/projects/{project.id}/registrations/{devices[0].fid}/topicSubscriptions/{topic}"
            if is_on:
                status, answer = client.call(gateway, "PATCH", path + "?allowMissing=true", {}, headers)
            else:
                status, answer = client.call(gateway, "DELETE", path + "?allow_missing=true", None, headers)
            word = "" if status == 200 else None if status in (0, 503) else f"{status} {answer}"
            return status, [word], answer
        verb = "batchAdd" if is_on else "batchRemove"
        status, answer = client.call(gateway, "POST", f"/iid/v1:{verb}", {
            "to": f"/topics/{topic}", "registration_tokens": [one.token for one in devices]}, headers)
        if status == 200:
            return status, [one.get("error", "") for one in answer["results"]], answer
        word = None if status in (0, 503) else f"{status} {answer}"
        return status, [word] * len(devices), answer

    def send(self, client, project, target, **fields):
        """Sends a message. Each try has a number of its own, so that the deliveries show which tries
        arrived."""
        def body():
            with self.lock:
                n = next(self.numbers)
            return {"n": n, "body": {"message": {**target, "data": {"n": str(n)}}}}
        return self.repeat(client, "send", "POST", f"/v1/projects/{project.id}/messages:send", None,
                           {"authorization": f"Bearer {project.bearer}"}, {"project": project.id, **fields},
                           body)

    # Threads

    def prepare(self):
        """Registers the devices, and makes their first subscriptions and streams."""
        client = self.client("prepare")
        for project in self.projects:
            mine = []
            for _ in range(self.device_count):
                device = self.register(client, project)
                if device is None:
                    raise RuntimeError("no device could be registered before the fault")
                mine.append(device)
            self.devices += mine
            for place, topic in enumerate(self.stable):
                self.change(client, [one for number, one in enumerate(mine) if (number + place) % 3 != 0],
                            topic, True)
            for place, topic in enumerate(self.churn):
                chosen = [one for number, one in enumerate(mine) if (number + place) % 4 == 0]
                self.change(client, chosen, topic, True)
                for device in chosen:
                    self.wishes[device.fid, topic] = True
            self.swaps.prepare(client, mine)
            gone = self.register(client, project)
            client.call(client.pick(), "DELETE", f"/v1/projects/{project.id}/registrations/{gone.fid}", None,
                        {"authorization": f"Bearer {gone.credential}"})
            self.gone.append(gone)
        for number, device in enumerate(self.devices):
            self.listeners.append(spawn(self.listen, device, number))
        end = time.monotonic() + 20
        while not all(device.opened for device in self.devices):
            if time.monotonic() > end:
                raise RuntimeError("the streams did not open before the fault")
            time.sleep(0.05)
        spawn(self.close_streams)

    def begin(self):
        for project in self.projects:
            self.threads.append(spawn(self.run_changes, project))
            for thread in range(2):
                self.threads.append(spawn(self.run_sends, project, thread))
        self.threads.append(spawn(self.run_bad))
        self.threads += self.swaps.begin()

    def stop(self):
        """Begins no new operations, and waits until the operations under way have ended."""
        self.over.set()
        for thread in self.threads:
            thread.join(timeout=35)

    def close(self):
        self.over.set()
        self.closing.set()
        for device in self.devices:
            stream = device.stream
            if stream:
                stream.close()
        for thread in self.listeners:
            thread.join(timeout=5)

    def run_changes(self, project):
        client = self.client(f"change-{project.id}")
        rng = client.random
        mine = [device for device in self.devices if device.project is project]
        for _ in Pace(self.over, self.rates["change"], rng):
            topic = rng.choice(self.churn)
            device = rng.choice(mine)
            is_on = not self.wishes.get((device.fid, topic), False)
            chosen = [device] + [one for one in mine if one is not device and rng.random() < 0.2
                                 and self.wishes.get((one.fid, topic), False) != is_on]
            for one in chosen:
                self.wishes[one.fid, topic] = is_on
            self.change(client, chosen, topic, is_on)
            if rng.random() < self.rates["register"] / self.rates["change"]:
                late = self.register(client, project)
                if late:
                    self.late.append(late)
                    self.change(client, [late], rng.choice(self.churn), True)

    def run_sends(self, project, number):
        client = self.client(f"send-{project.id}-{number}")
        rng = client.random
        mine = [device for device in self.devices if device.project is project]
        for _ in Pace(self.over, self.rates["send"], rng):
            dice = rng.random()
            if dice < 0.1:
                device = rng.choice(mine)
                self.send(client, project, {"token": device.token}, device=device.fid)
            elif dice < 0.25:
                one, other = rng.sample(self.stable, 2)
                operator = rng.choice(["&&", "||"])
                self.send(client, project, {"condition": f"'{one}' in topics {operator} '{other}' in topics"},
                          operator=operator, topics=[one, other])
            else:
                topic = rng.choice(self.stable if rng.random() < 0.4 else self.churn)
                self.send(client, project, {"topic": topic}, topic=topic)

    def run_bad(self):
        """Wrong requests. The answer must be the right error, or 503 or 504 where the gateway cannot prove
        the error; never 200."""
        client = self.client("bad")
        rng = client.random
        for _ in Pace(self.over, self.rates["bad"], rng):
            project, gone = rng.choice(list(zip(self.projects, self.gone, strict=True)))
            bearer = {"authorization": f"Bearer {project.bearer}"}
            target, headers, expected = rng.choice([
                ({"token": gone.token}, bearer, 404), ({"token": TOKEN_OF_NOBODY}, bearer, 400),
                ({"topic": "a b"}, bearer, 400),
                ({"topic": self.churn[0]}, {"authorization": "Bearer nobody"}, 401)])
            gateway = client.pick()
            number = self.history.invoke("bad", expected=expected, gateway=gateway.name)
            status, answer = client.call(gateway, "POST", f"/v1/projects/{project.id}/messages:send",
                                         {"message": {**target, "data": {"n": "0"}}}, headers)
            self.history.complete(number, "ok" if status == expected else "unknown", status,
                                  answer=str(answer)[:200])

    # Devices

    def listen(self, device, number):
        client = self.client(f"device-{number}")
        rng, hops, gateway = client.random, number % 2 == 0, None
        while not self.closing.is_set():
            gateway = client.pick(gateway)
            resume = device.last_event if rng.random() < 0.7 else None
            acknowledged = None
            if resume:
                acknowledged = self.history.invoke("acknowledge", device=device.fid, event=resume,
                                                   via="listen", gateway=gateway.name)
            status = 0
            try:
                stream = open_stream(gateway, device.project.id, device.fid, device.credential, resume)
                status = stream.status
            except FAULTS:
                stream = None
            if acknowledged:
                self.history.complete(acknowledged, "ok" if status == 200 else "unknown", status)
            if status != 200:
                self.history.note("refused-stream", device=device.fid, gateway=gateway.name, status=status)
                if stream:
                    stream.close()
                self.closing.wait(0.3)
                continue
            device.opened += 1
            name = f"{device.fid}/{device.opened}"
            self.history.note("stream", device=device.fid, stream=name, gateway=gateway.name,
                              resumed=bool(resume))
            device.until = time.monotonic() + rng.uniform(3, 12) if hops else None
            device.stream = stream
            how = "ended"
            try:
                for event in stream.events():
                    self.receive(client, device, name, gateway, event)
            except FAULTS as error:
                how = type(error).__name__
            except AttributeError:  # http.client raises it where its socket was closed meanwhile
                how = "closed"
            device.stream = None
            stream.close()
            self.history.note("stream-end", device=device.fid, stream=name, how=how)
            self.closing.wait(rng.uniform(0.02, 0.3))

    def receive(self, client, device, stream, gateway, event):
        identity, kind, data = event
        if kind == "message":
            content = json.loads(data)
            self.history.note("deliver", device=device.fid, stream=stream, event=identity,
                              n=int(content["data"]["n"]), message=content["messageId"])
            device.last_event = identity
        else:
            self.history.note("told", device=device.fid, stream=stream, event=identity, what=kind)
            return
        if client.random.random() < 0.2:
            number = self.history.invoke("acknowledge", device=device.fid, event=identity, via="post",
                                         gateway=gateway.name)
            status, answer = client.call(
                gateway, "POST", f"/v1/projects/{device.project.id}/registrations/{device.fid}:acknowledge",
                {"eventId": identity}, {"authorization": f"Bearer {device.credential}"})
            self.history.complete(number, "ok" if status == 200 else "unknown", status,
                                  answer=str(answer)[:120])

    def close_streams(self):
        """Closes the streams of moving devices when their time at a gateway is over."""
        while not self.closing.wait(0.1):
            now = time.monotonic()
            for device in self.devices:
                stream, until = device.stream, device.until
                if stream and until and now > until:
                    device.until = None
                    stream.close()

    # The end

    def final(self):
        """The final state, when all is quiet: subscriptions by the devices' own lists, members by the topics'
        counts."""
        client = self.client("final")
        lists, members = {}, {}
        for device in self.devices + self.late:
            path = f"/v1/projects/{device.project.id}/registrations/{device.fid}/topicSubscriptions"
            status, answer = self.read(client, path, device.project)
            lists[device.fid] = sorted(one["topicName"] for one in answer["topicSubscriptions"]) \
                if status == 200 else status
        for project in self.projects:
            for topic in self.stable + self.churn + self.swaps.topics:
                status, answer = self.read(client, f"/v1/projects/{project.id}/topics/{topic}", project)
                members[f"{project.id}/{topic}"] = int(answer["memberCount"]) if status == 200 else \
                    0 if status == 404 else -status
        projects = {device.fid: device.project.id for device in self.devices + self.late}
        return {"lists": lists, "members": members, "projects": projects}

    @staticmethod
    def read(client, path, project):
        for _ in range(20):
            status, answer = client.call(client.pick(), "GET", path, None,
                                         {"authorization": f"Bearer {project.bearer}"})
            if status not in (0, 503):
                break
            time.sleep(0.5)
        return status, answer
