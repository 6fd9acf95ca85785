"""Appends: unseen until flushed, sent again without harm, gone when abandoned."""

import hashlib
import threading
import urllib.parse

import pytest
from harness import attribute, client
from harness.waiting import wait_until


def append(cluster, bucket, name, body, handle="", kind="append", headers=None, base=None):
    url = cluster.url(bucket, name, base=base) + f"&append_type={kind}&append_handle={urllib.parse.quote(handle)}"
    return client.request("PUT", url, body, headers)


def handle_of(answer):
    assert answer.status == 200, answer
    return answer.headers["Ais-Append-Handle"]


def flush(cluster, bucket, name, handle, **options):
    return append(cluster, bucket, name, b"", handle, "flush", **options)


def test_bytes_gather_unseen_and_appear_at_once(cluster, bucket, rng):
    chunks = [rng.randbytes(size) for size in (0, 1, 1_048_575, 1, 2_500_000, 7)]
    handle = ""
    for turn, chunk in enumerate(chunks):
        base = (cluster.endpoint, cluster.relay)[turn % 2]
        handle = handle_of(append(cluster, bucket, "x", chunk, handle, base=base))
        assert cluster.get(bucket, "x").status == 404 and cluster.names(bucket) == []
    answer = flush(cluster, bucket, "x", handle)
    assert answer.status == 200 and "Ais-Append-Handle" not in answer.headers
    whole = b"".join(chunks)
    found = cluster.get(bucket, "x")
    assert found.body == whole and found.headers["Ais-Version"] == "1"
    assert cluster.list(bucket)[0]["size"] in (len(whole), str(len(whole)))
    again = cluster.put(bucket, "y", whole)
    assert found.headers["ETag"] == again.headers["ETag"], "the same bytes have the same checksum"


def test_an_append_begins_with_what_is_there(cluster, bucket, rng):
    old, new = rng.randbytes(3_000_001), rng.randbytes(2_000_003)
    assert cluster.put(bucket, "x", old, headers={"Ais-Custom-Md": "color=red"}).status == 200
    handle = handle_of(append(cluster, bucket, "x", new))
    assert cluster.get(bucket, "x").body == old
    assert flush(cluster, bucket, "x", handle).status == 200
    found = cluster.get(bucket, "x")
    assert found.body == old + new
    assert found.headers["Ais-Version"] == "2" and found.headers["Ais-Custom-Md"] == "color=red"


def test_an_append_that_is_sent_again_counts_once(cluster, bucket):
    """A client that did not hear the answer has the old handle only."""
    first = handle_of(append(cluster, bucket, "x", b"one "))
    second = handle_of(append(cluster, bucket, "x", b"two, and much longer ", first))
    assert handle_of(append(cluster, bucket, "x", b"two ", first)) != second
    third = handle_of(append(cluster, bucket, "x", b"two ", first))
    assert append(cluster, bucket, "x", b"lost", second).status == 400
    fourth = handle_of(append(cluster, bucket, "x", b"three", third))
    assert append(cluster, bucket, "x", b"too late", first).status == 400
    assert flush(cluster, bucket, "x", fourth).status == 200
    assert cluster.get(bucket, "x").body == b"one two three"


def test_an_append_that_breaks_off_does_not_count(cluster, bucket):
    handle = handle_of(append(cluster, bucket, "x", b"whole "))
    url = cluster.url(bucket, "x") + f"&append_type=append&append_handle={handle}"
    location = client.request("PUT", url, b"z" * 2_000_000, follow=False).headers["Location"]
    with client.RawConnection(location) as connection:
        connection.send_head("PUT", client.target_of(location), {"Content-Length": "2000000"})
        connection.send(b"z" * 1_500_000)
        wait_until(lambda: append(cluster, bucket, "x", b"", handle).status == 409, 10, "the append is busy")
    wrong = {"Ais-Checksum-Type": "md5", "Ais-Checksum-Value": hashlib.md5(b"other").hexdigest()}

    def free():
        return append(cluster, bucket, "x", b"bytes", handle, headers=wrong).status != 409

    wait_until(free, 10, "the target has seen the cut")
    assert append(cluster, bucket, "x", b"bytes", handle, headers=wrong).status == 400
    assert flush(cluster, bucket, "x", handle).status == 200
    assert cluster.get(bucket, "x").body == b"whole "


@pytest.mark.parametrize("kind", ["xxhash2", "md5", "sha256"])
def test_a_checksum_at_the_flush_is_that_of_the_whole(cluster, bucket, kind):
    def summed(data):
        if kind == "xxhash2":
            return cluster.put(bucket, "other", data).headers["Ais-Checksum-Value"]
        return hashlib.new(kind, data).hexdigest()

    part = b"part" * 500_000
    handle = handle_of(append(cluster, bucket, "x", part))
    handle = handle_of(append(cluster, bucket, "x", b"end", handle))
    fields = {"Ais-Checksum-Type": kind}
    bad = flush(cluster, bucket, "x", handle, headers=fields | {"Ais-Checksum-Value": summed(part)})
    assert bad.status == 400 and cluster.get(bucket, "x").status == 404
    good = flush(cluster, bucket, "x", handle, headers=fields | {"Ais-Checksum-Value": summed(part + b"end")})
    assert good.status == 200 and cluster.get(bucket, "x").body == part + b"end"


def test_wrong_handles_are_refused(cluster, bucket):
    handle = handle_of(append(cluster, bucket, "x", b"abc"))
    target, number, size = handle.split(".")
    other = next(name for name in (f"o-{i}" for i in range(100))
                 if cluster.owner(bucket, name) == cluster.owner(bucket, "x"))
    for name, wrong in (("x", "nonsense"), ("x", f"{target}.{number}.7"), ("x", f"{target}.0000.{size}"),
                        ("x", f"elsewhere.{number}.{size}"), (other, handle)):
        for kind in ("append", "flush"):
            answer = append(cluster, bucket, name, b"", wrong, kind)
            assert answer.status == 400 and "append_handle" in answer.json()["message"], answer
    assert flush(cluster, bucket, "x", "").status == 400
    assert append(cluster, bucket, "x", b"", "", "prepend").status == 400
    assert flush(cluster, bucket, "x", handle).status == 200
    assert flush(cluster, bucket, "x", handle).status == 400
    assert cluster.get(bucket, "x").body == b"abc"


def test_two_appends_at_the_same_time_do_not_mix(cluster, bucket):
    """While one append waits in the middle of its body, others are refused with 409."""
    handle = handle_of(append(cluster, bucket, "x", b"first "))
    url = cluster.url(bucket, "x") + f"&append_type=append&append_handle={handle}"
    location = client.request("PUT", url, b"y" * 1000, follow=False).headers["Location"]
    with client.RawConnection(location) as connection:
        connection.send_head("PUT", client.target_of(location), {"Content-Length": "1000"})
        connection.send(b"y" * 500)
        wait_until(lambda: append(cluster, bucket, "x", b"", handle).status == 409, 10, "the append is busy")
        assert append(cluster, bucket, "x", b"intruder", handle).status == 409
        assert flush(cluster, bucket, "x", handle).status == 409
        connection.send(b"y" * 500)
        answer = connection.read_response("PUT")
    assert flush(cluster, bucket, "x", handle_of(answer)).status == 200
    assert cluster.get(bucket, "x").body == b"first " + b"y" * 1000


def test_appends_of_many_objects_at_once(cluster, bucket):
    failures = []

    def write(name):
        try:
            handle = ""
            for i in range(10):
                handle = handle_of(append(cluster, bucket, name, f"{name} {i}\n".encode(), handle))
            assert flush(cluster, bucket, name, handle).status == 200
        except AssertionError as error:
            failures.append(error)

    names = [f"n-{i}" for i in range(8)]
    threads = [threading.Thread(target=write, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for name in names:
        assert cluster.get(bucket, name).text == "".join(f"{name} {i}\n" for i in range(10))


def test_abandoned_appends_go_in_time(make_cluster):
    cluster = make_cluster(targets=1, drives=1, settings={"append.timeout": "6s"})  # longer than this test may stand still

    def files():
        return attribute.paths(cluster.drives("t1"))

    abandoned = handle_of(append(cluster, "data", "x", b"abandoned" * 1000))
    kept = handle_of(append(cluster, "data", "y", b"kept "))
    assert len(files()) == 2

    def one_left():
        nonlocal kept
        kept = handle_of(append(cluster, "data", "y", b".", kept))
        return len(files()) == 1

    wait_until(one_left, 20, "the abandoned append's file is gone", every=0.3)
    answer = append(cluster, "data", "x", b"more", abandoned)
    assert answer.status == 400 and "begin again" in answer.json()["message"]
    assert flush(cluster, "data", "y", kept).status == 200
    assert cluster.get("data", "y").text.startswith("kept .") and cluster.names("data") == ["y"]


def test_a_flush_into_a_destroyed_bucket_stores_nothing(cluster):
    name = cluster.create_bucket("flush-and-go")
    handle = handle_of(append(cluster, name, "x", b"abc"))
    cluster.destroy_bucket(name)
    assert flush(cluster, name, "x", handle).status == 404
