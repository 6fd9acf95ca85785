"""Custom metadata, HEAD in all its forms, and the small calls: check-lock, DELETE with a message."""

import json
import threading

import pytest
from harness import client

JSON = {"Content-Type": "application/json"}


def patch(cluster, bucket, name, value, base=None, **query):
    url = cluster.url(bucket, name, base=base) + "".join(f"&{key.replace('_', '-')}={word}" for key, word in query.items())
    return client.request("PATCH", url, json.dumps({"action": "", "name": "", "value": value}).encode(), JSON)


def custom_of(answer):
    return dict(line.split("=", 1) for line in answer.headers.get_all("Ais-Custom-Md") or [])


@pytest.fixture(params=["redirected", "relayed"])
def base(request, cluster):
    return cluster.endpoint if request.param == "redirected" else cluster.relay


def test_metadata_comes_with_a_put(cluster, bucket, base):
    url = cluster.url(bucket, "x", base=base)
    relayed = base == cluster.relay
    target = url if relayed else client.request("PUT", url, b"abc", follow=False).headers["Location"]
    with client.RawConnection(target) as connection:
        connection.send_head("PUT", client.target_of(target), [
            ("Content-Length", "3"), ("Ais-Custom-Md", "color=red"), ("ais-custom-md", "note=a=b, with a comma")])
        connection.send(b"abc")
        assert connection.read_response("PUT").status == 200
    for method in ("GET", "HEAD"):
        assert custom_of(client.request(method, url)) == {"color": "red", "note": "a=b, with a comma"}
    assert client.request("PUT", url, b"x", {"Ais-Custom-Md": "a=1, b=2"}).status == 200
    assert custom_of(client.request("GET", url)) == {"a": "1", "b": "2"}
    assert client.request("PUT", url, b"x").status == 200
    assert custom_of(client.request("GET", url)) == {}


def test_patches_merge_or_replace(cluster, bucket, base):
    assert cluster.put(bucket, "x", b"abc", headers={"Ais-Custom-Md": "color=red"}).status == 200
    before = cluster.head(bucket, "x").headers
    assert patch(cluster, bucket, "x", {"size": "9", "ümlaut": "schön"}, base=base).status == 200
    after = cluster.head(bucket, "x")
    found = {key.encode("latin-1").decode(): value.encode("latin-1").decode() for key, value in custom_of(after).items()}
    assert found == {"color": "red", "size": "9", "ümlaut": "schön"}
    assert patch(cluster, bucket, "x", {"only": "1"}, base=base, set_new_custom="true").status == 200
    assert custom_of(cluster.get(bucket, "x")) == {"only": "1"}
    assert patch(cluster, bucket, "x", {}, base=base, set_new_custom="true").status == 200
    assert custom_of(cluster.get(bucket, "x")) == {}
    for field in ("ETag", "Ais-Version", "Last-Modified", "Ais-Checksum-Value"):
        assert cluster.head(bucket, "x").headers[field] == before[field], field
    assert cluster.get(bucket, "x").body == b"abc"


def test_metadata_has_a_limit(cluster, bucket):
    """docs/reliability.md J5: more than 2 KiB is refused with a sentence, and nothing changes."""
    most = "v" * (2048 - 3)
    assert cluster.put(bucket, "x", b"abc", headers={"Ais-Custom-Md": f"k={most}"}).status == 200
    assert custom_of(cluster.head(bucket, "x")) == {"k": most}
    longest = "n" * 1024
    assert cluster.put(bucket, longest, b"abc", headers={"Ais-Custom-Md": f"k={most}"}).status == 200
    assert custom_of(cluster.head(bucket, longest)) == {"k": most}

    for answer in (patch(cluster, bucket, "x", {"one": "more"}),
                   patch(cluster, bucket, "x", {"k": most + "v"}, set_new_custom="true"),
                   cluster.put(bucket, "x", b"new", headers={"Ais-Custom-Md": f"k={most}v"}),
                   cluster.put(bucket, "y", b"new", headers={"Ais-Custom-Md": f"k={most}v"})):
        assert answer.status == 400 and "at most 2048 bytes" in answer.json()["message"], answer
    assert custom_of(cluster.head(bucket, "x")) == {"k": most} and cluster.get(bucket, "x").body == b"abc"
    assert sorted(cluster.names(bucket)) == [longest, "x"]


@pytest.mark.parametrize("value", [None, [], "text", {"a": 1}, {"": "x"}, {"a=b": "x"}, {"a": "line\nbreak"}, {"a": " x"}])
def test_bad_metadata_is_refused(cluster, bucket, value):
    assert cluster.put(bucket, "x", b"abc", headers={"Ais-Custom-Md": "color=red"}).status == 200
    answer = patch(cluster, bucket, "x", value)
    assert answer.status == 400 and "metadata" in answer.json()["message"]
    assert custom_of(cluster.head(bucket, "x")) == {"color": "red"}


def test_a_patch_has_conditions(cluster, bucket):
    etag = cluster.put(bucket, "x", b"abc").headers["ETag"]
    url = cluster.url(bucket, "x")
    body = json.dumps({"value": {"a": "1"}}).encode()
    assert client.request("PATCH", url, body, JSON | {"If-Match": '"other"'}).status == 412
    assert custom_of(cluster.head(bucket, "x")) == {}
    assert client.request("PATCH", url, body, JSON | {"If-Match": etag}).status == 200
    assert custom_of(cluster.head(bucket, "x")) == {"a": "1"}


def test_concurrent_patches_lose_nothing(cluster, bucket):
    assert cluster.put(bucket, "x", b"abc").status == 200
    answers = []

    def add(worker):
        for i in range(10):
            answers.append(patch(cluster, bucket, "x", {f"k{worker}-{i}": str(i)}).status)

    threads = [threading.Thread(target=add, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 60
    assert custom_of(cluster.head(bucket, "x")) == {f"k{worker}-{i}": str(i) for worker in range(6) for i in range(10)}


def head(cluster, bucket, name, **query):
    return client.request("HEAD", cluster.url(bucket, name) + "".join(f"&{key}={value}" for key, value in query.items()))


def test_presence(cluster, bucket):
    assert cluster.put(bucket, "x", b"abc").status == 200
    for presence in (0, 2, 4):
        answer = head(cluster, bucket, "x", presence=presence)
        assert answer.status == 200 and answer.headers["Ais-Present"] == "true" and answer.headers["Ais-Version"] == "1"
    for presence in (1, 3):
        answer = head(cluster, bucket, "x", presence=presence)
        assert answer.status == 200 and "Ais-Version" not in answer.headers
    assert head(cluster, bucket, "x", presence=5).status == 400
    for presence in range(6):
        assert head(cluster, bucket, "missing", presence=presence).status == 404
    for wrong in ("6", "-1", "yes"):
        answer = head(cluster, bucket, "x", presence=wrong)
        assert answer.status == 400 and "0 to 5" in json.loads(answer.headers["Hdr-Error"])["message"]


def test_conditions_and_ranges_of_a_head(cluster, bucket):
    etag = cluster.put(bucket, "x", b"abcdef").headers["ETag"]
    url = cluster.url(bucket, "x")
    assert client.request("HEAD", url, headers={"If-None-Match": etag}).status == 304
    assert client.request("HEAD", url, headers={"If-Match": '"other"'}).status == 412
    answer = client.request("HEAD", url, headers={"Range": "bytes=1-2"})
    assert answer.status == 200 and answer.headers["Content-Length"] == "6"


def test_a_plain_bucket_has_no_upstream_to_ask(cluster, bucket):
    assert cluster.put(bucket, "x", b"abc").status == 200
    for method in ("GET", "HEAD"):
        assert client.request(method, cluster.url(bucket, "x") + "&latest-ver=True").status == 200
        assert client.request(method, cluster.url(bucket, "x") + "&latest-ver=perhaps").status == 400
    # A way of fetching: the bytes are the same.
    answer = client.request("GET", cluster.url(bucket, "x"), headers={"Ais-Blob-Download": "true"})
    assert answer.status == 200 and answer.body == b"abc"


def test_check_lock_sees_a_commit(make_cluster):
    cluster = make_cluster(targets=1, drives=1, fail_points={"t1": "put.before_index=sleep:3500"})
    lock = json.dumps({"action": "check-lock"}).encode()

    def state():
        return client.request("POST", cluster.url("data", "x"), lock, JSON)

    assert state().status == 200
    writer = threading.Thread(target=lambda: cluster.put("data", "x", b"abc"))
    writer.start()
    seen = set()
    while writer.is_alive():
        seen.add(state().status)
    writer.join()
    assert seen == {200, 423} or seen == {423}, seen
    assert state().status == 200


@pytest.mark.parametrize("action", ["evict-listrange", "mpt-abort", "nonsense"])
def test_a_delete_that_means_something_else_deletes_nothing(cluster, bucket, base, action):
    assert cluster.put(bucket, "x", b"abc").status == 200
    url = cluster.url(bucket, "x", base=base)
    answer = client.request("DELETE", url, json.dumps({"action": action}).encode(), JSON)
    assert answer.status == (501 if action == "mpt-abort" else 400), answer
    assert client.request("DELETE", url, b"{no json", JSON).status == 400
    assert cluster.get(bucket, "x").body == b"abc"
    assert client.request("DELETE", url, b'{"action":"","name":"","value":null}', JSON).status == 200
    assert cluster.get(bucket, "x").status == 404


def test_writes_come_through_a_proxy_only(cluster, bucket):
    assert cluster.put(bucket, "x", b"abc").status == 200
    target = cluster.url_of(cluster.owner(bucket, "x"))
    for method, body in (("PATCH", {"value": {"a": "1"}}), ("POST", {"action": "rename-obj", "name": "y"}),
                         ("DELETE", {"action": ""})):
        url = cluster.url(bucket, "x", base=target)
        answer = client.request(method, url, json.dumps(body).encode(), JSON)
        assert answer.status == 400 and "proxy" in answer.json()["message"], answer
    assert cluster.names(bucket) == ["x"] and custom_of(cluster.head(bucket, "x")) == {}


@pytest.mark.parametrize("kind, digits", [("xxhash", 16), ("xxhash2", 16), ("crc32c", 8), ("md5", 32), ("sha256", 64),
                                          ("sha512", 128)])
def test_every_checksum_that_aistore_knows_is_compared(cluster, bucket, kind, digits):
    known = {"xxhash": "45ab6734b21e6968", "xxhash2": "45ab6734b21e6968", "crc32c": "c99465aa",
             "md5": "5eb63bbbe01eeed093cb22bb8f5acdc3",
             "sha256": "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"}
    if kind == "sha512":
        import hashlib
        known[kind] = hashlib.sha512(b"hello world").hexdigest()
    fields = {"Ais-Checksum-Type": kind, "Ais-Checksum-Value": known[kind]}
    assert len(known[kind]) == digits
    assert cluster.put(bucket, "x", b"hello world", headers=fields).status == 200
    assert cluster.put(bucket, "y", b"hello World", headers=fields).status == 400
    assert cluster.put(bucket, "y", b"x", headers={"Ais-Checksum-Type": "none", "Ais-Checksum-Value": ""}).status == 200
    assert cluster.put(bucket, "z", b"x", headers=fields | {"Ais-Checksum-Value": known[kind][2:]}).status == 400
    assert cluster.names(bucket) == ["x", "y"]
