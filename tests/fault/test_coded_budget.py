"""Drives and nodes of a cluster die, hang, fill up, go bad, are stopped and return. There are never more such faults at once than its
coded objects survive. The operator puts drives back, and does nothing else. No acknowledged write is lost, and no wrong byte or older
version is read. No list misses a name, no read fails twice, and each time the ledger is full again by itself.

Two clusters: many nodes of few drives, and two nodes of many, where a node holds more slices of an object than may be lost.

TARN_TEST_SECONDS says for how long. With TARN_TEST_DOSE=full there are 10,000 objects of 1 byte to 256 MiB. With
TARN_TEST_EVERY_FAULT each kind of fault must have happened. `tests/soak coding` is this test, each cluster for half of the time."""

import contextlib
import os
import random
import signal
import threading
import time
import zlib

import disks
import pytest
from disks import seeded
from doses import FULL, dose
from harness import attribute, jobs
from harness.coded import KIB, LIMIT, MIB, props
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until
from load import Crowd
from history import value_bytes
from nemesis import Deck
from stage import Churn

needs_fuse = pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
SECONDS = float(os.environ.get("TARN_TEST_SECONDS") or 25)
EVERY_FAULT = bool(os.environ.get("TARN_TEST_EVERY_FAULT"))
M = 2  # drives or nodes that may go at once
BUCKET = "cut"
HOT = [f"hot-{i:03}" for i in range(dose(16, 60))]
HEALS_WITHIN = dose(120, 300)
SHUT_DOWN_WITHIN = 60  # shutdown.grace, in which transfers to what hangs may go on, and what comes after
# Nodes say a lot of drives that die below them, and of targets that do.
COMPLAINTS = r" (error|warn|critical) "


def cold_sizes(rng):
    """{name: bytes}: most of them small, and some of each size up to the largest."""
    wanted = ([(9_880, 1, 256 * KIB), (100, 256 * KIB, 16 * MIB), (16, 16 * MIB, 64 * MIB), (4, 256 * MIB, 256 * MIB)] if FULL
              else [(150, 1, 64 * KIB), (8, 64 * KIB, 4 * MIB)])
    sizes = [round(low * (high / low) ** rng.random()) for count, low, high in wanted for _ in range(count)]
    return {f"cold-{i:05}": size for i, size in enumerate(sizes)}


def store(stage, sizes):
    """{name: the value that is there}"""
    left, stored, guard = sorted(sizes), {}, threading.Lock()

    def put(client):
        with guard:
            name = left.pop()
        op = client.put(BUCKET, name, sizes[name])
        assert op.status == 200, op.line()
        with guard:
            stored[name] = op

    Crowd([stage.client(f"store{i}", timeout=120) for i in range(4)], put, count=len(sizes)).start().join(timeout=900)
    return stored


def same_bytes(got, put):
    """put: what was stored; its body is made again when first asked for."""
    if put.length not in (0, got.length):
        return False
    if not put.crc:
        put.crc = zlib.crc32(value_bytes(put.value, put.length))
    return got.length == put.length and got.crc == put.crc


class Reading:
    """Reads objects that no writer changes; repeats a read that fails once, as any client would."""

    def __init__(self, seed, stored):
        self.seed, self.stored, self.names = seed, stored, sorted(stored)
        self.reads = self.retried = 0
        self.failed = []
        self._of = {}

    def __call__(self, client):
        rng = self._of.setdefault(client, random.Random(f"{self.seed}/{client.log.name}"))
        name = rng.choice(self.names)
        wanted = self.stored[name]
        time.sleep(0.02)  # leaves room on a machine of few processors: it is the faults that are to be seen
        for attempt in range(2):
            op = client.get(BUCKET, name)
            self.reads += 1
            if op.status == 200 and not op.wrong and same_bytes(op, wanted):
                return
            if op.status == 200 or attempt == 1:
                self.failed.append(f"{op.line()} {op.wrong} {op.length} bytes")
                return
            self.retried += 1
            time.sleep(3)


class Listing:
    """Lists the names that no writer changes: each time all of them."""

    def __init__(self, stored):
        self.names = sorted(stored)
        self.lists = self.retried = 0
        self.failed = []

    def __call__(self, client):
        time.sleep(0.2)
        for attempt in range(2):
            op = client.list(BUCKET, prefix="cold-")
            self.lists += 1
            if op.status == 200 and not op.wrong and [name for name, *_ in op.names] == self.names:
                return
            if op.status == 200 or attempt == 1:
                self.failed.append(f"{op.line()} {op.wrong} {len(op.names or ())} names")
                return
            self.retried += 1
            time.sleep(3)


class Breaking:
    """Each fault is a generator: it begins, yields for how long it lasts in seconds, and ends."""

    def __init__(self, stage, rng, nodes_may_go):
        self.stage, self.rng, self.nodes_may_go = stage, rng, nodes_may_go
        self.injected, self.detected = {}, {}
        self.kinds = [self.pull, self.hang, self.fill, self.corrupt]
        if nodes_may_go:
            self.kinds += [self.kill, self.freeze, self.shut_down]
        self._deck = Deck(rng, self.kinds)
        self.corrupted_ns = 0  # when bytes were changed in this round

    def _saw(self, kind, is_so):
        self.injected[kind] = self.injected.get(kind, 0) + 1
        self.detected[kind] = self.detected.get(kind, 0) + bool(is_so)

    def _hold(self):
        """Some outlast the minute after which what lies there is made again elsewhere."""
        if FULL and self.rng.random() < 0.25:
            return self.rng.uniform(65, 110)
        return self.rng.uniform(1, 12)

    def pull(self, target, disk):
        """Everything on it fails; later it is mounted again, with what it had."""
        disk.power_cut()
        self._saw("pull", disk.is_cut())
        yield self._hold()
        disk.remount()

    def hang(self, target, disk):
        disk.daemon.stop()
        yield self._hold()
        with open(f"/proc/{disk.daemon.process.pid}/stat", encoding="ascii") as stat:
            self._saw("hang", stat.read().rpartition(")")[2].split()[0] == "T")
        disk.daemon.cont()

    def fill(self, target, disk):
        filler, full = disk.mountpoint / "filler", False
        try:
            with open(filler, "wb", buffering=0) as file:
                while True:
                    file.write(b"x" * MIB)
        except OSError:
            full = True
        self._saw("fill", full)
        yield self._hold()
        filler.unlink()

    def corrupt(self, target, disk):
        """A bit of some files on one drive."""
        hit = []
        paths = sorted(attribute.data_files([disk.mountpoint]))
        self.rng.shuffle(paths)
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # it is being replaced, or moves
                size = os.path.getsize(path)
                if size > 0:
                    disk.flip(path, self.rng.randrange(size), self.rng.randrange(8))
                    hit.append(path)
            if len(hit) == 10:
                break
        self.corrupted_ns = time.time_ns()
        self._saw("corrupt", hit)
        yield 0

    def kill(self, target, disk):
        self.stage.kill(target)
        self._saw("kill", not self.stage.is_alive(target))
        yield self._hold()
        self.stage.start(target, served=False)

    def shut_down(self, target, disk):
        """Ends a target with SIGTERM and starts it again, as an operator does."""
        self.stage.cluster.running.discard(target)
        os.kill(self.stage.cluster.pid(target), signal.SIGTERM)
        self.stage.wait_gone(target, SHUT_DOWN_WITHIN)
        self._saw("shut_down", not self.stage.is_alive(target))
        yield self._hold()
        self.stage.start(target, served=False)

    def freeze(self, target, disk):
        pid = self.stage.cluster.pid(target)
        os.kill(pid, signal.SIGSTOP)
        self._saw("freeze", True)
        yield self.rng.uniform(1, 15)
        os.kill(pid, signal.SIGCONT)

    def round(self):
        """Runs one or two faults at once: at different targets, or at drives anywhere."""
        running = []
        places = [(target, disk) for target in self.stage.targets() for disk in self.stage.disks[target]]
        if self.nodes_may_go:
            places = [(target, self.rng.choice(self.stage.disks[target])) for target in self.stage.targets()]
        for target, disk in self.rng.sample(places, self.rng.choice((1, 2, 2))):
            fault = self._deck.draw()(target, disk)
            seconds = next(fault)
            print(f"{time.monotonic():.1f} {fault.__name__} {target} {disk.mountpoint.name} for {seconds:.1f} s", flush=True)
            running.append((time.monotonic() + seconds, fault))
            time.sleep(self.rng.uniform(0, 2))
        for end, fault in sorted(running, key=lambda each: each[0]):
            time.sleep(max(0.0, end - time.monotonic()))
            next(fault, None)


def wait_healed(cluster, since_ns=0):
    """Waits until the ledger is full. Where bytes were changed without the cluster's knowledge, all must have been scrubbed since
    then, and repaired."""
    seen = []

    def full():
        seen[:] = [cluster.redundancy(BUCKET, timeout=HEALS_WITHIN)]  # each slice's file is looked at
        said = seen[0]
        return said["complete"] and not (said["reduced"] or said["at_risk"] or said["lost"])

    def verified():
        seen[:] = [jobs.told(cluster, "scrub")]
        return (seen[0]["oldest_verified_ns"] or 0) > since_ns and not seen[0]["open"]

    try:
        wait_until(full, HEALS_WITHIN, "the ledger is full again by itself", every=0.5)
        if since_ns:
            wait_until(verified, HEALS_WITHIN, "all has been verified since", every=0.5)
            wait_until(full, HEALS_WITHIN, "the ledger is full again by itself", every=0.5)
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}") from None


@needs_fuse
@pytest.mark.parametrize("targets, drives, k, layout", [(8, 2, 4, "striped"), (8, 2, 4, "whole"), (2, 8, 8, "striped")])
def test_nothing_is_lost_within_the_budget(make_stage, seed, targets, drives, k, layout):
    rng = seeded(seed, "budget", targets, layout)
    settings = {"scrub.period": dose("20s", "2m")}
    stage = make_stage(targets=targets, drives=drives, fs="ext4", faultable=True, size=dose(96 * MIB, 1024 * MIB), settings=settings)
    cluster = stage.cluster
    cluster.expect_errors(COMPLAINTS)
    cluster.create_bucket(BUCKET, props(layout, k, M))
    wait_until_in_place(cluster)
    stored = store(stage, cold_sizes(rng))
    wait_healed(cluster)
    print(f"{targets} targets of {drives} drives, {k}+{M} {layout}, {len(stored)} objects, {sum(op.length for op in stored.values())} bytes", flush=True)
    reading, listing, breaking = Reading(seed, stored), Listing(stored), Breaking(stage, rng, nodes_may_go=targets >= k + M)
    changes = {"writer": {"puts": 1.0, "deletes": 0.0}, "overwriter": {}, "deleter": {"puts": 0.4, "deletes": 0.4}}
    crowds = [Crowd([stage.client(f"read{i}", timeout=60) for i in range(3)], reading).start(),
              Crowd([stage.client("list", timeout=60)], listing).start()]
    crowds += [Crowd([stage.client(name, timeout=30)],
                     Churn(seed, HOT, bucket=BUCKET, sizes=(0, 100, LIMIT + 1, 70_000, 300_000), **its)).start() for name, its in changes.items()]
    until, rounds = time.monotonic() + SECONDS, 0
    try:
        while time.monotonic() < until:
            breaking.corrupted_ns = 0
            breaking.round()
            ended = time.monotonic()
            wait_healed(cluster, breaking.corrupted_ns)
            print(f"healed after {time.monotonic() - ended:.1f} s", flush=True)
            rounds += 1
    finally:
        for crowd in crowds:
            crowd.stop()
    print(f"{rounds} rounds, injected: {breaking.injected} detected: {breaking.detected}; {reading.reads} reads, {reading.retried} of them a "
          f"second time, {len(reading.failed)} failed; {listing.lists} lists, {listing.retried} a second time, {len(listing.failed)} failed")
    assert not reading.failed, reading.failed[:5]
    assert not listing.failed, listing.failed[:5]
    assert listing.lists > 0 and reading.reads > 0
    assert breaking.injected == breaking.detected
    assert not EVERY_FAULT or len(breaking.injected) == len(breaking.kinds), "some kinds never happened; a longer run has all"
    judge = stage.client("judge", timeout=60)
    for name, op in stored.items():
        got = judge.get(BUCKET, name)
        assert got.status == 200 and same_bytes(got, op), got.line()
    stage.check(judge, HOT, BUCKET, only=lambda op: op.name in HOT)
