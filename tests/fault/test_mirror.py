"""Copies on drives of one target (docs/decisions/013): steps that are cut short, drives that miss something, bad bytes."""

import json
import threading
import time

import disks
import pytest
from copies import wait_full, wait_noted
from disks import seeded
from harness import client as wire
from harness.waiting import wait_until
from history import value_bytes
from load import Crowd
from stage import Churn
from test_bits import CORRUPT, direct_url, read_strictly
from test_power import power_cut

MIB = 1024 * 1024
MIRROR_ERRORS = r" error (drive|index|recovery|target|http|mirror) "
needs_ext4 = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")
# Where a write of two copies is cut short; the second hit is the other drive's.
POINTS = ("put.before_attribute=kill@1", "put.before_attribute=kill@2", "put.before_fsync=kill@2",
          "put.before_dir_fsync=kill@2", "mirror.prepared=kill", "mirror.before_commit=kill", "put.before_index=kill@1",
          "put.before_index=kill@2", "mirror.one_committed=kill@1", "mirror.one_committed=kill@2",
          "mirror.before_reply=kill")
DELETE_POINTS = ("delete.before_tombstone=kill@2", "delete.before_unlink=kill@1", "mirror.one_removed=kill@1")


def make_bucket(cluster, copies=2, name="m"):
    return cluster.create_bucket(name, {"mirror": {"enabled": True, "copies": copies}})


def paths_of(cluster, name, bucket="m"):
    """The drives that hold a copy, the one that placement prefers first."""
    answer = cluster.head(bucket, name)
    assert answer.status == 200, answer
    paths = answer.headers["Ais-Mirror-Paths"].strip("[]").split(",")
    assert int(answer.headers["Ais-Mirror-Copies"]) == len(paths)
    return paths


def wait_answers(judge, names):
    """Until the proxy trusts a target again that has one drive: single copies on that drive are read."""
    wait_until(lambda: any(judge.get("data", name).status == 200 for name in names), 10, "the drive that is there answers")


def in_background(call, *arguments):
    thread = threading.Thread(target=call, args=arguments, daemon=True)
    thread.start()
    return thread


@pytest.mark.gate("A1 of copies on drives")
def test_writes_cut_short_at_every_step_show_one_version(make_stage, seed):
    """Overwrites and deletes of two copies, killed at each step. Readers get the old version or the new one, never back
    and forth, and all copies are soon alike."""
    rng = seeded(seed, "mirror steps")
    stage = make_stage(targets=1, drives=2)
    cluster, judge = stage.cluster, stage.client("judge", timeout=20)
    make_bucket(cluster)
    names, there = [], 0
    for number, point in enumerate(POINTS + DELETE_POINTS):
        name = f"n-{number:04}"
        names.append(name)
        assert judge.put("m", name, rng.choice((0, 100, 70_000, MIB + 7))).status == 200
        stage.wait_tidy(2 * (there + 1), seconds=60)  # else the repair of one before might be what is killed
        stage.kill("t1")
        stage.start("t1", fail_points={"t1": point})
        writer = stage.client(f"w{number}", timeout=20)
        op = writer.delete("m", name) if point in DELETE_POINTS else writer.put("m", name, rng.choice((1, 5000, MIB)))
        assert op.outcome == "unknown", f"{point}: {op.line()}"
        stage.wait_gone("t1")
        stage.start("t1")
        there += stage.look(judge, [name], "m")[name][0].outcome == "done"
    _, found = stage.check(judge, names, "m")
    print(f"injected: {len(POINTS + DELETE_POINTS)} kills between steps; adopted {stage.recovered('t1', 'adopted')} files")
    objects = sum(get.outcome == "done" for get, _ in found.values())
    wait_full(cluster, objects)
    stage.wait_tidy(2 * objects)


def test_load_with_kills_keeps_copies_in_step(make_stage, seed):
    """Random load on mirrored names while the target is killed again and again; the checker over everything."""
    rng = seeded(seed, "mirror load")
    stage = make_stage(targets=1, drives=3)
    judge = stage.client("judge")
    make_bucket(stage.cluster)
    names = [f"n-{i:04}" for i in range(12)]
    for number in range(6):
        clients = [stage.client(f"r{number}c{i}") for i in range(3)]
        crowd = Crowd(clients, Churn(f"{seed}/{number}", names, bucket="m", sizes=(0, 100, 70_000, 300_000))).start()
        time.sleep(rng.uniform(0.1, 0.5))
        stage.kill("t1")
        crowd.stop()
        stage.start("t1")
        stage.look(judge, names, "m")
    _, found = stage.check(judge, names, "m")
    objects = sum(get.outcome == "done" for get, _ in found.values())
    wait_full(stage.cluster, objects)
    stage.wait_tidy(2 * objects)


@needs_ext4
def test_what_a_reader_saw_outlives_the_drive_it_came_from(make_stage, seed):
    """No version is seen before every copy of it is prepared: the drive on which a client saw it dies right then."""
    stage = make_stage(targets=1, drives=2, fs="ext4")
    cluster, judge = stage.cluster, stage.client("judge", timeout=20)
    cluster.expect_errors(MIRROR_ERRORS)
    make_bucket(cluster)
    names = [f"n-{i:04}" for i in range(20)]
    for name in names:
        assert judge.put("data", name, 100).status == 200
    stage.kill("t1")
    stage.start("t1", fail_points={"t1": "put.before_attribute=sleep:4000@2"})
    writer = in_background(stage.client("writer", timeout=20).put, "m", "new", 6000)
    wait_until(lambda: stage.fail_point_hits("t1", "put.before_attribute"), 10, "the second copy is being prepared")
    seen = [judge.get("m", "new").status for _ in range(5)]
    first = paths_of(cluster, "new")[0] if 200 in seen else str(stage.disks["t1"][0].mountpoint)
    stage.kill("t1")
    writer.join()
    (disk,) = [disk for disk in stage.disks["t1"] if str(disk.mountpoint) == first]
    disk.umount()
    stage.start("t1", served=False)
    wait_answers(judge, names)
    after = judge.get("m", "new").status
    assert 200 not in seen or after == 200, f"seen ({seen}) with one copy only, and gone with its drive ({after})"
    stage.kill("t1")
    disk.mount()
    stage.start("t1")
    print(f"injected: killed while the second copy was prepared; seen before {seen}, without a drive {after}")
    stage.check(judge, ["new"], "m")


@needs_ext4
def test_a_drive_that_missed_changes_never_brings_them_back(make_stage, seed):
    """A drive vanishes, names on it are overwritten and deleted; then it is back, and the one that knows better is away."""
    stage = make_stage(targets=1, drives=2, fs="ext4")
    cluster, judge = stage.cluster, stage.client("judge", timeout=20)
    cluster.expect_errors(MIRROR_ERRORS)
    make_bucket(cluster)
    names = [f"n-{i:04}" for i in range(20)]
    for name in names:
        assert judge.put("m", name, 5000).status == 200
        assert judge.put("data", name, 100).status == 200
    wait_full(cluster, len(names))
    lost, other = stage.disks["t1"]
    disks.run("umount", "-l", lost.mountpoint)
    wait_until(lambda: cluster.metric("t1", "tarn_drive_up", drive=str(lost.mountpoint)) == 0, 10, "the drive is out")
    for name in names:
        assert judge.get("m", name).status == 200, "a name with a copy on the other drive"
    overwritten, deleted = names[:8], names[8:14]
    for name in overwritten:
        assert judge.put("m", name, 6000).status == 200
    for name in deleted:
        assert judge.delete("m", name).status == 200
    assert cluster.put("m", "n-0099", b"new").headers.get("Tarn-Durability") == "degraded"
    # Now only the drive that missed all of it.
    stage.kill("t1")
    lost.mount()
    other.umount()
    stage.start("t1", served=False)
    wait_answers(judge, names)
    for name in names:
        judge.get("m", name)
        judge.head("m", name)
    stale = [name for name in names if judge.get("m", name).status == 200]
    assert stale == [], f"a drive that was away is believed alone: {stale}"
    # With both it is brought up to date, and then it can stand alone.
    stage.kill("t1")
    other.mount()
    stage.start("t1")
    stage.look(judge, names, "m")
    wait_full(cluster, len(names) - len(deleted) + 1)
    wait_until(lambda: cluster.logs["t1"].matching("drive has caught up"), 20, "the drive has caught up")
    stage.kill("t1")
    other.umount()
    stage.start("t1", served=False)
    wait_answers(judge, names)
    for name in overwritten + names[14:]:
        assert judge.get("m", name).status == 200, name
    for name in deleted:
        assert judge.get("m", name).status != 200
    stage.kill("t1")
    other.mount()
    stage.start("t1")
    assert cluster.delete("m", "n-0099").status == 200
    stage.check(judge, names, "m")
    print(f"injected: a drive away during {len(overwritten)} overwrites and {len(deleted)} deletes")


@needs_ext4
def test_a_drive_does_not_catch_up_with_what_lies_on_one_that_is_away(make_stage, seed):
    """Three drives: the first misses changes and comes back while the second, which has them, is away."""
    stage = make_stage(targets=1, drives=3, fs="ext4")
    cluster, judge = stage.cluster, stage.client("judge", timeout=20)
    cluster.expect_errors(MIRROR_ERRORS)
    make_bucket(cluster)
    names = [f"n-{i:04}" for i in range(30)]
    for name in names:
        assert judge.put("m", name, 5000).status == 200
    first, second, _ = stage.disks["t1"]
    stage.kill("t1")
    first.umount()
    stage.start("t1", served=False)
    wait_until(lambda: judge.get("m", names[0]).status == 200, 10, "the target answers")
    # Before the copies of the first drive are made anew elsewhere, or after it: both are fine.
    for name in names[:15]:
        assert judge.put("m", name, 6000).status == 200
    for name in names[15:20]:
        assert judge.delete("m", name).status == 200
    on_second = set(stage.objects_on("t1", second.mountpoint)) & set(names[:15])
    stage.kill("t1")
    first.mount()
    second.umount()
    # Nor is the third there: only what is known of the first one's absence tells.
    third = stage.disks["t1"][2]
    third.umount()
    stage.start("t1", served=False)
    wait_until(lambda: cluster.logs["t1"].matching("drives stay stale until all are there"), 20, "it is known to be stale")
    for name in names:
        assert judge.get("m", name).status != 200, name
    stage.kill("t1")
    second.mount()
    third.mount()
    stage.start("t1")
    stage.check(judge, names, "m")
    wait_full(cluster, 25)
    wait_until(lambda: cluster.logs["t1"].matching("drive has caught up"), 20, "the drive has caught up")
    print(f"injected: changes missed by one drive, {len(on_second)} of them on the second")


@needs_ext4
def test_copies_of_a_drive_that_is_out_are_made_again(make_stage, seed):
    """Three drives, two copies: one drive goes, and every object has two copies again without a request."""
    stage = make_stage(targets=1, drives=3, fs="ext4")
    cluster, judge = stage.cluster, stage.client("judge", timeout=20)
    cluster.expect_errors(MIRROR_ERRORS)
    make_bucket(cluster)
    names = [f"n-{i:04}" for i in range(40)]
    for name in names:
        assert judge.put("m", name, 20_000).status == 200
    lost, kept = stage.disks["t1"][:2]
    on_lost = len(stage.objects_on("t1", lost.mountpoint))
    assert 0 < on_lost < len(names)
    # Else an object might lie on that drive alone, for all that the target knows.
    ledger = kept.mountpoint / ".tarn/mirror.json"
    wait_until(lambda: ledger.exists() and json.loads(ledger.read_text())["complete"], 120, "a pass with all drives has ended", every=1)
    disks.run("umount", "-l", lost.mountpoint)
    wait_until(lambda: cluster.redundancy("m")["drives_away"] == 1, 10, "the drive is out")
    assert not cluster.redundancy("m")["complete"], "it may be back"
    wait_full(cluster, len(names))
    wait_until(lambda: cluster.redundancy("m")["complete"], 120, "no object is on the drive alone", every=1)
    assert cluster.redundancy("m")["drives_away"] == 1
    for name in names:
        assert str(lost.mountpoint) not in paths_of(cluster, name)
        assert judge.get("m", name).status == 200
    # It comes back with copies that are too many now.
    stage.kill("t1")
    lost.mount()
    stage.start("t1")
    wait_full(cluster, len(names))
    wait_until(lambda: cluster.redundancy("m")["by_copies"] == {"2": len(names)}, 20, "spare copies are gone")
    stage.check(judge, names, "m")
    stage.wait_tidy(2 * len(names))


@needs_ext4
def test_a_reader_goes_on_with_another_copy(make_stage, seed):
    """C6 with two copies: bits turn in one of them, first block and later ones; no reader notices, and it is made anew."""
    rng = seeded(seed, "mirror flips")
    stage = make_stage(targets=1, drives=2, fs="ext4")
    cluster = stage.cluster
    cluster.expect_errors(CORRUPT)
    make_bucket(cluster)
    size = 9 * MIB + 4321
    body = value_bytes(0x7A52000000000042, size)
    logged = cluster.logs["t1"].matching
    for number, place in enumerate((100, 5 * MIB + 17, size - 1)):
        # A reader may find the other drive less busy; that copy stays open, and readers keep to it until the name is
        # written anew.
        for _ in range(20):
            assert cluster.put("m", "n-0001", body).status == 200
            first = paths_of(cluster, "n-0001")[0]
            (disk,) = [disk for disk in stage.disks["t1"] if str(disk.mountpoint) == first]
            disk.flip(stage.objects_on("t1", disk.mountpoint)["n-0001"], place, rng.randrange(8))
            met = len(logged("copy given up by a reader"))
            assert read_strictly(direct_url(cluster, "m", "n-0001")) == (200, body), place
            if len(logged("copy given up by a reader")) > met:
                break
        wait_until(lambda so_far=number: len(logged("bad copy made anew")) == so_far + 1, 20, "it is made anew")
    (counted,) = {cluster.metric("t1", "tarn_drive_corrupt_blocks", drive=str(disk.mountpoint))}
    assert counted >= 3
    before = counted
    for _ in range(3):
        assert read_strictly(direct_url(cluster, "m", "n-0001")) == (200, body)
    assert cluster.metric("t1", "tarn_drive_corrupt_blocks", drive=str(disk.mountpoint)) == before
    wait_full(cluster, 1)
    stage.wait_tidy(2)


def test_mirrored_names_survive_power_cuts(make_stage, fs, seed):
    """B1 for copies: both drives of a node at once, under load."""
    rng = seeded(seed, "B1 mirror", fs)
    stage = make_stage(targets=1, drives=2, fs=fs)
    stage.cluster.expect_errors(MIRROR_ERRORS)
    make_bucket(stage.cluster)
    judge = stage.client("judge")
    names = [f"n-{i:04}" for i in range(20)]
    for number in range(3):
        churn = Churn(f"{seed}/{number}", names, bucket="m", sizes=(0, 100, 4096, 70_000))
        power_cut(stage, rng, stage.disks["t1"], ["t1"], churn, f"r{number}")
        stage.look(judge, names, "m")
    _, found = stage.check(judge, names, "m")
    wait_full(stage.cluster, sum(get.outcome == "done" for get, _ in found.values()))


def put_away(drive):
    """Replaces a drive by an empty directory, as an unmount does."""
    drive.rename(drive.with_name(drive.name + ".away"))
    drive.mkdir()


def put_back(drive):
    drive.rmdir()
    drive.with_name(drive.name + ".away").rename(drive)


def test_a_name_that_no_drive_shows_is_absent_only_when_all_have_their_copies(make_stage):
    """With fewer drives away than copies, what is not seen does not exist, unless a write had to do with fewer."""
    stage = make_stage(targets=1, drives=3)
    cluster = stage.cluster
    cluster.expect_errors(MIRROR_ERRORS)
    make_bucket(cluster)
    cluster.fill("m", dict.fromkeys(("a", "b", "c"), b"x" * 100))
    d1, d2, d3 = cluster.drives("t1")

    def ask(name):
        return wire.request("GET", cluster.url("m", name), expect=False)

    def get(name):
        return ask(name).status

    def restart(away=(), back=()):
        stage.kill("t1")
        for drive in away:
            put_away(drive)
        for drive in back:
            put_back(drive)
        stage.start("t1", served=False)
        wait_until(lambda: (said := ask("never")).status == 404 or b"is away" in said.body, 10, "the target is trusted again")

    ledger = d1 / ".tarn/mirror.json"
    wait_until(lambda: ledger.exists() and "complete" in json.loads(ledger.read_text()), 10, "a pass found all copies")
    restart(away=[d2])
    assert get("never") == 404 and sorted(cluster.names("m")) == ["a", "b", "c"], "each name is on one of two drives"
    assert cluster.put("m", "d", b"x" * 100).status == 200
    assert cluster.delete("m", "c").status == 200 and get("c") == 404
    restart(away=[d3])
    wait_until(lambda: cluster.put("m", "only", b"y" * 100).status == 200, 10, "a copy less is written")
    assert get("never") == 503
    restart(away=[d1], back=[d2, d3])
    assert get("only") == 503, "its only copy is away"
    assert cluster.list_page("m").status == 503
    restart(back=[d1])
    wait_until(lambda: get("only") == 200, 10, "it is there again")
    wait_until(lambda: sorted(cluster.names("m")) == ["a", "b", "d", "only"], 10, "so are all")
    print("injected: a write with one copy, whose drive went away")


@pytest.mark.gate("C3 of copies on drives")
@pytest.mark.parametrize("change", ["put", "delete"])
def test_a_change_beside_a_drive_that_fails_leaves_lists_complete(make_stage, seed, change):
    """A drive that fails under a change is replaced by another one, so that what is left shows all names."""
    stage = make_stage(targets=1, drives=4, faulty=True)
    cluster = stage.cluster
    cluster.expect_errors(MIRROR_ERRORS)
    make_bucket(cluster)
    bodies = cluster.fill("m", {f"n-{i:02}": b"%d" % i * 1000 for i in range(16)})
    wait_full(cluster, len(bodies))
    wait_noted(cluster)
    path = paths_of(cluster, "n-07")[0]
    (drive,) = [disk for disk in stage.disks["t1"] if str(disk.mountpoint) == path]
    drive.rule("eio fsync * always")
    if change == "put":
        bodies["n-07"] = b"new" * 1000
        wait_until(lambda: cluster.put("m", "n-07", bodies["n-07"]).status == 200, 20, "it is written")
    else:
        del bodies["n-07"]
        wait_until(lambda: cluster.delete("m", "n-07").status in (200, 404), 20, "it is deleted")
    wait_until(lambda: cluster.metric("t1", "tarn_drive_up", drive=path) == 0, 20, "the drive is out")
    assert drive.stats().get("eio.fsync", 0) > 0, "the drive failed under the change"
    wait_until(lambda: cluster.list_page("m").status == 200, 20, "a list is complete without that drive")
    cluster.assert_bodies("m", bodies)
