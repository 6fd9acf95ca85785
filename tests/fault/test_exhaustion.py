"""Nodes that run out of memory, of file descriptors, of threads (faults.md A5, A6): refused, never wrong, never dead."""

import collections
import os
import resource
import subprocess
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


@needs_memory
@pytest.mark.parametrize("limit", [256, 64])
def test_64_large_uploads_in_little_memory(make_stage, tmp_path, seed, limit):
    """A5: a success is one, also where the kernel kills the target; at 256 MiB it does not come to that."""
    rng = seeded(seed, "A5", limit)
    # Drives on a disk: pages of a file system in memory would count as the target's own.
    stage = make_stage(targets=1, drives=1, directory=tmp_path / "cluster")
    stage.cluster.expect_errors(DRIVE_ERRORS)
    stage.kill("t1")
    names = [f"n-{i}" for i in range(64)]
    clients = [stage.client(f"c{i}", timeout=40) for i in range(64)]
    judge = stage.client("judge")
    with Group("memory", limit_in_bytes=limit * MIB) as group:
        with group.births():
            stage.start("t1")
        waiting, lock = list(names), threading.Lock()

        def work(client):
            with lock:
                name = waiting.pop()
            client.put("data", name, rng.choice((4, 6, 8)) * MIB)

        Crowd(clients, work, count=64).start().join()
        alive = stage.is_alive("t1")
        pressure, peak = group.read("memory.failcnt"), group.read("memory.max_usage_in_bytes")
        statuses = collections.Counter(op.status for op in stage.recorder.ops())
        print(f"injected: {limit} MiB for 64 uploads, used up {pressure} times, peak {peak // MIB} MiB; detected: {dict(statuses)} "
              f"(0: no answer), the target {'lives' if alive else 'was killed'}")
        assert pressure > 0, "memory was never short"
        if alive:
            stage.look(judge, names[:8])
    if not alive:
        stage.wait_gone("t1")
        stage.start("t1")
    assert set(statuses) <= {200, 503, 507, 0}
    assert alive or limit < 256, "killed where there is room enough"
    assert not alive or 0 not in statuses, "a living target owes an answer"
    report, found = stage.check(judge, names)
    assert sum(get.status == 200 for get, _ in found.values()) >= statuses[200]
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


def refusals(held):
    """How many of the connections got a 503, and how many were closed without a word."""
    refused = closed = 0
    for connection in held:
        if connection.is_readable(0):
            try:
                refused += connection.read_head()[0] == 503
            except (OSError, http.ProtocolError):
                closed += 1
    return refused, closed


@pytest.mark.parametrize("node", ["t1", "p1"])
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
    time.sleep(scaled(1.5))
    used = len(os.listdir(f"/proc/{cluster.pid(node)}/fd"))
    refused, closed = refusals(held)
    alive = stage.is_alive(node)
    for connection in held:
        connection.reset()
    crowd.stop()
    begun = time.monotonic()
    wait_until(lambda: judge.get("data", names[0]).status == 200 and judge.put("data", names[1], 1000).status == 200, 5,
               "reads and writes work again")
    statuses = collections.Counter(op.status for op in stage.recorder.ops())
    print(f"injected: 256 descriptors, {used} of them used, {len(held)} readers that hold theirs; detected: {refused} answered "
          f"503, {closed} closed, calls beside them {dict(statuses)}; recovered in {time.monotonic() - begun:.2f} s")
    assert alive and used >= 180 and refused + closed > 100
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
