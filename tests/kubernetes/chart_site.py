"""A release of the chart, its operator, and the client outside."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml
from cluster import CLIENT, CONTROL, GATEWAY, PROGRAMS, STATE, TAG, Failed, wait_for
from harness.helm import CHART, newest_helm

HERE = Path(__file__).resolve().parent
NODES = 3
PROXY_PORT = 30080
STORE_URL = f"http://{GATEWAY}:9000"
IMAGES = {"image": {"repository": "localhost/tarn", "tag": TAG, "pullPolicy": "Never"},
          "etcd": {"image": {"repository": "localhost/etcd", "tag": "1"}}}


def say(text):
    print(f"== {time.strftime('%H:%M:%S')} {text}", flush=True)


def require(condition, text):
    if not condition:
        raise Failed(str(text))


def merge(*values):
    """Values of helm, later ones over earlier ones."""
    merged = {}
    for each in values:
        for key, value in each.items():
            both = isinstance(value, dict) and isinstance(merged.get(key), dict)
            merged[key] = merge(merged[key], value) if both else value
    return merged


class Site:
    """`commands`: those of the document. `chart`: the one that it is installed with."""

    def __init__(self, cluster, commands, namespace, chart=CHART):
        self.cluster, self.commands, self.namespace = cluster, commands, namespace
        self.folder = STATE / "operator" / namespace
        self.folder.mkdir(parents=True, exist_ok=True)
        self.disks = f"/mnt/{namespace}"
        self.use_chart(chart)

    def use_chart(self, chart):
        """The operator's folder has the chart under the path that the document gives it."""
        self.chart = chart
        (self.folder / "helm").unlink(missing_ok=True)
        (self.folder / "helm").symlink_to(chart.parent)

    # --- the operator ---

    def document(self, section, *starts, outside=False, values=None, **names):
        """Runs commands of docs/kubernetes.md: those that begin so, or all of a section; what they print. `values`: of helm,
        over those of the command's files. `names`: of the reader's own, see REPLACEMENTS."""
        place = self.cluster.outside if outside else self.cluster.in_control
        return place("bash", "-euo", "pipefail", "-c", self._script(section, starts, values, names), cwd=self.folder, env=self._environment())

    @contextlib.contextmanager
    def document_meanwhile(self, section, *starts, values=None, **names):
        """The same beside what the block does, which ends when both are done."""
        words = ["nsenter", f"--net=/run/netns/{CONTROL}", "bash", "-euo", "pipefail", "-c", self._script(section, starts, values, names)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.folder, env=self._environment(),
                                   start_new_session=True)
        what = f"{section}: {', '.join(starts)}"
        try:
            try:
                yield
            except Failed as error:  # perhaps because the command had failed
                if process.poll():
                    raise Failed(f"{what}: exit {process.returncode}\n{process.stdout.read()[-3000:]}") from error
                raise
            output = process.communicate(timeout=900)[0]
            require(process.returncode == 0, f"{what}: exit {process.returncode}\n{output[-3000:]}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _script(self, section, starts, values, names):
        names = {"namespace": self.namespace, "proxy_url": f"http://10.250.0.1:{PROXY_PORT}", "store_url": STORE_URL, **names}
        lines = ["trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *self.commands.take("Try it on a laptop", ["tarn() {"], names)]
        for command in self.commands.take(section, starts, names):
            say(f"  $ {command}")
            if values and re.match("helm (install|upgrade) ", command):
                file = self.folder / f"values-{time.monotonic_ns()}.yaml"
                file.write_text(yaml.safe_dump(values))
                command += f" -f {file}"
            lines.append(command)
            if command.endswith("&"):  # a tunnel, which a reader sees to be there
                port = re.search(r"(\d+):\d+ &", command)[1]
                lines.append(f"until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do kill -0 $!; sleep 0.2; done")
        return "\n".join(lines)

    def _environment(self):
        path = f"{PROGRAMS}:{Path(newest_helm()).parent}:{os.environ['PATH']}"
        return os.environ | {"PATH": path, "KUBECONFIG": str(STATE / "config/admin")}

    def copy_profile(self, name, values):
        """The profile in the operator's folder, with machines and directories of the test, and these values."""
        text = (self.chart / f"values-{name}.yaml").read_text()
        text = re.sub(r"\bworker-(\d)", r"n\1", re.sub(r"(?<= )(/mnt|/var/lib)/", f"{self.disks}/", text))
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(merge(yaml.safe_load(text), values)))

    def make_disks(self, number, *names, owner=0):
        """Directories that a machine has below self.disks. `owner`: their user and group."""
        for name in names:
            folder = self.cluster.volume(number, f"{self.namespace}/{name}")
            os.chown(folder, owner, owner)

    def disk(self, machine, path):
        """Where a directory of a machine is in truth."""
        require(path.startswith("/mnt/"), path)
        return STATE / "volumes" / machine / path.removeprefix("/mnt/")

    def helm(self, *words):
        return self.cluster.in_control(newest_helm(), "--kubeconfig", STATE / "config/admin", "-n", self.namespace, *words)

    def values(self):
        """The values of the release, without the chart's own."""
        return yaml.safe_load(self.helm("get", "values", "tarn", "-o", "yaml"))

    def kubectl(self, *words, **options):
        return self.cluster.kubectl("-n", self.namespace, *words, **options)

    def test(self):
        """What the pods of `helm test` printed, which Kubernetes shows a moment after their end."""
        self.document("Try it on a laptop", "helm test")
        pods = ["tarn-test", "tarn-test-gone"] if "test" in self.values() else ["tarn-test"]
        return "\n  ".join(wait_for(lambda: next((log.strip() for log in [self.kubectl("logs", pod)] if "passed" in log), ""), 60, "the test's log")
                           for pod in pods)

    def rolled_out(self):
        for name in ("statefulset/tarn-etcd", "statefulset/tarn-target", "deployment/tarn-proxy"):
            self.kubectl("rollout", "status", name, "--timeout=300s")

    def remove(self):
        """The release, its namespace and its volumes, in the background."""
        self.helm("uninstall", "tarn")
        self.cluster.kubectl("delete", "namespace", self.namespace, "--wait=false")

    # --- tarn ---

    def tarn(self, *words, check=True):
        return self.kubectl("exec", "deployment/tarn-proxy", "-c", "proxy", "--", "tarn", *words, check=check)

    def members(self, role=None):
        nodes = json.loads(self.tarn("node", "ls", "--json"))["nodes"]
        return [node for node in nodes if role in (None, node["role"])]

    def settle(self):
        """All nodes are up, and every object is where it belongs."""
        wait_for(lambda: "settled" not in self.try_to_settle(), 240, "the cluster settles", every=2)

    def try_to_settle(self):
        try:
            self.tarn("cluster", "wait", "--timeout", "20s")
        except Failed as error:
            return f"not settled: {error}"
        return ""

    def state_of(self, node):
        """Such as "up"; empty for one that is not in the map."""
        return next((each["state"] for each in self.members() if each["id"] == node), "")

    def id_of(self, pod):
        return json.loads(self.kubectl("exec", pod, "-c", "target", "--", "cat", "/var/lib/tarn/node.json"))["id"]

    def wait_redundant(self):
        """All copies of the bucket with two are there."""
        wait_for(lambda: re.search(r"^safe .*\)\s+0\s+0\s+0\s", self.tarn("redundancy"), re.MULTILINE), 120, "all copies are there", every=2)

    def wait_proxies(self):
        """Waits until dead proxies are out of the map, and as many as there shall be are up."""
        wait_for(lambda: [node["state"] for node in self.members("proxy")] == ["up"] * NODES, 240, "dead proxies leave the map", every=2)

    def proxies(self):
        return self.kubectl("get", "pods", "-l", "app.kubernetes.io/component=proxy", "-o", "name").split()

    def require_proxy_everywhere(self):
        """The Service has a ready proxy on each machine, for the clients of that one."""
        slices = json.loads(self.kubectl("get", "endpointslices", "-l", "kubernetes.io/service-name=tarn-proxy", "-o", "json"))["items"]
        ready = [endpoint for each in slices for endpoint in each["endpoints"] if endpoint["conditions"]["ready"]]
        near = sorted((endpoint["nodeName"], [node["name"] for node in endpoint.get("hints", {}).get("forNodes", [])]) for endpoint in ready)
        require(near == [(f"n{number}", [f"n{number}"]) for number in range(1, NODES + 1)], f"proxies of machines, and of whose clients: {near}")

    def images_of_tarn(self):
        """The images of the pods of proxies and targets."""
        return set(self.kubectl("get", "pods", "-l", "app.kubernetes.io/component in (proxy,target)", "-o",
                                "jsonpath={.items[*].spec.containers[0].image}").split())

    def machine_of(self, pod):
        return self.kubectl("get", f"pod/{pod}", "-o", "jsonpath={.spec.nodeName}")

    @contextlib.contextmanager
    def kept_away(self, pod):
        """A pod that ends meanwhile does not start again before the end: it belongs to its node, which takes none."""
        node = self.machine_of(pod)
        self.cluster.kubectl("cordon", node)
        try:
            yield
        finally:
            self.cluster.kubectl("uncordon", node)

    @contextlib.contextmanager
    def logs_of_nodes(self):
        """{pod: a file} with what the present pods of targets and proxies log until they end."""
        pods = [f"tarn-target-{number}" for number in range(NODES)] + [proxy.removeprefix("pod/") for proxy in self.proxies()]
        files = {pod: STATE / "log" / pod for pod in pods}
        with contextlib.ExitStack() as followers:
            for pod, file in files.items():
                log = followers.enter_context(open(file, "wb"))
                process = self.cluster.start_kubectl("-n", self.namespace, "logs", "-f", "--tail=1", pod, "-c", pod.split("-")[1], stdout=log)
                followers.callback(process.wait)
                followers.callback(process.kill)
            yield files

    # --- the client outside ---

    def redirected(self, machine=1):
        """The URL to which a proxy sends the client outside that asks by this machine."""
        return self.document("Let clients outside reach targets", "curl", outside=True, proxy_url=f"http://10.250.0.{machine}:{PROXY_PORT}").strip()

    @contextlib.contextmanager
    def load(self, what, tries=2, without=None):
        """Reads and writes while the block runs, by all machines but one. No read may fail so many times."""
        say(what)
        urls = [f"http://10.250.0.{number}:{PROXY_PORT}" for number in range(1, NODES + 1) if f"n{number}" != without]
        client = subprocess.Popen(["nsenter", f"--net=/run/netns/{CLIENT}", sys.executable, HERE / "load.py", "safe", str(tries), *urls],
                                  stdout=subprocess.PIPE, text=True)
        try:
            first = client.stdout.readline()
            require(first == "ready\n", f"the client outside cannot write: {first}")
            begun = time.monotonic()
            yield
            seconds = time.monotonic() - begun
            client.send_signal(signal.SIGTERM)
            result = json.loads(client.communicate(timeout=300)[0])
        finally:
            client.kill()
            client.wait()
        say(f"  {seconds:.0f} s: {result['calls']} calls, {result['stored']} objects stored, {result['retries']} tried again, "
            f"the longest took {result['longest']} s, {len(result['failures'])} failed {tries} times")
        reads = [line for line in result["failures"] if line.startswith("GET")]
        require(not reads, "\n".join(reads[:10]))
        for line in result["failures"][:3]:
            say(f"  not acknowledged: {line}")


def empty(folder):
    """Removes all that lies below a directory of a machine, as an empty file system in its place."""
    require(STATE in folder.parents and folder.is_dir(), folder)
    for old in folder.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
