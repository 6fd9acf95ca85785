"""Every call on objects does the same in an erasure-coded bucket as in any other."""

import itertools
import json
import urllib.parse

import pytest
from harness import client
from harness.coded import KIB, LIMIT, STRIPE
from harness.coded import props as coded
from harness.jobs import JSON, copy_many, delete_many, ended, idle, to_bucket
from harness.waiting import wait_until

_numbers = itertools.count(1)


@pytest.fixture(params=["striped", "whole"])
def cut(request, cluster):
    """A coded bucket of 2+1."""
    name = cluster.create_bucket(f"cut-{request.param}-{next(_numbers)}", coded(request.param))
    yield name
    cluster.destroy_bucket(name)


@pytest.fixture
def other(cluster):
    """The name of a bucket that is not there yet."""
    name = f"cut-other-{next(_numbers)}"
    yield name
    cluster.destroy_bucket(name)


def put(cluster, bucket, name, body, **fields):
    answer = cluster.put(bucket, name, body, headers=fields)
    assert answer.status == 200 and "Tarn-Durability" not in answer.headers, answer
    return answer


def assert_kept(cluster, bucket, name, body, coded=True):
    """Checks that the object is read, and is in slices if it is larger than the limit."""
    for base in (cluster.endpoint, cluster.relay):
        got = client.request("GET", cluster.url(bucket, name, base=base))
        assert got.status == 200 and got.body == body, (name, got.status, len(got.body), len(body))
    head = cluster.head(bucket, name)
    assert int(head.headers["Content-Length"]) == len(body)
    if coded:
        assert head.headers["Ais-Ec-Replicated"] == ("false" if len(body) > LIMIT else "true"), head.headers


def append(cluster, bucket, name, chunk, handle="", kind="append"):
    url = cluster.url(bucket, name) + f"&append_type={kind}&append_handle={urllib.parse.quote(handle)}"
    answer = client.request("PUT", url, chunk)
    assert answer.status == 200, answer
    return answer.headers.get("Ais-Append-Handle")


def append_all(cluster, bucket, name, chunks):
    handle = ""
    for chunk in chunks:
        handle = append(cluster, bucket, name, chunk, handle)
    append(cluster, bucket, name, b"", handle, "flush")


def copy(cluster, bucket, name, goal, new_name, **fields):
    uname = urllib.parse.quote(f"ais/@#/{goal}/{new_name}")
    return client.request("PUT", cluster.url(bucket, name) + f"&object_to={uname}", b"", fields)


def rename(cluster, bucket, name, new_name):
    body = json.dumps({"action": "rename-obj", "name": new_name}).encode()
    return client.request("POST", cluster.url(bucket, name), body, JSON)


def test_appends(cluster, cut, rng):
    part = rng.randbytes(STRIPE + 77)
    append_all(cluster, cut, "new", [part[:100], part[100:]])
    assert_kept(cluster, cut, "new", part)
    append_all(cluster, cut, "new", [b"more"])  # onto slices
    assert_kept(cluster, cut, "new", part + b"more")
    put(cluster, cut, "grows", b"small")
    append_all(cluster, cut, "grows", [b"x" * LIMIT])  # past the limit
    assert_kept(cluster, cut, "grows", b"small" + b"x" * LIMIT)
    append_all(cluster, cut, "stays", [b"s", b"mall"])
    assert_kept(cluster, cut, "stays", b"small")
    assert sorted(cluster.names(cut)) == ["grows", "new", "stays"]


def test_renames(cluster, cut, rng):
    """Whichever target owns the new name."""
    bodies = {f"n-{i}": rng.randbytes(size) for i, size in enumerate([5, 150 * KIB, 300 * KIB + 1, LIMIT, LIMIT + 1, 70 * KIB])}
    for name, body in bodies.items():
        put(cluster, cut, name, body, **{"Ais-Custom-Md": "color=red", "Content-Type": "image/png"})
    put(cluster, cut, "new-n-1", b"is in the way" * 1000)
    for name, body in bodies.items():
        assert rename(cluster, cut, name, f"new-{name}").status == 200
        assert cluster.get(cut, name).status == 404
        assert_kept(cluster, cut, f"new-{name}", body)
        head = cluster.head(cut, f"new-{name}")
        assert head.headers["Ais-Custom-Md"] == "color=red" and head.headers["Content-Type"] == "image/png"
    assert sorted(cluster.names(cut)) == sorted(f"new-{name}" for name in bodies)


def test_copies_of_objects(cluster, bucket, cut, rng):
    bodies = {f"n-{i}": rng.randbytes(size) for i, size in enumerate([5, 150 * KIB, LIMIT + 1, 300 * KIB])}
    for name, body in bodies.items():
        put(cluster, bucket, name, body)
        assert copy(cluster, bucket, name, cut, f"of-plain-{name}").status == 200
        assert_kept(cluster, cut, f"of-plain-{name}", body)
        put(cluster, cut, "over", rng.randbytes(200 * KIB))
        assert copy(cluster, cut, f"of-plain-{name}", cut, "over").status == 200
        assert_kept(cluster, cut, "over", body)
        assert copy(cluster, cut, "over", bucket, f"back-{name}").status == 200
        assert_kept(cluster, bucket, f"back-{name}", body, coded=False)
    refused = copy(cluster, cut, "over", cut, "of-plain-n-1", **{"If-None-Match": "*"})
    assert refused.status == 412
    assert_kept(cluster, cut, "of-plain-n-1", bodies["n-1"])


def test_conditions(cluster, cut, rng):
    first, second = rng.randbytes(150 * KIB), rng.randbytes(160 * KIB)
    assert cluster.put(cut, "a", first, headers={"If-None-Match": "*"}).status == 200
    etag = cluster.head(cut, "a").headers["ETag"]
    for fields in ({"If-None-Match": "*"}, {"If-Match": '"other"'}, {"If-None-Match": etag}):
        assert cluster.put(cut, "a", second, headers=fields).status == 412, fields
        assert_kept(cluster, cut, "a", first)

    def get(**fields):
        return client.request("GET", cluster.url(cut, "a"), headers=fields)

    unchanged = get(**{"If-None-Match": etag})
    assert unchanged.status == 304 and unchanged.body == b"" and unchanged.headers["ETag"] == etag
    assert get(**{"If-Match": '"other"'}).status == 412
    assert get(**{"If-Modified-Since": cluster.head(cut, "a").headers["Last-Modified"]}).status == 304
    part = get(**{"If-Range": etag, "Range": "bytes=100-199"})
    assert part.status == 206 and part.body == first[100:200]
    whole = get(**{"If-Range": '"other"', "Range": "bytes=100-199"})
    assert whole.status == 200 and whole.body == first
    out = get(Range=f"bytes={len(first)}-")
    assert out.status == 416 and out.headers["Content-Range"] == f"bytes */{len(first)}"
    assert cluster.put(cut, "a", second, headers={"If-Match": etag}).status == 200
    assert_kept(cluster, cut, "a", second)
    assert client.request("DELETE", cluster.url(cut, "a"), headers={"If-Match": etag}).status == 412
    assert_kept(cluster, cut, "a", second)


def test_many_objects_are_deleted_and_copied(cluster, cut, other, rng):
    bodies = {f"{'ab'[i % 2]}/n-{i:02}": rng.randbytes(size) for i, size in enumerate([5, 150 * KIB, LIMIT, LIMIT + 1] * 5)}
    for name, body in bodies.items():
        put(cluster, cut, name, body)
    answer = copy_many(cluster, cut, other, template="a/")
    assert answer.status == 200 and all(snap["is_idle"] for snap in idle(cluster, answer.text).values())
    cluster.assert_bodies(other, {name: body for name, body in bodies.items() if name.startswith("a/")})
    gone = [name for i, name in enumerate(bodies) if i % 3 == 0]
    answer = delete_many(cluster, cut, objnames=gone)
    assert answer.status == 200 and ended(cluster, answer.text)["err"] == ""
    left = {name: body for name, body in bodies.items() if name not in gone}
    cluster.assert_bodies(cut, left)
    answer = delete_many(cluster, cut, template="b/")
    assert answer.status == 200 and ended(cluster, answer.text)["err"] == ""
    cluster.assert_bodies(cut, {name: body for name, body in left.items() if name.startswith("a/")})


def test_a_bucket_is_copied_into_a_coded_one_and_back(cluster, bucket, cut, other, rng):
    bodies = {f"n-{i}": rng.randbytes(size) for i, size in enumerate([5, 150 * KIB, LIMIT, LIMIT + 1, 300 * KIB])}
    for name, body in bodies.items():
        put(cluster, bucket, name, body)
    for source, goal in [(bucket, cut), (cut, other)]:
        answer = to_bucket(cluster, source, "copy-bck", goal)
        assert answer.status == 200 and ended(cluster, answer.text)["err"] == ""
        cluster.assert_bodies(goal, bodies)
        for name, body in bodies.items():
            assert_kept(cluster, goal, name, body)  # the new one has the properties of its source
    wait_until(lambda: sorted(cluster.names(cut)) == sorted(bodies), 10, "the list is whole")
