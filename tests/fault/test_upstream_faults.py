"""Nodes that die, and upstream servers that stand still, while cold objects are fetched."""

import concurrent.futures
import contextlib
import os
import signal
import threading

import pytest
from harness import attribute, client
from harness.upstreams import FlawedServer, WebServer, counted, make_bucket, stand_still, upstream_cluster, wait_stored
from harness.waiting import wait_until

MIB = 1 << 20


def read_at_last(cluster, bucket, name):
    """The body, as a client gets it that tries again; never a wrong one, nor "it does not exist"."""
    def read():
        with contextlib.suppress(client.ProtocolError, OSError):
            answer = cluster.get(bucket, name)
            assert answer.status in (200, 503), answer
            return answer if answer.status == 200 else None
        return None

    return wait_until(read, 60, f"{bucket}/{name} is read").body


@pytest.mark.gate("A1, of a fill")
def test_another_target_fetches_what_a_dead_owner_was_fetching(make_cluster, rng):
    body, goes_on = rng.randbytes(6 * MIB), threading.Event()
    server = FlawedServer()
    server.objects["big.tar"], server.flaws["big.tar"] = body, stand_still(goes_on)
    try:
        cluster = upstream_cluster(make_cluster, server)
        make_bucket(cluster, "s3://data", server.url)
        owner = cluster.owner("s3://data", "big.tar")
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            readers = [pool.submit(read_at_last, cluster, "s3://data", "big.tar") for _ in range(6)]
            wait_until(lambda: counted(cluster, "fills_running", owner) == 1 and server.gets("big.tar"), 20, "the fill has begun")
            cluster.kill(owner)
            goes_on.set()
            for reader in readers:
                assert reader.result() == body
        # A reader may have had it from the heir before the proxy says so to others.
        wait_until(lambda: cluster.head("s3://data", "big.tar", follow=False).status == 302, 20, "it has an owner")
        heir = cluster.owner("s3://data", "big.tar")
        assert heir != owner
        cluster.start(owner)
        assert read_at_last(cluster, "s3://data", "big.tar") == body

        wait_until(lambda: len(attribute.paths(cluster.all_drives())) == 1, 60, "what the dead target had begun is gone")
    finally:
        goes_on.set()
        server.stop()


@pytest.mark.gate("A1, of a fill")
def test_a_target_that_is_told_to_stop_ends_its_fills(make_cluster, tmp_path, rng):
    body = rng.randbytes(4 * MIB)
    server = WebServer(tmp_path / "web", rate="256k")
    server.write("slow.tar", body)
    with server:
        cluster = upstream_cluster(make_cluster, server, targets=1, settings={"shutdown.grace": "1s"})
        make_bucket(cluster, "ht://web", server.url)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            reader = pool.submit(cluster.get, "ht://web", "slow.tar")
            wait_until(lambda: counted(cluster, "fills_running", "t1") == 1, 20, "the fill has begun")
            os.kill(cluster.pid("t1"), signal.SIGTERM)
            cluster.wait_exit("t1", 60)
            with pytest.raises((client.ProtocolError, OSError)):
                reader.result()
        cluster.start("t1")
        answer = client.request("HEAD", cluster.url("ht://web", "slow.tar") + "&presence=2")
        assert answer.status == 404, "a part of the object was kept"


@pytest.mark.gate("H2")
def test_an_upstream_that_stands_still_holds_up_its_own_objects_only(make_cluster, rng):
    body, goes_on = rng.randbytes(MIB), threading.Event()
    server = FlawedServer()
    server.objects |= {"stands.tar": body, "goes.tar": body}
    server.flaws["stands.tar"] = stand_still(goes_on)
    try:
        cluster = upstream_cluster(make_cluster, server, targets=1)
        make_bucket(cluster, "s3://data", server.url)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            waiting = [pool.submit(cluster.get, "s3://data", "stands.tar") for _ in range(4)]
            wait_until(lambda: server.gets("stands.tar"), 20, "it is being fetched")
            for _ in range(3):
                assert cluster.get("s3://data", "goes.tar").body == body
            assert cluster.put("data", "own", body).status == 200 and cluster.get("data", "own").body == body
            assert not any(each.done() for each in waiting)
            goes_on.set()
            assert all(each.result().body == body for each in waiting)
        assert len(server.gets("stands.tar")) == 1
    finally:
        goes_on.set()
        server.stop()


@pytest.mark.gate("H2")
def test_an_upstream_that_never_goes_on_is_told_to_its_readers(make_cluster, rng):
    """Silent before its answer: 504. Silent in a body, again and again: the connection is cut. What is stored is served meanwhile."""
    body, never = rng.randbytes(MIB), threading.Event()
    server = FlawedServer()
    server.objects |= {"silent.tar": body, "stalls.tar": body, "stored.tar": body}
    cluster = upstream_cluster(make_cluster, server, targets=1, settings={"upstream.timeout": "1s"})
    make_bucket(cluster, "s3://data", server.url)
    assert cluster.get("s3://data", "stored.tar").body == body
    wait_stored(cluster, "s3://data", "stored.tar")

    def stall(handler, its, start):
        handler.begin(its, start)
        handler.wfile.write(its[start:len(its) // 2])
        handler.wfile.flush()
        never.wait(60)

    server.flaws |= {"silent.tar": lambda *_: never.wait(60), "stalls.tar": stall}
    try:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            silent = pool.submit(cluster.get, "s3://data", "silent.tar")
            stalls = pool.submit(cluster.get, "s3://data", "stalls.tar")
            wait_until(lambda: server.gets("silent.tar") and server.gets("stalls.tar"), 20, "both are being fetched")
            assert cluster.get("s3://data", "stored.tar").body == body
            answer = silent.result()
            assert answer.status == 504 and server.url in answer.text and "silent.tar" in answer.text, answer
            with pytest.raises((client.ProtocolError, OSError)):
                stalls.result()
        assert len(server.gets("silent.tar")) == 4 and len(server.gets("stalls.tar")) > 1
        print(f"injected: silence, in {len(server.gets('stalls.tar'))} requests for one body; detected: 504, and a connection that was cut")
    finally:
        never.set()
    server.flaws.clear()
    try:
        for name in ("silent.tar", "stalls.tar"):
            assert read_at_last(cluster, "s3://data", name) == body
    finally:
        server.stop()
