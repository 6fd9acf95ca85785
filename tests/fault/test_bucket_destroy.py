"""Buckets that are destroyed and made again under writers (docs/reliability.md L6), and while nodes die (A3)."""

import os
import random
import signal
import threading
import time

import pytest
from harness import attribute
from harness import client as http
from harness.upstreams import WebServer, make_bucket, wait_stored
from harness.waiting import wait_until

ROUNDS = 12
KILLS = 8


@pytest.mark.gate("L6")
def test_nothing_outlives_its_bucket(cluster, seed):
    """A PUT is acknowledged before the bucket goes, or refused: whatever was acknowledged after it is in the next one, and
    nothing else is. No file of a destroyed bucket stays."""
    rng = random.Random(seed)
    bucket, acknowledged, late = "goes-and-comes", 0, []
    for turn in range(ROUNDS):
        cluster.create_bucket(bucket)
        results, enough = [], threading.Event()

        def write(number):
            index = 0
            while not enough.is_set():
                name, begun = f"w{number}-{index}", time.monotonic()
                answer = cluster.put(bucket, name, b"%d" % turn)
                results.append((name, begun, answer.status))
                index += 1

        writers = [threading.Thread(target=write, args=(i,)) for i in range(4)]
        for writer in writers:
            writer.start()
        wait_until(lambda: sum(status == 200 for *_, status in list(results)) > 10, 60, "writers are under way")
        time.sleep(rng.uniform(0.02, 0.15))
        assert cluster.destroy_bucket(bucket).status == 200
        gone = time.monotonic()
        again = turn % 2 == 0
        if again:
            cluster.create_bucket(bucket)
        time.sleep(0.05)
        enough.set()
        for writer in writers:
            writer.join()
        taken = {name for name, _, status in results if status == 200}
        acknowledged += len(taken)
        if again:
            behind = {name for name, begun, status in results if status == 200 and begun > gone}
            listed = set(cluster.names(bucket))
            assert behind <= listed <= taken | {name for name, _, status in results if status >= 500}
            assert cluster.destroy_bucket(bucket).status == 200
        else:
            late += [(name, status) for name, begun, status in results if begun > gone and status == 200]
    print(f"injected: {ROUNDS} buckets destroyed under {acknowledged} acknowledged PUTs; detected: {len(late)} acknowledged after it")
    assert acknowledged > 10 * ROUNDS and not late, late[:5]
    cluster.create_bucket(bucket)
    assert cluster.names(bucket) == []
    cluster.destroy_bucket(bucket)

    wait_until(lambda: not left(cluster, bucket), 10, "no file of it is left")


def test_nodes_killed_at_any_instant_of_a_destroy(make_cluster, rng):
    """A3: all of the bucket is there, or nothing; who got no answer asks again; nothing comes back with a later start."""
    cluster = make_cluster(apart=True, targets=2, drives=1)
    made = {f"n-{i}": bytes([i]) * 5000 for i in range(12)}
    answered = undone = 0
    for number in range(KILLS):
        bucket = f"dies-{number}"
        cluster.create_bucket(bucket)
        cluster.fill(bucket, made)
        victims = rng.choice([["p1"], ["p1"], ["t1"], ["t2"], ["p1", "t1", "t2"]])
        answers = []

        def destroy():
            try:
                answers.append(cluster.destroy_bucket(bucket).status)
            except (OSError, http.ProtocolError):
                answers.append(None)

        asking = threading.Thread(target=destroy)
        asking.start()
        time.sleep(rng.uniform(0, 0.02))
        for victim in victims:
            os.kill(cluster.pid(victim), signal.SIGKILL)
        for victim in victims:
            cluster.wait_exit(victim)
        asking.join()
        cluster.start(*victims)
        there = wait_until(lambda: next((status for status in [cluster.list_page(bucket).status] if status in (200, 404)), None),
                           15, "the bucket is there, or is not")
        if answers[0] == 200:
            answered += 1
            assert there == 404, "an acknowledged destroy was undone"
        if there == 200:
            undone += 1
            assert {name: cluster.get(bucket, name).body for name in made} == made
        assert cluster.destroy_bucket(bucket).status == (200 if there == 200 else 404)
    cluster.kill("p1", "t1", "t2")
    cluster.start("p1", "t1", "t2")
    for number in range(KILLS):
        bucket = f"dies-{number}"
        assert cluster.list_page(bucket).status == 404
        wait_until(lambda: not left(cluster, bucket), 10, "no file of it is left")
        cluster.create_bucket(bucket)
        assert cluster.names(bucket) == []
    print(f"injected: {KILLS} kills; detected: {answered} destroys were answered, {undone} had not happened")


def left(cluster, bucket):
    return [path for path, said in attribute.decoded(cluster.all_drives()).items() if said["bucket"] == bucket]


def test_nobody_reads_what_others_say_is_gone(make_cluster, rng):
    """A target with a lease has not heard of the end of a bucket. Meanwhile the others neither show its objects nor say that they
    are gone: they are unavailable. When it has heard, or has no lease any longer, they are gone everywhere."""
    cluster = make_cluster(apart=True, targets=2, drives=1)
    stopped, other = rng.sample(("t1", "t2"), 2)
    pause = rng.uniform(1, 2.5)  # seconds, less than its lease
    cluster.create_bucket("ends")
    names = {node: cluster.names_owned_by(node, "ends", 2)[1] for node in (stopped, other)}
    cluster.fill("ends", dict.fromkeys(names.values(), b"there"))
    seen, answers = set(), []
    cluster.stop(stopped)
    try:
        begun = time.monotonic()
        asking = threading.Thread(target=lambda: answers.append(cluster.destroy_bucket("ends").status))
        asking.start()
        wait_until(lambda: cluster.get("ends", names[other]).status == 503, 5, "its end is known")
        while time.monotonic() < begun + pause:
            seen |= {cluster.get("ends", names[other]).status, cluster.put("ends", names[other], b"again").status,
                     cluster.list_page("ends").status}
        assert not answers, "destroyed without one who has a lease"
    finally:
        cluster.cont(stopped)
    asking.join()
    gone = {cluster.get("ends", name).status for name in names.values()}
    print(f"injected: {stopped} stopped for {pause:.1f} s; detected: others said {seen} meanwhile, then all {gone}")
    assert seen == {503} and answers == [200] and gone == {404}


def test_a_destroy_goes_on_without_the_proxy_that_was_asked(make_cluster):
    """The proxy dies between the two steps: another one carries the destroy out, and the name is free again."""
    cluster = make_cluster(apart=True, targets=1, drives=1, proxies=2,
                           fail_points={"p1": "destroy_bucket.before_removal=kill"})
    cluster.create_bucket("ends")
    assert cluster.put("ends", "n", b"there").status == 200
    with pytest.raises((OSError, http.ProtocolError)):
        cluster.destroy_bucket("ends")
    cluster.wait_exit("p1")
    other = cluster.url_of("p2")
    first = http.request("GET", cluster.url("ends", "n", other), expect=False).status
    assert first in (503, 404)
    wait_until(lambda: http.request("GET", cluster.url("ends", "n", other), expect=False).status == 404, 15, "it is destroyed")
    print(f"injected: p1 ended between the steps; detected: {first} at first, then 404")


def test_an_eviction_that_keeps_the_bucket_goes_on_without_the_proxy_that_was_asked(make_cluster, tmp_path):
    """The proxy dies between the two steps: another one carries it out, and the bucket is there with its properties."""
    with WebServer(tmp_path / "web") as web:
        web.write("kept/n", b"there")
        cluster = make_cluster(targets=1, drives=1, proxies=2, meta="etcd", settings={"upstream.endpoints": web.url},
                               fail_points={"p1": "destroy_bucket.before_removal=kill"})
        assert make_bucket(cluster, "ht://kept", f"{web.url}/kept").status == 200
        assert cluster.get("ht://kept", "n").body == b"there"
        wait_stored(cluster, "ht://kept", "n")
        with pytest.raises((OSError, http.ProtocolError)):
            cluster.bucket_action("DELETE", "ht://kept", "evict-remote-bck", query="&keep_bck_md=true")
        cluster.wait_exit("p1")
        url = cluster.url("ht://kept", "n", cluster.url_of("p2"))
        first = http.request("GET", url, expect=False).status
        assert first in (503, 200)
        before = web.requests("GET", "kept/n")
        wait_until(lambda: http.request("GET", url).status == 200, 15, "it is there again")
        wait_until(lambda: web.requests("GET", "kept/n") > 1, 15, "it was fetched again")
        print(f"injected: p1 ended between the steps; detected: {first} at first, {before} fetches then, and one more")
