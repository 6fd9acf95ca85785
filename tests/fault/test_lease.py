"""Answers of a node that can no longer know that a name is its own (docs/architecture.md)."""

import json
import subprocess
import threading
import time

import pytest
from disks import seeded
from harness import client as http
from harness.cluster import LEASE_SECONDS, SHORT_LEASE_SECONDS, SHORT_LEASES
from harness.etcd import base64_of
from harness.waiting import scaled, wait_until



def test_no_acknowledgement_after_the_lease_has_ended(make_stage, seed):
    """A pause between commit and reply that outlasts the lease (A4): the outcome is unknown, never a 200."""
    rng = seeded(seed, "lease")
    stage = make_stage(apart=True, targets=1, drives=1, settings=SHORT_LEASES)
    cluster = stage.cluster
    stage.kill("t1")
    pause = int(1000 * (SHORT_LEASE_SECONDS + rng.uniform(0.3, 2)))
    stage.start("t1", fail_points={"t1": f"put.before_reply=sleep:{pause}@2"})
    assert cluster.put("data", "before", b"b" * 100).status == 200
    body = b"s" * rng.choice((100, 5000, 300_000))
    redirect = cluster.put("data", "slow", body, follow=False)
    assert redirect.status == 307
    time.sleep(rng.uniform(0, 1))
    # The store stops answering, so that no lease is renewed; then the commit is done, and the reply waits.
    cluster.stop("etcd1")
    try:
        begun = time.monotonic()
        answer = http.request("PUT", redirect.headers["Location"], body)
        seconds = time.monotonic() - begun
    finally:
        cluster.cont("etcd1")
    hits = stage.fail_point_hits("t1", "put.before_reply")
    print(f"injected: {hits} pause of {seconds:.1f} s without a meta store; detected: status {answer.status}")
    assert hits == 1 and seconds >= pause / 1000
    assert answer.status == 503, answer
    # It may be there or not, but then wholly, and the node heals by itself.
    judge = stage.client("judge")
    found = stage.look(judge, ["before", "slow"])
    assert found["before"][0].status == 200 and found["slow"][0].status in (200, 404)
    if found["slow"][0].status == 200:
        assert cluster.get("data", "slow").body == body


@pytest.mark.gate("A4")
def test_a_body_that_outlasts_the_lease_is_not_stored(make_stage, seed):
    """The lease ends while a body arrives: refused, nothing stays, and all heals by itself."""
    rng = seeded(seed, "body")
    length, pause = rng.choice((100, 70_000, 2_000_000)), LEASE_SECONDS + rng.uniform(0.3, 1.5)
    stage = make_stage(apart=True, targets=1, drives=1)
    cluster = stage.cluster
    redirect = cluster.put("data", "n", b"n" * length, follow=False)
    with http.RawConnection(redirect.headers["Location"]) as connection:
        connection.send_head("PUT", http.target_of(redirect.headers["Location"]), {"Content-Length": str(length)})
        connection.send(b"n" * (length // 2))
        # The node runs on, but its store does not answer: as if it had slept through the renewals.
        cluster.stop("etcd1")
        connection.send(b"n" * (length - length // 2 - 1))
        deadline = time.monotonic() + scaled(pause)
        while time.monotonic() < deadline:
            assert not connection.is_readable(0.05), "answered before the body was whole"
        connection.send(b"n")
        answer = connection.read_response("PUT")
        cluster.cont("etcd1")
    print(f"injected: a pause of {pause:.1f} s; detected: status {answer.status}")
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


def is_live(site, machine, member, node):
    """True if etcd has the node's lease, asked on etcd's own machine, where nothing is slow."""
    key = base64_of(f"/tarn/live/{site.cluster.nodes[node]['id']}")
    answer = subprocess.run([*site.network.runner(machine), "curl", "-sf", "-m", "2", "-d", json.dumps({"key": key}),
                             site.cluster.url_of(member, "client") + "/v3/kv/range"], capture_output=True, check=True)
    return "kvs" in json.loads(answer.stdout)


def test_a_lease_counts_from_when_its_renewal_was_sent(make_site):
    """etcd hears renewals at once and its answers take 2.9 s; then it hears none. A target that the cluster
    knows to be down acknowledges nothing, however late the last answers come."""
    site = make_site(machines=3, targets=2, proxies=1, etcds=1, etcds_apart=True)
    cluster, net = site.cluster, site.network
    (name,) = cluster.names_owned_by("t2", "data", 1)
    redirect = cluster.put("data", name, b"x", follow=False)
    assert redirect.status == 307
    puts, enough = [], threading.Event()  # (when it was sent, status)

    def write():
        while not enough.is_set():
            begun = time.monotonic()
            try:
                puts.append((begun, http.request("PUT", redirect.headers["Location"], b"x", timeout=5, expect=False).status))
            except OSError:
                puts.append((begun, 0))
            enough.wait(0.02)

    def written_since(when):
        return [begun for begun, status in puts if status == 200 and begun > when]

    net.delay("m3", 0, 0, back=2.9)
    writer = threading.Thread(target=write)
    slow = time.monotonic()
    writer.start()
    try:
        # A renewal was answered late and counts: the first ones after the connections' reset are.
        wait_until(lambda: written_since(slow + 4), 20, "t2 writes with leases that were renewed late")
        cut = time.monotonic()
        net.shut("m3", ["m2"], sides=("in",))
        wait_until(lambda: not is_live(site, "m3", "etcd1", "t2"), 15, "etcd has let go of t2's lease")
        gone = time.monotonic()
        wait_until(lambda: time.monotonic() > gone + 4, 10, "whatever was on its way has come")
    finally:
        enough.set()
        writer.join()
        net.heal("m3")
    last = max(written_since(slow))
    print(f"injected: answers 2.9 s late, then no way to etcd; detected: t2's lease ended {gone - cut:.1f} s later, the last of "
          f"{len(written_since(slow))} acknowledged PUTs was sent {last - cut:+.1f} s from the cut")
    assert gone - cut > 2, "it ended before"
    assert not written_since(gone), "acknowledged behind the end of the lease"
    wait_until(lambda: all(site.ask(node, "/readyz") == 200 for node in (*site.proxies(), *site.targets())), 15, "all heals")
