"""Back-pressure: many large transfers at once, and slow ones, cost a node bounded memory."""

import os
import subprocess

import pytest
from harness import client
from harness.waiting import scaled

MIB = 1 << 20
GIB = 1 << 30
MOST_RESIDENT = 256 * MIB

pytestmark = pytest.mark.skipif(
    os.environ.get("TARN_TEST_PRESET") in ("asan", "tsan"), reason="sanitizers need memory of their own")


def curl(*words):
    return subprocess.Popen(["curl", "-fsS", "-o", "/dev/null", *map(str, words)], stderr=subprocess.PIPE)


def wait_for_all(processes):
    for process in processes:
        _, error = process.communicate(timeout=scaled(180))
        assert process.returncode == 0, error


@pytest.mark.parametrize("listener, size", [pytest.param("endpoint", GIB, marks=pytest.mark.deep("half a minute")), ("relay", GIB // 4)])
def test_16_large_transfers_at_once_stay_below_256_mib(make_cluster, tmp_path, listener, size):
    # Without a byte on disk: what is measured is the programs, not the reading of the file.
    large_file = tmp_path / "large.bin"
    with open(large_file, "wb") as file:
        file.truncate(size)
    cluster = make_cluster(targets=1, drives=2)
    base = getattr(cluster, listener)
    wait_for_all([curl("-L", "-T", large_file, f"{base}/data/stored")])
    wait_for_all([curl("-L", f"{base}/data/stored") for _ in range(8)] +
                 [curl("-L", "-T", large_file, f"{base}/data/new-{i}") for i in range(8)])
    peaks = {node: cluster.memory_peak(node) for node in cluster.nodes}
    print({node: f"{peak / MIB:.0f} MiB" for node, peak in peaks.items()})
    assert all(peak < MOST_RESIDENT for peak in peaks.values()), peaks
    assert [int(entry["size"]) for entry in cluster.list("data")] == [size] * 9


@pytest.mark.parametrize("listener", ["endpoint", "relay"])
def test_readers_that_do_not_read_cost_little(make_cluster, listener):
    """64 clients ask for 64 MiB each and then only wait: none of it may pile up in a node."""
    cluster = make_cluster(targets=1, drives=1)
    body = bytes(64 * MIB)
    assert cluster.put("data", "x", body).status == 200
    url = f"{getattr(cluster, listener)}/data/x"
    before = {node: cluster.memory_peak(node) for node in cluster.nodes}
    streams = [client.open_stream("GET", url) for _ in range(64)]
    try:
        assert all(stream.status == 200 for stream in streams)
        # A node that is still alive and quick with all of them waiting.
        assert cluster.get("data", "x", headers={"Range": "bytes=0-9"}).body == body[:10]
        for node in cluster.nodes:
            grown = cluster.memory_peak(node) - before[node]
            assert grown < 128 * MIB, f"{node} grew by {grown / MIB:.0f} MiB"
    finally:
        for stream in streams:
            stream.connection.reset()
