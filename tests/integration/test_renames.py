"""Renames and copies between targets, under contention and without a target: no content is ever lost."""

import json
import threading
import urllib.parse

import pytest
from harness import client
from harness.cluster import LONG_LEASES

JSON = {"Content-Type": "application/json"}


def rename(cluster, bucket, name, new_name, base=None):
    body = json.dumps({"action": "rename-obj", "name": new_name}).encode()
    return client.request("POST", cluster.url(bucket, name, base=base), body, JSON)


def copy(cluster, bucket, name, new_name, base=None, **headers):
    goal = urllib.parse.quote(f"ais/@#/{bucket}/{new_name}")
    conditions = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.request("PUT", cluster.url(bucket, name, base=base) + f"&object_to={goal}", b"", conditions)


def in_threads(*functions):
    failures = []

    def guarded(function):
        try:
            function()
        except Exception as error:  # noqa: BLE001: shown below
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_renames_that_cross_neither_hang_nor_lose(cluster, bucket, rng):
    """a to b and b to a at the same time, on two targets: each waits for the other's name at its commit only."""
    a = cluster.names_owned_by("t1", bucket, 1)[0]
    b = cluster.names_owned_by("t2", bucket, 1)[0]
    content = rng.randbytes(1_500_000)
    assert cluster.put(bucket, a, content).status == 200
    seen = []

    def back_and_forth(name, new_name):
        for _ in range(15):
            seen.append(rename(cluster, bucket, name, new_name).status)

    in_threads(lambda: back_and_forth(a, b), lambda: back_and_forth(b, a))
    assert set(seen) <= {200, 404, 409} and 200 in seen
    left = cluster.names(bucket)
    assert left and set(left) <= {a, b}
    assert all(cluster.get(bucket, name).body == content for name in left)


def test_what_is_written_during_a_rename_is_not_deleted(cluster, bucket):
    """Whatever is acknowledged under the old name while it is renamed is under one of the two names afterwards."""
    for number in range(6):
        old, new = f"old-{number}", f"new-{number}"
        assert cluster.put(bucket, old, b"v0" * 400_000).status == 200
        versions = []

        def overwrite(old=old, versions=versions):
            for i in range(1, 6):
                body = b"v%d" % i * 400_000
                if cluster.put(bucket, old, body).status == 200:
                    versions.append(body)

        in_threads(overwrite, lambda old=old, new=new: rename(cluster, bucket, old, new))
        found = [answer.body for answer in (cluster.get(bucket, old), cluster.get(bucket, new)) if answer.status == 200]
        assert versions[-1] in found, "the last version that was acknowledged is gone"


def test_a_target_that_is_down_keeps_the_source(make_cluster):
    cluster = make_cluster(targets=2, drives=1, settings=LONG_LEASES)  # or its names go to the other one
    here = cluster.names_owned_by("t1", "data", 1)[0]
    there = cluster.names_owned_by("t2", "data", 1)[0]
    assert cluster.put("data", here, b"content").status == 200
    cluster.kill("t2")
    for answer in (rename(cluster, "data", here, there), copy(cluster, "data", here, there)):
        assert answer.status == 503 and answer.headers["Retry-After"], answer
    assert cluster.get("data", here).body == b"content"
    cluster.start("t2")
    assert copy(cluster, "data", here, there).status == 200
    assert rename(cluster, "data", there, here).status == 200
    assert cluster.names("data") == [here] and cluster.get("data", here).body == b"content"


@pytest.mark.parametrize("door", ["redirect", "relay"])
def test_conditions_of_a_copy_are_about_what_it_overwrites(cluster, bucket, door):
    base = cluster.relay if door == "relay" else None
    source, near = cluster.names_owned_by("t1", bucket, 2)
    far = cluster.names_owned_by("t2", bucket, 1)[0]
    etag = cluster.put(bucket, source, b"new").headers["ETag"]
    for goal in (near, far):
        old = cluster.put(bucket, goal, b"old").headers["ETag"]
        assert copy(cluster, bucket, source, goal, base, If_None_Match="*").status == 412
        assert copy(cluster, bucket, source, goal, base, If_Match=etag).status == 412
        assert cluster.get(bucket, goal).body == b"old"
        copied = copy(cluster, bucket, source, goal, base, If_Match=old)
        assert copied.status == 200 and copied.headers["ETag"] == etag
        assert copied.headers["Ais-Checksum-Type"] == "xxhash2" and copied.headers["Ais-Checksum-Value"] == etag[1:17]
        assert cluster.get(bucket, goal).body == b"new"
    assert copy(cluster, bucket, source, source, base, If_None_Match="*").status == 412
    assert copy(cluster, bucket, source, source, base).headers["ETag"] == etag


def test_renames_keep_to_the_rules_of_names(cluster, bucket):
    assert cluster.put(bucket, "x", b"content").status == 200
    for wrong in ("", "x", "a//b", "../y", "y/", "a" * 1025):
        answer = rename(cluster, bucket, "x", wrong)
        assert answer.status == 400, answer
    for wrong in ("x", "ais/@#/no/../x", f"ais/@#/{bucket}/", f"nothing/@#/{bucket}/y"):
        url = cluster.url(bucket, "x") + "&object_to=" + urllib.parse.quote(wrong)
        assert client.request("PUT", url, b"").status == 400, wrong
    assert client.request("PUT", cluster.url(bucket, "x") + f"&object_to=ais/@%23/{bucket}/y", b"body").status == 400
    assert cluster.names(bucket) == ["x"]
    assert rename(cluster, bucket, "x", "in/a/directory", base=cluster.relay).status == 200
    assert cluster.get(bucket, "in/a/directory").body == b"content"
