"""The Swift client library in an app's process: see swift_client.sh."""
import http.server
import json
import os
import signal
import subprocess
import threading

from system.app import AUTHORITIES, App, trusting
from system.balancer import Balancer
from system.checks import check, wait
from system.device import subscribe
from system.process import DevelopmentServer, SecureServer, make_folder, remove

# The app takes so many seconds to handle one message.
PAUSE = 20


def send(server, topic, *numbers, **data):
    """Sends a message with each number to the topic. Ends the test where the server does not accept it."""
    for number in numbers:
        body = {"message": {"topic": topic, "data": {"n": str(number), **data}}}
        status, answer = server.call("POST", "/v1/projects/demo/messages:send", body)
        if status != 200:
            raise SystemExit(f"FAIL: a send is answered {status} {answer}")


def topics(server, token):
    """The topics that the server has for the device; none where the server does not know the device."""
    path = f"/v1/projects/demo/registrations/{token.split(':')[0]}/topicSubscriptions"
    status, body = server.call("GET", path)
    return {one["topicName"] for one in json.loads(body)["topicSubscriptions"]} if status == 200 else set()


def restart(server):
    server.start()
    server.wait_ready()


def receives(server, app):
    app.start()
    app.wait_line("Subscribed to weather topic")
    app.wait_line("connected")
    send(server, "weather", *range(1, 6))
    app.wait_line("handled 5")
    check(app.numbers("handled") == [1, 2, 3, 4, 5], "the app subscribes and receives in order")
    for name, mode in ((app.state, 0o700), (f"{app.state}/state.json", 0o600),
                       (f"{app.state}/registration.json", 0o600)):
        check(os.stat(name).st_mode & 0o777 == mode, f"{os.path.basename(name)} has mode {mode:o}")


def server_dies(server, app):
    """A burst, and kill -9 of the server in the middle of its delivery."""
    send(server, "weather", *range(6, 46))
    server.end(signal.SIGKILL)
    app.say("subscribe storms")
    app.wait_line("noted")
    restart(server)
    app.wait_line("subscribed storms ok")
    check(True, "a subscription that was asked for while the server was dead is made when it is back")
    send(server, "storms", 46)
    app.wait_line("handled 46")
    app.wait_line("handled 45")
    check(sorted(app.numbers("message")) == list(range(1, 47)),
          "kill -9 of the server: each accepted message came, and none came again")


def app_dies(server, app):
    """kill -9 of the app while it handles a message and has a wish of which the server has not heard."""
    send(server, "weather", 100, pause=str(PAUSE))
    send(server, "weather", *range(101, 106))
    wait(lambda: 100 in app.numbers("message"), "the app to take a message in hand")
    server.end(signal.SIGKILL)
    app.say("subscribe fog")
    app.say("unsubscribe storms")
    app.wait_line("noted", 3)
    handled = set(app.numbers("handled"))
    app.kill()
    restart(server)
    app.start()
    wanted = [number for number in range(100, 106) if number not in handled]
    app.wait_line("connected")
    began = app.cpu_seconds()
    app.wait_line("handled 105")
    spent = app.cpu_seconds() - began
    check(app.numbers("handled") == wanted,
          f"kill -9 of the app: it gets again what it had not handled, {wanted}, and nothing else")
    check(spent < PAUSE / 10, f"an app that waits for {PAUSE} s uses {spent:.2f} s of processor time")
    wait(lambda: topics(server, app.token()) == {"weather", "fog"}, "the wishes of the dead process")
    check(True, "wishes of the dead process are carried out by the next one")


def forgotten(server, app):
    """The backend ends subscriptions of which the app knows nothing, and makes one."""
    token = app.token()
    subscribe(server, "fog", [token], "batchRemove")
    subscribe(server, "by-backend", [token])
    app.kill()
    app.start()
    wait(lambda: "fog" in topics(server, token), "the app to subscribe again at its start")
    check(topics(server, token) == {"weather", "fog", "by-backend"},
          "a lost subscription is repaired at the next start, and the backend's stays")
    app.wait_line("connected")
    subscribe(server, "fog", [token], "batchRemove")
    began = app.cpu_seconds()
    server.end(signal.SIGKILL)
    restart(server)
    wait(lambda: "fog" in topics(server, token), "the app to subscribe again after it reconnected", 90)
    spent = app.cpu_seconds() - began
    check(True, "a lost subscription is repaired after a reconnection")
    check(spent < 3, f"an app that waits 30 s to look at its list uses {spent:.2f} s of processor time")
    send(server, "fog", 200)
    app.wait_line("handled 200")
    check(app.numbers("message") == [200], "nothing that was acknowledged came again")


def reborn(server, app):
    """The server loses its data, and with it the device and its keys."""
    token = app.token()
    server.end(signal.SIGKILL)
    remove(server.data)
    restart(server)
    # A backend's send makes the project. Until then nothing proves that the server is the right one.
    send(server, "fog", 299)
    app.wait_line("unregistered", limit=150)
    wait(lambda: app.token() != token, "another registration")
    wait(lambda: topics(server, app.token()) == {"weather", "fog"}, "the app's topics")
    send(server, "fog", 300)
    app.wait_line("handled 300")
    check(True, "a server that lost its data gets a new registration with all topics")


def address_and_end(server, app):
    """The address at Apple's push service, and the end of the registration."""
    app.say("address 0a0b0c0d")
    path = f"/v1/projects/demo/registrations/{app.token().split(':')[0]}"
    wait(lambda: b'"SANDBOX"' in server.call("GET", path)[1], "the server to have the address")
    check(True, "the server has the device's address at Apple's push service")
    second = App(os.path.dirname(app.state), app.url)
    second.log = f"{app.log}.second"
    second.start()
    check(second.process.wait(timeout=60) == 1, "a second process on one folder ends with 1")
    check("com.google.fcm 5" in second.lines()[-1], f"and says why: {second.lines()[-1]}")
    app.say("delete")
    app.wait_line("deleted")
    check(server.call("GET", path)[0] == 404, "the registration is gone when deleteToken has ended")
    app.say("quit")
    check(app.process.wait(timeout=60) == 0, "the app ends with 0")


def has_device(server, token):
    """Whether the server has the device."""
    return server.call("GET", f"/v1/projects/demo/registrations/{token.split(':')[0]}")[0] == 200


def with_alice(server, app):
    """Starts the app and subscribes it to a topic of one user. Returns its token."""
    app.start()
    app.say("subscribe alice")
    app.wait_line("subscribed alice ok")
    app.wait_line("connected")
    return app.token()


def logs_out(server, app):
    """The app forgets its user while the server is away; then its process goes on, or dies."""
    for dies in (False, True):
        token = with_alice(server, app)
        server.end(signal.SIGKILL)
        app.say("deleteData")
        wait(lambda: any(line.startswith("deleteData failed") for line in app.lines()), "the failure")
        if dies:
            app.kill()
        restart(server)
        send(server, "alice", 400)
        if dies:
            app.start()
        wait(lambda token=token: not has_device(server, token), "the end of the registration", 60)
        check(app.numbers("message") == [] and "alice" not in topics(server, app.token()),
              f"a logout without a server is repeated by {'the next' if dies else 'the same'} process")
        app.kill()


def installed_again(server, app):
    """The app's state goes away, and the registration stays."""
    token = with_alice(server, app)
    app.kill()
    send(server, "alice", 500)
    os.remove(f"{app.state}/state.json")
    app.start()
    wait(lambda: not has_device(server, token), "the end of the former registration", 60)
    app.wait_line("connected")
    send(server, "weather", 501)
    app.wait_line("handled 501")
    check(app.numbers("message") == [501] and app.token() != token,
          "an app that is installed again gets none of the former user's messages")
    app.kill()


class Stranger(http.server.BaseHTTPRequestHandler):
    """Answers with a page of its own, as the portal of a network does."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", "7")
        self.end_headers()
        self.wfile.write(b"<html>\n")

    def do_POST(self):
        self.do_GET()

    def log_message(self, *_):
        pass


def meets_stranger(server, app):
    """Between the app and the server is a machine that answers in the server's place."""
    with_alice(server, app)
    app.kill()
    stranger = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=stranger.serve_forever, daemon=True).start()
    own, app.url = app.url, f"http://127.0.0.1:{stranger.server_port}"
    app.start()
    wait(lambda: any(line.startswith("reconnecting") for line in app.lines()), "the app to try again")
    app.say("unsubscribe alice")
    app.wait_line("noted")
    wait(lambda: sum(line.startswith("reconnecting") for line in app.lines()) > 2, "the app to try again")
    check(not {"connected", "unsubscribed alice ok"} & set(app.lines()),
          "a page with 200 is neither a stream nor a confirmation")
    app.kill()
    app.url = own
    app.start()
    wait(lambda: "alice" not in topics(server, app.token()), "the end of the subscription")
    stranger.shutdown()
    app.kill()


def disk_full(server, app):
    """The disk is full while the app unsubscribes."""
    with_alice(server, app)
    filler = f"{app.state}/filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    app.say("unsubscribe alice")
    wait(lambda: any(line.startswith("unsubscribed alice ") for line in app.lines()), "the answer")
    said = next(line for line in app.lines() if line.startswith("unsubscribed alice "))
    check("4003" in said and "alice" not in topics(server, app.token()),
          f"a change that is confirmed and not stored is no success: {said}")
    os.remove(filler)

    def stored():
        with open(f"{app.state}/state.json", encoding="utf-8") as file:
            return "alice" not in file.read()
    wait(stored, "the state to be stored", 60)
    app.kill()
    app.start()
    app.wait_line("connected")
    app.say("topics")
    app.wait_line("topics weather")
    check("alice" not in topics(server, app.token()), "it is stored when there is room, and stays")


def on_a_small_disk(server, app):
    """`disk_full`, with a file system of 64 KiB for the app's state."""
    os.makedirs(app.state, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "tmpfs", app.state], check=True)
    try:
        disk_full(server, app)
    finally:
        app.kill()
        subprocess.run(["umount", app.state], check=True)


def over_tls(server, app):
    """A server whose authority the app does not trust, and then does."""
    app.start()
    app.say("token")
    wait(lambda: any(line.startswith("token failed") for line in app.lines()), "the app to refuse the server")
    check("Subscribed to weather topic" not in app.lines(), "a server of a strange authority gets nothing")
    app.kill()
    app.wrapper = trusting(f"{server.certificates}/ca.pem")
    app.start()
    app.wait_line("Subscribed to weather topic")
    app.wait_line("connected")
    send(server, "weather", 1)
    app.wait_line("handled 1")
    check(True, "over TLS the app subscribes and receives")


def cut_off(server, app, network):
    """The network drops everything for longer than the app waits for a sign of the server."""
    app.start()
    app.wait_line("Subscribed to weather topic")
    app.wait_line("connected")
    send(server, "weather", *range(1, 6))
    app.wait_line("handled 5")
    send(server, "weather", 6, pause="2")
    wait(lambda: 6 in app.numbers("message"), "the app to take a message in hand")
    network.clear()
    send(server, "weather", *range(7, 17))
    app.say("subscribe storms")
    app.wait_line("noted")
    app.wait_line("handled 6")
    # The app gives the stream up after 65 s without a byte.
    wait(lambda: any(line.startswith("reconnecting") for line in app.lines()), "the app to miss the server",
         120)
    check(app.numbers("message") == list(range(1, 7)), "while the network drops everything nothing comes")
    network.set()
    app.wait_line("subscribed storms ok", limit=120)
    send(server, "storms", 17)
    app.wait_line("handled 17", limit=120)
    app.wait_line("handled 16")
    check(sorted(app.numbers("message")) == list(range(1, 18)),
          "after the network was cut each message comes once, and none that was handled comes again")
    check(topics(server, app.token()) == {"weather", "storms"}, "a wish of that time is carried out")


def play(server, app, *steps):
    """Starts the server, and takes the steps. Where one fails, the app's last lines are printed."""
    try:
        restart(server)
        for step in steps:
            step(server, app)
    except BaseException:
        if os.path.exists(app.log):
            with open(app.log, encoding="utf-8") as log:
                print("--- the app\n" + "".join(log.readlines()[-60:]))
        raise
    finally:
        app.kill()
        server.kill()
        remove(server.folder)


def main():
    server = DevelopmentServer(make_folder())
    app = App(server.folder, f"http://{server.host}:{server.port}")
    play(server, app, receives, server_dies, app_dies, forgotten, reborn, address_and_end)
    server = DevelopmentServer(make_folder())
    play(server, App(server.folder, f"http://{server.host}:{server.port}"), logs_out, installed_again,
         meets_stranger)
    if os.getuid() == 0:
        server = DevelopmentServer(make_folder())
        play(server, App(server.folder, f"http://{server.host}:{server.port}"), on_a_small_disk)
    else:
        print("not on a full disk: only root may mount a small one")
    server = DevelopmentServer(make_folder())
    balancer = Balancer([server])
    play(server, App(server.folder, f"http://{balancer.host}:{balancer.port}"),
         lambda server, app: cut_off(server, app, balancer.passes))
    if os.getuid() == 0 and os.path.exists(AUTHORITIES):
        server = SecureServer(make_folder())
        play(server, App(server.folder, f"https://localhost:{server.secure}"), over_tls)
    else:
        print(f"not over TLS: only root may put an authority in the place of {AUTHORITIES}")
    print("swift_client: ok")


if __name__ == "__main__":
    main()
