"""Drives of a cache that are yanked under readers, and a server behind it that sends a kilobyte a second (D1, H2)."""

import collections
import concurrent.futures
import contextlib
import itertools
import os
import random
import threading
import time

import pytest
from harness import attribute, client
from harness.upstreams import FlawedServer, counted, make_bucket, upstream_cluster, wait_stored
from harness.waiting import wait_until
from stage import DRIVE_ERRORS
from test_returned_drive import attach, detach
from test_upstream_decay import BUCKET, needs_disks, requests

KIB, MIB = 1 << 10, 1 << 20
SLOW = 30 * KIB


class Readers:
    """Threads that read objects of a cache again and again, and try once more what fails."""

    def __init__(self, cluster, bodies, seed):
        self.cluster, self.bodies, self.seed = cluster, bodies, seed
        self.wrong, self.retried = [], []
        self.turn, self.reads = 0, collections.Counter()  # by turn in which they began, and name
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=(number,)) for number in range(6)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _read(self, number):
        rng = random.Random(f"{self.seed}/{number}")
        names = sorted(self.bodies)
        while not self._ends.is_set():
            name, turn = rng.choice(names), self.turn
            if (first := self._problem(name)) is not None:
                self.retried.append(f"{name}: {first}")
                if (second := self._problem(name)) is not None:
                    self.wrong.append(f"{name}: {first}, and again: {second}")
            self.reads[turn, name] += 1

    def _problem(self, name):
        """Says what is not right with an answer. What no second try may make good counts at once."""
        try:
            answer = self.cluster.get(BUCKET, name)
        except (client.ProtocolError, OSError) as error:
            return repr(error)
        if answer.status == 200 and answer.body == self.bodies[name]:
            return None
        if answer.status in (200, 404):
            self.wrong.append(f"{name}: {answer.status} with {len(answer.body)} bytes")
        return repr(answer)

    def wait_read(self, names):
        """Until each of these has been read, from begin to end."""
        self.turn += 1
        wait_until(lambda: all(self.reads[self.turn, name] for name in names), 60, "each has been read again")


def yank(disk, in_memory):
    """Pulls a drive. Of each of its files that many bytes stay in memory, where readers find them."""
    with contextlib.ExitStack() as opened:
        files = [opened.enter_context(open(path, "rb")) for path in attribute.data_files([disk.mountpoint])]
        disk.yank()
        for file in files:
            os.posix_fadvise(file.fileno(), in_memory, 0, os.POSIX_FADV_DONTNEED)


def more(counts, names):
    return {name: count + (name in names) for name, count in counts.items()}


@needs_disks
@pytest.mark.parametrize("most, in_memory, replaced", [
    pytest.param(MIB, 0, False, id="taken out", marks=pytest.mark.gate("D1, of a cache")),
    pytest.param(MIB, 0, True, id="replaced", marks=pytest.mark.gate("D1, of a cache")),
    pytest.param(3 * MIB, MIB, True, id="answers that had begun", marks=pytest.mark.gate("D1, of a cache"))])
def test_what_a_yanked_drive_had_is_read_on_and_fetched_once_more(make_stage, web, seed, rng, most, in_memory, replaced):
    bodies = web.fill({f"{i:02}.tar": rng.randbytes((20_000, most)[i % 2] - i) for i in range(24)})
    stage = upstream_cluster(make_stage, web, targets=1, drives=2, fs="ext4", faultable=True)
    cluster, (disk, other) = stage.cluster, stage.disks["t1"]
    cluster.expect_errors(DRIVE_ERRORS)
    assert make_bucket(cluster, BUCKET, web.url).status == 200
    assert cluster.bodies(BUCKET, bodies) == bodies
    wait_stored(cluster, BUCKET, *bodies)
    lost = set(attribute.objects([disk.mountpoint]))
    assert 0 < len(lost) < len(bodies) and requests(web, bodies) == dict.fromkeys(bodies, 1)

    with Readers(cluster, bodies, seed) as readers:
        readers.wait_read(bodies)
        assert not readers.retried
        yank(disk, in_memory)
        wait_until(lambda: cluster.metric("t1", "tarn_drive_up", drive=str(disk.mountpoint)) == 0, 30, "the drive is out")
        readers.wait_read(bodies)
    print(f"injected: a drive with {len(lost)} of {len(bodies)} objects yanked under {readers.reads.total()} reads; "
          f"detected: {len(readers.retried)} were tried again: {readers.retried[:5]}")
    assert not readers.wrong, f"{len(readers.wrong)} reads failed twice: {readers.wrong[:3]}"
    away = requests(web, bodies)
    assert {name for name, count in away.items() if count > 1} == lost
    wait_until(lambda: cluster.logs["t1"].matching(f"drive closed drive={disk.mountpoint}$"), 30, "it is let go of")
    # While it may come back, what it had is passed through, and is not kept. What was never read is read, too.
    cold = web.fill({f"cold-{i}": rng.randbytes(5000) for i in range(4)})
    assert cluster.bodies(BUCKET, bodies | cold) == bodies | cold
    assert requests(web, bodies) == more(away, lost)

    detach(cluster, "t1", disk.mountpoint)
    if replaced:
        disk.umount()
        empty = disk.lab.disk("empty")
        empty.mountpoint = disk.mountpoint
        empty.mount()
        attach(cluster, "t1", disk.mountpoint)
    before = requests(web, bodies | cold)
    bodies |= cold
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda name: (name, cluster.get(BUCKET, name)), [*bodies] * 3))
    assert all(answer.body == bodies[name] for name, answer in answers)
    wait_stored(cluster, BUCKET, *bodies)
    fetched = {name for name, count in requests(web, bodies).items() if count > before[name]}
    assert fetched - set(cold) == lost and requests(web, bodies) == more(before, fetched), "each was fetched once"
    assert set(attribute.objects([other.mountpoint])) == set(bodies) or replaced
    assert not replaced or attribute.objects([disk.mountpoint])
    web.stop()
    assert cluster.bodies(BUCKET, bodies) == bodies


def kilobyte_a_second(sent, goes_on):
    """A flaw of a FlawedServer: the last SLOW bytes come 100 every tenth of a second, counted in `sent`. They come faster when
    `goes_on` is set, and the end not before."""
    def flaw(handler, its, start):
        handler.begin(its, start)
        slow_from = max(len(its) - SLOW, 100)
        for begin, end in itertools.pairwise([start, *range(slow_from, len(its), 100), len(its)]):
            goes_on.wait(60 if end == len(its) else 0.1)
            handler.wfile.write(its[begin:end])
            handler.wfile.flush()
            sent[handler.path.rpartition("/")[2]] += end - begin

    return flaw


@pytest.mark.gate("H2")
def test_an_upstream_of_a_kilobyte_a_second_holds_up_its_own_objects_only(make_cluster, rng):
    server, sent, goes_on = FlawedServer(), collections.Counter(), threading.Event()
    slow = {f"slow-{i}": rng.randbytes(SLOW + i) for i in range(8)}
    slow["slow-long"] = rng.randbytes(72 * KIB + SLOW)  # more than is held back from readers until the checksums agree
    fast = {f"fast-{i}": rng.randbytes(100_000) for i in range(8)}
    server.objects |= slow | fast
    server.flaws |= dict.fromkeys(slow, kilobyte_a_second(sent, goes_on))
    try:
        cluster = upstream_cluster(make_cluster, server, targets=1)
        for bucket in ("s3://data", "s3://other"):
            assert make_bucket(cluster, bucket, server.url).status == 200
        assert cluster.get("s3://data", "fast-0").body == fast["fast-0"]
        wait_stored(cluster, "s3://data", "fast-0")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            readers = {name: pool.submit(cluster.get, "s3://data", name) for name in sorted(slow)[:8]}
            with client.open_stream("GET", cluster.url("s3://data", "slow-long")) as stream:
                got = stream.read_at_least(1000)
                wait_until(lambda: all(sent[name] >= 1500 for name in slow), 60, "each has come for a second and more")
                for bucket in ("s3://data", "s3://other"):
                    assert cluster.bodies(bucket, fast) == fast
                for bucket in ("data", "s3://data"):
                    assert cluster.put(bucket, "written", fast["fast-1"]).status == 200
                    assert cluster.get(bucket, "written").body == fast["fast-1"]
                wait_until(lambda: counted(cluster, "fills_running") == len(slow), 60, "all others are stored")
                assert not any(reader.done() for reader in readers.values())
                goes_on.set()
                assert got + stream.response().body == slow["slow-long"]
            assert all(reader.result().body == slow[name] for name, reader in readers.items())
        wait_stored(cluster, "s3://data", *slow)
        assert {len(server.gets(name)) for name in slow} == {1}
    finally:
        goes_on.set()
        server.stop()


# Deep: more than a minute, which is how long upstream may take for an answer that is no body.
def test_a_kilobyte_a_second_is_enough_for_as_long_as_it_takes(make_cluster, rng):
    server, body = FlawedServer(), rng.randbytes(75_000)

    def flaw(handler, its, start):
        handler.begin(its, start)
        for begin in range(start, len(its), 1000):
            handler.wfile.write(its[begin:begin + 1000])
            handler.wfile.flush()
            time.sleep(1)

    server.objects["slow"], server.flaws["slow"] = body, flaw
    try:
        cluster = upstream_cluster(make_cluster, server, targets=1)
        assert make_bucket(cluster, "s3://data", server.url).status == 200
        assert cluster.get("s3://data", "slow", timeout=120).body == body
        wait_stored(cluster, "s3://data", "slow")
        assert len(server.gets("slow")) == 1
    finally:
        server.stop()
