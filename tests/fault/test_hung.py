"""A drive that no longer answers, and readers that no longer take anything: both cost only themselves (C12)."""

import os
import signal
import threading
import time

import disks
import pytest
from copies import ON_NODES
from disks import seeded
from harness import client as http
from harness.nodes import wait_until_in_place
from harness.waiting import scaled, wait_until
from latency import bound, forget_pages, machine_is_busy, measures_time, percentile, timed
from load import Crowd
from stage import DRIVE_ERRORS, Churn, certain

MIB = 1 << 20
SECONDS = 0.1  # what 99 of 100 reads of the other drives may take
needs_ext4 = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")
needs_fuse = pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")


class Waiting:
    """Calls in flight, for which the test waits later; each has a thread and a client of its own."""

    def __init__(self, stage, calls):
        self.ops = []
        self._threads = [threading.Thread(target=self._run, args=(stage.client(f"waiting-{i}", timeout=60), call), daemon=True)
                         for i, call in enumerate(calls)]
        for thread in self._threads:
            thread.start()

    def _run(self, client, call):
        with client:
            self.ops.append(call(client))

    def join(self):
        for thread in self._threads:
            thread.join(scaled(60))
            assert not thread.is_alive(), "a request of the drive that hung has never been answered"
        return self.ops


def reads_of(client, names, rng, count, problems):
    """Seconds that each of `count` GETs took."""
    seconds = []
    for _ in range(count):
        op, took = timed(lambda: client.get("data", rng.choice(names)))
        seconds.append(took)
        if op.status != 200:
            problems.append(op.line())
    return seconds


@needs_fuse
@measures_time
@pytest.mark.parametrize("fs", [pytest.param("ext4", marks=pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason="loop"))])
def test_a_hung_drive_stops_only_its_own_readers(make_stage, fs, seed):
    """200 GETs of other drives, of the same target too, while one drive hangs under load; then it goes on."""
    rng = seeded(seed, "hung")
    stage = make_stage(targets=2, drives=2, fs=fs, recording=True, settings={"http.idle_timeout": "120s"})
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    hung = stage.disks["t1"][0]
    with stage.client("first") as first:
        names = [f"n-{i:04}" for i in range(150)]
        for name in names:
            assert first.put("data", name, rng.choice((100, 4096, 70_000, 300_000))).status == 200
    by_drive = {drive: sorted(stage.objects_on(target, drive)) for target in stage.targets() for drive in cluster.drives(target)}
    its = by_drive.pop(hung.mountpoint)
    others = [name for found in by_drive.values() for name in found]
    same_target = by_drive[stage.disks["t1"][1].mountpoint]
    assert len(its) > 10 and len(same_target) > 10
    for disk in stage.all_disks():
        for path, _ in stage.data_files(disk.mountpoint.parent.name, disk.mountpoint):
            disk.forget(path)

    judge, problems = stage.client("judge"), []
    before = reads_of(judge, others, rng, 200, problems)
    # Load on all drives; who asks for one that hangs waits, as long as it takes.
    churn = Churn(seed, names, sizes=(100, 4096, 70_000), puts=0.4, deletes=0.0)
    load = Crowd([stage.client(f"c{i}", timeout=60) for i in range(4)], churn).start()
    time.sleep(0.2)
    hung.daemon.stop()
    try:
        waiting = Waiting(stage, [*(lambda client, name=name: client.get("data", name) for name in its),
                                  *(lambda client, name=name: client.put("data", name, 50_000) for name in its[:12]),
                                  *(lambda client, name=name: client.delete("data", name) for name in its[12:14]),
                                  lambda client: client.list("data")])
        wait_until(lambda: cluster.metric("t1", "tarn_drive_queue", drive=str(hung.mountpoint)) >= 8, 10,
                   "all threads of the drive that hangs wait for it")
        during = reads_of(judge, others, rng, 140, problems) + reads_of(judge, same_target, rng, 60, problems)
        healthy = [timed(lambda node=node: http.request("GET", cluster.url_of(node) + "/healthz", timeout=10))
                   for node in ("p1", "t1", "t2") for _ in range(5)]
        written = [timed(lambda name=name: judge.put("data", name, 5000)) for name in rng.sample(others, 20)]
        still = cluster.metric("t1", "tarn_drive_queue", drive=str(hung.mountpoint))
    finally:
        hung.daemon.cont()
    answers = waiting.join()
    load.stop()
    p99, p99_before = percentile(during, 0.99), percentile(before, 0.99)
    print(f"injected: a drive with {len(its)} of {len(names)} objects stopped, {still:.0f} calls waiting for it; detected: 200 "
          f"GETs of the others p50 {percentile(during, 0.5) * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms (before "
          f"{p99_before * 1000:.1f} ms), slowest /healthz {max(took for _, took in healthy) * 1000:.0f} ms; afterwards "
          f"{sum(op.status == 200 for op in answers)} of {len(answers)} waiting calls were done")
    assert still >= 8, "the drive did not hang"
    assert not problems, problems[:5]
    assert all(answer.status == 200 for answer, _ in healthy) and all(op.status == 200 for op, _ in written)
    assert p99 <= bound(SECONDS, p99_before), f"p99 {p99:.3f} s"
    assert max(took for _, took in healthy) <= bound(1.0, 0.3)
    # Nothing was lost by waiting, and everything works again.
    assert all(op.status in (200, 404, 503) for op in answers if op.op != "list"), [op.line() for op in answers]
    for name in its:
        assert certain(judge.get, "data", name, 20).outcome in ("done", "absent")
    assert {judge.put("data", name, 1000).status for name in its[:5]} == {200}
    stage.check(judge, names)
    assert stage.is_alive("t1")


@needs_fuse
@needs_ext4
def test_a_drive_that_hangs_is_out_after_ten_seconds_and_comes_back(make_stage, seed):
    """C12, for single copies: its names are answered 503 at once, nothing waits in its queue, and when it answers it is in again."""
    rng = seeded(seed, "out")
    stage = make_stage(targets=1, drives=2, fs="ext4", recording=True, settings={"http.idle_timeout": "120s"})
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    hung, other = stage.disks["t1"]
    names = [f"n-{i:04}" for i in range(100)]
    judge = stage.client("judge")
    for name in names:
        assert judge.put("data", name, rng.choice((100, 70_000, 300_000))).status == 200
    its, others = (sorted(stage.objects_on("t1", disk.mountpoint)) for disk in (hung, other))
    for path, _ in stage.data_files("t1", hung.mountpoint):
        hung.forget(path)

    def metric(name):
        return cluster.metric("t1", f"tarn_drive_{name}", drive=str(hung.mountpoint))

    hung.daemon.stop()
    try:
        began = time.monotonic()
        waiting = Waiting(stage, [*(lambda client, name=name: client.get("data", name) for name in its),
                                  *(lambda client, name=name: client.put("data", name, 300_000) for name in its[:16])])
        wait_until(lambda: metric("hung") == 1, 30, "the drive is out")
        took = time.monotonic() - began
        wait_until(lambda: len(waiting.ops) >= len(its) + 16 - 8, 5, "all are answered but what the drive has in hand")
        answered = [op.status for op in waiting.ops]
        asked = [timed(call) for name in its[:20] for call in (
            lambda name=name: judge.get("data", name), lambda name=name: judge.put("data", name, 1000),
            lambda name=name: judge.delete("data", name))]
        listed, _ = timed(lambda: judge.list("data"))
        served = reads_of(judge, others, rng, 50, problems := [])
        stored = [judge.put("data", name, 5000).status for name in others[:10]]
        paths = http.request("GET", cluster.endpoint + "/v1/cluster?what=mountpaths").json()[cluster.nodes["t1"]["id"]]
        still, up = metric("queue"), metric("up")
    finally:
        hung.daemon.cont()
    wait_until(lambda: metric("hung") == 0, 20, "the drive is in again")
    waiting.join()
    slowest = max(seconds for _, seconds in asked)
    print(f"injected: a drive stopped with {len(its)} of {len(names)} objects; detected: out after {took:.1f} s, "
          f"{len(answered)} of {len(its) + 16} waiting calls answered then; 60 calls of its names took at most "
          f"{slowest * 1000:.0f} ms, 50 reads of the other drive at most {max(served) * 1000:.0f} ms")
    assert took >= 9, "ten seconds of patience"
    assert up == 0 and still <= 8 + len(its) + 16, "what it has in hand, and files to be closed"
    assert {op.status for op, _ in asked} == {503} and slowest < scaled(1), [op.line() for op, _ in asked][:5]
    assert listed.status == 503
    assert not problems and set(stored) == {200}
    assert str(hung.mountpoint) not in paths["available"] and str(other.mountpoint) in paths["available"]
    assert len(cluster.logs["t1"].matching("drive hangs, out until it answers")) == 1
    assert len(cluster.logs["t1"].matching("drive answers again")) == 1
    assert metric("up") == 1 and metric("hangs") == 1
    assert {judge.put("data", name, 1000).status for name in its[:5]} == {200}
    stage.check(judge, names)
    stage.wait_tidy(len(names), seconds=20)


@needs_fuse
@needs_ext4
def test_a_target_with_a_drive_that_hangs_stops_promptly(make_stage, seed):
    """C12: asked to stop, it does all that a stop does. What the drive has in hand the kernel ends when it can."""
    stage = make_stage(targets=1, drives=2, fs="ext4", recording=True, settings={"shutdown.grace": "1s"})
    cluster, hung = stage.cluster, stage.disks["t1"][0]
    cluster.expect_errors(DRIVE_ERRORS)
    judge = stage.client("judge")
    names = [f"n-{i:04}" for i in range(40)]
    for name in names:
        assert judge.put("data", name, 70_000).status == 200
    its = sorted(stage.objects_on("t1", hung.mountpoint))
    for path, _ in stage.data_files("t1", hung.mountpoint):
        hung.forget(path)
    hung.daemon.stop()
    try:
        waiting = Waiting(stage, [lambda client, name=name: client.get("data", name) for name in its])
        wait_until(lambda: cluster.metric("t1", "tarn_drive_queue", drive=str(hung.mountpoint)) >= 4, 10, "it hangs")
        began = time.monotonic()
        os.kill(cluster.pid("t1"), signal.SIGTERM)
        node_file = stage.directory / "t1" / "node.json"
        wait_until(lambda: not node_file.exists(), 30, "all that a stop does is done")
        took = time.monotonic() - began
    finally:
        hung.daemon.cont()
    stage.wait_gone("t1")
    waiting.join()
    print(f"injected: SIGTERM with calls in the hands of a drive that hangs; detected: stopped after {took:.1f} s")
    assert took < scaled(15)
    stage.start("t1")
    stage.check(judge, names)


@needs_fuse
@needs_ext4
def test_where_a_replica_hangs_what_it_has_in_hand_waits_until_it_is_out_and_then_nobody(make_stage, seed):
    """C12, for copies on nodes. Writes that wait for the drive are refused when it is out, later ones at once. From then on the other
    replica serves readers."""
    stage = make_stage(targets=2, drives=1, fs="ext4", recording=True, settings={"http.idle_timeout": "120s"})
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    cluster.create_bucket("two", ON_NODES)
    wait_until_in_place(cluster)
    of_well, of_hung = (cluster.names_owned_by(target, "two", 6) for target in ("t1", "t2"))
    names = [*of_well, *of_hung]
    for name in names:
        assert cluster.put("two", name, b"before").status == 200
    wait_until(lambda: not any(cluster.metric(each, "tarn_copies_pending") for each in ("t1", "t2")), 10, "every version is complete")
    hung = stage.disks["t2"][0]
    for path, _ in stage.data_files("t2", hung.mountpoint):
        hung.forget(path)

    def metric(name):
        return cluster.metric("t2", f"tarn_drive_{name}", drive=str(hung.mountpoint))

    def put(name, body):
        return timed(lambda: cluster.put("two", name, body, expect=False))

    def get(name):
        return timed(lambda: cluster.get("two", name, expect=False))

    def quickly(calls, status):
        for answer, seconds in calls:
            assert answer.status == status and seconds < scaled(1), (answer, seconds)
        return max(seconds for _, seconds in calls)

    in_hand = []

    def begin(call, name):
        thread = threading.Thread(target=lambda: in_hand.append((*call(name), time.monotonic())), daemon=True)
        thread.start()
        return thread

    hung.daemon.stop()
    try:
        began = time.monotonic()
        writers = [begin(lambda name: put(name, b"in hand"), name) for name in of_well[:2]]
        wait_until(lambda: metric("hung") == 1, 30, "the drive is out")
        out = time.monotonic()
        for writer in writers:
            writer.join(scaled(10))
        answered = list(in_hand)
        reads_when_out = [get(name) for name in (*of_well[2:], *of_hung)]
        writes_when_out = [put(name, b"not now") for name in (*of_well[2:], *of_hung)]
        deletes_when_out = [timed(lambda: cluster.delete("two", of_well[2], expect=False))]
    finally:
        hung.daemon.cont()
    assert [answer.status for answer, _, _ in answered] == [503, 503], answered
    slowest = [quickly(calls, status) for calls, status in (
        (reads_when_out, 200), (writes_when_out, 503), (deletes_when_out, 503))]
    waited = max(ended for _, _, ended in answered) - out
    print(f"injected: the drive of one replica of two stopped; detected: out after {out - began:.1f} s, the writes in its hands refused "
          f"{waited:.1f} s later; all others took at most {max(slowest) * 1000:.0f} ms")
    assert waited < scaled(5)
    assert {answer.body for answer, _ in reads_when_out} == {b"before"}
    assert all(answer.headers.get("Retry-After") for answer, _ in writes_when_out)
    wait_until(lambda: metric("hung") == 0, 20, "the drive is in again")
    for name in names:
        wait_until(lambda: put(name, b"after")[0].status == 200, 20, f"{name} is written again")
    wait_until(lambda: not any(cluster.metric(each, "tarn_copies_pending") for each in ("t1", "t2")), 20, "every version is complete")
    for name in names:
        for target in ("t1", "t2"):
            answer = http.request("GET", cluster.url("two", name, base=cluster.url_of(target)), expect=False)
            assert answer.body == b"after", (name, target, answer)


@measures_time
def test_readers_that_stop_do_not_keep_others_from_their_turns(make_stage, tmp_path):
    """Many clients stop in the middle of a large object: what they hold of the drive's windows is forgiven."""
    # Always verified: each reader takes turns, though all read one object, which then need not be many gigabytes.
    settings = {"drive.kind": "rotational", "checksum.verify": "always", "http.body_rate_window": "60s"}
    # On a disk: a file system in memory never forgets a page.
    stage = make_stage(targets=1, drives=1, settings=settings, directory=tmp_path / "cluster")
    cluster, size, count = stage.cluster, 16 * MIB, 64  # each holds a window of 8 MiB, together more than there may be
    others = [f"other-{i}" for i in range(4)]
    body = os.urandom(size)
    for name in ["stopped", *others]:
        assert cluster.put("data", name, body).status == 200
    for path, _ in stage.data_files("t1"):
        forget_pages(path)
    held = []
    try:
        url = cluster.get("data", "stopped", follow=False).headers["Location"]
        for _ in range(count):
            connection = http.RawConnection(url)
            connection.socket.setsockopt(http.socket.SOL_SOCKET, http.socket.SO_RCVBUF, 4096)
            connection.send_head("GET", http.target_of(url))
            held.append(connection)
        wait_until(lambda: cluster.metric("t1", "tarn_drive_streams") >= count, 20, "the readers have begun")
        seconds, stuck = [], [0]

        def watch(stop):
            while not stop.is_set():
                stuck.append(cluster.metric("t1", "tarn_drive_waiting_turns"))
                time.sleep(0.05)

        stop = threading.Event()
        watcher = threading.Thread(target=watch, args=(stop,))
        watcher.start()
        try:
            for name in others:
                answer, took = timed(lambda name=name: cluster.get("data", name, timeout=45))
                assert answer.status == 200 and answer.body == body
                seconds.append(took)
        finally:
            stop.set()
            watcher.join()
        streams = cluster.metric("t1", "tarn_drive_streams")
    finally:
        for connection in held:
            connection.reset()
    print(f"injected: {count} readers of {size // MIB} MiB stopped, {streams:.0f} still there, at most {max(stuck):.0f} waiting "
          f"for a turn; detected: others took {[round(took, 1) for took in seconds]} s")
    assert streams >= count, "the readers that stopped were not there all the time"
    assert max(stuck) > 0, "the windows were never used up"
    # Two windows each, and at most two ticks of a second until what is held is forgiven.
    assert max(seconds) < scaled(12) + (10 if machine_is_busy() else 0), seconds
    wait_until(lambda: cluster.metric("t1", "tarn_drive_streams") == 0, 10, "the readers are gone")
