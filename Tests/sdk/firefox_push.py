"""Firefox with this server as its push service: a page subscribes, a sender posts, and the page's worker
reads the plaintext. See firefox_push.sh."""
import base64
import http.server
import json
import signal
import threading
import time

import requests
from cryptography.hazmat.primitives import serialization
from firefox import Firefox
from py_vapid import Vapid02
from pywebpush import WebPusher

from system.checks import check, wait
from system.node import making
from system.ports import free_port

PAGE = b"<!doctype html><meta charset=utf-8><title>Page</title><p>A page with a subscription.</p>"
# The worker keeps what it reads in a cache, where the page finds it.
WORKER = b"""
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("push", (event) => event.waitUntil((async () => {
  const text = event.data ? event.data.text() : "";
  const cache = await caches.open("pushed");
  await cache.put(`/pushed/${Date.now()}-${Math.random()}`, new Response(text));
  await self.registration.showNotification("Pushed", { body: text });
})()));
"""
PUSHED = """(async () => {
  const cache = await caches.open("pushed");
  const keys = await cache.keys();
  return Promise.all(keys.map(async (key) => (await cache.match(key)).text()));
})()"""
SUBSCRIBE = """(async () => {
  const worker = await navigator.serviceWorker.register("/worker.js");
  await navigator.serviceWorker.ready;
  const key = %s;
  const options = { userVisibleOnly: true, ...(key ? { applicationServerKey: key } : {}) };
  return (await worker.pushManager.subscribe(options)).toJSON();
})()"""
SUBSCRIPTION = """(async () => {
  const worker = await navigator.serviceWorker.getRegistration();
  return (await worker.pushManager.getSubscription())?.toJSON() ?? null;
})()"""
UNSUBSCRIBE = """(async () => {
  const worker = await navigator.serviceWorker.getRegistration();
  return (await worker.pushManager.getSubscription()).unsubscribe();
})()"""


class Site:
    """The web server of the page. A browser counts 127.0.0.1 as a secure origin."""

    def __init__(self):
        files = {"/": ("text/html", PAGE), "/worker.js": ("text/javascript", WORKER)}

        class Handler(http.server.BaseHTTPRequestHandler):
            """Serves the two files."""

            def do_GET(self):
                """A file, or 404."""
                kind, body = files.get(self.path, ("text/plain", b""))
                self.send_response(200 if self.path in files else 404)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                """Writes nothing."""

        self.port = free_port()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.port}/"


class Sender:
    """The page's own server, with a key of its own (RFC 8292)."""

    def __init__(self):
        self.vapid = Vapid02()
        self.vapid.generate_keys()
        public = self.vapid.public_key.public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
        self.key = base64.urlsafe_b64encode(public).rstrip(b"=").decode()

    def send(self, subscription, text):
        """The status of the push service's answer to an encrypted and signed message."""
        return self.post(subscription, WebPusher(subscription).encode(
            text.encode(), content_encoding="aes128gcm")["body"])

    def post(self, subscription, body):
        """The status of the answer to any body."""
        endpoint = subscription["endpoint"]
        token = self.vapid.sign({"sub": "mailto:page@example.com", "aud": endpoint.partition("/push/")[0]})
        return requests.post(endpoint, data=bytes(body), timeout=20, headers={
            **token, "ttl": "600", "content-encoding": "aes128gcm"}).status_code


def fate(server, outcome):
    """How many messages had this outcome."""
    return server.metrics()[f'tidecast_user_agent_messages_total{{outcome="{outcome}"}}']


def reads(browser, server, sender, subscription, text):
    """The worker gets a message in plain text, and the browser acknowledges the message."""
    before = fate(server, "delivered")
    check(sender.send(subscription, text) == 201, "the server takes a signed message for the page")
    wait(lambda: text in browser.run(PUSHED), "the page's worker to read the plaintext")
    check(True, f"the page's worker reads {text!r}")
    wait(lambda: fate(server, "delivered") > before, "Firefox to acknowledge the message")


def damaged(browser, server, sender, subscription):
    """A body that Firefox cannot open is acknowledged as such, and counted."""
    body = bytearray(WebPusher(subscription).encode(b"cannot be read", content_encoding="aes128gcm")["body"])
    body[-1] ^= 1
    check(sender.post(subscription, body) == 201, "the server takes a body that nobody can open")
    wait(lambda: fate(server, "undecipherable") == 1, "the metrics to count the code 101 of Firefox")
    check("cannot be read" not in browser.run(PUSHED), "a damaged body is counted, and no worker sees it")
    check(Sender().send(subscription, "stranger") == 403, "another sender's signature is 403")


def killed(browser, server, sender, subscription):
    """What is sent while Firefox has no connection comes when it is back."""
    server.end(signal.SIGKILL)
    server.start()
    server.wait_ready()
    check(sender.send(subscription, "after the server was killed") == 201,
          "after kill -9 the endpoint takes messages")
    wait(lambda: "after the server was killed" in browser.run(PUSHED),
         "Firefox to come back, and the worker to read the message", 90)
    check(browser.run(SUBSCRIPTION)["endpoint"] == subscription["endpoint"],
          "the subscription is the same: Firefox has kept its uaid")


def ends(browser, sender, subscription):
    """A page that unsubscribes makes its endpoint 410."""
    check(browser.run(UNSUBSCRIBE), "the page unsubscribes")
    wait(lambda: sender.send(subscription, "too late") == 410, "the endpoint to be 410")
    check(True, "the endpoint of a subscription that has ended is 410")


def main():
    began = time.monotonic()
    with making() as made:
        server = made.server()
        server.command("project", "create", "browsers", "--service-account", "-")
        origin = f"http://127.0.0.1:{server.port}"
        push = server.command("project", "push", "serve", "browsers", "--origin", origin).strip()
        site, sender = Site(), Sender()
        browser = Firefox(made.folder, push)
        try:
            browser.open()
            browser.go(site.url)
            subscription = browser.run(SUBSCRIBE % json.dumps(sender.key))
            reads(browser, server, sender, subscription, "the first message")
            damaged(browser, server, sender, subscription)
            killed(browser, server, sender, subscription)
            ends(browser, sender, subscription)
        finally:
            browser.close()
        server.end()
    print(f"all checks hold, in {time.monotonic() - began:.0f} s")


main()
