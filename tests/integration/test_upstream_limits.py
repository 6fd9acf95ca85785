"""rate_limit.backend: how many requests, and bytes, a bucket may ask of its upstream server."""

import concurrent.futures
import re
import time

from harness import jobs
from harness.upstreams import counted, make_bucket

MIB = 1 << 20


def limit(cluster, bucket, **changes):
    return cluster.bucket_action("PATCH", bucket, "set-bprops", {"rate_limit": {"backend": changes}})


def limited(cluster, bucket, url, **changes):
    """A bucket with these limits. Looking whether it is there was not yet limited."""
    assert make_bucket(cluster, bucket, url).status == 200
    assert limit(cluster, bucket, **changes).status == 200
    return bucket


def test_requests_come_one_after_the_other_from_the_whole_cluster(upstream_cluster, web, rng):
    cluster = upstream_cluster(web, targets=2)
    bodies = web.fill({f"{i}.tar": rng.randbytes(1000 + i) for i in range(8)}, "evenly")
    # Each target has a half of it: a request each second.
    bucket = limited(cluster, "ht://evenly", f"{web.url}/evenly", enabled=True, interval="1s", max_tokens=2)
    begun, before = time.monotonic(), counted(cluster, "requests_total")
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        answers = dict(zip(bodies, pool.map(lambda name: cluster.get(bucket, name), bodies)))
    taken = time.monotonic() - begun
    assert {name: each.body for name, each in answers.items()} == bodies, answers
    asked = counted(cluster, "requests_total") - before
    # One target has sent half of them at least, and waits between two.
    assert asked >= len(bodies) and taken >= asked / 2 - 1, (asked, taken)
    for name, body in bodies.items():
        assert cluster.get(bucket, name).body == body
    assert counted(cluster, "requests_total") - before == asked  # what is stored needs none


def test_a_turn_that_is_far_away_is_refused_with_the_time(upstream_cluster, web, s3, rng):
    cluster = upstream_cluster(web, s3, targets=1)
    for name in ("a", "b", "c"):
        web.write(f"rarely/{name}", name.encode() * 100)
    bucket = limited(cluster, "ht://rarely", f"{web.url}/rarely", enabled=True, interval="1h", max_tokens=2)
    assert cluster.get(bucket, "a").status == 200
    refused = cluster.get(bucket, "b")  # its turn is in half an hour
    assert refused.status == 503 and refused.headers["Retry-After"], refused
    assert all(word in refused.text for word in ("rate_limit.backend", "ht://rarely", "2 reads")), refused
    (seconds,) = re.findall(r"next turn of this target is in (\d+) s", refused.text)
    assert 1500 < int(seconds) <= 1800, refused  # counted from the first request
    assert limit(cluster, bucket, enabled=False).status == 200  # in force at once
    assert cluster.get(bucket, "b").status == 200

    s3.client.create_bucket(Bucket="few-writes")
    bucket = limited(cluster, "s3://few-writes", s3.url, enabled=True, interval="1h", max_tokens=1_000_000, per_op_max_tokens="put:1")
    assert cluster.put(bucket, "first", b"1").status == 200
    refused = cluster.put(bucket, "second", b"2")
    assert refused.status == 503 and "1 writes" in refused.text, refused
    assert s3.client.list_objects_v2(Bucket="few-writes")["KeyCount"] == 1  # it was not sent
    assert cluster.get(bucket, "first").body == b"1" and cluster.get(bucket, "second").status == 404
    assert cluster.delete(bucket, "first").status == 200  # deletes have a limit of their own


def test_bytes_come_no_faster_than_the_bandwidth(upstream_cluster, web, s3, rng):
    cluster = upstream_cluster(web, s3, targets=2)
    bodies = web.fill({f"{i}.tar": rng.randbytes(MIB) for i in range(6)}, "slowly")
    bucket = limited(cluster, "ht://slowly", f"{web.url}/slowly", max_bandwidth="2MiB")
    begun = time.monotonic()
    answer = cluster.bucket_action("POST", bucket, "prefetch-listrange", {"objnames": list(bodies)})
    assert answer.status == 200 and not jobs.ended(cluster, answer.text)["err"], answer
    # A target has 1 MiB a second, a quarter of one at once, and lets one request more pass: the busier one has three objects.
    assert time.monotonic() - begun >= 3 - 0.25 - 1
    assert {name: cluster.get(bucket, name).body for name in bodies} == bodies

    s3.client.create_bucket(Bucket="slowly")
    bucket = limited(cluster, "s3://slowly", s3.url, max_bandwidth="2MiB")
    begun = time.monotonic()
    assert cluster.put(bucket, "x.tar", b"".join(bodies.values())[:3 * MIB]).status == 200
    assert time.monotonic() - begun >= 3 - 0.25 - 1
    assert s3.client.head_object(Bucket="slowly", Key="x.tar")["ContentLength"] == 3 * MIB


def test_a_failing_request_is_tried_again_as_often_as_the_bucket_says(upstream_cluster, flawed):
    cluster = upstream_cluster(flawed, targets=1)
    bucket = limited(cluster, "s3://again", flawed.url, enabled=True, max_tokens=1_000_000, num_retries=1)
    for name, retries in (("once", 1), ("twice", 2)):
        assert limit(cluster, bucket, num_retries=retries).status == 200
        flawed.objects[name] = b"x"
        flawed.flaws[name] = lambda handler, _body, _start: handler.say(503, b"<Error><Code>SlowDown</Code></Error>")
        assert cluster.get(bucket, name).status == 503
        asked = [path for method, path, _ in flawed.seen if method == "GET" and path.endswith(name)]
        assert len(asked) == 1 + retries, asked


def test_limits_that_make_no_sense_are_refused(upstream_cluster, web):
    cluster = upstream_cluster(web, targets=1)
    assert make_bucket(cluster, "ht://wrong", web.url).status == 200

    def refused(answer, *words):
        assert answer.status == 400 and all(word in answer.text for word in words), answer

    refused(limit(cluster, "ht://wrong", interval="500ms"), "rate_limit.backend.interval", "second")
    refused(limit(cluster, "ht://wrong", max_tokens=-1), "rate_limit.backend.max_tokens")
    for operations in ("get", "get:", "get:0", "get:5,", "head:5", "get:5x"):
        refused(limit(cluster, "ht://wrong", per_op_max_tokens=operations), "per_op_max_tokens", "get:100,put:50")
    refused(limit(cluster, "ht://wrong", max_bandwidth="fast"), "rate_limit.backend.max_bandwidth")
    cluster.create_bucket("of-its-own")
    refused(limit(cluster, "of-its-own", enabled=True), "rate_limit.backend.enabled", "nothing upstream")
    refused(limit(cluster, "of-its-own", max_bandwidth="1MiB"), "max_bandwidth", "nothing upstream")
