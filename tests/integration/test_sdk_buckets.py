"""AIStore's unmodified Python SDK (package `aistore`) against a cluster: buckets, lists, cluster queries and errors."""

import gzip
import hashlib
import io
import json
import logging
import tarfile

import pytest
from aistore.sdk import Client, ListObjectFlag
from aistore.sdk.enums import FLTPresence
from aistore.sdk.errors import AISError, ErrBckAlreadyExists, ErrBckNotFound, ErrRemoteBckNotFound
from aistore.sdk.namespace import Namespace
from harness.sdk import JOB_SECONDS
from harness.waiting import wait_until

logging.getLogger("urllib3").setLevel(logging.ERROR)


@pytest.fixture
def sdk(cluster):
    return Client(cluster.endpoint, timeout=(5, 28))


@pytest.fixture
def filled(cluster, sdk, bucket):
    names = ["a", "dir/a", "dir/b", "dir/sub/c", "z"]
    cluster.fill(bucket, {name: name.encode() * 3 for name in names})
    return sdk.bucket(bucket), names


def test_cluster_info_and_readiness(cluster, sdk):
    smap = sdk.cluster().get_info()
    assert set(smap.tmap) == {cluster.nodes[name]["id"] for name in cluster.targets()}
    assert set(smap.pmap) == {cluster.nodes["p1"]["id"]} and smap.version > 0 and smap.uuid
    assert sdk.cluster().is_ready()
    assert sdk.cluster().get_primary_url() == cluster.endpoint
    assert sdk.cluster().get_uuid() == smap.uuid
    target = next(iter(smap.tmap.values()))
    direct = Client(target.public_net.direct_url)
    wait_until(lambda: direct.cluster().get_info().version == sdk.cluster().get_info().version, 10, "a target answers, too")


def test_performance_counts_real_requests(cluster, sdk, filled):
    before = sdk.cluster().get_performance()
    assert set(before) == {cluster.nodes[name]["id"] for name in cluster.targets()}
    bucket, names = filled
    for name in names:
        assert bucket.object(name).get_reader().read_all() == name.encode() * 3

    def gained(after, counter):
        return sum(after[each]["tracker"].get(counter, 0) - before[each]["tracker"].get(counter, 0) for each in after)

    def counted():
        after = sdk.cluster().get_performance()
        return gained(after, "get.n") == len(names) and after

    after = wait_until(counted, 10, "each is counted once")  # which an answer is when it has gone, after the client has it
    assert gained(after, "get.size") == sum(3 * len(name) for name in names)
    for status in after.values():
        assert status["ais_version"].startswith("5.0.") and status["sys_info"]["mem_used"] > 0
        assert len(status["capacity"]["mountpaths"]) == 2 and int(status["capacity"]["total_avail"]) > 0


def test_logs_of_nodes(cluster, sdk):
    node = cluster.nodes["t1"]["id"]
    assert f"node={node}" in sdk.cluster().get_node_log(node)
    archive = sdk.cluster().get_node_log_archive(node)
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive))) as tar:
        (member,) = tar.getmembers()
        assert f"node={node}" in tar.extractfile(member).read().decode()
    assert len(sdk.cluster().get_cluster_logs()) == len(cluster.targets())


def test_buckets_are_made_found_and_removed(sdk):
    bucket = sdk.bucket("sdk-bucket")
    try:
        bucket.create(exist_ok=False)
        bucket.create(exist_ok=True)
        with pytest.raises(ErrBckAlreadyExists):
            bucket.create(exist_ok=False)
        assert "sdk-bucket" in [each.name for each in sdk.cluster().list_buckets()]
        assert "Ais-Bucket-Props" in bucket.head()
    finally:
        bucket.delete(missing_ok=True)
    bucket.delete(missing_ok=True)
    with pytest.raises(ErrBckNotFound):
        bucket.delete()
    assert "sdk-bucket" not in [each.name for each in sdk.cluster().list_buckets()]
    with pytest.raises(ErrBckNotFound):
        bucket.list_objects()


def test_buckets_in_namespaces(sdk):
    blue = sdk.bucket("sdk-spaced", namespace=Namespace(uuid="", name="blue"))
    blue.create()
    try:
        blue.object("x").get_writer().put_content(b"blue")
        assert [entry.name for entry in blue.list_all_objects()] == ["x"]
        with pytest.raises(ErrBckNotFound):
            sdk.bucket("sdk-spaced").list_objects()
    finally:
        blue.delete()


@pytest.mark.parametrize("name", ["*", ".", "", " ", "bucket/badname", "#badname", "$badname", "~badname", "..", "a..b"])
def test_bad_names_are_refused(sdk, name):
    with pytest.raises(AISError):
        sdk.bucket(name).create()
    with pytest.raises(AISError):
        sdk.bucket(name).delete()


def test_a_bucket_of_an_upstream_that_is_not_there(sdk):
    with pytest.raises(ErrRemoteBckNotFound):
        sdk.bucket("no-such", provider="aws").list_objects()


def test_summary_and_info_count_what_is_there(sdk, filled):
    bucket, names = filled
    (summary,) = [bucket.summary()]
    if isinstance(summary, list):
        (summary,) = summary
    sizes = [3 * len(name) for name in names]
    assert summary["ObjCount"] == {"obj_count_present": str(len(names)), "obj_count_remote": "0"}
    assert summary["TotalSize"]["size_all_present_objs"] == str(sum(sizes)) and summary["used_pct"] == 0
    assert summary["ObjSize"]["obj_min_size"] == min(sizes) and summary["ObjSize"]["obj_max_size"] == max(sizes)
    part = bucket.summary(prefix="dir/")
    part = part[0] if isinstance(part, list) else part
    assert part["ObjCount"]["obj_count_present"] == "3"
    props, info = bucket.info(flt_presence=FLTPresence.FLT_PRESENT, prefix="dir/sub")
    assert "xxhash2" in str(props) and "'1'" in str(info).replace('"', "'")
    with pytest.raises(ErrBckNotFound):
        sdk.bucket("no-such").summary()


def test_lists_by_page_prefix_and_flag(sdk, filled):
    bucket, names = filled
    assert [entry.name for entry in bucket.list_all_objects()] == names
    assert [entry.name for entry in bucket.list_objects_iter(page_size=2)] == names
    page = bucket.list_objects(page_size=2)
    assert len(page.entries) == 2 and page.continuation_token and page.uuid
    following = bucket.list_objects(page_size=2, uuid=page.uuid, continuation_token=page.continuation_token)
    assert following.uuid == page.uuid and [entry.name for entry in following.entries] == names[2:4]
    assert [entry.name for entry in bucket.list_all_objects(prefix="dir/")] == names[1:4]
    entries = bucket.list_all_objects(flags=[ListObjectFlag.NO_RECURSION])
    assert [entry.name for entry in entries] == ["a", "dir/", "z"]
    (entry,) = bucket.list_all_objects(prefix="z", props="name,size,checksum,version,atime,location,copies,custom,status")
    assert entry.is_cached() and entry.is_ok() and entry.size == 3 and entry.version == "1" and len(entry.checksum) == 16
    assert entry.location.startswith("t[") and entry.atime
    (entry,) = bucket.list_all_objects(prefix="z", flags=[ListObjectFlag.NAME_ONLY])
    assert entry.size == 0


def test_jobs_that_a_summary_leaves(sdk, filled):
    bucket, _ = filled
    bucket.summary()
    statuses = sdk.cluster().list_jobs_status(job_kind="summary-bck")
    assert statuses and all(status.end_time > 0 and not status.err for status in statuses)
    assert sdk.cluster().list_running_jobs(job_kind="summary-bck") == []
    assert sdk.job(job_id=statuses[-1].uuid, job_kind="summary-bck").wait(timeout=JOB_SECONDS).success
    with pytest.raises(AISError):
        sdk.job(job_id="nosuchid123").status()


def test_a_bucket_is_copied(sdk, filled):
    bucket, names = filled
    goal = sdk.bucket(f"{bucket.name}-copy")
    try:
        job = sdk.job(bucket.copy(goal, prefix_filter="dir/", prepend="new-", ext={"b": "c"}, num_workers=2), "copy-bck")
        assert job.wait(timeout=JOB_SECONDS).success
        assert job.wait_for_idle(timeout=JOB_SECONDS).success
        assert [entry.name for entry in goal.list_all_objects_iter()] == ["new-dir/a", "new-dir/b", "new-dir/sub/c"]
        assert goal.object("new-dir/a").get_reader().read_all() == b"dir/a" * 3
        found = job.get_details().list_snapshots()
        assert sum(int(snap.stats.objects) for snap in found) == 3 and all(snap.is_idle for snap in found)
        # By the id alone the kind is found out; a dry run counts only.
        dry = sdk.job(bucket.copy(goal, dry_run=True))
        assert dry.wait(timeout=JOB_SECONDS).success and dry.job_kind == "copy-bck"
        assert sum(int(snap.stats.objects) for snap in dry.get_details().list_snapshots()) == len(names)
        assert sdk.job(bucket.copy(goal, sync=True)).wait(timeout=JOB_SECONDS).success
        assert [entry.name for entry in goal.list_all_objects_iter()] == sorted(names)
        with pytest.raises(AISError, match="onto itself"):
            bucket.copy(bucket)
    finally:
        goal.delete(missing_ok=True)


def test_a_bucket_is_renamed(sdk):
    bucket = sdk.bucket("sdk-old-name").create(exist_ok=True)
    try:
        for name in ("a", "dir/b"):
            bucket.object(name).get_writer().put_content(name.encode() * 5)
        job = bucket.rename("sdk-new-name")
        assert bucket.name == "sdk-new-name"
        assert "sdk-old-name" not in [each.name for each in sdk.cluster().list_buckets()]
        assert sdk.job(job).wait(timeout=JOB_SECONDS).success
        assert [entry.name for entry in bucket.list_all_objects_iter()] == ["a", "dir/b"]
        for direct in (False, True):  # the package looks for the target by itself, and by the new name
            assert bucket.object("dir/b").get_reader(direct=direct).read_all() == b"dir/b" * 5
        with pytest.raises(ErrBckNotFound):
            sdk.bucket("sdk-old-name").list_objects()
        other = sdk.bucket("sdk-other").create(exist_ok=True)
        with pytest.raises(ErrBckAlreadyExists):
            other.rename("sdk-new-name")
    finally:
        for name in ("sdk-old-name", "sdk-new-name", "sdk-other"):
            sdk.bucket(name).delete(missing_ok=True)


def props_of(bucket):
    return json.loads(bucket.head()["Ais-Bucket-Props"])


def set_props(sdk, bucket, kind=None, **props):
    """By the package's own call, as it has none for properties; waits for the job of that kind that a change begins."""
    answer = bucket.make_request("PATCH", "set-bprops", value=props)
    assert bool(answer.text) == bool(kind), answer.text
    assert kind is None or sdk.job(answer.text, kind).wait(timeout=JOB_SECONDS).success


def test_a_bucket_is_coded_and_its_slices_are_seen(sdk):
    bucket = sdk.bucket("sdk-coded").create()
    try:
        bucket.object("x").get_writer().put_content(b"x" * 5000)
        coding = {"enabled": True, "data_slices": 2, "parity_slices": 1, "objsize_limit": 1000}
        set_props(sdk, bucket, "ec-encode", ec=coding)
        assert props_of(bucket)["ec"].items() >= coding.items()
        bucket.object("small").get_writer().put_content(b"x" * 1000)
        for name, is_copy in (("x", False), ("small", True)):
            said = bucket.object(name).head(props="ec").ec
            assert (said.data_slices, said.parity_slices, said.is_ec_copy) == (2, 1, is_copy) and said.generation > 0
        again = sdk.job(sdk.job(job_kind="ec-encode").start(buckets=[bucket]), "ec-encode")
        assert again.wait(timeout=JOB_SECONDS).success and bucket.object("x").get_reader().read_all() == b"x" * 5000
        with pytest.raises(AISError, match="exclude"):
            bucket.make_request("PATCH", "set-bprops", value={"mirror": {"enabled": True}})
    finally:
        bucket.delete()


def test_a_bucket_is_mirrored_and_copies_are_made(sdk):
    bucket = sdk.bucket("sdk-mirrored").create()
    try:
        bucket.object("x").get_writer().put_content(b"x" * 5000)
        set_props(sdk, bucket, "make-n-copies", mirror={"enabled": True, "copies": 2})
        assert props_of(bucket)["mirror"].items() >= {"enabled": True, "copies": 2}.items()
        assert bucket.object("x").head(props="copies").mirror_copies == 2
        again = sdk.job(sdk.job(job_kind="make-n-copies").start(buckets=[bucket]), "make-n-copies")
        assert again.wait(timeout=JOB_SECONDS).success
        one = bucket.make_request("POST", "make-n-copies", value=1).text
        assert sdk.job(one, "make-n-copies").wait(timeout=JOB_SECONDS).success
        assert bucket.object("x").head(props="copies").mirror_copies == 1 and not props_of(bucket)["mirror"]["enabled"]
        set_props(sdk, bucket, checksum={"type": "md5"})
        assert props_of(bucket)["checksum"]["type"] == "md5"
        bucket.object("y").get_writer().put_content(b"123456789")
        shown = bucket.object("y").props
        assert (shown.checksum_type, shown.checksum_value) == ("md5", hashlib.md5(b"123456789").hexdigest())
        with pytest.raises(AISError, match="checksum.type"):
            bucket.make_request("PATCH", "set-bprops", value={"checksum": {"type": "md4"}})
    finally:
        bucket.delete()


def test_drives_are_put_in_order_and_looked_through(cluster, sdk, filled):
    resilver = sdk.job(job_kind="resilver")
    with pytest.raises(AISError, match="DaemonID"):
        resilver.start()
    job = sdk.job(resilver.start(daemon_id=cluster.nodes["t1"]["id"]), "resilver")
    assert job.wait(timeout=JOB_SECONDS).success
    assert cluster.nodes["t1"]["id"] in job.get_details().root
    scrub = sdk.job(sdk.job(job_kind="scrub").start(), "scrub")
    assert scrub.wait(timeout=JOB_SECONDS).success
    assert set(scrub.get_details().root) == {cluster.nodes[target]["id"] for target in cluster.targets()}
    assert sdk.cluster().list_running_jobs(job_kind="scrub") == []


def test_a_running_copy_is_listed_and_stopped(make_cluster):
    cluster = make_cluster(targets=2, drives=1, fail_points={name: "copy_bucket.object=sleep:400" for name in ("t1", "t2")})
    sdk = Client(cluster.endpoint, timeout=(5, 28))
    bucket = sdk.bucket("data")
    cluster.fill("data", dict.fromkeys((f"n-{i}" for i in range(60)), b"x" * 100))
    goal = sdk.bucket("copied")
    wait_until(lambda: sdk.cluster().list_running_jobs() == [], 10, "the rebalance of the start has ended")
    job = sdk.job(bucket.copy(goal, num_workers=-1), "copy-bck")
    # The rebalance of the start may begin only now: of copies, this is the one.
    assert sdk.cluster().list_running_jobs(job_kind="copy-bck") == [f"copy-bck[{job.job_id}]"]
    assert sdk.cluster().list_running_jobs(job_kind="copy-bck", target_id=cluster.nodes["t1"]["id"])
    assert sdk.cluster().list_running_jobs(job_kind="lru") == []
    job.abort()
    for result in (job.wait(timeout=JOB_SECONDS), job.wait_for_idle(timeout=JOB_SECONDS)):
        assert not result.success and result.error
    assert sdk.cluster().list_running_jobs(job_kind="copy-bck") == []
    assert len(list(goal.list_all_objects_iter())) < 60
