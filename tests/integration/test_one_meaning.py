"""A path of one segment is a bucket, or else an object of the default bucket; neither takes it from the other."""

import json

import pytest
from harness import client
from harness.cli import Cli


@pytest.fixture
def shard(cluster):
    """An object of the default bucket, read by a path of one segment."""
    name = "one-meaning"
    assert client.request("PUT", f"{cluster.endpoint}/{name}", b"shard").status == 200
    yield name
    cluster.delete("data", name)


def is_shard(cluster, name):
    return all(client.request("GET", f"{base}/{name}").body == b"shard" for base in (cluster.endpoint, cluster.relay))


def test_no_bucket_takes_the_path_of_an_object(cluster, bucket, shard):
    made = cluster.bucket_action("POST", shard, "create-bck")
    renamed = client.request("POST", f"{cluster.endpoint}/v1/buckets/{bucket}?bck_to=ais/@%23/{shard}/",
                             b'{"action":"move-bck"}')
    copied = client.request("POST", f"{cluster.endpoint}/v1/buckets/{bucket}?bck_to=ais/@%23/{shard}/",
                            b'{"action":"copy-bck"}')
    for refused in (made, renamed, copied):
        assert refused.status == 409 and f"tarn cp data/{shard} data/NEW" in refused.json()["message"], refused
    assert is_shard(cluster, shard)
    Cli(cluster.endpoint).refuses(6, "bucket", "create", shard, says=f"from the object \"ais://data/{shard}\"")
    # The way out; longer names and names in directories are no obstacle.
    Cli(cluster.endpoint).ok("cp", f"data/{shard}", f"data/{shard}.tar")
    Cli(cluster.endpoint).ok("rm", f"data/{shard}")
    cluster.put("data", f"{shard}/below", b"x")
    assert cluster.bucket_action("POST", shard, "create-bck").status == 200
    try:
        assert client.request("GET", f"{cluster.endpoint}/{shard}.tar").body == b"shard"
    finally:
        cluster.destroy_bucket(shard)
        cluster.delete("data", f"{shard}.tar")
        cluster.delete("data", f"{shard}/below")


def test_no_object_takes_the_path_of_a_bucket(cluster, bucket, shard):
    copy = f"{cluster.endpoint}/v1/objects/data/{shard}?object_to=ais/@%23/data/{bucket}"
    rename = json.dumps({"action": "rename-obj", "name": bucket}).encode()
    for base in (cluster.endpoint, cluster.relay):
        refused = client.request("POST", f"{base}/v1/objects/data/{shard}", rename)
        assert refused.status == 409 and f'/{bucket} is the bucket "ais://{bucket}"' in refused.json()["message"], refused
        for refused in (client.request("PUT", f"{base}/data/{bucket}", b"hidden"),
                        client.request("PUT", f"{base}/v1/objects/data/{bucket}", b"hidden"), client.request("PUT", copy, b"")):
            assert refused.status == 409 and f'/{bucket} is the bucket "ais://{bucket}"' in refused.json()["message"], refused
        assert client.request("PUT", f"{base}/data/{bucket}/x", b"below").status == 200
        assert client.request("PUT", f"{base}/{bucket}/{bucket}", b"elsewhere").status == 200
    assert bucket not in cluster.names("data")
    assert cluster.delete("data", f"{bucket}/x").status == 200
