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
    ("POST", "/x", {"action": "move-bck"}, 400), ("POST", "/data", {"action": "copy-bck"}, 400),
    ("POST", "", {"action": "create-bck"}, 400), ("POST", "/", {"action": "create-bck"}, 400),
    ("POST", "/x?provider=oc", {"action": "create-bck"}, 501), ("POST", "/v1", {"action": "create-bck"}, 400),
    ("POST", "/x", {"action": "create-bck", "value": {"mirror": {"copies": 99}}}, 400),
    ("DELETE", "/data", None, 400), ("DELETE", "/data", {"action": "evict-remote-bck"}, 400),
    ("DELETE", "/no-such", {"action": "destroy-bck"}, 404), ("DELETE", "", {"action": "destroy-bck"}, 400),
    ("PATCH", "/data", None, 400), ("PATCH", "/data", {"action": "ec-encode"}, 501),
    ("PATCH", "/data", {"action": "set-bprops", "value": {"durability": "owner"}}, 400),
    ("PATCH", "/data", {"action": "set-bprops", "value": {"durability": "none"}}, 400),
    ("PATCH", "/no-such", {"action": "set-bprops"}, 404), ("PATCH", "/no-such", {"action": "reset-bprops"}, 404),
    ("GET", "/no-such", {"action": "summary-bck"}, 404), ("GET", "/data", {"action": "summary-bck", "value": 5}, 400),
    ("HEAD", "/data?presence=9", None, 400), ("GET", "/data/prefix", LIST, 400), ("GET", "/no-such", LIST, 404),
    ("PUT", "/data", {}, 501), ("POST", "/x", b" " * (4 << 20) + b"{}", 413)])
def test_what_is_refused(cluster, method, path, body, status):
    answer = call(cluster, method, path, body)
    error = json.loads(answer.headers["Hdr-Error"]) if method == "HEAD" else answer.json()
    assert answer.status == status and error["message"], answer
    assert "x" not in [each["name"] for each in call(cluster, "GET", "").json()]
    assert "data" in [each["name"] for each in call(cluster, "GET", "").json()]


def test_properties_are_set_merged_and_reset(cluster, spare):
    value = {"versioning": {"enabled": False}, "durability": "nosync", "extra": {"custom": "owner:a"}, "unknown": 1}
    assert call(cluster, "POST", f"/{spare}", {"action": "create-bck", "value": value}).status == 200
    made = cluster.props(spare)
    assert made["versioning"]["enabled"] is False and made["durability"] == "nosync" and made["extra"]["custom"] == "owner:a"
    changes = {"Versioning": {"Enabled": True}, "mirror": {"copies": 3}, "durability": None}
    assert call(cluster, "PATCH", f"/{spare}", {"action": "set-bprops", "value": changes}).status == 200
    changed = cluster.props(spare)
    assert changed == made | {"versioning": made["versioning"] | {"enabled": True}, "mirror": made["mirror"] | {"copies": 3}}
    wrong = {"versioning": {"enabled": False}, "mirror": {"copies": 99}}
    answer = call(cluster, "PATCH", f"/{spare}", {"action": "set-bprops", "value": wrong})
    assert answer.status == 400 and "mirror.copies" in answer.json()["message"] and "2 to 32" in answer.json()["message"]
    assert cluster.props(spare) == changed, "all of a change or nothing"
    bmd = json.loads(client.request("GET", f"{cluster.endpoint}/v1/daemon?what=bmd").body)
    assert bmd["providers"]["ais"]["@#"][spare] == changed and bmd["uuid"]
    assert call(cluster, "PATCH", f"/{spare}", {"action": "reset-bprops"}).status == 200
    default = cluster.props("data")
    assert cluster.props(spare) == default | {"bid": made["bid"], "created": made["created"]}


def test_a_change_of_properties_is_in_force_on_every_target(cluster, bucket):
    """Version numbers stop to grow with the very next write, whichever target takes it."""
    names = [f"x{i}" for i in range(12)]
    cluster.fill(bucket, dict.fromkeys(names, b"1"))

    def change(enabled):
        value = {"versioning": {"enabled": enabled}}
        assert call(cluster, "PATCH", f"/{bucket}", {"action": "set-bprops", "value": value}).status == 200

    def versions():
        cluster.fill(bucket, dict.fromkeys(names, b"2"))
        return {cluster.head(bucket, name).headers["Ais-Version"] for name in names}

    assert versions() == {"2"}
    change(False)
    assert len(versions()) == 1 and versions() == versions(), "no new versions"
    bmds = [client.request("GET", f"{cluster.url_of(node)}/v1/daemon?what=bmd").json() for node in cluster.targets()]
    assert all(bmd["providers"]["ais"]["@#"][bucket]["versioning"]["enabled"] is False for bmd in bmds)
    change(True)
    first, second = versions(), versions()
    assert {int(version) + 1 for version in first} == {int(version) for version in second}


def test_changes_at_the_same_time_are_all_kept(cluster, spare):
    cluster.create_bucket(spare)
    leaves = [{"mirror": {"copies": 5}}, {"ec": {"data_slices": 7}}, {"lru": {"batch_size": 2000}}, {"durability": "nosync"},
              {"extra": {"custom": "x"}}, {"rate_limit": {"frontend": {"burst_size": 9}}}, {"versioning": {"enabled": False}}]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda leaf: call(cluster, "PATCH", f"/{spare}", {"action": "set-bprops", "value": leaf}).status,
                                leaves))
    assert set(answers) == {200}
    props = cluster.props(spare)
    assert (props["mirror"]["copies"], props["ec"]["data_slices"], props["lru"]["batch_size"], props["durability"],
            props["extra"]["custom"], props["rate_limit"]["frontend"]["burst_size"], props["versioning"]["enabled"]) == (
        5, 7, 2000, "nosync", "x", 9, False)


def test_properties_survive_a_restart(make_cluster):
    cluster = make_cluster(targets=1, drives=1)
    value = {"durability": "nosync", "lru": {"dont_evict_time": "5h"}}
    assert call(cluster, "PATCH", "/data", {"action": "set-bprops", "value": value}).status == 200
    before = cluster.props("data")
    assert before["durability"] == "nosync" and before["lru"]["dont_evict_time"] == "5h"
    cluster.down()
    cluster.up()
    assert cluster.props("data") == before


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
