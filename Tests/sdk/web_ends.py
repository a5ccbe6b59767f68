"""What the JavaScript client leaves undone when a tab, the server or the browser's storage fails: ends of
registrations, wishes, notes of messages. Used by web_client.py."""
import json
import signal

from system.checks import check, until, wait
from system.process import BACKEND, OWNER

# The page's own module: a second import of it is the same instance.
CLIENT = 'const c = await import("/client/v1/messaging.js");' \
         ' const m = c.getMessaging({projectId: "demo"});'
# Calls whose method and path match never have an answer, or this one.
STOPS = "window.was ??= fetch; window.fetch = (u, o) => ((o?.method ?? 'GET') + u).match(/%s/) ?" \
        " %s : was(u, o);"
NEVER = "new Promise(() => {})"
# The stream ends, and the page opens the next one.
NEXT_STREAM = "m.stopping.abort();"
# Writing to the database fails as where the disk is full, until `put` is put back.
FULL = "window.put ??= IDBObjectStore.prototype.put;" \
       " IDBObjectStore.prototype.put = function () { this.transaction.abort(); };"
ROOM = "IDBObjectStore.prototype.put = put;"


class Alice:
    """A page that is registered and has subscribed to the topic `alice`."""

    def __init__(self, browser, server):
        self.browser, self.server = browser, server
        self.tab = browser.tab(self.url)
        wait(lambda: self.tab.holds("document.readyState === 'complete'"), "the page")
        self.token = self.run("""window.got = []; c.onMessage(m, (p) => { got.push(p.data?.n); });
          const token = await c.getToken(m); await c.subscribeToTopic(m, "alice"); return token;""")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.port}/"

    def run(self, script):
        return self.tab.run(f"(async () => {{ {CLIENT} {script} }})()")

    def fails(self, script):
        """The code of the error with which the script fails."""
        return self.run(f"try {{ {script} }} catch (e) {{ return e.code }}")

    def path(self):
        return f"/v1/projects/demo/registrations/{self.token}"

    def is_there(self):
        """Whether the server has the device."""
        return self.server.call("GET", self.path())[0] == 200

    def topics(self, token=None):
        body = self.server.call("GET", f"/iid/info/{token or self.token}?details=true", headers=BACKEND)[1]
        return "alice" in body.decode()

    def send(self, number):
        message = {"topic": "alice", "data": {"n": str(number)}}
        status, body = self.server.call("POST", "/v1/projects/demo/messages:send", {"message": message})
        assert status == 200, body

    def next_page(self):
        """The tab is closed, and another page of the app opens."""
        self.tab.close()
        self.tab = self.browser.tab(self.url)
        wait(lambda: self.tab.holds("document.readyState === 'complete'"), "the page")
        self.run("window.got = []; c.onMessage(m, (p) => { got.push(p.data?.n); });")


def restarted(server):
    server.start()
    server.wait_ready()


def closed(alice):
    """The tab is closed while `deleteToken` waits for the server."""
    alice.run(STOPS % ("^DELETE", NEVER) + "c.deleteToken(m);")
    wait(lambda: alice.run("return c.isRegistered(m)") is False, "the end in the browser")
    alice.send(1)
    assert alice.is_there()
    alice.next_page()
    gone = until(lambda: not alice.is_there(), 30)
    check(gone is not None and alice.run("return got.length") == 0,
          "a logout whose tab was closed is repeated by the next page, and brings no message")


def away(alice):
    """The server is away while the app logs out."""
    alice.server.process.send_signal(signal.SIGKILL)
    alice.server.process.wait()
    code = alice.fails("await c.deleteToken(m)")
    here = alice.run("return [await c.isRegistered(m), await c.getTopics(m)]")
    restarted(alice.server)
    alice.send(2)
    gone = until(lambda: not alice.is_there(), 40)
    check(code == "messaging/token-unsubscribe-failed" and here == [False, []] and gone is not None
          and alice.run("return got.length") == 0, "a logout without a server is repeated by the page itself")


def refused_on_the_way(alice):
    """A machine on the way answers in the server's place."""
    for status in (200, 403, 404):
        answer = f"Promise.resolve(new Response('<html>', {{ status: {status} }}))"
        alice.run(STOPS % (":(un)?subscribe$", answer) + "window.isDone = undefined;"
                  "c.unsubscribeFromTopic(m, 'alice').then(() => (isDone = true), () => (isDone = false));")
        assert until(lambda: alice.run("return isDone !== undefined"), 2) is None, "an answer of a stranger"
        alice.run("window.fetch = was;")
        wait(lambda: alice.run("return isDone"), "the end of the subscription")
        check(not alice.topics(), f"a page of HTML with {status} is not the server's answer")
        alice.run("await c.subscribeToTopic(m, 'alice')")


def answered(status, word, *details):
    """The answer of a server to each call."""
    body = {"error": {"code": status, "message": "no", "status": word, "details": details}}
    return f"Promise.resolve(new Response({json.dumps(json.dumps(body))}, {{ status: {status} }}))"


NEVER_MADE = answered(400, "INVALID_ARGUMENT", {"fieldViolations": [{"field": "name"}]})


def refused_without_proof(alice):
    """Another server answers for a while, or one that does not know the project."""
    for answer in (answered(401, "UNAUTHENTICATED"), answered(404, "NOT_FOUND"), NEVER_MADE,
                   answered(403, "PERMISSION_DENIED", {"errorCode": "SENDER_ID_MISMATCH"}),
                   answered(410, "NOT_FOUND", {"errorCode": "UNREGISTERED"}),
                   answered(200, "NOT_FOUND", {"errorCode": "UNREGISTERED"})):
        alice.run(STOPS % ("registrations.", answer) + NEXT_STREAM + """window.isDone = undefined;
          c.unsubscribeFromTopic(m, 'alice').then(() => (isDone = true), () => (isDone = false));""")
        assert until(lambda: alice.run("return isDone !== undefined"), 2) is None, answer
        kept = alice.run("return [await c.isRegistered(m), await c.getToken(m)]") == [True, alice.token]
        alice.run("window.fetch = was; dispatchEvent(new Event('online'));")
        wait(lambda: alice.run("return isDone"), "the end of the subscription")
        check(kept and alice.is_there() and not alice.topics(),
              f"an answer that proves no end costs neither registration nor wish: {answer[41:100]}")
        alice.run("await c.subscribeToTopic(m, 'alice')")


# Lets each doubt of the store begin so many milliseconds ago, and returns whether there is one.
DOUBTS_BEGIN = """const open = indexedDB.open("tidecast", 1);
  await new Promise((resolve) => (open.onsuccess = resolve));
  const store = open.result.transaction("devices", "readwrite").objectStore("devices");
  let isDoubted = false;
  const age = (one) => {
    if (!one.doubted) return one;
    isDoubted = true;
    return { ...one, doubted: Date.now() - %d };
  };
  store.openCursor().onsuccess = ({ target: { result } }) => {
    if (!result) return;
    const { ended, ...rest } = result.value;
    result.update({ ...age(rest), ...(ended && { ended: ended.map(age) }) });
    result.continue();
  };
  await new Promise((resolve) => (store.transaction.oncomplete = resolve));
  open.result.close();
  return isDoubted;"""


def never_made(alice):
    """Another server says for more than a minute that it has never made the registration."""
    former = alice.token
    alice.run(STOPS % (f"registrations.{former}", NEVER_MADE) + NEXT_STREAM)
    wait(lambda: alice.run(DOUBTS_BEGIN % 61e3), "the doubt")
    is_here = "dispatchEvent(new Event('online')); return c.isRegistered(m)"
    wait(lambda: alice.run(is_here) is False, "the end")
    alice.token = alice.run("return c.getToken(m)")
    wait(alice.topics, "the topic of the next registration")
    alice.run("dispatchEvent(new Event('online'))")
    wait(lambda: alice.run(DOUBTS_BEGIN % 0), "the first try to end the replaced registration")
    gone = alice.run("await c.deleteToken(m); return c.getToken(m)")
    check(gone not in (former, alice.token) and not alice.is_there() and alice.topics(former),
          "a replaced registration does not keep the end of the next one waiting")
    alice.token = former
    alice.next_page()
    check(until(lambda: not alice.is_there(), 30) is not None,
          "a registration that was replaced is ended where the right server comes back")
    alice.token = gone


def refused_end(alice):
    """The server does not take the end of one registration."""
    alice.run(STOPS % (f"^DELETE.*{alice.token}", answered(401, "UNAUTHENTICATED"))
              + "await c.deleteToken(m).catch(() => {})")
    second = alice.run("return c.getToken(m)")
    code = alice.fails("await c.deleteToken(m)")
    first, alice.token = alice.token, second
    check(code == "messaging/token-unsubscribe-failed" and not alice.is_there(),
          "an end that the server does not take does not hold the next one up")
    alice.token = first
    alice.run("window.fetch = was; await c.deleteToken(m)")
    assert not alice.is_there()
    # Another server answers, which can never have made it.
    alice.token = alice.run("return c.getToken(m)")
    alice.run(STOPS % (f"^DELETE.*{alice.token}", NEVER_MADE) + "await c.deleteToken(m).catch(() => {})")
    code = alice.fails("await c.deleteToken(m)")
    wait(lambda: alice.run(DOUBTS_BEGIN % 61e3), "the doubt")
    alice.run("await c.deleteToken(m)")
    check(code == "messaging/token-unsubscribe-failed" and alice.is_there(),
          "an end that the server for a minute cannot have made keeps no later call waiting")
    alice.run("window.fetch = was; dispatchEvent(new Event('online'));")
    wait(lambda: not alice.is_there(), "the end at the right server")


def wrong_clock(alice):
    """The clock was ahead when the client compared its topics last."""
    # First the subscription goes: the page that is open may compare as soon as it has a reason.
    status, body = alice.server.call("POST", "/iid/v1:batchRemove", {
        "to": "/topics/alice", "registration_tokens": [alice.token]}, BACKEND)
    assert status == 200 and json.loads(body)["results"] == [{}], (status, body)
    alice.run("""const open = indexedDB.open("tidecast", 1);
      await new Promise((resolve) => (open.onsuccess = resolve));
      const store = open.result.transaction("devices", "readwrite").objectStore("devices");
      store.openCursor().onsuccess = ({ target: { result } }) =>
        result?.update({ ...result.value, repaired: Date.now() + 864e6 }) && result.continue();
      await new Promise((resolve) => (store.transaction.oncomplete = resolve));
      open.result.close();""")
    alice.next_page()
    check(until(alice.topics, 20) is not None, "a clock that was ahead does not stop the daily comparison")


def ended_meanwhile(alice):
    """The server ends the registration, and the app unsubscribes before and after the page has heard so."""
    for is_heard in (False, True):
        alice.run(STOPS % (":listen", NEVER))
        alice.tab.command("Page.bringToFront")
        if not is_heard:
            alice.next_page()
            alice.run(STOPS % (":listen", NEVER))
        assert alice.server.call("DELETE", alice.path(), headers=OWNER)[0] == 200
        if is_heard:
            alice.run("await c.subscribeToTopic(m, 'other').catch(() => {}); window.fetch = was;")
            assert alice.run("return c.isRegistered(m)") is False
        code = alice.fails("await c.unsubscribeFromTopic(m, 'alice')")
        alice.run("window.fetch = was;")
        alice.token = alice.run("return c.getToken(m)")
        alice.run("await c.subscribeToTopic(m, 'other')")
        check(code is None and not alice.topics(),
              f"a subscription that ends with its registration does not come back ({code})")
        alice.run("await c.subscribeToTopic(m, 'alice')")


def full(alice):
    """The browser does not store."""
    said = alice.run(FULL + "got.length = 0; try { await c.unsubscribeFromTopic(m, 'alice') }"
                     " catch (e) { return e.code }")
    check(said == "messaging/storage" and alice.topics(), f"a wish that is not stored is no wish ({said})")
    alice.send(7)
    wait(lambda: alice.run("return got.length") > 0, "the message")
    alice.send(8)
    path = alice.path()
    wait(lambda: b'"waitingCount":0' in alice.server.call("GET", path)[1].replace(b" ", b""), "both", 20)
    check(alice.run("return got") == ["7", "8"], "messages come once, and are acknowledged")
    # The server has the subscription, and the browser stores that later.
    alice.run(ROOM + STOPS % (":unsubscribe$", "was(u, o).then((answer) => { fill(); return answer; })") + """
      window.fill = () => { IDBObjectStore.prototype.put = function () { this.transaction.abort(); }; };
      window.isDone = false;
      c.unsubscribeFromTopic(m, 'alice').then(() => (isDone = true));""")
    wait(lambda: not alice.topics(), "the end of the subscription")
    assert until(lambda: alice.run("return isDone"), 2) is None, "success before it is stored"
    alice.run("window.fetch = was;" + ROOM)
    wait(lambda: alice.run("return isDone"), "the answer")
    check(True, "success is said of what is stored, which is tried again")
    said = alice.run(FULL + "try { await c.deleteToken(m) } catch (e) { return e.code }")
    check(said == "messaging/storage" and not alice.is_there(),
          f"an end that is not stored is no success, and the server hears of it ({said})")
    alice.run(ROOM)


def too_many(alice):
    """More ends than the client keeps."""
    said = alice.run(STOPS % ("^DELETE", "Promise.resolve(new Response('', { status: 503 }))") + """
      const codes = [];
      for (let number = 0; number < 17; number += 1) {
        await c.getToken(m).catch((e) => codes.push(e.code));
        await c.deleteToken(m).catch((e) => codes.push(e.code));
      }
      window.fetch = was;
      await c.getToken(m);
      return codes;""")
    check(said[-2:] == ["messaging/token-subscribe-failed", "messaging/token-unsubscribe-failed"]
          and said.count("messaging/token-subscribe-failed") == 1,
          "past 16 ends that wait the client registers no more, until the server has confirmed them")


def test(browser, server):
    """Each case with a registration of its own."""
    for case in (closed, away, refused_on_the_way, refused_without_proof, never_made, refused_end,
                 wrong_clock, ended_meanwhile, full, too_many):
        alice = Alice(browser, server)
        case(alice)
        alice.run("await c.deleteToken(m).catch(() => {})")
        alice.tab.close()
