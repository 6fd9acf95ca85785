"""AIStore's jobs on what lies on drives: lru, cleanup-store, load-lom-cache."""

import concurrent.futures
import json
import os
import threading
import time

import pytest
from harness import attribute, client
from harness.cli import Cli
from harness.jobs import ended, query, snaps, status, stop, total
from harness.sdk import JOB_SECONDS, client_of
from harness.waiting import wait_until

JSON = {"Content-Type": "application/json"}
LEFT = b"what an upload left"
NAMES = [f"o-{i:02}" for i in range(40)]
SIZES = range(50, 170, 3)


def start(cluster, kind, bucket=None, **value):
    bck = {"name": bucket or "", "provider": "ais" if bucket else "", "namespace": {"uuid": "", "name": ""}}
    body = json.dumps({"action": "start", "name": "", "value": {"Kind": kind, "Bck": bck, "Buckets": None} | value}).encode()
    return client.request("PUT", f"{cluster.endpoint}/v1/cluster", body, JSON, expect=False)


def carried_out(cluster, kind, *words, **value):
    """The parts of a job that was started and has ended well."""
    answer = start(cluster, kind, *words, **value)
    assert answer.status == 200, answer
    end = ended(cluster, answer.text)
    assert not end["err"] and not end["aborted"], end
    found = snaps(cluster, answer.text)
    assert all(snap["is_idle"] and snap["kind"] == kind for snap in found.values())
    return found


def leave_work_files(cluster):
    """Leaves a work file on each drive, as if the drive had failed when it was to be removed. {target: how many}."""
    left = {}
    for name in cluster.targets():
        directories = [next(drive.glob("data/*")) for drive in cluster.drives(name)]
        for i, directory in enumerate(directories):
            (directory / f"{i:016x}").write_bytes(LEFT)
        left[cluster.nodes[name]["id"]] = len(directories)
    return left


def test_eviction_leaves_what_is_nowhere_else(cluster, bucket):
    bodies = cluster.fill(bucket, NAMES[:10], SIZES)
    jobs = [start(cluster, "lru").text, start(cluster, "lru-eviction", Force=True).text]
    assert len(set(jobs)) == 2
    for job in jobs:
        end = ended(cluster, job)
        assert end["kind"] == "lru" and not end["err"] and not end["aborted"], end
        found = snaps(cluster, job)
        assert found.keys() == {cluster.nodes[name]["id"] for name in cluster.targets()}
        assert total(found, "loc-objs") == 0 and all("have an upstream" in snap["ctlmsg"] for snap in found.values())
    known = [each["uuid"] for each in query(cluster, "status_all", kind="lru").json()]
    assert set(jobs) <= set(known) and len(known) == len(set(known))
    sdk = client_of(cluster.endpoint)
    again = sdk.job(job_kind="lru").start(buckets=[sdk.bucket(bucket)])
    assert sdk.job(again, "lru").wait(timeout=JOB_SECONDS).success
    cluster.assert_bodies(bucket, bodies)


def test_a_clean_up_takes_what_is_nobodys_and_nothing_else(make_cluster):
    cluster = make_cluster(targets=2, drives=2)
    bodies = cluster.fill("data", NAMES, SIZES)
    cluster.create_bucket("gone")
    assert cluster.put("gone", "object", b"of a bucket that is destroyed").status == 200
    (path,) = [path for path in attribute.paths(cluster.all_drives()) if b"that is destroyed" in path.read_bytes()]
    content, said = path.read_bytes(), os.getxattr(path, attribute.NAME)
    assert cluster.destroy_bucket("gone").status == 200
    wait_until(lambda: not path.exists(), 20, "the bucket's file is removed")
    assert total(carried_out(cluster, "cleanup-store"), "loc-objs") == 0
    path.write_bytes(content)
    os.setxattr(path, attribute.NAME, said)
    left = leave_work_files(cluster)

    # Of a bucket alone: these do not say whose they are, or are of another one.
    assert total(carried_out(cluster, "cleanup-store", "data"), "loc-objs") == 0
    count = len(attribute.paths(cluster.all_drives()))
    with client.RawConnection(cluster.relay) as connection:
        body = os.urandom(1 << 20)
        connection.send_head("PUT", "/data/slow", {"Content-Length": str(len(body))})
        connection.send(body[:400_000])
        wait_until(lambda: len(attribute.paths(cluster.all_drives())) == count + 1, 20, "the upload has a file")
        found = carried_out(cluster, "cleanup-store")
        connection.send(body[400_000:])
        answer = connection.read_response()
        assert answer.status == 200, answer
    holder = next(cluster.nodes[name]["id"] for name in cluster.targets() if any(path.is_relative_to(drive) for drive in cluster.drives(name)))
    expected = left | {holder: left[holder] + 1}
    assert {target: int(snap["stats"]["loc-objs"]) for target, snap in found.items()} == expected
    assert total(found, "loc-bytes") == sum(left.values()) * len(LEFT) + len(content)
    assert len(attribute.paths(cluster.all_drives())) == count + 1 - sum(expected.values())
    cluster.assert_bodies("data", bodies | {"slow": body})


@pytest.mark.parametrize("durability", ["full", "nosync"])
def test_cleaning_up_all_the_time_harms_no_write(make_cluster, rng, durability):
    cluster = make_cluster(targets=1, drives=2)
    cluster.create_bucket("busy", {"durability": durability})
    until, enough = time.monotonic() + 4, threading.Event()
    last = [{} for _ in range(4)]

    def write(mine, seed):
        names, number = [f"w{seed}-{i}" for i in range(6)], 0
        while not enough.is_set():
            name, number = names[number % 6], number + 1
            if number % 5 == 0:
                assert cluster.delete("busy", name).status in (200, 404)
                mine.pop(name, None)
            else:
                mine[name] = b"%d " % number * (seed + 1) * 300
                assert cluster.put("busy", name, mine[name]).status == 200

    with concurrent.futures.ThreadPoolExecutor(len(last)) as pool:
        writers = [pool.submit(write, mine, i) for i, mine in enumerate(last)]
        runs = 0
        try:
            while time.monotonic() < until or runs < 3 or sum(map(len, last)) < 10:
                carried_out(cluster, "cleanup-store")
                runs += 1
                broken = [writer for writer in writers if writer.done()]
                assert not broken, broken[0].exception()
        finally:
            enough.set()
    for writer in writers:
        writer.result()  # a write that was refused is told as that
    expected = {name: body for mine in last for name, body in mine.items()}
    assert len(expected) > 4
    cluster.assert_bodies("busy", expected)
    assert sorted(cluster.names("busy")) == sorted(expected)
    cluster.kill("t1")
    cluster.start("t1")
    cluster.assert_bodies("busy", expected)


def test_the_index_of_a_bucket_is_loaded(make_cluster):
    cluster = make_cluster(targets=2, drives=2)
    bodies = cluster.fill("data", NAMES, SIZES)
    cluster.create_bucket("other")
    cluster.put("other", "not-counted", b"x")
    cluster.kill("t1", "t2")
    cluster.start("t1", "t2")
    found = carried_out(cluster, "load-lom-cache", "data")
    assert total(found, "loc-objs") == len(bodies) and total(found, "loc-bytes") == sum(map(len, bodies.values()))
    assert len(found) == 2 and all(snap["bck"]["name"] == "data" for snap in found.values())
    tarn, one = Cli(cluster.endpoint), cluster.nodes["t1"]["id"]
    told = json.loads(tarn.ok("job", "start", "load-lom-cache", "data", "--wait", "--json"))
    assert (told["objects"], told["bytes"]) == (len(bodies), sum(map(len, bodies.values())))
    job = tarn.ok("job", "start", "cleanup", "--target", one).decode().strip()
    assert ended(cluster, job)["kind"] == "cleanup-store" and snaps(cluster, job).keys() == {one}
    tarn.refuses(2, "job", "start", "load-lom-cache", says="of one bucket")
    assert carried_out(cluster, "load-lom-cache", "data", DaemonID=one).keys() == {one}
    assert start(cluster, "warm-up-metadata", "no-such").status == 404
    for wrong, says in ((start(cluster, "warm-up-metadata"), "of one bucket"),
                        (start(cluster, "cleanup", DaemonID=cluster.nodes["p1"]["id"]), "is no target")):
        assert wrong.status == 400 and says in wrong.json()["message"], wrong
    # And let go of again, which readers do not notice.
    forget = client.request("PUT", f"{cluster.endpoint}/v1/cluster", b'{"action":"clear-lcache"}', JSON, expect=False)
    assert forget.status == 200, forget
    cluster.assert_bodies("data", bodies)


def test_a_clean_up_is_stopped_and_waits_for_nobody_who_is_away(make_cluster):
    cluster = make_cluster(targets=2, drives=1, fail_points={"t1": "clean_up.directory=sleep:200"})
    (drive,) = cluster.drives("t1")
    for i in range(25):
        (drive / f"data/{i + 100:08x}").mkdir()
        (drive / f"data/{i + 100:08x}/{i:016x}").write_bytes(LEFT)
    job = start(cluster, "cleanup").text
    assert query(cluster, "running_all", kind="cleanup").json() == [f"cleanup-store[{job}]"]
    assert stop(cluster, ID=job).status == 200
    end = status(cluster, job)
    assert end["aborted"] and end["end_time"] > 0, end
    assert any(path.read_bytes() == LEFT for path in attribute.paths(cluster.drives("t1"))), "it went on all the same"
    gone = cluster.nodes["t2"]["id"]
    cluster.kill("t2")
    wait_until(lambda: start(cluster, "cleanup", DaemonID=gone).status == 503, 20, "the cluster knows that t2 is away", every=0.5)
    assert carried_out(cluster, "cleanup-store").keys() == {cluster.nodes["t1"]["id"]}
    assert not any(path.read_bytes() == LEFT for path in attribute.paths(cluster.drives("t1")))
