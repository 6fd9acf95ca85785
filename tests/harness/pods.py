"""Rendered pods as processes of this machine: no Kubernetes, but their own commands, options, variables, files and probes.

Each pod has an address of its own in 127.0.0.0/8, so that all may use the ports that the chart gives them. Names of pods
and Services are replaced by these addresses, paths of mounts by directories of the test."""

import base64
import os
import random
import re
import signal
import subprocess
import urllib.error
import urllib.request

from harness.cluster import PROGRAMS
from harness.helm import containers_of, find
from harness.waiting import guarded, wait_until

FIRST_POD = 2  # the last number of its address


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


class Pod:
    def __init__(self, site, name, spec, address, labels):
        self.site, self.name, self.spec, self.address, self.labels = site, name, spec, address, labels
        self.directory = site.directory / name
        self.log = site.directory / f"{name}.log"
        self.process = None
        self.volumes = {}
        for volume in spec.get("volumes", []):
            self._make_volume(volume)

    def _make_volume(self, volume):
        folder = self.directory / volume["name"]
        folder.mkdir(parents=True)
        sources = volume.get("projected", {}).get("sources", []) or [volume]
        for source in sources:
            if "configMap" in source:
                for file, text in find(self.site.objects, "ConfigMap", source["configMap"]["name"])["data"].items():
                    (folder / file).write_text(text)
            if "secret" in source:
                data = find(self.site.objects, "Secret", source["secret"]["name"])["data"]
                for item in source["secret"]["items"]:
                    (folder / item["path"]).write_bytes(base64.b64decode(data[item["key"]]))
                    (folder / item["path"]).chmod(0o440)

    def _path(self, container, text):
        """`text` with the mounts of the container replaced by directories."""
        mounts = {mount["mountPath"]: self.directory / mount["name"] for mount in container.get("volumeMounts", [])}
        for folder in mounts.values():  # claims have no entry among the volumes
            folder.mkdir(parents=True, exist_ok=True)
        if not mounts:
            return text
        any_mount = "|".join(re.escape(path) for path in sorted(mounts, key=len, reverse=True))
        return re.sub(rf"(?<![\w/.])({any_mount})(?![\w-])", lambda match: str(mounts[match[1]]), text)

    def _environment(self, container):
        fields = {"metadata.name": self.name, "metadata.namespace": self.site.namespace, "status.hostIP": self.address,
                  "spec.nodeName": "node-" + self.name, "status.podIP": self.address}
        variables = {}
        for variable in container.get("env", []):
            if "value" in variable:
                variables[variable["name"]] = self.site.with_addresses(variable["value"], self.address)
                continue
            path = variable["valueFrom"]["fieldRef"]["fieldPath"]
            label = re.fullmatch(r"metadata\.labels\['(.*)'\]", path)
            variables[variable["name"]] = self.labels[label[1]] if label else fields[path]
        return variables

    def command(self, container, words=None):
        """(words, environment) of a container, or of a command in it, as a kubelet has them."""
        variables = self._environment(container)

        def expand(word):
            word = re.sub(r"\$\((\w+)\)", lambda match: variables.get(match[1], match[0]), word)
            return self._path(container, self.site.with_addresses(word, self.address))

        temporary = self.directory / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        environment = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "TMPDIR": str(temporary), **self.site.environment, **variables}
        return [expand(word) for word in words or [*container["command"], *container.get("args", [])]], environment

    def run(self, container, words=None):
        """Runs a container that ends, or a command in one."""
        command, environment = self.command(container, words)
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=guarded(60))

    def run_all(self):
        """The results of the containers of a pod that ends, one after the other."""
        return [self.run(container) for container in containers_of(self.spec)]

    @property
    def main(self):
        return self.spec["containers"][0]

    def start(self):
        for container in self.spec.get("initContainers", []):
            result = self.run(container)
            assert result.returncode == 0, result
        command, environment = self.command(self.main)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def probe(self, kind):
        """True if the probe succeeds; one of a TCP port is not asked."""
        probe = self.main[kind]
        if "httpGet" not in probe:
            return True
        ports = {port["name"]: port["containerPort"] for port in self.main["ports"]}
        return answers(f"http://{self.address}:{ports[probe['httpGet']['port']]}{probe['httpGet']['path']}")

    def is_ready(self):
        assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}:\n{self.log.read_text()[-3000:]}"
        return all(self.probe(kind) for kind in ("startupProbe", "livenessProbe", "readinessProbe"))

    def pre_stop(self):
        return self.run(self.main, self.main["lifecycle"]["preStop"]["exec"]["command"])

    def stop(self, number=signal.SIGTERM):
        """Exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=guarded(60))


class Site:
    """All pods of a release."""

    def __init__(self, objects, directory, namespace="demo", domain="cluster.local", environment=None):
        self.objects, self.directory, self.namespace, self.domain = objects, directory, namespace, domain
        self.environment = environment or {}
        self.network = f"127.{random.SystemRandom().randint(1, 254)}.{random.SystemRandom().randint(0, 254)}"
        self.pods, self.names = [], {}

    def make(self, each, count, first=0):
        """`count` pods of an object, known by the names of a StatefulSet's pods, numbered from `first`."""
        template = each["spec"]["template"]
        name = each["metadata"]["name"]
        service = each["spec"].get("serviceName")
        for index in range(first, first + count):
            pod, address = f"{name}-{index}", f"{self.network}.{FIRST_POD + len(self.pods)}"
            labels = template["metadata"]["labels"] | {"apps.kubernetes.io/pod-index": str(index)}
            if service:
                self.names[f"{pod}.{service}.{self.namespace}.svc.{self.domain}"] = address
            self.pods.append(Pod(self, pod, template["spec"], address, labels))
        return self.pods[-count:]

    def single(self, each):
        """The pod of a Job, or one of its own."""
        spec = each["spec"]["template"]["spec"] if "template" in each["spec"] else each["spec"]
        self.pods.append(Pod(self, each["metadata"]["name"], spec, f"{self.network}.{FIRST_POD + len(self.pods)}", {}))
        return self.pods[-1]

    def serve(self, service, pod):
        """A Service that has one pod."""
        self.names[f"{service['metadata']['name']}.{self.namespace}.svc.{self.domain}"] = pod.address

    def with_addresses(self, text, own):
        for name, address in self.names.items():
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", address, text)
        assert f".svc.{self.domain}" not in text, f"no pod has the name in {text}"
        return text.replace("0.0.0.0:", f"{own}:").replace("127.0.0.1:", f"{own}:")

    def start(self, pods):
        for pod in pods:
            pod.start()
        for pod in pods:
            wait_until(pod.is_ready, 30, f"{pod.name} is ready")

    def kill(self):
        for pod in self.pods:
            if pod.process:
                pod.stop(signal.SIGKILL)
