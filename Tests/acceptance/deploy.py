"""Compares what the files of deploy/ name with what the binary, this machine and the repository have: see
deploy.sh."""
import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY, URL = sys.argv[1:3]
# What `systemd-analyze security` may find.
EXPOSURE_MAX = 1.5
# A node that stops hands its partitions over within 8 s, finishes requests within 10 s (Node.stop), and
# closes its admin socket.
SECONDS_TO_END = 19


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def text(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def check(condition, what):
    if not condition:
        sys.exit(f"FAIL: {what}")


FLAGS = set(re.findall(r"--[a-z-]+", output(BINARY, "server", "--help")))
SETTINGS = set(re.findall(r"TIDECAST_[A-Z_]+", text("docs/configuration.md")))


def check_command(words, where):
    check(words[0] == "server", f"{where} runs {words[0]}")
    unknown = {word for word in words if word.startswith("--")} - FLAGS
    check(not unknown, f"{where}: the server does not know {unknown}")


def check_environment(names, where):
    unknown = {name for name in names if name.startswith("TIDECAST_")} - SETTINGS
    check(not unknown, f"{where}: there is no setting {unknown}")


def answers(path):
    with urllib.request.urlopen(URL + path, timeout=5) as answer:
        return answer.status == 200


def dockerfile():
    lines = text("deploy/Dockerfile").replace("\\\n", " ").splitlines()
    words = {line.split()[0]: line.partition(" ")[2] for line in lines if line and not line.startswith("#")}
    check_command(json.loads(words["CMD"]), "Dockerfile")
    check(json.loads(words["ENTRYPOINT"]) == ["/usr/bin/tidecast"], "Dockerfile: another entry point")
    check(words["USER"].strip() == "10001:10001", f"Dockerfile: it runs as {words['USER']}")
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                check(os.path.exists(os.path.join(ROOT, source)), f"Dockerfile: there is no {source}")
    for script in ("tools/install-packages", "tools/build"):
        check(any(line.startswith("RUN ") and script in line for line in lines)
              and script in text("tools/start"),
              f"Dockerfile and tools/start do not both run {script}")
    # The image's health check must succeed at this test's server, and fail at a port where nothing listens.
    health = json.loads(words["HEALTHCHECK"].split(" CMD ")[1])
    for port, good in ((URL.rpartition(":")[2], True), ("1", False)):
        command = [word.replace("8787", port) for word in health]
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=5, check=False)
        check((done.returncode == 0) == good,
              f"Dockerfile: HEALTHCHECK ended with {done.returncode}: {done.stderr}")
    # The second stage must install exactly the packages of the libraries that the binary needs. Libraries
    # that the image's binary has linked statically, and packages that every Debian has, do not count.
    asked = re.findall(r"NEEDED.*\[(.+)\]", output("readelf", "-d", BINARY))
    libraries = [name for name in asked
                 if not re.match(r"lib(_?[sS]wift|_?Foundation|dispatch|BlocksRuntime)|ld-linux", name)]
    folders = [folder for folder in ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu",
                                     "/usr/lib/aarch64-linux-gnu",
                                     "/lib/aarch64-linux-gnu") if os.path.isdir(folder)]
    needed = set()
    for name in libraries:
        paths = [os.path.join(folder, name) for folder in folders]
        found = subprocess.run(["dpkg", "-S", *paths], capture_output=True, text=True, check=False).stdout
        check(found, f"no package has {name}")
        needed.add(found.split(":")[0])
    needed -= {"libc6", "libgcc-s1"}
    run = next(line for line in reversed(lines) if line.startswith("RUN ") and "apt-get install" in line)
    asked = shlex.split(run.split("install", 1)[1].split(">")[0].split("&&")[0])
    installed = {word for word in asked if not word.startswith("-")} - {"ca-certificates"}
    check(needed == installed, f"Dockerfile: missing {needed - installed}, too much {installed - needed}")


def check_patience(fields, where):
    """A node starts beside its database: the engine must not take it for unhealthy before the database."""
    if not fields["image"].startswith("postgres:"):
        return
    health = {name: int(str(fields["healthcheck"][name]).removesuffix("s"))
              for name in ("start_period", "interval", "retries")}
    node = int(re.search(r"--start-period=(\d+)s", text("deploy/Dockerfile")).group(1))
    longest = health["start_period"] + health["interval"] * health["retries"]
    check(node > longest, f"{where}: it may take {longest} s to be healthy, and a node has {node} s")


def compose(name):
    found = yaml.safe_load(text(name))
    check(found["name"].startswith("tidecast"), f"{name}: its project has no name of its own")
    for service, fields in found["services"].items():
        where = f"{name}, {service}"
        if fields["image"].startswith("tidecast:") and "entrypoint" not in fields:
            check_environment(fields.get("environment", {}), where)
            check_command(fields["command"], where)
            check(int(fields["stop_grace_period"].removesuffix("s")) > SECONDS_TO_END,
                  f"{where}: no time to end in")
        check(fields["read_only"], f"{where}: its root can be written to")
        check(fields["cap_drop"] == ["ALL"] and fields["security_opt"] == ["no-new-privileges:true"],
              f"{where}: it has rights that it does not need")
        check("max-size" in fields["logging"]["options"], f"{where}: its log has no limit")
        check("mem_limit" in fields or service == "setup", f"{where}: its memory has no limit")
        for port in fields.get("ports", []):
            check(port.startswith(("127.0.0.1:", "${TIDECAST_BIND:-127.0.0.1}:")),
                  f"{where}: {port} is open to everybody")
        for target in fields.get("tmpfs", []):
            check("mode=" in target, f"{where}: {target} is root's when a container starts again")
        for volume in fields.get("volumes", []):
            source = volume.split(":")[0]
            check(not source.startswith(".") or os.access(os.path.join(ROOT, "deploy", source), os.X_OK),
                  f"{where}: there is no {source} to run")
        check_patience(fields, where)
    built = [fields["build"]["target"] for fields in found["services"].values() if "build" in fields]
    check(len(built) == len(set(built)), f"{name}: an image is built more than once")


def kubernetes():
    kinds = []
    for one in yaml.safe_load_all(text("deploy/kubernetes.yaml")):
        kinds.append(one["kind"])
        if one["kind"] == "NetworkPolicy":
            rules = one["spec"]["ingress"]
            for port in [port["port"] for rule in rules if "from" not in rule for port in rule["ports"]]:
                check(port == 8443, f"kubernetes.yaml: anybody reaches port {port}")
        template = one["spec"].get("template")
        if not template:
            continue
        where, spec = f"kubernetes.yaml, {one['metadata']['name']}", template["spec"]
        check(spec["terminationGracePeriodSeconds"] > SECONDS_TO_END, f"{where}: no time to end in")
        container = spec["containers"][0]
        check_command(container["args"], where)
        names = [entry["name"] for entry in container["env"]]
        check_environment(names, where)
        for entry in container["env"]:
            check("/0" not in entry.get("value", ""), f"{where}: {entry['name']} is the whole world")
            secret = entry.get("valueFrom", {}).get("secretKeyRef", {})
            check(not secret.get("optional"), f"{where}: begins without the secret {entry['name']}")
        check(spec["automountServiceAccountToken"] is False, f"{where}: a token of Kubernetes' own")
        gossip = [port for port in container["ports"] if port.get("protocol") == "UDP"]
        check([port["containerPort"] for port in gossip] == [8788], f"{where}: no port for gossip")
        variables = set(re.findall(r"\$\((\w+)\)", " ".join(container["args"])))
        check(variables <= set(names), f"{where}: {variables - set(names)} is not set")
        check(re.search(r":[0-9]+[.][0-9]+[.][0-9]+$", container["image"]),
              f"{where}: an image without a version")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            check(answers(container[probe]["httpGet"]["path"]), f"{where}: {probe}")
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        check(mounts == {volume["name"] for volume in spec["volumes"]}, f"{where}: volumes and mounts differ")
        check(spec["securityContext"]["runAsNonRoot"], f"{where}: it may be root")
    check(sorted(kinds) == ["Deployment", "NetworkPolicy", "NetworkPolicy", "PodDisruptionBudget",
                            "PodDisruptionBudget", "Service", "Service", "StatefulSet"],
          f"kubernetes.yaml has {kinds}")


def unit():
    fields = dict(line.split("=", 1) for line in text("deploy/tidecast.service").splitlines()
                  if "=" in line and not line.startswith("#"))
    check_command(shlex.split(fields["ExecStart"])[1:], "tidecast.service")
    check(int(fields["TimeoutStopSec"]) > SECONDS_TO_END, "tidecast.service: no time to end in")
    told = subprocess.run(["systemd-analyze", "security", "--offline=true", "deploy/tidecast.service"],
                          capture_output=True, text=True, check=False).stdout
    level = re.search(r"exposure level for \S+: ([0-9.]+)", told)
    check(level and float(level[1]) <= EXPOSURE_MAX, f"tidecast.service: {level and level[0]}")


dockerfile()
for file in ("compose.yaml", "compose.replicated.yaml", "compose.single.yaml", "compose.dev.yaml"):
    compose(f"deploy/{file}")
kubernetes()
unit()
print("ok: flags, settings, paths, libraries and times are there")
