"""A real Firefox on a screen that nobody sees (Xvfb), told what to do by WebDriver BiDi
(https://w3c.github.io/webdriver-bidi/)."""
import json
import os
import re
import subprocess

from websockets.sync.client import connect

from system.checks import until, wait
from system.process import UNPRIVILEGED

PROGRAM = "/usr/bin/firefox-esr"
START_SECONDS = 90
ANSWER_SECONDS = 40

# Firefox asks nobody outside for anything, and takes a push service without TLS.
PREFERENCES = {
    "dom.push.testing.allowInsecureServerURL": True,
    "dom.push.connection.enabled": True,
    # After a broken connection: 0.5 s, then twice as long each time.
    "dom.push.retryBaseInterval": 500,
    # Notifications of pages are allowed, so a page may subscribe.
    "permissions.default.desktop-notification": 1,
    "alerts.useSystemBackend": False,
    "app.update.disabledForTesting": True,
    "app.normandy.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "browser.startup.page": 0,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "datareporting.healthreport.uploadEnabled": False,
    "extensions.getAddons.cache.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.trr.mode": 5,
    "services.settings.server": "data:,",
    "toolkit.telemetry.server": "data:,",
}


def line(name, value):
    """A line of user.js."""
    return f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"


class Firefox:
    """A browser process with a profile below `folder`, which the servers' user may write. `push`: the address
    of the push service."""

    def __init__(self, folder, push):
        self.folder, self.profile = folder, os.path.join(folder, "firefox")
        subprocess.run([UNPRIVILEGED, "mkdir", "-p", self.profile], check=True)
        with open(os.path.join(self.profile, "user.js"), "w", encoding="utf-8") as file:
            file.writelines(line(*one) for one in {**PREFERENCES, "dom.push.serverURL": push}.items())
        self.log = os.path.join(folder, "firefox-log")
        self.screen, self.process, self.socket, self.number, self.context = None, None, None, 0, None

    def open(self):
        """Starts the screen and the browser, and waits until the browser takes commands. Ends the test where
        it does not."""
        reading, writing = os.pipe()
        with open(self.log, "ab") as log:
            # Xvfb chooses a free display, and writes its number.
            self.screen = subprocess.Popen(
                ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1024x768x24", "-nolisten", "tcp"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[writing])
            os.close(writing)
            with os.fdopen(reading) as file:
                display = file.readline().strip()
            words = [UNPRIVILEGED, "env", f"HOME={self.folder}", f"DISPLAY=:{display}",
                     "MOZ_CRASHREPORTER_DISABLE=1", "MOZ_DISABLE_CONTENT_SANDBOX=1", PROGRAM, "--no-remote",
                     "--profile", self.profile, "--remote-debugging-port", "0", "about:blank"]
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if until(self.address, START_SECONDS) is None:
            raise SystemExit(f"FAIL: Firefox did not start: {self.log_text()[-3000:]}")
        self.socket = connect(f"{self.address()}/session", max_size=None)
        self.command("session.new", capabilities={})
        self.context = self.command("browsingContext.getTree")["contexts"][0]["context"]

    def log_text(self):
        """All that the browser has written."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def address(self):
        """Where the browser takes commands; None before it does."""
        found = re.findall(r"WebDriver BiDi listening on (ws://\S+)", self.log_text())
        return found[-1] if found else None

    def command(self, method, **parameters):
        """The result of a command. Raises RuntimeError with what the browser says against it."""
        self.number += 1
        number = self.number
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv(timeout=ANSWER_SECONDS))
            if answer.get("id") == number:
                if answer.get("type") == "error":
                    raise RuntimeError(f"{method}: {answer['error']}: {answer['message']}")
                return answer["result"]

    def go(self, url):
        """Loads a page."""
        self.command("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def run(self, script):
        """The value of an expression in the page, or of its promise, by way of JSON."""
        answer = self.command(
            "script.evaluate", expression=f"(async () => JSON.stringify(await ({script})))()",
            target={"context": self.context}, awaitPromise=True, userActivation=True)
        if answer["type"] != "success":
            raise RuntimeError(answer["exceptionDetails"]["text"])
        value = answer["result"].get("value")
        return None if value is None else json.loads(value)

    def wait_for(self, script, what, seconds=60):
        """Waits until the expression is true."""
        wait(lambda: self.run(script), what, seconds)

    def close(self):
        """Ends the browser and the screen."""
        if self.socket:
            self.socket.close()
        for one in (self.process, self.screen):
            if one and one.poll() is None:
                one.terminate()
                one.wait(timeout=ANSWER_SECONDS)
