"""Drives that were lost while their target ran, and are there again (docs/reliability.md C3, C7, D5). The target takes them back by itself,
if it may trust them (docs/decisions/020)."""

import json

import disks
import pytest
from copies import wait_full
from disks import seeded
from harness.cli import Cli
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until
from stage import DRIVE_ERRORS

ON_DRIVES = {"mirror": {"enabled": True, "copies": 2}}
needs_fuse = pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
pytestmark = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")


def up(stage, target, disk):
    return stage.cluster.metric(target, "tarn_drive_up", drive=str(disk.mountpoint))


def wait_let_go(stage, target, disk, before=0):
    """Until nothing of the target keeps it from being unmounted."""
    log = stage.cluster.logs[target]
    wait_until(lambda: len(log.matching(f"drive let go of drive={disk.mountpoint} ")) > before, 10, "it is let go of")
    wait_until(lambda: len(log.matching(f"drive closed drive={disk.mountpoint}$")) > before, 10, "it is closed")


def put(client, names, bucket="data", size=3000):
    for name in names:
        op = client.put(bucket, name, size)
        assert op.status == 200, op.line()


def lying_on(stage, target, disk):
    return sorted(stage.objects_on(target, disk.mountpoint))


def test_a_drive_that_vanishes_serves_again_when_it_is_mounted(make_stage, seed):
    """While it is away what lives there is 503, and an empty file system in its place stays empty; back again, all is there."""
    rng = seeded(seed, "vanished")
    stage = make_stage(targets=1, drives=2, fs="ext4")
    cluster, disk = stage.cluster, rng.choice(stage.disks["t1"])
    cluster.expect_errors(DRIVE_ERRORS)
    judge = stage.client("judge", timeout=30)
    names = [f"n-{i:04}" for i in range(60)]
    put(judge, names)
    mine = lying_on(stage, "t1", disk)
    for turn in range(2):
        disks.run("umount", "-l", disk.mountpoint)
        wait_let_go(stage, "t1", disk, before=turn)
        assert {judge.get("data", name).status for name in mine} == {503}
        assert {judge.put("data", name, 10).status for name in mine[:3]} == {503}
        assert {judge.get("data", name).status for name in names if name not in mine} == {200}
        if turn == 0:
            # An unknown disk, empty: it is not written to.
            other = disk.lab.disk("other", "ext4")
            other.mountpoint = disk.mountpoint
            other.mount()
            stays_out(stage, "t1", disk)
            assert [path.name for path in disk.mountpoint.iterdir()] == ["lost+found"]
            other.umount()
        disk.mount()
        wait_until(lambda: up(stage, "t1", disk) == 1, 15, "it is in again")
        wait_until(lambda: judge.get("data", mine[0]).status == 200, 10, "it serves")
        put(judge, mine[:3], size=500)
    print(f"injected: a drive with {len(mine)} of {len(names)} objects vanished twice; detected: taken back "
          f"{len(cluster.logs['t1'].matching('drive is back'))} times")
    assert len(cluster.logs["t1"].matching("drive is back")) == 2
    stage.check(judge, names)


def test_a_drive_that_comes_and_goes_stays_out_and_is_said_to(make_stage):
    """After five returns a day, until an operator attaches it."""
    stage = make_stage(targets=1, drives=2, fs="ext4")
    cluster, disk = stage.cluster, stage.disks["t1"][0]
    cluster.expect_errors(DRIVE_ERRORS + "|drive not taken back")
    cli = Cli(cluster.endpoint)

    def note():
        rows = json.loads(cli.ok("--json", "drive", "ls"))
        return {row["drive"]: row for row in rows}[str(disk.mountpoint)]["note"]

    for turn in range(6):
        disks.run("umount", "-l", disk.mountpoint)
        wait_let_go(stage, "t1", disk, before=turn)
        disk.mount()
        if turn < 5:
            wait_until(lambda: up(stage, "t1", disk) == 1, 15, "it is in again")
    wait_until(lambda: "5 times within a day" in note(), 15, "it is said why it stays out")
    said = note()
    assert up(stage, "t1", disk) == 0
    disks.run("umount", "-l", disk.mountpoint)
    wait_until(lambda: note() and "5 times within a day" not in note(), 15, "it is said that it is gone, and no more why it stays out")
    disk.mount()
    wait_until(lambda: note() == said, 15, "it is said again")
    print(f"injected: a drive vanished and came back six times, and once more; detected: {said}")
    cli.ok("drive", "attach", cluster.nodes["t1"]["id"], disk.mountpoint)
    wait_until(lambda: up(stage, "t1", disk) == 1, 15, "it is in again")


def stays_out(stage, target, disk, seconds=4):
    """For some looks of the target."""
    with pytest.raises(AssertionError):
        wait_until(lambda: up(stage, target, disk) == 1, seconds, "it is in again", every=0.2)


@needs_fuse
def test_a_drive_whose_sync_failed_stays_out_until_it_is_mounted_anew(make_stage, seed):
    """C3: what a kernel has in memory after a failed sync need not be what the disk has. When the file system has been unmounted that is
    gone: then the drive comes back."""
    rng = seeded(seed, "failed sync")
    stage = make_stage(targets=1, drives=2, faultable=True, fs="ext4")
    cluster, disk = stage.cluster, rng.choice(stage.disks["t1"])
    cluster.expect_errors(DRIVE_ERRORS)
    judge = stage.client("judge", timeout=30)
    names = [f"n-{i:04}" for i in range(40)]
    put(judge, names)
    mine = lying_on(stage, "t1", disk)
    disk.daemon.rule("eio flush always")
    wait_until(lambda: judge.put("data", mine[0], 100_000).status == 503 and up(stage, "t1", disk) == 0, 20, "it is out", every=0.1)
    wait_let_go(stage, "t1", disk)
    hits = sum(disk.daemon.stats().values())
    disk.daemon.clear()
    # The disk works again, but what memory has of it is not trusted.
    stays_out(stage, "t1", disk)
    assert judge.get("data", mine[1]).status == 503
    disk.umount()
    stays_out(stage, "t1", disk, seconds=2)
    disk.mount()
    wait_until(lambda: up(stage, "t1", disk) == 1, 15, "it is in again")
    print(f"injected: {hits} flushes of the disk failed; detected: out until it was mounted anew")
    assert hits > 0
    stage.check(judge, names)


@needs_fuse
def test_a_drive_that_takes_files_again_after_a_failed_sync_waits_for_its_mount(make_stage, lab, seed):
    """C3 on a file system that, unlike ext4, continues after a failed sync: nothing shows that data in memory may be lost. It is taken
    back when it is mounted anew, and not before."""
    rng = seeded(seed, "failed sync, no sign of it")
    stage = make_stage(targets=1, drives=2, faulty=True)
    cluster, disk = stage.cluster, rng.choice(stage.disks["t1"])
    cluster.expect_errors(DRIVE_ERRORS)
    judge = stage.client("judge", timeout=30)
    names = [f"n-{i:04}" for i in range(40)]
    put(judge, names)
    mine = lying_on(stage, "t1", disk)
    disk.rule("eio fsync * always")
    wait_until(lambda: judge.put("data", mine[0], 100_000).status == 503 and up(stage, "t1", disk) == 0, 20, "it is out", every=0.1)
    wait_let_go(stage, "t1", disk)
    hits = disk.stats().get("eio.fsync", 0)
    disk.clear()
    (disk.mountpoint / "probe").write_bytes(b"it takes files")
    stays_out(stage, "t1", disk)
    disk.close()
    lab.fault_fs(f"{disk.name}-again", directory=disk.directory, mountpoint=disk.mountpoint)
    wait_until(lambda: up(stage, "t1", disk) == 1, 15, "it is in again")
    print(f"injected: {hits} syncs of files failed; detected: out until it was mounted anew")
    assert hits > 0
    stage.check(judge, names)


def test_what_changed_meanwhile_is_not_taken_from_a_drive_that_returns(make_stage, seed):
    """D5 without an operator: copies on drives are overwritten and deleted while one is away."""
    rng = seeded(seed, "returned")
    stage = make_stage(targets=1, drives=3, fs="ext4")
    cluster, disk = stage.cluster, rng.choice(stage.disks["t1"])
    cluster.expect_errors(DRIVE_ERRORS)
    cluster.create_bucket("m", ON_DRIVES)
    judge = stage.client("judge", timeout=30)
    names = [f"n-{i:04}" for i in range(60)]
    put(judge, names, "m")
    wait_full(cluster, len(names), "m")
    mine = lying_on(stage, "t1", disk)
    disks.run("umount", "-l", disk.mountpoint)
    wait_let_go(stage, "t1", disk)
    rng.shuffle(mine)
    third = len(mine) // 3
    put(judge, mine[:third], "m", size=700)
    for name in mine[third : 2 * third]:
        assert judge.delete("m", name).status == 200
    disk.mount()
    wait_until(lambda: up(stage, "t1", disk) == 1, 15, "it is in again")
    stage.check(judge, names, "m", only=lambda op: op.bucket == "m")
    wait_until_in_place(cluster)
    wait_full(cluster, len(cluster.names("m")), "m")
    stage.check(judge, names, "m", only=lambda op: op.bucket == "m")
    print(f"injected: {third} of {len(mine)} objects of a drive overwritten, {third} deleted while it was away; detected: nothing old")
