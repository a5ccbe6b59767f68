"""An app on an origin of its own, which uses the JavaScript client of a server that is no development server:
over TLS and HTTP/2, with an API key, a worker and messages of a push service. Used by web_client.py."""
import http.server
import json
import os
import ssl
import threading

import web_push

from system.checks import check, wait
from system.ports import free_port
from system.process import Server, make_certificates, tls_words

WORKER = """
importScripts("%s/client/v1/messaging-sw.js");
const channel = new BroadcastChannel("app");
tidecast.onBackgroundMessage((payload) => channel.postMessage(payload));
// Nobody clicks in a browser without a screen, and only a click lets a worker open and focus windows.
clients.openWindow = async (url) => channel.postMessage({ opened: url });
WindowClient.prototype.focus = async function () { channel.postMessage({ focused: this.url }); };
addEventListener("message", async ({ data }) => {
  if (data !== "click") return;
  const [notification] = await registration.getNotifications();
  const event = new NotificationEvent("notificationclick", { notification });
  event.waitUntil = () => {};
  dispatchEvent(event);
});
// No browser here has a push service: the page says what the worker's subscription is.
addEventListener("message", ({ data }) => {
  if (data.endpoint) PushManager.prototype.getSubscription = async () => data;
});
addEventListener("message", async ({ data, ports }) => {
  if (data !== "look") return;
  const windows = await clients.matchAll({ type: "window", includeUncontrolled: true });
  ports[0].postMessage(windows.some((one) => one.visibilityState === "visible"));
});
"""
# The worker of an app that has no handler in it.
BARE = 'importScripts("%s/client/v1/messaging-sw.js");'
PAGE = "<!doctype html><title>App</title>"


class App:
    """Serves a page and a worker on https://localhost. The worker is that of the server at `url`. `scripts`:
    further scripts by their paths."""

    def __init__(self, url, certificates):
        self.scripts = scripts = {"/worker.js": WORKER % url, "/bare.js": BARE % url}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = scripts.get(self.path, PAGE).encode()
                self.send_response(200)
                self.send_header("content-type",
                                 "text/javascript" if self.path in scripts else "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{certificates}/server.pem", f"{certificates}/server.key")
        # The handshake belongs to the connection's own thread.
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                 do_handshake_on_connect=False)
        self.url = f"https://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Shop:
    """A server with one project, its keys, and an app's tab in which `m` is the project's client."""

    def __init__(self, browser, folder):
        self.browser, self.secure = browser, free_port()
        self.certificates = certificates = os.path.join(folder, "shop-certs")
        make_certificates(certificates, "--name", "localhost")
        os.mkdir(os.path.join(folder, "shop"))
        os.chmod(os.path.join(folder, "shop"), 0o777)
        self.server = Server(os.path.join(folder, "shop"), *tls_words(self.secure, certificates))
        self.server.start()
        self.server.wait_ready()
        self.server.command("project", "create", "shop", "--service-account", f"{folder}/shop/sa.json")
        self.key = self.server.command("project", "key", "create", "shop", "--kind", "device").split()[-1]
        bearer = self.server.command("project", "key", "create", "shop", "--kind", "bearer").split()[-1]
        self.headers = {"authorization": f"Bearer {bearer}", "content-type": "application/json"}
        self.url = f"https://localhost:{self.secure}"
        self.app = App(self.url, certificates)
        browser.command("Browser.grantPermissions", origin=self.app.url, permissions=["notifications"])
        self.tab = browser.tab(f"{self.app.url}/")
        wait(lambda: self.tab.holds("document.title === 'App'"), "the app's page")

    def leave(self):
        """The app's page ends, and with it the stream."""
        self.tab.go("about:blank")
        wait(lambda: self.server.metrics()["tidecast_streams"] == 0, "the end of the stream")

    def come_back(self):
        """The app's page is loaded again, and its worker listens to the same channel."""
        self.tab.go(f"{self.app.url}/")
        self.run("""
          [window.got, window.workerGot] = [[], []];
          window.channel = new BroadcastChannel("app");
          channel.onmessage = ({ data }) => workerGot.push(data);
          window.worker = await navigator.serviceWorker.ready;""")

    def run(self, script, key=None):
        config = json.dumps({"projectId": "shop", "apiKey": key or self.key})
        return self.tab.run(f"""(async () => {{
          window.c ??= await import("{self.url}/client/v1/messaging.js");
          window.m ??= c.getMessaging({config});
          {script}
        }})()""")

    def send(self, **message):
        status, body = self.server.call("POST", "/v1/projects/shop/messages:send", {"message": message},
                                        self.headers)
        assert status == 200, body

    def got(self):
        return self.run("return got")

    def worker_got(self):
        return self.run("return workerGot")

    def notifications(self):
        return self.run("return (await worker.getNotifications()).map(({title, body}) => [title, body])")

    def is_in_sight(self):
        """Whether the worker sees a visible tab. The worker hears of a change later than the page."""
        return self.run("""
          const { port1, port2 } = new MessageChannel();
          const answer = new Promise((resolve) => { port1.onmessage = ({ data }) => resolve(data); });
          worker.active.postMessage("look", [port2]);
          return answer;""")

    def waiting(self, token):
        body = self.server.call("GET", f"/v1/projects/shop/registrations/{token}", headers=self.headers)[1]
        return json.loads(body)["waitingCount"]


def registers(shop):
    code = shop.run("try { await c.getToken(m) } catch (e) { return [e.code, e.status] }", key="AWrong")
    check(code == ["messaging/token-subscribe-failed", 401], f"a wrong API key is refused ({code})")
    shop.run(f"c.getMessaging({{projectId: 'shop', apiKey: '{shop.key}'}})")
    token = shop.run("""
      [window.got, window.workerGot] = [[], []];
      window.channel = new BroadcastChannel("app");
      channel.onmessage = ({ data }) => workerGot.push(data);
      c.onMessage(m, { next: (payload) => { got.push(payload); } });
      await navigator.serviceWorker.register("/worker.js");
      window.worker = await navigator.serviceWorker.ready;
      const token = await c.getToken(m, { serviceWorkerRegistration: worker });
      await c.subscribeToTopic(m, "news");
      return token;""")
    shop.send(topic="news", notification={"title": "a", "body": "\u2028ü"}, data={"k": "v"},
              webpush={"notification": {"title": "for the web", "icon": "/i.png", "tag": "t"},
                       "fcm_options": {"link": "https://shop.example/1"}})
    wait(lambda: len(shop.got()) == 1, "the message")
    payload = shop.got()[0]
    assert payload.pop("messageId") and payload.pop("sentTime")
    check(payload == {"from": "/topics/news", "data": {"k": "v"},
                      "notification": {"title": "for the web", "body": "\u2028ü", "icon": "/i.png"},
                      "fcmOptions": {"link": "https://shop.example/1"}},
          f"an app of another origin gets a message in the form of FCM's SDK, over TLS ({payload})")
    return token


def hides(shop, token):
    """While no tab is visible, the worker gets what comes by the stream."""
    other = shop.browser.tab("about:blank")
    wait(lambda: not shop.is_in_sight(), "the hidden tab")
    shop.send(token=token, data={"n": "1"})
    wait(lambda: len(shop.worker_got()) == 1, "the message in the worker")
    shop.send(topic="news", notification={"title": "Hidden", "body": "shown"})
    wait(lambda: shop.notifications() == [["Hidden", "shown"]], "the notification")
    wait(lambda: shop.waiting(token) == 0, "the acknowledgement")
    check(len(shop.worker_got()) == 2 and len(shop.got()) == 1,
          "the worker gets what comes while no tab is visible, shows it, and it is acknowledged")
    shop.run("worker.active.postMessage('click')")
    wait(lambda: shop.notifications() == [], "the click")
    check(True, "a click closes the notification")
    pushed = {"from": "/topics/news", "fcmMessageId": "push-1", "collapse_key": "k", "data": {"n": "2"},
              "notification": {"title": "Pushed", "body": "b", "click_action": "/x"},
              "fcmOptions": {"analytics_label": "l"}}
    for _ in range(2):
        shop.browser.push(shop.tab, json.dumps(pushed))
    wait(lambda: len(shop.worker_got()) == 3, "the push message")
    got = shop.worker_got()[2]
    check(got == {"from": "/topics/news", "messageId": "push-1", "collapseKey": "k", "data": {"n": "2"},
                  "notification": {"title": "Pushed", "body": "b"},
                  "fcmOptions": {"link": "/x", "analyticsLabel": "l"}},
          f"a push message comes to the worker in the same form, once ({got})")
    assert shop.notifications() == [["Pushed", "b"]], shop.notifications()
    other.close()
    shop.tab.front()
    wait(shop.is_in_sight, "the tab")
    for damaged in ["", "no JSON", "[]", "null", '"x"', "7", "{", "{}"]:
        shop.browser.push(shop.tab, damaged)
    shop.browser.push(shop.tab, json.dumps({**pushed, "fcmMessageId": "push-2"}))
    wait(lambda: any(one["messageId"] == "push-2" for one in shop.got()), "the push message")
    check(len(shop.worker_got()) == 3 and len(shop.got()) == 2,
          "a push message comes to the tab that is visible, and a damaged one to nobody")


def has_no_key(shop):
    """The whole way of a subscription to the browser's push service, which a test cannot have."""
    said = shop.run("""
      PushManager.prototype.getSubscription = async () => null;
      PushManager.prototype.subscribe = async ({ applicationServerKey }) => ({ toJSON: () => ({
        endpoint: "https://push.example/1", keys: { p256dh: applicationServerKey, auth: "a" } }) });
      try { await c.getToken(m, { vapidKey: "BKey" }) } catch (e) { return [e.code, e.status, e.message] }""")
    check(said[:2] == ["messaging/token-update-failed", 400] and "no key for Web Push" in said[2],
          f"with a vapidKey the app hears why the server cannot push ({said})")


def comes_both_ways(shop, token):
    """A message by push that also comes by the stream, while the tab is hidden and the worker has no
    handler."""
    shop.leave()
    tab = shop.browser.tab(f"{shop.app.url}/bare/")
    wait(lambda: tab.holds("document.title === 'App'"), "the page")
    config = json.dumps({"projectId": "shop", "apiKey": shop.key})
    tab.run(f"""(async () => {{
      window.c = await import("{shop.url}/client/v1/messaging.js");
      window.m = c.getMessaging({config});
      window.got = [];
      await navigator.serviceWorker.register("/bare.js", {{ scope: "/bare/" }});
      const serviceWorkerRegistration = await navigator.serviceWorker.ready;
      c.onMessage(m, async (payload) => {{
        got.push(payload.data.n);
        if (payload.data.n === "1") await new Promise((resolve) => setTimeout(resolve, 4000));
      }});
      await c.getToken(m, {{ serviceWorkerRegistration }});
    }})()""")
    front = shop.browser.tab("about:blank")
    wait(lambda: tab.holds("document.visibilityState === 'hidden'"), "the hidden tab")
    ids = []
    for number in ("1", "2", "3"):
        body = {"message": {"token": token, "data": {"n": number}}}
        status, answer = shop.server.call("POST", "/v1/projects/shop/messages:send", body, shop.headers)
        assert status == 200, answer
        ids.append(json.loads(answer)["name"].split("/")[-1])
    wait(lambda: tab.holds("got.length > 0"), "the first message")
    shop.browser.push(tab, json.dumps({"from": "shop", "fcmMessageId": ids[1], "data": {"n": "2"}}))
    wait(lambda: shop.waiting(token) == 0, "the acknowledgement", 30)
    got = sorted(tab.run("got"))
    check(got == ["1", "2", "3"], f"a message that comes by push and by the stream is handled once ({got})")
    front.close()
    tab.close()


def without_client(shop):
    """A page of the app's origin that does not use the client is in front."""
    shop.tab.go(f"{shop.app.url}/")
    shop.tab.front()
    shop.tab.run("""window.heard = []; window.channel = new BroadcastChannel("app");
      channel.onmessage = ({ data }) => heard.push(data.messageId);
      navigator.serviceWorker.ready.then(() => 1)""")
    wait(lambda: shop.tab.holds("document.visibilityState === 'visible'"), "the visible page")
    shop.browser.push(shop.tab, json.dumps({"from": "shop", "fcmMessageId": "push-9", "data": {"n": "9"}}))
    wait(lambda: shop.tab.run("heard.length") == 1, "the worker's handler")
    check(shop.tab.run("heard[0]") == "push-9",
          "a visible page without the client does not take a pushed message from the worker")


def drops_push(shop, token):
    """The app logs out while the server refuses to hear of it: what still comes by push is for nobody."""
    said = shop.run("""
      const open = indexedDB.open("tidecast", 1);
      await new Promise((resolve) => { open.onsuccess = resolve; });
      const read = open.result.transaction("devices").objectStore("devices").getAll();
      await new Promise((resolve) => { read.onsuccess = resolve; });
      open.result.close();
      const [{ web: { endpoint } }] = read.result;
      window.dropped = new Set();
      PushManager.prototype.getSubscription = async () => (
        { endpoint, unsubscribe: async () => { dropped.add(endpoint); } });
      worker.active.postMessage({ endpoint });
      window.was = fetch;
      window.fetch = (url, options) => (options?.method === "DELETE"
        ? Promise.resolve(new Response("{}", { status: 503 })) : was(url, options));
      return [await c.deleteToken(m).catch((error) => error.code), dropped.size];""")
    check(said == ["messaging/token-unsubscribe-failed", 1],
          f"a logout drops the browser's address at its push service, also without the server ({said})")
    before = len(shop.worker_got())
    for number, endpoint in ((10, None), (11, "https://push.example/2")):
        if endpoint:
            shop.run(f"worker.active.postMessage({{ endpoint: '{endpoint}' }})")
        shop.browser.push(shop.tab, json.dumps(
            {"from": "shop", "fcmMessageId": f"push-{number}", "data": {"n": str(number)}}))
    wait(lambda: len(shop.worker_got()) > before, "the message of the next registration")
    got = [one["messageId"] for one in shop.worker_got()[before:]]
    check(got == ["push-11"], f"what a former address still brings comes to nobody ({got})")
    shop.run("window.fetch = was; dispatchEvent(new Event('online'))")
    path = f"/v1/projects/shop/registrations/{token}"
    wait(lambda: shop.server.call("GET", path, headers=shop.headers)[0] != 200, "the end at the server")


def test(browser, folder):
    shop = Shop(browser, folder)
    try:
        token = registers(shop)
        hides(shop, token)
        has_no_key(shop)
        web_push.test(shop, token)
        comes_both_ways(shop, token)
        without_client(shop)
        shop.come_back()
        drops_push(shop, token)
        check(shop.run("return c.isRegistered(m)") is False, "the app's registration ends")
    finally:
        shop.tab.close()
        shop.server.kill()
