"""Cold reads: many readers of one drive take turns, and every byte is verified on its way from the drive. Data that
does not fit in memory is dropped after its reader."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import random
import subprocess

import pytest
from harness import attribute, client
from harness.waiting import wait_until

MIB = 1 << 20


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")


def cached_bytes(paths):
    """How much of the files is in the page cache."""
    table = subprocess.run(["fincore", "--noheadings", "--bytes", "--output", "RES", *map(str, paths)],
                           capture_output=True, text=True, check=True).stdout
    return sum(int(line) for line in table.split())


def stored(cluster, count, size, seed=1):
    """name -> digest of `count` objects of different bytes."""
    digests = {}
    for number in range(count):
        body = random.Random(seed * 1000 + number).randbytes(size)
        assert cluster.put("data", f"shard-{number:03}", body).status == 200
        digests[f"shard-{number:03}"] = hashlib.sha256(body).hexdigest()
    return digests


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="dropping the page cache needs root")


@needs_root
@pytest.mark.parametrize("kind", ["rotational", "solid"])
def test_many_cold_readers_of_one_drive(make_cluster, kind):
    cluster = make_cluster(targets=1, drives=1, settings={"drive.kind": kind})
    digests = stored(cluster, 12, 20 * MIB + 4321)
    drop_caches()
    assert cached_bytes(attribute.paths(cluster.drives("t1"))) < 12 * MIB  # the drive is really read
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        bodies = pool.map(lambda name: (name, cluster.get("data", name).body), digests)
        assert {name: hashlib.sha256(body).hexdigest() for name, body in bodies} == digests
    if kind == "rotational":
        assert cluster.metric("t1", "tarn_drive_sequential_ratio") > 0.5
    # All readers have given the turn back.
    wait_until(lambda: cluster.metric("t1", "tarn_drive_streams") == 0, 10, "no reader holds a turn")
    assert cluster.metric("t1", "tarn_drive_waiting_turns") == 0


@needs_root
def test_one_reader_moves_the_head_hardly_ever(make_cluster):
    cluster = make_cluster(targets=1, drives=1, settings={"drive.kind": "rotational"})
    digests = stored(cluster, 3, 64 * MIB)
    drop_caches()
    for name, digest in digests.items():
        assert hashlib.sha256(cluster.get("data", name).body).hexdigest() == digest
    assert cluster.metric("t1", "tarn_drive_sequential_ratio") > 0.9
    assert cluster.metric("t1", "tarn_drive_seeks") <= 6


@needs_root
def test_ranges_of_cold_objects(make_cluster):
    cluster = make_cluster(targets=1, drives=1)
    body = random.Random(7).randbytes(30 * MIB + 17)
    assert cluster.put("data", "x", body).status == 200
    for first, last in [(0, 0), (MIB - 1, MIB), (5 * MIB + 3, 29 * MIB), (30 * MIB + 16, 30 * MIB + 16)]:
        drop_caches()
        answer = cluster.get("data", "x", headers={"Range": f"bytes={first}-{last}"})
        assert (answer.status, answer.body == body[first:last + 1]) == (206, True), (first, last)


@needs_root
def test_small_data_stays_in_memory(make_cluster):
    cluster = make_cluster(targets=1, drives=1)
    digests = stored(cluster, 4, 8 * MIB)
    drop_caches()

    def read_all_and_look():
        for name in digests:
            assert cluster.get("data", name).status == 200
        return cached_bytes(attribute.paths(cluster.drives("t1"))) >= 0.99 * 4 * 8 * MIB

    # Once more when another test has dropped the caches of the machine meanwhile; but for what the machine wanted back.
    wait_until(read_all_and_look, 10, "it stays in memory")


def open_data_files(cluster, node="t1"):
    """Data files that the node has open: {path}; " (deleted)" ends those that are unlinked."""
    held = set()
    for entry in os.listdir(f"/proc/{cluster.pid(node)}/fd"):
        with contextlib.suppress(OSError):
            path = os.readlink(f"/proc/{cluster.pid(node)}/fd/{entry}")
            if "/data/" in path:
                held.add(path)
    return held


def test_what_stays_open_for_readers_is_never_out_of_date(make_cluster):
    """An object stays open when it was read; every change of its name shows at once, and no replaced file takes room."""
    cluster = make_cluster(targets=1, drives=2)
    url = cluster.url("data", "x")
    for turn in range(20):
        for body in (b"small %d" % turn, random.Random(turn).randbytes(100_000)):
            assert cluster.put("data", "x", body).status == 200
            for _ in range(2):  # opened by the first, found open by the second
                assert cluster.get("data", "x").body == body
            assert cluster.get("data", "x", headers={"Range": "bytes=2-5"}).body == body[2:6]
        action = json.dumps({"action": "", "name": "", "value": {"turn": str(turn)}}).encode()
        assert client.request("PATCH", url, action, {"Content-Type": "application/json"}).status == 200
        assert cluster.get("data", "x").headers["Ais-Custom-Md"] == f"turn={turn}"
        assert any("/data/" in path for path in open_data_files(cluster)), "nothing stays open, so nothing is shown here"
        if turn % 2:
            rename = json.dumps({"action": "rename-obj", "name": "y"}).encode()
            assert client.request("POST", url, rename, {"Content-Type": "application/json"}).status == 200
            assert cluster.get("data", "y").body == body
            cluster.delete("data", "y")
            assert cluster.get("data", "y").status == 404
        else:
            cluster.delete("data", "x")
        assert cluster.get("data", "x").status == 404
    assert cluster.put("data", "x", b"last").status == 200
    assert cluster.get("data", "x").body == b"last"
    wait_until(lambda: not [path for path in open_data_files(cluster) if path.endswith("(deleted)")], 10,
               "no unlinked file is open")


def test_small_answers_to_a_client_that_does_not_read(make_cluster):
    """A body that is sent with its head is cut anywhere when the client's buffers are full. Nothing is lost or doubled."""
    cluster = make_cluster(targets=1, drives=1)
    body = random.Random(3).randbytes(16 << 10)
    assert cluster.put("data", "x", body).status == 200
    url = cluster.get("data", "x", follow=False).headers["Location"]
    firsts = [random.Random(i).randrange(6000) for i in range(600)]
    with client.RawConnection(url) as connection:
        requests = [f"GET {client.target_of(url)} HTTP/1.1\r\nHost: x\r\nRange: bytes={first}-\r\n\r\n" for first in firsts]
        connection.send("".join(requests).encode())
        assert cluster.get("data", "x").body == body  # others are served meanwhile
        for first in firsts:
            answer = connection.read_response()
            assert (answer.status, answer.body == body[first:]) == (206, True), first
