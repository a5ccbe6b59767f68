"""Projects with keys. The command line makes them once for a cluster."""
import json
import os

from topology import MACHINES

# A token of the right form that no server made: no key deciphers it.
TOKEN_OF_NOBODY = "c" + "A" * 21 + ":" + "b" * 60


class Project:
    def __init__(self, name, cluster, arguments=()):
        self.id = name
        gateway = cluster.gateways[0]

        def run(*words):
            done = gateway.run(*words)
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
            return done.stdout
        run("project", "create", name, "--service-account", os.path.join(MACHINES.state, f"{name}.json"))
        if arguments:
            run("project", "quota", name, *arguments)
        self.number = int(next(one["projectNumber"] for one in json.loads(run("project", "list", "--json"))
                               if one["project"] == name))
        self.bearer = json.loads(run("project", "key", "create", name, "--kind", "bearer", "--json"))["key"]
        self.device_key = json.loads(run("project", "key", "create", name, "--kind", "device",
                                         "--json"))["key"]

    def wait_known(self, cluster):
        """Waits until each gateway takes the project's keys: the other nodes learn of them with their next
        look at the database. The device key is the newest."""
        def is_known():
            return all(gateway.call("POST", f"/v1/projects/{self.id}/registrations", {},
                                    {"x-goog-api-key": self.device_key})[0] == 200
                       for gateway in cluster.gateways)
        cluster.wait(is_known, f"the gateways to know {self.id}", 30)
