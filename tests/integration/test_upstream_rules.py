"""Parts of cold objects, by the rule of their bucket, and web servers that have lost their folder."""

import concurrent.futures
import itertools
import shutil
import threading
import time

import pytest
from harness import client, jobs
from harness.upstreams import WebServer, counted, is_stored, make_bucket, stand_still, wait_stored
from harness.waiting import wait_until

MIB = 1 << 20


@pytest.fixture
def slow_web(tmp_path):
    """Its connections are so slow that no large object is ever fetched whole."""
    with WebServer(tmp_path / "slow", rate="1m") as server:
        yield server


def part_of(cluster, bucket, name, offset, length):
    text = f"bytes={offset}-{offset + length - 1}"
    answer = client.request("GET", cluster.url(bucket, name), headers={"Range": text})
    assert answer.status == 206 and len(answer.body) == length, answer
    return answer.body


def test_parts_of_a_huge_object_fetch_no_more_than_they_are(upstream_cluster, slow_web):
    """A few bytes here and there of an object of a GiB, such as those of an index, are worth no fetch of the whole."""
    for name in ("huge.tar", "read.tar"):
        slow_web.write(name, b"")
        with open(slow_web.files / name, "r+b") as file:
            file.truncate(1 << 30)
    cluster = upstream_cluster(slow_web)
    make_bucket(cluster, "ht://web", slow_web.url)
    for i in range(4):
        assert part_of(cluster, "ht://web", "huge.tar", i * 100 * MIB, 1000) == bytes(1000)
    assert counted(cluster, "fills_running") == 0 and counted(cluster, "bytes_total") == 4000
    # A reader of the whole, in parts.
    part_of(cluster, "ht://web", "read.tar", 0, 1000)
    part_of(cluster, "ht://web", "read.tar", 1000, 1000)
    assert counted(cluster, "fills_running") == 1

    # Rules of a bucket.
    make_bucket(cluster, "ht://passing", slow_web.url, {"cold_range": "pass"})
    slow_web.write("small.tar", bytes(10_000))
    before = counted(cluster, "fills_total")
    for i in range(4):
        part_of(cluster, "ht://passing", "small.tar", i * 1000, 1000)
    assert counted(cluster, "fills_running") == 1 and counted(cluster, "fills_total") == before
    assert not is_stored(cluster, "ht://passing", "small.tar")
    make_bucket(cluster, "ht://filling", slow_web.url, {"cold_range": "fill"})
    for i in range(2):
        part_of(cluster, "ht://filling", "huge.tar", i * 100 * MIB, 1000)
    assert counted(cluster, "fills_running") == 2


def test_a_rule_that_cannot_be_says_what_can(upstream_cluster, web):
    cluster = upstream_cluster(web)
    make_bucket(cluster, "ht://web", web.url)
    wrong = cluster.bucket_action("PATCH", "ht://web", "set-bprops", {"cold_range": "sometimes"})
    assert wrong.status == 400 and "cold_range" in wrong.text and "pass" in wrong.text, wrong
    own = cluster.bucket_action("PATCH", "data", "set-bprops", {"cold_range": "pass"})
    assert own.status == 400 and "nothing upstream" in own.text, own
    assert cluster.bucket_action("PATCH", "ht://web", "set-bprops", {"cold_range": "pass"}).status == 200
    assert cluster.props("ht://web")["cold_range"] == "pass"


def test_parts_that_follow_each_other_are_one_stream(upstream_cluster, web, rng):
    body = rng.randbytes(24 * MIB)
    web.write("in-order.tar", body)
    web.write("at-once.tar", body)
    cluster = upstream_cluster(web)
    make_bucket(cluster, "ht://web", web.url)
    for i in range(3):
        assert part_of(cluster, "ht://web", "in-order.tar", i * 8 * MIB, 8 * MIB) == body[i * 8 * MIB:(i + 1) * 8 * MIB]
    wait_stored(cluster, "ht://web", "in-order.tar")
    # The first part alone, which may have been all that was wanted, was not a part of the fetch.
    assert counted(cluster, "bytes_total") == len(body) + 8 * MIB
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        parts = [pool.submit(part_of, cluster, "ht://web", "at-once.tar", i * 4 * MIB, 4 * MIB) for i in range(6)]
        assert b"".join(each.result() for each in parts) == body
    wait_stored(cluster, "ht://web", "at-once.tar")


def test_objects_stay_when_a_web_server_has_lost_their_folder(upstream_cluster, web, rng):
    """All of them answer 404 then; only where the folder answers, an object is known to be gone."""
    bodies = web.fill({name: rng.randbytes(1000) for name in ("a.tar", "b.tar")}, "folder")
    cluster = upstream_cluster(web)
    make_bucket(cluster, "ht://gone", f"{web.url}/folder", {"versioning": {"synchronize": True}})
    make_bucket(cluster, "ht://asked", f"{web.url}/folder", {"versioning": {"validate_warm_get": True}})
    for bucket in ("ht://gone", "ht://asked"):
        for name, body in bodies.items():
            assert cluster.get(bucket, name).body == body
        wait_stored(cluster, bucket, *bodies)
    asked = web.requests("GET", "folder/a.tar")
    shutil.move(web.files / "folder", web.files / "elsewhere")
    for bucket in ("ht://gone", "ht://asked"):
        lost = cluster.get(bucket, "a.tar")
        assert lost.status == 502 and "stays stored" in lost.text and web.url in lost.text, lost
        assert is_stored(cluster, bucket, "a.tar")
    shutil.move(web.files / "elsewhere", web.files / "folder")
    for bucket in ("ht://gone", "ht://asked"):
        assert cluster.get(bucket, "a.tar").body == bodies["a.tar"]
    assert web.requests("GET", "folder/a.tar") == asked, "it was fetched again"
    (web.files / "folder" / "a.tar").unlink()
    assert cluster.get("ht://gone", "a.tar").status == 404
    wait_until(lambda: not is_stored(cluster, "ht://gone", "a.tar"), 20, "what is gone upstream is evicted")
    assert cluster.get("ht://gone", "b.tar").body == bodies["b.tar"]


def test_a_prefetch_says_how_long_it_takes_yet(upstream_cluster, flawed, rng):
    goes_on = threading.Event()
    names = [f"p-{i}.tar" for i in range(8)]
    for name in names:
        flawed.objects[name] = rng.randbytes(1000)
    for name in names[:4]:
        flawed.flaws[name] = stand_still(goes_on)
    cluster = upstream_cluster(flawed)
    make_bucket(cluster, "s3://data", flawed.url)
    job = cluster.bucket_action("POST", "s3://data", "prefetch-listrange", {"objnames": names}).text
    try:
        def left():
            return [snap["ext"]["seconds_left"] for snap in jobs.snaps(cluster, job).values() if snap.get("ext")]

        said = wait_until(left, 30, "the time left is told")
        assert all(seconds > 0 for seconds in said), said
        assert jobs.status(cluster, job)["end_time"] == 0
    finally:
        goes_on.set()
    ended = jobs.ended(cluster, job)
    assert not ended["err"] and not ended["aborted"], ended
    assert jobs.total(jobs.snaps(cluster, job), "loc-objs") == 8 and not left()


def test_tries_are_further_apart_each_time_and_not_all_alike(upstream_cluster, flawed):
    """Calls that failed together are not repeated together, nor in a row."""
    names, asked = [f"{i}.tar" for i in range(3)], {}
    for name in names:
        flawed.objects[name] = b"x"

        def refuse(handler, _its, _start, name=name):
            asked.setdefault(name, []).append(time.monotonic())
            handler.say(503, b"<Error><Code>SlowDown</Code><Message>slow down</Message></Error>")

        flawed.flaws[name] = refuse
    cluster = upstream_cluster(flawed)
    make_bucket(cluster, "s3://data", flawed.url)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert [answer.status for answer in pool.map(lambda name: cluster.get("s3://data", name), names)] == [503] * 3
    rests = {name: [after - before for before, after in itertools.pairwise(times)] for name, times in asked.items()}
    print(f"seconds between tries: {rests}")
    for its in rests.values():
        assert len(its) == 3 and all(rest >= least for rest, least in zip(its, (0.2, 0.4, 0.8), strict=True)), rests
    assert any(max(same_try) - min(same_try) > 0.02 for same_try in zip(*rests.values(), strict=True)), "no jitter"
