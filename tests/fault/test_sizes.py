"""Objects of every awkward size, and parts of them (docs/reliability.md K3)."""

import os
import subprocess

import pytest
from harness import client as http
from harness.waiting import scaled
from latency import machine_is_busy, measures_time

KIB, MIB = 1 << 10, 1 << 20
# Around what is received at once, what a checksum covers, what is sent at once, and a window of a drive.
EDGES = [64 * KIB, 256 * KIB, MIB, 2 * MIB, 8 * MIB]
SIZES = [0, 1, 2, 15, 16, 4095, 4096, 4097, *(edge + by for edge in EDGES for by in (-1, 0, 1))]


@pytest.mark.parametrize("listener", ["endpoint", "relay"])
@pytest.mark.gate("K3")
def test_objects_of_awkward_sizes_come_back_whole_and_in_parts(make_stage, rng, listener):
    stage = make_stage(targets=1, drives=1)
    cluster = stage.cluster
    base = getattr(cluster, listener)
    source = rng.randbytes(max(SIZES))
    for size in SIZES:
        name, body = f"n-{size}", source[:size]
        url = cluster.url("data", name, base)
        # Every other one as a stream of unknown length.
        stored = http.request("PUT", url, body if size % 2 == 0 or listener == "endpoint" else iter([body[: size // 3], body[size // 3:]]))
        assert stored.status == 200, (size, stored)
        answer = http.request("GET", url)
        assert answer.status == 200 and answer.body == body and answer.headers["ETag"] == stored.headers["ETag"], size
        head = http.request("HEAD", url)
        assert head.status == 200 and int(head.headers["Content-Length"]) == size
        places = {0, 1, size // 2, size - 2, size - 1, *(edge + by for edge in EDGES for by in (-1, 0))}
        for first in sorted(place for place in places if 0 <= place < size):
            last = min(size - 1, first + rng.randrange(3 * MIB))
            got = http.request("GET", url, headers={"Range": f"bytes={first}-{last}"})
            assert got.status == 206 and got.body == body[first : last + 1], (size, first, last)
            assert got.headers["Content-Range"] == f"bytes {first}-{last}/{size}"
        beyond = http.request("GET", url, headers={"Range": f"bytes={size}-"})
        assert beyond.status == 416 and beyond.headers["Content-Range"] == f"bytes */{size}", size
    assert sorted(cluster.names("data")) == sorted(f"n-{size}" for size in SIZES)
    print(f"injected: {len(SIZES)} sizes through {listener}; detected: all whole, and all of their parts")


@measures_time
def test_an_object_beyond_four_gigabytes_has_no_wrong_byte(make_stage, tmp_path, rng):
    """Offsets of 2^31 and 2^32 and the last byte of 4 GiB and a bit: written in one stream, read in parts. Where others use
    the machine it would take a minute; then 2 GiB and a bit must do."""
    edges = [2**31] if machine_is_busy() else [2**31, 2**32]
    size = edges[-1] + 3 * MIB + 1
    stage = make_stage(targets=1, drives=1, settings={"drive.kind": "solid"})
    cluster = stage.cluster
    bucket = cluster.create_bucket("huge", {"durability": "nosync"})
    # Zeros that take no room, with words that tell where they stand.
    marks = {place: rng.randbytes(16) for place in (0, size - 16, *(edge + by for edge in edges for by in (-8, 4096, MIB - 8)))}
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.truncate(size)
        for place, mark in marks.items():
            file.seek(place)
            file.write(mark)
    done = subprocess.run(["curl", "-fsSL", "-T", str(path), "-w", "%{speed_upload}", f"{cluster.endpoint}/{bucket}/huge"],
                          capture_output=True, text=True, timeout=scaled(170))
    assert done.returncode == 0, done.stderr
    url = cluster.url(bucket, "huge")
    assert int(http.request("HEAD", url).headers["Content-Length"]) == size
    (entry,) = cluster.list(bucket)
    assert int(entry["size"]) == size
    location = http.request("GET", url, follow=False).headers["Location"]
    parts = 0
    with open(path, "rb") as file:
        for place in (*marks, *(edge + by for edge in edges for by in (-MIB, -1, 0, 1))):
            for length in (1, 16, 2 * MIB):
                last = min(size, place + length) - 1
                answer = http.request("GET", location, headers={"Range": f"bytes={place}-{last}"})
                assert answer.status == 206 and answer.headers["Content-Range"] == f"bytes {place}-{last}/{size}"
                assert answer.body == os.pread(file.fileno(), last + 1 - place, place), (place, length)
                parts += 1
        answer = http.request("GET", location, headers={"Range": "bytes=-16"})
        assert answer.status == 206 and answer.body == marks[size - 16]
    refused = http.request("GET", location, headers={"Range": f"bytes={size}-"})
    assert refused.status == 416 and refused.headers["Content-Range"] == f"bytes */{size}"
    print(f"injected: {size} bytes in one PUT at {float(done.stdout) / 1e6:.0f} MB/s; detected: {parts} parts right")
