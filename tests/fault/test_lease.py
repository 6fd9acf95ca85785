"""What a node may still say when it cannot know any more that a name is its own (design.md, section 3)."""

import time

from disks import seeded
from harness import client as http
from harness.waiting import scaled

LEASE_SECONDS = 3.5  # counted by the node: the term of 4 s less half a second


def test_no_acknowledgement_after_the_lease_has_ended(make_stage):
    """A pause between commit and reply that outlasts the lease (A4): the outcome is unknown, never a 200."""
    stage = make_stage(targets=1, drives=1)
    cluster = stage.cluster
    stage.kill("t1")
    pause = int(1000 * (LEASE_SECONDS + 0.4))
    stage.start("t1", fail_points={"t1": f"put.before_reply=sleep:{pause}@2"})
    assert cluster.put("data", "before", b"b" * 100).status == 200
    redirect = cluster.put("data", "slow", b"s" * 100, follow=False)
    assert redirect.status == 307
    # The store stops answering, so that nobody renews; then the commit is done, and the reply waits.
    cluster.stop("p1")
    try:
        begun = time.monotonic()
        answer = http.request("PUT", redirect.headers["Location"], b"s" * 100, timeout=30)
        seconds = time.monotonic() - begun
    finally:
        cluster.cont("p1")
    hits = stage.fail_point_hits("t1", "put.before_reply")
    print(f"injected: {hits} pause of {seconds:.1f} s without a meta store; detected: status {answer.status}")
    assert hits == 1 and seconds >= LEASE_SECONDS
    assert answer.status == 503, answer
    # It may be there or not, but then wholly, and the node heals by itself.
    judge = stage.client("judge")
    found = stage.look(judge, ["before", "slow"])
    assert found["before"][0].status == 200 and found["slow"][0].status in (200, 404)
    if found["slow"][0].status == 200:
        assert cluster.get("data", "slow").body == b"s" * 100


def test_a_body_that_outlasts_the_lease_is_not_stored(make_stage):
    """The lease ends while a body arrives: refused, nothing stays, and all heals by itself."""
    stage = make_stage(targets=1, drives=1)
    cluster = stage.cluster
    redirect = cluster.put("data", "n", b"n" * 100, follow=False)
    with http.RawConnection(redirect.headers["Location"], timeout=30) as connection:
        connection.send_head("PUT", http.target_of(redirect.headers["Location"]), {"Content-Length": "100"})
        connection.send(b"n" * 50)
        # The node runs on, but its store does not answer: as if it had slept through the renewals.
        cluster.stop("p1")
        connection.send(b"n" * 49)
        deadline = time.monotonic() + scaled(LEASE_SECONDS + 0.3)
        while time.monotonic() < deadline:
            assert not connection.is_readable(0.05), "answered before the body was whole"
        connection.send(b"n")
        answer = connection.read_response("PUT")
        cluster.cont("p1")
    print(f"injected: a pause of {LEASE_SECONDS + 0.3:.1f} s; detected: status {answer.status}")
    assert answer.status == 503, answer
    judge = stage.client("judge")
    assert stage.look(judge, ["n"])["n"][0].status == 404
    stage.wait_tidy(0)


def test_leases_last_while_the_cluster_changes_fast(make_cluster):
    """Work on the cluster's state never delays leases or heartbeats: here 500 buckets, one after the other."""
    cluster = make_cluster(targets=2, drives=1)
    begun = time.monotonic()
    for i in range(500):
        cluster.create_bucket(f"b{i}")
    print(f"injected: 500 changes in {time.monotonic() - begun:.1f} s")
    for node in ("p1", "t1", "t2"):
        assert not cluster.logs[node].matching("leases ended|lease gone|not renewed|suspect")
    assert cluster.put("b0", "object", b"x").status == 200
