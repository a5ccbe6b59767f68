"""Web Push to a page, from `getToken` with a `vapidKey` to the click on the notification, and the lines of
docs/device-sdks.md that lead Firebase's SDK to another server. Used by web_app.py.

No browser here has a push service: the page makes its keys by WebCrypto as a browser does, the test's service
takes what the server sends, and the debugging protocol hands that to the worker.
"""
import json
import os
import re

from cryptography.hazmat.primitives.asymmetric import ec

from system.checks import check, until, wait
from system.ports import free_port
from system.process import ROOT
from system.pushservice import PushService, decoded

SUBSCRIBE = """
  const pair = await crypto.subtle.generateKey({ name: "ECDH", namedCurve: "P-256" }, true, ["deriveBits"]);
  const encode = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const auth = encode(crypto.getRandomValues(new Uint8Array(16)));
  const p256dh = encode(await crypto.subtle.exportKey("raw", pair.publicKey));
  const { d } = await crypto.subtle.exportKey("jwk", pair.privateKey);
  let asked;
  PushManager.prototype.getSubscription = async () => null;
  PushManager.prototype.subscribe = async (options) => {
    asked = options;
    return { toJSON: () => ({ endpoint: "%s", keys: { p256dh, auth } }) };
  };
  const token = await c.getToken(m, { vapidKey: "%s", serviceWorkerRegistration: worker });
  return { token, d, auth, key: asked.applicationServerKey, isShown: asked.userVisibleOnly };"""


def registers(shop, service, browser, token):
    """The page tells the server its subscription under the project's key."""
    authority = os.path.join(shop.certificates, "ca.pem")
    key = json.loads(shop.server.command(
        "project", "push", "web", "shop", "--subject", "mailto:push@example.com", "--allow-host",
        f"localhost:{service.port}", "--ca", authority, "--json"))["publicKey"]
    made = shop.run(SUBSCRIBE % (browser.endpoint, key))
    browser.key = ec.derive_private_key(int.from_bytes(decoded(made["d"]), "big"), ec.SECP256R1())
    browser.auth = decoded(made["auth"])
    check(made["token"] == token and made["key"] == key and made["isShown"],
          "with a vapidKey the page subscribes at its browser's push service, and has its former token")
    body = shop.server.call("GET", f"/v1/projects/shop/registrations/{token}", headers=shop.headers)[1]
    transports = json.loads(body)["transports"]
    check([one["service"] for one in transports] == [f"https://localhost:{service.port}"],
          "the server has the page's push service")


def pushed(shop, browser, token, link):
    """What the service gets of a message whose click leads to `link`, after the page was closed."""
    shop.leave()
    shop.send(topic="news", notification={"title": "Pushed", "body": link}, data={"k": "v"},
              webpush={"fcm_options": {"link": link}})
    wait(lambda: any(message["notification"]["body"] == link for _, _, message in browser.accepted),
         "the push service to get the message")
    wait(lambda: shop.waiting(token) == 0, "the message to leave the device's log")
    shop.come_back()
    return browser.accepted[-1][2]


def clicks(shop, browser, token):
    """The worker shows what the service got, and a click opens the link where it is a page of the app."""
    page, other = f"{shop.app.url}/", f"{shop.app.url}/basket?of=today"
    for link, wanted in ((other, {"opened": other}), (page, {"focused": page})):
        message = pushed(shop, browser, token, link)
        check(message["data"] == {"k": "v"} and message["from"] == "/topics/news",
              "a page that is closed gets the message by its push service, encrypted with its keys")
        front = shop.browser.tab("about:blank")
        wait(lambda: not shop.is_in_sight(), "the hidden tab")

        def shown(message=message, link=link):
            # A browser on a busy machine may lose what its debugger pushes; the worker shows a message once.
            shop.browser.push(shop.tab, json.dumps(message))
            return until(lambda: shop.notifications() == [["Pushed", link]], 20) is not None

        wait(shown, "the notification")
        wait(lambda: len(shop.worker_got()) == 1, "the worker's handler")
        shop.run("worker.active.postMessage('click')")
        wait(lambda: len(shop.worker_got()) == 2, "the click")
        check(shop.worker_got()[1] == wanted and shop.notifications() == [],
              f"a click on the notification leads to the link of the app's host ({wanted})")
        front.close()
        shop.tab.front()


def lines_for(url):
    """The lines of docs/device-sdks.md that lead the SDK's requests to the server at `url`."""
    with open(os.path.join(ROOT, "docs/device-sdks.md"), encoding="utf-8") as file:
        found = re.findall(r"```js\n(.*?)```", file.read(), re.DOTALL)
    assert len(found) == 1 and '"https://push.example.com"' in found[0], found
    return found[0].replace("https://push.example.com", url)


# Requests for the two hosts, in each form that `fetch` takes. Gives what came of them.
ASK = """
const ask = async (key) => {
  const json = { "content-type": "application/json", "x-goog-api-key": key };
  const installations = "https://firebaseinstallations.googleapis.com/v1/projects/shop/installations";
  const made = await (await fetch(installations, { method: "POST", headers: json, body: "{}" })).json();
  const headers = { ...json, "x-goog-firebase-installations-auth": `FIS ${made.authToken.token}` };
  const registrations = "https://fcmregistrations.googleapis.com/v1/projects/shop/registrations";
  const request = new Request(registrations, { method: "POST", headers, body: "{}" });
  const answer = await (await fetch(request)).json();
  const again = await fetch(new URL(`${registrations}/${made.fid}`), { headers });
  return { fid: made.fid, name: answer.name, status: again.status, own: (await fetch("/")).status };
};
"""


def redirects(shop):
    """The lines of the page on Firebase's SDKs, in a page and in its worker."""
    lines = lines_for(shop.url)
    shop.app.scripts["/lines.js"] = lines + ASK
    shop.app.scripts["/firebase-messaging-sw.js"] = lines + ASK + """
      addEventListener("message", async ({ data, ports }) => {
        ports[0].postMessage(await ask(data).catch((error) => String(error)));
      });"""
    shop.tab.go(f"{shop.app.url}/sdk")
    by_page = shop.run("""
      await new Promise((resolve) => {
        document.head.append(Object.assign(document.createElement("script"),
                                           { src: "/lines.js", onload: resolve }));
      });
      return ask(m.apiKey);""")
    by_worker = shop.run("""
      const registration = await navigator.serviceWorker.register(
        "/firebase-messaging-sw.js", { scope: "/firebase-cloud-messaging-push-scope" });
      const worker = registration.installing ?? registration.active;
      const { port1, port2 } = new MessageChannel();
      const answer = new Promise((resolve) => { port1.onmessage = ({ data }) => resolve(data); });
      worker.postMessage(m.apiKey, [port2]);
      return answer;""")
    for who, found in (("a page", by_page), ("a worker", by_worker)):
        known = shop.server.call("GET", f"/v1/projects/shop/registrations/{found['fid']}",
                                 headers=shop.headers)[0] if isinstance(found, dict) else None
        check(known == 200 and found["name"].endswith(f"/registrations/{found['fid']}")
              and found["status"] == 200 and found["own"] == 200,
              f"the lines of docs/device-sdks.md lead {who}'s requests for Google's hosts here ({found})")
    check(by_page["fid"] != by_worker["fid"], "each by itself")


def test(shop, token):
    service = PushService(os.path.join(shop.certificates, "server.pem"),
                          os.path.join(shop.certificates, "server.key"), free_port())
    try:
        browser = service.browser("page")
        shop.come_back()
        shop.run("for (const one of await worker.getNotifications()) one.close();")
        registers(shop, service, browser, token)
        clicks(shop, browser, token)
        check(not service.mistakes, f"the service understood each push: {service.mistakes[:3]}")
        redirects(shop)
        shop.come_back()
    finally:
        service.close()
