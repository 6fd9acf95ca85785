"""Buckets with an upstream whose objects have copies or slices: what a node or a drive loses is read without upstream."""

import os
import shutil

import disks
import pytest
from copies import wait_full
from harness import attribute, client
from harness.coded import props
from harness.nodes import stored_map
from harness.upstreams import S3Server, evict, is_stored, make_bucket, upstream_cluster, wait_stored
from harness.waiting import wait_until
from test_drives import DOWN
from test_eviction_faults import LIMITS, next_second, used
from test_upstream_faults import read_at_last

MIB = 1 << 20
BUCKET = "ht://web"
ON_NODES = {"mirror": {"enabled": True, "copies": 2, "domain": "node"}}
ON_DRIVES = {"mirror": {"enabled": True, "copies": 2}}


def filled(server, rng, count, size, prefix="shard"):
    return server.fill({f"{prefix}-{i:03}": rng.randbytes(size) for i in range(count)})


def copies(cluster, only=()):
    """{name: files of its object on the drives of `only`, or of all targets}"""
    found = {}
    for target in only or cluster.targets():
        for said in attribute.decoded(cluster.drives(target)).values():
            found[said["name"]] = found.get(said["name"], 0) + 1
    return found


def wait_copies(cluster, bodies, count=2):
    wait_until(lambda: copies(cluster) == dict.fromkeys(bodies, count), 60, f"each object has {count} copies")


def read_through(cluster, bodies):
    assert cluster.bodies(BUCKET, bodies) == bodies
    wait_stored(cluster, BUCKET, *bodies)
    wait_copies(cluster, bodies)


@pytest.mark.gate("A1, of a cache with copies")
def test_the_other_copy_serves_while_a_node_is_dead(make_cluster, web, rng):
    bodies = filled(web, rng, 24, MIB // 2)
    cluster = upstream_cluster(make_cluster, web)
    assert make_bucket(cluster, BUCKET, web.url, ON_NODES).status == 200
    read_through(cluster, bodies)
    assert {web.requests("GET", name) for name in bodies} == {1}, "each object was fetched once, and not for each copy"
    wait_full(cluster, len(bodies), BUCKET)
    cold = filled(web, rng, 6, 1000, "cold")
    dead = rng.choice(cluster.targets())
    assert copies(cluster, [dead]), "it has some"
    cluster.kill(dead)
    for name, body in cold.items():
        assert read_at_last(cluster, BUCKET, name) == body
    web.stop()
    for name, body in bodies.items():
        assert read_at_last(cluster, BUCKET, name) == body
    cluster.start(dead)
    for name, body in bodies.items():
        assert read_at_last(cluster, BUCKET, name) == body
    wait_until(lambda: (said := cluster.redundancy(BUCKET))["full"] >= len(bodies) and said["reduced"] == said["lost"] == 0, 60,
               "all copies are there")


@pytest.mark.gate("D1, of a cache with copies")
@pytest.mark.parametrize("kept", [ON_NODES, ON_DRIVES], ids=["on nodes", "on drives"])
def test_what_a_drive_loses_is_made_again_without_upstream(make_cluster, web, rng, kept):
    bodies = filled(web, rng, 24, MIB // 2)
    on_nodes = kept is ON_NODES
    cluster = upstream_cluster(make_cluster, web, targets=3 if on_nodes else 1, drives=2)
    assert make_bucket(cluster, BUCKET, web.url, kept).status == 200
    read_through(cluster, bodies)
    web.stop()
    victim = rng.choice(cluster.targets())
    drive = rng.choice(cluster.drives(victim))
    lost = sum(str(path).startswith(f"{drive}/") for path in attribute.data_files(cluster.drives(victim)))
    assert lost > 0
    cluster.kill(victim)
    shutil.rmtree(drive)
    drive.mkdir()
    cluster.add_arguments(victim, "--replace-drive", str(drive))
    cluster.start(victim)
    for name, body in bodies.items():
        assert read_at_last(cluster, BUCKET, name) == body
    wait_copies(cluster, bodies)
    wait_full(cluster, len(bodies), BUCKET)
    print(f"injected: {victim} lost {lost} of {2 * len(bodies)} copies with {drive}")


@pytest.mark.gate("C1, of a cache with copies")
def test_a_copy_that_decays_is_not_served(make_cluster, web, rng):
    bodies = filled(web, rng, 6, 300 << 10)
    cluster = upstream_cluster(make_cluster, web, targets=2, drives=1)
    cluster.expect_errors(r" error (drive|target|http|scrub) ")
    assert make_bucket(cluster, BUCKET, web.url, ON_NODES).status == 200
    read_through(cluster, bodies)
    web.stop()
    name = rng.choice(sorted(bodies))
    owner = cluster.owner(BUCKET, name)
    (path,) = [path for path, said in attribute.decoded(cluster.drives(owner)).items() if said["name"] == name]
    cluster.kill(owner)  # which forgets what it has verified
    with open(path, "r+b") as file:
        file.seek(100_000)
        file.write(b"decayed")
    cluster.start(owner)
    wait_until(lambda: cluster.get(BUCKET, name).body == bodies[name], 30, "it is read from the other copy")
    wait_until(lambda: cluster.logs[owner].matching("repaired|mended|made again"), 30, "the bad copy is made again")


@pytest.mark.gate("H, of a cache with copies")
def test_all_copies_go_together(make_cluster, tmp_path, rng):
    """Copies come when they are wanted. They go with an eviction, a delete, or another version upstream."""
    with S3Server(tmp_path / "s3") as s3:
        s3.client.create_bucket(Bucket="data")
        bodies = s3.fill("data", {f"o-{i}": rng.randbytes(100_000 + i) for i in range(8)})
        cluster, bucket = upstream_cluster(make_cluster, s3), "s3://data"
        assert make_bucket(cluster, bucket, s3.url).status == 200
        assert cluster.bodies(bucket, bodies) == bodies
        wait_copies(cluster, bodies, 1)
        assert cluster.bucket_action("PATCH", bucket, "set-bprops", ON_NODES).status == 200
        wait_copies(cluster, bodies)
        evict(cluster, bucket, "o-0")
        assert not is_stored(cluster, bucket, "o-0") and "o-0" not in copies(cluster)
        assert cluster.get(bucket, "o-0").body == bodies["o-0"]

        written = rng.randbytes(200_000)
        assert cluster.put(bucket, "o-1", written).status == 200
        assert s3.client.get_object(Bucket="data", Key="o-1")["Body"].read() == written
        bodies["o-1"] = written
        wait_copies(cluster, bodies)
        for _ in range(8):  # whichever replica is asked
            assert cluster.get(bucket, "o-1").body == written

        bodies["o-2"] = rng.randbytes(50_000)
        s3.client.put_object(Bucket="data", Key="o-2", Body=bodies["o-2"])
        for _ in range(8):
            answer = client.request("GET", cluster.url(bucket, "o-2") + "&latest-ver=true")
            assert answer.body == bodies["o-2"]
        wait_copies(cluster, bodies)

        assert cluster.delete(bucket, "o-3").status == 200
        assert "o-3" not in copies(cluster) and cluster.get(bucket, "o-3").status == 404
        del bodies["o-3"]
        assert cluster.names(bucket) == sorted(bodies)
        assert cluster.bucket_action("PATCH", bucket, "set-bprops", {"mirror": {"enabled": False}}).status == 200
        wait_copies(cluster, bodies, 1)
        assert cluster.bodies(bucket, bodies) == bodies


C4 = pytest.mark.gate("C4, of a cache with copies")


# Deep: how long a slice waits for room is bounded, and a slow machine evicts slowly.
@pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")
@pytest.mark.parametrize("targets, drives, kept, out_of_space", [
    pytest.param(2, 1, ON_NODES, 95, id="on nodes", marks=C4),
    pytest.param(1, 2, ON_DRIVES, 95, id="on drives", marks=C4),
    pytest.param(4, 1, props("striped"), 95, id="slices", marks=C4),
    pytest.param(4, 1, props("striped"), 82, id="slices that wait for room")])
def test_drives_with_copies_are_kept_below_their_watermark(make_stage, web, rng, targets, drives, kept, out_of_space):
    """Each target evicts what it owns, with all copies or slices; of copies, what was read last stays."""
    stage = upstream_cluster(make_stage, web, targets=targets, drives=drives, fs="ext4", size=96 * MIB,
                             settings=LIMITS | {"space.out_of_space": out_of_space})
    cluster = stage.cluster
    assert make_bucket(cluster, BUCKET, web.url, {"lru": {"dont_evict_time": "0s"}} | kept).status == 200
    parts = 3 if "ec" in kept else 2
    # More than there is room for. Reads of one second are not told apart: what two steps read has to fit below the low watermark,
    # with room to spare, as no two targets own equally many. An empty drive is full to 18 percent: 96 objects fit, or 144.
    count, size, step = (300, MIB, 30) if parts == 3 else (480, MIB // 4, 40)
    bodies = filled(web, rng, count, size)
    names, hot = sorted(bodies), []
    for begin in range(0, len(names), step):
        for name in [*names[begin:begin + step], *hot]:
            assert cluster.get(BUCKET, name).body == bodies[name], name
        if begin == 0:
            wait_stored(cluster, BUCKET, *names[:step])
            hot = rng.sample(names[:step], 3)
        next_second()
    all_disks = stage.all_disks()
    wait_until(lambda: all(used(disk) <= 0.80 for disk in all_disks), 30, "all drives are below the high watermark")
    assert sum(cluster.metric(target, "tarn_evicted_objects_total") for target in cluster.targets()) > 20

    # An object that is being stored or evicted has one copy for a moment. Slices of evicted objects stay for half a minute where
    # there is room.
    if parts == 2:
        wait_until(lambda: set(copies(cluster).values()) == {2}, 30, "no copy stays alone")
    else:
        wait_until(lambda: (now := cluster.redundancy(BUCKET))["full"] > 0 and now["reduced"] + now["at_risk"] + now["lost"] == 0,
                   30, "each object has all its slices")
    assert all(is_stored(cluster, BUCKET, name) for name in hot), "what was read again and again stays"
    if out_of_space < 95:
        refused = [line for target in cluster.targets() for line in cluster.logs[target].matching("fill not kept")]
        assert refused == [], "each slice has waited for room"
    cluster.assert_bodies("data", {})


def with_files_on(cluster, target):
    """Names of objects of which a target has a copy or a slice."""
    return {each["name"] for each in attribute.decoded(cluster.drives(target)).values() if each["kind"] == 3 or "coding" not in each}


def fill_up(disk, share):
    """Takes room on the drive with a file that is not Tarn's."""
    its = os.statvfs(disk.mountpoint)
    with open(disk.mountpoint / "filler", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, int((share - used(disk)) * its.f_blocks * its.f_frsize))


@pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")
@pytest.mark.parametrize("kept, dies", [
    pytest.param(ON_NODES, False, id="copies", marks=C4),
    pytest.param(ON_NODES, True, id="copies, a node is dead"),
    pytest.param(props("striped"), False, id="slices", marks=C4),
    pytest.param(props("striped"), True, id="slices, a node is dead"),
    pytest.param(props("whole"), False, id="full-copies")])
def test_the_fullest_drive_evicts_what_was_read_least_recently(make_stage, web, rng, kept, dies):
    """Whatever node owns it; what has no file on the drive stays."""
    stage = upstream_cluster(make_stage, web, targets=4, drives=1, fs="ext4", size=96 * MIB,
                             settings=LIMITS | {"space.low_watermark": 74})
    cluster = stage.cluster
    assert make_bucket(cluster, BUCKET, web.url, {"lru": {"dont_evict_time": "0s"}} | kept).status == 200
    bodies = filled(web, rng, 60, MIB)
    assert cluster.bodies(BUCKET, bodies) == bodies
    wait_full(cluster, len(bodies), BUCKET)
    names = sorted(bodies)
    rng.shuffle(names)
    read_in = {}  # second, in which it was read last
    for begin in range(0, len(names), 12):
        next_second()
        for name in names[begin:begin + 12]:
            assert cluster.get(BUCKET, name).body == bodies[name]
            read_in[name] = begin
    full, dead = rng.sample(cluster.targets(), 2)
    (disk,) = stage.disks[full]
    there = with_files_on(cluster, full)
    assert {cluster.owner(BUCKET, name) for name in there} > {full}, "the drive has files of others' objects"
    lost = {name for name in bodies if cluster.owner(BUCKET, name) == dead} if dies else set()
    if dies:
        cluster.kill(dead)
        wait_until(lambda: any(each["flags"] & DOWN for each in stored_map(cluster)["nodes"]), 60, "its lease has ended")
    fill_up(disk, 0.83)
    wait_until(lambda: cluster.metric(full, "tarn_evicted_objects_total") >= 8 and used(disk) <= 0.8, 60, "it has made room")
    if dies:
        cluster.start(dead)
    kept_here = {name for name in bodies if is_stored(cluster, BUCKET, name)}
    gone = bodies.keys() - kept_here
    print(f"{len(there)} of {len(bodies)} objects had files on {full}, {len(gone)} were evicted")
    assert gone <= there
    # The next owner of a name has not seen its reads.
    oldest_left = min(read_in[name] for name in there - gone - lost)
    assert gone - lost or dies
    assert all(read_in[name] <= oldest_left for name in gone - lost)
    web.stop()
    for name in kept_here:
        assert read_at_last(cluster, BUCKET, name) == bodies[name]


def coded_cache(make_cluster, web, bodies, layout):
    cluster = upstream_cluster(make_cluster, web, targets=4, drives=1)
    assert make_bucket(cluster, BUCKET, web.url, props(layout)).status == 200
    assert cluster.bodies(BUCKET, bodies) == bodies
    wait_stored(cluster, BUCKET, *bodies)
    wait_full(cluster, len(bodies), BUCKET)
    assert cluster.redundancy(BUCKET)["coded"] == len(bodies)
    assert {web.requests("GET", name) for name in bodies} == {1}, "each object was fetched once"
    return cluster


def slices(cluster):
    return attribute.slices(cluster.all_drives())


@pytest.mark.gate("A1, of a coded cache")
@pytest.mark.parametrize("layout", ["striped", "whole"])
def test_slices_serve_while_a_node_is_dead(make_cluster, web, rng, layout):
    bodies = filled(web, rng, 12, MIB // 2)
    cluster = coded_cache(make_cluster, web, bodies, layout)
    web.stop()
    dead = rng.choice(cluster.targets())
    cluster.kill(dead)
    for name, body in bodies.items():
        assert read_at_last(cluster, BUCKET, name) == body
    cluster.start(dead)
    wait_full(cluster, len(bodies), BUCKET, 60)
    web.start()
    for name in bodies:
        evict(cluster, BUCKET, name)
    assert cluster.bodies(BUCKET, bodies) == bodies


@pytest.mark.gate("D1, of a coded cache")
def test_what_has_too_few_slices_is_fetched_again(make_cluster, web, rng):
    bodies = filled(web, rng, 6, MIB // 2)
    cluster = coded_cache(make_cluster, web, bodies, "striped")
    cluster.expect_errors(r" error (drive|target|http|recovery|repair) ")
    name = rng.choice(sorted(bodies))
    gone = [path for path, said in slices(cluster) if said["name"] == name][:2]
    assert len(gone) == 2
    cluster.kill(*cluster.targets())
    for path in gone:
        path.unlink()
    cluster.start(*cluster.targets())
    assert read_at_last(cluster, BUCKET, name) == bodies[name]
    wait_until(lambda: cluster.get(BUCKET, name).body == bodies[name] and is_stored(cluster, BUCKET, name)
               and cluster.redundancy(BUCKET)["full"] == len(bodies), 60, "it is stored again, with all slices")
    assert web.requests("GET", name) >= 2 and all(web.requests("GET", each) == 1 for each in bodies if each != name)


@pytest.mark.gate("H, of a coded cache")
def test_what_is_written_through_has_slices_also_where_that_is_wanted_later(make_cluster, tmp_path, rng):
    with S3Server(tmp_path / "s3") as s3:
        s3.client.create_bucket(Bucket="data")
        bodies = {f"o-{i}": rng.randbytes(100_000 + i) for i in range(4)}
        cluster, bucket = upstream_cluster(make_cluster, s3, targets=4), "s3://data"
        assert make_bucket(cluster, bucket, s3.url).status == 200
        cluster.fill(bucket, bodies)
        assert cluster.bucket_action("PATCH", bucket, "set-bprops", props("striped")).status == 200
        wait_until(lambda: cluster.redundancy(bucket)["coded"] == len(bodies), 60, "what was there is cut into slices")
        bodies["o-0"], bodies["more"] = rng.randbytes(300_000), rng.randbytes(200_000)
        for name in ("o-0", "more"):
            assert cluster.put(bucket, name, bodies[name]).status == 200
            assert s3.client.get_object(Bucket="data", Key=name)["Body"].read() == bodies[name]
        wait_full(cluster, len(bodies), bucket, 60)
        assert cluster.redundancy(bucket)["coded"] == len(bodies)
        assert cluster.bodies(bucket, bodies) == bodies
        s3.stop()
        assert cluster.bodies(bucket, bodies) == bodies


def test_slices_go_with_their_objects(make_cluster, tmp_path, rng):
    """Half a minute later, since readers may have them in hand."""
    with S3Server(tmp_path / "s3") as s3:
        s3.client.create_bucket(Bucket="data")
        bodies = {f"o-{i}": rng.randbytes(100_000 + i) for i in range(6)}
        cluster, bucket = upstream_cluster(make_cluster, s3, targets=4), "s3://data"
        assert make_bucket(cluster, bucket, s3.url, props("striped")).status == 200
        cluster.fill(bucket, bodies)
        wait_full(cluster, len(bodies), bucket)
        evict(cluster, bucket, "o-0")
        assert cluster.delete(bucket, "o-1").status == 200
        wait_until(lambda: {said["name"] for _, said in slices(cluster)} == bodies.keys() - {"o-0", "o-1"}, 60, "their slices go")
        assert cluster.get(bucket, "o-0").body == bodies["o-0"] and cluster.get(bucket, "o-1").status == 404
