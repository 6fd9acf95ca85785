"""A cluster of real programs, driven through deploy/local-cluster as a user would drive it."""

import importlib.machinery
import importlib.util
import io
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse
from pathlib import Path

from harness import client
from harness.waiting import IN_GATE, scaled, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
LOCAL_CLUSTER = REPOSITORY / "deploy" / "local-cluster"
PROGRAMS = Path(os.environ.get("TARN_BIN") or REPOSITORY / "build" / "release" / "test")

# Terms of leases: the default, one for tests that wait for leases to end, one for tests that look before they do. In the gate a
# node of a busy machine may be held up for a second, and must not lose its lease for that.
LEASE_SECONDS = 4
SHORT_LEASE_SECONDS = 3 if IN_GATE else 1
SHORT_LEASES = {"lease.term": f"{SHORT_LEASE_SECONDS}s"}
LONG_LEASES = {"lease.term": "60s"}
# For tests that load the machine and end no node: however slow it is, no target counts as down.
NEVER_DOWN = LONG_LEASES | {"suspect.after": "60s"}
# Most tests have no clients left when they end a target. In the gate, a target that a busy machine holds up is not taken
# for dead so soon: tests of that set suspect.after themselves.
DEFAULTS = {"shutdown.notice": "0s"} | ({"suspect.after": "10s"} if IN_GATE else {})

ERROR_LINE = re.compile(r"^\S+Z (error|critical) ")
# What sanitizers, assertions and the C++ run time write when a program must not go on.
CRASH_LINE = re.compile(
    r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|: runtime error: |terminate called|Assertion .* failed|CHECK failed")

LIST_ACTION = {"Content-Type": "application/json", "Accept": "application/json"}


class CommandFailed(AssertionError):
    def __init__(self, command, result):
        super().__init__(f"{' '.join(map(str, command))}: exit {result.returncode}\n{result.stdout}{result.stderr}")
        self.returncode = result.returncode
        self.stderr = result.stderr


def _load_local_cluster():
    loader = importlib.machinery.SourceFileLoader("local_cluster", str(LOCAL_CLUSTER))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("local_cluster", loader))
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


local_cluster = _load_local_cluster()
process_state = local_cluster.process_state
KEYS = local_cluster.KEYS


def process_is_alive(pid):
    """True until the last thread of a process has closed its files and released its locks."""
    return process_state(pid) is not None


def processes_naming(text):
    """(pid, command line) of living processes that have `text` in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if text in command and process_is_alive(entry.name):
                found.append((int(entry.name), command.strip()))
    return found


def provider_of(bucket):
    """("ais", "photos") of "photos", ("s3", "photos") of "s3://photos"."""
    provider, separator, name = bucket.partition("://")
    return (provider, name) if separator else ("ais", bucket)


class NodeLog:
    """The log of one node; knows which part of it belongs to the running test."""

    def __init__(self, path):
        self.path = path
        self.start = 0

    def mark(self):
        """Ignores all lines that are there now."""
        self.start = self.path.stat().st_size if self.path.exists() else 0

    def lines(self):
        """The lines since the last mark."""
        if not self.path.exists():
            return []
        with open(self.path, "rb") as log:
            log.seek(self.start)
            return log.read().decode(errors="replace").splitlines()

    def all_lines(self):
        """Every line since the cluster was made."""
        return self.path.read_text(errors="replace").splitlines() if self.path.exists() else []

    def matching(self, pattern):
        return [line for line in self.lines() if re.search(pattern, line)]

    def wait_for(self, pattern, seconds=10):
        """The lines that match, of which the node writes one soon: what it says may have come about before it says so."""
        return wait_until(lambda: self.matching(pattern), seconds, f"a line {pattern!r} in {self.path.name}")


class Cluster:
    """`proxies` proxies and `targets` targets in `directory`, with `meta="etcd"` over `etcds` members of etcd; on a
    `network` (netns.Network), each on the machine of its own name, or else of its number; members of etcd with `etcds_apart` on the
    last ones. `identities`: a text from which the ids of nodes and drives follow, and so where names lie; by chance without
    one. Not started until `up`."""

    def __init__(self, directory, targets=4, drives=2, settings=None, programs=None, environment=None, proxies=1,
                 meta="embedded", etcds=1, etcds_apart=False, network=None, zones=0, identities=""):
        self.directory = Path(directory)
        self.network = network
        self.options = ["--targets", str(targets), "--drives", str(drives)]
        if zones:
            self.options += ["--zones", str(zones)]
        if meta != "embedded":
            self.options += ["--meta", meta, "--proxies", str(proxies), "--etcds", str(etcds)]
        self.etcds, self.etcds_apart = etcds, etcds_apart
        self.proxies = [f"p{i + 1}" for i in range(proxies)]
        for key, value in (DEFAULTS | (settings or {})).items():
            self.options += ["--set", f"{key}={value}"]
        self.programs = Path(programs or PROGRAMS)
        self.environment = os.environ | (environment or {})
        self.identities, self._starts = identities, 0
        self.nodes = {}
        self.logs = {}
        self.running = set()  # names that this test has reason to believe alive
        self._expected = []

    # --- nodes ---

    def command(self, *words, check=True):
        """Runs a command of deploy/local-cluster in this process: to start Python for each took a tenth of the tests' time.
        Returns it as if it were a finished process."""
        command = [*map(str, words), "--dir", str(self.directory)]
        output, errors = io.StringIO(), io.StringIO()
        environment = self.environment_of_start() if words[0] in ("up", "start", "add") else self.environment
        code = local_cluster.run(command, environment, output, errors)
        result = subprocess.CompletedProcess([str(LOCAL_CLUSTER), *command], code, output.getvalue(), errors.getvalue())
        if check and code != 0:
            raise CommandFailed(result.args, result)
        return result

    def environment_of_start(self):
        """Environment of nodes that start now: no two starts make the same identifiers, and a drive keeps its place in all."""
        self._starts += 1
        if not self.identities:
            return self.environment
        return self.environment | {"TARN_TEST_IDENTITIES": f"{self.identities} {self._starts}", "TARN_TEST_PLACES": self.identities}

    def _fail_points(self, names, fail_points, environment):
        """--env words: the points of this start, and the safety that tests/sabotage has switched off."""
        sabotage = os.environ.get("TARN_SABOTAGE_POINT")
        words = []
        for name in names:
            points = [text for text in (f"{sabotage}=off" if sabotage else "", (fail_points or {}).get(name, "")) if text]
            variables = dict((environment or {}).get(name, {}))
            if points:
                variables["TARN_FAIL_POINTS"] = ";".join(points)
            for key, value in variables.items():
                words += ["--env", f"{name}:{key}={value}"]
        return words

    def up(self, fail_points=None, environment=None):
        """Starts all that is down. `fail_points` is {node: TARN_FAIL_POINTS}, `environment` {node: {KEY: VALUE}}."""
        names = [*self.proxies, *(f"t{i + 1}" for i in range(int(self.options[1])))]
        words = self._fail_points(names, fail_points, environment)
        # Ports are free ones, never those of a cluster that a person runs on this machine.
        up = self.command("up", "--json", "--port", "0", "--bin", str(self.programs), "--timeout", str(scaled(60)),
                          *self.options, *words, *self._places())
        self.refresh(up)
        self.running = set(self.nodes)
        return self

    def _places(self):
        if self.network is None:
            return []
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory.parent / f"{self.directory.name}.places"
        if "p1" in self.network.machines:
            file.write_text(json.dumps({name: self.network.place(name) for name in self.network.machines}))
            return ["--places", str(file)]
        kinds = {"p": len(self.proxies), "etcd": self.etcds, "t": len(self.network.machines)}
        first = {"etcd": len(self.network.machines) - self.etcds if self.etcds_apart else 0}
        file.write_text(json.dumps({f"{kind}{i + 1}": self.network.place(f"m{first.get(kind, 0) + i + 1}")
                                    for kind, count in kinds.items() for i in range(count)}))
        return ["--places", str(file)]

    def add_target(self, check=True, timeout=60):
        """Starts one more target, with the number and on the machine that follow."""
        added = self.command("add", "target", "--json", "--timeout", str(scaled(timeout)), *self._places(), check=check)
        self.refresh(added)
        if check:
            self.running.add(self.targets()[-1])
        return self.targets()[-1]

    def refresh(self, done=None):
        """Reads what `status` says, or a command that is done has said; ids of processes change with every start."""
        status = json.loads(done.stdout if done and done.returncode == 0 else self.command("status", "--json").stdout)
        self.endpoint, self.relay = status["endpoint"], status["relay"]
        self.nodes = {node["name"]: node for node in status["nodes"]}
        for name, node in self.nodes.items():
            self.logs.setdefault(name, NodeLog(Path(node["log"])))

    def start(self, *names, fail_points=None, environment=None, check=True):
        """Starts nodes again and waits until they are ready. `fail_points`: one string for all of them."""
        points = {name: fail_points for name in names} if fail_points else None
        words = self._fail_points(names, points, {name: environment for name in names} if environment else None)
        result = self.command("start", *names, "--json", "--timeout", str(scaled(60)), *words, check=check)
        if result.returncode == 0:
            self.running |= set(names)
        self.refresh(result)
        return result

    def kill(self, *names):
        self.running -= set(names)
        if names:
            self.command("kill", *names)

    def stop(self, *names):
        self.command("stop", *names)

    def cont(self, *names):
        self.command("cont", *names)

    def down(self):
        self.running = set()
        return self.command("down")

    def wait_exit(self, name, seconds=10):
        """Waits until a node has ended by itself, say at a fail point, which this test expects."""
        pid = self.pid(name)
        self.running.discard(name)
        wait_until(lambda: not process_is_alive(pid), seconds, f"{name} (pid {pid}) ends")

    def pid(self, name):
        return self.nodes[name]["pid"]

    def targets(self):
        return [name for name in self.nodes if name.startswith("t")]

    def drives(self, name):
        return [Path(drive) for drive in self.nodes[name]["drives"]]

    def all_drives(self):
        return [drive for name in self.targets() for drive in self.drives(name)]

    def add_drive(self, name):
        """Gives a target one more drive, from its next start on. All of its drives."""
        drives = self.drives(name)
        drives.append(self.directory / name / f"d{len(drives) + 1}")
        drives[-1].mkdir()
        self.add_arguments(name, "--drive", str(drives[-1]))
        return drives

    def add_arguments(self, name, *words):
        """Gives a node further words on its command line, from its next start on."""
        file = self.directory / "cluster.json"
        made = json.loads(file.read_text())
        (node,) = [node for node in made["nodes"] if node["name"] == name]
        node["arguments"] += words
        file.write_text(json.dumps(made))

    def url_of(self, name, kind="public"):
        return self.nodes[name]["urls"][kind]

    def _report_sabotage(self):
        """Tells tests/sabotage which nodes left out the safety that it switched off."""
        hits = os.environ.get("TARN_SABOTAGE_HITS")
        if hits:
            hit = re.compile(rf"failpoint hit name={re.escape(os.environ['TARN_SABOTAGE_POINT'])} ")
            with open(hits, "a") as file:
                file.writelines(f"{line}\n" for log in self.logs.values() for line in log.all_lines() if hit.search(line))

    def close(self, keep_data=False):
        """Stops it and removes its directory, unless `keep_data`."""
        self._report_sabotage()
        if (self.directory / "cluster.json").exists():
            if self.etcds > 1:
                self._end_before_etcd()
            result = self.down()
            # Programs of ours: a drive may be a process, too, which goes with the test's lab.
            left = [found for found in processes_naming(str(self.directory)) if "/tarn-" in found[1].split(" ")[0]]
            for pid, _ in left:
                os.kill(pid, 9)
            assert not left, f"processes that outlived their cluster: {left}"
            assert "had to be killed" not in result.stderr, result.stderr
        if not keep_data:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _end_before_etcd(self):
        """Kills members of etcd when no node uses them: told to end together, they would wait 7 s for each other."""
        for role in "tp":
            running = [name for name in self.nodes if name[0] == role and process_is_alive(self.pid(name))]
            for name in running:
                os.kill(self.pid(name), signal.SIGTERM)
            wait_until(lambda: not any(process_is_alive(self.pid(name)) for name in running), 40, f"{running} end")
        self.kill(*(name for name in self.nodes if name[0] == "e" and process_is_alive(self.pid(name))))

    # --- what the nodes say ---

    def begin_test(self):
        self._expected = []
        for log in self.logs.values():
            log.mark()

    def expect_errors(self, pattern):
        """Lines of level error that match are part of this test."""
        self._expected.append(re.compile(pattern))

    def complaints(self):
        """What must make the running test fail: unexpected errors in logs, sanitizer reports, nodes that died."""
        found = []
        for name, log in self.logs.items():
            for line in log.lines():
                if CRASH_LINE.search(line):
                    found.append(f"{name} reports: {line}")
                elif ERROR_LINE.match(line) and not any(pattern.search(line) for pattern in self._expected):
                    found.append(f"{name} logged an error that the test does not expect: {line}")
        for name in sorted(self.running):
            if not process_is_alive(self.pid(name)):
                found.append(f"{name} (pid {self.pid(name)}) died by itself")
        return found

    def heal(self):
        """Starts again what died, so that one broken test does not break all that share the cluster."""
        dead = [name for name in self.nodes if not process_is_alive(self.pid(name))]
        if dead:
            self.start(*dead)

    def last_lines(self, count=25):
        return {name: "\n".join(log.lines()[-count:]) for name, log in self.logs.items()}

    def metrics(self, name):
        """{metric with its labels: value} from the node's /metrics."""
        text = client.request("GET", self.url_of(name) + "/metrics").text
        values = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                key, _, value = line.rpartition(" ")
                values[key] = float(value)
        return values

    def metric(self, node, name, **labels):
        """One metric summed over all label sets that contain `labels`; None when the node does not have it."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        values = [value for key, value in self.metrics(node).items()
                  if key.partition("{")[0] == name and all(text in key for text in wanted)]
        return sum(values) if values else None

    def memory_peak(self, name):
        """VmHWM of the process in bytes."""
        status = Path(f"/proc/{self.pid(name)}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024

    # --- objects and buckets, through the AIStore paths ---

    def call(self, proxy, method, path, body=None, headers=None):
        """The raw answer of a proxy, of another node, or with None of whom clients ask now; `body` is an object for JSON."""
        url = (self.url_of(proxy) if proxy else self.endpoint) + path
        data = None if body is None else json.dumps(body).encode()
        return client.request(method, url, data, {"Content-Type": "application/json"} | (headers or {}), expect=False)

    def url(self, bucket, name, base=None):
        provider, bucket = provider_of(bucket)
        return f"{base or self.endpoint}/v1/objects/{bucket}/{urllib.parse.quote(name)}?provider={provider}"

    def put(self, bucket, name, body, **options):
        return client.request("PUT", self.url(bucket, name), body, **options)

    def get(self, bucket, name, **options):
        return client.request("GET", self.url(bucket, name), **options)

    def fill(self, bucket, objects, size=None, rng=random, durable=False, **options):
        """Stores objects, and returns {name: body}. `objects` are such a dict, or names, or a count ("n-0" and so on). Each of
        those has its name as its body, or else `size` random bytes; of several sizes each has its turn. With `durable` no
        object may lack a copy or a slice. `options` are those of put()."""
        if isinstance(objects, int):
            objects = [f"n-{i}" for i in range(objects)]
        if not isinstance(objects, dict):
            sizes = itertools.cycle([size] if size is None or isinstance(size, int) else size)
            objects = {name: name.encode() if each is None else rng.randbytes(each) for name, each in zip(objects, sizes)}
        for name, body in objects.items():
            answer = self.put(bucket, name, body, **options)
            assert answer.status == 200 and not (durable and "Tarn-Durability" in answer.headers), f"{name}: {answer!r}"
        return objects

    def bodies(self, bucket, names=None, **listed):
        """{name: body} of `names`, or of what a list with `listed` says. Fails with what came when one is not read."""
        answers = {name: self.get(bucket, name) for name in (self.names(bucket, **listed) if names is None else names)}
        refused = [f"{name}: {answer!r}" for name, answer in answers.items() if answer.status != 200]
        assert not refused, "\n".join([f"{len(refused)} of {len(answers)} objects of {bucket} were not read:", *refused])
        return {name: answer.body for name, answer in answers.items()}

    def assert_bodies(self, bucket, expected):
        """A list of `bucket` has the names of {name: body} and no other, and a GET of each its body. In short when not:
        pytest would show all bytes of all bodies, and not the status."""
        listed = self.names(bucket)
        assert listed == sorted(expected), f"missing {sorted(set(expected) - set(listed))}, too many {sorted(set(listed) - set(expected))}"
        found = self.bodies(bucket, expected)
        wrong = [f"{name}: {len(found[name])} bytes {found[name][:20]!r}..., expected {len(body)} bytes {body[:20]!r}..."
                 for name, body in expected.items() if found[name] != body]
        assert not wrong, "\n".join([f"{len(wrong)} of {len(expected)} objects of {bucket} are not what was stored:", *wrong])

    def head(self, bucket, name, **options):
        return client.request("HEAD", self.url(bucket, name), **options)

    def delete(self, bucket, name, **options):
        return client.request("DELETE", self.url(bucket, name), **options)

    def bucket_action(self, method, bucket, action, value=None, query=""):
        provider, bucket = provider_of(bucket)
        body = json.dumps({"action": action, "name": "", "value": value}).encode()
        return client.request(method, f"{self.endpoint}/v1/buckets/{bucket}?provider={provider}{query}", body, LIST_ACTION, expect=False)

    def create_bucket(self, bucket, props=None):
        answer = self.bucket_action("POST", bucket, "create-bck", props)
        assert answer.status == 200, answer
        return bucket

    def props(self, bucket):
        """The properties of a bucket; None when there is no such bucket."""
        provider, bucket = provider_of(bucket)
        answer = client.request("HEAD", f"{self.endpoint}/v1/buckets/{bucket}?provider={provider}")
        return json.loads(answer.headers["Ais-Bucket-Props"]) if answer.status == 200 else None

    def redundancy(self, bucket, timeout=None):
        """What the cluster says of the copies and slices that objects of a bucket have."""
        provider, bucket = provider_of(bucket)
        answer = client.request("GET", f"{self.endpoint}/v1/cluster?what=redundancy&provider={provider}&bucket={bucket}", expect=False,
                                timeout=timeout)
        assert answer.status == 200, answer
        (found,) = answer.json()["buckets"]
        return found

    def smap(self, proxy=None):
        """The map of the cluster as a proxy, or any other node, has it."""
        return self.call(proxy, "GET", "/v1/daemon?what=smap").json()

    def destroy_bucket(self, bucket):
        return self.bucket_action("DELETE", bucket, "destroy-bck")

    def list_page(self, bucket, **value):
        """One page: the raw answer. Keys of `value` are those of AIStore's list message."""
        return self.bucket_action("GET", bucket, "list", {"props": "name,size"} | value)

    def list(self, bucket, pagesize=0, **value):
        """All entries, page by page, each page checked for its shape."""
        entries, token, listing = [], "", ""
        while True:
            answer = self.list_page(bucket, pagesize=pagesize, continuation_token=token, uuid=listing, **value)
            assert answer.status == 200, answer
            page = answer.json()
            assert page["uuid"] and page["uuid"] == (listing or page["uuid"]), page
            listing, token = page["uuid"], page["continuation_token"]
            entries += page.get("entries") or []
            if not token:
                return entries

    def names(self, bucket, **value):
        return [entry["name"] for entry in self.list(bucket, **value)]

    def owner(self, bucket, name):
        """The node to which the proxy sends writers of a name, and who asks about it; readers may go to another replica."""
        answer = self.head(bucket, name, follow=False)
        assert answer.status == 302, answer
        for node in self.targets():
            if answer.headers["Location"].startswith(self.url_of(node) + "/"):
                return node
        raise AssertionError(f"redirected to no target of this cluster: {answer.headers['Location']}")

    def names_owned_by(self, node, bucket, count, prefix="of"):
        """`count` names that belong to `node`."""
        found, index = [], 0
        while len(found) < count:
            name = f"{prefix}-{node}-{index}"
            index += 1
            if self.owner(bucket, name) == node:
                found.append(name)
            assert index < 200 * count, f"{node} owns hardly any name"
        return found
