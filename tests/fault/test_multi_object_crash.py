"""Targets that die while a job deletes many objects: what was deleted stays so, nothing else goes, and the job ends well."""

from disks import seeded
from harness.bulk import put_many
from harness.jobs import delete_many, ended, snaps, status, stop, total
from harness.waiting import wait_until

POINTS = ("delete.before_tombstone", "delete.before_unlink", "delete.before_dir_fsync", "delete.before_reply")


def test_targets_killed_while_many_objects_are_deleted(make_stage, seed):
    """Each round a target dies at a step of a delete and starts again. The job goes on, and deleted objects do not come back."""
    rng = seeded(seed, "many")
    stage = make_stage(targets=2, drives=1)
    cluster = stage.cluster
    others = [f"n-{i:04}" for i in range(40)]
    put_many(cluster, "data", others)
    steps = [(target, point) for target in ("t1", "t2") for point in POINTS]
    rng.shuffle(steps)
    for dies, point in steps:
        doomed = [f"n-{i:03}" for i in range(200)]
        put_many(cluster, "data", doomed)
        stage.kill(dies)
        stage.start(dies, fail_points={dies: f"{point}=kill@{rng.randint(2, 60)}"})
        value = rng.choice([{"template": "n-{000..199}"}, {"objnames": doomed}])
        job = delete_many(cluster, "data", **value).text
        stage.wait_gone(dies, 30)
        assert status(cluster, job)["end_time"] == 0, "it waits for the target"
        stage.start(dies)
        end = ended(cluster, job, 60)
        assert end["err"] == "" and not end["aborted"], (point, end)
        assert cluster.names("data") == others, point
        stage.kill("t1", "t2")
        stage.start("t1", "t2")
        assert cluster.names("data") == others, point
    hits = sum(stage.fail_point_hits(target, r"\S+") for target in ("t1", "t2"))
    print(f"injected: {len(steps)} kills, {hits} of them at fail points")
    assert hits == len(steps)
    assert all(cluster.get("data", name).body == b"x" for name in others)


def test_a_job_waits_for_a_target_that_is_away_until_it_is_stopped(make_stage, seed):
    rng = seeded(seed, "away")
    stage = make_stage(targets=2, drives=1)
    cluster = stage.cluster
    names = [f"n-{i:03}" for i in range(100)]
    put_many(cluster, "data", names)
    mine = [name for name in names if cluster.owner("data", name) == "t1"]
    lost = [name for name in names if name not in mine]
    stage.kill("t2")
    job = delete_many(cluster, "data", objnames=rng.sample(names, len(names))).text
    wait_until(lambda: total(snaps(cluster, job), "loc-objs") == len(mine), 20, "what can be deleted is")
    print(f"injected: 1 kill; {len(lost)} names of a target that is away")
    assert status(cluster, job)["end_time"] == 0
    assert stop(cluster, ID=job).status == 200
    assert status(cluster, job)["aborted"]
    stage.start("t2")
    assert cluster.names("data") == lost
