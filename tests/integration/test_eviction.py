"""Eviction by an operator's order (the job lru), and what it leaves alone. What happens by itself on small drives:
tests/fault/test_eviction_faults.py."""

import concurrent.futures
import json
import time

import pytest
from harness import jobs
from harness.cli import Cli
from harness.upstreams import CREDENTIALS, FlawedServer, make_bucket, upstream_cluster
from harness.waiting import wait_until

# A drive of a test lies on the machine's file system, of which more than this is used.
NOW = {"space.low_watermark": 1, "space.high_watermark": 95}


@pytest.fixture
def server(rng):
    made = FlawedServer()
    made.objects = {f"o-{i:02}": rng.randbytes(5000 + i) for i in range(20)}
    yield made
    made.stop()


@pytest.fixture
def upstream(make_cluster, server):
    def make(props=None, **options):
        cluster = upstream_cluster(make_cluster, server, **{"targets": 2, "drives": 2} | options, settings=NOW)
        for bucket, its in (props or {"s3://data": {"dont_evict_time": "0s"}}).items():
            assert make_bucket(cluster, bucket, server.url, {"lru": its}).status == 200
        return cluster

    return make


def fetch_all(cluster, server, bucket="s3://data"):
    for name, body in server.objects.items():
        assert cluster.get(bucket, name).body == body
    wait_until(lambda: cached(cluster, bucket) == sorted(server.objects), 20, f"all of {bucket} is stored")


def cached(cluster, bucket="s3://data"):
    return cluster.names(bucket, flags="1")


def carried_out(cluster, **value):
    """(objects, bytes) of a job lru that ends well."""
    job = jobs.start(cluster, "lru", **value)
    end = jobs.ended(cluster, job)
    assert end["kind"] == "lru" and not end["err"] and not end["aborted"], end
    found = jobs.snaps(cluster, job)
    return jobs.total(found, "loc-objs"), jobs.total(found, "loc-bytes")


def bck(name, provider="aws"):
    return {"name": name, "provider": provider, "namespace": {"uuid": "", "name": ""}}


def test_an_order_evicts_what_can_be_fetched_again_and_nothing_else(upstream, server):
    cluster = upstream({"s3://data": {"dont_evict_time": "0s"}, "s3://kept": {"dont_evict_time": "0s", "enabled": False},
                        "s3://young": {}})
    cluster.put("data", "own", b"of a bucket without upstream")
    for bucket in ("s3://data", "s3://kept", "s3://young"):
        fetch_all(cluster, server, bucket)
    objects, size = carried_out(cluster, Buckets=[bck("kept"), bck("data", "ais")])
    assert (objects, size) == (0, 0) and cached(cluster) == sorted(server.objects)
    objects, size = carried_out(cluster)
    assert objects == len(server.objects) and size >= sum(map(len, server.objects.values()))
    assert cached(cluster) == [] and cached(cluster, "s3://kept") == cached(cluster, "s3://young") == sorted(server.objects)
    assert sum(cluster.metric(node, "tarn_evicted_objects_total") for node in cluster.targets()) == objects
    assert carried_out(cluster) == (0, 0)
    assert carried_out(cluster, Bck=bck("kept"), Force=True)[0] == len(server.objects)
    assert cached(cluster, "s3://kept") == [] and cached(cluster, "s3://young") == sorted(server.objects)
    assert cluster.get("data", "own").body == b"of a bucket without upstream"
    fetch_all(cluster, server)  # and it can


def test_buckets_with_an_upstream_are_evicted_from_unless_it_is_said(upstream, server):
    cluster = upstream({"s3://data": {}})
    assert cluster.props("s3://data")["lru"] == {"enabled": True, "dont_evict_time": "2h0m", "capacity_upd_time": "10m",
                                                 "batch_size": 32768}
    tarn = Cli(cluster.endpoint)
    tarn.ok("bucket", "set", "s3://data", "lru.enabled=false", "lru.dont_evict_time=0s")
    fetch_all(cluster, server)
    told = json.loads(tarn.ok("job", "start", "lru", "s3://data", "--wait", "--json"))
    assert told["objects"] == 0 and cached(cluster) == sorted(server.objects)
    told = json.loads(tarn.ok("job", "start", "lru", "s3://data", "--force", "--wait", "--json"))
    assert told["objects"] == len(server.objects) and cached(cluster) == []
    tarn.refuses(2, "cluster", "config", "set", "space.lowwm=97", says="cannot be above 'space.highwm'")
    tarn.refuses(2, "cluster", "config", "set", "space.lowwm=0", says="from 1 to 100")


def test_an_eviction_is_stopped(upstream, server, rng):
    server.objects = {f"o-{i:03}": rng.randbytes(5000 + i) for i in range(100)}  # half a minute of work at least
    cluster = upstream(targets=1, fail_points={"t1": "evict.after_delete=sleep:600"})
    fetch_all(cluster, server)
    job = jobs.start(cluster, "lru")
    wait_until(lambda: len(cached(cluster)) < len(server.objects), 20, "it has begun")
    assert f"lru[{job}]" in jobs.query(cluster, "running_all").json()
    assert jobs.stop(cluster, ID=job).status == 200
    end = jobs.status(cluster, job)
    assert end["aborted"] and end["end_time"] > 0, end
    left = cached(cluster)
    assert left, "it went on all the same"

    def stands():
        before = cached(cluster)
        time.sleep(1.5)  # two more would go
        return cached(cluster) == before

    wait_until(stands, 60, "it has come to its end")
    # Four workers of each of two drives may just have begun with an object.
    assert len(cached(cluster)) >= len(left) - 8, "it went on all the same"


def hits(cluster, point):
    return len(cluster.logs["t1"].matching(f"failpoint hit name={point}"))


def test_an_object_that_is_replaced_between_choice_and_delete_stays(upstream, server, rng):
    """The eviction stands still, with one event loop of four, when it has chosen; a PUT on another loop is faster."""
    server.objects = {"o": rng.randbytes(100_000)}
    cluster = upstream(targets=1, drives=1)
    fetch_all(cluster, server)
    cluster.kill("t1")
    cluster.add_arguments("t1", "--threads", "4")
    cluster.start("t1", fail_points="evict.before_delete=sleep:10000", environment=CREDENTIALS)
    for attempt in range(1, 6):  # on a slow machine the eviction may be faster
        newer = rng.randbytes(100_000)
        job = jobs.start(cluster, "lru")
        wait_until(lambda: hits(cluster, "evict.before_delete") == attempt, 60, "the object was chosen")
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            writes = [pool.submit(cluster.put, "s3://data", "o", newer) for _ in range(16)]
            assert next(concurrent.futures.as_completed(writes)).result().status == 200
            is_faster = jobs.status(cluster, job)["end_time"] == 0
            assert all(write.result().status == 200 for write in writes)
        if is_faster:
            break
    assert is_faster, "no PUT was faster than an eviction that takes ten seconds"
    end = jobs.ended(cluster, job)
    assert not end["err"], end
    assert jobs.total(jobs.snaps(cluster, job), "loc-objs") == 0, "a version was evicted that it had not chosen"
    # A target one of whose loops stands still is not ready.
    wait_until(lambda: cluster.list_page("s3://data", flags="1").status == 200, 60, "the target is heard again")
    assert cached(cluster) == ["o"] and cluster.get("s3://data", "o").body == newer
