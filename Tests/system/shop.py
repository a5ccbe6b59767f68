"""A project `shop` whose devices a push service reaches: its backend, and its apps, which speak as Firebase's
web SDK does."""
import json

from system.checks import check


class Shop:
    """A project with a key for Web Push, its backend and its apps."""

    def __init__(self, server, service, authority):
        self.server, self.service = server, service
        made = json.loads(server.command("project", "create", "shop", "--service-account", "-"))
        check(made["project_id"] == "shop", "a project is made")
        self.server_key = json.loads(server.command(
            "project", "push", "web", "shop", "--subject", "mailto:push@example.com", "--allow-host",
            f"localhost:{service.port}", "--ca", authority, "--json"))["publicKey"]
        check(len(self.server_key) == 87, "the project has a key for Web Push")
        app, bearer = (json.loads(server.command("project", "key", "create", "shop", "--kind", kind,
                                                 "--json"))["key"] for kind in ("device", "bearer"))
        self.app = {"x-goog-api-key": app}
        self.backend = {"authorization": f"Bearer {bearer}", "access_token_auth": "true"}

    def call(self, method, path, body, headers):
        status, raw = self.server.call(method, path, body, {"content-type": "application/json", **headers})
        return status, json.loads(raw or b"{}")

    def install(self):
        """The headers by which an app's installation speaks."""
        status, made = self.call("POST", "/v1/projects/shop/installations", {}, self.app)
        assert status == 200, (status, made)
        return {**self.app, "x-goog-firebase-installations-auth": "FIS " + made["authToken"]["token"]}

    def tell(self, installation, browser):
        """The device tells its browser's address. Returns the registration token."""
        status, made = self.call("POST", "/v1/projects/shop/registrations",
                                 {"web": browser.block(self.server_key)}, installation)
        assert status == 200, (status, made)
        return made["token"]

    def subscribe(self, tokens, topic):
        status, made = self.call("POST", "/iid/v1:batchAdd",
                                 {"to": f"/topics/{topic}", "registration_tokens": tokens}, self.backend)
        assert status == 200 and made["results"] == [{}] * len(tokens), (status, made)

    def send(self, **message):
        """Status, and the id of the accepted message or the error."""
        status, made = self.call("POST", "/v1/projects/shop/messages:send", {"message": message},
                                 self.backend)
        return status, made["name"].split("/")[-1] if status == 200 else made["error"]

    def publish(self, topic, **more):
        status, name = self.send(topic=topic, **more)
        assert status == 200, name
        return name

    def pushed(self, outcome):
        """How often the service answered so since the server began."""
        return self.server.metrics().get(f'tidecast_pushes_total{{outcome="{outcome}",service="web"}}', 0)
