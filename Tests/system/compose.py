"""Compose files, as far as they are run without a container engine: their databases, shards and gateways."""
import os
import re
import sys

import yaml

PASSWORD = "known-to-everybody"
# Where gateways of the compose files end TLS.
EDGE = "0.0.0.0:8443"


def fill_in(value):
    """Replaces a compose file's ${NAME}, ${NAME:-default} and ${NAME:?complaint} by values of the
    environment."""
    if isinstance(value, dict):
        return {key: fill_in(one) for key, one in value.items()}
    if isinstance(value, list):
        return [fill_in(one) for one in value]
    if not isinstance(value, str):
        return value

    def word(match):
        name, how, rest = match.group(1), match.group(2), match.group(3)
        if match.group(0) == "$$":
            return "$"
        if not os.environ.get(name) and how == ":?":
            sys.exit(f"{name} {rest}")
        return os.environ.get(name) or (rest if how == ":-" else "")
    return re.sub(r"\$\$|\$\{(\w+)(?:(:[-?])([^}]*))?\}", word, value)


def without_setup(name, service, database):
    """A service without the files that the service `setup` makes in containers: the database has a well-known
    password, the nodes' own keys are not sealed, and nodes speak without TLS, which stays within the
    namespaces. `auto` becomes the node's own name, and a gateway gets no public URL and no TLS: no balancer
    runs here."""
    service = dict(service)
    environment = {key: str(value) for key, value in service.get("environment", {}).items()}
    if "POSTGRES_PASSWORD_FILE" in environment:
        del environment["POSTGRES_PASSWORD_FILE"]
        environment["POSTGRES_PASSWORD"] = PASSWORD
    environment.pop("TIDECAST_SECRETS_KEY_FILE", None)
    words, command = iter(service.get("command", [])), []
    for word in words:
        if word == "--engine-file":
            next(words)
            environment["TIDECAST_ENGINE"] = f"postgres://tidecast:{PASSWORD}@{database}"
        elif word in ("--peer-cert", "--peer-key", "--peer-ca"):
            next(words)
            command += ["--insecure-peers"] if word == "--peer-ca" else []
        elif word == "--public-url":
            next(words)
        elif word in ("--listen-tls", "--cert", "--key"):
            # Those of a test's own stay.
            value = next(words)
            command += [] if value == EDGE or value.startswith("/secrets/") else [word, value]
        elif word == "--node":
            command += [word, next(words).replace("auto", name)]
        elif word == "--peer":
            command += [word, next(words).replace("auto:", f"{name}:")]
        else:
            command.append(word)
    # On the command line, where every user of this module looks for the data folder.
    if "TIDECAST_DATA" in environment:
        command += ["--data", environment.pop("TIDECAST_DATA")]
    return {**service, "environment": environment, "command": command}


def read_services(path, folder_of, volume_of):
    """The databases, shards and gateways of the file, each replica as a service of its own; without a
    balancer and the services that run once. `places` has the absolute path on this machine of each file or
    folder of the container, and `copies` the source of each file that is copied there. `folder_of` and
    `volume_of` give a service's folder and its volume's by its name."""
    with open(path, encoding="utf-8") as file:
        written = fill_in(yaml.safe_load(file)["services"])
    database, found = written["setup"]["environment"]["DATABASE"], {}
    for name, service in written.items():
        if service.get("restart") == "no" or name == "balancer":
            continue
        count = service.get("deploy", {}).get("replicas")
        for one in [name] if count is None else [f"{name}-{number}" for number in range(1, int(count) + 1)]:
            found[one] = without_setup(one, service, database)
    for name, service in found.items():
        places = {target.split(":")[0]: folder_of(name)
                  for target in service.get("tmpfs", []) if not is_database(service)}
        copies = {}
        for source, target in (volume.split(":")[:2] for volume in service.get("volumes", [])):
            if source == "secrets":
                continue
            is_file = source.startswith(".")
            places[target] = (f"{folder_of(name)}-{os.path.basename(source)}" if is_file
                              else volume_of(name))
            if is_file:
                copies[places[target]] = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(path)),
                                                                       source))
        service["places"], service["copies"] = places, copies
    return found


def is_database(service):
    """Whether the service is a PostgreSQL server."""
    return service["image"].startswith("postgres")
