"""What drives do to coded objects (docs/reliability.md A7, B6, C1, C2, C5, C8 to C10, D1, D7, D8, G5, G7): up to m losses cost no
client anything. One more costs an error and never a wrong byte. What is missing is made again."""

import collections
import os
import pathlib
import threading
import time

import disks
import pytest
from disks import seeded
from harness import attribute, jobs
from harness.coded import KIB, LIMIT, MIB, get, props, slices_of
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until
from latency import forget_pages, machine_is_busy, measures_time

needs_fuse = pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
needs_ext4 = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")
needs_xfs = pytest.mark.skipif(bool(disks.why_no_loop("xfs")), reason=f"{disks.why_no_loop('xfs')}")
BLOCK = 64 * KIB
COMPLAINTS = r" (error|warn|critical) "


def make(make_stage, k=2, m=1, layout="striped", **options):
    stage = make_stage(**options)
    stage.cluster.expect_errors(COMPLAINTS)
    stage.cluster.create_bucket("cut", props(layout, k, m))
    wait_until_in_place(stage.cluster)
    return stage


def store(cluster, rng, count=12, low=LIMIT + 1, high=600 * KIB):
    return cluster.fill("cut", {f"n-{i:04}": rng.randbytes(rng.randrange(low, high)) for i in range(count)}, durable=True)


def read_all(cluster, bodies, again=True):
    """Every object; `again`: with a retry a second later, as any client has."""
    for name, body in bodies.items():
        got = fetch(cluster, name)
        if (got is None or got.status != 200) and again:
            time.sleep(1)
            got = fetch(cluster, name)
        assert got is not None and got.status == 200 and got.body == body, (name, got)


def fetch(cluster, name):
    """None: sent to a target in the moment of its end."""
    try:
        return get(cluster, name)
    except OSError:
        return None


def slice_files(cluster, name=None):
    """{(object, index): path}"""
    drives = [drive for target in cluster.targets() for drive in cluster.drives(target)]
    return {(said["name"], said["slice"]["index"]): path for path, said in attribute.slices(drives) if name in (None, said["name"])}


def wait_full(cluster, k, m, bodies, seconds=120):
    """Until each object has each of its slices once, and the ledger says so."""

    wrong = []

    def full():
        said = cluster.redundancy("cut")
        lie = {name: {index: len(where) for index, where in slices_of(cluster, name).items()} for name in bodies}
        wrong[:] = [{key: said[key] for key in ("complete", "reduced", "at_risk", "lost")}
                    | {name: found for name, found in lie.items() if found != dict.fromkeys(range(k + m), 1)}]
        return wrong == [{"complete": True, "reduced": 0, "at_risk": 0, "lost": 0}]

    try:
        wait_until(full, seconds, "all slices are there once", every=0.5)
    except AssertionError as late:
        raise AssertionError(wrong) from late


def restart(stage, *targets):
    """Restarts targets, so that all that their processes know of drives, and memory of files, is gone."""
    for target in targets:
        stage.kill(target)
    for target in targets:
        for drive in stage.cluster.drives(target):
            for path in attribute.data_files([drive]):
                forget_pages(path)
    for target in targets:
        stage.start(target, served=False)
    stage.wait_served()
    wait_until_in_place(stage.cluster)


def wait_mended(cluster, bad, bodies):
    """Waits until none of these files is there any longer. Readers pass over a late slice without a look at its content: it is read
    until it is in time."""

    def mended():
        read_all(cluster, bodies, again=False)
        return not set(bad) & set(slice_files(cluster).values())

    wait_until(mended, 60, "what was bad has been made anew", every=0.5)


@needs_fuse
def test_a_sector_that_cannot_be_read_is_read_past_and_made_anew(make_stage, seed):
    """C1, in the same answer."""
    rng = seeded(seed, "C1")
    stage = make(make_stage, targets=4, drives=1, faulty=True)
    cluster = stage.cluster
    bodies = store(cluster, rng)
    target = rng.choice(cluster.targets())
    drive = stage.disks[target][0]
    files = {path for (_, index), path in slice_files(cluster).items() if drive.mountpoint in path.parents and index < 2}
    assert files, "no data slice lies there"
    restart(stage, target)
    for path in files:
        drive.rule(f"eio read {path.name} always")
    read_all(cluster, bodies, again=False)
    wait_until(lambda: drive.stats().get("eio.read", 0) > 0 or read_all(cluster, bodies, again=False), 20, "it is read")
    hits = drive.stats().get("eio.read", 0)
    assert hits > 0 and cluster.metric(target, "tarn_drive_read_errors", drive=str(drive.mountpoint)) > 0
    assert cluster.metric(target, "tarn_drive_up", drive=str(drive.mountpoint)) == 1, "some bad sectors are not the end of a drive"
    read = {path for path in files if any(path.name in line for line in cluster.logs[target].lines())}
    wait_mended(cluster, read, bodies)
    drive.clear()
    print(f"injected: {hits} reads of {len(files)} slices failed; detected: all objects read at once, {len(read)} slices made anew")
    wait_full(cluster, 2, 1, bodies)


@needs_fuse
def test_a_drive_that_takes_no_writes_is_passed_over(make_stage, seed):
    """C2: PUTs find other drives, and slices that it did not take are not missed."""
    rng = seeded(seed, "C2")
    stage = make(make_stage, targets=4, drives=2, faulty=True)
    cluster = stage.cluster
    drive = rng.choice([drive for target in cluster.targets() for drive in stage.disks[target]])
    drive.rule("eio write data/ always")
    bodies = {}
    for number in range(30):
        name, body = f"n-{number:04}", rng.randbytes(rng.randrange(LIMIT + 1, 600 * KIB))
        answer = cluster.put("cut", name, body)
        assert answer.status == 200 and "Tarn-Durability" not in answer.headers, answer
        bodies[name] = body
    hits = drive.stats().get("eio.write", 0)
    print(f"injected: {hits} writes failed; detected: {len(bodies)} PUTs acknowledged")
    assert hits > 0
    read_all(cluster, bodies, again=False)
    drive.clear()
    wait_full(cluster, 2, 1, bodies)


def misdirect(files, rng):
    """C8: two blocks of a slice lie in each other's place."""
    path = rng.choice([path for path in files.values() if os.path.getsize(path) > 2 * BLOCK])
    with open(path, "r+b") as file:
        first, second = file.read(BLOCK), file.read(BLOCK)
        file.seek(0)
        file.write(second + first)
    return [path]


def zeros(files, rng):
    """C10"""
    path = rng.choice(sorted(files.values()))
    with open(path, "r+b") as file:
        file.write(bytes(min(BLOCK, os.path.getsize(path) // 2)))
    return [path]


def others(files, rng):
    """G7: the slices of two objects have each other's bytes, with checksums that are right."""
    one, two = rng.sample(sorted(key for key in files if key[1] == 0), 2)
    bytes_of_one, bytes_of_two = files[one].read_bytes(), files[two].read_bytes()
    size = min(len(bytes_of_one), len(bytes_of_two)) // BLOCK * BLOCK
    for path, its in ((files[one], bytes_of_two), (files[two], bytes_of_one)):
        with open(path, "r+b") as file:
            file.write(its[:size])
    return [files[one], files[two]]


@pytest.mark.parametrize("how", (misdirect, zeros, others), ids=lambda how: how.__name__)
@pytest.mark.gate("C8, C10")
def test_other_blocks_than_were_written_are_noticed_and_made_anew(make_stage, seed, how):
    rng = seeded(seed, "wrong blocks", how.__name__)
    stage = make(make_stage, targets=4, drives=1)
    cluster = stage.cluster
    bodies = store(cluster, rng, low=300 * KIB, high=900 * KIB)
    for target in cluster.targets():
        stage.kill(target)
    bad = how({key: path for key, path in slice_files(cluster).items() if key[1] < 2}, rng)
    for target in cluster.targets():
        stage.start(target, served=False)
    stage.wait_served()
    wait_until_in_place(cluster)
    wait_mended(cluster, bad, bodies)
    said = [line for target in cluster.targets() for line in cluster.logs[target].matching("slice is not what was stored")]
    print(f"injected: {how.__name__} in {[path.name for path in bad]}; detected: {len(said)} lines, made anew")
    assert said
    wait_full(cluster, 2, 1, bodies)
    read_all(cluster, bodies)


def test_blocks_of_a_version_before_are_noticed_and_made_anew(make_stage, seed):
    """C9: a write that never reached the drive left what was there before."""
    rng = seeded(seed, "C9")
    stage = make(make_stage, targets=4, drives=1)
    cluster = stage.cluster
    size = 500 * KIB
    old, new = rng.randbytes(size), rng.randbytes(size)
    assert cluster.put("cut", "n-0000", old).status == 200
    before = {key[1]: path.read_bytes() for key, path in slice_files(cluster).items()}
    assert cluster.put("cut", "n-0000", new).status == 200
    # A reader by the former record may go on for half a minute.
    wait_until(lambda: sum(len(where) for where in slices_of(cluster, "n-0000").values()) == 3, 60, "the slices of before are gone")
    for target in cluster.targets():
        stage.kill(target)
    index = rng.randrange(2)
    path = slice_files(cluster)["n-0000", index]
    with open(path, "r+b") as file:
        file.write(before[index][:BLOCK])
    for target in cluster.targets():
        stage.start(target, served=False)
    stage.wait_served()
    wait_until_in_place(cluster)
    wait_mended(cluster, [path], {"n-0000": new})
    print(f"injected: a block of the version before in slice {index}; detected: read past, and made anew")
    wait_full(cluster, 2, 1, ["n-0000"])


@needs_ext4
@pytest.mark.parametrize("k, m", ((4, 2), (5, 3)))
@pytest.mark.gate("D7")
def test_m_drives_are_lost_and_then_one_more(make_stage, seed, k, m):
    """D1, D7: double failures for 4 + 2, triple for 5 + 3. With one more lost, readers get an error and no 404 until the drive that was
    lost last is back. No write succeeded without it, so it knows all."""
    rng = seeded(seed, "losses", k, m)
    stage = make(make_stage, k, m, targets=k + m, drives=1, fs="ext4")
    cluster = stage.cluster
    bodies = store(cluster, rng, count=16)
    lost = [stage.disks[target][0] for target in rng.sample(cluster.targets(), m + 1)]
    for disk in lost[:m]:
        disk.power_cut()
        assert disk.is_cut()
    read_all(cluster, bodies)
    lost[m].power_cut()
    assert lost[m].is_cut()
    answers = {name: get(cluster, name) for name in bodies}
    for name, got in answers.items():
        assert (got.status == 200 and got.body == bodies[name]) or got.status == 503, (name, got)
    refused = sum(got.status == 503 for got in answers.values())
    back = lost[m]
    back.remount()
    names = sorted(bodies)
    wait_until(lambda: all(get(cluster, name).status == 200 for name in names), 60, "all is read again", every=1)
    read_all(cluster, bodies)
    print(f"injected: {m} drives died, and one more; detected: {refused} of {len(bodies)} refused until {back.name} was back")
    assert refused > 0
    for disk in lost:
        if disk is not back:
            disk.remount()
    wait_full(cluster, k, m, bodies)


def test_another_failure_in_the_middle_of_a_rebuild(make_stage, seed):
    """G5: m of them at the end, never at once; what is left is made again from what is left."""
    rng = seeded(seed, "G5")
    slow = {f"t{i}": "repair.before_seal=sleep:150" for i in range(1, 7)}
    stage = make(make_stage, 2, 2, targets=6, drives=1, settings={"target.out_after": "3s"}, fail_points=slow)
    cluster = stage.cluster
    bodies = store(cluster, rng, count=30, high=200 * KIB)
    first, second = rng.sample(cluster.targets(), 2)
    stage.kill(first)
    alive = [target for target in cluster.targets() if target != first]

    wait_until(lambda: any(cluster.logs[target].matching("repair.before_seal") for target in alive), 30, "a rebuild is under way")
    stage.kill(second)
    # It may have owned names, which others own when its lease has ended.
    wait_until(lambda: all((got := fetch(cluster, name)) is not None and got.status == 200 for name in bodies), 30, "all is read", every=1)
    left = [target for target in alive if target != second]

    def whole():
        found = {}
        for target in left:
            for _, said in attribute.slices(cluster.drives(target)):
                found.setdefault(said["name"], set()).add(said["slice"]["index"])
        return all(len(found.get(name, ())) == 4 for name in bodies)

    wait_until(whole, 120, "all slices are there on the four that are left", every=0.5)
    print(f"injected: {second} killed while what {first} had was made again; detected: all slices made again")
    read_all(cluster, bodies)


def lose_a_target(make_stage, rng, sleep_ms, **options):
    """Six targets of two drives with objects of 2 + 2 slices: (stage, bodies, the target that is to be lost, the others). There is a pause
    in each repair."""
    slow = {f"t{i}": f"repair.before_seal=sleep:{sleep_ms}" for i in range(1, 7)}
    stage = make(make_stage, 2, 2, targets=6, drives=2, settings={"target.out_after": "3s"}, fail_points=slow, **options)
    bodies = store(stage.cluster, rng, count=40, high=200 * KIB)
    lost = rng.choice(stage.cluster.targets())
    return stage, bodies, lost, [target for target in stage.cluster.targets() if target != lost]


def wait_under_way(stage, targets):
    wait_until(lambda: any(stage.fail_point_hits(target, "repair.before_seal") for target in targets), 60, "a rebuild is under way", every=0.05)


def wait_readable(cluster, bodies):
    """Names of a lost target have another owner when its lease has ended."""
    wait_until(lambda: all((got := fetch(cluster, name)) is not None and got.status == 200 and got.body == body
                           for name, body in bodies.items()), 60, "all is read", every=1)


def lie(drives):
    """{name: {slice: how often it lies on these drives}}"""
    found = collections.defaultdict(collections.Counter)
    for _, said in attribute.slices(drives):
        found[said["name"]][said["slice"]["index"]] += 1
    return found


def short(drives, bodies):
    """Names of which these drives have not all four slices."""
    found = lie(drives)
    return [name for name in bodies if len(found[name]) < 4]


@needs_ext4
@pytest.mark.parametrize("back", (False, True), ids=("stays away", "comes back"))
def test_a_drive_is_pulled_in_the_middle_of_a_rebuild(make_stage, seed, back):
    """G5, D1, D6: all is read meanwhile, and made again on the drives that are left. When the drive is back in the middle of its own
    rebuild, that ends, and no slice lies twice."""
    rng = seeded(seed, "pulled", back)
    stage, bodies, lost, alive = lose_a_target(make_stage, rng, 1000, fs="ext4", size=64 * MIB)
    cluster = stage.cluster
    stage.kill(lost)
    wait_under_way(stage, alive)
    pulled = rng.choice([disk for target in alive for disk in stage.disks[target] if attribute.slices([disk.mountpoint])])
    left = [disk.mountpoint for target in alive for disk in stage.disks[target] if disk is not pulled]
    held = set(lie([pulled.mountpoint]))
    pulled.power_cut()
    assert pulled.is_cut()
    missing = len(short(left, bodies))
    assert missing > 0, "all was made before a drive was pulled"
    wait_readable(cluster, bodies)
    print(f"injected: {pulled.name} with slices of {len(held)} objects pulled while what {lost} had was made again; {missing} were short")
    if back:
        reports = lambda: [told for told in jobs.told(cluster, "rebuild")["targets"].values() if "state" in told]
        # After a minute it is believed to be lost, and what it alone had is made again.
        wait_until(lambda: 0 < len(held.intersection(short(left, bodies))) < len(held), 150, "what it had is made again", every=0.05)
        pulled.remount()
        left.append(pulled.mountpoint)
        wait_until(lambda: all(told["state"] == "whole" and told["left_objects"] == 0 for told in reports()), 120, "the rebuild ends", every=0.5)
        wait_until(lambda: all(sum(its.values()) == len(its) == 4 for its in lie(left).values()), 120, "each slice lies once", every=1)
        assert not short(left, bodies)
    else:
        wait_until(lambda: not short(left, bodies), 180, "all slices are there without the drive", every=1)
    read_all(cluster, bodies)
    print("detected: all slices made again, each once")


@needs_fuse
@pytest.mark.parametrize("what", ("read", "write", "fsync"))
def test_a_drive_fails_in_the_middle_of_a_rebuild(make_stage, seed, what):
    """G5, C1 to C3: calls of one drive end with EIO. All is read meanwhile, and all slices are made, on other drives where this one
    takes none."""
    rng = seeded(seed, "EIO in a rebuild", what)
    stage, bodies, lost, alive = lose_a_target(make_stage, rng, 100, faulty=True)
    cluster = stage.cluster
    if what == "read":
        restart(stage, *alive)  # so that slices are read from drives
    stage.kill(lost)
    disk = rng.choice([disk for target in alive for disk in stage.disks[target] if attribute.slices([disk.mountpoint])])
    if what == "read":
        disk.rule("eio read data/ count=12")  # no client reads yet
    else:
        wait_under_way(stage, alive)
        disk.rule(f"eio {what} data/ always")
    wait_until(lambda: disk.stats().get(f"eio.{what}", 0) > 0, 60, "a call has failed", every=0.1)
    wait_readable(cluster, bodies)
    good = [each.mountpoint for target in alive for each in stage.disks[target] if each is not disk or what != "fsync"]  # that takes it out
    wait_until(lambda: not short(good, bodies), 180, "all slices are there", every=1)
    hits = disk.stats()[f"eio.{what}"]
    disk.clear()
    read_all(cluster, bodies)
    print(f"injected: {hits} times EIO on {what} while what {lost} had was made again; detected: all slices are there")


@needs_ext4
def test_a_power_cut_in_the_middle_of_a_rebuild(make_stage, seed):
    """B6: whatever was on its way to the drives, no object is worse off than before."""
    rng = seeded(seed, "B6")
    slow = {f"t{i}": "repair.before_seal=sleep:100" for i in range(1, 6)}
    stage = make(make_stage, 2, 1, targets=5, drives=1, fs="ext4", settings={"target.out_after": "3s"}, fail_points=slow)
    cluster = stage.cluster
    bodies = store(cluster, rng, count=24, high=200 * KIB)
    gone = rng.choice(cluster.targets())
    stage.kill(gone)
    alive = [target for target in cluster.targets() if target != gone]
    wait_until(lambda: any(cluster.logs[target].matching("repair.before_seal") for target in alive), 30, "a rebuild is under way")
    time.sleep(rng.uniform(0, 1))
    for target in alive:
        stage.disks[target][0].power_cut()
    assert all(stage.disks[target][0].is_cut() for target in alive)
    for target in alive:
        stage.kill(target)
        stage.disks[target][0].remount()
    for target in alive:
        stage.start(target, served=False)
    # Of each object two slices were somewhere else than on what is gone.
    wait_until(lambda: all((got := fetch(cluster, name)) is not None and got.status == 200 for name in bodies), 60, "all is read", every=1)
    read_all(cluster, bodies)
    stage.start(gone, served=False)
    wait_until_in_place(cluster)
    wait_full(cluster, 2, 1, bodies)
    print(f"injected: power cut of {len(alive)} targets while they made again what {gone} had; detected: all read, all whole again")
    read_all(cluster, bodies)


@needs_ext4
def test_a_drive_that_comes_and_goes_moves_little(make_stage, seed):
    """D8: every two seconds; what is written anywhere meanwhile is no more than one and a half times what lies on it."""
    rng = seeded(seed, "D8")
    stage = make(make_stage, 2, 1, targets=4, drives=1, fs="ext4")
    cluster = stage.cluster
    bodies = store(cluster, rng, count=24, low=400 * KIB, high=900 * KIB)
    target = rng.choice(cluster.targets())
    disk = stage.disks[target][0]
    on_it = sum(os.path.getsize(path) for path in attribute.data_files([disk.mountpoint]))

    def written():
        return sum(cluster.metric(each, "tarn_drive_written_bytes_total", drive=str(drive))
                   for each in cluster.targets() for drive in cluster.drives(each))

    before = written()
    for _ in range(4):
        disks.run("umount", "-l", disk.mountpoint)
        time.sleep(2)
        disk.mount()
        time.sleep(2)
    log = cluster.logs[target]
    wait_until(lambda: cluster.metric(target, "tarn_drive_up", drive=str(disk.mountpoint)) == 1, 20, "it is in again")
    moved = written() - before
    print(f"injected: {on_it} bytes gone and back 4 times, noticed {len(log.matching('drive let go of'))} times; detected: {moved} bytes written")
    assert log.matching("drive is back") and moved <= 1.5 * on_it
    wait_full(cluster, 2, 1, bodies)
    read_all(cluster, bodies)


@measures_time
@needs_xfs
def test_a_file_system_that_fails_takes_nothing_with_it(make_stage, seed):
    """A7, C5: XFS shut down, and ext4 made read-only by an error, under one of three drives each, beside readers and writers."""
    rng = seeded(seed, "A7")
    stage = make(make_stage, 1, 2, targets=3, drives=3, fs="xfs,ext4")
    cluster = stage.cluster
    bodies = store(cluster, rng, count=18)
    xfs = next(disk for disk in stage.all_disks() if disk.fs == "xfs")
    ext4 = next(disk for disk in stage.all_disks() if disk.fs == "ext4")
    stop, wrong = threading.Event(), []

    def read():
        while not stop.is_set():
            for name, body in bodies.items():
                got = get(cluster, name)
                if got.status == 200 and got.body != body:
                    wrong.append((name, got))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        xfs.power_cut()
        disks.run("mount", "-o", "remount,errors=remount-ro", ext4.mountpoint)
        trigger = pathlib.Path("/sys/fs/ext4") / pathlib.Path(ext4.device).name / "trigger_fs_error"
        trigger.write_text("the test\n", encoding="ascii")
        begun = time.monotonic()
        target_of = {disk: next(target for target in cluster.targets() if disk in stage.disks[target]) for disk in (xfs, ext4)}
        new = {}

        def both_out():
            name, body = f"new-{len(new):04}", rng.randbytes(100 * KIB)
            wait_until(lambda: cluster.put("cut", name, body, expect=False).status == 200, 20, f"{name} is stored")
            new[name] = body
            return all(cluster.metric(target, "tarn_drive_up", drive=str(disk.mountpoint)) == 0 for disk, target in target_of.items())

        wait_until(both_out, 20 if machine_is_busy() else 5, "both are out", every=0.2)
        seconds = time.monotonic() - begun
    finally:
        stop.set()
        reader.join()
    assert not wrong, wrong[:3]
    assert all(stage.is_alive(target) for target in cluster.targets())
    read_all(cluster, bodies | new)
    print(f"injected: {xfs.name} shut down, {ext4.name} read-only; detected: both out after {seconds:.1f} s, all is read")
    for disk in target_of:
        disk.remount()
    wait_until(lambda: all(cluster.metric(target, "tarn_drive_up", drive=str(disk.mountpoint)) == 1 for disk, target in target_of.items()), 30,
               "both are back")
    wait_full(cluster, 1, 2, bodies | new)
