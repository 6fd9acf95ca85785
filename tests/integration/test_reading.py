"""Cold reads: many readers of one drive take turns, every byte is compared on its way from the drive, what does not fit
in memory is dropped behind its reader."""

import concurrent.futures
import hashlib
import os
import random
import subprocess

import pytest
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


def data_files(cluster, target="t1"):
    return [path for drive in cluster.drives(target) for path in (drive / "data").rglob("*") if path.is_file()]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="dropping the page cache needs root")


@needs_root
@pytest.mark.parametrize("kind", ["rotational", "solid"])
def test_many_cold_readers_of_one_drive(make_cluster, kind):
    cluster = make_cluster(targets=1, drives=1, settings={"drive.kind": kind})
    digests = stored(cluster, 12, 20 * MIB + 4321)
    drop_caches()
    assert cached_bytes(data_files(cluster)) < 12 * MIB  # the drive is really read
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        bodies = pool.map(lambda name: (name, cluster.get("data", name).body), digests)
        assert {name: hashlib.sha256(body).hexdigest() for name, body in bodies} == digests
    if kind == "rotational":
        assert cluster.metric("t1", "tarn_drive_sequential_ratio") > 0.5
    # Everybody has given the turn back.
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
    for name in digests:
        cluster.get("data", name)
    assert cached_bytes(data_files(cluster)) == 4 * 8 * MIB
