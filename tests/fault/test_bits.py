"""Bits that turn on the drive (docs/reliability.md C6, C7): a wrong byte is never served, an index never silently older."""

import re
import threading

import disks
import pytest
from copies import ON_NODES
from disks import seeded
from harness import attribute
from harness import client as http
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until
from history import value_bytes

FLIPS_IN_DATA = 500
FLIPS_IN_INDEX = 100
MIB = 1024 * 1024
CORRUPT = "does not match its checksum|attribute damaged|instead of"


def read_strictly(url, headers=None):
    """(status, body) of a GET; a body that was cut off is None."""
    try:
        with http.open_stream("GET", url, headers=headers) as stream:
            try:
                return stream.status, stream.response().body
            except (http.ProtocolError, ConnectionResetError):
                return stream.status, None
    except (http.ProtocolError, ConnectionResetError):
        return 0, None


def direct_url(cluster, bucket, name):
    answer = cluster.get(bucket, name, follow=False)
    assert answer.status == 302, answer
    return answer.headers["Location"]


@pytest.mark.gate("C6")
def test_flipped_bits_are_never_served(make_stage, fs, seed):
    """C6: every 4 KiB block of a 2 MiB object once (with both file systems: 500 flips), small objects, ranges."""
    rng = seeded(seed, "C6", fs)
    stage = make_stage(targets=1, drives=1, fs=fs)
    cluster, disk = stage.cluster, stage.disks["t1"][0]
    cluster.expect_errors(CORRUPT)
    # name -> (body, where a bit turns). 512 blocks, of which each file system gets one half.
    size = 2 * MIB
    blocks = range(0 if fs == "ext4" else 1, size // 4096, 2)
    objects = {
        "large": (value_bytes(0x7A52000000000001, size), [block * 4096 + rng.randrange(4096) for block in blocks]),
        "odd": (value_bytes(0x7A52000000000002, MIB + 4321), [0, MIB - 1, MIB, MIB + 4320]),
        "small": (value_bytes(0x7A52000000000003, 100), [0, 99]),
    }
    found_in_first = found_later = ranges = 0
    corrupt_before = cluster.metric("t1", "tarn_drive_corrupt_blocks")
    for name, (body, places) in objects.items():
        known = {path for path, _ in stage.data_files("t1")}
        assert cluster.put("data", name, body).status == 200
        (path,) = {path for path, _ in stage.data_files("t1")} - known
        url = direct_url(cluster, "data", name)
        for number, place in enumerate(places):
            bit = rng.randrange(8)
            disk.flip(path, place, bit)
            headers, wanted = {}, body
            if number % 3 == 2:  # a range that the bit is in, however small
                first = max(0, place - rng.randrange(2000))
                last = min(len(body) - 1, place + rng.randrange(2000))
                headers, wanted = {"Range": f"bytes={first}-{last}"}, body[first : last + 1]
                ranges += 1
            status, got = read_strictly(url, headers)
            where = f"{name} at {place} bit {bit} {headers}: {status}"
            assert got != wanted, f"the flip did not reach the reader: {where}"
            first_block = place // MIB == (first // MIB if headers else 0)
            # A block that a reader before could not have is tried before the answer begins.
            if first_block or status == 500:
                assert status == 500 and name.encode() in got and b"checksum" in got, (where, got)
                found_in_first += 1
            else:
                assert status in (0, 200, 206) and got is None, where  # cut off: never a wrong byte, never a whole body
                found_later += 1
            disk.flip(path, place, bit)
        assert read_strictly(url) == (200, body), name
    flips = found_in_first + found_later
    counted = cluster.metric("t1", "tarn_drive_corrupt_blocks") - corrupt_before
    print(f"injected: {flips} flips ({ranges} read by range); detected: {found_in_first} answered with an error that "
          f"names the object, {found_later} connections cut, {counted:.0f} counted")
    assert flips >= FLIPS_IN_DATA // 2 and counted == flips and found_later > 0


def test_a_flip_in_an_adopted_file_is_found_by_its_first_reader(make_stage, seed):
    """C6 without block checksums: the last block is held back until the object's checksum agrees. So a reader gets an
    error or a cut connection, never a whole body."""
    rng = seeded(seed, "C6 adopted")
    stage = make_stage(targets=1, drives=1, fs="ext4")
    cluster, disk = stage.cluster, stage.disks["t1"][0]
    cluster.expect_errors(CORRUPT)
    bodies = {f"n-{i}": value_bytes(0x7A52000000000010 + i, rng.choice((100, 5000, MIB + 77, 3 * MIB))) for i in range(12)}
    paths = {}
    for name, body in bodies.items():
        known = {path for path, _ in stage.data_files("t1")}
        assert cluster.put("data", name, body).status == 200
        (paths[name],) = {path for path, _ in stage.data_files("t1")} - known
    stage.kill("t1")
    disks.run("rm", "-r", cluster.drives("t1")[0] / ".tarn" / "index")
    flipped = sorted(rng.sample(sorted(bodies), 6))
    for name in flipped:
        disk.flip(paths[name], rng.randrange(len(bodies[name])), rng.randrange(8))
    stage.start("t1")
    assert stage.recovered("t1", "adopted") == len(bodies)
    refused = 0
    for name, body in bodies.items():
        status, got = read_strictly(direct_url(cluster, "data", name))
        if name in flipped:
            if len(body) <= MIB:
                assert status == 500 and name.encode() in got, (name, status)
            else:
                assert got is None, (name, status)
            part, _ = read_strictly(direct_url(cluster, "data", name), {"Range": "bytes=0-0"})
            assert part == 500, name  # a part waits until the whole has been verified
            refused += 1
        else:
            assert (status, got) == (200, body), name
    print(f"injected: {len(flipped)} flips in adopted files; detected: {refused}")


@pytest.mark.gate("C7")
def test_flips_in_the_index_lose_nothing_and_bring_nothing_back(make_stage, seed):
    """C7: one bit in an SST, the WAL, the MANIFEST or CURRENT of every drive, then a start; again and again."""
    rng = seeded(seed, "C7")
    stage = make_stage(targets=4, drives=2)
    cluster = stage.cluster
    cluster.expect_errors("index|drive|recovery")
    judge = stage.client("judge")
    names = [f"n-{i}" for i in range(64)]
    kinds = {"sst": r"\d+\.sst", "log": r"\d+\.log", "manifest": r"MANIFEST-\d+", "current": "CURRENT"}
    done = dict.fromkeys(kinds, 0)
    left = {kind: FLIPS_IN_INDEX // 4 for kind in kinds}
    while any(left.values()):
        # Something new each time: in the WAL, over older tables; overwritten and deleted names among it.
        for name in rng.sample(names, 24):
            if rng.random() < 0.3:
                judge.delete("data", name)
            else:
                judge.put("data", name, rng.choice((100, 5000, 40_000)))
        stage.kill(*stage.targets())
        for target in stage.targets():
            for drive in cluster.drives(target):
                files = [path for path in (drive / ".tarn" / "index").iterdir() if path.stat().st_size]
                choices = [(kind, path) for kind, pattern in kinds.items() if left[kind] for path in files
                           if re.fullmatch(pattern, path.name)]
                if not choices:
                    continue
                kind, path = rng.choice(choices)
                data = bytearray(path.read_bytes())
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                path.write_bytes(data)
                left[kind] -= 1
                done[kind] += 1
        stage.start(*stage.targets())
        stage.look(judge, names)
    set_aside = sum(len(cluster.logs[target].matching("index (damaged|unreadable|has bad blocks)")) for target in stage.targets())
    adopted = sum(stage.recovered(target, "adopted") for target in stage.targets())
    print(f"injected: flips {done}; detected: {set_aside} damaged indexes, {adopted} files adopted")
    assert sum(done.values()) == FLIPS_IN_INDEX // 4 * 4 and set_aside > 0 and adopted > 0
    stage.check(judge, names)


@pytest.mark.gate("C6")
def test_a_bad_copy_on_a_node_is_read_elsewhere_and_made_anew(make_stage, seed):
    """C6 where another target has a copy: readers get the right bytes from there. The bad file is soon replaced, once, however
    many readers found it."""
    rng = seeded(seed, "C6 on nodes")
    stage = make_stage(targets=3, drives=1, fs="ext4")
    cluster = stage.cluster
    cluster.expect_errors(CORRUPT)
    cluster.create_bucket("two", ON_NODES)
    wait_until_in_place(cluster)
    bodies = {name: value_bytes(0x7A52000000000040 + i, size) for i, (name, size) in
              enumerate({"small": 100, "large": 3 * MIB + 777, "later": 3 * MIB + 4}.items())}
    flips = {"small": 5, "large": rng.randrange(MIB), "later": rng.randrange(MIB, 3 * MIB)}
    cluster.fill("two", bodies)

    def files(name):
        """{target: the file that has the object}"""
        return {target: path for target in cluster.targets() for path, raw in attribute.data_files(cluster.drives(target)).items()
                if attribute.decode(raw)["name"] == name}

    for name, body in bodies.items():
        target = rng.choice(sorted(files(name)))
        before = files(name)[target]
        bit = rng.randrange(8)
        stage.disks[target][0].flip(before, flips[name], bit)
        direct, got = cluster.url("two", name, cluster.url_of(target)), []
        readers = [threading.Thread(target=lambda: got.append(read_strictly(direct))) for _ in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        if name == "later":  # cut: the answer had begun. A relay goes on elsewhere instead
            assert all(body_got in (None, body) for _, body_got in got)
        else:
            assert got == [(200, body)] * 4
        assert http.request("GET", cluster.url("two", name, cluster.relay)).body == body
        wait_until(lambda: name and files(name).get(target) not in (None, before), 10, f"{name} is made anew on {target}")
        wait_until(lambda: not before.exists(), 5, "the bad file is gone")
        after = files(name)
        assert len(after) == 2 and after[target].read_bytes() == body
        assert len({str(attribute.decode(attribute.data_files(cluster.drives(each))[path]) | {"place": 0})
                    for each, path in after.items()}) == 1, "the same version on both"
        cluster.logs[target].wait_for(f"bad copy made anew object={name}")
        (other,) = after.keys() - {target}
        stage.kill(other)
        assert read_strictly(direct) == (200, body), "the copy made anew does for itself"
        stage.start(other)
        wait_until_in_place(cluster)
    made = sum(len(log.matching("bad copy made anew")) for log in cluster.logs.values())
    assert made == len(flips), "a file was made anew twice"
    print(f"injected: {len(flips)} flips, each found by readers; detected: each file made anew once")
