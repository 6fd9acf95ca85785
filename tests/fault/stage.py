"""The stage of a fault test: a cluster on drives of the lab, nodes that start and die quickly, and judged clients.

A test of a hundred kills cannot pay for a Python start at each. So nodes are started in this process, by the functions
of deploy/local-cluster itself. Everything else is the `Cluster` of tests/harness.
"""

import os
import pathlib
import random
import re
import signal
import time

import checker
import power
from harness import attribute
from harness.cluster import PROGRAMS, local_cluster, process_is_alive
from harness.waiting import scaled, wait_until
from history import Recorder
from load import Client

# What a target and RocksDB say when a drive fails under them: expected wherever a test makes one fail.
DRIVE_ERRORS = r" error (drive|index|recovery|target|http) "




class Stage:
    """A cluster below `lab.root`, or in `directory`. With `fs`, each drive is a disk of its own (`disks[target][j]`), and with
    `meta_disk` so is the proxy's embedded store. Several file systems ("ext4,xfs") go to the targets in turn.
    `size`: of all disks, or a list with that of each of a target. `recording` disks have their log on from the first write, `faultable` ones
    only obey. `faulty` drives are directories whose operations can be
    made to fail by name (disks.FaultFs); the same for members of etcd with `etcd_faulty` (`etcd_disks[member]`). `options` are
    those of the cluster."""

    def __init__(self, lab, make_cluster, targets=1, drives=1, fs=None, recording=False, meta_disk=False, size=None,
                 settings=None, faulty=False, faultable=False, directory=None, environment=None, fail_points=None, etcd_faulty=False,
                 **options):
        self.directory = pathlib.Path(directory or lab.root / "cluster")
        self.disks = {}
        self.meta_disk = None
        make = lab.recording_disk if recording or faultable else lab.disk
        kinds = fs.split(",") if fs else []
        for number in range(targets if fs else 0):
            target, kind = f"t{number + 1}", kinds[number % len(kinds)]
            sizes = size if isinstance(size, list) else [size] * drives
            self.disks[target] = [self._mounted(make(f"{target}d{j + 1}", kind, sizes[j]), target, f"d{j + 1}", recording)
                                  for j in range(drives)]
        for number in range(targets if faulty else 0):
            target = f"t{number + 1}"
            (self.directory / target).mkdir(parents=True)
            self.disks[target] = [lab.fault_fs(f"{target}d{j + 1}", mountpoint=self.directory / target / f"d{j + 1}")
                                  for j in range(drives)]
        self.etcd_disks = {}
        for member in (f"etcd{i + 1}" for i in range(options.get("etcds", 1) if etcd_faulty else 0)):
            (self.directory / member).mkdir(parents=True)
            self.etcd_disks[member] = lab.fault_fs(member, mountpoint=self.directory / member)
        if fs and meta_disk:
            self.meta_disk = self._mounted(lab.disk("meta", kinds[0]), "p1", "meta", False)
        self.cluster = make_cluster(start=False, directory=self.directory, targets=targets, drives=drives,
                                    settings=settings, **options)
        self._processes = {}
        self.recorder = Recorder()
        self.cluster.up(fail_points=fail_points, environment=environment)

    def _mounted(self, disk, node, place, recording):
        disk.mountpoint = self.directory / node / place
        disk.mountpoint.mkdir(parents=True)
        if recording:
            disk.record()
        disk.mount()
        return disk

    def all_disks(self):
        return [disk for group in self.disks.values() for disk in group] + ([self.meta_disk] if self.meta_disk else [])

    def targets(self):
        return self.cluster.targets()

    def client(self, name, endpoints=None, timeout=10.0):
        return Client(self.recorder, name, endpoints or [self.cluster.endpoint], timeout)

    # --- nodes ---

    def start(self, *names, fail_points=None, environment=None, ready=True, served=True):
        """Starts nodes at the same time; `fail_points`: {node: TARN_FAIL_POINTS}. {node: seconds until ready}

        With `served`, and all nodes up, returns when the proxy trusts them again, which takes it an instant more."""
        made = local_cluster.Cluster.load(self.directory)
        words = self.cluster._fail_points(names, fail_points, environment)
        environments = local_cluster.parse_environment(made, words[1::2], self.cluster.environment_of_start())
        nodes = [made.node(name) for name in names]
        begun = time.monotonic()
        for node in nodes:
            node.start(PROGRAMS, environments[node.name])
            self._processes[node.name] = node.process
            self.cluster.nodes[node.name]["pid"] = node.process.pid
        if not ready:
            return {}
        seconds = {}

        def settled():
            for node in nodes:
                if node.name in seconds:
                    continue
                code = node.process.poll()
                if code is not None:
                    raise AssertionError(f"{node.name} ended while starting, code {code}\n{node.last_lines()}")
                if node.is_ready(node.process.pid):
                    seconds[node.name] = time.monotonic() - begun
            return len(seconds) == len(nodes)

        wait_until(settled, 60, f"{names} are ready", every=0.005)
        self.cluster.running |= set(names)
        if served and self.cluster.running == set(self.cluster.nodes):
            self.wait_served()
        return seconds

    def wait_served(self, seconds=20):
        """Waits until every target answers through the proxy: a list needs all of them."""
        wait_until(lambda: self.cluster.list_page("data").status == 200, seconds, "a list is answered")

    def kill(self, *names, number=signal.SIGKILL):
        """Nodes that are already gone stay so."""
        self.cluster.running -= set(names)
        for name in names:
            pid = self.cluster.pid(name)
            if pid and process_is_alive(pid):
                os.kill(pid, number)
        for name in names:
            self.wait_gone(name)

    def cut_power(self, rng, cut_disks, nodes):
        """The power of `cut_disks`, and with it all `nodes` that use them. Some notice for an instant that every call fails."""
        kind = rng.choice(power.KINDS)
        self.cluster.running -= set(nodes)
        power.cut(cut_disks, [self.cluster.pid(name) for name in nodes], kind)
        if kind == "noticed":
            time.sleep(rng.uniform(0.0, 0.05))
        self.kill(*nodes)

    def wait_gone(self, name, seconds=20):
        self.cluster.running.discard(name)
        process = self._processes.get(name)
        pid = self.cluster.pid(name)

        def gone():
            if process is not None and process.pid == pid:
                return process.poll() is not None
            return not process_is_alive(pid)

        wait_until(gone, seconds, f"{name} is gone", every=0.005)
        (self.directory / "run" / f"{name}.pid").unlink(missing_ok=True)

    def exit_code(self, name):
        return self._processes[name].poll()

    def is_alive(self, name):
        process = self._processes.get(name)
        if process is not None and process.pid == self.cluster.pid(name):
            return process.poll() is None
        return process_is_alive(self.cluster.pid(name))

    def fail_point_hits(self, name, point):
        """How often a node's log (of this test) says that the point was hit."""
        return len(self.cluster.logs[name].matching(rf"failpoint hit name={point} "))

    def recovered(self, name, what):
        """The sum over all starts of this test of one number that a start reports: adopted, work_files, ..."""
        lines = self.cluster.logs[name].matching(" drive open ")
        return sum(int(dict(word.split("=", 1) for word in line.split() if "=" in word)[what]) for line in lines)

    # --- what is there ---

    def look(self, client, names, bucket="data", seconds=10):
        """GET and HEAD of every name, each repeated until its outcome is certain: {name: (GET, HEAD)}"""
        return {name: (certain(client.get, bucket, name, seconds), certain(client.head, bucket, name, seconds))
                for name in names}

    def check(self, client, names, bucket="data", search=True, only=None):
        """All checkers over everything so far and a look at every name: fails with the violations."""
        found = self.look(client, names, bucket)
        listed = certain(client.list, bucket, "", 10)
        ops = self.recorder.ops()
        if only is not None:
            ops = [op for op in ops if only(op)]
        report = checker.check(ops, search=search, final=(bucket, found, listed))
        print(report)
        assert report.ok, str(report)
        return report, found

    def data_files(self, target, drive=None):
        """[(path, whether it says what it is)] of everything below data/."""
        places = [drive] if drive else self.cluster.drives(target)
        files = []
        for place in places:
            for path in pathlib.Path(place).glob("data/*/*"):
                try:
                    files.append((path, attribute.NAME in os.listxattr(path)))
                except FileNotFoundError:
                    pass  # unlinked meanwhile
        return files

    def objects_on(self, target, drive):
        """{name: path of its file} of the objects on a drive whose names are like n-0001. Not for a drive that hangs."""
        files = attribute.decoded([pathlib.Path(drive)])
        return {said["name"]: path for path, said in files.items() if re.fullmatch("n-[0-9]{4}", said["name"])}

    def wait_tidy(self, objects, seconds=10):
        """Waits until there is one data file an object, none of them unfinished: nothing temporary stays."""

        def tidy():
            files = [file for target in self.targets() for file in self.data_files(target)]
            return len(files) == objects and all(finished for _, finished in files)

        wait_until(tidy, seconds, f"{objects} data files, all finished", every=0.05)


def certain(call, bucket, name, seconds):
    """Repeats a read until the store says what is there (and not 503: a node has just come back)."""
    last = []

    def answered():
        last[:] = [call(bucket, name)]
        return last[0].outcome in ("done", "absent")

    try:
        wait_until(answered, seconds, "an answer")
    except AssertionError:
        raise AssertionError(f"no certain answer within {scaled(seconds):g} s: {last[0].line()}") from None
    return last[0]


class Churn:
    """Puts, overwrites, reads and deletes names at random; call it with a client, as `Crowd` does.

    Choices of each client come from a generator of its own. After a failure a client waits an instant, or a dead
    node would fill the history with refusals.
    """

    SIZES = (0, 1, 100, 4096, 70_000, 70_000, 300_000, 1_100_000)

    def __init__(self, seed, names, bucket="data", sizes=SIZES, puts=0.55, deletes=0.15, conditions=0.0, lists=0.0):
        self.seed, self.names, self.bucket, self.sizes = seed, names, bucket, sizes
        self.puts, self.deletes, self.conditions, self.lists = puts, deletes, conditions, lists
        self._generators = {}

    def __call__(self, client):
        rng = self._generators.setdefault(client, random.Random(f"{self.seed}/{client.log.name}"))
        name, draw = rng.choice(self.names), rng.random()
        if draw < self.puts:
            op = client.put(self.bucket, name, rng.choice(self.sizes))
        elif draw < self.puts + self.deletes:
            op = client.delete(self.bucket, name)
        elif draw < self.puts + self.deletes + self.lists:
            op = client.list(self.bucket, pagesize=rng.choice((0, 3, 10)))
        elif rng.random() < 0.8:
            op = client.get(self.bucket, name)
        else:
            op = client.head(self.bucket, name)
        if op.outcome in ("unknown", "failed"):
            time.sleep(0.003)
        return op
