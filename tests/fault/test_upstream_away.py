"""A drive of a cache that is away for a while (D1, D5): what it had is fetched again, and what it brings back is not believed."""

import concurrent.futures
import threading

import disks
import pytest
from harness import attribute, client
from harness.upstreams import CREDENTIALS, FlawedServer, S3Server, counted, evict, is_stored, make_bucket, upstream_cluster, wait_stored
from harness.waiting import wait_until
from stage import DRIVE_ERRORS
from test_drive_return import wait_let_go

BUCKET = "s3://data"
pytestmark = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")


@pytest.fixture
def s3(tmp_path):
    with S3Server(tmp_path / "s3") as server:
        server.client.create_bucket(Bucket="data")
        yield server


def upload(s3, bodies):
    for name, body in bodies.items():
        s3.client.put_object(Bucket="data", Key=name, Body=body)


def get(cluster, name):
    return client.request("GET", cluster.url(BUCKET, name), expect=False)


def vanish(stage, disk):
    """Unmounts it under the target, which lets go of it."""
    before = len(stage.cluster.logs["t1"].matching(f"drive closed drive={disk.mountpoint}$"))
    disks.run("umount", "-l", disk.mountpoint)
    wait_let_go(stage, "t1", disk, before)


def is_up(cluster, disk):
    return cluster.metric("t1", "tarn_drive_up", drive=str(disk.mountpoint)) == 1


def cached(cluster):
    return [entry["name"] for entry in cluster.list(BUCKET, flags="1")]


@pytest.mark.gate("D5, of a cache")
@pytest.mark.parametrize("restarts", [False, True], ids=["target goes on", "target starts again"])
def test_what_changes_while_a_drive_is_away_is_right_when_it_is_back(make_stage, s3, rng, restarts):
    bodies = {f"{i:02}.tar": rng.randbytes(rng.randrange(1, 300_000)) for i in range(40)}
    upload(s3, bodies)
    stage = upstream_cluster(make_stage, s3, targets=1, drives=3, fs="ext4")
    cluster, disk = stage.cluster, rng.choice(stage.disks["t1"])
    cluster.expect_errors(DRIVE_ERRORS)
    assert make_bucket(cluster, BUCKET, s3.url).status == 200
    assert cluster.bodies(BUCKET, bodies) == bodies
    wait_stored(cluster, BUCKET, *bodies)
    lost = sorted(attribute.objects([disk.mountpoint]))
    assert 6 <= len(lost) < len(bodies)
    assert counted(cluster, "fills_total") == len(bodies)

    vanish(stage, disk)
    assert cluster.names(BUCKET) == sorted(bodies), "a list is whole"
    assert cached(cluster) == sorted(bodies.keys() - set(lost))
    # Three are read first, three overwritten, three deleted, of which one had been fetched again, and one is evicted.
    read, written, deleted, evicted = lost[:2], lost[1:4], lost[3:6], lost[0]
    assert cluster.bodies(BUCKET, read) == {name: bodies[name] for name in read}
    wait_stored(cluster, BUCKET, *read)
    for name in written:
        bodies[name] = rng.randbytes(rng.randrange(1, 300_000))
        assert cluster.put(BUCKET, name, bodies[name]).status == 200
        assert get(cluster, name).body == bodies[name]
    for name in deleted:
        assert cluster.delete(BUCKET, name).status == 200
        assert get(cluster, name).status == 404
        del bodies[name]
    evict(cluster, BUCKET, evicted)
    bodies[evicted] = rng.randbytes(1000)
    upload(s3, {evicted: bodies[evicted]})
    if restarts:
        cluster.kill("t1")
        cluster.start("t1", environment=CREDENTIALS)
    for name, body in bodies.items():
        if name not in (evicted, lost[-1]):
            assert get(cluster, name).body == body
    stored = sorted(bodies.keys() - {evicted, lost[-1]})
    wait_stored(cluster, BUCKET, *stored)
    fills = counted(cluster, "fills_total")
    assert cluster.bodies(BUCKET, stored) == {name: bodies[name] for name in stored}
    assert counted(cluster, "fills_total") == fills, "each was fetched once"
    assert cached(cluster) == stored and cluster.names(BUCKET) == sorted(bodies)

    disk.mount()
    wait_until(lambda: is_up(cluster, disk), 30, "it is in again")
    assert is_stored(cluster, BUCKET, lost[-1]), "what nobody has asked for meanwhile is there again"
    assert not is_stored(cluster, BUCKET, evicted)
    assert {name: get(cluster, name).status for name in deleted} == dict.fromkeys(deleted, 404)
    assert cluster.bodies(BUCKET, bodies) == bodies
    assert cluster.names(BUCKET) == sorted(bodies)
    wait_stored(cluster, BUCKET, *bodies)
    s3.stop()
    assert cluster.bodies(BUCKET, bodies) == bodies
    # Nothing lies twice, and nothing where it does not belong.
    wait_until(lambda: cluster.logs["t1"].matching("all names are in place"), 60, "names are where they belong")
    everything = [name for each in stage.disks["t1"] for name in attribute.objects([each.mountpoint])]
    assert sorted(everything) == sorted(bodies)
    assert set(lost) & bodies.keys() <= set(attribute.objects([disk.mountpoint]))
    cluster.kill("t1")
    cluster.start("t1", environment=CREDENTIALS)
    assert cluster.bodies(BUCKET, bodies) == bodies
    print(f"injected: a drive with {len(lost)} of {len(bodies) + len(deleted)} objects was away; detected: {fills} fetched")


@pytest.fixture
def holding():
    """A server that makes no change, and answers none, before its event `goes_on` is set."""
    server = FlawedServer()
    server.goes_on = threading.Event()
    yield server
    server.goes_on.set()
    server.stop()


@pytest.mark.gate("D1, of a write to a cache")
@pytest.mark.parametrize("verb", ["PUT", "DELETE"])
def test_the_mark_of_a_write_goes_away_with_its_drive(make_stage, holding, rng, verb):
    """Meanwhile the version before is fetched again. The write is acknowledged, and what was fetched is not read any more."""
    before = {f"{i}": rng.randbytes(2000) for i in range(8)}
    holding.objects |= before
    stage = upstream_cluster(make_stage, holding, targets=1, drives=2, fs="ext4")
    cluster, disk = stage.cluster, stage.disks["t1"][0]
    cluster.expect_errors(DRIVE_ERRORS)
    assert make_bucket(cluster, BUCKET, holding.url).status == 200
    assert cluster.bodies(BUCKET, before) == before
    wait_stored(cluster, BUCKET, *before)
    name, after = rng.choice(sorted(attribute.objects([disk.mountpoint]))), rng.randbytes(3000) if verb == "PUT" else None

    def hold(handler, body):
        holding.goes_on.wait(60)
        handler.accept(name, body)

    holding.put_flaws[name] = hold
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.request, verb, cluster.url(BUCKET, name), after)
        wait_until(lambda: (verb, name) in [seen[:2] for seen in holding.seen], 20, "upstream has the write")
        disks.run("umount", "-l", disk.mountpoint)
        wait_until(lambda: cluster.logs["t1"].matching(f"drive let go of drive={disk.mountpoint} "), 20, "it is let go of")
        assert not answer.done(), "the write goes on"
        assert get(cluster, name).body == before[name]
        wait_stored(cluster, BUCKET, name)
        holding.goes_on.set()
        assert answer.result().status == 200
    assert holding.objects.get(name) == after
    now = get(cluster, name)
    assert (now.status, now.body) == (200, after) if after else now.status == 404
    fetched = [seen[:2] for seen in holding.seen].count(("GET", name))
    print(f"injected: the drive with the mark of a write went away; detected: {name} was fetched {fetched} times")
    assert fetched == 3
