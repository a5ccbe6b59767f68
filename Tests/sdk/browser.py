"""A real Chromium without a screen, told what to do by its debugging protocol
(https://chromedevtools.github.io/devtools-protocol/)."""
import base64
import json
import os
import subprocess

from websockets.sync.client import connect

from system.checks import until, wait
from system.process import UNPRIVILEGED

PROGRAM = "/usr/bin/chromium"
START_SECONDS = 60
ANSWER_SECONDS = 30


class Browser:
    """A browser process with a profile of its own below `folder`, which the servers' user may write."""

    def __init__(self, folder):
        self.profile = os.path.join(folder, "profile")
        # The browser is in a network namespace of the test and shows the server's pages alone, so it needs no
        # sandbox, which it could not make without privileges.
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--no-default-browser-check", "--disable-extensions",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync",
                   "--ignore-certificate-errors",
                   "--remote-debugging-port=0", f"--user-data-dir={self.profile}", "about:blank"]
        self.log = os.path.join(folder, "browser-log")
        # The wrapper that gives up privileges sets HOME, so `env` comes behind it.
        words = [UNPRIVILEGED, "env", f"HOME={folder}", PROGRAM, *options]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.socket, self.number = None, 0

    def open(self):
        """Waits until the browser takes commands. Ends the test where it does not."""
        path = os.path.join(self.profile, "DevToolsActivePort")
        if until(lambda: os.path.exists(path) and os.path.getsize(path) > 10, START_SECONDS) is None:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                raise SystemExit(f"FAIL: the browser did not start: {log.read()[-2000:]}")
        with open(path, encoding="utf-8") as file:
            port, place = file.read().split()
        self.socket = connect(f"ws://127.0.0.1:{port}{place}", max_size=None)

    def close(self):
        """Ends the browser and all its processes."""
        if self.socket:
            self.command("Browser.close")
            self.socket.close()
        else:
            self.process.terminate()
        self.process.wait(timeout=ANSWER_SECONDS)

    def command(self, method, session=None, **parameters):
        """The result of a command. Raises RuntimeError with what the browser says against it."""
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": parameters}
        self.socket.send(json.dumps(message if session is None else {**message, "sessionId": session}))
        while True:
            answer = json.loads(self.socket.recv(timeout=ANSWER_SECONDS))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def tab(self, url):
        """A new tab in front of the others."""
        target = self.command("Target.createTarget", url=url)["targetId"]
        return Tab(self, target)

    def push(self, tab, data):
        """Gives the tab's worker a message of the push service. `data`: the text of the message."""
        scope = tab.run("navigator.serviceWorker.ready.then((one) => one.scope)")
        tab.command("ServiceWorker.deliverPushMessage", origin=tab.run("location.origin"),
                    registrationId=self.worker(tab, scope), data=data)

    def worker(self, tab, scope):
        """The id of the worker's registration with this scope."""
        tab.command("ServiceWorker.disable")
        self.number += 1
        message = {"id": self.number, "method": "ServiceWorker.enable", "params": {}}
        self.socket.send(json.dumps({**message, "sessionId": tab.session}))
        while True:
            event = json.loads(self.socket.recv(timeout=ANSWER_SECONDS))
            if event.get("method") == "ServiceWorker.workerRegistrationUpdated":
                for one in event["params"]["registrations"]:
                    if one["scopeURL"] == scope and not one["isDeleted"]:
                        return one["registrationId"]


class Tab:
    """One tab of a browser."""

    def __init__(self, browser, target):
        self.browser, self.target = browser, target
        self.session = browser.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.command("Page.enable")

    def command(self, method, **parameters):
        """The result of a command to this tab."""
        return self.browser.command(method, self.session, **parameters)

    def run(self, script):
        """The value of an expression, or of its promise. Raises RuntimeError with what the script throws."""
        answer = self.command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True,
                              userGesture=True)
        if "exceptionDetails" in answer:
            thrown = answer["exceptionDetails"]
            raise RuntimeError(thrown.get("exception", {}).get("description") or thrown["text"])
        return answer["result"].get("value")

    def holds(self, script):
        """Whether the expression is true. A page that is being loaded has no answer yet."""
        try:
            return bool(self.run(script))
        except RuntimeError:
            return False

    def go(self, url):
        """Loads another page, and waits until it is there."""
        self.run("window.isFormer = true")
        self.command("Page.navigate", url=url)
        self.wait_loaded()

    def reload(self):
        """Loads the page again, and waits until it is there."""
        self.run("window.isFormer = true")
        self.command("Page.reload")
        self.wait_loaded()

    def wait_loaded(self):
        """Waits until the page is another one than that which `isFormer` marks."""
        wait(lambda: self.holds("!window.isFormer && document.readyState === 'complete'"), "the page")

    def front(self):
        """Makes the tab the one that is shown."""
        self.command("Page.bringToFront")

    def close(self):
        """Closes the tab."""
        self.browser.command("Target.closeTarget", targetId=self.target)

    def picture(self, path, *, width, height, is_dark=False, scale=1):
        """Writes the tab as a PNG, `width` and `height` in CSS pixels."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height,
                     deviceScaleFactor=scale, mobile=width < 600)
        self.command("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])
        data = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
