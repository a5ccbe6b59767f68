"""kill -9 of the server under load, many times: no change that the server acknowledged may be lost, and no
message that a device acknowledged may come again.

This process keeps a history of its operations (acknowledged or unknown). After each restart a checker reads
the server's state through the API and compares it with the history. Usage: crash.py ROUNDS SEED
"""
import concurrent.futures
import http.client
import json
import random
import signal
import sys
import threading
import time

from system.device import EventStream, register
from system.process import DevelopmentServer, make_folder, remove

ROUNDS, SEED = int(sys.argv[1]), int(sys.argv[2])
rng = random.Random(SEED)
server = DevelopmentServer(make_folder())
TOPICS = [f"topic-{i}" for i in range(6)]


def call(connection, method, path, body=None):
    headers = {"authorization": "Bearer owner", "access_token_auth": "true"}
    connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read() or b"{}")


def connect():
    return http.client.HTTPConnection(server.host, server.port, timeout=20)


def start():
    """Starts the server, and waits until it answers for a project."""
    server.start()
    server.wait_ready()
    status, answer = call(connect(), "GET", "/v1/projects/demo/topics")
    if status != 200:
        raise SystemExit(f"seed {SEED}: the server is ready and answers {status} {answer}; its log is"
                         f" {server.log}")


class Known:
    """A device, and what the history says of it."""

    def __init__(self, answer):
        self.token, self.credential = answer["token"], answer["credential"]
        self.wanted = {}  # topic -> True, False, or None where an unanswered change leaves it open
        self.expected = set()  # messages that must come
        self.possible = set()  # messages that may come
        self.done = set()  # acknowledged by the device


devices, lock = [], threading.Lock()


def worker(seed, stop):
    """Changes subscriptions of its own devices and sends to topics of its own, until the server dies or 61
    sends are made."""
    own = random.Random(seed)
    mine = devices[seed % 4 :: 4]
    number = 0
    connection = connect()
    while not stop.is_set():
        device = own.choice(mine)
        topic = f"{own.choice(TOPICS)}-{seed % 4}"
        try:
            if own.random() < 0.4:
                subscribe = own.random() < 0.7
                verb = "batchAdd" if subscribe else "batchRemove"
                with lock:
                    device.wanted[topic] = None
                status, answer = call(
                    connection, "POST", f"/iid/v1:{verb}",
                    {"to": f"/topics/{topic}", "registration_tokens": [device.token]})
                if status == 200 and answer["results"] == [{}]:
                    with lock:
                        device.wanted[topic] = subscribe
            else:
                number += 1
                name = f"{seed}-{number}"
                with lock:
                    sure = [d for d in mine if d.wanted.get(topic) is True]
                    maybe = [d for d in mine if d.wanted.get(topic, False) is None]
                    for d in sure + maybe:
                        d.possible.add(name)
                status, answer = call(
                    connection, "POST", "/v1/projects/demo/messages:send",
                    {"message": {"topic": topic, "data": {"name": name}}})
                if status == 200:
                    with lock:
                        for d in sure:
                            d.expected.add(name)
            if number > 60:
                return
        except (OSError, http.client.HTTPException, ValueError):
            return


def drain(device):
    """Listens until 2 s pass without an event, and acknowledges everything. Returns the names that came, and
    whether some were dropped."""
    connection = connect()
    stream = EventStream(connection, f"/v1/projects/demo/registrations/{device.token}", device.credential)
    if stream.status != 200:
        raise SystemExit(f"seed {SEED}: listening failed with {stream.status}: {stream.answer.read()}")
    names, last, dropped = [], None, False
    stream.socket.settimeout(2)
    try:
        for event, kind, data in stream.events():
            last = event or last
            if kind == "deleted_messages":
                dropped = True
            elif kind == "message":
                names.append(json.loads(data)["data"]["name"])
    except OSError:
        pass
    stream.close()
    if last:
        status, answer = call(
            connect(), "POST",
            f"/v1/projects/demo/registrations/{device.token}:acknowledge?credential={device.credential}",
            {"eventId": last})
        if status != 200:
            raise SystemExit(f"seed {SEED}: acknowledging failed: {answer}")
    return names, dropped


def check(round_number):
    problems = []
    connection = connect()
    with concurrent.futures.ThreadPoolExecutor(len(devices)) as pool:
        drained = list(pool.map(drain, devices))
    for place, device in enumerate(devices):
        status, answer = call(
            connection, "GET",
            f"/v1/projects/demo/registrations/{device.token.replace(':', '%3A')}/topicSubscriptions")
        if status != 200:
            problems.append(f"device {place} cannot be read: {answer}")
            continue
        have = {entry["topicName"] for entry in answer["topicSubscriptions"]}
        for topic, wanted in device.wanted.items():
            if wanted is True and topic not in have:
                problems.append(f"device {place}: the acknowledged subscription to {topic} is lost")
            if wanted is False and topic in have:
                problems.append(f"device {place}: the acknowledged end of {topic} is undone")
            if wanted is None:
                device.wanted[topic] = topic in have
        names, dropped = drained[place]
        came = set(names)
        if not dropped:
            for name in device.expected - came:
                problems.append(f"device {place}: the acknowledged message {name} did not come")
        for name in came & device.done:
            problems.append(f"device {place}: {name} came again after its acknowledgement")
        for name in came - device.possible:
            problems.append(f"device {place}: {name} was not for it")
        if len(names) != len(came):
            problems.append(f"device {place}: something came twice on one stream")
        device.done |= came
        device.expected, device.possible = set(), set()
    if problems:
        print("\n".join(problems[:20]))
        raise SystemExit(f"seed {SEED}, round {round_number}: {len(problems)} problems; log {server.log}")


def main():
    start()
    devices.extend(Known(register(server)) for _ in range(12))
    for round_number in range(ROUNDS):
        stop = threading.Event()
        workers = [threading.Thread(target=worker, args=(round_number * 4 + i, stop)) for i in range(4)]
        for thread in workers:
            thread.start()
        time.sleep(rng.uniform(0.02, 0.35))
        server.end(signal.SIGKILL)
        stop.set()
        for thread in workers:
            thread.join()
        start()
        check(round_number)
    code = server.end(limit=30)
    remove(server.folder)
    print(f"seed {SEED}: {ROUNDS} kills survived, ended with {code}")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        server.kill()
