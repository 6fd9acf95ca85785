"""Targets that die while objects move between them: nothing is lost, nothing is there twice after another walk."""

import os

import pytest
from disks import seeded
from harness import attribute
from harness.nodes import Job, give_names_to, wait_until_in_place

MIB = 1 << 20
SENDER = ("move.send", "move.block", "move.before_erase", "delete.before_tombstone", "delete.before_unlink",
          "delete.before_dir_fsync")
RECEIVER = ("put.body", "move.received", "put.before_attribute", "put.before_fsync", "put.before_index", "move.before_reply")


@pytest.mark.gate("G2")
def test_targets_killed_while_objects_move_lose_nothing_and_double_nothing(make_stage, seed):
    """Each round one of two targets dies at a step of a move. The other goes on, and the rest moves when it is back."""
    rng = seeded(seed, "move")
    stage = make_stage(targets=2, drives=1)
    cluster = stage.cluster
    names = [f"n-{i}" for i in range(24)]
    bodies = cluster.fill("data", {name: os.urandom(rng.choice([0, 100, 70_000, MIB + 1, 3 * MIB])) for name in names})

    def everything():
        return attribute.objects([*cluster.drives("t1"), *cluster.drives("t2")])

    before = everything()
    assert before.keys() == bodies.keys()
    wait_until_in_place(cluster)
    give_names_to(cluster, "t1")
    wait_until_in_place(cluster)
    source = "t1"
    steps = [("t1", point) for point in SENDER] + [("t2", point) for point in RECEIVER]
    rng.shuffle(steps)
    kills = 0
    for role, point in steps:
        goal = "t2" if source == "t1" else "t1"
        dies = source if role == "t1" else goal
        stage.kill(dies)
        stage.start(dies, fail_points={dies: f"{point}=kill@{rng.randint(1, 4)}"})
        wait_until_in_place(cluster)
        give_names_to(cluster, goal)
        stage.wait_gone(dies, 30)
        kills += 1
        stage.start(dies)
        wait_until_in_place(cluster, 60)
        assert attribute.objects(cluster.drives(source)) == {}, point
        assert attribute.objects(cluster.drives(goal)) == before, point
        source = goal
    hits = sum(stage.fail_point_hits(target, r"\S+") for target in ("t1", "t2"))
    print(f"injected: {kills} kills, {hits} of them at fail points")
    assert hits == kills == len(SENDER) + len(RECEIVER)

    give_names_to(cluster, "t1", "t2")
    wait_until_in_place(cluster)
    assert everything() == before
    for name, body in bodies.items():
        assert cluster.get("data", name).body == body


def test_a_target_killed_during_a_resilver_has_everything_once_after_the_next(make_stage, seed):
    rng = seeded(seed, "resilver")
    stage = make_stage(targets=1, drives=1, settings={"resilver.enabled": "false"})
    cluster = stage.cluster
    bodies = cluster.fill("data", {f"n-{i}": os.urandom(rng.choice([0, 100, 70_000, MIB + 1])) for i in range(40)})
    before = attribute.objects(cluster.drives("t1"))
    drives = cluster.add_drive("t1")
    points = ["move.block", "put.before_attribute", "put.before_index", "delete.before_tombstone", "delete.before_unlink"]
    rng.shuffle(points)
    for point in points:
        stage.kill("t1")
        stage.start("t1", fail_points={"t1": f"{point}=kill@{rng.randint(1, 2)}"})
        job = Job(cluster, "t1", "resilver", "r1")
        stage.wait_gone("t1", 30)
        job.connection.close()
        stage.start("t1")
        for name, body in bodies.items():
            assert cluster.get("data", name).body == body, point
    end = Job(cluster, "t1", "resilver", "r2").end()
    assert end["clean"] and end["objects"] > 0, end
    here, there = (attribute.objects([drive]) for drive in drives)
    assert here | there == before and not here.keys() & there.keys()
    assert cluster.logs["t1"].matching(f"mark of misplaced objects cleared drive={drives[0]}$")
    hits = stage.fail_point_hits("t1", r"\S+")
    print(f"injected: {hits} kills at fail points")
    assert hits == len(points)
