"""A real Kubernetes on this machine. The control plane has a network namespace, and so has each node, with its
containerd, kubelet and kube-proxy. Everything is built from Go modules and Debian packages, below build/kubernetes."""

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path

from harness.cluster import REPOSITORY
from harness.go_programs import find_go
from harness.waiting import wait_until

HERE = Path(__file__).resolve().parent
WORK = REPOSITORY / "build" / "kubernetes"
PROGRAMS, IMAGES, STATE = WORK / "bin", WORK / "images", WORK / "cluster"
VERSION = "v1.34.4"
TAG, NEXT_TAG = "0.1.0", "0.1.1"  # of images of Tarn, both of these programs
GATEWAY = "10.250.0.254"
SERVICES = "10.96.0.0/16"
API = f"https://{GATEWAY}:6443"
CONTROL, CLIENT = "tk8s", "tk8s-client"  # network namespaces; those of nodes have a number behind the first one
RUN = Path("/run/tarn-kubernetes")
NAMES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl")
NEEDED = ("containerd", "ctr", "runc", "buildah", "debootstrap", "etcd", "gcc", "openssl", "iptables", "conntrack", "ip", "nsenter")


class Failed(Exception):
    """One line for the user."""


def run(*command, check=True, **options):
    result = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    if check and result.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: exit {result.returncode}\n{result.stdout[-3000:]}{result.stderr[-3000:]}")
    return result.stdout


def wait_for(condition, seconds, what, every=0.5):
    try:
        return wait_until(condition, seconds, what, every)
    except AssertionError as late:
        raise Failed(str(late)) from None


# --- what it is made of ----------------------------------------------------------------------------------------------

def check_machine():
    if os.geteuid() != 0:
        raise Failed("needs root, for namespaces, mounts and cgroups")
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        raise Failed(f"there is no {', '.join(missing)}: deploy/install-deps --test --kubernetes")


def build_programs():
    """Eight minutes of processor time and 4 GB the first time."""
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"GOCACHE": str(WORK / "go-objects"), "GOMODCACHE": str(WORK / "go-modules"), "GOTOOLCHAIN": "local",
                                "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false", "CGO_ENABLED": "0"}
    version = f"-X k8s.io/component-base/version.gitVersion={VERSION}"
    for folder in ("kubebox", "dns"):
        sources = "".join((HERE / folder / name).read_text() for name in ("main.go", "go.mod", "go.sum"))
        stamp = PROGRAMS / f"{folder}.sources"
        if stamp.exists() and stamp.read_text() == sources:
            continue
        run(find_go(), "build", "-trimpath", "-ldflags", f"-s -w {version}", "-o", PROGRAMS / folder, ".", cwd=HERE / folder, env=environment)
        stamp.write_text(sources)
    for name in NAMES:
        (PROGRAMS / name).unlink(missing_ok=True)
        (PROGRAMS / name).symlink_to("kubebox")


def buildah(*words):
    return run("buildah", "--root", WORK / "storage", "--runroot", WORK / "storage-run", "--storage-driver", "vfs", *words)


def build_image(name, file, context, *words):
    buildah("bud", "-q", "--isolation", "chroot", "--format", "docker", *words, "-t", f"localhost/{name}", "-f", file, context)


def export_image(name):
    archive = IMAGES / f"{name.partition(':')[0]}.tar"
    archive.unlink(missing_ok=True)
    buildah("push", "-q", f"localhost/{name}", f"docker-archive:{archive}:localhost/{name}")


def build_base():
    """localhost/debian:12, of debootstrap. Returns True if it was not there."""
    context = WORK / "context"
    context.mkdir(parents=True, exist_ok=True)
    if (context / "base.tar").exists():
        return False
    shutil.rmtree(WORK / "base", ignore_errors=True)
    run("debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", WORK / "base")
    run("tar", "-C", WORK / "base", "-cf", context / "base.new", ".")
    shutil.rmtree(WORK / "base")
    (context / "Base").write_text("FROM scratch\nADD base.new /\n")
    build_image("debian:12", context / "Base", context)
    (context / "base.new").rename(context / "base.tar")
    return True


def build_reader(context):
    """A client with WebDataset, whose packages are those of the tests."""
    packages = context / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    packages.mkdir()
    for name in ("webdataset", "braceexpand"):
        source = Path(importlib.util.find_spec(name).origin).parent
        shutil.copytree(source, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    (context / "Reader").write_text(
        "FROM localhost/debian:12\n"
        "RUN apt-get update -q && apt-get install -q -y --no-install-recommends curl python3-numpy python3-yaml\n"
        "COPY packages /opt/packages\nENV PYTHONPATH=/opt/packages\nUSER 10002:10002\n")
    build_image("reader:1", context / "Reader", context)
    export_image("reader:1")


def build_images(programs):
    """Images without a registry, on a Debian of debootstrap; Tarn's with its own Containerfile and compiled programs."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    context = WORK / "context"
    build_base()
    if not (IMAGES / "pause.tar").exists():
        (context / "Etcd").write_text(
            "FROM localhost/debian:12\nRUN apt-get update -q && apt-get install -q -y --no-install-recommends etcd-server\n")
        build_image("etcd:1", context / "Etcd", context)
        export_image("etcd:1")
        run("gcc", "-O2", "-static", "-s", "-o", context / "pause", HERE / "pause.c")
        (context / "Pause").write_text('FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n')
        build_image("pause:1", context / "Pause", context)
        export_image("pause:1")
    if not (IMAGES / "reader.tar").exists():
        build_reader(context)
    for archive in IMAGES.glob("tarn-*.tar"):
        archive.unlink()
    build_tarn_image(TAG, REPOSITORY, programs)
    buildah("tag", f"localhost/tarn:{TAG}", f"localhost/tarn:{NEXT_TAG}")  # another version, for upgrades
    export_tarn_image(NEXT_TAG)


def build_tarn_image(version, tree, programs):
    """localhost/tarn:VERSION, of compiled programs and of the Containerfile of a source tree."""
    # A context of its own: the programs that were built, wherever they are.
    source = WORK / "source"
    shutil.rmtree(source, ignore_errors=True)
    (source / "build/release/bin").mkdir(parents=True)
    (source / "deploy").mkdir()
    shutil.copy(tree / "deploy/install-deps", source / "deploy")
    for name in ("tarn", "tarn-proxy", "tarn-target"):
        shutil.copy(programs / name, source / "build/release/bin")
    build_image(f"tarn:{version}", tree / "deploy/Containerfile", source, "--build-arg", "BASE=localhost/debian:12", "--build-arg", "PROGRAMS=ready")
    export_tarn_image(version)


def export_tarn_image(version):
    (IMAGES / "tarn.tar").unlink(missing_ok=True)
    export_image(f"tarn:{version}")
    (IMAGES / "tarn.tar").rename(IMAGES / f"tarn-{version}.tar")


def namespaces():
    return set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set()


# --- the cluster -------------------------------------------------------------------------------------------------------

class Cluster:
    def __init__(self, nodes, spare=0):
        """`spare`: so many nodes more may be added while it runs."""
        self.nodes, self.all = nodes, nodes + spare

    # --- start ---

    def up(self):
        self.down()
        for folder in ("pki", "log", "pid", "config", "etcd", "volumes"):
            (STATE / folder).mkdir(parents=True)
        (STATE / "namespaces").write_text("\n".join(namespaces()))
        self._make_network()
        self._make_keys()
        for name in ("admin", "manager", "scheduler", "proxy"):
            self._configure(name)
        for number in range(1, self.all + 1):
            self._configure(f"kubelet{number}")
        self._write_tokens()
        self._start_control_plane()
        for number in range(1, self.nodes + 1):
            self._start_node(number)
        self._wait_nodes()
        wait_for(lambda: self.kubectl("-n", "default", "get", "serviceaccount", "default", "-o", "name", check=False), 60, "the first account")

    def _wait_nodes(self):
        wait_for(lambda: self.kubectl("get", "nodes", "--no-headers", check=False).count(" Ready") == self.nodes, 180, "all nodes are ready")

    def add_node(self):
        """Starts a spare node, and returns its number."""
        self.nodes += 1
        self._start_node(self.nodes)
        self._wait_nodes()
        return self.nodes

    def _make_network(self):
        for name in (CONTROL, CLIENT):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", CONTROL, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", CONTROL, "addr", "add", f"{GATEWAY}/24", "dev", "br0")
        run("ip", "-n", CONTROL, "link", "set", "br0", "up")
        run("ip", "netns", "exec", CONTROL, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=0")
        # Outside of the pod network: it reaches machines, and no pods.
        self._attach(CLIENT, "vclient", "10.250.0.200")

    def _attach(self, namespace, name, address):
        run("ip", "-n", CONTROL, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        run("ip", "-n", CONTROL, "link", "set", name, "master", "br0", "up")
        run("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        run("ip", "-n", namespace, "link", "set", "eth0", "up")

    def _make_keys(self):
        pki = STATE / "pki"
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca", "-days", "30", cwd=pki)
        run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "api.key", "-out", "api.csr", "-subj", "/CN=kube-apiserver", cwd=pki)
        (pki / "names").write_text(f"subjectAltName=IP:{GATEWAY},IP:127.0.0.1,IP:10.96.0.1,DNS:kubernetes.default.svc")
        run("openssl", "x509", "-req", "-in", "api.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30",
            "-extfile", "names", "-out", "api.crt", cwd=pki)
        run("openssl", "genrsa", "-out", "accounts.key", "2048", cwd=pki)
        run("openssl", "rsa", "-in", "accounts.key", "-pubout", "-out", "accounts.pub", cwd=pki)
        self.tokens = {}

    USERS = {"admin": ("admin", "system:masters"), "manager": ("system:kube-controller-manager", ""),
             "scheduler": ("system:kube-scheduler", ""), "proxy": ("system:kube-proxy", "")}

    def _configure(self, name):
        user, group = self.USERS.get(name) or (f"system:node:n{name.removeprefix('kubelet')}", "system:nodes")
        self.tokens[user] = (secrets.token_hex(16), group)
        (STATE / "config" / name).write_text(f"""apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "{API}", certificate-authority: {STATE}/pki/ca.crt}}}}]
users: [{{name: user, user: {{token: "{self.tokens[user][0]}"}}}}]
contexts: [{{name: test, context: {{cluster: test, user: user}}}}]
current-context: test
""")

    def _write_tokens(self):
        (STATE / "pki/tokens").write_text("".join(f'{token},{user},{user},"{group}"\n' for user, (token, group) in self.tokens.items()))

    def start_server(self, name, *command):
        """A program beside the API server, which ends with the cluster: its command line has a path below STATE."""
        self._start(f"server-{name}", *command)

    def _start(self, name, *command, namespace=CONTROL):
        with open(STATE / "log" / name, "wb") as log:
            process = subprocess.Popen(["ip", "netns", "exec", namespace, *map(str, command)], stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
        (STATE / "pid" / name).write_text(str(process.pid))

    def _start_control_plane(self):
        pki, config = STATE / "pki", STATE / "config"
        (STATE / "Corefile").write_text(f""".:53 {{
  bind {GATEWAY}
  errors
  health {GATEWAY}:8181
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {config}/admin test
    pods insecure
    ttl 5
  }}
}}
""")
        self._start("etcd", "etcd", "--data-dir", STATE / "etcd/data", "--listen-client-urls", "http://127.0.0.1:2379",
                    "--advertise-client-urls", "http://127.0.0.1:2379", "--listen-peer-urls", "http://127.0.0.1:2380",
                    "--initial-advertise-peer-urls", "http://127.0.0.1:2380", "--initial-cluster", "default=http://127.0.0.1:2380")
        self._start("apiserver", PROGRAMS / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", f"--bind-address={GATEWAY}",
                    f"--advertise-address={GATEWAY}", f"--tls-cert-file={pki}/api.crt", f"--tls-private-key-file={pki}/api.key",
                    f"--client-ca-file={pki}/ca.crt", f"--token-auth-file={pki}/tokens", "--authorization-mode=Node,RBAC",
                    f"--service-cluster-ip-range={SERVICES}", "--service-account-issuer=https://kubernetes.default.svc",
                    f"--service-account-signing-key-file={pki}/accounts.key", f"--service-account-key-file={pki}/accounts.pub",
                    "--kubelet-preferred-address-types=InternalIP", "--profiling=false")
        wait_for(lambda: self.kubectl("get", "--raw", "/readyz", check=False) == "ok", 180, "the API server is ready")
        self._start("manager", PROGRAMS / "kube-controller-manager", f"--kubeconfig={config}/manager",
                    f"--service-account-private-key-file={pki}/accounts.key", f"--root-ca-file={pki}/ca.crt",
                    "--use-service-account-credentials", "--bind-address=127.0.0.1", "--leader-elect=false", "--node-monitor-grace-period=12s")
        self._start("scheduler", PROGRAMS / "kube-scheduler", f"--kubeconfig={config}/scheduler", "--bind-address=127.0.0.1", "--leader-elect=false")
        self._start("dns", PROGRAMS / "dns", "-conf", STATE / "Corefile")

    def _start_node(self, number):
        namespace = f"{CONTROL}{number}"
        run("ip", "netns", "add", namespace)
        run("ip", "-n", namespace, "link", "set", "lo", "up")
        self._attach(namespace, f"v{number}", f"10.250.0.{number}")
        run("ip", "-n", namespace, "route", "add", "default", "via", GATEWAY)
        run("ip", "netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=1")
        run("ip", "-n", CONTROL, "route", "add", f"10.244.{number}.0/24", "via", f"10.250.0.{number}")
        for other in range(1, self.all + 1):
            if other != number:
                run("ip", "-n", namespace, "route", "add", f"10.244.{other}.0/24", "via", f"10.250.0.{other}")
        # nsenter, not `ip netns exec`, which mounts /sys anew and hides the cgroups.
        with open(STATE / "log" / f"node{number}", "wb") as log:
            process = subprocess.Popen(["nsenter", f"--net=/run/netns/{namespace}", "unshare", "-m", HERE / "node.sh", str(number), STATE, PROGRAMS,
                                        IMAGES, GATEWAY], stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        (STATE / "pid" / f"node{number}").write_text(str(process.pid))

    # --- end ---

    def down(self):
        """Ends what `up` started, by recorded ids."""
        def end(pattern, number=signal.SIGTERM):
            for file in STATE.glob(pattern):
                with contextlib.suppress(OSError, ValueError):
                    pid = int(file.read_text())
                    if str(STATE).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                        os.kill(pid, number)

        for pattern in ("pid/manager", "pid/scheduler", "pid/dns", "pid/server-*", "n*/pid/kubelet", "n*/pid/kube-proxy"):
            end(pattern)
        time.sleep(1)
        for socket in RUN.glob("n*/containerd.sock"):
            ctr = ("ctr", "-a", socket, "-n", "k8s.io")
            for verb, pause in ((("task", "kill", "-s", "KILL"), 1), (("task", "rm", "-f"), 0), (("container", "rm"), 0)):
                kind = verb[0]
                for name in run(*ctr, kind, "ls", "-q", check=False).split():
                    run(*ctr, *verb, name, check=False)
                time.sleep(pause)
        end("n*/pid/containerd")
        for pattern in ("pid/apiserver", "pid/etcd", "pid/node*"):
            end(pattern, signal.SIGKILL)
        time.sleep(1)
        # Those of pods have names of chance: all of containerd's that came after the start.
        before = (STATE / "namespaces").read_text().split() if (STATE / "namespaces").exists() else namespaces()
        for name in namespaces() - set(before):
            if name.startswith((CONTROL, "cni-")):
                run("ip", "netns", "del", name, check=False)
        for group in Path("/sys/fs/cgroup").glob("*/tarn-k8s-*"):
            run("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";", check=False)
        if STATE.exists():
            shutil.rmtree(STATE)
        shutil.rmtree(RUN, ignore_errors=True)

    # --- use ---

    def in_control(self, *command, check=True, timeout=900, **options):
        """Runs a command where the API server is reached."""
        return run("nsenter", f"--net=/run/netns/{CONTROL}", *command, check=check, timeout=timeout, **options)

    def start_kubectl(self, *words, **options):
        """A kubectl that goes on; its caller ends it."""
        command = ("nsenter", f"--net=/run/netns/{CONTROL}", PROGRAMS / "kubectl", "--kubeconfig", STATE / "config/admin", *words)
        return subprocess.Popen([*map(str, command)], **options)

    def kubectl(self, *words, check=True, **options):
        return self.in_control(PROGRAMS / "kubectl", "--kubeconfig", STATE / "config/admin", *words, check=check, **options)

    def outside(self, *command, check=True, **options):
        """Runs a command on a machine that is outside of the pod network."""
        return run("nsenter", f"--net=/run/netns/{CLIENT}", *command, check=check, **options)

    def cut(self, number):
        run("ip", "-n", CONTROL, "link", "set", f"v{number}", "down")

    def join(self, number):
        run("ip", "-n", CONTROL, "link", "set", f"v{number}", "up")

    def volume(self, number, name):
        """A directory of a node, which has it below /mnt."""
        folder = STATE / "volumes" / f"n{number}" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder
