"""What kube-score 1.20 calls critical (its README_CHECKS.md of May 2026), without the policy of images, and
what it warns of: no anti-affinity, one replica, no seccomp profile, a service of type NodePort. It also warns
where egress has no policy: a node reaches push services anywhere. The identifiers are those of its page;
kube-score itself is not in Debian. `python kube_score.py FILE` prints what it finds: see deploy.sh."""
import copy
import re
import sys

import yaml

LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
VERSIONS = {"Service": "v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1",
            "PodDisruptionBudget": "policy/v1", "NetworkPolicy": "networking.k8s.io/v1"}
TOPOLOGIES = ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region")
LOW_ID = 10_000


def matches(selector, labels):
    """Whether a selector of labels alone takes the labels; an empty one takes all."""
    return selector is not None and not selector.get("matchExpressions") and all(
        labels.get(name) == value for name, value in selector.get("matchLabels", {}).items())


def of_container(pod, container):
    """Identifiers of a container that is not as it should be."""
    resources = container.get("resources", {})
    amounts = [resources.get(kind, {}) for kind in ("requests", "limits")]
    own = container.get("securityContext")
    context = {**pod.get("securityContext", {}), **(own or {})}
    names = [one["name"] for one in container.get("env", [])]
    ports = container.get("ports", [])
    _, colon, tag = container["image"].rpartition("/")[2].partition(":")
    yield "container-resources", all({"cpu", "memory"} <= set(one) for one in amounts)
    yield "container-ephemeral-storage-request-and-limit", all("ephemeral-storage" in one for one in amounts)
    yield "container-image-tag", colon and tag != "latest"
    yield "container-security-context-readonlyrootfilesystem", own and own.get("readOnlyRootFilesystem")
    yield "container-security-context-privileged", not context.get("privileged")
    yield "container-security-context-user-group-id", all(
        context.get(name, 0) >= LOW_ID for name in ("runAsUser", "runAsGroup"))
    yield "environment-variable-key-duplication", len(names) == len(set(names))
    named = [one["name"] for one in ports if "name" in one]
    yield "container-ports-check", len(named) == len(set(named)) and all(len(one) <= 15 for one in named)
    readiness, liveness = (container.get(name) for name in ("readinessProbe", "livenessProbe"))
    yield "pod-probes", readiness and liveness
    yield "pod-probes-identical", not readiness or readiness["httpGet"] != liveness["httpGet"]


def of_workload(one, kinds):
    """Identifiers of a Deployment or a StatefulSet."""
    spec, template = one["spec"], one["spec"]["template"]
    pod, labels, kind = template["spec"], template["metadata"]["labels"], one["kind"].lower()
    for container in pod.get("initContainers", []) + pod["containers"]:
        yield from of_container(pod, container)
    yield "container-seccomp-profile", "seccompProfile" in pod.get("securityContext", {})
    policies = [policy["spec"] for policy in kinds["NetworkPolicy"]
                if matches(policy["spec"]["podSelector"], labels)]
    yield "pod-networkpolicy", any("Ingress" in policy.get("policyTypes", ["Ingress"]) for policy in policies)
    yield f"{kind}-has-poddisruptionbudget", any(
        matches(budget["spec"]["selector"], labels) for budget in kinds["PodDisruptionBudget"])
    yield f"{kind}-pod-selector-labels-match-template-metadata-labels", matches(spec["selector"], labels)
    affinity = pod.get("affinity", {}).get("podAntiAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", []) + [
        preferred["podAffinityTerm"]
        for preferred in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])]
    yield f"{kind}-has-host-podantiaffinity", any(
        term["topologyKey"] in TOPOLOGIES and matches(term.get("labelSelector"), labels) for term in terms)
    yield "pod-topology-spread-constraints", all(
        matches(spread.get("labelSelector"), labels) and spread["maxSkew"] > 0
        and spread["whenUnsatisfiable"] in ("DoNotSchedule", "ScheduleAnyway") and spread.get("topologyKey")
        for spread in pod.get("topologySpreadConstraints", []))
    yield f"{kind}-replicas", spec["replicas"] > 1
    if kind == "statefulset":
        yield "statefulset-has-servicename", any(
            service["metadata"]["name"] == spec["serviceName"] and service["spec"].get("clusterIP") == "None"
            and matches({"matchLabels": service["spec"]["selector"]}, labels) for service in kinds["Service"])


def found(objects):
    """(identifier, kind, name) of each thing that is not as it should be."""
    kinds = {kind: [one for one in objects if one["kind"] == kind] for kind in VERSIONS}
    workloads = kinds["Deployment"] + kinds["StatefulSet"]
    pods = [one["spec"]["template"]["metadata"]["labels"] for one in workloads]
    wrong = []
    for one in objects:
        kind, spec = one["kind"], one["spec"]
        results = [("stable-version", VERSIONS.get(kind) == one["apiVersion"]),
                   ("label-values", all(LABEL.fullmatch(value)
                                        for value in one["metadata"].get("labels", {}).values()))]
        if one in workloads:
            results += of_workload(one, kinds)
        elif kind == "Service":
            results += [("service-targets-pod", any(matches({"matchLabels": spec["selector"]}, labels)
                                                    for labels in pods)),
                        ("service-type", spec.get("type") != "NodePort")]
        elif kind == "NetworkPolicy":
            results += [("networkpolicy-targets-pod",
                         any(matches(spec["podSelector"], labels) for labels in pods))]
        elif kind == "PodDisruptionBudget":
            results += [("poddisruptionbudget-has-policy", {"minAvailable", "maxUnavailable"} & set(spec))]
        wrong += [(name, kind, one["metadata"]["name"]) for name, good in results if not good]
    return wrong


def damages(objects):
    """(identifiers, objects) with one thing wrong in each: what must be found there."""
    def pod(one):
        return one["spec"]["template"]["spec"]

    def container(one):
        return pod(one)["containers"][0]

    gateway, shard = "Deployment tidecast-gateway", "StatefulSet tidecast-shard"
    for identifier, which, damage in (
            ("container-resources", gateway, lambda one: container(one)["resources"]["limits"].pop("memory")),
            ("container-resources", shard, lambda one: container(one)["resources"]["requests"].pop("cpu")),
            ("container-ephemeral-storage-request-and-limit", shard,
             lambda one: container(one)["resources"]["limits"].pop("ephemeral-storage")),
            ("container-image-tag", gateway, lambda one: container(one).update(image="a:1/tidecast")),
            ("container-security-context-readonlyrootfilesystem", shard,
             lambda one: container(one)["securityContext"].pop("readOnlyRootFilesystem")),
            ("container-security-context-privileged", gateway,
             lambda one: container(one)["securityContext"].update(privileged=True)),
            ("container-security-context-user-group-id", gateway,
             lambda one: pod(one)["securityContext"].update(runAsGroup=1000)),
            ("container-seccomp-profile", gateway,
             lambda one: pod(one)["securityContext"].pop("seccompProfile")),
            ("environment-variable-key-duplication", shard,
             lambda one: container(one)["env"].append({"name": "POD", "value": "x"})),
            ("container-ports-check", gateway, lambda one: container(one)["ports"][0].update(name="http")),
            ("pod-probes", shard, lambda one: container(one).pop("readinessProbe")),
            ("pod-probes-identical", gateway,
             lambda one: container(one)["livenessProbe"]["httpGet"].update(path="/readyz")),
            ("deployment-has-host-podantiaffinity", gateway, lambda one: pod(one).pop("affinity")),
            ("statefulset-has-host-podantiaffinity", shard, lambda one: pod(one).pop("affinity")),
            ("pod-topology-spread-constraints", shard,
             lambda one: pod(one)["topologySpreadConstraints"][0].pop("labelSelector")),
            ("deployment-replicas", gateway, lambda one: one["spec"].update(replicas=1)),
            ("statefulset-has-servicename", shard, lambda one: one["spec"].update(serviceName="tidecast")),
            ("stable-version", "PodDisruptionBudget tidecast-shard",
             lambda one: one.update(apiVersion="policy/v1beta1")),
            ("poddisruptionbudget-has-policy", "PodDisruptionBudget tidecast-gateway",
             lambda one: one["spec"].pop("maxUnavailable")),
            ("statefulset-has-poddisruptionbudget", "PodDisruptionBudget tidecast-shard",
             lambda one: one["spec"]["selector"]["matchLabels"].update(role="gateway")),
            ("service-type", "Service tidecast", lambda one: one["spec"].update(type="NodePort")),
            ("service-targets-pod", "Service tidecast",
             lambda one: one["spec"]["selector"].update(role="edge")),
            ("networkpolicy-targets-pod", "NetworkPolicy tidecast-clients",
             lambda one: one["spec"]["podSelector"]["matchLabels"].update(role="edge")),
            ("pod-networkpolicy", "NetworkPolicy tidecast-peers",
             lambda one: one["spec"]["podSelector"]["matchLabels"].update(role="gateway"))):
        damaged = copy.deepcopy(objects)
        damage(next(one for one in damaged if f"{one['kind']} {one['metadata']['name']}" == which))
        yield identifier, damaged


def self_test(objects):
    """Each damage is found, and nothing else."""
    for identifier, damaged in damages(objects):
        names = {name for name, _, _ in found(damaged)}
        if names != {identifier}:
            raise SystemExit(f"FAIL: a damage of {identifier} is found as {names}")


def main(path):
    with open(path, encoding="utf-8") as file:
        objects = list(yaml.safe_load_all(file))
    wrong = found(objects)
    for name, kind, what in wrong:
        print(f"{name}: {kind} {what}")
    if wrong:
        return 1
    self_test(objects)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
