"""Drives that fill up, vanish, differ in size, or belong to other nodes or clusters (docs/reliability.md C4, D1 to D4, D9)."""

import errno
import json
import os
import shutil
import subprocess
import time

import checker
import disks
import pytest
from copies import ON_NODES, wait_noted
from disks import seeded
from harness import client
from harness.coded import props as coded_props
from harness.nodes import stored_map, wait_until_in_place
from harness.waiting import scaled, wait_until
from load import Crowd
from stage import DRIVE_ERRORS, Churn, local_cluster

MIB = 1024 * 1024
DOWN = 1 << 16
needs_fuse = pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
needs_ext4 = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")
pytestmark = needs_ext4


def fill(mountpoint):
    """Takes the last block of a file system, as a file of another program might. Returns the path of the file."""
    path = mountpoint / "ballast-of-the-test"

    def is_full():
        fd = os.open(path, os.O_CREAT | os.O_WRONLY)
        size = 4 * MIB
        while size >= 4096:
            try:
                os.posix_fallocate(fd, os.fstat(fd).st_size, size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2
        os.close(fd)
        free = os.statvfs(mountpoint)
        return free.f_bavail * free.f_frsize < 64 * 1024

    wait_until(is_full, 10, f"{mountpoint} is full, with what others gave back meanwhile")
    return path


@pytest.mark.gate("C4")
def test_a_full_drive_refuses_writes_and_does_the_rest(make_stage, seed):
    """C4: 64 MiB. PUTs end in 507 or 503, reads and deletes go on at 100 %, room makes it write again by itself."""
    rng = seeded(seed, "C4")
    stage = make_stage(targets=1, drives=1, fs="ext4", size=64 * MIB)
    cluster, (disk,) = stage.cluster, stage.disks["t1"]
    cluster.expect_errors(DRIVE_ERRORS)
    judge = stage.client("judge")
    names, refused = [], []
    while not refused:
        name = f"n-{len(names)}"
        names.append(name)
        op = judge.put("data", name, rng.choice((1000, 100_000, 300_000)))
        if op.status != 200:
            refused.append(op)
        assert len(names) < 2000, "64 MiB hold gigabytes"
    assert refused[0].status in (503, 507), refused[0].line()
    free = os.statvfs(disk.mountpoint)
    assert free.f_bavail * free.f_frsize >= free.f_blocks * free.f_frsize // 100, "the reserve was used up"

    # Now to the last block, index and log included.
    path = fill(disk.mountpoint)
    answers = [judge.put("data", f"late-{i}", 5000) for i in range(5)]
    assert all(op.status in (503, 507) for op in answers), [op.line() for op in answers]
    names += [f"late-{i}" for i in range(5)]
    deleted = rng.sample(names[:-6], 5)
    for name in deleted:
        op = judge.delete("data", name)
        assert op.status == 200, f"a delete at 100 %: {op.line()}"
    kept = [name for name in names[:-6] if name not in deleted]
    for name in kept:
        assert judge.get("data", name).status == 200, name
    assert stage.is_alive("t1")

    path.unlink()
    wait_until(lambda: judge.put("data", "after", 5000).status == 200, 60, "PUTs work again once there is room")
    names.append("after")
    print(f"injected: full after {len(names)} PUTs, then no block left; detected: {refused[0].status}, "
          f"{[op.status for op in answers]}")
    stage.check(judge, names)
    # And at the start: nothing of the refused is there.
    stage.kill("t1")
    stage.start("t1")
    stage.check(judge, names)


def test_a_full_replica_refuses_at_once_what_is_to_have_a_copy_there(make_stage):
    """C4: 507, as for an object with one copy, with the name of the target that is full; nothing of it is to be seen."""
    stage = make_stage(targets=2, drives=1, fs="ext4", size=64 * MIB)
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    cluster.create_bucket("two", ON_NODES)
    wait_until_in_place(cluster)
    (name,), (single,) = (cluster.names_owned_by(target, bucket, 1) for target, bucket in (("t1", "two"), ("t2", "data")))
    assert cluster.put("two", name, b"before").status == 200
    path = fill(stage.disks["t2"][0].mountpoint)
    alone = cluster.put("data", single, bytes(MIB), expect=False)
    begun = time.monotonic()
    refused = cluster.put("two", name, bytes(MIB), expect=False)
    seconds = time.monotonic() - begun
    print(f"detected: {refused.status} after {seconds:.2f} s: {refused.text}")
    assert (alone.status, refused.status) == (507, 507), (alone, refused)
    assert cluster.nodes["t2"]["id"] in refused.text and "bytes free" in refused.text, refused.text
    assert seconds < scaled(3)
    assert cluster.get("two", name).body == b"before"
    os.unlink(path)
    wait_until(lambda: cluster.put("two", name, b"after", expect=False).status == 200, 10, "there is room again")
    assert cluster.get("two", name).body == b"after"


def unsettled(cluster):
    return {target: cluster.metric(target, "tarn_copies_pending") for target in cluster.targets()}


def three_replicas_one_full(make_stage, **options):
    """Returns a cluster in which all names have copies on t1, t2 and t3, an object of t1 older than the fullness of t3, and the file that
    fills t3."""
    stage = make_stage(targets=3, drives=1, fs="ext4", size=64 * MIB, **options)
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    cluster.create_bucket("three", {"mirror": ON_NODES["mirror"] | {"copies": 3}})
    wait_until_in_place(cluster)
    (name,) = cluster.names_owned_by("t1", "three", 1)
    assert cluster.put("three", name, b"before").status == 200
    drive = stage.disks["t3"][0].mountpoint
    path = fill(drive)
    wait_until(lambda: cluster.metric("t3", "tarn_drive_free_bytes", drive=str(drive)) < 64 * 1024, 10, "t3 knows that it is full")
    return cluster, name, path


def read_at(cluster, target, name):
    """Reads as a client that a proxy has sent to the target, and that follows redirects."""
    return client.request("GET", cluster.url("three", name, base=cluster.url_of(target)), expect=False)


def test_where_one_of_three_replicas_is_full_nothing_is_stored_at_the_others(make_stage):
    """C4: all clients read the old version, whichever replica they ask, also when the owner has died."""
    cluster, name, path = three_replicas_one_full(make_stage)
    for _ in range(5):
        begun = time.monotonic()
        refused = cluster.put("three", name, bytes(MIB), expect=False)
        assert refused.status == 507 and cluster.nodes["t3"]["id"] in refused.text, refused
        assert time.monotonic() - begun < scaled(3)
        assert not any(unsettled(cluster).values()), unsettled(cluster)
    for target in ("t1", "t2", "t3"):
        assert read_at(cluster, target, name).body == b"before", target
    cluster.kill("t1")
    wait_until(lambda: cluster.get("three", name, expect=False).status == 200, 10, "another replica serves")
    for target in ("t2", "t3"):
        assert read_at(cluster, target, name).body == b"before", target
    os.unlink(path)
    cluster.start("t1")
    wait_until(lambda: cluster.put("three", name, b"after", expect=False).status == 200, 20, "there is room again")
    for target in ("t1", "t2", "t3"):
        wait_until(lambda: read_at(cluster, target, name).body == b"after", 10, f"{target} has it")
    wait_until(lambda: not any(unsettled(cluster).values()), 20, "every version is complete")


def test_what_one_replica_has_stored_when_another_is_full_is_settled_when_there_is_room(make_stage):
    """The room went between the question and the answer, so one replica has the new version: no client sees it until all have it."""
    without = {f"t{i}": {"TARN_FAIL_POINTS": "safety.copies_room=off"} for i in (1, 2, 3)}
    cluster, name, path = three_replicas_one_full(make_stage, environment=without)
    assert cluster.put("three", name, b"after" * 100_000, expect=False).status == 507
    assert any(unsettled(cluster).values()), unsettled(cluster)

    def seen_at(*targets):
        answers = [(target, read_at(cluster, target, name)) for _ in range(20) for target in targets]
        found = {(target, answer.status, answer.body[:6] if answer.status == 200 else b"") for target, answer in answers}
        print(f"read while one replica is full: {sorted(found)}")
        return {(status, body) for _, status, body in found}

    assert seen_at("t1", "t2", "t3") == {(200, b"before")}
    cluster.kill("t1")
    wait_until(lambda: any(each["flags"] & DOWN for each in stored_map(cluster)["nodes"]), 15, "its lease has ended")
    assert seen_at("t2", "t3") == {(200, b"before")}
    cluster.start("t1")
    os.unlink(path)
    wait_until(lambda: not any(unsettled(cluster).values()), 30, "every version is complete")
    assert {read_at(cluster, target, name).body for target in ("t1", "t2", "t3")} == {b"after" * 100_000}


def test_drives_of_unequal_size_fill_up_together(make_stage, seed):
    """D9: one drive of 64 MiB, one of 256: names are shared out by size. While any has room everything is taken; then
    the rules of C4 hold, for both."""
    rng = seeded(seed, "D9")
    stage = make_stage(apart=True, targets=1, drives=2, fs="ext4", size=[64 * MIB, 256 * MIB])
    cluster, (small, large) = stage.cluster, stage.disks["t1"]
    cluster.expect_errors(DRIVE_ERRORS)
    judge = stage.client("judge")

    def used(disk):
        now = os.statvfs(disk.mountpoint)
        return 1 - now.f_bavail / now.f_blocks

    names, refused, first_full = [], [], None
    while not refused:
        name = f"n-{len(names)}"
        names.append(name)
        op = judge.put("data", name, rng.choice((1000, 100_000, 300_000)))
        if op.status != 200:
            refused.append(op)
        if first_full is None and used(small) > 0.85:
            first_full = used(large)
        assert len(names) < 5000, "320 MiB hold gigabytes"
    # Were half of all names to lie on the small one, the large one would be a quarter full when the small one is.
    assert first_full is not None and first_full > 0.5, first_full
    assert refused[0].status in (503, 507), refused[0].line()
    full = used(small), used(large)
    assert min(full) > 0.9, full
    for disk in (small, large):
        free = os.statvfs(disk.mountpoint)
        assert free.f_bavail * free.f_frsize >= free.f_blocks * free.f_frsize // 100, "the reserve was used up"
    deleted = rng.sample(names[:-1], 40)
    for name in deleted:
        assert judge.delete("data", name).status == 200, name
    wait_until(lambda: judge.put("data", "after", 5000).status == 200, 60, "PUTs work again once there is room")
    # After a start, too, what lies on the other drive than its own is found, and nothing deleted is.
    stage.kill("t1")
    stage.start("t1")
    print(f"injected: drives of 64 and 256 MiB; detected: the large one was {first_full:.0%} full when the small one was, "
          f"both {min(full):.0%} after {len(names)} PUTs, then {refused[0].status}")
    stage.check(judge, [*names, "after"])


def test_drives_of_unequal_size_fill_up_together_with_slices(make_stage, seed):
    """D9 under a coded bucket: each target has a small drive and a large one; slices go where there is room until there is none."""
    rng = seeded(seed, "D9 coded")
    stage = make_stage(targets=3, drives=2, fs="ext4", size=[48 * MIB, 128 * MIB])
    cluster, body = stage.cluster, rng.randbytes(6 * MIB)
    cluster.expect_errors(DRIVE_ERRORS)
    cluster.create_bucket("cut", coded_props("striped", 2, 1))
    wait_until_in_place(cluster)

    def used(disk):
        now = os.statvfs(disk.mountpoint)
        return 1 - now.f_bavail / now.f_blocks

    answers = []
    while not answers or answers[-1].status == 200:
        answers.append(cluster.put("cut", f"n-{len(answers)}", body, expect=False))
        assert len(answers) < 90, "528 MiB hold more than there is room for"
    small, large = ([stage.disks[target][which] for target in cluster.targets()] for which in (0, 1))
    full = {disk.name: used(disk) for disk in small + large}
    print(f"injected: drives of 48 and 128 MiB; detected: {full} after {len(answers)} PUTs, then {answers[-1].status}")
    assert answers[-1].status in (503, 507), answers[-1]
    assert min(map(used, large)) > 0.8 and min(map(used, small)) > 0.5, full
    assert max(full.values()) < 0.995, "the reserve was used up"
    for number in range(len(answers) - 1):
        assert cluster.get("cut", f"n-{number}").body == body
    assert cluster.get("cut", f"n-{len(answers) - 1}", expect=False).status == 404
    assert cluster.delete("cut", "n-0").status == 200 and cluster.delete("cut", "n-1").status == 200
    wait_until(lambda: cluster.put("cut", "after", bytes(MIB), expect=False).status == 200, 60, "PUTs work again once there is room")


@needs_fuse
@pytest.mark.gate("D1")
def test_a_yanked_drive_is_noticed_and_loses_nothing_that_has_a_copy(make_stage, seed):
    """D1: under load, and without any: out at the first access or within five seconds."""
    stage = make_stage(apart=True, targets=1, drives=3, fs="ext4", recording=True)
    cluster = stage.cluster
    cluster.expect_errors(r" error (drive|index|recovery|target|http|mirror) ")
    cluster.create_bucket("m", {"mirror": {"enabled": True, "copies": 2}})
    names = [f"n-{i:04}" for i in range(24)]
    judge = stage.client("judge", timeout=20)
    for name in names:
        assert judge.put("m", name, 20_000).status == 200
        assert judge.put("data", name, 5000).status == 200
    wait_noted(cluster)
    busy, idle = stage.disks["t1"][:2]

    def up(disk):
        return cluster.metric("t1", "tarn_drive_up", drive=str(disk.mountpoint)) == 1

    # Two of three, one after the other: between them all copies are made again. The tombstone of a name is not: where both
    # drives had it, no drive shows afterwards whether the object existed.
    single, there = len(names), names
    for disk, load in ((busy, True), (idle, False)):
        crowd = Crowd([stage.client(f"{disk.name}-{i}", timeout=20) for i in range(4)],
                      Churn(seed, names, "m", sizes=(100, 20_000))) if load else None
        if crowd:
            crowd.start()
        assert up(disk)
        begun = time.monotonic()
        disk.yank()
        wait_until(lambda: not up(disk), 5, "the drive is out")
        seconds = time.monotonic() - begun
        if crowd:
            time.sleep(0.5)
            crowd.stop()
        print(f"injected: a drive yanked {'under' if load else 'without'} load; detected: out after {seconds:.1f} s")
        found = stage.look(judge, there, "m", 20)
        assert all(judge.get("m", name).status in (404, 503) for name in set(names) - set(there)), "what was deleted is there"
        statuses = {name: judge.get("data", name).status for name in names}
        assert set(statuses.values()) <= {200, 503}, "a single copy is there or 503, never gone"
        assert sum(status == 200 for status in statuses.values()) < single
        single = sum(status == 200 for status in statuses.values())
        report = checker.check([op for op in stage.recorder.ops() if op.bucket == "m"])
        assert report.ok, str(report)
        if load:
            there = [name for name, (get, _) in found.items() if get.outcome == "done"]
            wait_until(lambda: cluster.redundancy("m")["full"] == len(there) and cluster.redundancy("m")["reduced"] == 0, 30,
                       "all have two copies again")
    assert stage.is_alive("t1")


@pytest.mark.gate("D2")
def test_nothing_lands_under_the_mount_point_of_a_drive_that_is_gone(make_stage, seed):
    """D2: `umount -l` under load. The drive is out within seconds; its names are 503, never 404."""
    stage = make_stage(targets=1, drives=2, fs="ext4")
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    judge = stage.client("judge")
    names = [f"n-{i}" for i in range(40)]
    for name in names:
        judge.put("data", name, 5000)
    lost, other = stage.disks["t1"]
    on_lost = len(stage.data_files("t1", lost.mountpoint))
    disks.run("umount", "-l", lost.mountpoint)

    def is_out():
        for index in range(20):
            judge.put("data", f"m-{index}", 3000)
        return cluster.metric("t1", "tarn_drive_up", drive=str(lost.mountpoint)) == 0

    wait_until(is_out, 5, "the drive is out")
    left = [path for path in lost.mountpoint.rglob("*")]
    assert left == [], f"written under the mount point: {left}"
    answers = {name: judge.get("data", name).status for name in names}
    away = [name for name, status in answers.items() if status == 503]
    assert set(answers.values()) <= {200, 503} and len(away) >= on_lost * 0.9, answers
    assert judge.list("data").status == 503, "a list without a drive is short"
    for name in away:
        assert judge.put("data", name, 100).status == 503, "a write for a drive that is away"
        assert judge.delete("data", name).status == 503
    assert other.mounted and stage.is_alive("t1")
    # A start without it: the same answers; nothing is made in its place.
    stage.kill("t1")
    stage.start("t1", served=False)
    wait_until(lambda: any(judge.get("data", name).status == 200 for name in names), 10, "the other drive answers")
    assert {judge.get("data", name).status for name in away} == {503}
    assert [path for path in lost.mountpoint.rglob("*") if path.is_file()] == []
    stage.kill("t1")
    lost.mount()
    stage.start("t1")
    print(f"injected: a drive with {on_lost} objects unmounted; detected: out, {len(away)} names 503")
    stage.check(judge, names + [f"m-{i}" for i in range(20)])


@pytest.mark.gate("D3")
def test_an_empty_drive_is_not_taken_for_the_old_one(make_stage, seed):
    """D3 without redundancy: no object counts as deleted; the old drive may come back, or be given up by name."""
    stage = make_stage(targets=1, drives=2, fs="ext4")
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    judge = stage.client("judge")
    names = [f"n-{i}" for i in range(40)]
    for name in names:
        judge.put("data", name, 5000)
    disk, _ = stage.disks["t1"]
    assert {judge.get("data", name).status for name in names} == {200}
    stage.kill("t1")
    disk.umount()
    empty = disk.lab.disk("empty", "ext4")
    empty.mountpoint = disk.mountpoint
    empty.mount()
    stage.start("t1", served=False)
    wait_until(lambda: any(judge.get("data", name).status == 200 for name in names), 10, "the other drive answers")
    statuses = {name: judge.get("data", name).status for name in names}
    away = sorted(name for name, status in statuses.items() if status == 503)
    assert set(statuses.values()) == {200, 503} and away, statuses
    assert judge.list("data").status == 503
    assert {judge.put("data", name, 10).status for name in away[:5]} == {503}
    cluster.logs["t1"].wait_for("drive missing .*--replace-drive")  # which says what to do
    assert [entry.name for entry in empty.mountpoint.iterdir() if entry.name not in ("lost+found",)] == []

    # The old drive comes back: everything is there.
    stage.kill("t1")
    empty.umount()
    disk.mount()
    stage.start("t1")
    stage.check(judge, names)

    # Given up for lost: the rest works, the lost names are gone and can be written again.
    stage.kill("t1")
    disk.umount()
    empty.mount()
    made = local_cluster.Cluster.load(stage.directory)
    node = made.node("t1")
    node.arguments += ["--replace-drive", str(disk.mountpoint)]
    made.save()
    stage.start("t1")
    node.arguments[-2:] = []
    made.save()
    statuses = {name: cluster.get("data", name).status for name in names}
    assert {name for name, status in statuses.items() if status == 404} == set(away)
    assert {status for status in statuses.values()} == {200, 404}
    assert {cluster.put("data", name, b"again").status for name in away} == {200}
    stage.kill("t1")
    stage.start("t1")
    assert {cluster.get("data", name).status for name in names} == {200}
    print(f"injected: an empty drive in place of one with {len(away)} objects; detected: {len(away)} names 503")


def refusal(stage, arguments):
    """Runs a target that must refuse to start; its line."""
    program = str(stage.cluster.programs / "tarn-target")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, (done.returncode, done.stderr)
    lines = [line for line in done.stderr.splitlines() if line.startswith("tarn-target: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def arguments_with(stage, node, **drives):
    """The command line of a node with some of its drives given elsewhere: {"d1": path}."""
    arguments = list(local_cluster.Cluster.load(stage.directory).node(node).arguments)
    for index, word in enumerate(arguments):
        name = os.path.basename(word)
        if index and arguments[index - 1] == "--drive" and name in drives:
            arguments[index] = str(drives[name])
    return arguments


@pytest.mark.gate("D4")
def test_another_owners_drive_is_refused_and_left_as_it_is(make_stage, tmp_path):
    """D4: another cluster's drive, another target's, the same one twice, a directory of other files."""
    stage = make_stage(targets=2, drives=2)
    cluster = stage.cluster
    cluster.put("data", "there", b"there")
    stage.kill("t1", "t2")
    foreign = tmp_path / "foreign"
    shutil.copytree(cluster.drives("t1")[0], foreign)
    identity = foreign / ".tarn" / "drive.json"
    uuid = json.loads(identity.read_text())["cluster"]
    identity.write_text(identity.read_text().replace(uuid, "somebody-elses"))
    occupied = tmp_path / "occupied"
    occupied.mkdir()
    (occupied / "thesis.tex").write_text("do not lose me")
    own = cluster.drives("t1")
    cases = [
        ("another cluster", arguments_with(stage, "t1", d1=foreign), foreign, ["somebody-elses", uuid]),
        ("another target", arguments_with(stage, "t1", d2=cluster.drives("t2")[1]), cluster.drives("t2")[1], ["target"]),
        ("twice", arguments_with(stage, "t1", d2=own[0]), own[0], ["twice"]),
        ("other files", [*arguments_with(stage, "t1"), "--drive", str(occupied)], occupied, ["not empty"]),
    ]
    for title, arguments, place, words in cases:
        before = snapshot(place)
        line = refusal(stage, arguments)
        assert str(place) in line and all(word in line for word in words), (title, line)
        assert snapshot(place) == before, f"{title}: the refused drive was changed"
        print(f"{title}: {line}")
    stage.start("t1", "t2")
    assert cluster.get("data", "there").body == b"there"


def snapshot(place):
    return {str(path): (path.read_bytes() if path.is_file() else None) for path in place.rglob("*")}
