"""A drive of a cache that is away for a while (D1, D5): only what lives there is passed through, and nothing of it changes."""

import disks
import pytest
from harness import attribute, client
from harness.upstreams import CREDENTIALS, counted, make_bucket, upstream_cluster, wait_stored
from harness.waiting import wait_until
from stage import DRIVE_ERRORS
from test_drive_return import wait_let_go

BUCKET = "s3://data"
pytestmark = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")


def get(cluster, name):
    return client.request("GET", cluster.url(BUCKET, name), expect=False)


def cached(cluster):
    return [entry["name"] for entry in cluster.list(BUCKET, flags="1")]


def is_up(cluster, disk):
    return cluster.metric("t1", "tarn_drive_up", drive=str(disk.mountpoint)) == 1


@pytest.mark.gate("D5, of a cache")
@pytest.mark.parametrize("restarts", [False, True], ids=["target goes on", "target starts again"])
def test_what_lives_on_other_drives_is_fetched_and_kept_while_one_is_away(make_stage, s3, rng, restarts):
    """Lists are whole meanwhile, and what lives on the drive is passed through. Back again, it serves what it had."""
    bodies = {f"{i:02}.tar": rng.randbytes(rng.randrange(1, 300_000)) for i in range(60)}
    s3.fill("data", bodies)
    stage = upstream_cluster(make_stage, s3, targets=1, drives=3, fs="ext4")
    cluster, disk = stage.cluster, rng.choice(stage.disks["t1"])
    cluster.expect_errors(DRIVE_ERRORS)
    assert make_bucket(cluster, BUCKET, s3.url).status == 200
    names = sorted(bodies)
    early, late = names[::2], names[1::2]
    assert cluster.bodies(BUCKET, early) == {name: bodies[name] for name in early}
    wait_stored(cluster, BUCKET, *early)
    assert cluster.put(BUCKET, "gone", b"x").status == 200 and cluster.delete(BUCKET, "gone").status == 200
    lost = sorted(attribute.objects([disk.mountpoint]).keys() & set(early))
    assert 2 <= len(lost) < len(early)
    disks.run("umount", "-l", disk.mountpoint)
    wait_let_go(stage, "t1", disk)
    if restarts:
        cluster.kill("t1")
        cluster.start("t1", environment=CREDENTIALS)
    assert cluster.names(BUCKET) == names, "a list is whole"
    assert cached(cluster) == sorted(set(early) - set(lost))
    assert cluster.bodies(BUCKET, bodies) == bodies and get(cluster, "gone").status == 404
    others = [each.mountpoint for each in stage.disks["t1"] if each is not disk]
    kept = wait_until(lambda: (now := set(attribute.objects(others))) > set(early) - set(lost) and now, 30, "what is new is kept")
    wait_until(lambda: counted(cluster, "fills_running") == 0, 30, "no fill is under way")
    kept = set(attribute.objects(others))
    assert not kept & set(lost) and set(late) - kept, "of the names that live on the drive none is kept elsewhere"
    fills = counted(cluster, "fills_total")
    assert cluster.bodies(BUCKET, bodies) == bodies
    assert counted(cluster, "fills_total") == fills and cached(cluster) == sorted(kept), "each was fetched once"
    # What lives there cannot be written, as nothing could tell later which version is the newest; upstream keeps what it has.
    assert cluster.put(BUCKET, lost[0], b"new").status == 503
    assert s3.client.get_object(Bucket="data", Key=lost[0])["Body"].read() == bodies[lost[0]]

    disk.mount()
    wait_until(lambda: is_up(cluster, disk), 30, "it is in again")
    s3.stop()
    stored = sorted(kept | set(lost))
    assert cluster.bodies(BUCKET, stored) == {name: bodies[name] for name in stored}
    s3.start()
    assert cluster.bodies(BUCKET, bodies) == bodies
    wait_stored(cluster, BUCKET, *bodies)
    print(f"injected: a drive with {len(lost)} of {len(early)} objects was away; detected: {len(kept & set(late))} new ones kept")
