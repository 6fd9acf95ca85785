"""Files of a cache that do not give back what was stored: their objects are fetched again (C1, D1)."""

import concurrent.futures
import os

import disks
import pytest
from copies import wait_full
from harness import attribute, client, jobs
from harness.coded import flip
from harness.upstreams import counted, is_stored, make_bucket, stand_still, upstream_cluster, wait_stored
from harness.waiting import wait_until
from latency import is_in_memory
from stage import DRIVE_ERRORS

BUCKET = "ht://web"
SIZE = 2_000_000
MIB = 1 << 20
ON_DRIVES = {"mirror": {"enabled": True, "copies": 2}}
ON_NODES = {"mirror": ON_DRIVES["mirror"] | {"domain": "node"}}
needs_disks = pytest.mark.skipif(bool(disks.why_no_fuse() or disks.why_no_loop("ext4")),
                                 reason=f"{disks.why_no_fuse() or disks.why_no_loop('ext4')}")


def stored_file(cluster, target):
    (path,) = attribute.data_files(cluster.drives(target))
    return path


def cut(path):
    os.truncate(path, SIZE // 3)


def in_block(number):
    return lambda path: flip(path, number * (1 << 20) + 5000)


def make(make_cluster, web, rng, copies=None):
    cluster = upstream_cluster(make_cluster, web, targets=1)
    cluster.expect_errors(r" error (drive|target|http|scrub) ")
    assert make_bucket(cluster, BUCKET, web.url, copies).status == 200
    body = rng.randbytes(SIZE)
    web.write("shard", body)
    assert cluster.get(BUCKET, "shard").body == body
    wait_stored(cluster, BUCKET, "shard")
    return cluster, body


@pytest.mark.gate("C1, of a cache")
@pytest.mark.parametrize("damage", [in_block(0), in_block(1), cut], ids=["first block", "second block", "cut"])
def test_a_reader_of_a_bad_file_has_the_object_fetched_again(make_cluster, web, rng, damage):
    cluster, body = make(make_cluster, web, rng)
    cluster.kill("t1")  # which forgets what it has verified
    damage(stored_file(cluster, "t1"))
    cluster.start("t1")

    def is_fetched():
        try:
            answer = cluster.get(BUCKET, "shard")
        except (client.ProtocolError, OSError):  # found after the first byte: never a wrong one
            return False
        assert answer.status == 200 and answer.body == body, answer
        return web.requests("GET", "shard") > 1 and cluster.logs["t1"].matching("bad file evicted")

    wait_until(is_fetched, 30, "it is fetched again")
    wait_until(lambda: cluster.get(BUCKET, "shard").body == body and is_stored(cluster, BUCKET, "shard"), 30, "it is stored again")
    requests = web.requests("GET", "shard")
    for _ in range(3):
        assert cluster.get(BUCKET, "shard").body == body
    assert web.requests("GET", "shard") == requests, "it is served from the drive again"


@pytest.mark.gate("C1, of a cache")
def test_a_scrub_has_bad_files_fetched_again(make_cluster, web, rng):
    cluster, body = make(make_cluster, web, rng)
    flip(stored_file(cluster, "t1"), 1_500_000)
    job = jobs.start(cluster, "scrub")
    jobs.ended(cluster, job)
    cluster.logs["t1"].wait_for("bad file evicted, upstream has it object=ht://web/shard")
    assert not cluster.names(BUCKET, flags="1"), "it is not in the cluster now"
    assert cluster.get(BUCKET, "shard").body == body
    wait_stored(cluster, BUCKET, "shard")


@pytest.mark.gate("C1, of a cache")
def test_when_all_copies_are_bad_the_object_is_fetched_again(make_cluster, web, rng):
    cluster, body = make(make_cluster, web, rng, {"mirror": {"enabled": True, "copies": 2}})
    files = list(attribute.data_files(cluster.drives("t1")))
    assert len(files) == 2
    cluster.kill("t1")
    for path in files:
        flip(path, 1000)
    cluster.start("t1")
    wait_until(lambda: cluster.get(BUCKET, "shard").body == body and cluster.logs["t1"].matching("bad file evicted"), 30,
               "it is fetched again")
    wait_until(lambda: cluster.get(BUCKET, "shard").body == body and is_stored(cluster, BUCKET, "shard"), 30, "it is stored again")
    wait_until(lambda: len(attribute.data_files(cluster.drives("t1"))) == 2, 30, "it has two copies")


@pytest.mark.gate("C1, of a cache")
def test_nothing_wrong_is_served_while_upstream_is_away(make_cluster, web, rng):
    """The answer names upstream, which has to have the object."""
    cluster, body = make(make_cluster, web, rng)
    path = stored_file(cluster, "t1")
    cluster.kill("t1")
    flip(path, 1000)
    web.stop()
    cluster.start("t1")
    wait_until(lambda: cluster.get(BUCKET, "shard").status == 503, 30, "upstream is named")
    assert web.url in cluster.get(BUCKET, "shard").text
    web.start()
    wait_until(lambda: cluster.get(BUCKET, "shard").body == body, 30, "upstream is asked again")


# --- while the target runs ---------------------------------------------------------------------------------------

def make_on_disks(make_stage, web, bodies, targets=1, drives=1, props=None):
    """A cache that has these objects on disks which fail as they are told."""
    stage = upstream_cluster(make_stage, web, targets=targets, drives=drives, faultable=True, fs="ext4")
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    assert make_bucket(cluster, BUCKET, web.url, props).status == 200
    web.fill(bodies)
    assert cluster.bodies(BUCKET, bodies) == bodies
    wait_stored(cluster, BUCKET, *bodies)
    assert cluster.bodies(BUCKET, bodies) == bodies  # from drives: their files are open from here on
    return stage


def files_on(disk):
    """{name: the file that its object has on a drive}"""
    return {said["name"]: path for path, said in attribute.decoded([disk.mountpoint]).items()}


def break_sector(disk, path, at):
    """Reads of this place fail, until the rules of the disk are cleared."""
    # What has just been sent may stay in memory for a moment.
    wait_until(lambda: disk.forget(path) or not is_in_memory(path, at), 10, f"memory has forgotten {path} at {at}", every=0.001)
    place = disk.physical(path, at) // 4096 * 4096
    disk.daemon.rule(f"eio read always from={place} to={place + 4096}")


def flip_bit(disk, path, at):
    disk.flip(path, at, at % 8)


def lose_the_rest(disk, path, at):
    os.truncate(path, at)


def requests(web, names):
    """How often each was asked for. nginx writes that down when it has answered, and before it takes the next request."""
    client.request("GET", f"{web.url}/no-such-file")
    return {name: web.requests("GET", name) for name in names}


def evictions(cluster):
    return {line.partition(f"object={BUCKET}/")[2].split()[0] for line in cluster.logs["t1"].matching("bad file evicted")}


def read_to_end(stream):
    """(what comes, True if the connection was cut before the end)"""
    got = bytearray()
    try:
        for chunk in stream:
            got += chunk
    except (client.ProtocolError, ConnectionResetError):
        return bytes(got), True
    return bytes(got), False


@needs_disks
@pytest.mark.gate("C1, C6, of a cache")
@pytest.mark.parametrize("damage", [break_sector, flip_bit, lose_the_rest])
def test_what_a_drive_cannot_give_back_comes_from_upstream_in_the_same_request(make_stage, web, rng, damage):
    """Whole objects and parts. A reader that has got bytes is cut. What was found bad is fetched once more, and nothing else is."""
    bodies = {"small": rng.randbytes(5000), "crowd": rng.randbytes(3 * MIB), "part": rng.randbytes(3 * MIB),
              "later": rng.randbytes(3 * MIB + 5), "good": rng.randbytes(3 * MIB)}
    places = {"small": 100, "crowd": 5000, "part": 3 * MIB // 2, "later": 3 * MIB}
    stage = make_on_disks(make_stage, web, bodies)
    cluster, (disk,) = stage.cluster, stage.disks["t1"]
    files = files_on(disk)
    for name, at in places.items():
        damage(disk, files[name], at)
    asked = requests(web, bodies)

    answer = cluster.get(BUCKET, "small")
    assert answer.status == 200 and answer.body == bodies["small"] and answer.headers["Ais-Present"] == "false", answer
    first, last = places["part"] - 3000, places["part"] + 3000
    answer = cluster.get(BUCKET, "part", headers={"Range": f"bytes={first}-{last}"})
    assert answer.status == 206 and answer.body == bodies["part"][first:last + 1], answer
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: cluster.get(BUCKET, "crowd"), range(4)))
    assert [each.body == bodies["crowd"] for each in answers] == [True] * 4
    with client.open_stream("GET", cluster.url(BUCKET, "later")) as stream:
        got, is_cut = read_to_end(stream)
    assert stream.status == 200 and is_cut and bodies["later"].startswith(got) and got

    wait_until(lambda: evictions(cluster) == set(places) and counted(cluster, "fills_running") == 0, 30, "each bad file is evicted")
    stored = set(cluster.names(BUCKET, flags="1"))
    assert stored - {"crowd"} == {"good"}, "only a reader of many may have come after the eviction"
    hits = disk.daemon.stats().get("eio.read", 0)
    noted = {name: cluster.metric("t1", f"tarn_drive_{name}") for name in ("read_errors", "corrupt_blocks")}
    print(f"injected: {damage.__name__} in {len(places)} files, {hits} reads failed; detected: {noted}, all were evicted")
    counter = {break_sector: "read_errors", flip_bit: "corrupt_blocks"}.get(damage)
    assert counter is None or noted[counter] >= len(places), noted
    disk.daemon.clear()  # as a drive that has a spare sector
    now = requests(web, bodies)
    assert all(now[name] > asked[name] for name in ("small", "part", "crowd")) and now["later"] == asked["later"], now

    assert cluster.bodies(BUCKET, bodies) == bodies
    wait_stored(cluster, BUCKET, *bodies)
    assert requests(web, bodies) == {name: count + (name not in stored) for name, count in now.items()}
    web.stop()
    for path in files_on(disk).values():
        disk.forget(path)
    assert cluster.bodies(BUCKET, bodies) == bodies


@needs_disks
@pytest.mark.gate("C1, C6, of a cache")
@pytest.mark.parametrize("damage", [break_sector, flip_bit])
def test_a_reader_that_was_cut_has_the_object_when_it_tries_again(make_stage, web, rng, damage):
    """Its first MiB is in memory, and good. The next reader must not be cut at the same place."""
    body = rng.randbytes(3 * MIB)
    stage = make_on_disks(make_stage, web, {"shard": body})
    cluster, (disk,) = stage.cluster, stage.disks["t1"]
    damage(disk, files_on(disk)["shard"], 5 * MIB // 2)
    with client.open_stream("GET", cluster.url(BUCKET, "shard")) as stream:
        got, is_cut = read_to_end(stream)
    assert is_cut and body.startswith(got)
    with client.open_stream("GET", cluster.url(BUCKET, "shard")) as stream:
        got, is_cut = read_to_end(stream)
    assert not is_cut and got == body


@needs_disks
@pytest.mark.gate("C1, C6, of a cache with copies")
@pytest.mark.parametrize("damage", [break_sector, flip_bit])
def test_what_one_copy_cannot_give_comes_from_the_other_in_the_same_answer(make_stage, web, rng, damage):
    """Also in the middle of an answer. Upstream is switched off: it is not needed."""
    bodies = {name: rng.randbytes(3 * MIB + 7) for name in ("first", "later")}
    places = {"first": 5000, "later": 5 * MIB // 2}
    stage = make_on_disks(make_stage, web, bodies, drives=2, props=ON_DRIVES)
    cluster, its_disks = stage.cluster, stage.disks["t1"]
    wait_full(cluster, len(bodies), BUCKET)
    web.stop()
    files = {disk: files_on(disk) for disk in its_disks}

    def bytes_read():
        return {disk: cluster.metric("t1", "tarn_drive_read_bytes_total", drive=str(disk.mountpoint)) for disk in its_disks}

    for name, at in places.items():
        for disk in its_disks:
            disk.forget(files[disk][name])
        before = bytes_read()
        assert cluster.get(BUCKET, name).body == bodies[name]
        (disk,) = [disk for disk, count in bytes_read().items() if count - before[disk] >= len(bodies[name])]
        damage(disk, files[disk][name], at)
        assert cluster.get(BUCKET, name).body == bodies[name]
        cluster.logs["t1"].wait_for(f"copy given up by a reader object={name} drive={disk.mountpoint} ")
        cluster.logs["t1"].wait_for(f"bad copy made anew object={name} drive={disk.mountpoint}$")
        disk.daemon.clear()
    assert not evictions(cluster)
    wait_full(cluster, len(bodies), BUCKET)
    for disk in its_disks:
        for name, path in files_on(disk).items():
            disk.forget(path)
            assert path.read_bytes() == bodies[name], "each copy is as good as the other"


@needs_disks
@pytest.mark.gate("C1, C6, of a cache with copies")
def test_what_one_node_cannot_give_comes_from_the_other_in_the_same_request(make_stage, web, rng):
    bodies = {"sector": rng.randbytes(3 * MIB + 7), "bit": rng.randbytes(3 * MIB + 8)}
    stage = make_on_disks(make_stage, web, bodies, targets=2, props=ON_NODES)
    cluster = stage.cluster
    wait_full(cluster, len(bodies), BUCKET)
    web.stop()
    for name, damage in (("sector", break_sector), ("bit", flip_bit)):
        target = rng.choice(cluster.targets())
        (disk,) = stage.disks[target]
        damage(disk, files_on(disk)[name], 5000)
        assert client.request("GET", cluster.url(BUCKET, name, cluster.url_of(target))).body == bodies[name]
        cluster.logs[target].wait_for(f"bad copy made anew object={name}$")
        disk.daemon.clear()
        path = files_on(disk)[name]
        disk.forget(path)
        assert path.read_bytes() == bodies[name]
    wait_full(cluster, len(bodies), BUCKET)


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
@pytest.mark.gate("C2, of a cache")
@pytest.mark.parametrize("has_bytes", [False, True], ids=["reader without bytes", "reader with bytes"])
def test_what_a_drive_does_not_take_is_read_all_the_same_and_stored_on_another(make_stage, flawed, rng, has_bytes):
    """A reader has it from upstream, or is cut after some bytes. The next read stores it."""
    stage = upstream_cluster(make_stage, flawed, targets=1, drives=2, faulty=True)
    cluster, both, bucket = stage.cluster, stage.disks["t1"], "s3://data"
    cluster.expect_errors(DRIVE_ERRORS)
    assert make_bucket(cluster, bucket, flawed.url).status == 200
    body = flawed.objects["x.tar"] = rng.randbytes(4 * MIB)
    flawed.flaws["x.tar"] = stand_still(flawed.goes_on)

    def fail_writes():
        for disk in both:
            disk.rule("eio write data/ always")

    if not has_bytes:
        fail_writes()
        flawed.goes_on.set()
    with client.open_stream("GET", cluster.url(bucket, "x.tar")) as reader:
        got = reader.read_at_least(1)
        if has_bytes:
            fail_writes()
            flawed.goes_on.set()
        rest, is_cut = read_to_end(reader)
    assert reader.status == 200 and is_cut == has_bytes and got
    assert body.startswith(got + rest) if is_cut else body == got + rest
    wait_until(lambda: counted(cluster, "fills_running") == 0, 30, "the fill has ended")
    hits = [disk.stats().get("eio.write", 0) for disk in both]
    suspect = [cluster.metric("t1", "tarn_drive_suspect", drive=str(disk.mountpoint)) for disk in both]
    print(f"injected: {hits} writes failed; detected: suspect {suspect}, the reader got {len(got + rest)} bytes")
    assert min(hits) == 0 < max(hits) and suspect == [hit > 0 for hit in hits] and not is_stored(cluster, bucket, "x.tar")

    for disk in both:
        disk.clear()
    assert cluster.get(bucket, "x.tar").body == body
    wait_stored(cluster, bucket, "x.tar")
    assert ["x.tar" in files_on(disk) for disk in both] == [not each for each in suspect]
    asked = len(flawed.seen)
    assert cluster.get(bucket, "x.tar").body == body and len(flawed.seen) == asked
