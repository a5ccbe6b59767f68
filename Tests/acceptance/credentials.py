"""The lives of credentials: see credentials.sh."""
import hashlib
import json
import os
import signal
import subprocess

from assertion import access_token, exchange

from system.checks import check, wait
from system.device import register
from system.node import Node, making, start
from system.ports import free_port
from system.process import make_certificates, tls_words

SEND = "/v1/projects/shop/messages:send"


class SecureNode(Node):
    """A node without --dev: a development server lets everybody register."""

    def __init__(self, folder, name, database):
        super().__init__(folder, name, database)
        self.tls = free_port()
        self.edge = os.path.join(folder, "edge")
        if not os.path.exists(self.edge):
            make_certificates(self.edge, "--name", "localhost")

    def words(self):
        found = [*super().words(), *tls_words(self.tls, self.edge)]
        found.remove("--dev")
        return found

    def links(self):
        return ["--insecure-peers"]

    def tried(self, *words):
        """Exit code, output and error output of a command on the node's data."""
        done = self.run(*words)
        return done.returncode, done.stdout, done.stderr

    def remote(self, token, *words):
        """Runs a command with an operator's token over the network, as from another machine."""
        path = os.path.join(self.folder, "token")
        with open(path, "w", encoding="ascii") as file:
            os.chmod(path, 0o600)
            file.write(token + "\n")
        done = subprocess.run(
            [self.binary, *words, "--server", f"https://localhost:{self.tls}", "--ca", f"{self.edge}/ca.pem",
             "--token-file", path], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=60)
        return done.returncode, done.stdout, done.stderr

    def json(self, *words):
        return json.loads(self.command(*words, "--json"))

    def posted(self, path, body, headers):
        return self.call("POST", path, body, {"content-type": "application/json", **headers})[0]

    def sends(self, token):
        return self.posted(SEND, {"message": {"topic": "news"}}, {"authorization": f"Bearer {token}"})

    def registers(self, key):
        return self.posted("/v1/projects/shop/registrations", {}, {"x-goog-api-key": key})

    def key(self, identity):
        return next(key for key in self.json("key", "list") if key["id"] == identity)


def both(nodes, ask, status, what):
    """Waits until `ask` is `status` at each node: a change reaches the other node with its next look at the
    database."""
    for node in nodes:
        wait(lambda node=node: ask(node) == status, f"{node.name}: {what}", 30)
    check(True, what)


def accounts(one, nodes):
    first = json.loads(one.command("project", "create", "shop", "--service-account", "-"))
    second = json.loads(one.command("key", "create", "shop", "--kind", "service-account", "--name", "second",
                                    "--service-account", "-"))
    check(first["client_email"] == second["client_email"]
          and first["private_key_id"] != second["private_key_id"],
          "a second key of the service account, as if the first file were lost")
    both(nodes, lambda node: exchange(node, second)[0], 200, "a new service-account key is taken")
    tokens = [access_token(nodes[1], account) for account in (first, second)]
    both(nodes, lambda node: {node.sends(token) for token in tokens}, {200},
         "tokens of one node are taken by the other")
    one.command("key", "revoke", first["private_key_id"], "--yes")
    both(nodes, lambda node: (node.sends(tokens[0]), node.sends(tokens[1])), (401, 200),
         "a token of a revoked key ends, one of the other key does not")
    both(nodes, lambda node: exchange(node, first)[1].get("error"), "invalid_grant",
         "the revoked key gets no other")
    path = os.path.join(one.folder, "third.json")
    one.command("key", "rotate", second["private_key_id"], "--service-account", path, "--overlap", "1h")
    with open(path, encoding="utf-8") as file:
        third = json.load(file)
    both(nodes, lambda node: (exchange(node, second)[0], exchange(node, third)[0]), (200, 200),
         "a key and its successor")
    check(one.key(second["private_key_id"][:16])["expireTime"]
          > one.key(second["private_key_id"][:16])["createTime"],
          "the former one has an end")
    code, _, error = one.tried("key", "rotate", third["private_key_id"])
    check(code != 0 and "--service-account FILE" in error, "nothing is replaced whose file goes nowhere")


def keys(one, nodes):
    made = {kind: one.json("key", "create", "shop", "--kind", kind, "--name", "ci")
            for kind in ("device", "bearer")}
    bearer, device = made["bearer"], made["device"]
    both(nodes, lambda node: (node.sends(bearer["key"]), node.registers(device["key"])), (200, 200),
         "new keys are taken")
    both(nodes, lambda node: (node.sends(device["key"]), node.registers("tck_no")), (401, 401),
         "each for its own use only")
    one.command("key", "revoke", bearer["id"], "--yes")
    one.command("key", "revoke", device["id"], "--yes")
    both(nodes, lambda node: (node.sends(bearer["key"]), node.registers(device["key"])), (401, 401),
         "revoked keys end")

    short = one.json("key", "create", "shop", "--kind", "bearer", "--expires", "1h")
    both(nodes, lambda node: node.sends(short["key"]), 200, "a key with an end is taken")
    nodes[1].command("key", "expire", short["id"], "2s")
    both(nodes, lambda node: node.sends(short["key"]), 401, "and ends by itself")
    nodes[1].command("key", "expire", short["id"], "never")
    both(nodes, lambda node: node.sends(short["key"]), 200, "or goes on, where its end is taken back")
    next_one = one.json("key", "rotate", short["id"], "--overlap", "3s")
    both(nodes, lambda node: node.sends(next_one["key"]), 200, "its successor is taken")
    both(nodes, lambda node: node.sends(short["key"]), 401, "and it ends when the overlap is over")
    check(next_one["id"] != short["id"] and next_one["kind"] == "bearer",
          "the successor is another one of its kind")

    old = one.json("project", "key", "create", "shop", "--kind", "bearer")
    both(nodes, lambda node: node.sends(old["key"]), 200,
         "what `project key create` makes is listed like others")
    check(one.key(old["id"])["state"] == "active", "with its state")
    # The node that saw the key in use stores the date within 30 s.
    wait(lambda: "lastUseTime" in one.key(old["id"]), "the date of its last use")
    check(True, "and when it was last used")

    listed = one.command("key", "list", "--json") + one.command("key", "list")
    secrets = [key["key"] for key in (bearer, device, short, next_one, old)]
    check(not any(secret in listed for secret in secrets) and "PRIVATE" not in listed,
          "a list has no secrets")
    states = {key["id"]: key["state"] for key in json.loads(listed.splitlines()[0])}
    check((states[bearer["id"]], states[short["id"]], states[old["id"]]) == ("revoked", "expired", "active"),
          "and the state of each")
    for words in (["revoke", "0123456789abcdef", "--yes"], ["revoke", "x", "--yes"],
                  ["expire", old["id"], "2001-01-01"], ["expire", bearer["id"], "1h"],
                  ["create", "shop", "--kind", "x"], ["create", "none", "--kind", "bearer"],
                  ["create", "shop", "--kind", "bearer", "--name", "\x1b[2J"], ["rotate", bearer["id"]],
                  ["create", "shop", "--kind", "service-account"], ["expire", old["id"], "soon"],
                  ["create", "shop", "--kind", "bearer", "--service-account", "-"],
                  ["rotate", "signing", "--overlap", "1h"],
                  ["rotate", "registration", "--service-account", "-"]):
        code, said, error = one.tried("key", *words)
        check(code != 0 and not said and "Error" in error, f"refused: {' '.join(words)!r}")
    return bearer, old


def web_push(one, nodes, app):
    """A change of the settings for Web Push at a node counts at the other node."""
    def told(node):
        status, body = node.call("GET", "/v1/projects/shop/webPushKey", None, {"x-goog-api-key": app})
        return json.loads(body)["publicKey"] if status == 200 else status

    first = one.json("project", "push", "web", "shop", "--subject", "mailto:push@example.com")["publicKey"]
    both(nodes, told, first, "a page gets the key for Web Push from every node")
    second = nodes[1].json("project", "push", "web", "shop", "--new-key")["publicKey"]
    both(nodes, told, second, "and the new key")
    keys_of = [key["publicKey"] for key in one.json("project", "push", "status", "shop")["web"]["keys"]]
    check(keys_of == [second, first], "the former key stays")
    one.command("project", "push", "off", "shop")
    both(nodes, told, 404, "until Web Push is off")


class Listening:
    """A device's stream."""

    def __init__(self, node, registration):
        device = registration["token"].split(":")[0]
        url = f"http://{node.host}:{node.port}/v1/projects/shop/registrations/{device}:listen"
        self.curl = subprocess.Popen(["curl", "-sN", "--max-time", "300", url, "-H",
                                      f"Authorization: Bearer {registration['credential']}"],
                                     stdout=subprocess.PIPE, text=True)
        check(self.curl.stdout.readline().startswith(":"), "a stream begins")

    def end(self):
        """The rest of the stream, after the server has ended it."""
        return self.curl.communicate(timeout=30)[0]


class Rotation:
    """The rotation of the server's own keys. It begins early, since the server uses a new key only after a
    minute."""

    def __init__(self, nodes):
        self.nodes, one = nodes, nodes[0]
        self.account = json.loads(one.command("key", "create", "shop", "--kind", "service-account",
                                              "--service-account", "-"))
        self.app = one.json("key", "create", "shop", "--kind", "device")["key"]
        both(nodes, lambda node: exchange(node, self.account)[0], 200, "an account for what follows")
        self.token, self.former = access_token(one, self.account), self.register(one)
        self.device = self.former["token"]
        for kind in ("signing", "registration"):
            states = [key["state"] for key in one.json("key", "rotate", kind)[kind]]
            check(states == [{"signing": "signs", "registration": "makes"}[kind], "announced"],
                  f"a new {kind} key is told before it is used")

    def register(self, node):
        return register(node, {"x-goog-api-key": self.app}, "shop")

    def reaches(self, node, token, device):
        return node.posted(SEND, {"message": {"token": device}}, {"authorization": f"Bearer {token}"})

    def finish(self):
        one, other = self.nodes
        both(self.nodes, lambda node: self.reaches(node, self.token, self.device), 200,
             "what the former keys made goes on")
        wait(lambda: [key["state"] for key in one.json("key", "server")["signing"]] == ["verifies", "signs"],
             "the new key to sign", 90)
        wait(lambda: [key["state"] for key in one.json("key", "server")["registration"]]
             == ["reads", "makes"],
             "the new key to make ids", 90)
        # A node begins to use the new key with its next look at the database: within 30 s, or with the next
        # change.
        change = one.json("key", "create", "shop", "--kind", "bearer")["key"]
        both(self.nodes, lambda node: node.sends(change), 200, "both have looked")
        latter, token = self.register(other), access_token(other, self.account)
        device = latter["token"]
        both(self.nodes, lambda node: self.reaches(node, token, device), 200,
             "and so does what the new ones made")
        code, _, error = one.tried("key", "retire", "2", "--yes")
        check(code != 0 and "rotate first" in error, "the key that is used is not retired")
        code, _, error = one.tried("key", "retire", "1")
        check(code != 0 and "give --yes" in error, "and none without consent")
        former, self.latter = Listening(other, self.former), Listening(other, latter)
        one.command("key", "retire", "1", "--yes")
        check("event: unregistered" in former.end(), "the stream of a device under a retired key ends")
        both(self.nodes, lambda node: (self.reaches(node, token, self.device),
                                       self.reaches(node, token, device)), (404, 200),
             "devices of a retired key are unregistered, others are not")
        one.command("key", "rotate", "signing", "--at-once")
        both(self.nodes, lambda node: [self.reaches(node, old, device) for old in (token, self.token)],
             [401, 401],
             "in an emergency every access token ends")
        both(self.nodes, lambda node: self.reaches(node, access_token(node, self.account), device), 200,
             "and new ones are taken")
        check(self.latter.curl.poll() is None, "and the other device's stream goes on")


class Operators:
    """Operators' tokens of each role. Commands go to the second node over the network."""

    def __init__(self, nodes):
        self.nodes, (self.one, self.other) = nodes, nodes
        self.tokens = {role: self.one.json("key", "create", "--kind", "operator", "--role", role, "--name",
                                           f"{role}er")
                       for role in ("read", "operate", "admin")}
        both(nodes, lambda node: {node.remote(token["key"], "project", "list")[0]
                                  for token in self.tokens.values()},
             {0}, "operators' tokens are taken by every node")

    def may(self, role, *words):
        code, said, error = self.other.remote(self.tokens[role]["key"], *words)
        check(code == 0, f"over the network: {' '.join(words)} {error}")
        return said

    def may_not(self, role, text, *words):
        code, said, error = self.other.remote(self.tokens[role]["key"] if role else "tco_nobody", *words)
        check(code != 0 and text in error and not said,
              f"not as {role or 'nobody'}: {' '.join(words)}: {error.strip()}")

    def work(self):
        """All that the roles may do. Returns a key of the project `far`."""
        said = self.may("admin", "project", "create", "far", "--service-account", "-")
        check(json.loads(said)["project_id"] == "far", "a project, with its file")
        both(self.nodes, lambda node: "far" in node.remote(self.tokens["read"]["key"], "project", "list")[1],
             True,
             "listed by who reads")
        key = json.loads(self.may("admin", "key", "create", "far", "--kind", "bearer", "--json"))
        device = json.loads(self.may("operate", "device", "register", "--project", "far", "--json"))["token"]
        self.may("operate", "subscribe", "news", device, "--project", "far")
        check("news" in self.may("read", "topic", "list", "--project", "far"), "topics")
        self.may("read", "topic", "info", "news", "--project", "far")
        self.may("read", "device", "list", "--project", "far")
        self.may("read", "device", "info", device, "--project", "far")
        self.may("operate", "send", "--project", "far", "--topic", "news", "--title", "x")
        self.may("operate", "project", "quota", "far", "--sends-per-minute", "600")
        self.may("read", "project", "quota", "far")
        self.may("read", "cluster", "status")
        self.may("read", "key", "list", "far")
        self.may("read", "key", "server")
        self.may("operate", "unsubscribe", "news", device, "--project", "far")
        self.may("operate", "device", "delete", device, "--project", "far", "--yes")
        self.may("admin", "key", "expire", key["id"], "30d")
        self.may("admin", "key", "rotate", key["id"])
        self.may("admin", "key", "revoke", key["id"], "--yes")
        self.may_not("operate", "no node nobody", "cluster", "uncordon", "nobody")
        self.may("operate", "cluster", "uncordon", self.other.name)
        self.may_not("operate", "no node nobody", "cluster", "drain", "nobody")
        return key

    def refusals(self, key):
        """What the roles may not do."""
        for words in (["send", "--project", "far", "--topic", "news"], ["cluster", "uncordon", "x"],
                      ["device", "register", "--project", "far"],
                      ["project", "quota", "far", "--fanouts", "9"]):
            self.may_not("read", "with the role operate, and the token has the role read", *words)
        self.may("read", "project", "push", "status", "far")
        for words in (["key", "revoke", key["id"], "--yes"], ["project", "delete", "far", "--yes"],
                      ["project", "push", "web", "far", "--subject", "mailto:push@example.com"],
                      ["project", "push", "off", "far"],
                      ["key", "rotate", "signing"],
                      ["key", "create", "--kind", "operator", "--role", "admin"],
                      ["key", "create", "far", "--kind", "bearer"]):
            self.may_not("operate", "with the role admin, and the token has the role operate", *words)
        self.may_not(None, "needs an operator's token", "key", "list")

    def logged(self):
        """The audit log has what was done and what was refused, and a revoked token ends."""
        log = json.loads(self.may("read", "audit", "--json", "--limit", "2000"))
        who = next(entry for entry in log if entry["action"] != "refused")
        check(who["who"] == f"operator operateer ({self.tokens['operate']['id']})"
              and who["from"].startswith("127.0.0.1:")
              and who["action"] == "cluster.uncordon", f"the audit log names the operator: {who}")

        def refused():
            return {entry["who"]: entry
                    for entry in self.one.json("audit", "--limit", "2000") if entry["action"] == "refused"}
        unknown = hashlib.sha256(b"tco_nobody").hexdigest()[:16]
        wait(lambda: len(refused()) == 3, "what was refused to be in the audit log")
        for name, begin in ((f"operator reader ({self.tokens['read']['id']})",
                             "POST /v1/projects/far/messages:send: "),
                            (f"operator operateer ({self.tokens['operate']['id']})", "POST /admin/keys/"),
                            ("unknown token", f"GET /admin/keys ({unknown}): This request needs")):
            entry = refused()[name]
            check(entry["from"] == "127.0.0.1"
                  and (begin in entry["what"] or "more in a minute" in entry["what"]),
                  f"what was refused is told of with who and from where: {entry}")
        check(len(log) < 200, "and what is refused again and again is counted")
        self.may("admin", "project", "delete", "far", "--yes")
        self.one.command("key", "revoke", self.tokens["admin"]["id"], "--yes")
        both(self.nodes, lambda node: "needs an operator's token" in node.remote(
            self.tokens["admin"]["key"], "key",
                                                                                "list")[2], True,
             "a revoked one is nobody's")


def audit(nodes, living):
    one, other = nodes
    entries = other.json("audit", "--limit", "2000")
    check(entries == one.json("audit", "--limit", "2000") and len(entries) > 10,
          "both nodes have the same audit log")
    times = [entry["time"] for entry in entries]
    check(times == sorted(times, reverse=True), "with the newest first")
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    check({(entry["who"], entry["from"].split(",")[0]) for entry in entries} == {(user, "admin socket")},
          f"who and from where: {entries[0]}")
    whats = [f"{entry['action']} {entry['what']}" for entry in entries]
    check(whats[-1].startswith("project.create shop: ")
          and f"key.create bearer of shop: {living['id']}" in whats
          and "key.rotate signing, at once" in whats, "and what")
    text = json.dumps(entries)
    check("tck_" not in text and "tcb_" not in text and "PRIVATE" not in text, "no secret is in it")
    check("an operator changed something" in one.log_text(), "the log of the node tells of it as well")


def run(nodes):
    start(nodes)
    one = nodes[0]
    accounts(one, nodes)
    rotation = Rotation(nodes)
    web_push(one, nodes, rotation.app)
    revoked, living = keys(one, nodes)
    check(nodes[1].end(signal.SIGKILL) != 0, "a node is killed")
    start(nodes[1:])
    check((nodes[1].sends(revoked["key"]), nodes[1].sends(living["key"])) == (401, 200),
          "and knows everything when it is back")
    rotation.finish()
    audit(nodes, living)
    operators = Operators(nodes)
    operators.refusals(operators.work())
    operators.logged()
    one.command("project", "delete", "shop", "--yes")
    both(nodes, lambda node: node.sends(living["key"]), 401, "a project's keys go with it")
    check({key["kind"] for key in one.json("key", "list")} == {"operator"}, "and are listed no more")
    check("event: unregistered" in rotation.latter.end(), "and its devices' streams end")


def main():
    with making() as made:
        home = made.database()
        made.nodes = [SecureNode(made.folder, name, home) for name in ("one", "other")]
        run(made.nodes)


if __name__ == "__main__":
    main()
