"""The JavaScript client as apps use it, in a real browser. Run by web_client.sh.

The demonstration page is driven by clicks. What the page does not show is asked of the client by scripts that
run in the page. Ends at the first check that fails.
"""
import json
import os
import signal
import subprocess
import time

import web_app
import web_ends
from browser import Browser

from system.checks import check, until, wait
from system.process import BACKEND, OWNER, DevelopmentServer, remove

WORK = os.environ["WORK"]
# The page's own module: a second import of it is the same instance.
CLIENT = 'const c = await import("/client/v1/messaging.js");' \
         ' const m = c.getMessaging({projectId: "demo"});'
ARRIVED = '[...document.querySelectorAll("#arrived h3")].map((one) => one.textContent).reverse()'


def inside(script):
    """A script of statements that may wait, as an expression."""
    return f"(async () => {{ {script} }})()"


def page(tab, ready="!document.getElementById('register').hidden"):
    """Waits until the demonstration page shows what it found."""
    wait(lambda: tab.holds(f"document.getElementById('to')?.options.length > 0 && {ready}"), "the page")


def opened(browser, server, path="/", ready="true"):
    tab = browser.tab(f"http://127.0.0.1:{server.port}{path}")
    page(tab, ready)
    return tab


def send(server, title, **target):
    message = {"notification": {"title": title}, **(target or {"topic": "news"})}
    status, body = server.call("POST", "/v1/projects/demo/messages:send", {"message": message})
    assert status == 200, body


def arrived(tab):
    return tab.run(ARRIVED)


def wait_arrived(tab, titles):
    """Waits until the page shows exactly these messages, in their order."""
    until(lambda: len(arrived(tab)) >= len(titles), 120)
    assert arrived(tab) == titles, (arrived(tab), titles)


def streams(server):
    return server.metrics()["tidecast_streams"]


def wait_streams(server, count):
    wait(lambda: streams(server) == count, f"{count} streams")


def device(server, token):
    """What the server has of a device; None where it has none."""
    status, body = server.call("GET", f"/v1/projects/demo/registrations/{token}")
    return json.loads(body) if status == 200 else None


def topics(server, token):
    body = server.call("GET", f"/iid/info/{token}?details=true", headers=BACKEND)[1]
    return sorted(json.loads(body).get("rel", {}).get("topics", {}))


def is_settled(server, token):
    """Whether the device has acknowledged all its messages."""
    return device(server, token)["waitingCount"] == 0


def token_of(tab):
    return tab.run("document.getElementById('token').textContent")


def press(tab, name):
    tab.run(f"document.getElementById('{name}').click()")


def is_connected(tab):
    return tab.holds("document.getElementById('connection').dataset.state === 'open'")


def restarted(server, how=signal.SIGKILL):
    server.process.send_signal(how)
    server.process.wait()
    server.start()
    server.wait_ready()


def served(server):
    """Tags and fields over both protocols, by a client that is no browser."""
    url = f"http://127.0.0.1:{server.port}/client/v1/messaging.js"
    for version in ["--http1.1", "--http2-prior-knowledge"]:
        def ask(*options, version=version):
            return subprocess.run(["curl", "-s", "-i", version, *options, url], check=True,
                                  capture_output=True, text=True).stdout.lower()
        whole = ask()
        tag = next(line.split(": ")[1].strip() for line in whole.splitlines() if line.startswith("etag"))
        again = ask("-H", f"if-none-match: {tag}")
        check(" 200" in whole.splitlines()[0] and "content-length: " in whole
              and " 304" in again.splitlines()[0] and "content-length" not in again,
              f"the client is sent once for each build ({version})")


def registers(browser, server):
    tab = opened(browser, server)
    press(tab, "register")
    wait(lambda: token_of(tab) and is_connected(tab), "the registration")
    token = token_of(tab)
    check(device(server, token) is not None, "a click registers the browser")
    tab.run("document.querySelector('#ticks input[value=news]').click()")
    wait(lambda: topics(server, token) == ["news"], "the subscription")
    check(True, "a tick subscribes it to a topic")
    send(server, "one")
    wait_arrived(tab, ["one"])
    wait(lambda: is_settled(server, token), "the acknowledgement")
    check(True, "a message arrives and is acknowledged")
    return tab, token


def shares(browser, server, first, token):
    second = opened(browser, server)
    wait(lambda: is_connected(second), "the second tab's connection")
    check(token_of(second) == token, "a second tab has the same registration")
    send(server, "two")
    wait_arrived(first, ["one", "two"])
    wait_arrived(second, ["two"])
    wait_streams(server, 1)
    check(True, "both tabs get a message, by one stream")
    wait(lambda: is_settled(server, token), "the acknowledgement")
    restarted(server)
    send(server, "three")
    wait_arrived(first, ["one", "two", "three"])
    wait_arrived(second, ["two", "three"])
    wait_streams(server, 1)
    check(True, "the stream comes back after the server was killed, and nothing comes again")
    first.reload()
    page(first, "true")
    wait(lambda: is_connected(first), "the reloaded tab")
    send(server, "four")
    wait_arrived(first, ["four"])
    wait_arrived(second, ["two", "three", "four"])
    wait_streams(server, 1)
    check(True, "another tab reads the stream when the reader's tab is loaded again")
    second.close()
    return first


def resumes(server, tab, token):
    """At least once: a message is acknowledged when the handler is done, not before."""
    wait(lambda: is_settled(server, token), "the acknowledgement")
    endless = "c.onMessage(m, (p) => { got.push(p.messageId); return new Promise(() => {}); });"
    tab.run(inside(CLIENT + "window.got = [];" + endless))
    send(server, "five")
    wait(lambda: tab.run("got.length") == 1, "the message")
    tab.reload()
    page(tab, "true")
    wait_arrived(tab, ["five"])
    check(True, "a message whose handler was not done comes again after a reload")
    wait(lambda: is_settled(server, token), "the acknowledgement")
    tab.go("about:blank")
    wait_streams(server, 0)
    send(server, "six")
    send(server, "seven")
    tab.go(f"http://127.0.0.1:{server.port}/")
    page(tab, "true")
    wait_arrived(tab, ["six", "seven"])
    wait(lambda: is_settled(server, token), "the acknowledgement")
    tab.reload()
    page(tab, "true")
    send(server, "eight")
    wait_arrived(tab, ["eight"])
    check(True, "messages that came meanwhile arrive once")
    failing = "c.onMessage(m, (p) => { got.push(p.messageId); throw new Error('planned'); });"
    tab.run(inside(CLIENT + "window.got = [];" + failing))
    send(server, "nine")
    send(server, "ten", token=token)
    wait(lambda: tab.run("got.length") == 2 and is_settled(server, token), "both messages")
    check(True, "a handler that fails does not hold up the messages behind it")
    tab.reload()
    page(tab, "true")


def changes_topics(server, tab, token):
    tab.run(inside(CLIENT + 'await c.subscribeToTopic(m, "/topics/a%20b~-.")'))
    check(topics(server, token) == ["a%20b~-.", "news"], "a topic may have each sign that a topic may have")
    tab.run(inside(CLIENT + 'await c.unsubscribeFromTopic(m, "a%20b~-.")'))
    check(topics(server, token) == ["news"], "a subscription is ended")
    server.process.kill()
    server.process.wait()
    tab.run(inside(CLIENT + 'c.subscribeToTopic(m, "__proto__").then(() => (window.isDone = true))'))
    wait(lambda: tab.run(inside(CLIENT + 'return (await c.getTopics(m)).includes("__proto__")')), "the wish")
    server.start()
    server.wait_ready()
    wait(lambda: tab.run("window.isDone === true"), "the subscription", 30)
    check(topics(server, token) == ["__proto__", "news"], "a wish waits for a server that is away")
    for script, code in [
        ('await c.subscribeToTopic(m, "two words")', "invalid-topic-name"),
        ('await c.subscribeToTopic(m, "")', "invalid-topic-name"),
        ('await c.subscribeToTopic(c.getMessaging({projectId: "none"}), "x")', "not-registered"),
        ("c.getMessaging({})", "missing-app-config-values"),
        ('await c.getToken(c.getMessaging({projectId: "q"}), {vapidKey: "BK"})', "invalid-sw-registration"),
    ]:
        said = tab.run(inside(CLIENT + f"try {{ {script} }} catch (e) {{ return e.code }}"))
        check(said == f"messaging/{code}", f"a mistake has a name: {code} ({said})")


def ends(server, tab, token):
    status, _ = server.call("DELETE", f"/v1/projects/demo/registrations/{token}", headers=OWNER)
    assert status == 200
    wait(lambda: tab.holds("!document.getElementById('register').hidden"), "the end")
    check("Register again" in tab.run("document.getElementById('problem').textContent"),
          "the page hears that the server has ended the registration")
    press(tab, "register")
    wait(lambda: is_connected(tab), "the new registration")
    other = token_of(tab)
    wait(lambda: topics(server, other) == ["__proto__", "news"], "the topics")
    check(other != token, "the next registration gets the topics that the app wants")
    press(tab, "unregister")
    wait(lambda: not token_of(tab) and streams(server) == 0, "the end")
    check(device(server, other) is None and tab.run("document.getElementById('problem').hidden"),
          "a click ends the registration, and its stream")
    press(tab, "register")
    wait(lambda: is_connected(tab), "the registration")
    check(topics(server, token_of(tab)) == [], "which also forgets the topics")
    return token_of(tab)


def loses(server, tab, token):
    """A developer begins with an empty folder, and the browser still has the registration of the former."""
    tab.run(inside(CLIENT + 'await c.subscribeToTopic(m, "news")'))
    server.kill()
    remove(server.data)
    server.start()
    server.wait_ready()
    is_over = "!document.getElementById('register').hidden"
    assert until(lambda: tab.holds(is_over), 4) is None, "a missing project proves no end"
    # A backend's send makes the project, and the server says that it has never made the device.
    send(server, "1", topic="news")
    wait(lambda: tab.holds(is_over), "the end", 150)
    press(tab, "register")
    wait(lambda: is_connected(tab), "the registration")
    other = token_of(tab)
    wait(lambda: topics(server, other) == ["news"], "the topic")
    check(other != token, "a browser registers again where the server has lost its registration")
    return other


def drops(server, tab, token):
    """As at FCM, at most 100 messages wait for a device that is away."""
    tab.go("about:blank")
    wait_streams(server, 0)
    for number in range(101):
        send(server, f"{number}", token=token)
    tab.go(f"http://127.0.0.1:{server.port}/")
    page(tab, "true")
    wait(lambda: "Messages were dropped" in arrived(tab), "the notice")
    wait(lambda: is_settled(server, token), "the acknowledgement")
    check(True, "the page hears that the server has dropped messages")


def pictures(server, tab, token, folder):
    """Writes the page as a reader sees it: light, dark, on a narrow screen, and before a registration."""
    tab.run("for (const box of document.querySelectorAll('#ticks input')) if (!box.checked) box.click()")
    wait(lambda: {"news", "weather"} <= set(topics(server, token)), "the subscriptions")
    before = len(arrived(tab))
    for title, body, target in [
            ("High water at 14:20", "The tide is coming in.", {"topic": "news"}),
            ("Storm warning", "Gusts of 9 Beaufort until the evening; stay in the harbour.",
             {"topic": "weather"}),
            ("Your berth", "Place 17 is yours until Sunday.", {"token": token})]:
        message = {"notification": {"title": title, "body": body}, "data": {"n": "1"}, **target}
        server.call("POST", "/v1/projects/demo/messages:send", {"message": message})
    wait(lambda: len(arrived(tab)) == before + 3, "the messages")
    tab.picture(f"{folder}/light.png", width=1200, height=900)
    tab.picture(f"{folder}/dark.png", width=1200, height=900, is_dark=True)
    tab.picture(f"{folder}/narrow.png", width=375, height=1500, scale=2)
    tab.picture(f"{folder}/narrow-dark.png", width=320, height=1500, is_dark=True, scale=2)
    press(tab, "unregister")
    wait(lambda: not token_of(tab), "the end")
    tab.picture(f"{folder}/begin.png", width=1000, height=800)


def main():
    browser, server = Browser(WORK), DevelopmentServer(WORK)
    began = time.monotonic()
    try:
        server.start()
        server.wait_ready()
        browser.open()
        served(server)
        tab, token = registers(browser, server)
        tab = shares(browser, server, tab, token)
        resumes(server, tab, token)
        changes_topics(server, tab, token)
        token = ends(server, tab, token)
        token = loses(server, tab, token)
        drops(server, tab, token)
        if os.environ.get("PICTURES"):
            pictures(server, tab, token, os.environ["PICTURES"])
        tab.close()
        web_ends.test(browser, server)
        web_app.test(browser, WORK)
    finally:
        browser.close()
        server.kill()
    print(f"all checks hold, in {time.monotonic() - began:.0f} s")


main()
