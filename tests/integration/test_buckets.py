"""Buckets through AIStore's calls: what they take, what they refuse, and who knows of a change when they have answered."""

import concurrent.futures
import json

import pytest
from harness import client

LIST = {"action": "list", "name": "", "value": None}


def call(cluster, method, path, body=None, headers=None):
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    return client.request(method, f"{cluster.endpoint}/v1/buckets{path}", body, headers, expect=False)


@pytest.fixture
def spare(cluster):
    """A name for a bucket that the test makes itself."""
    yield "spare"
    cluster.destroy_bucket("spare")


def test_a_list_of_buckets_is_filtered_by_provider_and_namespace(cluster, bucket):
    names = [each["name"] for each in call(cluster, "GET", "", LIST).json()]
    assert names == sorted(names) and {"data", bucket} <= set(names)
    for each in call(cluster, "GET", "?provider=ais", LIST).json():
        assert each["provider"] == "ais" and each["namespace"] == {"uuid": "", "name": ""}
    assert call(cluster, "GET", "?provider=s3", LIST).json() == []
    assert call(cluster, "GET", "?namespace=%40%23blue", LIST).json() == []
    assert [each["name"] for each in call(cluster, "GET", "").json()] == names, "a body is not needed"
    assert call(cluster, "GET", "?provider=nobody", LIST).status == 400


def test_namespaces_are_apart(cluster, spare):
    blue = "?provider=ais&namespace=%40%23blue"
    cluster.create_bucket(spare)
    assert call(cluster, "POST", f"/{spare}{blue}", {"action": "create-bck"}).status == 200
    try:
        objects = f"{cluster.endpoint}/v1/objects/{spare}/x"
        assert client.request("PUT", objects + "?provider=ais", b"global").status == 200
        assert client.request("PUT", objects + blue, b"blue").status == 200
        assert client.request("GET", objects + "?provider=ais").body == b"global"
        assert client.request("GET", objects + blue).body == b"blue"
        assert call(cluster, "HEAD", f"/{spare}{blue}").status == 200
    finally:
        assert call(cluster, "DELETE", f"/{spare}{blue}", {"action": "destroy-bck"}).status == 200
    assert cluster.get(spare, "x").body == b"global"


def test_properties_are_the_whole_tree_of_aistore(cluster, bucket):
    props = json.loads(call(cluster, "HEAD", f"/{bucket}").headers["Ais-Bucket-Props"])
    assert props["provider"] == "ais" and props["checksum"]["type"] == "xxhash2"
    assert props["versioning"]["enabled"] is True and props["ec"]["enabled"] is False
    assert int(props["bid"]) > 0 and int(props["created"]) > 10**18
    missing = call(cluster, "HEAD", "/no-such-bucket")
    error = json.loads(missing.headers["Hdr-Error"])
    assert missing.status == error["status"] == 404 and 'bucket "ais://no-such-bucket"' in error["message"]


@pytest.mark.parametrize("method, path, body, status", [
    ("POST", "/x", None, 400), ("POST", "/x", b"not json", 400), ("POST", "/x", {"action": 5}, 400),
    ("POST", "/x", {"action": "move-bck"}, 501), ("POST", "/data", {"action": "copy-bck"}, 501),
    ("POST", "", {"action": "create-bck"}, 400), ("POST", "/", {"action": "create-bck"}, 400),
    ("POST", "/x?provider=s3", {"action": "create-bck"}, 501), ("POST", "/v1", {"action": "create-bck"}, 400),
    ("POST", "/x", {"action": "create-bck", "value": {"no-such-property": 1}}, 400),
    ("POST", "/x", {"action": "create-bck", "value": {"mirror": {"enabled": True}}}, 501),
    ("DELETE", "/data", None, 400), ("DELETE", "/data", {"action": "evict-remote-bck"}, 400),
    ("DELETE", "/no-such", {"action": "destroy-bck"}, 404), ("DELETE", "", {"action": "destroy-bck"}, 400),
    ("PATCH", "/data", {"action": "set-bprops", "value": {}}, 501), ("PATCH", "/no-such", {"action": "set-bprops"}, 404),
    ("GET", "/data", {"action": "summary-bck"}, 501), ("GET", "/no-such", LIST, 404),
    ("PUT", "/data", {}, 405), ("POST", "/x", b" " * (1 << 20) + b"{}", 413)])
def test_what_is_refused(cluster, method, path, body, status):
    answer = call(cluster, method, path, body)
    assert answer.status == status and answer.json()["message"], answer
    assert "x" not in [each["name"] for each in call(cluster, "GET", "").json()]
    assert "data" in [each["name"] for each in call(cluster, "GET", "").json()]


def test_keys_of_an_action_may_be_in_any_case(cluster, spare):
    assert call(cluster, "POST", f"/{spare}", {"Action": "create-bck", "Name": "", "VALUE": None}).status == 200
    assert call(cluster, "HEAD", f"/{spare}").status == 200


def test_one_of_many_creators_wins(cluster, spare):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: call(cluster, "POST", f"/{spare}", {"action": "create-bck"}).status, range(8)))
    assert sorted(answers) == [200] + [409] * 7


def test_every_target_knows_of_a_bucket_that_is_gone(cluster, rng):
    """When destroy has answered, no target serves an object of the bucket, also to those that ask it directly."""
    for _ in range(3):
        cluster.create_bucket("spare")
        names = [f"x{i}" for i in range(12)]
        for name in names:
            assert cluster.put("spare", name, rng.randbytes(10)).status == 200
        direct = [cluster.url("spare", name, base=cluster.url_of(cluster.owner("spare", name))) for name in names]
        assert cluster.destroy_bucket("spare").status == 200
        assert {client.request("GET", url).status for url in direct} == {404}


def test_a_bucket_is_known_everywhere_when_create_has_answered(cluster):
    for round_number in range(5):
        cluster.create_bucket("spare")
        try:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda i: cluster.put("spare", f"x{i}", b"1").status, range(16)))
            assert set(answers) == {200}, round_number
        finally:
            assert cluster.destroy_bucket("spare").status == 200
