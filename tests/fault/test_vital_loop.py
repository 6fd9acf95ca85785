"""The vital loop waits for no work: lease, watch of the cluster's state, and heartbeats (docs/decisions/005)."""

import contextlib
import json
import os
import random
import signal
import threading
import time

import pytest
from harness import client as http
from harness.nodes import call, give_names_to, signed, wait_until_in_place
from harness.waiting import scaled, wait_until
from harness.watchers import Watcher

MIB = 1 << 20
HEARTBEAT = "/v1/internal/heartbeat"
SILENCE = 2  # seconds without a heartbeat that make a target a suspect
BAD_NEWS = "suspect|not renewed|renewed late|lease gone|leases ended|target down"


class Heart(threading.Thread):
    """Listens to a target's heartbeats, as a proxy does."""

    def __init__(self, cluster, target):
        super().__init__(daemon=True)
        self.beats = []  # (when it came, what it said)
        self.begun = time.monotonic()
        self.connection = http.RawConnection(cluster.url_of(target, "internal"), timeout=60)
        self.connection.send_head("GET", HEARTBEAT, signed(cluster, "GET", HEARTBEAT, "test"))
        self.start()

    def run(self):
        with contextlib.suppress(OSError, ValueError):  # closed by end()
            for line in self.connection.reader:
                if line.startswith(b"{"):
                    self.beats.append((time.monotonic(), json.loads(line)))

    def longest_gap(self):
        times = [self.begun, *(when for when, _ in self.beats), time.monotonic()]
        return max(later - earlier for earlier, later in zip(times, times[1:]))

    def end(self):
        """The longest time between two beats, in seconds."""
        gap = self.longest_gap()
        self.connection.socket.shutdown(2)
        self.join()
        self.connection.close()
        return gap


def bad_news(cluster):
    return [line for log in cluster.logs.values() for line in log.matching(BAD_NEWS)]


def held_up(seconds, when):
    """The fail points that stop all loops on which a node works, once, when there is a file `when`."""
    return ";".join(f"loop.turn.{i}=sleep:{int(1000 * seconds)}@{when}" for i in range(os.cpu_count()))


def hold(cluster, node, when):
    when.touch()
    names = {f"name=loop.turn.{i} " for i in range(os.cpu_count())}
    wait_until(lambda: all(cluster.logs[node].matching(f"failpoint hit {name}") for name in names), 60, f"{node} is held up")


@pytest.mark.parametrize("node", ["t1", "p1"])
def test_a_node_whose_work_stands_still_keeps_its_lease_and_is_heard(make_cluster, node, tmp_path):
    """All loops of a target, or of the proxy that has the store, are held up for longer than a lease."""
    seconds = 6
    cluster = make_cluster(targets=2, drives=1, start=False)
    cluster.up(fail_points={node: held_up(seconds, tmp_path / "held")})
    (name,) = cluster.names_owned_by("t1", "data", 1)
    assert cluster.put("data", name, b"before").status == 200
    wait_until_in_place(cluster)
    for log in cluster.logs.values():
        assert not log.matching("failpoint hit name=loop"), "held up too early to show anything"
    heart = Heart(cluster, "t1")
    hold(cluster, node, tmp_path / "held")
    begun = time.monotonic()
    asked = http.RawConnection(cluster.url_of(node), timeout=60)
    asked.send_head("GET", "/healthz")
    late = Heart(cluster, "t1")  # one that comes only now
    answers = []
    while not asked.is_readable(0.1):
        # The store in the one proxy goes on to answer.
        at = time.monotonic()
        assert call(cluster, "p1", "POST", "/v3/kv/range", {"key": "AA=="}).status == 200
        answers.append(time.monotonic() - at)
    held = time.monotonic() - begun
    assert asked.read_response("GET").status == 200
    gaps = heart.end(), late.end()
    print(f"injected: {node} did nothing for {held:.1f} s; detected: heartbeats at most {max(gaps):.1f} s apart, "
          f"{len(answers)} calls of the store, at most {max(answers):.2f} s each")
    assert held > seconds - 1.5, "it was not held up"
    assert max(gaps) < scaled(SILENCE) and max(answers) < scaled(SILENCE)
    assert not bad_news(cluster), bad_news(cluster)
    assert cluster.get("data", name).body == b"before" and cluster.put("data", name, b"after").status == 200


def test_a_target_that_was_stopped_for_a_moment_is_heard_as_soon_as_it_goes_on(make_cluster):
    """Beats keep to the clock: 1.2 s without any, from just after one, must not come to the 2 s that make a suspect."""
    cluster = make_cluster(targets=1, drives=1)
    heart = Heart(cluster, "t1")
    wait_until(lambda: heart.beats, 10, "the first beat")
    seen = len(heart.beats)
    wait_until(lambda: len(heart.beats) > seen, 10, "a beat", every=0.002)
    stopped = time.monotonic()
    os.kill(cluster.pid("t1"), signal.SIGSTOP)
    time.sleep(1.2)
    os.kill(cluster.pid("t1"), signal.SIGCONT)
    held = time.monotonic() - stopped
    wait_until(lambda: time.monotonic() > stopped + 3, 10, "some beats more")
    gap = heart.end()
    print(f"injected: stopped for {held:.2f} s; detected: heartbeats at most {gap:.2f} s apart")
    assert held < gap < max(held + 0.4, scaled(held + 0.1))


def test_a_target_whose_loop_hangs_says_so(make_cluster, tmp_path):
    """Its own loop for heartbeats must not hide that no client is served any longer."""
    cluster = make_cluster(targets=2, drives=1, start=False)
    cluster.up(fail_points={"t1": held_up(13, tmp_path / "held")})
    hold(cluster, "t1", tmp_path / "held")
    (why,) = wait_until(lambda: cluster.logs["p1"].matching("target suspect"), 20, "t1 is a suspect")
    assert "it is not ready" in why, why
    cluster.logs["p1"].mark()
    wait_until(lambda: cluster.logs["p1"].matching("target answers"), 20, "t1 is trusted again")
    (name,) = cluster.names_owned_by("t1", "data", 1)
    assert cluster.put("data", name, b"after").status == 200


@contextlib.contextmanager
def one_processor():
    """Programs that are started meanwhile have one loop for all their work, as with --threads 1."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usable)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def set_free(cluster):
    for node in cluster.nodes:
        for task in os.listdir(f"/proc/{cluster.pid(node)}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task), os.sched_getaffinity(0))


def stalls(cluster):
    """{node: seconds that its loops were held up: the one of all work, and the vital one}"""
    return {node: [cluster.metric(node, "tarn_loop_stall_seconds_total", loop=loop) for loop in ("0", "vital")] for node in cluster.nodes}


class Traffic:
    """Readers and writers of large objects, as a context; `done` bytes went through, and nothing else came back."""

    def __init__(self, cluster, names, body, rng, readers=3, writers=2):
        self.cluster, self.names, self.body, self.rng = cluster, names, body, rng
        self.done = 0
        self.longest = 0
        self.watchers = [*(Watcher(self.read) for _ in range(readers)), *(Watcher(self.write) for _ in range(writers)),
                         Watcher(self.ask)]

    def read(self, _turn):
        answer = self.cluster.get("data", self.rng.choice(self.names))
        self.done += len(answer.body)
        return None if answer.status == 200 and answer.body == self.body else repr(answer)[:200]

    def write(self, turn):
        answer = self.cluster.put("data", f"written-{turn % 8}", self.body, expect=False)
        self.done += len(self.body)
        return None if answer.status in (200, 503) else repr(answer)[:200]  # 503: while the name is handed over

    def ask(self, _turn):
        """True if the proxy is there, as other nodes ask."""
        begun = time.monotonic()
        answer = call(self.cluster, "p1", "GET", "/readyz")
        self.longest = max(self.longest, time.monotonic() - begun)
        time.sleep(0.05)
        return None if answer.status == 200 else repr(answer)[:200]

    def __enter__(self):
        for watcher in self.watchers:
            watcher.start()
        return self

    def __exit__(self, kind, *_):
        wrong = [problem for watcher in self.watchers for problem in watcher.end()]
        if kind is None:
            assert not wrong, wrong[:5]


def test_moving_large_objects_delays_no_lease_and_no_heartbeat(make_cluster, seed):
    """Objects move without limits, on one loop a node, beside readers and writers."""
    with one_processor():
        cluster = make_cluster(targets=2, drives=1, settings={"rebalance.bandwidth": "0", "rebalance.workers": "8"})
    set_free(cluster)
    for node in cluster.nodes:
        assert cluster.metric(node, "tarn_loop_stalls_total", loop="0") is not None
        assert cluster.metric(node, "tarn_loop_stalls_total", loop="1") is None, "more than one loop works"
    rng = random.Random(seed)
    body = rng.randbytes(16 * MIB)
    names = [f"large-{i}" for i in range(16)]
    for name in names:
        assert cluster.put("data", name, body).status == 200
    wait_until_in_place(cluster)
    for log in cluster.logs.values():
        log.mark()  # that all shared one processor until just now is no part of this
    before = stalls(cluster)
    hearts = [Heart(cluster, target) for target in ("t1", "t2")]
    begun = time.monotonic()
    with Traffic(cluster, names, body, rng) as traffic:
        for owners in (["t1"], ["t2"], ["t1", "t2"]):
            give_names_to(cluster, *owners)
            wait_until_in_place(cluster, 60)
    seconds = time.monotonic() - begun
    gaps = [heart.end() for heart in hearts]
    moved = sum(int(word.removeprefix("bytes=")) for target in ("t1", "t2") for line in cluster.logs[target].matching("rebalance ended ")
                for word in line.split() if word.startswith("bytes="))
    held = {node: [round(now - then, 2) for now, then in zip(seconds_held, before[node])] for node, seconds_held in stalls(cluster).items()}
    print(f"injected: {moved / MIB:.0f} MiB moved in {seconds:.1f} s beside {traffic.done / MIB:.0f} MiB of clients; detected: "
          f"heartbeats at most {max(gaps):.1f} s apart, the proxy answered within {traffic.longest:.2f} s; seconds that loops "
          f"were held up, work and vital: {held}")
    assert moved >= 256 * MIB
    assert max(gaps) < scaled(SILENCE) and traffic.longest < scaled(SILENCE)
    assert not bad_news(cluster), bad_news(cluster)
