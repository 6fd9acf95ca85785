"""Tombstones go after their time, and not while a drive or target may bring the object back."""

import re
import shutil
import time
from pathlib import Path

from harness.nodes import stored_map, wait_until_in_place
from harness.waiting import wait_until
from machines import flags_of
from workload import ERRORS
from test_returned_drive import attach, change

KEEP = 4  # seconds
PROBE = 1  # deletes by which local-cluster finds out that a new cluster works
SETTINGS = {"target.tombstone_keep": f"{KEEP}s"}


def forgotten(cluster, *targets):
    """How many tombstones these targets say that they have forgotten."""
    return sum(int(re.search(r" count=(\d+)", line)[1]) for target in targets or cluster.targets()
               for line in cluster.logs[target].matching("tombstones forgotten "))


def left(stage, *targets):
    """How many tombstones the indexes hold, counted by a start."""
    stage.kill(*targets)
    before = {target: stage.recovered(target, "tombstones") for target in targets}
    stage.start(*targets)
    return sum(stage.recovered(target, "tombstones") - before[target] for target in targets)


def delete(cluster, *groups):
    """Deletes names although the target is away that had them: what is written meanwhile can be deleted."""
    for name in (name for names in groups for name in names):
        wait_until(lambda: cluster.put("data", name, b"meanwhile").status == 200, 10, f"{name} is written", every=0.1)
        assert cluster.delete("data", name).status == 200


def mirrored(make_stage):
    """A target with two drives, names that lie on both, and the first drive."""
    stage = make_stage(targets=1, drives=2, settings=SETTINGS)
    cluster = stage.cluster
    cluster.create_bucket("m", {"mirror": {"enabled": True, "copies": 2}})
    names = [f"n-{i:02}" for i in range(12)]
    cluster.fill("m", dict.fromkeys(names, b"old"))
    return stage, names, cluster.drives("t1")[0]


def test_tombstones_go_after_their_time(make_stage):
    stage = make_stage(targets=2, drives=2, settings=SETTINGS)
    cluster = stage.cluster
    cluster.create_bucket("m", {"mirror": {"enabled": True, "copies": 2}})
    names = [f"n-{i:02}" for i in range(40)]
    gone, kept = names[:30], names[30:]
    for bucket in ("data", "m"):
        cluster.fill(bucket, dict.fromkeys(names, b"old"))
    wait_until_in_place(cluster)
    for bucket in ("data", "m"):
        for name in gone:
            assert cluster.delete(bucket, name).status == 200
    # One that is written anew is an object, and stays; a name is counted once, on however many drives it was.
    assert cluster.put("data", gone[-1], b"new").status == 200
    assert left(stage, "t1", "t2") > len(gone), "a start forgets tombstones before their time"
    wanted = 2 * len(gone) - 1 + PROBE
    wait_until(lambda: forgotten(cluster) >= wanted, 10 * KEEP, "all tombstones are forgotten", every=0.1)
    assert left(stage, "t1", "t2") == 0
    print(f"injected: {2 * len(gone)} deletes; detected: {forgotten(cluster)} tombstones forgotten after {KEEP} s")
    assert forgotten(cluster) == wanted
    assert cluster.names("data") == sorted([gone[-1], *kept]) and cluster.names("m") == kept
    assert all(cluster.get("m", name).status == 404 for name in gone)


def test_tombstones_stay_while_a_drive_is_out_of_service(make_stage):
    """The drive may hold what was deleted. Here it does, since the delete did not reach it."""
    stage, names, first = mirrored(make_stage)
    cluster = stage.cluster
    assert change(cluster, "t1", "POST", "disable-mp", first, "?dntres=true").status == 200
    for name in names:
        assert cluster.delete("m", name).status == 200
    time.sleep(2 * KEEP)
    assert forgotten(cluster) == 0
    assert change(cluster, "t1", "POST", "enable-mp", first).status == 200
    wait_until(lambda: forgotten(cluster) == len(names) + PROBE, 10 * KEEP, "they go when the drive has caught up", every=0.1)
    assert cluster.names("m") == []
    assert all(cluster.get("m", name).status == 404 for name in names)


def test_a_drive_that_was_detached_for_too_long_comes_back_empty_only(make_stage):
    """There are no tombstones any longer of what was deleted meanwhile."""
    stage, names, first = mirrored(make_stage)
    cluster = stage.cluster
    assert change(cluster, "t1", "DELETE", "detach-mp", first, "?dntres=true").status == 200
    attach(cluster, "t1", first)  # in time
    assert change(cluster, "t1", "DELETE", "detach-mp", first, "?dntres=true").status == 200
    for name in names:
        assert cluster.delete("m", name).status == 200
    # That of the probe may lie on the drive that is away.
    wait_until(lambda: forgotten(cluster) >= len(names), 10 * KEEP, "nothing is kept for it any longer", every=0.1)
    stage.kill("t1")
    stage.start("t1")
    refused = change(cluster, "t1", "PUT", "attach-mp", first)
    assert refused.status == 409 and b"target.tombstone_keep" in refused.body, refused
    assert cluster.names("m") == [], "the drive of which that is asked has what was deleted"
    for part in (".tarn", "data"):
        shutil.rmtree(Path(first) / part, ignore_errors=True)
    attach(cluster, "t1", first)
    assert cluster.put("m", "new", b"new").status == 200
    assert cluster.names("m") == ["new"]


def test_what_was_deleted_while_a_target_was_away_does_not_come_back(make_stage):
    """The target is away for longer than tombstones are kept. Those of names that it may hold wait for it; all others go."""
    stage = make_stage(targets=3, drives=1, meta="etcd", settings=SETTINGS)
    cluster = stage.cluster
    cluster.expect_errors(ERRORS)
    wait_until_in_place(cluster)
    mine = cluster.names_owned_by("t2", "data", 15)
    *others, extra = cluster.names_owned_by("t1", "data", 16)
    cluster.fill("data", dict.fromkeys([*mine, *others], b"old"))
    stage.kill("t2")
    wait_until(lambda: flags_of(cluster, "t2"), 10, "t2 is down", every=0.1)
    delete(cluster, mine, others)
    wait_until(lambda: forgotten(cluster, "t1") >= len(others), 10 * KEEP, "those of others' names are forgotten", every=0.1)
    # Once more all that there is has been looked at.
    assert cluster.put("data", extra, b"x").status == 200 and cluster.delete("data", extra).status == 200
    wait_until(lambda: forgotten(cluster, "t1") > len(others), 10 * KEEP, "and another one", every=0.1)
    early = forgotten(cluster)
    stage.start("t2")
    wait_until_in_place(cluster)
    print(f"injected: t2 away for more than {KEEP} s; detected: {early} tombstones forgotten meanwhile, of {len(mine)} names none")
    assert early <= len(others) + 1 + PROBE
    assert all(cluster.get("data", name).status == 404 for name in mine)
    assert cluster.names("data") == []
    wait_until(lambda: forgotten(cluster) == len(others) + 1 + len(mine) + PROBE, 10 * KEEP, "the rest is forgotten, too", every=0.1)
    assert left(stage, *cluster.targets()) == 0
    assert cluster.names("data") == []


def test_a_target_that_was_away_for_too_long_is_not_let_in_with_what_it_has(make_stage):
    stage = make_stage(targets=2, drives=1, meta="etcd", settings=SETTINGS | {"target.out_after": "1s"})
    cluster = stage.cluster
    cluster.expect_errors(ERRORS)
    wait_until_in_place(cluster)
    names = cluster.names_owned_by("t2", "data", 10)
    cluster.fill("data", dict.fromkeys(names, b"old"))
    stage.kill("t2")
    wait_until(lambda: flags_of(cluster, "t2"), 10, "t2 is down", every=0.1)
    delete(cluster, names[:5])
    away = cluster.nodes["t2"]["id"]
    wait_until(lambda: away not in [node["id"] for node in stored_map(cluster)["nodes"]], 20, "t2 is out of the map", every=0.1)
    wait_until(lambda: forgotten(cluster, "t1") >= 5, 10 * KEEP, "no target can bring them back: forgotten", every=0.1)
    stage.start("t2", ready=False)
    stage.wait_gone("t2")
    cluster.logs["t2"].wait_for("it was away for too long")
    assert {name: cluster.get("data", name).status for name in names} == dict.fromkeys(names, 404)
    assert cluster.names("data") == []
    print(f"injected: t2 away until it was taken out; detected: refused, {forgotten(cluster)} tombstones forgotten")
