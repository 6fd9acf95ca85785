"""Drives that answer with errors (docs/reliability.md C1 to C3): what single copies can keep, they keep.

A read that fails costs that object. A write that fails sends new objects to the next drive. A sync that fails ends the
drive, since the kernel's pages of such a file cannot be trusted afterwards.
"""

import disks
import pytest
from disks import seeded
from harness import client as http
from harness.waiting import wait_until
from latency import forget_pages
from load import Crowd
from stage import DRIVE_ERRORS, Churn

MIB = 1 << 20
pytestmark = pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
needs_ext4 = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")


def files_of(stage, target, drive):
    """{name: path below the drive} of its objects."""
    return {name: path.relative_to(drive.mountpoint) for name, path in stage.objects_on(target, drive.mountpoint).items()}


def metric(stage, node, name, drive):
    return stage.cluster.metric(node, f"tarn_drive_{name}", drive=str(drive.mountpoint))


def notes_of(cluster):
    """The notes on drives of t1 that are not well, by path."""
    said = http.request("GET", cluster.endpoint + "/v1/cluster?what=mountpaths").json()
    return said[cluster.nodes["t1"]["id"]].get("notes", {})


def stored(stage, seed, sizes, count=60):
    """A client and the names of `count` objects that it has put."""
    rng, client = seeded(seed, "stored"), stage.client("judge")
    names = [f"n-{i:04}" for i in range(count)]
    for name in names:
        assert client.put("data", name, rng.choice(sizes)).status == 200
    return client, names


@pytest.mark.gate("C1")
def test_an_unreadable_sector_costs_its_object_and_nothing_else(make_stage, seed):
    """C1: EIO on read, in the first block and after it; counted; all other objects are read meanwhile."""
    rng = seeded(seed, "C1")
    stage = make_stage(targets=1, drives=2, faulty=True)
    cluster, drive = stage.cluster, stage.disks["t1"][0]
    cluster.expect_errors(DRIVE_ERRORS)
    judge, names = stored(stage, seed, (5000, 70_000, 5 * MIB))
    files = files_of(stage, "t1", drive)
    bad = rng.sample(sorted(files), 20)
    for name in bad:
        path = drive.mountpoint / files[name]
        forget_pages(path)
        # Half of the large ones fail in the middle, when the answer has begun: never a short one.
        skip = 16 if path.stat().st_size > 4 * MIB and rng.random() < 0.5 else 0
        drive.rule(f"eio read {files[name]} always skip={skip}")
    before = metric(stage, "t1", "read_errors", drive)
    answers = {name: judge.get("data", name) for name in names}
    injected, counted = drive.stats().get("eio.read", 0), metric(stage, "t1", "read_errors", drive) - before
    refused = sorted(name for name, op in answers.items() if op.status != 200)
    print(f"injected: {injected} reads of {len(bad)} objects failed; detected: {len(refused)} objects answered "
          f"{sorted({answers[name].status for name in refused})} (0: cut), {counted:.0f} errors counted")
    assert refused == sorted(bad) and {answers[name].status for name in bad} <= {503, 0}
    assert counted >= len(bad) and injected >= len(bad)
    assert metric(stage, "t1", "up", drive) == 1, "one bad sector is not the end of a drive"
    # Overwriting and deleting work, and without the fault all is there.
    assert judge.put("data", bad[0], 1000).status == 200 and judge.get("data", bad[0]).status == 200
    assert judge.delete("data", bad[1]).status == 200
    drive.clear()
    stage.check(judge, names)
    assert stage.is_alive("t1")


@pytest.mark.gate("C2")
def test_a_failed_write_sends_new_objects_to_the_next_drive(make_stage, seed):
    """C2: 503 for the PUT that met it, then a minute without new files; three in a minute and the drive is out."""
    stage = make_stage(targets=1, drives=2, faulty=True)
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    judge, names = stored(stage, seed, (5000, 70_000, 2 * MIB))
    drive, other = stage.disks["t1"]
    mine = sorted(files_of(stage, "t1", drive))
    # An overwrite of a name that lives here meets the error in its second megabyte.
    drive.rule("eio write data/ skip=2 count=1")
    failed = judge.put("data", mine[0], 2 * MIB)
    assert failed.status == 503 and drive.stats()["eio.write"] == 1, failed.line()
    assert metric(stage, "t1", "suspect", drive) == 1 and metric(stage, "t1", "write_errors", drive) == 1
    assert judge.get("data", mine[0]).status == 200, "the version before it"
    files = len(stage.data_files("t1", drive.mountpoint))
    drive.rule("eio write data/ always")
    for name in mine[:10]:
        assert judge.put("data", name, 5000).status == 200, "the next drive has room"
    moved = files_of(stage, "t1", other)
    assert set(mine[:10]) <= set(moved) and drive.stats()["eio.write"] == 1
    assert len(stage.data_files("t1", drive.mountpoint)) <= files
    # Now the other one as well: the next writes get an error, or a drive that is still in, until none is.
    other.rule("eio write data/ always")
    answers = [judge.put("data", f"n-{i:04}", 300_000) for i in range(100, 120)]
    names += [f"n-{i:04}" for i in range(100, 120)]
    injected = drive.stats()["eio.write"] + other.stats()["eio.write"]
    up = [metric(stage, "t1", "up", each) for each in (drive, other)]
    print(f"injected: {injected} writes failed; detected: {sorted({op.status for op in answers})}, drives up {up}")
    assert {op.status for op in answers} == {503} and up == [0, 0]
    assert injected <= 2 * 3 + 2, "an error too many was asked for"
    for each in (drive, other):
        each.clear()
    stage.kill("t1")
    stage.start("t1")
    stage.check(judge, names)
    assert judge.put("data", "n-0100", 1000).status == 200


@pytest.mark.gate("C3")
def test_a_failed_sync_is_asked_for_once_and_ends_the_drive(make_stage, seed):
    """C3: the file's own sync, the second one behind its attribute, the directory's, and that of a DELETE."""
    stage = make_stage(targets=1, drives=2, faulty=True)
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    judge, names = stored(stage, seed, (5000,), count=30)
    total = 0
    for number, (what, skip) in enumerate((("put", 0), ("put", 1), ("put", 2), ("delete", 0))):
        drive, other = stage.disks["t1"][:: 1 if number % 2 == 0 else -1]
        mine = sorted(files_of(stage, "t1", drive))
        before = drive.stats().get("eio.fsync", 0)
        drive.rule(f"eio fsync data/ always skip={skip}")
        name = f"n-{200 + number}"
        if what == "put":
            while True:  # until one belongs to this drive
                op, name = judge.put("data", name, 5000), f"n-{int(name[2:]) + 10}"
                names.append(op.name)
                if op.status != 200:
                    break
        else:
            op = judge.delete("data", mine[0])
        asked = drive.stats().get("eio.fsync", 0) - before
        total += asked
        assert op.status == 503, op.line()
        assert asked == 1, f"{asked} syncs of what a sync had failed for ({what}, {skip})"
        # The metrics say so also where nothing has asked for them before.
        wait_until(lambda: len(cluster.logs["t1"].matching("drive let go of")) == number + 1, 10, "it is let go of")
        assert metric(stage, "t1", "up", drive) == 0 and metric(stage, "t1", "sync_errors", drive) == 1
        assert {judge.get("data", each).status for each in mine if each != op.name} <= {503}
        assert "sync" in notes_of(cluster)[str(drive.mountpoint)], "an operator is told why"
        theirs = sorted(files_of(stage, "t1", other))
        assert {judge.get("data", each).status for each in theirs if each != op.name} == {200}
        drive.clear()
        stage.kill("t1")
        stage.start("t1")
        stage.look(judge, [op.name])
    print(f"injected: {total} failed syncs; detected: the drive was out each time, none was asked for again")
    stage.check(judge, names)


@needs_ext4
@pytest.mark.parametrize("rule", ["eio flush count=1", "eio write count=1 skip=3"])
def test_nothing_acknowledged_is_lost_to_a_disk_that_fails_under_load(make_stage, seed, rule):
    """C2 and C3 below a real file system: its journal gives up, the drive goes, the rest stays."""
    stage = make_stage(targets=1, drives=2, fs="ext4", recording=True)
    cluster, disk = stage.cluster, stage.disks["t1"][0]
    cluster.expect_errors(DRIVE_ERRORS)
    judge, names = stored(stage, seed, (5000, 70_000), count=40)
    crowd = Crowd([stage.client(f"c{i}") for i in range(4)], Churn(seed, names, sizes=(100, 5000, 300_000))).start()
    disk.daemon.rule(rule)
    wait_until(lambda: metric(stage, "t1", "up", disk) == 0, 10, "the drive is out")
    crowd.stop()
    injected = {key: value for key, value in disk.daemon.stats().items() if key.startswith("eio")}
    alive = stage.is_alive("t1")
    served = sum(judge.get("data", name).status == 200 for name in names)
    stage.kill("t1")
    disk.remount()
    stage.start("t1")
    report, _ = stage.check(judge, names)
    print(f"injected: {injected}; detected: the drive out, {served} of {len(names)} names still served, "
          f"{report.unknown} writes without a certain outcome")
    assert alive and sum(injected.values()) >= 1 and served > 0
