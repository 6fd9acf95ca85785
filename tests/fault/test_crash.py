"""Processes that die at any instant (docs/reliability.md A1), and what the next start makes of the files.

Also the four promises of a start: files that the index lost are adopted, older files never win, deletes stay, and
unfinished files go.
"""

import shutil
import statistics
import time

import pytest
from disks import seeded
from harness import attribute
from harness.waiting import scaled
from load import Crowd
from stage import Churn

PUT_POINTS = ("put.body", "put.before_attribute", "put.before_fsync", "put.before_dir_fsync", "put.before_index",
              "put.before_reply")
DELETE_POINTS = ("delete.before_tombstone", "delete.before_unlink", "delete.before_dir_fsync", "delete.before_reply")
KILLS = 100
TARGETS = 4
READY_SECONDS = 2.0  # and 1 s more for each 10^6 index entries, of which there are next to none here


def killed_at_every_point(rng):
    """For each round, what shall kill each target: a fail point with its hit, or None for a random instant."""
    plan = [f"{point}=kill@{rng.randint(1, 5)}" for point in PUT_POINTS for _ in range(7)]
    plan += [f"{point}=kill@{rng.randint(1, 3)}" for point in DELETE_POINTS for _ in range(4)]
    plan += [None] * (KILLS - len(plan))
    rng.shuffle(plan)
    return [plan[start : start + TARGETS] for start in range(0, KILLS, TARGETS)]


def test_targets_killed_during_puts_lose_nothing_and_leave_nothing(make_stage, seed):
    """A1: 100 kills at random instants and at every step of a PUT and a DELETE."""
    rng = seeded(seed, "A1")
    stage = make_stage(targets=TARGETS, drives=1)
    targets = stage.targets()
    lasting = [f"lasting-{i}" for i in range(12)]
    names, kills, planned, ready = list(lasting), 0, 0, []
    client = stage.client("judge")
    for number, plan in enumerate(killed_at_every_point(rng)):
        points = {target: point for target, point in zip(targets, plan) if point}
        planned += len(points)
        stage.kill(*targets)
        stage.start(*targets, fail_points=points)
        mine = [f"r{number}-{i}" for i in range(16)] + lasting
        names += mine[:16]
        clients = [stage.client(f"r{number}c{i}") for i in range(4)]
        crowd = Crowd(clients, Churn(f"{seed}/{number}", mine, sizes=Churn.SIZES if number % 5 == 0 else Churn.SIZES[:6],
                                     puts=0.6, deletes=0.25)).start()
        # Fail points come by themselves under this load. The others die some time after the first bytes.
        begun = time.monotonic()
        for target in sorted(set(targets) - set(points), key=lambda _: rng.random()):
            time.sleep(max(0.0, begun + rng.uniform(0, 0.2) - time.monotonic()))
            stage.kill(target)
            kills += 1
        for target in points:
            stage.wait_gone(target, 30)
            kills += 1
        crowd.stop()
        ready += stage.start(*targets).values()
        stage.look(client, mine)
        stage.wait_tidy(len(client.list("data").names))

    hits = sum(stage.fail_point_hits(target, r"\S+") for target in targets)
    adopted, removed = (sum(stage.recovered(target, what) for target in targets) for what in ("adopted", "work_files"))
    print(f"injected: {kills} kills, {hits} of them at fail points; slowest start {max(ready):.2f} s, "
          f"median {statistics.median(ready):.2f} s")
    print(f"detected: {adopted} complete files adopted, {removed} unfinished ones removed")
    assert (kills, hits) == (KILLS, planned)
    assert adopted > 0 and removed > 0, "no kill left anything to recover: they came at the wrong moments"
    stage.check(client, names)
    assert max(ready) <= scaled(READY_SECONDS), f"ready only after {max(ready):.1f} s"


# --- what a start makes of the files ---------------------------------------------------------------------------------


def lose_index(stage, target):
    """The index of every drive is gone; the files are there. Returns how many drives that were."""
    drives = stage.cluster.drives(target)
    for drive in drives:
        assert (drive / ".tarn" / "index" / "CURRENT").exists()
        shutil.rmtree(drive / ".tarn" / "index")
    return len(drives)


@pytest.mark.gate("B7")
def test_lost_index_is_rebuilt_from_the_files(make_stage, seed):
    """B7 in small: the same names, bytes, sizes and versions come back from the files alone."""
    stage = make_stage(targets=2, drives=2)
    names = [f"n-{i}" for i in range(60)]
    crowd = Crowd([stage.client(f"c{i}") for i in range(3)], Churn(seed, names), count=500).start()
    crowd.join()
    client = stage.client("judge")
    _, before = stage.check(client, names)
    present = [name for name, (get, _) in before.items() if get.outcome == "done"]
    stage.wait_tidy(len(present))  # a replaced file that is not yet unlinked would be adopted, too
    stage.kill("t1", "t2")
    lost = sum(lose_index(stage, target) for target in ("t1", "t2"))
    stage.start("t1", "t2")
    adopted = sum(stage.recovered(target, "adopted") for target in ("t1", "t2"))
    print(f"injected: {lost} indexes removed; detected: {adopted} files adopted of {len(present)} objects")
    assert adopted == len(present) > 20
    _, after = stage.check(client, names)
    assert {name: get.etag for name, (get, _) in after.items()} == {name: get.etag for name, (get, _) in before.items()}
    stage.wait_tidy(len(present))
    # And what was made from files is an index like any other: it survives the next kill by itself.
    stage.kill("t1", "t2")
    stage.start("t1", "t2")
    stage.check(client, names)
    assert sum(stage.recovered(target, "adopted") for target in ("t1", "t2")) == adopted


def file_of(stage, target, known):
    """The one data file that is not among `known`."""
    found = [path for path, finished in stage.data_files(target) if finished and path not in known]
    assert len(found) == 1, found
    return found[0]


def keep_aside(path, directory):
    """A copy of a data file with its attribute, on the same file system."""
    copy = directory / path.name
    shutil.copy2(path, copy)  # with extended attributes
    assert attribute.read(copy) == attribute.read(path)
    return copy


@pytest.mark.gate("A1")
def test_older_file_never_replaces_a_newer_record(make_stage, tmp_path):
    """I4: a replaced or deleted file whose unlink the power cut undid is there again: it must not win."""
    stage = make_stage(targets=1, drives=1)
    client = stage.client("judge")
    aside = tmp_path / "aside"
    aside.mkdir()
    kept = []
    for name, size in (("overwritten", 5000), ("overwritten-larger", 2_000_000), ("deleted", 5000)):
        known = {path for path, _ in stage.data_files("t1")}
        client.put("data", name, size)
        path = file_of(stage, "t1", known)
        kept.append((path, keep_aside(path, aside)))
    client.put("data", "overwritten", 6000)
    client.put("data", "overwritten-larger", 100)
    client.delete("data", "deleted")
    stage.wait_tidy(2)
    stage.kill("t1")
    for path, copy in kept:
        shutil.copy2(copy, path)
    stage.start("t1")
    stale = stage.recovered("t1", "stale_files")
    print(f"injected: {len(kept)} older files are back; detected: {stale} stale files removed")
    names = ["overwritten", "overwritten-larger", "deleted"]
    _, found = stage.check(client, names)
    assert [found[name][0].status for name in names] == [200, 200, 404]
    assert stale == len(kept)
    stage.wait_tidy(2)


def test_deleted_objects_stay_deleted_when_the_index_is_lost(make_stage, seed):
    """I4: a DELETE that is only in the index would come back with the files."""
    stage = make_stage(targets=2, drives=1)
    client = stage.client("judge")
    names = [f"n-{i}" for i in range(40)]
    for name in names:
        client.put("data", name, 3000)
        client.put("data", name, 4000)
    gone = seeded(seed, "deletes").sample(names, 20)
    for name in gone:
        assert client.delete("data", name).status == 200
    stage.kill("t1", "t2")
    lost = sum(lose_index(stage, target) for target in ("t1", "t2"))
    stage.start("t1", "t2")
    print(f"injected: {lost} indexes removed after {len(gone)} deletes")
    _, found = stage.check(client, names)
    assert {name for name, (get, _) in found.items() if get.status == 404} == set(gone)
    stage.wait_tidy(len(names) - len(gone))


@pytest.mark.gate("A1")
def test_unfinished_files_are_removed_at_the_start(make_stage):
    """A kill in the middle of bodies leaves files without attribute; none of them outlives the start."""
    stage = make_stage(targets=1, drives=2)
    client = stage.client("judge")
    client.put("data", "there", 1000)
    names = [f"n-{i}" for i in range(6)]
    stage.kill("t1")
    stage.start("t1", fail_points={"t1": "put.body=sleep:300;put.before_attribute=kill@3"})
    clients = [stage.client(f"c{i}") for i in range(6)]
    crowd = Crowd(clients, lambda its: its.put("data", names[clients.index(its)], 100_000), count=6).start()
    stage.wait_gone("t1")
    crowd.join()
    left = [path for path, finished in stage.data_files("t1") if not finished]
    assert left, "the kill came too early to leave anything"
    stage.start("t1")
    print(f"injected: {len(left)} unfinished files; detected: {stage.recovered('t1', 'work_files')} removed")
    assert not [path for path in left if path.exists()]
    stage.check(client, [*names, "there"])
