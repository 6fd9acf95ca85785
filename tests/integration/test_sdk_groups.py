"""AIStore's unmodified Python SDK (package `aistore`) against a cluster: groups of objects."""

import itertools
import logging

import pytest
from aistore.sdk import Client
from aistore.sdk.errors import AISError, ErrBckNotFound, InvalidBckProvider
from aistore.sdk.multiobj import ObjectRange
from harness.sdk import JOB_SECONDS

logging.getLogger("urllib3").setLevel(logging.ERROR)
_numbers = itertools.count(1)


@pytest.fixture
def sdk(cluster):
    return Client(cluster.endpoint, timeout=(5, 28))


@pytest.fixture
def filled(cluster, sdk, bucket):
    names = [f"g-{i:02}.tar" for i in range(20)] + ["other/x"]
    cluster.fill(bucket, {name: name.encode() * 3 for name in names})
    return sdk.bucket(bucket), names


@pytest.fixture
def goal(sdk):
    bucket = sdk.bucket(f"sdk-group-{next(_numbers)}")
    yield bucket
    bucket.delete(missing_ok=True)


def names_in(bucket):
    return [entry.name for entry in bucket.list_all_objects_iter()]


def test_groups_are_deleted(sdk, filled):
    bucket, names = filled
    job = sdk.job(bucket.objects(obj_names=names[3:7]).delete(), "delete-listrange")
    assert job.wait(timeout=JOB_SECONDS).success
    assert names_in(bucket) == names[:3] + names[7:]
    assert sum(int(snap.stats.objects) for snap in job.get_details().list_snapshots()) == 4
    job = sdk.job(bucket.objects(obj_range=ObjectRange("g-", 8, 18, 2, 2, ".tar")).delete())
    assert job.wait(timeout=JOB_SECONDS).success and job.job_kind == "delete-listrange"
    assert names_in(bucket) == [name for name in names[:3] + names[7:] if name not in names[8:19:2]]
    assert sdk.job(bucket.objects(obj_template="g-{00..99}.tar").delete()).wait(timeout=JOB_SECONDS).success
    assert names_in(bucket) == ["other/x"]
    failed = sdk.job(bucket.objects(obj_names=["no-such"]).delete(), "delete-listrange").wait(timeout=JOB_SECONDS)
    assert not failed.success and "does not exist" in failed.error


def test_groups_are_copied(sdk, filled, goal):
    bucket, names = filled
    ids = bucket.objects(obj_names=names[:10]).copy(goal)
    assert len(ids) == 1
    job = sdk.job(ids[0], "copy-listrange")
    assert job.wait(timeout=JOB_SECONDS).success and job.wait_for_idle(timeout=JOB_SECONDS).success
    assert f"copy-listrange[{ids[0]}]" in sdk.cluster().list_running_jobs(), "an idle one still runs"  # for ten seconds
    job.abort()
    assert not job.wait_for_idle(timeout=JOB_SECONDS).success
    assert f"copy-listrange[{ids[0]}]" not in sdk.cluster().list_running_jobs()
    assert names_in(goal) == names[:10]
    assert goal.object(names[4]).get_reader().read_all() == names[4].encode() * 3

    (id,) = bucket.objects(obj_template="g-{00..04}.tar").copy(goal, prepend="p/", num_workers=2)
    assert sdk.job(id).wait(timeout=JOB_SECONDS).success
    assert [name for name in names_in(goal) if name.startswith("p/")] == [f"p/{name}" for name in names[:5]]
    before = names_in(goal)
    (id,) = bucket.objects(obj_range=ObjectRange("g-", 0, 9, 2, suffix=".tar")).copy(goal, prepend="x/", dry_run=True)
    assert sdk.job(id).wait(timeout=JOB_SECONDS).success and names_in(goal) == before
    (id,) = bucket.objects(obj_names=["no-such", names[0]]).copy(goal, prepend="y/", continue_on_error=True)
    assert sdk.job(id).wait(timeout=JOB_SECONDS).success
    assert f"y/{names[0]}" in names_in(goal)
    for job in sdk.cluster().list_running_jobs(job_kind="copy-listrange"):  # a rebalance is not ours to stop
        sdk.job(job.partition("[")[2].rstrip("]")).abort()


def test_what_plain_buckets_do_not_have(sdk, filled, goal):
    bucket, names = filled
    group = bucket.objects(obj_names=names)
    for refused in (group.evict, group.prefetch):
        with pytest.raises(InvalidBckProvider):  # it does not even ask
            refused()
    with pytest.raises(AISError, match="into itself"):
        group.copy(bucket)
    with pytest.raises(ErrBckNotFound):
        sdk.bucket("no-such-bucket").objects(obj_names=["a"]).delete()
    assert names_in(bucket) == names
