"""A drive that takes ten times as long as its siblings is said to be slow, and well again when it is (C11). Readers take what they need from
elsewhere while it is."""

import contextlib
import os
import shutil
import time

import disks
import pytest
from disks import seeded
from harness import attribute, client
from harness.coded import KIB, props
from harness.nodes import wait_until_in_place
from harness.waiting import scaled, wait_until
from load import Crowd
from stage import DRIVE_ERRORS, Churn

DELAY_MS = 60


def slow_flags_of(cluster, target):
    return [cluster.metric(target, "tarn_drive_slow", drive=str(drive)) for drive in cluster.drives(target)]


def slow_flags(stage):
    """The flags of all drives of t1, in their order."""
    return slow_flags_of(stage.cluster, "t1")


def notes(stage):
    """The notes on drives of t1 that are not well."""
    said = client.request("GET", stage.cluster.endpoint + "/v1/cluster?what=mountpaths").json()
    return said[stage.cluster.nodes["t1"]["id"]].get("notes", {})


@pytest.mark.skipif(bool(disks.why_no_loop("ext4") or disks.why_no_fuse()), reason="needs loop devices and FUSE")
def test_a_slow_drive_is_flagged_and_a_busy_one_is_not(make_stage, seed):
    rng = seeded(seed, "slow flag")
    stage = make_stage(targets=1, drives=3, fs="ext4", recording=True)
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    names = [f"n-{i:03}" for i in range(60)]
    churn = Churn(seed, names, sizes=(5000, 70_000, 300_000))
    crowd = Crowd([stage.client(f"c{i}", timeout=30) for i in range(4)], churn).start()
    place = rng.randrange(3)
    disk = stage.disks["t1"][place]
    log = cluster.logs["t1"]
    try:
        time.sleep(10)  # of load, which is no reason
        assert slow_flags(stage) == [0, 0, 0]
        disk.daemon.rule(f"delay any always ms={DELAY_MS}")
        begun = time.monotonic()
        wait_until(lambda: slow_flags(stage)[place] == 1, scaled(30), "the drive is said to be slow", every=0.5)
        found = time.monotonic() - begun
        delayed = sum(count for key, count in disk.daemon.stats().items() if key.startswith("delay"))
        assert delayed > 0, "the disk was not slow"
        assert sum(slow_flags(stage)) == 1, "its siblings are well"
        assert notes(stage) == {str(disk.mountpoint): "slow"}
        disk.daemon.clear()
        begun = time.monotonic()
        wait_until(lambda: slow_flags(stage) == [0, 0, 0], scaled(30), "the drive is well again", every=0.5)
        healed = time.monotonic() - begun
        assert notes(stage) == {}
    finally:
        disk.daemon.clear()
        crowd.stop()
    flagged, cleared = log.matching("drive is slow drive="), log.matching("drive is no longer slow")
    print(f"injected: {delayed} requests took {DELAY_MS} ms longer; detected after {found:.1f} s, well again after {healed:.1f} s")
    assert len(flagged) == len(cleared) == 1 and str(disk.mountpoint) in flagged[0], flagged + cleared
    with stage.client("judge", timeout=30) as judge:
        stage.check(judge, names)


SLICE = 35 * KIB  # of the smallest object; the target reads a few bytes of its own
BUCKETS = {
    "striped": props("striped", 2, 1),
    "whole": props("whole", 2, 1),
    "on nodes": {"mirror": {"enabled": True, "copies": 2, "domain": "node"}},
    "on drives": {"mirror": {"enabled": True, "copies": 2}},
}


def reads_of(cluster, drive):
    """Bytes of files that a drive has read since its target's start."""
    return cluster.metric(os.path.basename(os.path.dirname(drive)), "tarn_drive_read_bytes_total", drive=drive)


@pytest.mark.gate("C11: reads around a slow drive")
@pytest.mark.parametrize("kind", BUCKETS)
def test_readers_take_from_elsewhere_what_lies_on_a_slow_drive(make_stage, seed, kind):
    """That holds while there are others: with a target gone whose slice is needed, the slow drive's slice is read."""
    rng = seeded(seed, "around", kind)
    # Long leases: a target that loses its own for a moment is passed over, whatever its drives are.
    stage = make_stage(targets=1 if kind == "on drives" else 4, drives=2 if kind == "on drives" else 1, settings={"lease.term": "10s"})
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    cluster.create_bucket("cut", BUCKETS[kind])
    wait_until_in_place(cluster)
    bodies = cluster.fill("cut", {f"n-{i}": rng.randbytes(rng.choice((70, 300)) * KIB) for i in range(12)})
    def read_all():
        for name in bodies:
            answer = cluster.get("cut", name)
            assert answer.status == 200 and answer.body == bodies[name], f"{name}: {answer!r:.200}"

    def restart(slow="", slow_point=""):
        """Restarts targets, since they send verified slices from memory, without a read. Late slices are waited for: on a busy machine
        the slow drive's slice would replace them."""
        points = {target: f"safety.pass_over_late=off;{slow_point if target == slow else ''}".rstrip(";") for target in cluster.targets()}
        stage.kill(*cluster.targets())
        stage.start(*cluster.targets(), fail_points=points)
        wait_until_in_place(cluster)
        drives = list(map(str, cluster.all_drives()))
        before = {drive: reads_of(cluster, drive) for drive in drives}
        return lambda *some: {drive: reads_of(cluster, drive) - before[drive] for drive in some or drives}

    reads = restart()
    read_all()
    # Of some drive too little is read to tell: which one that is depends on the ids of the nodes.
    drive, healthy = rng.choice([(drive, count) for drive, count in reads().items() if count >= 70 * KIB])
    slow = os.path.basename(os.path.dirname(drive))

    reads = restart(slow, f"drive.slow.{drive}=error")
    wait_until(lambda: cluster.metric(slow, "tarn_drive_slow", drive=drive) == 1, 20, "the drive is said to be slow")
    read_all()
    around = reads(drive)[drive]
    print(f"injected: {drive} is slow, {stage.fail_point_hits(slow, f'drive.slow.{drive}')} looks; {healthy:.0f} bytes read of it before, {around:.0f} now")
    assert around < SLICE, "readers used the slow drive"

    if kind not in ("striped", "on nodes"):
        return  # there is enough elsewhere with any target gone
    replicas = {}
    for target in cluster.targets():
        for said in attribute.decoded(cluster.drives(target)).values():
            if kind == "on nodes" or said["kind"] == 3:  # what bytes come from
                replicas.setdefault(said["name"], set()).add(target)
    other = rng.choice([replica for its in replicas.values() if slow in its for replica in sorted(its - {slow})])
    stage.kill(other)

    def is_read(name):
        with contextlib.suppress(ConnectionError):  # the target that is dead is not known to be yet
            return cluster.get("cut", name).status == 200
        return False

    for name in bodies:
        wait_until(lambda name=name: is_read(name), 60, f"{name} is read without {other}")
    read_all()
    assert reads(drive)[drive] >= SLICE, "nothing was needed of the slow drive"


@pytest.mark.gate("C11: a slow drive serves what no other can")
def test_readers_come_back_to_a_slow_drive(make_stage, seed):
    """Readers are sent to the other copy, whose drive is away."""
    rng = seeded(seed, "back")
    stage = make_stage(targets=2, drives=2)
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    cluster.create_bucket("cut", BUCKETS["on nodes"])
    wait_until_in_place(cluster)
    bodies = cluster.fill("cut", 16, 50 * KIB, rng)
    stage.kill("t1", "t2")
    away = rng.choice(cluster.drives("t2"))
    lost = {said["name"] for said in attribute.decoded([away]).values()}
    assert lost, "nothing lies there"
    shutil.rmtree(away)
    away.mkdir()
    slow = ";".join(f"drive.slow.{drive}=error" for drive in cluster.drives("t1"))
    stage.start("t1", "t2", fail_points={"t1": slow}, served=False)
    wait_until(lambda: slow_flags_of(cluster, "t1") == [1, 1], 20, "the drives are said to be slow")
    for _ in range(8):  # each time at whichever node the proxy chooses
        for name in rng.sample(sorted(bodies), len(bodies)):
            answer = cluster.get("cut", name)
            assert answer.status == 200 and answer.body == bodies[name], f"{name}: {answer!r:.300}"
    assert stage.fail_point_hits("t1", f"drive.slow.{cluster.drives('t1')[0]}") > 0
    print(f"injected: the other copies of {len(lost)} of {len(bodies)} objects are on slow drives")


@pytest.mark.gate("C11 beside A1: a slow drive serves while the other target is dead and still has its lease")
def test_readers_are_not_sent_from_a_slow_drive_to_a_dead_target(make_stage, seed):
    """A proxy hears at once that a target was killed; the targets, which send readers on, when its lease ends."""
    rng = seeded(seed, "dead")
    stage = make_stage(targets=2, drives=1, settings={"lease.term": "60s"})
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    cluster.create_bucket("cut", BUCKETS["on nodes"])
    wait_until_in_place(cluster)
    bodies = cluster.fill("cut", 16, 50 * KIB, rng)
    stage.kill("t1")
    (drive,) = cluster.drives("t1")
    stage.start("t1", fail_points={"t1": f"drive.slow.{drive}=error"})
    wait_until(lambda: slow_flags(stage) == [1], 20, "the drive is said to be slow")
    begun = time.monotonic()
    stage.kill("t2")
    dead = cluster.nodes["t2"]["id"]
    wait_until(lambda: cluster.metric("p1", "tarn_target_suspect", target=dead) == 1, 10, "the proxy knows")
    for door in (cluster.endpoint, cluster.relay):
        for name in rng.sample(sorted(bodies), len(bodies)):
            answer = client.request("GET", cluster.url("cut", name, door))
            assert answer.status == 200 and answer.body == bodies[name], f"{name}: {answer!r:.300}"
    seconds = time.monotonic() - begun
    assert seconds < 60 and slow_flags(stage) == [1], "the lease has ended, or the drive was not slow"
    print(f"injected: t2 was killed, t1 is slow; detected: {2 * len(bodies)} reads served within {seconds:.1f} s, with its lease still valid")
