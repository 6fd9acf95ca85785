"""A WebDataset epoch over shards of a bucket with two copies, by a reader outside of the pod network and one in a pod.

Both run deploy/demo/read_epoch.py, which compares each sample with a manifest and wants each once."""

import json
import random
import subprocess
import sys
import time

from cluster import CLIENT, STATE, Failed, wait_for
from harness.cluster import REPOSITORY

DEMO = REPOSITORY / "deploy" / "demo"
sys.path.insert(0, str(DEMO))
import make_shards  # noqa: E402

BUCKET = "safe"
OUTSIDE = "http://10.250.0.1:30080"
INSIDE = "http://tarn-proxy.store.svc.cluster.local:8080"
SHARDS, SAMPLES, SAMPLE_BYTES = 16, 640, 60_000
SECONDS = 300  # for one epoch
POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reader", "namespace": "store"},
    "spec": {
        "restartPolicy": "Never", "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10002, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "reader", "image": "localhost/reader:1", "imagePullPolicy": "Never", "command": ["sleep", "infinity"],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}],
        "volumes": [{"name": "tmp", "emptyDir": {}}]}}


class Epoch:
    def __init__(self, site):
        self.site = site
        self.folder = STATE / "epoch"
        self._store()
        site.kubectl("apply", "-f", "-", input=json.dumps(POD))
        site.kubectl("wait", "pod/reader", "--for=condition=Ready", "--timeout=120s")
        for file in (DEMO / "read_epoch.py", self.folder / "manifest.json"):
            self._in_pod("sh", "-c", f"cat > /tmp/{file.name}", input=file.read_text())

    def _store(self):
        """Cuts shards, and stores them from outside."""
        files, shards = self.folder / "files", self.folder / "shards"
        for folder in (files, shards):
            folder.mkdir(parents=True)
        rng = random.Random(7)
        for number in range(SAMPLES):
            (files / f"{number:06d}.bin").write_bytes(rng.randbytes(rng.randrange(SAMPLE_BYTES)))
        manifest = make_shards.cut(sorted(map(str, files.iterdir())), shards, SHARDS)
        (self.folder / "manifest.json").write_text(json.dumps(manifest))
        for shard in manifest:
            self.site.cluster.outside("curl", "-fsS", "-L", "-T", shards / shard, "-o", "/dev/null", f"{OUTSIDE}/{BUCKET}/{shard}")

    def _in_pod(self, *words, **options):
        return self.site.kubectl("exec", "-i", "reader", "--", *words, **options)

    def read(self, in_the_middle=None):
        """A line of each reader after one epoch. With `in_the_middle` both stop after a third of the samples, it is called,
        and both go on."""
        number = time.monotonic_ns()
        meetings = {"outside": self.folder / f"meeting-{number}", "in a pod": f"/tmp/meeting-{number}"}
        meetings["outside"].mkdir()
        self._in_pod("mkdir", meetings["in a pod"])
        readers = self._start(meetings if in_the_middle else {})
        try:
            if in_the_middle:
                wait_for(lambda: (meetings["outside"] / "under-way").exists()
                         and self._in_pod("sh", "-c", f"test -e {meetings['in a pod']}/under-way && echo yes", check=False), 120, "both read")
                in_the_middle()
                (meetings["outside"] / "go-on").touch()
                self._in_pod("touch", f"{meetings['in a pod']}/go-on")
            return [f"{where}: {self._result(where, reader)}" for where, reader in readers.items()]
        finally:
            for reader in readers.values():
                reader.kill()
                reader.wait()

    def _start(self, meetings):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        words = {where: ["--meeting", str(folder)] for where, folder in meetings.items()}
        outside = ["nsenter", f"--net=/run/netns/{CLIENT}", sys.executable, DEMO / "read_epoch.py", f"{OUTSIDE}/{BUCKET}",
                   self.folder / "manifest.json", *words.get("outside", [])]
        inside = ["-n", "store", "exec", "reader", "--", "timeout", str(SECONDS), "python3", "/tmp/read_epoch.py", f"{INSIDE}/{BUCKET}",
                  "/tmp/manifest.json", *words.get("in a pod", [])]
        return {"outside": subprocess.Popen([*map(str, outside)], **pipes), "in a pod": self.site.cluster.start_kubectl(*inside, **pipes)}

    @staticmethod
    def _result(where, reader):
        try:
            output = reader.communicate(timeout=SECONDS)[0].strip()
        except subprocess.TimeoutExpired:
            raise Failed(f"the reader {where} did not end") from None
        if reader.returncode or f"{SAMPLES} samples, each once, every byte equal" not in output:
            raise Failed(f"the reader {where} failed ({reader.returncode}): {output[-2000:]}")
        return output.splitlines()[-1]
