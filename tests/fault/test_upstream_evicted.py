"""A drive of a cache that stays away (D1, D5; docs/decisions/025). Its objects are fetched from upstream to the other drives and
stay there, and nothing old comes back with the drive."""

import concurrent.futures
import contextlib
import json
import threading
import time

import disks
import pytest
from harness import attribute, client, jobs
from harness.cli import Cli
from harness.nodes import give_names_to
from harness.upstreams import CREDENTIALS, counted, make_bucket, stand_still, upstream_cluster, wait_stored
from harness.waiting import wait_until
from stage import DRIVE_ERRORS
from test_drive_return import wait_let_go
from test_returned_drive import attach, detach
from test_upstream_copies import fill_up

BUCKET = "s3://data"
MIB = 1 << 20
# A mark of a write is open for ten minutes, and no drive counts as evicted before.
SOON = "safety.outlast_marks=off"
SETTINGS = {"drive.out_after": "1s"}
pytestmark = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")


def make_cache(make_stage, server, targets=1, drives=3, settings=None, points=SOON, **options):
    stage = upstream_cluster(make_stage, server, targets=targets, drives=drives, fs="ext4", settings=SETTINGS | (settings or {}),
                             fail_points={f"t{i + 1}": points for i in range(targets)}, **options)
    stage.cluster.expect_errors(DRIVE_ERRORS)
    assert make_bucket(stage.cluster, BUCKET, server.url).status == 200
    return stage


def bodies_of(rng, count=40):
    return {f"{i:02}.tar": rng.randbytes(rng.randrange(1, 200_000)) for i in range(count)}


def objects_on(disk):
    return set(attribute.objects([disk.mountpoint]))


def lose(stage, target, disk, evicts=True, before=0):
    """Until the target has evicted what was on the drive. `before`: how often that was lost already."""
    disks.run("umount", "-l", disk.mountpoint)
    wait_let_go(stage, target, disk, before=before)
    if evicts:
        wait_evicted(stage.cluster, target, disk, before)


def wait_evicted(cluster, target, disk, before=0):
    told = f"counts as evicted drive={disk.mountpoint} "
    wait_until(lambda: len(cluster.logs[target].matching(told)) > before, 60, "what was on the drive is evicted")


def is_up(cluster, target, disk):
    return cluster.metric(target, "tarn_drive_up", drive=str(disk.mountpoint)) == 1


def give_back(stage, target, disk, while_down=False):
    cluster = stage.cluster
    if while_down:
        cluster.kill(target)
    disk.mount()
    if while_down:
        cluster.start(target, environment=CREDENTIALS, fail_points=SOON)
    wait_until(lambda: is_up(cluster, target, disk), 30, "the drive is in again")


def get(cluster, name):
    return client.request("GET", cluster.url(BUCKET, name), expect=False)


@pytest.mark.gate("D5, of a cache that goes on without its drive")
@pytest.mark.parametrize("target", ["goes on", "starts again", "dies when it is noted"])
def test_what_a_drive_had_that_stays_away_lives_on_the_others(make_stage, s3, rng, target):
    """It is fetched once more, written and deleted there, also while upstream is away. Back again, the drive changes nothing."""
    bodies = bodies_of(rng)
    s3.fill("data", bodies)
    stage = make_cache(make_stage, s3)
    cluster, disk = stage.cluster, rng.choice(stage.disks["t1"])
    assert cluster.bodies(BUCKET, bodies) == bodies
    wait_stored(cluster, BUCKET, *bodies)
    lost = sorted(objects_on(disk))
    assert 3 <= len(lost) < len(bodies)
    if target == "dies when it is noted":
        cluster.kill("t1")
        cluster.start("t1", environment=CREDENTIALS, fail_points=f"{SOON};drive.evicted=kill")
        disks.run("umount", "-l", disk.mountpoint)
        cluster.wait_exit("t1")
        cluster.start("t1", environment=CREDENTIALS, fail_points=SOON)
    else:
        lose(stage, "t1", disk)
    fetched = counted(cluster, "fills_total")
    rows = {row["drive"]: row for row in json.loads(Cli(cluster.endpoint).ok("--json", "drive", "ls"))}
    assert "counts as evicted" in rows[str(disk.mountpoint)]["note"], rows
    assert cluster.bodies(BUCKET, bodies) == bodies
    wait_stored(cluster, BUCKET, *lost)
    wait_until(lambda: counted(cluster, "fills_total") - fetched >= len(lost), 20, "all are fetched")
    assert counted(cluster, "fills_total") - fetched == len(lost), "each was fetched once more"
    written, deleted = lost[:2]
    new = rng.randbytes(100_000)
    assert cluster.put(BUCKET, written, new).status == 200 and cluster.delete(BUCKET, deleted).status == 200
    assert s3.client.get_object(Bucket="data", Key=written)["Body"].read() == new
    wanted = {name: body for name, body in bodies.items() if name != deleted} | {written: new}
    if target == "starts again":
        cluster.kill("t1")
        cluster.start("t1", environment=CREDENTIALS, fail_points=SOON)
    s3.stop()
    assert cluster.bodies(BUCKET, wanted) == wanted, "all of it is on the other drives"
    give_back(stage, "t1", disk)
    assert cluster.bodies(BUCKET, wanted) == wanted
    s3.start()
    assert get(cluster, deleted).status == 404 and cluster.names(BUCKET) == sorted(wanted)
    print(f"injected: a drive with {len(lost)} of {len(bodies)} objects stayed away; detected: fetched, written and deleted on the others")


@pytest.mark.gate("D5, of a cache that goes on without its drive")
@pytest.mark.parametrize("while_down", [False, True], ids=["to a target that runs", "while its target is down"])
def test_a_drive_that_is_back_has_nothing_of_before(make_stage, s3, rng, while_down):
    """Versions that were overtaken meanwhile are not believed when the drive that has the newer ones goes."""
    old = bodies_of(rng)
    s3.fill("data", old)
    stage = make_cache(make_stage, s3, drives=2, settings={"resilver.enabled": "false"})
    cluster, (first, second) = stage.cluster, stage.disks["t1"]
    assert cluster.bodies(BUCKET, old) == old
    wait_stored(cluster, BUCKET, *old)
    lost = sorted(objects_on(first))
    assert 4 <= len(lost) < len(old)
    lose(stage, "t1", first)
    new = cluster.fill(BUCKET, lost[:-1], 50_000, rng)
    assert cluster.delete(BUCKET, lost[-1]).status == 200
    assert set(new) <= objects_on(second)
    give_back(stage, "t1", first, while_down)
    back = objects_on(first) & set(lost)
    lose(stage, "t1", second, evicts=False)
    assert cluster.bodies(BUCKET, new) == new, "upstream has them"
    assert get(cluster, lost[-1]).status == 404
    print(f"injected: a drive with {len(lost)} objects was back, and the one went on which they had been written anew; "
          f"detected: {len(back)} old files")
    assert not back


@pytest.mark.gate("G1, of a cache that goes on without a drive")
def test_nothing_is_evicted_while_a_former_owner_may_have_what_came_before(make_stage, flawed, rng):
    """Names have moved, and the former owner still has the versions before those that were lost with the drive."""
    old = bodies_of(rng)
    flawed.objects |= old
    stage = make_cache(make_stage, flawed, targets=2, drives=2, meta="etcd", settings={"rebalance.enabled": "false"})
    cluster = stage.cluster
    assert cluster.bodies(BUCKET, old) == old
    wait_stored(cluster, BUCKET, *old)
    names = [name for name in old if cluster.owner(BUCKET, name) == "t1"]
    give_names_to(cluster, "t2")
    wait_until(lambda: all(cluster.owner(BUCKET, name) == "t2" for name in names), 20, "all names are those of t2")
    new = cluster.fill(BUCKET, names, 1000, rng)
    disk = max(stage.disks["t2"], key=lambda each: len(objects_on(each) & set(names)))
    lost = objects_on(disk) & set(names)
    assert lost and lost <= set().union(*map(objects_on, stage.disks["t1"])), "t1 has the versions before"
    lose(stage, "t2", disk, evicts=False)
    time.sleep(2.5)  # in which they would be evicted
    assert cluster.bodies(BUCKET, new) == new, "upstream has them"
    give_back(stage, "t2", disk)
    jobs.start(cluster, "rebalance")
    wait_until(lambda: not set().union(*map(objects_on, stage.disks["t1"])) & set(names), 60, "t1 has none of them any longer")
    assert cluster.bodies(BUCKET, new) == new
    print(f"injected: a drive with {len(lost)} new versions was away, of which a former owner has the ones before; detected: none is read")


@pytest.mark.gate("D5, of a cache that goes on without its drive")
def test_a_drive_that_is_away_for_a_moment_holds_up_the_eviction_of_another(make_stage, flawed, rng):
    """The drive that is away may have older versions of what was lost with the other one."""
    old = bodies_of(rng)
    flawed.objects |= old
    settings = {"drive.out_after": "8s", "resilver.enabled": "false"}
    stage = make_cache(make_stage, flawed, drives=3, settings=settings)
    cluster, (first, second, _) = stage.cluster, stage.disks["t1"]
    assert cluster.bodies(BUCKET, old) == old
    wait_stored(cluster, BUCKET, *old)
    names = objects_on(first)
    lose(stage, "t1", first)
    assert cluster.bodies(BUCKET, names) == {name: old[name] for name in names}
    wait_stored(cluster, BUCKET, *names)
    behind = sorted(names & objects_on(second))
    assert behind, "none of them is on the second drive"
    give_back(stage, "t1", first)
    # On the first drive it is said that these are being written; on the second one they stay, as that is away.
    lose(stage, "t1", second, evicts=False)
    new = cluster.fill(BUCKET, behind, 1000, rng)
    second.mount()
    wait_until(lambda: is_up(cluster, "t1", second), 30, "the drive is in again")
    lose(stage, "t1", first, evicts=False, before=1)
    gone = time.monotonic()
    time.sleep(3)
    disks.run("umount", "-l", second.mountpoint)
    wait_let_go(stage, "t1", second, before=1)
    time.sleep(max(0, gone + 9.5 - time.monotonic()))  # the first one has been away for long enough, the second one has not
    second.mount()
    wait_until(lambda: is_up(cluster, "t1", second), 30, "the drive is in again")
    assert cluster.bodies(BUCKET, new) == new
    wait_evicted(cluster, "t1", first, before=1)
    assert cluster.bodies(BUCKET, new) == new
    print(f"injected: a drive with the marks of {len(new)} writes was lost while another one, with the versions before, was away for a "
          f"moment; detected: none of these is read")


@pytest.mark.gate("D6, of a cache that goes on without its drive")
def test_a_drive_that_was_given_up_before_has_nothing_of_before(make_stage, flawed, rng):
    """The drive is attached again after objects that were written without it have been evicted with another drive."""
    old = bodies_of(rng)
    flawed.objects |= old
    stage = make_cache(make_stage, flawed, settings={"resilver.enabled": "false"})
    cluster, (first, second, _) = stage.cluster, stage.disks["t1"]
    assert cluster.bodies(BUCKET, old) == old
    wait_stored(cluster, BUCKET, *old)
    names = sorted(objects_on(first))
    disks.run("umount", "-l", first.mountpoint)
    wait_let_go(stage, "t1", first)
    detach(cluster, "t1", first.mountpoint)
    new = cluster.fill(BUCKET, names, 1000, rng)
    assert objects_on(second) & set(names)
    lose(stage, "t1", second)
    first.mount()
    attach(cluster, "t1", first.mountpoint)
    back = objects_on(first) & set(names)
    give_back(stage, "t1", second)
    assert cluster.bodies(BUCKET, new) == new
    print(f"injected: a drive with {len(names)} objects was given up, and attached when another one had been evicted; "
          f"detected: {len(back)} old files")
    assert not back


@pytest.mark.gate("A1, of a cache whose drive is lost")
def test_what_is_being_written_is_not_kept_when_its_mark_is_lost(make_stage, flawed, rng):
    """Upstream makes the change when the drive with the mark has been away for longer than drive.out_after."""
    bodies = bodies_of(rng, 12)
    flawed.objects |= bodies
    stage = make_cache(make_stage, flawed, drives=2, points="")
    cluster, disk = stage.cluster, stage.disks["t1"][0]
    assert cluster.bodies(BUCKET, bodies) == bodies
    wait_stored(cluster, BUCKET, *bodies)
    name, new, goes_on = min(objects_on(disk)), rng.randbytes(1000), threading.Event()

    def later(handler, body):
        goes_on.wait(60)
        handler.accept(name, body)

    flawed.put_flaws[name] = later
    with concurrent.futures.ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as at_end:
        at_end.callback(goes_on.set)
        writer = pool.submit(cluster.put, BUCKET, name, new)
        wait_until(lambda: any(method == "PUT" and its == name for method, its, _ in flawed.seen), 20, "upstream has the request")
        disks.run("umount", "-l", disk.mountpoint)
        cluster.logs["t1"].wait_for(f"drive let go of drive={disk.mountpoint} ", 20)
        time.sleep(2.5)  # in which it would be evicted
        assert cluster.get(BUCKET, name).body == bodies[name]
        goes_on.set()
        said = writer.result().status
    wait_until(lambda: flawed.objects[name] == new, 20, "upstream has made the change")
    wait_until(lambda: counted(cluster, "fills_running") == 0, 20, "no fetch is under way")
    assert cluster.get(BUCKET, name).body == new
    print(f"injected: a drive with the mark of a write was lost, which upstream made later; detected: {said}, and the new version is read")


@pytest.mark.gate("H4, of a cache that goes on without a drive")
def test_a_fetch_that_began_before_its_drive_was_lost_is_not_kept(make_stage, flawed, rng):
    """The drive where the names live was full, so that they are fetched to the other one. Of what is written meanwhile nothing is
    left when that has been evicted with it."""
    names = [f"{i:02}.tar" for i in range(16)]
    old = {name: rng.randbytes(200_000) for name in names}
    new = {name: rng.randbytes(1000) for name in names}
    goes_on = threading.Event()
    flawed.objects |= old
    flawed.flaws |= dict.fromkeys(names, stand_still(goes_on))
    stage = make_cache(make_stage, flawed, drives=2, size=64 * MIB)
    cluster, (full, _) = stage.cluster, stage.disks["t1"]
    cluster.kill("t1")
    fill_up(full, 0.93)
    cluster.start("t1", environment=CREDENTIALS, fail_points=SOON)
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool, contextlib.ExitStack() as at_end:
        at_end.callback(goes_on.set)
        readers = [pool.submit(cluster.get, BUCKET, name) for name in names]
        wait_until(lambda: all(flawed.gets(name) for name in names), 30, "all are being fetched")
        wait_until(lambda: counted(cluster, "fills_running") == len(names), 30, "all are being fetched")
        cluster.fill(BUCKET, new)
        lose(stage, "t1", full)
        flawed.flaws.clear()
        goes_on.set()
        ended = [reader.exception() is None for reader in readers]
    wait_until(lambda: counted(cluster, "fills_running") == 0, 30, "no fetch is under way")
    got = cluster.bodies(BUCKET, new)
    print(f"injected: a drive was lost under {len(names)} fetches, of which {sum(ended)} were read on; detected: none of them is kept")
    assert got == new
