"""Helm, and what it renders of the chart."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from harness.cluster import REPOSITORY
from harness.go_programs import go_program
from harness.waiting import guarded

CHART = REPOSITORY / "helm" / "tarn"
PROFILES = sorted(path.stem.removeprefix("values-") for path in CHART.glob("values-*.yaml"))
NEWEST_KUBERNETES = "1.37.0"


def newest_helm():
    """The path of the Helm that go_programs.py names. The first call on a machine builds it, in two minutes."""
    return go_program("helm")


class Helm:
    """Runs a Helm: the one of tests/requirements.txt, or another."""

    def __init__(self, home, program=Path(sys.executable).parent / "helm"):
        self.program = program
        # No file of the user's own, and no Kubernetes cluster.
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": "/dev/null"}

    def run(self, *words):
        return subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, env=self.environment,
                              timeout=guarded(60))

    def template(self, *words, profile=None, release="tarn", namespace="demo", kubernetes=NEWEST_KUBERNETES):
        """The finished process of `helm template`, with the values of a profile, or the defaults."""
        files = ["-f", CHART / f"values-{profile}.yaml"] if profile else []
        return self.run("template", release, CHART, "-n", namespace, "--kube-version", kubernetes, *files, *words)

    def text(self, *words, **options):
        result = self.template(*words, **options)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def objects(self, *words, **options):
        """All objects that the chart renders, also those of hooks and of the test."""
        return [each for each in yaml.load_all(self.text(*words, **options), yaml.CSafeLoader) if each]


def name_of(each):
    return f"{each['kind']}/{each['metadata']['name']}"


def find(objects, kind, ending):
    """The one object of a kind whose name ends so."""
    (found,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"].endswith(ending)]
    return found


def pod_of(each):
    """(metadata, spec) of the pods that an object makes, or None."""
    if each["kind"] == "Pod":
        return each["metadata"], each["spec"]
    if each["kind"] in ("Deployment", "StatefulSet", "Job"):
        template = each["spec"]["template"]
        return template["metadata"], template["spec"]
    return None


def containers_of(spec):
    return [*spec.get("initContainers", []), *spec["containers"]]


def violations(metadata, spec):
    """Rules of Pod Security "restricted", and the chart's own, that a pod breaks."""
    found = [f"{key} is set" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    security = spec.get("securityContext", {})
    if security.get("runAsNonRoot") is not True or security.get("runAsUser", 0) < 10000:
        found.append("may be root, or a user of the machine")
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        found.append("no seccomp profile")
    if spec.get("automountServiceAccountToken") is not False:
        found.append("has a token of the API")
    if spec.get("enableServiceLinks") is not False:
        found.append("Services become variables, some of which the programs read")
    found += [f"volume {volume['name']} is of the machine" for volume in spec.get("volumes", []) if "hostPath" in volume]
    for container in containers_of(spec):
        its = container.get("securityContext", {})
        wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
        found += [f"{container['name']}: {key} is {its.get(key)}" for key, value in wanted.items() if its.get(key) != value]
        found += [f"{container['name']}: {key}" for key in its if key not in wanted]
        found += [f"{container['name']}: port {port['hostPort']} of the machine" for port in container.get("ports", []) if "hostPort" in port]
        if not container.get("resources", {}).get("requests"):
            found.append(f"{container['name']}: requests nothing")
        if not re.fullmatch(r"\S+:\S+", container["image"]):
            found.append(f"{container['name']}: image without a tag")
    return found


def check_restricted(objects, allowed=()):
    pods = [(each, pod_of(each)) for each in objects if pod_of(each)]
    assert len(pods) >= 3
    broken = {f"{name_of(each)}: {rule}" for each, pod in pods for rule in violations(*pod)}
    assert broken == set(allowed)
