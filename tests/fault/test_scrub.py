"""Scrub reads what no client reads. Bad data is found, reported and rebuilt from redundancy, and a pass goes on where it was
(docs/reliability.md C6 to C8 without a reader)."""

import os
import random
import time

import pytest
from copies import ON_NODES
from harness import attribute, client, jobs
from harness.cli import Cli
from harness.coded import flip
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until

KIB = 1 << 10
MIB = 1 << 20
CODED = {"ec": {"enabled": True, "layout": "striped", "data_slices": 2, "parity_slices": 1, "objsize_limit": 1000}}
ON_DRIVES = {"mirror": {"enabled": True, "copies": 2}}
BAD = r"bad file|does not match|not what was stored|no other copy"


@pytest.fixture
def three(make_cluster):
    cluster = make_cluster(targets=3, drives=2)
    cluster.expect_errors(BAD)
    wait_until_in_place(cluster)
    return cluster


def store(cluster, bucket, props, sizes, rng):
    if bucket != "data":  # that is there already
        cluster.create_bucket(bucket, props)
        wait_until_in_place(cluster)
    return cluster.fill(bucket, len(sizes), sizes, rng)


def files(cluster, bucket):
    """{path: what its attribute says} of all files of a bucket."""
    return {path: said for path, said in attribute.decoded(cluster.all_drives()).items() if said["bucket"] == bucket}


def drives(cluster):
    """{path: what is told of its scrub}"""
    return {path: drive for target in jobs.told(cluster, "scrub")["targets"].values() for path, drive in target["drives"].items()}


def findings(cluster):
    """{path of the file: finding}"""
    return {os.path.join(drive, found["file"]): found for drive, told in drives(cluster).items() for found in told["found"]}


def scrub(cluster, seconds=60):
    job = jobs.start(cluster, "scrub")
    status = jobs.ended(cluster, job, seconds)
    assert status["err"] == "" and not status["aborted"], status
    return job


@pytest.mark.gate("C6 by scrub")
def test_what_a_scrub_finds_bad_is_made_anew(three, seed):
    """A bad byte in the middle of a slice, in the label of one, in a copy on a node, in a copy on a drive. Also a slice, and a
    copy, whose file is gone, and an only copy, whose loss can only be reported."""
    rng = random.Random(seed)
    coded = store(three, "cut", CODED, [300 * KIB] * 3, rng)
    nodes = store(three, "two", ON_NODES, [2 * MIB + 77, 5000], rng)
    mirrored = store(three, "mir", ON_DRIVES, [MIB + 1, 100], rng)
    single = store(three, "data", None, [70_000], rng)

    def path_of(bucket, name, kind=1, **its):
        return rng.choice(sorted(path for path, said in files(three, bucket).items() if said["name"] == name
                                 and said["kind"] == kind and its.items() <= said.get("slice", {}).items()))

    damaged = {}
    for bucket, path, at in (("cut", path_of("cut", "n-0", 3, index=0), 70_000), ("cut", path_of("cut", "n-1", 3, index=2), -10),
                             ("two", path_of("two", "n-0"), 2 * MIB + 5), ("mir", path_of("mir", "n-0"), 12345),
                             ("data", path_of("data", "n-0"), 69_999)):
        flip(path, at % os.path.getsize(path))
        damaged[str(path)] = bucket
    gone = path_of("cut", "n-2", 3, index=1)
    for bucket, path in (("cut", gone), ("two", path_of("two", "n-1"))):
        os.remove(path)
        damaged[str(path)] = bucket
    scrub(three)
    found = findings(three)
    if str(gone) not in found:  # the owner has looked whether its slices are there, a moment before
        del damaged[str(gone)]
    assert set(found) == set(damaged), "each file that was damaged is found, on its drive, and no other"
    assert all(found[path]["bucket"] == f"ais://{bucket}" for path, bucket in damaged.items()), found
    (only,) = [path for path, bucket in damaged.items() if bucket == "data"]

    def all_repaired():
        return all(each["outcome"] == "repaired" for path, each in findings(three).items() if path != only)

    wait_until(all_repaired, 30, "what was found is repaired", every=0.25)
    assert findings(three)[only]["outcome"] == "open"
    told = jobs.told(three, "scrub")
    assert told["bad"] == len(damaged) and told["open"] == 1 and told["oldest_verified_ns"]
    print(f"injected: {len(damaged)} files damaged, none of them read; detected: all found, {len(damaged) - 1} repaired")
    # And it was: another scrub finds nothing but the only copy.
    scrub(three)
    assert jobs.told(three, "scrub")["bad"] == len(damaged) + 1
    assert sum(drive["bad"] for drive in drives(three).values()) == 1
    for bucket, bodies in (("cut", coded), ("two", nodes), ("mir", mirrored)):
        for name, body in bodies.items():
            assert client.request("GET", three.url(bucket, name)).body == body
    assert three.delete("data", next(iter(single))).status < 300
    wait_until(lambda: findings(three)[only]["outcome"] == "gone", 20, "it is seen that it has gone")
    worst = max(three.metric(target, "tarn_drive_verified_age_seconds", drive=str(drive))
                for target in three.targets() for drive in three.drives(target))
    assert worst < 120
    assert sum(three.metric(target, "tarn_drive_scrub_bad_files", drive=str(drive))
               for target in three.targets() for drive in three.drives(target)) == len(damaged) + 1


@pytest.mark.gate("C6, C8 in the ledger")
def test_what_is_known_to_be_bad_is_no_copy(make_cluster, seed):
    """An only copy whose file is gone, and a copy on a drive that cannot be made again for now. After a scrub the ledger does not count
    them, also after a start of their target. An only copy with a flip: after one reader. What is written again, made again or deleted is
    right again."""
    rng = random.Random(seed)
    cluster = make_cluster(targets=2, drives=2, fail_points={"t1": "mirror.before_repair=error", "t2": "mirror.before_repair=error"})
    cluster.expect_errors(BAD + "|bad copy stays|not put right| http ")
    wait_until_in_place(cluster)
    single = store(cluster, "data", None, [70_000] * 6, rng)
    mirrored = store(cluster, "mir", ON_DRIVES, [MIB + 1] * 4, rng)

    def counted(bucket):
        said = cluster.redundancy(bucket)
        return (said["full"], said["reduced"], said["lost"], said["lost_names"], said["complete"])

    def wait_counted(bucket, *wanted):
        wait_until(lambda: counted(bucket) == (*wanted, True), 60, f"{bucket} is {wanted}", every=0.2)

    def path_of(bucket, name):
        return rng.choice(sorted(path for path, said in files(cluster, bucket).items() if said["name"] == name))

    cli = Cli(cluster.endpoint)
    cli.ok("scrub", "start", "--wait")
    wait_counted("data", len(single), 0, 0, [])
    wait_counted("mir", len(mirrored), 0, 0, [])
    os.remove(path_of("data", "n-0"))
    flip(path_of("data", "n-2"), 0)
    flip(path_of("mir", "n-0"), 1000)
    assert counted("data")[2] == 0, "no target knows of it yet"
    job = cli("scrub", "start", "--wait")
    assert job.returncode == 7 and all(f"ais://{name}" in job.stderr for name in ("data/n-0", "data/n-2", "mir/n-0")), job
    wait_counted("data", len(single) - 2, 0, 2, ["n-0", "n-2"])
    wait_counted("mir", len(mirrored) - 1, 1, 0, [])
    assert cluster.redundancy("mir")["at_risk"] == 1 and cluster.redundancy("data")["survives_drives"] == 0
    assert cluster.put("data", "n-0", single["n-0"]).status == 200
    wait_counted("data", len(single) - 1, 0, 1, ["n-2"])

    cluster.kill("t1", "t2")
    flip(path_of("data", "n-1"), 69_999)
    cluster.start("t1", "t2")
    wait_counted("data", len(single) - 1, 0, 1, ["n-2"])
    wait_counted("mir", len(mirrored) - 1, 1, 0, [])
    wait_until(lambda: client.request("GET", cluster.url("data", "n-1"), expect=False).status == 500, 60, "a reader meets it")
    wait_counted("data", len(single) - 2, 0, 2, ["n-1", "n-2"])
    for name in ("n-1", "n-2"):
        wait_until(lambda name=name: cluster.delete("data", name).status in (200, 204), 60, "it is deleted")
    wait_counted("data", len(single) - 2, 0, 0, [])
    job = cli("scrub", "start", "--wait")  # nothing is in the way of the repair any longer
    assert job.returncode == 0, job
    wait_counted("mir", len(mirrored), 0, 0, [])
    print("injected: four files gone or changed; detected: none of them counted until it was right again")


def test_a_scrub_goes_on_where_it_was(make_cluster, seed):
    """kill -9 of a target in the middle: its drives go on after the file that they had come to, in the same job."""
    cluster = make_cluster(targets=2, drives=1, settings={"scrub.bandwidth": "2MiB"})
    rng = random.Random(seed)
    store(cluster, "data", None, [512 * KIB] * 40, rng)
    job = jobs.start(cluster, "scrub")
    (drive,) = map(str, cluster.drives("t1"))

    def half():
        its = drives(cluster)[drive]
        return its["running"] and its["job"] == job and 0.3 < its["share"] < 0.8 and its

    before = wait_until(half, 60, "half of the drive has been read", every=0.05)
    cluster.kill("t1")
    cluster.start("t1")
    after = wait_until(lambda: (its := drives(cluster).get(drive)) is not None and its["known"] and its["files"] > 0 and its,
                       30, "the target tells of its drive", every=0.05)
    print(f"injected: t1 killed behind {before['files']} files; detected: it goes on behind {after['files']}")
    assert after["began_ns"] == before["began_ns"], "it is the same pass"
    assert after["files"] >= before["files"] - 5, "a second of it is read twice at most"
    assert jobs.status(cluster, job)["end_time"] == 0, "the job waits for it"
    status = jobs.ended(cluster, job, 90)
    assert status["err"] == "" and not status["aborted"], status
    its = drives(cluster)[drive]
    assert its["verified_ns"] == before["began_ns"] and not its["running"]
    held = sum("size" in attribute.decode(raw) for raw in attribute.data_files(cluster.drives("t1")).values())
    assert its["files"] == held, "each file once"


def test_everything_is_read_within_the_period_without_being_asked_for(make_cluster, seed):
    """The period is changed while it runs; then all drives are read again and again. A flip is found and repaired by that."""
    cluster = make_cluster(targets=2, drives=1)
    cluster.expect_errors(BAD)
    rng = random.Random(seed)
    store(cluster, "two", ON_NODES, [300 * KIB] * 6, rng)
    assert jobs.told(cluster, "scrub")["oldest_verified_ns"] is None
    set_config(cluster, "scrub.period", "6s")
    first = wait_until(lambda: jobs.told(cluster, "scrub")["oldest_verified_ns"], 30, "all has been read once")
    path = rng.choice(sorted(files(cluster, "two")))
    flip(path, 1000)
    wait_until(lambda: findings(cluster).get(str(path), {}).get("outcome") == "repaired", 30, "the flip is found and repaired")
    print("injected: a flip that no client reads; detected: found and repaired by the scrub that goes on by itself")
    again = wait_until(lambda: (now := jobs.told(cluster, "scrub")["oldest_verified_ns"]) > first and now, 30, "it goes on and on")
    assert (again - first) / 1e9 < 30
    # Nothing is read that was not asked for.
    set_config(cluster, "scrub.period", "0s")
    wait_until(lambda: not any(drive["rate"] for drive in drives(cluster).values()), 10, "it stands still")
    still = drives(cluster)
    assert wait_still(cluster) == {path: drive["began_ns"] for path, drive in still.items()}


def wait_still(cluster):
    time.sleep(4)
    return {path: drive["began_ns"] for path, drive in drives(cluster).items()}


def set_config(cluster, name, value):
    answer = client.request("PUT", f"{cluster.endpoint}/v1/cluster/set-config?{name}={value}", expect=False)
    assert answer.status == 200, answer


def test_a_scrub_that_is_stopped_is_in_no_hurry_any_more(make_cluster, seed):
    cluster = make_cluster(targets=1, drives=1, settings={"scrub.bandwidth": "4MiB", "scrub.period": "0s"})
    store(cluster, "data", None, [MIB] * 30, random.Random(seed))
    job = jobs.start(cluster, "scrub")
    wait_until(lambda: any(drive["files"] > 2 for drive in drives(cluster).values()), 20, "it has begun")
    refused = client.request("PUT", f"{cluster.endpoint}/v1/cluster", b'{"action":"start","value":{"Kind":"scrub"}}', jobs.JSON,
                             expect=False)
    assert refused.status == 409, refused
    assert jobs.stop(cluster, Kind="scrub").status == 200
    assert jobs.ended(cluster, job)["aborted"]
    (held,) = [drive["files"] for drive in drives(cluster).values()]
    (later,) = [drive["files"] for drive in drives(cluster).values()]
    assert held < 30 and later - held <= 1
    scrub(cluster)
    (its,) = drives(cluster).values()
    assert its["files"] == 30 and not its["running"], "another job begins at the begin"
