"""Drives that are smaller than what is read through them: the least recently used goes, and nothing else."""

import concurrent.futures
import os
import signal
import time

import disks
import pytest
from harness import client, jobs
from harness.upstreams import WebServer, is_stored, make_bucket, upstream_cluster
from harness.waiting import wait_until

MIB = 1 << 20
SIZE = 2 * MIB
BUCKET = "ht://web"
LIMITS = {"space.high_watermark": 80, "space.low_watermark": 60}
pytestmark = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")


def used(disk):
    its = os.statvfs(disk.mountpoint)
    return 1 - its.f_bavail / its.f_blocks


def room(disk, share):
    """How many objects make the drive `share` full."""
    its = os.statvfs(disk.mountpoint)
    return int((share - used(disk)) * its.f_blocks * its.f_frsize / SIZE)


def stored(cluster, names):
    return {name for name in names if is_stored(cluster, BUCKET, name)}


def evicted(cluster):
    return cluster.metric("t1", "tarn_evicted_objects_total")


def next_second():
    """Waits until the clock by which reads are told apart has gone on."""
    now = int(time.time())
    wait_until(lambda: int(time.time()) > now, 5, "the next second")


class Tier:
    """One target with one small drive before a web server: `bodies` there, `own` objects nowhere else."""

    def __init__(self, make_stage, server, rng, props=None, settings=None, size=96 * MIB, count=None, **options):
        self.server, self.rng = server, rng
        self.stage = upstream_cluster(make_stage, server, targets=1, drives=1, fs="ext4", size=size,
                                      settings=LIMITS | (settings or {}), **options)
        self.cluster, (self.disk,) = self.stage.cluster, self.stage.disks["t1"]
        answer = make_bucket(self.cluster, BUCKET, server.url, {"lru": {"dont_evict_time": "0s"} | (props or {})})
        assert answer.status == 200, answer
        self.own = self.cluster.fill("data", [f"own-{i}" for i in range(5)], MIB, rng)
        self.bodies = {}
        for i in range(count or 3 * room(self.disk, 1.0)):
            self.bodies[f"shard-{i:03}"] = rng.randbytes(SIZE)
            server.write(f"shard-{i:03}", self.bodies[f"shard-{i:03}"])

    def read(self, name):
        answer = self.cluster.get(BUCKET, name)
        assert answer.status == 200 and answer.body == self.bodies[name], name

    def keep(self, name):
        """Reads it, and waits until it is stored."""
        self.read(name)
        wait_until(lambda: is_stored(self.cluster, BUCKET, name), 20, f"{name} is stored")

    def read_all(self, names, readers=3):
        with concurrent.futures.ThreadPoolExecutor(readers) as pool:
            list(pool.map(self.read, names))

    def assert_own(self):
        self.cluster.assert_bodies("data", self.own)

    def assert_right(self):
        """Each object is right, cold or not."""
        self.read_all(self.bodies)
        self.assert_own()

    def wait_below(self, share):
        wait_until(lambda: used(self.disk) <= share, 30, f"the drive is {share:.0%} full at most")


@pytest.fixture
def make_tier(make_stage, tmp_path, rng):
    with WebServer(tmp_path / "web") as server:
        yield lambda **options: Tier(make_stage, server, rng, **options)


@pytest.mark.gate("C4, of a cache")
def test_three_times_what_a_drive_holds_is_read_through_it(make_tier):
    tier = make_tier()
    fullest = 0
    for _ in range(2):
        names = sorted(tier.bodies)
        tier.rng.shuffle(names)
        for begin in range(0, len(names), 8):
            tier.read_all(names[begin:begin + 8])
            fullest = max(fullest, used(tier.disk))
    tier.wait_below(0.80)
    # Files of objects stay below; what the index writes beside them does not ask for room.
    assert fullest <= 0.95 + 3 * MIB / (96 * MIB), "a drive above space.out_of_space took files"
    count = evicted(tier.cluster)
    assert count >= len(tier.bodies), "two epochs of three times the room evict most of what they store"
    assert tier.cluster.metric("t1", "tarn_evicted_bytes_total") >= count * SIZE
    tier.assert_own()
    print(f"{2 * len(tier.bodies)} reads of {len(tier.bodies)} objects: {count:.0f} were evicted, at most {fullest:.0%} was used")


@pytest.mark.gate("C4, of a cache")
@pytest.mark.parametrize("end", [None, signal.SIGTERM])
def test_what_was_read_last_stays_also_after_a_restart(make_tier, end):
    tier = make_tier()
    cluster, names = tier.cluster, sorted(tier.bodies)
    first = names[:room(tier.disk, 0.70)]
    for name in first:
        tier.keep(name)
    next_second()
    hot = tier.rng.sample(first, 5)
    for name in hot:
        tier.read(name)
    if end:
        os.kill(cluster.pid("t1"), end)
        cluster.wait_exit("t1", 60)
        cluster.start("t1")
    next_second()
    assert evicted(cluster) == 0 and stored(cluster, first) == set(first)
    later = names[len(first):len(first) + room(tier.disk, 0.80) + 2]
    for name in later:
        tier.keep(name)
    wait_until(lambda: evicted(cluster) > 0, 30, "the drive is above its high watermark and something goes")
    tier.wait_below(0.80)
    wait_until(lambda: cluster.metric("t1", "tarn_evictions_running") == 0, 30, "the eviction has ended")
    there = stored(cluster, first + later)
    assert set(hot) <= there, "what was read again went before what was not"
    assert set(later) <= there, "what was fetched last went before what was there"
    assert len(first) - len(there & set(first)) == evicted(cluster)
    tier.assert_own()


@pytest.mark.gate("C4, of a cache")
def test_nothing_goes_while_eviction_is_switched_off(make_tier):
    tier = make_tier(props={"enabled": False}, count=60)
    cluster, names = tier.cluster, sorted(tier.bodies)
    tier.read_all(names)
    assert used(tier.disk) > 0.85 and evicted(cluster) == 0
    there = stored(cluster, names)
    job = jobs.start(cluster, "lru")
    assert not jobs.ended(cluster, job)["err"] and jobs.total(jobs.snaps(cluster, job), "loc-objs") == 0
    assert stored(cluster, there) == there, "what was stored was not evicted, though others found no room"
    tier.assert_own()
    answer = cluster.bucket_action("PATCH", BUCKET, "set-bprops", {"lru": {"enabled": True}})
    assert answer.status == 200, answer
    tier.wait_below(0.61)
    assert 0 < evicted(cluster) < len(there)
    tier.assert_right()


@pytest.mark.gate("C4, of a cache")
def test_protected_objects_go_from_a_full_drive_only(make_tier):
    tier = make_tier(props={"dont_evict_time": "2h"})
    cluster, names = tier.cluster, sorted(tier.bodies)
    most = room(tier.disk, 0.90)
    for name in names[:most]:
        tier.keep(name)
    assert used(tier.disk) > 0.85
    job = jobs.start(cluster, "lru")
    assert not jobs.ended(cluster, job)["err"]
    assert evicted(cluster) == 0, "objects that were read a moment ago are protected"
    for name in names[most:most + 12]:  # these find the drive full
        tier.keep(name)
    assert evicted(cluster) > 0 and used(tier.disk) <= 0.96
    tier.assert_right()


@pytest.mark.gate("C4, of a cache")
def test_a_write_that_finds_no_room_has_it_made(make_tier):
    """That holds for objects without upstream, too. A write that is larger than the drive evicts nothing."""
    tier = make_tier(settings={"space.high_watermark": 95}, count=60)
    cluster = tier.cluster
    tier.read_all(tier.bodies, readers=1)

    def at_rest():
        running = [cluster.metric("t1", f"tarn_{name}") for name in ("upstream_fills_running", "evictions_running")]
        return running == [0, 0] and used(tier.disk) <= 0.95

    wait_until(at_rest, 30, "nothing that was read asks for room any longer")
    before = evicted(cluster)
    large = client.request("PUT", cluster.url("data", "large"), bytes(200 * MIB), expect=False)
    assert large.status == 507, large
    assert evicted(cluster) == before
    more = cluster.fill("data", [f"more-{i}" for i in range(12)], 4 * MIB, tier.rng)
    tier.own |= more
    assert evicted(cluster) > before
    tier.assert_right()


@pytest.mark.gate("A1, of an eviction")
@pytest.mark.parametrize("point", ["evict.planned", "evict.before_delete", "evict.after_delete"])
def test_a_kill_in_the_midst_of_an_eviction_leaves_each_object_whole_or_cold(make_tier, point):
    tier = make_tier(count=60, fail_points={"t1": f"{point}=kill@{1 if point == 'evict.planned' else 4}"})
    cluster = tier.cluster
    for name in sorted(tier.bodies):
        try:
            tier.read(name)
        except (client.ProtocolError, OSError, AssertionError):
            break
    cluster.wait_exit("t1", 60)
    assert any(f"failpoint hit name={point}" in line for line in tier.stage.cluster.logs["t1"].all_lines())
    cluster.start("t1")
    there = stored(cluster, tier.bodies)
    assert there, "nothing is left"
    for name in there:
        tier.read(name)
    tier.assert_right()
    tier.wait_below(0.80)
    assert evicted(cluster) > 0
