"""All targets of a cluster are restarted one after the other under load. No reader of copied data notices, and only
objects written meanwhile move (docs/reliability.md A1, N1)."""

import hashlib
import os
import signal
import socket
import time
import urllib.parse

from copies import ON_NODES, Reading, files_of, put_all, wait_settled
from disks import seeded
from harness import client as http
from harness.cluster import process_is_alive
from harness.nodes import wait_until_in_place
from harness.waiting import scaled, wait_until
from history import now_ns
from load import Crowd
from stage import Churn
from test_moving_load import moved_bytes

STILL = [f"o-{i:04}" for i in range(120)]  # no client writes to these
NAMES = [f"n-{i:04}" for i in range(24)]
# As users have it; other tests do without, for their own sake.
NOTICE = {"shutdown.notice": "1s"}
LEASE = 4  # seconds


def start(make_stage, **options):
    """A stage of three targets, with STILL in a bucket that has each object on two of them."""
    stage = make_stage(apart=True, targets=3, drives=1, **options)
    stage.cluster.create_bucket("two", ON_NODES)
    put_all([stage.client(f"f{i}") for i in range(8)], "two", STILL, 20_000)
    wait_until_in_place(stage.cluster)
    return stage


class Load:
    """Readers through the redirect and through the relay, of objects that no client writes and of others, and
    writers of the others."""

    def __init__(self, stage, seed):
        cluster = stage.cluster
        self.direct, self.relayed = (Reading(f"{seed}/{kind}", STILL + NAMES) for kind in ("direct", "relayed"))
        churn = Churn(seed, NAMES, bucket="two", puts=1, deletes=0, sizes=(1, 100, 70_000, 300_000))
        put_all([stage.client(f"g{i}") for i in range(4)], "two", NAMES, 70_000)
        self._crowds = [Crowd([stage.client(f"{name}{i}", [url], timeout=30) for i in range(2)], work)
                        for name, url, work in (("d", cluster.endpoint, self.direct), ("r", cluster.relay, self.relayed),
                                                ("w", cluster.endpoint, churn))]

    def __enter__(self):
        for crowd in self._crowds:
            crowd.start()
        return self

    def __exit__(self, *_):
        for crowd in self._crowds:
            crowd.stop()


def written_since(stage, since):
    """Bytes of all PUTs that may have taken effect from `since` on."""
    return sum(op.length for op in stage.recorder.ops()
               if op.op == "put" and op.ret >= since and op.outcome in ("done", "unknown"))


def test_a_rolling_restart_fails_no_read_and_moves_only_what_was_written_meanwhile(make_stage, seed):
    seeded(seed, "rolling restart")
    stage = start(make_stage, settings=NOTICE)
    cluster, said, total = stage.cluster, [], 0
    before = files_of(cluster, set(STILL))
    assert len(before) == 2 * len(STILL)
    with Load(stage, seed) as load:
        for wait in (True, False):  # until all is in place again, and only until the target is back
            for target in cluster.targets():
                moved, since = moved_bytes(cluster), now_ns()
                stage.kill(target, number=signal.SIGTERM)
                stage.start(target)
                if wait:
                    wait_until_in_place(cluster)
                    moved, written = moved_bytes(cluster) - moved, written_since(stage, since)
                    said.append(f"{target}: {written} bytes written, {moved} moved")
                    assert moved <= written, said  # nothing, when it was back before the others had taken its names
                    total += moved
        wait_until_in_place(cluster)
    assert total > 0, said
    print(f"injected: 6 restarts; detected: {load.direct.count} reads through the redirect, {load.relayed.count} through the "
          f"relay, of which {len(load.direct.failures)} and {len(load.relayed.failures)} failed; {'; '.join(said)}")
    wait_settled(cluster)
    with stage.client("judge", timeout=30) as judge:
        stage.check(judge, NAMES + STILL, "two")
    assert files_of(cluster, set(STILL)) == before, "objects that were not written lie where they lay"
    assert not load.direct.failures, load.direct.lines()
    assert not load.relayed.failures, load.relayed.lines()
    assert load.direct.count > 200 and load.relayed.count > 200


def test_kills_of_all_targets_fail_no_relayed_read_of_what_is_not_being_written(make_stage, seed):
    """kill -9: a client that is redirected may be refused for a moment; one that is relayed does not notice."""
    rng = seeded(seed, "rolling kills")
    stage = start(make_stage)
    cluster, gaps = stage.cluster, []
    before = files_of(cluster, set(STILL))
    direct, relayed = Reading(f"{seed}/d", STILL), Reading(f"{seed}/r", STILL)
    churn = Churn(seed, NAMES, bucket="two", puts=0.8, deletes=0.2, sizes=(1, 100, 70_000, 300_000))
    crowds = [Crowd([stage.client(f"{name}{i}", [url], timeout=30) for i in range(2)], work).start()
              for name, url, work in (("d", cluster.endpoint, direct), ("r", cluster.relay, relayed),
                                      ("w", cluster.endpoint, churn))]
    try:
        for target in rng.sample(cluster.targets(), 3):
            since, failed = now_ns(), len(direct.failures)
            stage.kill(target)
            time.sleep(rng.uniform(0, 1))
            stage.start(target)
            gaps.append(direct.last_failure(since) if len(direct.failures) > failed else 0)
            wait_until_in_place(cluster)
    finally:
        for crowd in crowds:
            crowd.stop()
    print(f"injected: 3 kills; detected: of {direct.count} redirected reads {len(direct.failures)} failed, the last one "
          f"{max(gaps):.2f} s after a kill; of {relayed.count} relayed ones {len(relayed.failures)}")
    wait_settled(cluster)
    with stage.client("judge", timeout=30) as judge:
        stage.check(judge, NAMES + STILL, "two")
    assert files_of(cluster, set(STILL)) == before, "objects that were not written lie where they lay"
    assert not relayed.failures, relayed.lines()
    assert max(gaps) <= scaled(3), direct.lines()


def test_a_target_that_ends_gives_its_names_away_and_lets_readers_have_the_rest(make_cluster):
    """A reader who takes its time does not keep others from writing the names of a target that was told to end."""
    cluster = make_cluster(targets=2, drives=1, settings=NOTICE)
    (large, other) = cluster.names_owned_by("t1", "data", 2)
    body = hashlib.sha256(b"x").digest() * (1 << 20)
    assert cluster.put("data", large, body).status == 200
    parts = urllib.parse.urlsplit(cluster.url_of("t1"))
    with http.RawConnection((parts.hostname, parts.port)) as reader:
        reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        reader.send_head("GET", f"/v1/objects/data/{large}?provider=ais")
        status, headers = reader.read_head()
        assert status == 200
        chunks = reader.body("GET", status, headers)
        got = [next(chunks)]
        ending, begun = cluster.pid("t1"), time.monotonic()
        os.kill(ending, signal.SIGTERM)
        cluster.running.discard("t1")
        # A client that was sent there before proxies knew is served.
        late = http.request("GET", cluster.url("data", large, cluster.url_of("t1")), headers={"Range": "bytes=0-9"})
        assert late.status == 206 and late.body == body[:10]
        wait_until(lambda: cluster.put("data", other, b"new").status == 200, LEASE, "a write is taken by another target")
        seconds = time.monotonic() - begun
        got += chunks
    assert b"".join(got) == body
    print(f"written elsewhere {seconds:.2f} s after SIGTERM")
    wait_until(lambda: not process_is_alive(ending), 10, "it has ended")
    cluster.start("t1")
    wait_until_in_place(cluster)
    assert cluster.get("data", other).body == b"new" and cluster.get("data", large).body == body
