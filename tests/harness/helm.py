"""Helm, built from its Go module, and what it renders of the chart."""

import os
import subprocess

import yaml

from harness.cluster import REPOSITORY
from harness.go_programs import go_program
from harness.waiting import guarded

CHART = REPOSITORY / "helm" / "tarn"
PROFILES = sorted(path.stem.removeprefix("values-") for path in CHART.glob("values-*.yaml"))
NEWEST_KUBERNETES = "1.37.0"


def find_helm():
    """Path of helm in the build folder."""
    return go_program("helm")


class Helm:
    def __init__(self, home):
        self.program = find_helm()
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
        return [each for each in yaml.safe_load_all(self.text(*words, **options)) if each]


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
