"""Files of a cache that do not give back what was stored: their objects are fetched again (C1, D1)."""

import os

import pytest
from harness import attribute, client, jobs
from harness.coded import flip
from harness.upstreams import WebServer, is_stored, make_bucket, upstream_cluster, wait_stored
from harness.waiting import wait_until

BUCKET = "ht://web"
SIZE = 2_000_000


@pytest.fixture
def web(tmp_path):
    with WebServer(tmp_path / "web") as server:
        yield server


def stored_file(cluster, target):
    (path,) = attribute.data_files(cluster.drives(target))
    return path


def cut(path):
    os.truncate(path, SIZE // 3)


def in_block(number):
    return lambda path: flip(path, number * (1 << 20) + 5000)


def make(make_cluster, web, rng, copies=None):
    cluster = upstream_cluster(make_cluster, web, targets=1)
    cluster.expect_errors(r" error (drive|target|http|scrub) ")
    assert make_bucket(cluster, BUCKET, web.url, copies).status == 200
    body = rng.randbytes(SIZE)
    web.write("shard", body)
    assert cluster.get(BUCKET, "shard").body == body
    wait_stored(cluster, BUCKET, "shard")
    return cluster, body


@pytest.mark.gate("C1, of a cache")
@pytest.mark.parametrize("damage", [in_block(0), in_block(1), cut], ids=["first block", "second block", "cut"])
def test_a_reader_of_a_bad_file_has_the_object_fetched_again(make_cluster, web, rng, damage):
    cluster, body = make(make_cluster, web, rng)
    cluster.kill("t1")  # which forgets what it has verified
    damage(stored_file(cluster, "t1"))
    cluster.start("t1")

    def is_fetched():
        try:
            answer = cluster.get(BUCKET, "shard")
        except (client.ProtocolError, OSError):  # found behind the first byte: never a wrong one
            return False
        assert answer.status == 200 and answer.body == body, answer
        return web.requests("GET", "shard") > 1 and cluster.logs["t1"].matching("bad file evicted")

    wait_until(is_fetched, 30, "it is fetched again")
    wait_until(lambda: cluster.get(BUCKET, "shard").body == body and is_stored(cluster, BUCKET, "shard"), 30, "it is stored again")
    requests = web.requests("GET", "shard")
    for _ in range(3):
        assert cluster.get(BUCKET, "shard").body == body
    assert web.requests("GET", "shard") == requests, "it is served from the drive again"


@pytest.mark.gate("C1, of a cache")
def test_a_scrub_has_bad_files_fetched_again(make_cluster, web, rng):
    cluster, body = make(make_cluster, web, rng)
    flip(stored_file(cluster, "t1"), 1_500_000)
    job = jobs.start(cluster, "scrub")
    jobs.ended(cluster, job)
    cluster.logs["t1"].wait_for("bad file evicted, upstream has it object=ht://web/shard")
    assert not cluster.names(BUCKET, flags="1"), "it is not in the cluster now"
    assert cluster.get(BUCKET, "shard").body == body
    wait_stored(cluster, BUCKET, "shard")


@pytest.mark.gate("C1, of a cache")
def test_when_all_copies_are_bad_the_object_is_fetched_again(make_cluster, web, rng):
    cluster, body = make(make_cluster, web, rng, {"mirror": {"enabled": True, "copies": 2}})
    files = list(attribute.data_files(cluster.drives("t1")))
    assert len(files) == 2
    cluster.kill("t1")
    for path in files:
        flip(path, 1000)
    cluster.start("t1")
    wait_until(lambda: cluster.get(BUCKET, "shard").body == body and cluster.logs["t1"].matching("bad file evicted"), 30,
               "it is fetched again")
    wait_until(lambda: cluster.get(BUCKET, "shard").body == body and is_stored(cluster, BUCKET, "shard"), 30, "it is stored again")
    wait_until(lambda: len(attribute.data_files(cluster.drives("t1"))) == 2, 30, "it has two copies")


@pytest.mark.gate("C1, of a cache")
def test_nothing_wrong_is_served_while_upstream_is_away(make_cluster, web, rng):
    """The answer names upstream, which has to have the object."""
    cluster, body = make(make_cluster, web, rng)
    path = stored_file(cluster, "t1")
    cluster.kill("t1")
    flip(path, 1000)
    web.stop()
    cluster.start("t1")
    wait_until(lambda: cluster.get(BUCKET, "shard").status == 503, 30, "upstream is named")
    assert web.url in cluster.get(BUCKET, "shard").text
    web.start()
    wait_until(lambda: cluster.get(BUCKET, "shard").body == body, 30, "upstream is asked again")
