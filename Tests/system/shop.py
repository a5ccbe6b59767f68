"""A project whose devices push services reach: its backend, and its apps, which speak as Firebase's SDKs
do."""
import json
import time

from system.checks import check, wait


class Project:
    """The project on a server that runs, with a key for apps and one for the backend."""

    def __init__(self, server, name="shop"):
        self.server, self.name, self.path = server, name, f"/v1/projects/{name}"
        self.account = json.loads(server.command("project", "create", name, "--service-account", "-"))
        check(self.account["project_id"] == name, f"the project {name} is made")
        app, bearer = (json.loads(server.command("project", "key", "create", name, "--kind", kind,
                                                 "--json"))["key"] for kind in ("device", "bearer"))
        self.app = {"x-goog-api-key": app}
        self.backend = {"authorization": f"Bearer {bearer}", "access_token_auth": "true"}

    def set_push(self, service, *words):
        """What `project push SERVICE` answers for the project, as JSON."""
        return json.loads(self.server.command("project", "push", service, self.name, *words, "--json"))

    def push_status(self):
        return json.loads(self.server.command("project", "push", "status", self.name, "--json"))

    def call(self, method, path, body, headers):
        status, raw = self.server.call(method, path, body, {"content-type": "application/json", **headers})
        return status, json.loads(raw or b"{}")

    def install(self):
        """The headers by which an app's installation speaks."""
        status, made = self.call("POST", f"{self.path}/installations", {}, self.app)
        assert status == 200, (status, made)
        return {**self.app, "x-goog-firebase-installations-auth": "FIS " + made["authToken"]["token"]}

    def register(self, installation, **block):
        """The device tells its address, such as `ios={…}`. Returns the registration token."""
        status, made = self.call("POST", f"{self.path}/registrations", block, installation)
        assert status == 200, (status, made)
        return made["token"]

    def device(self, token):
        """What the server shows of a device."""
        status, made = self.call("GET", f"{self.path}/registrations/{token}", None, self.backend)
        assert status == 200, (status, made)
        return made

    def answers(self, message):
        """How push services have answered to a message."""
        status, made = self.call("GET", f"{self.path}/messages/{message}", None, self.backend)
        assert status == 200, (status, made)
        return made["pushes"]

    def members(self, topic):
        """How many devices the topic has."""
        status, made = self.call("GET", f"{self.path}/topics/{topic}", None, self.backend)
        assert status == 200, (status, made)
        return int(made["memberCount"])

    def subscribe(self, tokens, topic):
        status, made = self.call("POST", "/iid/v1:batchAdd",
                                 {"to": f"/topics/{topic}", "registration_tokens": tokens}, self.backend)
        wrong = [one for one in made.get("results", [made]) if one]
        assert status == 200 and not wrong, (status, len(wrong), wrong[:3])

    def send(self, **message):
        """Status, and the id of the accepted message or the error."""
        status, made = self.call("POST", f"{self.path}/messages:send", {"message": message},
                                 self.backend)
        return status, made["name"].split("/")[-1] if status == 200 else made["error"]

    def publish(self, topic, **more):
        status, name = self.send(topic=topic, **more)
        assert status == 200, name
        return name

    def ends(self, tokens, topic, what):
        """Waits until sends to each of these devices are UNREGISTERED. A push service's word that a device
        is gone counts only beside messages that it takes, so the topic's devices get some."""
        def are_gone():
            time.sleep(1)
            self.publish(topic, data={"beside": "it"})
            return all(self.send(token=token, data={"to": "nobody"})[0] == 404 for token in tokens)

        wait(are_gone, what)

    def pushed(self, outcome, service="web"):
        """How often the service answered so since the server began."""
        name = f'tidecast_pushes_total{{outcome="{outcome}",service="{service}"}}'
        return self.server.metrics().get(name, 0)

    def alarms(self, reason, service):
        name = f'tidecast_push_alarms_total{{reason="{reason}",service="{service}"}}'
        return self.server.metrics().get(name, 0)


class Shop(Project):
    """The project with a key for Web Push, and a push service beside the browsers' own. `allowed` is the
    operator's entry for the service."""

    def __init__(self, server, service, authority, allowed=None):
        super().__init__(server)
        self.service = service
        self.server_key = self.set_push(
            "web", "--subject", "mailto:push@example.com", "--allow-host",
            allowed or f"localhost:{service.port}", "--ca", authority)["publicKey"]
        check(len(self.server_key) == 87, "the project has a key for Web Push")

    def allow(self, host):
        """The operator lists this push service in place of the former one."""
        self.set_push("web", "--allow-host", host)

    def tell(self, installation, browser):
        """The device tells its browser's address. Returns the registration token."""
        return self.register(installation, web=browser.block(self.server_key))
