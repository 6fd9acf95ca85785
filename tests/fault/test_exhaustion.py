"""Nodes that run out of memory, of file descriptors, of threads (docs/reliability.md A5, A6): refused, never wrong, never dead."""

import collections
import contextlib
import os
import pathlib
import resource
import subprocess
import sys
import threading
import time

import pytest
from disks import seeded
from groups import Group, why_no_group
from harness import client as http
from harness.waiting import scaled, wait_until
from load import Crowd
from stage import DRIVE_ERRORS, local_cluster

MIB = 1 << 20
needs_memory = pytest.mark.skipif(bool(why_no_group("memory")), reason=f"{why_no_group('memory')}")
needs_pids = pytest.mark.skipif(bool(why_no_group("pids")), reason=f"{why_no_group('pids')}")


# Takes as many MiB as each line says.
GREEDY = """
import sys
held = []
for line in sys.stdin:
    held.append(bytearray(b"x") * (int(line) << 20))
    print(len(held), flush=True)
"""


@needs_memory
@pytest.mark.gate("A5")
def test_uploads_are_refused_before_memory_runs_out(make_stage, tmp_path):
    """A5: 64 uploads under way at once in 64 MiB: 503 for those that find no room, the others get through, no process is killed."""
    # Drives on a disk: pages of a file system in memory would count as the target's own.
    stage = make_stage(targets=1, drives=1, directory=tmp_path / "cluster")
    cluster, size, begun = stage.cluster, 4 * MIB, 700_000
    stage.kill("t1")
    with Group("memory", limit_in_bytes=64 * MIB) as group:
        with group.births():
            stage.start("t1")
        body, uploads, answers = os.urandom(size), {}, {}
        for name in (f"n-{i:04}" for i in range(64)):
            url = cluster.put("data", name, body, follow=False).headers["Location"]
            uploads[name] = http.RawConnection(url)
            uploads[name].send_head("PUT", http.target_of(url), {"Content-Length": size})
            with contextlib.suppress(OSError):
                uploads[name].send(body[:begun])
        # All are under way now, or have their answer.
        wait_until(lambda: any(connection.is_readable(0) for connection in uploads.values()), 20, "one is refused")
        for name, connection in uploads.items():
            if not connection.is_readable(0):
                with contextlib.suppress(OSError):
                    connection.send(body[begun:])
        for name, connection in uploads.items():
            answers[name] = connection.read_response()
            connection.close()
        statuses = collections.Counter(answer.status for answer in answers.values())
        peak, kills = group.read("memory.max_usage_in_bytes"), group.kills()
        print(f"injected: 64 MiB for 64 uploads at once, peak {peak // MIB} MiB; detected: {dict(statuses)}, {kills} kills")
        assert set(statuses) == {200, 503} and statuses[200] >= 16, statuses
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers.values() if answer.status == 503)
        assert stage.is_alive("t1") and kills == 0
        for name, answer in answers.items():
            got = cluster.get("data", name)
            assert (got.status, got.body) == (200, body) if answer.status == 200 else got.status == 404
        refused = [name for name, answer in answers.items() if answer.status == 503]
        assert all(cluster.put("data", name, body).status == 200 for name in refused), "there is room again"
    stage.wait_tidy(64, seconds=60)


@needs_memory
def test_a_target_killed_for_want_of_memory_loses_nothing(make_stage, tmp_path, seed):
    """A5, as A1: the kernel kills the target in the middle of 64 large uploads; a success is one all the same."""
    rng = seeded(seed, "A5")
    stage = make_stage(targets=1, drives=1, directory=tmp_path / "cluster")
    stage.cluster.expect_errors(DRIVE_ERRORS)
    stage.kill("t1")
    names = [f"n-{i}" for i in range(64)]
    sizes = [rng.choice((4, 6, 8)) * MIB for _ in names]
    clients = [stage.client(f"c{i}", timeout=40) for i in range(16)]
    with Group("memory", limit_in_bytes=256 * MIB) as group:
        with group.births():
            stage.start("t1")
            pathlib.Path(f"/proc/{stage.cluster.pid('t1')}/oom_score_adj").write_text("1000")  # it, and not the greedy one
            greedy = subprocess.Popen([sys.executable, "-c", GREEDY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        waiting, lock = list(zip(names, sizes)), threading.Lock()

        def work(client):
            with lock:
                name, size = waiting[0]
                waiting.append(waiting.pop(0))
            client.put("data", name, size)

        crowd = Crowd(clients, work).start()
        try:
            wait_until(lambda: sum(op.status == 200 for op in stage.recorder.ops()) >= 8, 30, "uploads get through")
            while stage.is_alive("t1"):  # 4 MiB more each time, until the kernel has had enough
                greedy.stdin.write("4\n")
                greedy.stdin.flush()
                if not greedy.stdout.readline():
                    break  # killed as well: its turn comes after the target's
        finally:
            greedy.kill()
            greedy.communicate()
            crowd.stop()
        kills = group.kills()
    stage.wait_gone("t1")
    code = stage.exit_code("t1")
    stage.start("t1")
    judge = stage.client("judge")
    report, found = stage.check(judge, names)
    statuses = collections.Counter(op.status for op in stage.recorder.ops() if op.op == "put")
    print(f"injected: {kills} kills for want of memory, exit code {code}; detected: {dict(statuses)} (0: no answer), "
          f"{report.unknown} writes without a certain outcome")
    assert kills >= 1 and code == -9
    assert set(statuses) <= {200, 503, 507, 0} and statuses[200] >= 8 and statuses[0] >= 1, statuses
    stage.wait_tidy(len(judge.list("data").names), seconds=60)


def hold(address, request, count, timeout=5):
    """Connections that have sent a request and take no answer; those that the kernel or the node refuses are left out."""
    held = []
    for _ in range(count):
        try:
            connection = http.RawConnection(address, timeout=timeout)
            connection.socket.setsockopt(http.socket.SOL_SOCKET, http.socket.SO_RCVBUF, 4096)
            connection.send(request)
            held.append(connection)
        except OSError:
            pass
    return held


class Refusals:
    """How many of the connections got a 503, and how many were closed without a word, until now."""

    def __init__(self, held):
        self.silent, self.refused, self.closed = list(held), 0, 0

    def count(self):
        heard = [connection for connection in self.silent if connection.is_readable(0)]
        self.silent = [connection for connection in self.silent if connection not in heard]
        for connection in heard:
            try:
                self.refused += connection.read_head()[0] == 503
            except (OSError, http.ProtocolError):
                self.closed += 1
        return self.refused + self.closed


@pytest.mark.parametrize("node", ["t1", "p1"])
@pytest.mark.gate("A6")
def test_a_node_without_file_descriptors_refuses_and_recovers(make_stage, seed, node):
    """A6: 256 descriptors, 600 connections and uploads beside them; nothing breaks that outlasts the load."""
    stage = make_stage(targets=1, drives=2)
    cluster = stage.cluster
    judge = stage.client("judge")
    names = [f"n-{i}" for i in range(30)]
    for name in names:
        assert judge.put("data", name, 70_000).status == 200
    assert cluster.put("data", "large", os.urandom(8 * MIB)).status == 200
    before = resource.prlimit(cluster.pid(node), resource.RLIMIT_NOFILE, (256, 256))
    assert before[0] > 256
    url = cluster.get("data", "large", follow=False).headers["Location"] if node == "t1" else cluster.url("data", "large", cluster.relay)
    request = f"GET {http.target_of(url)} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    crowd = Crowd([stage.client(f"c{i}", [cluster.endpoint, cluster.relay], timeout=3) for i in range(6)],
                  lambda client: (client.put("data", names[hash(client) % 30], 300_000), client.get("data", names[0]))).start()
    held = hold(url, request, 600)
    refusals = Refusals(held)
    wait_until(lambda: refusals.count() > 100, 10, "more are refused than can be by chance")
    used = len(os.listdir(f"/proc/{cluster.pid(node)}/fd"))
    alive = stage.is_alive(node)
    for connection in held:
        connection.reset()
    crowd.stop()
    begun = time.monotonic()
    wait_until(lambda: judge.get("data", names[0]).status == 200 and judge.put("data", names[1], 1000).status == 200, 5,
               "reads and writes work again")
    statuses = collections.Counter(op.status for op in stage.recorder.ops())
    print(f"injected: 256 descriptors, {used} of them used, {len(held)} readers that hold theirs; detected: {refusals.refused} answered "
          f"503, {refusals.closed} closed, calls beside them {dict(statuses)}; recovered in {time.monotonic() - begun:.2f} s")
    assert alive and used >= 180
    for drive in cluster.drives("t1"):
        assert cluster.metric("t1", "tarn_drive_up", drive=str(drive)) == 1, "a drive is not to blame"
    assert {judge.put("data", name, 5000).status for name in names} == {200}
    stage.check(judge, names, only=lambda op: op.name != "large" and op.op != "list")


@needs_pids
def test_a_target_without_further_threads_serves_or_says_so(make_stage, seed):
    """A6: no new thread while it runs; and a start with too few of them ends in a line that says why."""
    stage = make_stage(targets=1, drives=2)
    cluster = stage.cluster
    judge = stage.client("judge")
    names = [f"n-{i}" for i in range(40)]
    with Group("pids") as group:
        pid = cluster.pid("t1")
        group.take(pid)
        threads = len(os.listdir(f"/proc/{pid}/task"))
        group.write("pids.max", threads)
        crowd = Crowd([stage.client(f"c{i}") for i in range(8)],
                      lambda client: client.put("data", names[hash(client) % 40], 300_000), count=300).start()
        crowd.join()
        statuses = collections.Counter(op.status for op in stage.recorder.ops())
        assert stage.is_alive("t1") and set(statuses) <= {200, 503}, statuses
        group.write("pids.max", "max")
    assert judge.put("data", names[0], 1000).status == 200
    stage.check(judge, names)
    stage.kill("t1")
    arguments = local_cluster.Cluster.load(stage.directory).node("t1").arguments
    with Group("pids", max=12) as group:
        with group.births():
            process = subprocess.Popen([str(cluster.programs / "tarn-target"), *arguments], stderr=subprocess.PIPE, text=True)
        _, said = process.communicate(timeout=scaled(30))
    lines = [line for line in said.splitlines() if line.startswith("tarn-target: ")]
    print(f"injected: {threads} threads and no more, then 12 at a start; detected: {dict(statuses)}, then exit code "
          f"{process.returncode}, {lines}")
    assert process.returncode == 1 and len(lines) == 1 and "thread" in lines[0], said
    stage.start("t1")
    stage.check(judge, names)


@needs_pids
@pytest.mark.parametrize("node", ["t1", "p1"])
def test_a_start_with_too_few_threads_says_so_whichever_is_missing(make_stage, node):
    """A6: loops, drives, RocksDB: at each number of threads up to what it needs a start ends with a line, never by a signal."""
    stage = make_stage(targets=1, drives=2)
    cluster = stage.cluster
    assert cluster.put("data", "n-0000", b"x").status == 200
    threads = len(os.listdir(f"/proc/{cluster.pid(node)}/task"))
    stage.kill(node)
    node_file = stage.directory / node / "node.json"
    of_node = local_cluster.Cluster.load(stage.directory).node(node)
    program = "tarn-target" if node == "t1" else "tarn-proxy"
    ends = {}
    for limit in range(3, threads + 3):  # the thread that starts it belongs to the group as well
        node_file.unlink(missing_ok=True)
        with Group("pids", max=limit) as group:
            with group.births():
                process = subprocess.Popen([str(cluster.programs / program), *of_node.arguments], stderr=subprocess.PIPE, text=True)
            wait_until(lambda: process.poll() is not None or node_file.exists(), 30, "it runs, or has ended")
            running = process.poll() is None
            process.kill()
            said = process.stderr.read()
            process.wait()
        lines = [line for line in said.splitlines() if line.startswith(f"{program}: ")]
        ends[limit] = "runs" if running else process.returncode
        assert running or (process.returncode == 1 and len(lines) == 1 and "thread" in lines[0]), (limit, process.returncode, said)
        if running:
            break
    print(f"injected: 3 to {max(ends)} threads for a start of {program}, which has {threads}; detected: {collections.Counter(ends.values())}")
    assert ends[max(ends)] == "runs" and collections.Counter(ends.values())[1] >= 3
    stage.start(node)
    assert cluster.get("data", "n-0000").body == b"x"
