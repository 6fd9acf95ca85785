"""The relay listener: for clients that do not follow redirects. The lines of the talk that asked for this system."""

import subprocess

import pytest
from harness import client
from harness.waiting import guarded

MIB = 1 << 20


def curl(*words, code=0):
    result = subprocess.run(["curl", "-sS", *map(str, words)], capture_output=True, timeout=guarded(120))
    assert result.returncode == code, (words, result)
    return result.stdout


@pytest.fixture
def default_names(cluster):
    """Removes from the default bucket what the test puts there."""
    before = set(cluster.names("data"))
    yield
    for name in set(cluster.names("data")) - before:
        cluster.delete("data", name)


def test_curl_without_l_stores_and_reads(cluster, default_names, tmp_path, rng):
    dataset = tmp_path / "dataset.tar"
    dataset.write_bytes(rng.randbytes(3 * MIB))
    curl("-f", "-T", dataset, f"{cluster.relay}/dataset.tar")
    assert curl("--fail", "-s", f"{cluster.relay}/dataset.tar") == dataset.read_bytes()
    # It is the object of that name in the default bucket, for all clients.
    assert cluster.get("data", "dataset.tar").body == dataset.read_bytes()
    curl("--fail", "-s", f"{cluster.relay}/nothing.tgz", code=22)


def test_what_dlinputs_does(cluster, default_names, rng):
    """It expands @000003 to 000000..000003 and reads each with `curl --fail -s URL`, no -L."""
    shards = [rng.randbytes(100_000) for _ in range(4)]
    for i, shard in enumerate(shards):
        assert cluster.put("data", f"imagenet-{i:06d}.tgz", shard).status == 200
    template = f"{cluster.relay}/imagenet-@000003.tgz"
    head, _, rest = template.partition("@")
    urls = [f"{head}{i:06d}{rest[6:]}" for i in range(int(rest[:6]) + 1)]
    assert [curl("--fail", "-s", url) for url in urls] == shards


def test_every_verb_is_relayed(cluster, bucket, rng):
    body = rng.randbytes(2 * MIB + 3)
    url = f"{cluster.relay}/{bucket}/x"
    assert client.request("PUT", url, body, follow=False).status == 200
    assert client.request("PUT", url, iter([body[:5], body[5:]]), follow=False, expect=False).status == 200
    got = client.request("GET", url, follow=False)
    assert got.status == 200 and got.body == body and got.headers["ETag"]
    part = client.request("GET", url, headers={"Range": "bytes=10-19"}, follow=False)
    assert part.status == 206 and part.body == body[10:20]
    assert client.request("GET", url, headers={"If-None-Match": got.headers["ETag"]}, follow=False).status == 304
    head = client.request("HEAD", url, follow=False)
    assert head.status == 200 and head.headers["Content-Length"] == str(len(body))
    assert client.request("PUT", url, b"no", headers={"If-None-Match": "*"}, follow=False).status == 412
    assert client.request("DELETE", url, follow=False).status == 200
    missing = client.request("GET", url, follow=False)
    assert missing.status == 404 and missing.json()["status"] == 404


def test_100_continue_comes_from_the_target(cluster, bucket):
    """A PUT that is refused from its head alone is refused before the body is sent."""
    assert cluster.put(bucket, "x", b"there").status == 200
    with client.RawConnection(cluster.relay) as connection:
        connection.send_head("PUT", f"/{bucket}/x",
                             {"Content-Length": "1000", "Expect": "100-continue", "If-None-Match": "*"})
        status, _ = connection.read_head()
        assert status == 412
    with client.RawConnection(cluster.relay) as connection:
        connection.send_head("PUT", f"/{bucket}/x", {"Content-Length": "5", "Expect": "100-continue"})
        assert connection.read_head()[0] == 100
        connection.send(b"fresh")
        assert connection.read_response().status == 200
    assert cluster.get(bucket, "x").body == b"fresh"


def test_a_name_of_one_segment_is_a_bucket_when_there_is_one(cluster, bucket, default_names):
    answer = client.request("GET", f"{cluster.relay}/{bucket}", follow=False)
    assert answer.status in (301, 302, 307, 308) and answer.headers["Location"] == f"{bucket}/"
    assert client.request("PUT", f"{cluster.relay}/{bucket}", b"body", follow=False).status == 409
    for base in (cluster.relay, cluster.endpoint):
        assert client.request("PUT", f"{base}/single.bin", b"one segment").status == 200
        assert client.request("GET", f"{base}/single.bin").body == b"one segment"
        assert client.request("HEAD", f"{base}/single.bin").status == 200
        assert client.request("DELETE", f"{base}/single.bin").status == 200
        assert client.request("GET", f"{base}/single.bin").status == 404


def test_a_person_and_wget_can_walk_a_bucket(cluster, bucket, tmp_path, rng):
    files = cluster.fill(bucket, {"readme.txt": b"hello", "train/a.bin": rng.randbytes(1000), "train/deep/b & c.bin": b"awkward <name>"})
    page = client.request("GET", f"{cluster.endpoint}/{bucket}/", headers={"Accept": "text/html"})
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html")
    assert "readme.txt" in page.text and "<name>" not in page.text
    subprocess.run(["wget", "-q", "-r", "-np", "-nH", "-P", tmp_path, "-e", "robots=off", f"{cluster.relay}/{bucket}/"],
                   timeout=guarded(60))
    for name, body in files.items():
        assert (tmp_path / bucket / name).read_bytes() == body
