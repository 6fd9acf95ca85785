"""Names that get another owner while their objects are fetched from upstream."""

import concurrent.futures
import contextlib
import threading

import pytest
from harness.nodes import give_names_to
from harness.upstreams import counted, evict, make_bucket, stand_still, upstream_cluster, wait_stored
from harness.waiting import wait_until

MIB = 1 << 20


@contextlib.contextmanager
def setting(event):
    """Sets it at the end, whatever comes: handlers of a server wait for it."""
    try:
        yield
    finally:
        event.set()


def open_hand_over(make_cluster, server):
    """(cluster, former owner, new owner) of s3://data/big.tar. The hand-over stays open when it has begun: the former owner has
    something to give, and does not."""
    cluster = upstream_cluster(make_cluster, server, targets=2, meta="etcd", settings={"rebalance.enabled": "false"})
    make_bucket(cluster, "s3://data", server.url)
    cluster.fill("data", dict.fromkeys((f"kept-{i}" for i in range(20)), b"x"))
    owner = cluster.owner("s3://data", "big.tar")
    return cluster, owner, next(node for node in cluster.targets() if node != owner)


def hand_over(cluster, owner, other, server):
    """The name goes to `other` while `owner` fetches it."""
    wait_until(lambda: counted(cluster, "fills_running", owner) == 1 and server.gets("big.tar"), 20, "the fill has begun")
    give_names_to(cluster, other)
    wait_until(lambda: cluster.owner("s3://data", "big.tar") == other, 20, "the name has another owner")


@pytest.mark.gate("G1, of a fill")
@pytest.mark.parametrize("former", ["goes on", "dies"])
def test_a_new_owner_joins_the_fill_of_the_former_one(make_cluster, flawed, rng, former):
    """Upstream is asked once, however many owners a name has meanwhile; for what a dead one did not send, once more."""
    body, goes_on = rng.randbytes(6 * MIB), threading.Event()
    flawed.objects["big.tar"], flawed.flaws["big.tar"] = body, stand_still(goes_on)
    cluster, owner, other = open_hand_over(make_cluster, flawed)
    with concurrent.futures.ThreadPoolExecutor(6) as pool, setting(goes_on):
        early = pool.submit(cluster.get, "s3://data", "big.tar")
        hand_over(cluster, owner, other, flawed)
        # One alone has surely joined when the log says so.
        late = [pool.submit(cluster.get, "s3://data", "big.tar") for _ in range(1 if former == "dies" else 4)]
        cluster.logs[other].wait_for("fill of a former owner joined", 20)
        assert not early.done() and not any(each.done() for each in late)
        assert len(flawed.gets("big.tar")) == 1
        if former == "dies":
            flawed.flaws.clear()
            cluster.kill(owner)
        goes_on.set()
        assert [each.result().body for each in late] == [body] * len(late)
        if former == "dies":
            first, *more = flawed.gets("big.tar")
            print(f"injected: {owner} killed; detected: asked again for {[each['Range'] for each in more]}")
            assert more and all("If-Match" in each for each in more)
            return
        assert early.result().body == body
    wait_stored(cluster, "s3://data", "big.tar")
    assert cluster.get("s3://data", "big.tar").body == body
    assert len(flawed.gets("big.tar")) == 1 and counted(cluster, "bytes_total") == len(body)
    print(f"injected: the name went from {owner} to {other} in a fill; detected: it was joined")


def stand_still_once(server, goes_on):
    """A flaw as stand_still(), of one request."""
    def flaw(*words):
        server.flaws.clear()
        stand_still(goes_on)(*words)

    return flaw


@pytest.mark.gate("G1, of a fill")
def test_no_fill_of_a_former_owner_is_joined_after_a_write(make_cluster, flawed, rng):
    """Such a fill fetches the version before that write, which no reader may get any longer."""
    old, new, goes_on = rng.randbytes(MIB), rng.randbytes(MIB), threading.Event()
    flawed.objects["big.tar"], flawed.flaws["big.tar"] = old, stand_still_once(flawed, goes_on)
    cluster, owner, other = open_hand_over(make_cluster, flawed)
    with concurrent.futures.ThreadPoolExecutor(1) as pool, setting(goes_on):
        early = pool.submit(cluster.get, "s3://data", "big.tar")
        hand_over(cluster, owner, other, flawed)
        wait_until(lambda: cluster.put("s3://data", "big.tar", new).status == 200, 20, "the new owner has written it")
        evict(cluster, "s3://data", "big.tar")
        assert counted(cluster, "fills_running", owner) == 1, "there was an old version to join"
        assert cluster.get("s3://data", "big.tar").body == new
        goes_on.set()
        assert early.result().body == old, "it had begun before the write"
    assert cluster.get("s3://data", "big.tar").body == new
    print(f"injected: a write at {other} while {owner} fetches the version before it; detected: not joined")


@pytest.mark.gate("G1, of a fill")
def test_an_owner_that_comes_back_joins_no_older_fetch_of_its_own(make_cluster, flawed, rng):
    """Another owner has deleted the object meanwhile."""
    old, goes_on = rng.randbytes(MIB), threading.Event()
    flawed.objects["big.tar"], flawed.flaws["big.tar"] = old, stand_still_once(flawed, goes_on)
    cluster, owner, other = open_hand_over(make_cluster, flawed)
    with concurrent.futures.ThreadPoolExecutor(1) as pool, setting(goes_on):
        early = pool.submit(cluster.get, "s3://data", "big.tar")
        hand_over(cluster, owner, other, flawed)
        wait_until(lambda: cluster.delete("s3://data", "big.tar").status in (200, 204), 20, "the other owner has deleted it")
        give_names_to(cluster, owner)
        wait_until(lambda: cluster.owner("s3://data", "big.tar") == owner, 20, "the name is back")
        assert counted(cluster, "fills_running", owner) == 1, "there was an old version to join"
        wait_until(lambda: cluster.get("s3://data", "big.tar").status == 404, 20, "it stays deleted")
        goes_on.set()
        assert early.result().body == old, "it had begun before the delete"
    assert cluster.get("s3://data", "big.tar").status == 404
    print(f"injected: {other} owns the name, and deletes the object, while {owner} fetches it; detected: not joined")
