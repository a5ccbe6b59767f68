"""An app with the Swift client library on a cluster: see swift_client_cluster.sh."""
import http.client
import json
import signal

from system.app import App
from system.balancer import Balancer
from system.checks import check, wait
from system.device import subscribe
from system.node import making, start

# The app takes so many seconds to handle one message.
PAUSE = 20


def send(nodes, topic, numbers):
    """Sends a message with each number through the nodes in turn. Returns the numbers that were accepted, and
    those of which the node's answer did not say so."""
    accepted, unknown = [], []
    for number in numbers:
        body = {"message": {"topic": topic, "data": {"n": str(number)}}}
        try:
            status, _ = nodes[number % len(nodes)].call("POST", "/v1/projects/demo/messages:send", body)
        except (OSError, http.client.HTTPException):
            status = 0
        (accepted if status == 200 else unknown).append(number)
    return accepted, unknown


def carrier(nodes):
    """The node that carries the app's stream; None while there is none."""
    return next((node for node in nodes
                 if node.is_running() and node.metrics()["tidecast_streams"] > 0), None)


def topics(node, token):
    status, body = node.call("GET", f"/v1/projects/demo/registrations/{token}/topicSubscriptions")
    return {one["topicName"] for one in json.loads(body)["topicSubscriptions"]} if status == 200 else set()


def main():
    with making() as made:
        _, nodes = made.cluster("one", "two", "three")
        start(nodes)
        wait(lambda: set(nodes[0].owners()) == {"one", "two", "three"}, "all nodes to own partitions")
        balancer = Balancer(nodes)
        app = App(made.folder, f"http://{balancer.host}:{balancer.port}")
        app.start()
        try:
            run(nodes, app)
        except BaseException:
            with open(app.log, encoding="utf-8") as log:
                print("--- the app\n" + "".join(log.readlines()[-60:]))
            raise
        finally:
            app.kill()
        print("swift_client_cluster: ok")


def run(nodes, app):
    app.wait_line("Subscribed to weather topic")
    app.wait_line("connected")
    number, accepted, unknown = 0, [], []

    def burst(through):
        nonlocal number
        told = send(through, "weather", range(number, number + 20))
        number += 20
        accepted.extend(told[0])
        unknown.extend(told[1])

    for turn in (1, 2):
        wait(lambda: carrier(nodes), "a node to carry the stream")
        victim = carrier(nodes)
        burst(nodes)
        victim.end(signal.SIGKILL)
        others = [node for node in nodes if node is not victim]
        app.say(f"subscribe storms-{turn}")
        burst(others)
        app.wait_line(f"subscribed storms-{turn} ok")
        wait(lambda: set(accepted) <= set(app.numbers("handled")), "all accepted messages")
        check(True, f"{victim.name}, which carried the stream, was killed: each accepted message came")
        start([victim])
        wait(lambda: set(nodes[0].owners()) == {"one", "two", "three"}, "all nodes to own partitions")
    wait(lambda: carrier(nodes), "a node to carry the stream")
    leaver = carrier(nodes)
    burst(nodes)
    check(leaver.end(signal.SIGTERM) == 0, f"{leaver.name}, which carried the stream, left in order")
    others = [node for node in nodes if node is not leaver]
    burst(others)
    wait(lambda: set(accepted) <= set(app.numbers("handled")), "all accepted messages")
    came = app.numbers("message")
    check(len(came) == len(set(came)), "no message came again")
    check(set(came) <= set(accepted) | set(unknown), "no message came that was not sent")
    wait(lambda: topics(others[0], app.token()) == {"weather", "storms-1", "storms-2"}, "the topics")
    check(True, "all topics are subscribed")
    start([leaver])
    app_dies(nodes, app, number)
    forgotten(nodes, app, number + 20)


def app_dies(nodes, app, number):
    """kill -9 of the app and of the node that carries its stream, in the middle of a burst."""
    wait(lambda: set(nodes[0].owners()) == {"one", "two", "three"}, "all nodes to own partitions")
    wait(lambda: carrier(nodes), "a node to carry the stream")
    victim = carrier(nodes)
    others = [node for node in nodes if node is not victim]
    body = {"message": {"topic": "weather", "data": {"n": str(number), "pause": str(PAUSE)}}}
    check(others[0].call("POST", "/v1/projects/demo/messages:send", body)[0] == 200, "a message is accepted")
    wait(lambda: number in app.numbers("message"), "the app to take the message in hand")
    accepted, unknown = send(nodes, "weather", range(number + 1, number + 20))
    check(not unknown, "each message of the burst is accepted")
    victim.end(signal.SIGKILL)
    noted = app.lines().count("noted")
    app.say("subscribe fog")
    app.wait_line("noted", noted + 1)
    handled = app.numbers("handled")
    app.kill()
    app.start()
    app.wait_line("connected")
    wanted = [one for one in [number, *accepted] if one not in handled]
    wait(lambda: set(wanted) <= set(app.numbers("handled")), "what the dead process had not handled")
    check(sorted(app.numbers("message")) == wanted,
          f"the app and {victim.name} were killed: what was not handled comes once, and nothing else")
    wait(lambda: "fog" in topics(others[0], app.token()), "the wish of the dead process")
    start([victim])


def forgotten(nodes, app, number):
    """The backend ends subscriptions of which the app knows nothing, and makes one, through any node."""
    wait(lambda: set(nodes[0].owners()) == {"one", "two", "three"}, "all nodes to own partitions")
    token = app.token()
    before = topics(nodes[0], token)
    subscribe(nodes[0], "fog", [token], "batchRemove")
    subscribe(nodes[1], "by-backend", [token])
    app.kill()
    app.start()
    wait(lambda: "fog" in topics(nodes[2], token), "the app to subscribe again at its start")
    check(topics(nodes[2], token) == before | {"by-backend"},
          "a lost subscription is repaired at the next start, and the backend's stays")
    app.wait_line("connected")
    check(send(nodes, "fog", [number])[0] == [number], "a message to the topic is accepted")
    app.wait_line(f"handled {number}")
    check(app.numbers("message") == [number], "nothing that was acknowledged came again")


if __name__ == "__main__":
    main()
