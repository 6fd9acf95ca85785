"""Whom proxies send readers of copies on nodes to: the replica whose drive has least to do (docs/decisions/014)."""

import collections
import contextlib
import os
import socket

import pytest
from harness import client
from harness.nodes import wait_until_in_place
from harness.waiting import IN_GATE, wait_until

MIB = 1 << 20
READERS = 16
ON_NODES = {"mirror": {"enabled": True, "domain": "node"}}


@pytest.fixture
def two(make_cluster):
    """Two targets that both have everything of the bucket; what is in memory is read as if it were not."""
    cluster = make_cluster(targets=2, drives=1, settings={"checksum.verify": "always"})
    cluster.create_bucket("two", ON_NODES)
    wait_until_in_place(cluster)
    return cluster


def sent_to(cluster, name, count, bucket="two", method="GET"):
    """To which targets the proxy sends that many readers of a name, one after the other."""
    found = collections.Counter()
    for _ in range(count):
        location = client.request(method, cluster.url(bucket, name), follow=False).headers["Location"]
        (target,) = [each for each in cluster.targets() if location.startswith(cluster.url_of(each) + "/")]
        found[target] += 1
    return found


@contextlib.contextmanager
def busy(cluster, target, name):
    """Readers of a large object at a target who take nothing for now."""
    with contextlib.ExitStack() as readers:
        for _ in range(READERS):
            reader = readers.enter_context(client.RawConnection(cluster.url_of(target)))
            reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            reader.send_head("GET", client.target_of(cluster.url("two", name)))
        wait_until(lambda: cluster.metric(target, "tarn_drive_streams") >= READERS, 10, f"{READERS} readers at {target}")
        yield


def test_readers_go_to_the_replica_that_has_less_to_do(two):
    (name,) = two.names_owned_by("t1", "two", 1)
    bodies = {"large": os.urandom(24 * MIB), name: os.urandom(5000)}
    for each, body in bodies.items():
        assert two.put("two", each, body).status == 200
    (single,) = two.names_owned_by("t1", "data", 1)
    assert two.put("data", single, b"one copy").status == 200
    with busy(two, "t1", "large"):
        wait_until(lambda: sent_to(two, name, 100)["t2"] >= 80, 5, "proxies hear that t1 is busy")
        got = sent_to(two, name, 300)
        print(f"{READERS} readers at t1, which owns the name, none at t2: of 300 more {got['t2']} go to t2")
        assert got["t2"] >= (180 if IN_GATE else 240), got  # 282 on average, fewer where proxies hear late
        assert sent_to(two, name, 20, method="HEAD") == {"t1": 20}, "what is answered without the drive is its owner's"
        assert sent_to(two, single, 20, "data") == {"t1": 20}
        for base in (two.endpoint, two.relay):
            assert all(client.request("GET", two.url("two", name, base)).body == bodies[name] for _ in range(5))
        with busy(two, "t2", "large"):
            wait_until(lambda: 35 <= sent_to(two, name, 100)["t2"] <= 65, 5, "proxies hear that t2 is busy, too")
            got = sent_to(two, name, 300)
            print(f"{READERS} readers at each: of 300 more {got['t2']} go to t2")
            assert (75 if IN_GATE else 105) <= got["t2"] <= (225 if IN_GATE else 195), got
    # Idle: the owner, whose memory may have the object, gets all of a few readers; of many at once others get a share.
    wait_until(lambda: sent_to(two, name, 3) == {"t1": 3}, 10, "few readers go to the owner")
    assert sent_to(two, name, 300)["t2"] >= 30
    assert two.get("two", "large").body == bodies["large"]
