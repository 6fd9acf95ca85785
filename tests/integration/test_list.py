"""Lists: complete, in order of bytes, page by page, or an error; never short."""

import json

import msgpack
from harness import client
from harness.waiting import wait_until


def test_pages_join_to_the_whole_in_order_of_bytes(cluster, bucket, rng):
    names = sorted({"".join(rng.choices("abÄz/-._0", k=rng.randint(1, 12))).strip("/").replace("//", "/")
                    for _ in range(80)} - {"", ".", ".."}, key=str.encode)
    names = [name for name in names if not any(part in ("", ".", "..") for part in name.split("/"))]
    cluster.fill(bucket, rng.sample(names, len(names)))
    assert cluster.names(bucket) == names
    for pagesize in (1, 7, len(names), len(names) + 1):
        assert cluster.names(bucket, pagesize=pagesize) == names
    for entry in cluster.list(bucket):
        assert int(entry["size"]) == len(entry["name"].encode())
        assert int(entry["flags"]) & 64, "every object of the cluster is marked as cached"


def test_prefix_and_start_after(cluster, bucket):
    names = ["a", "a/1", "a/2", "ab", "b/1", "b/2", "c"]
    cluster.fill(bucket, names)
    assert cluster.names(bucket, prefix="a") == ["a", "a/1", "a/2", "ab"]
    assert cluster.names(bucket, prefix="a/") == ["a/1", "a/2"]
    assert cluster.names(bucket, prefix="nothing") == []
    assert cluster.names(bucket, start_after="ab") == ["b/1", "b/2", "c"]
    assert cluster.names(bucket, prefix="b/", pagesize=1) == ["b/1", "b/2"]


def test_the_same_list_as_msgpack_and_as_json(cluster, bucket):
    cluster.fill(bucket, ["one", "two", "three"])
    body = json.dumps({"action": "list", "name": "", "value": {"props": "name,size"}}).encode()
    url = f"{cluster.endpoint}/v1/buckets/{bucket}?provider=ais"
    answer = client.request("GET", url, body, {"Accept": "application/msgpack"}, expect=False)
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/msgpack"
    page = msgpack.unpackb(answer.body)
    assert page["UUID"] and page["ContinuationToken"] == "" and page["Flags"] == 0
    assert [(entry["n"], entry["s"]) for entry in page["Entries"]] == [("one", 3), ("three", 5), ("two", 3)]
    plain = client.request("GET", url)
    assert plain.headers["Content-Type"].startswith("application/json")
    assert [entry["name"] for entry in plain.json()["entries"]] == ["one", "three", "two"]


def test_an_empty_bucket_lists_as_empty(cluster, bucket):
    page = cluster.list_page(bucket).json()
    assert page["uuid"] and page["continuation_token"] == "" and not page.get("entries")


def test_names_written_during_a_list_do_not_disturb_it(cluster, bucket):
    """Whatever was there before the first page and stays is listed, once."""
    names = [f"n{i:03}" for i in range(0, 60, 2)]
    cluster.fill(bucket, names)
    page = cluster.list_page(bucket, pagesize=10).json()
    seen = [entry["name"] for entry in page["entries"]]
    cluster.fill(bucket, ["n001", "n031", "zz"])
    assert cluster.delete(bucket, "n002").status == 200
    while page["continuation_token"]:
        token = page["continuation_token"]
        page = cluster.list_page(bucket, pagesize=10, uuid=page["uuid"], continuation_token=token).json()
        seen += [entry["name"] for entry in page.get("entries") or []]
    assert seen == sorted(seen) and len(seen) == len(set(seen))
    assert set(names) <= set(seen)


def test_a_list_is_complete_after_every_put_and_delete(cluster, bucket, rng):
    there = set()
    for step in range(40):
        name = f"x{rng.randrange(15):02}"
        if name in there and rng.random() < 0.5:
            assert cluster.delete(bucket, name).status == 200
            there.discard(name)
        else:
            assert cluster.put(bucket, name, b"%d" % step).status == 200
            there.add(name)
        assert cluster.names(bucket) == sorted(there)


def test_list_is_complete_or_an_error(make_cluster):
    """With a target away a list would be short: it is refused until the target is back."""
    cluster = make_cluster()
    names = sorted(name for target in cluster.targets() for name in cluster.names_owned_by(target, "data", 10))
    cluster.fill("data", names)
    assert cluster.names("data") == names
    cluster.kill("t3")
    answer = cluster.list_page("data")
    assert answer.status == 503 and answer.headers["Retry-After"], answer
    cluster.start("t3")
    wait_until(lambda: cluster.list_page("data").status == 200, 10, "lists work again")
    assert cluster.names("data") == names
