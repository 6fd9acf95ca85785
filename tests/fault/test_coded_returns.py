"""Drives and nodes that go and come back under coded objects, or others in their place (docs/reliability.md D2 to D4, D6, G4). No
client reads anything old or gets a wrong 404, and in the end each slice is there once, where its record says.

Slices that no record needs go within seconds here, not after half a minute: `safety.drop_later` is off everywhere.
"""

import collections
import json
import shutil
import threading

import disks
import pytest
from disks import seeded
from harness import attribute, jobs
from harness.admin import act, does
from harness.cli import Cli
from harness.coded import FULL_COPY, KIB, flip
from harness.members import DOWN
from harness.nodes import stored_map, wait_until_in_place
from harness.waiting import wait_until
from latency import forget_pages
from stage import local_cluster
from test_coded_drives import fetch, make, read_all, store
from test_coded_steps import AT_ONCE
from test_drive_return import up, wait_let_go
from test_drives import arguments_with, refusal, snapshot
from test_returned_drive import attach, detach

needs_ext4 = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")
SLOW_REPAIR = AT_ONCE + ";repair.before_seal=sleep:100"


def make_returns(make_stage, k, m, targets, points=AT_ONCE, **options):
    return make(make_stage, k, m, targets=targets, fail_points={f"t{i + 1}": points for i in range(targets)}, **options)


def start(stage, *targets, points=AT_ONCE):
    stage.start(*targets, fail_points=dict.fromkeys(targets, points), served=False)


def scan(cluster):
    """({name: [(target, record)]}, {name: [(set, slice, target)]}) of all that lies on drives, mounted or not in use."""
    records, slices = collections.defaultdict(list), collections.defaultdict(list)
    for target in cluster.targets():
        for raw in attribute.data_files(cluster.drives(target)).values():
            said = attribute.decode(raw)
            if said["kind"] == 3:
                slices[said["name"]].append((said["slice"]["set"], said["slice"]["index"], target))
            elif said["kind"] == 1:
                records[said["name"]].append((target, said))
    return records, slices


def what_is_wrong(cluster, names, m):
    """{name: (what its record names, what there is)} of names where these differ or a slice is there twice, or whose record is not
    there m + 1 times."""
    records, slices = scan(cluster)
    targets = {cluster.nodes[target]["id"]: target for target in cluster.targets()}
    wrong = {name: "not a name of the test" for name in (set(slices) | set(records)) - set(names)}
    for name in names:
        if len({target for target, _ in records[name]}) != m + 1 or len(records[name]) != m + 1:
            wrong[name] = f"records at {[target for target, _ in records[name]]}"
            continue
        coding = max((said for _, said in records[name]), key=lambda said: said["generation"])["coding"]
        holders = list(enumerate(coding["holders"])) + ([(FULL_COPY, coding["whole"])] if coding["whole"] else [])
        named = sorted((coding["set"], index, targets.get(holder)) for index, holder in holders)
        if named != sorted(slices[name]):
            wrong[name] = (named, sorted(slices[name]))
    return wrong


def wait_single(cluster, names, m, seconds=60):
    """Until each of these objects, and no other, has just what its record names, once, and the ledger says that all is there."""
    seen = []

    def single():
        said = cluster.redundancy("cut")
        seen[:] = [{key: said[key] for key in ("complete", "reduced", "at_risk", "lost")}, what_is_wrong(cluster, names, m)]
        return seen == [{"complete": True, "reduced": 0, "at_risk": 0, "lost": 0}, {}]

    try:
        wait_until(single, seconds, "all is there once", every=0.3)
    except AssertionError as late:
        raise AssertionError(seen) from late


def doubled(cluster, target):
    """How many slices lie twice on a target."""
    _, slices = scan(cluster)
    return sum(count - 1 for places in slices.values() for (_, _, where), count in collections.Counter(places).items() if where == target)


def not_named(cluster, target, drive):
    """Slices on a drive which records have at another target by now."""
    records, _ = scan(cluster)
    node, out = cluster.nodes[target]["id"], []
    for path, said in attribute.slices([drive]):
        coding = max((record for _, record in records[said["name"]]), key=lambda record: record["generation"])["coding"]
        index = said["slice"]["index"]
        if (coding["whole"] if index == FULL_COPY else coding["holders"][index]) != node:
            out.append(path)
    return out


def change_some(cluster, rng, bodies):
    """Overwrites a quarter of the objects and deletes a quarter, as a client does who tries again; names that were deleted."""
    names = rng.sample(sorted(bodies), len(bodies) // 2)
    overwritten, deleted = names[::2], names[1::2]
    for name in overwritten:
        bodies[name] = rng.randbytes(rng.randrange(2000, 300 * KIB))
        wait_until(lambda name=name: cluster.put("cut", name, bodies[name], expect=False).status == 200, 20, f"{name} is stored")
    for name in deleted:
        del bodies[name]
        wait_until(lambda name=name: cluster.delete("cut", name, expect=False).status in (200, 404), 20, f"{name} is deleted")
    return deleted


def check_absent(cluster, names):
    for name in names:
        got = wait_until(lambda name=name: (answer := fetch(cluster, name)) is not None and answer.status != 503 and answer, 10, name)
        assert got.status == 404, (name, got)


def damage_half(drive, rng):
    """Another bit in every second slice of a drive that is not in use; the files."""
    files = sorted(path for path, _ in attribute.slices([drive]))
    bad = rng.sample(files, len(files) // 2)
    for path in bad:
        flip(path, rng.randrange(path.stat().st_size // 2))
        forget_pages(path)
    return bad


def held_on(drives):
    return len(attribute.slices(drives))


@needs_ext4
def test_nothing_lands_under_the_mount_point_of_a_drive_with_slices(make_stage, seed):
    """D2: `umount -l` under readers and writers. The drive is out within seconds, and no client is refused twice. When
    it is back, all is there once."""
    rng = seeded(seed, "coded D2")
    stage = make_returns(make_stage, 2, 1, targets=4, drives=2, fs="ext4")
    cluster = stage.cluster
    bodies = store(cluster, rng, count=16, high=300 * KIB)
    target = rng.choice(cluster.targets())
    disk = rng.choice(stage.disks[target])
    held = held_on([disk.mountpoint])
    stop, written, wrong = threading.Event(), {}, []

    def write():
        own = seeded(seed, "coded D2 writer")
        while not stop.is_set():
            name, body = f"w-{len(written):04}", own.randbytes(own.randrange(2000, 100 * KIB))
            answers = [cluster.put("cut", name, body, expect=False)]
            if answers[0].status != 200:
                stop.wait(1)
                answers.append(cluster.put("cut", name, body, expect=False))
            if answers[-1].status != 200:
                wrong.append((name, answers))
                return
            written[name] = body

    writer = threading.Thread(target=write)
    writer.start()
    try:
        disks.run("umount", "-l", disk.mountpoint)
        wait_until(lambda: up(stage, target, disk) == 0, 5, "it is out")
        read_all(cluster, bodies)
        wait_let_go(stage, target, disk)
        more = len(written) + 10
        wait_until(lambda: wrong or len(written) >= more, 20, "writers go on")
    finally:
        stop.set()
        writer.join()
    assert not wrong, wrong
    assert not disk.mounted and list(disk.mountpoint.iterdir()) == [], "something was written under the mount point"
    bodies |= written
    read_all(cluster, bodies)
    disk.mount()
    wait_until(lambda: up(stage, target, disk) == 1, 15, "it is in again")
    print(f"injected: a drive with {held} slices unmounted under {len(written)} PUTs; detected: out, nothing below it, back")
    wait_single(cluster, bodies, 1)
    read_all(cluster, bodies)


def damage_aside(disk, directory, rng):
    """Another bit in one of the slices of a drive that is not mounted, and not where it belongs; its path there."""
    place = disk.mountpoint
    disk.mountpoint = directory
    disk.mount()
    bad = rng.choice(sorted(path for path, _ in attribute.slices([directory])))
    flip(bad, rng.randrange(bad.stat().st_size // 2))
    disk.umount()
    disk.mountpoint = place
    return place / bad.relative_to(directory)


@needs_ext4
def test_a_drive_that_returns_is_read_through_at_once(make_stage, seed, tmp_path):
    """What lies on it was out of sight. A bit that flipped there is found, and the slice rebuilt, though no client reads it and no
    scrub comes round by itself. Other drives are left alone."""
    rng = seeded(seed, "coded verified")
    stage = make_returns(make_stage, 2, 1, targets=4, drives=2, fs="ext4", settings={"scrub.period": "0s"})
    cluster = stage.cluster
    bodies = store(cluster, rng, count=16, high=300 * KIB)
    target = rng.choice(cluster.targets())
    disk = rng.choice(stage.disks[target])
    disks.run("umount", "-l", disk.mountpoint)
    wait_let_go(stage, target, disk)
    bad = damage_aside(disk, tmp_path, rng)
    disk.mount()
    wait_until(lambda: up(stage, target, disk) == 1, 15, "it is in again")

    def scrubs():
        return {path: its for told in jobs.told(cluster, "scrub")["targets"].values() for path, its in told["drives"].items()}

    def repaired():
        its = scrubs()[str(disk.mountpoint)]
        found = [(each["file"], each["outcome"]) for each in its["found"]]
        return not its["running"] and its["verified_ns"] and found == [(str(bad.relative_to(disk.mountpoint)), "repaired")] and its

    its = wait_until(repaired, 60, "it is found and made anew", every=0.2)
    assert its["job"] == "returned" and its["bad"] == 1 and its["files"] >= held_on([disk.mountpoint])
    others = {path for path, its in scrubs().items() if its["began_ns"] or its["verified_ns"]} - {str(disk.mountpoint)}
    assert not others, "a drive that was not away was read"
    print(f"injected: a bit of {bad} turned while its drive was away; detected: {its['files']} files read, it was made anew")
    assert not bad.exists()
    wait_single(cluster, bodies, 1)
    read_all(cluster, bodies)


@needs_ext4
def test_an_empty_drive_in_the_place_of_one_with_slices(make_stage, seed):
    """D3: mounted in its place while the target runs, and at its start: it stays empty, nothing counts as deleted. Given in its place
    by name, it takes part: what was lost is there once, on it or, when it was made again before, elsewhere."""
    rng = seeded(seed, "coded D3")
    stage = make_returns(make_stage, 2, 1, targets=4, drives=2, fs="ext4")
    cluster = stage.cluster
    bodies = store(cluster, rng, count=16, high=300 * KIB)
    target = rng.choice(cluster.targets())
    disk = rng.choice(stage.disks[target])
    held = held_on([disk.mountpoint])
    assert held > 0
    disks.run("umount", "-l", disk.mountpoint)
    wait_let_go(stage, target, disk)
    empty = disk.lab.disk("empty", "ext4")
    empty.mountpoint = disk.mountpoint
    empty.mount()

    def check_all():
        read_all(cluster, bodies)
        assert sorted(cluster.names("cut")) == sorted(bodies)
        assert up(stage, target, disk) in (0, None)
        assert [path.name for path in empty.mountpoint.iterdir()] == ["lost+found"], "it was written to"

    check_all()
    stage.kill(target)
    start(stage, target)
    wait_until_in_place(cluster)
    check_all()
    cluster.logs[target].wait_for("drive missing .*--replace-drive")  # which says what to do
    stage.kill(target)
    made = local_cluster.Cluster.load(stage.directory)
    node = made.node(target)
    node.arguments += ["--replace-drive", str(disk.mountpoint)]
    made.save()
    start(stage, target)
    node.arguments[-2:] = []
    made.save()
    wait_single(cluster, bodies, 1)
    for number in range(16):
        bodies[f"new-{number}"] = rng.randbytes(200 * KIB)
        assert cluster.put("cut", f"new-{number}", bodies[f"new-{number}"]).status == 200
    print(f"injected: an empty drive in place of one with {held} slices; detected: missing, then {held_on([disk.mountpoint])} on the new one")
    assert held_on([disk.mountpoint]) > 0
    read_all(cluster, bodies)


@needs_ext4
def test_drives_of_others_are_not_taken_for_ones_own(make_stage, seed, tmp_path):
    """D4: two targets have each other's drive, while they run and at a start. Then a third one has a drive of another cluster, with
    the id of its own drive. Each says so, and touches nothing; what lies there is read from the others."""
    rng = seeded(seed, "coded D4")
    stage = make_returns(make_stage, 2, 2, targets=5, drives=2, fs="ext4")
    cluster = stage.cluster
    bodies = store(cluster, rng, count=16, high=300 * KIB)
    one, two, third = rng.sample(cluster.targets(), 3)
    ours, theirs = stage.disks[one][0], stage.disks[two][0]
    places = {ours: ours.mountpoint, theirs: theirs.mountpoint}
    for disk, target in ((ours, one), (theirs, two)):
        disks.run("umount", "-l", disk.mountpoint)
        wait_let_go(stage, target, disk)
    ours.mountpoint, theirs.mountpoint = theirs.mountpoint, ours.mountpoint
    for disk in places:
        disk.mount()
    before = {disk: snapshot(disk.mountpoint) for disk in places}
    said = {}
    for target, place in ((one, places[ours]), (two, places[theirs])):
        log = cluster.logs[target]
        said[target] = wait_until(lambda log=log, place=place: log.matching(f"drive not taken back drive={place} why=another drive"), 10,
                                  "it says so")[0]
    read_all(cluster, bodies)
    # At a start it is the operator's mistake.
    stage.kill(one, two)
    for target, place in ((one, places[ours]), (two, places[theirs])):
        line = refusal(stage, arguments_with(stage, target))
        # Of two drives that do not fit together it names one.
        assert str(place.parent) in line and "belongs to target" in line and "refused" in line, line
        said[target] += "\n" + line
    for disk in places:
        assert snapshot(disk.mountpoint) == before[disk], "it was changed"
    read_all(cluster, bodies)
    for disk, place in places.items():
        disk.umount()
        disk.mountpoint = place
    for disk in places:
        disk.mount()
    start(stage, one, two)
    wait_until_in_place(cluster)
    read_all(cluster, bodies)

    disk = stage.disks[third][0]
    foreign = disk.lab.disk("foreign", "ext4")
    foreign.mount()
    shutil.copytree(disk.mountpoint, foreign.mountpoint, dirs_exist_ok=True)
    identity = foreign.mountpoint / ".tarn" / "drive.json"
    text = identity.read_text()
    uuid = json.loads(text)["cluster"]
    identity.write_text(text.replace(uuid, "somebody-elses"))
    foreign.umount()
    disks.run("umount", "-l", disk.mountpoint)
    wait_let_go(stage, third, disk)
    foreign.mountpoint = disk.mountpoint
    foreign.mount()
    before = snapshot(foreign.mountpoint)
    log = cluster.logs[third]
    refused = wait_until(lambda: log.matching(f"drive not taken back drive={disk.mountpoint} why=.*somebody-elses"), 10, "it says so")
    read_all(cluster, bodies)
    assert snapshot(foreign.mountpoint) == before, "it was changed"
    foreign.umount()
    disk.mount()
    wait_until(lambda: up(stage, third, disk) == 1, 15, "it is in again")
    print(f"injected: {one} and {two} had each other's drive, {third} one of another cluster; detected: {said}, {refused[0]}")
    wait_single(cluster, bodies, 2)
    read_all(cluster, bodies)


@pytest.mark.parametrize("targets, m, layout, restart", ((4, 1, "striped", False), (4, 1, "whole", True), (3, 2, "striped", False)))
def test_what_was_made_again_without_a_drive_that_returns_is_there_once(make_stage, seed, targets, m, layout, restart):
    """D6: a drive is detached, what it had is made again, on the other one of its target or, where each drive has a slice of most objects,
    at other targets; then it comes back, with half of its slices damaged. `restart`: the target dies before it has taken the first one
    away that is there twice, and starts with both. No scrub of the returned drive mends what the look at both of two slices missed."""
    points = AT_ONCE + ";safety.verify_returned=off"
    rng = seeded(seed, "coded D6", layout, targets)
    stage = make_returns(make_stage, 2, m, targets=targets, points=points, layout=layout, drives=2)
    cluster = stage.cluster
    bodies = store(cluster, rng, count=30, high=300 * KIB)
    target = rng.choice(cluster.targets())
    drive = rng.choice(cluster.drives(target))
    held = held_on([drive])
    detach(cluster, target, drive)
    wait_until(lambda: (said := cluster.redundancy("cut"))["complete"] and not said["reduced"], 40, "all is there again", every=0.3)
    twice = doubled(cluster, target)
    elsewhere = len(not_named(cluster, target, drive))
    assert twice + elsewhere >= held and (twice if targets > 3 else elsewhere) > 0, (held, twice, elsewhere)
    gone = change_some(cluster, rng, bodies)
    bad = damage_half(drive, rng)
    if restart:
        stage.kill(target)
        start(stage, target, points=points + ";slice.before_drop_double=kill")
        wait_until_in_place(cluster)
    attach(cluster, target, drive)
    if restart:
        cluster.wait_exit(target, 20)
        assert doubled(cluster, target) > 0, "it had taken all away"
        start(stage, target, points=points)
    read_all(cluster, bodies)
    check_absent(cluster, gone)
    wait_single(cluster, bodies, m)
    said = [line.partition("found=")[2] for line in cluster.logs[target].matching("slices on several drives found=")]
    print(f"injected: {held} slices of a drive made again, {twice} beside it, {elsewhere} at others, {len(bad)} damaged; detected: found={said}")
    assert not [path for path in bad if path.exists()], "one that is damaged was kept"
    read_all(cluster, bodies)
    check_absent(cluster, gone)


def wait_rebuilding(stage, but=None):
    logs = [stage.cluster.logs[target] for target in stage.cluster.targets() if target != but]
    wait_until(lambda: any(log.matching("repair.before_seal") for log in logs), 30, "a rebuild is under way")


def dies_and_is_back(stage, target, meanwhile):
    stage.kill(target)
    wait_rebuilding(stage, but=target)
    meanwhile()
    start(stage, target)


def is_called_back_and_then_leaves_and_joins(stage, target, meanwhile):
    """An operator takes it out, and thinks better of it in the middle; then he does it to the end."""
    cluster = stage.cluster
    does(cluster, "decommission-node", target)
    wait_rebuilding(stage)
    meanwhile()
    back = act(cluster, "stop-maintenance", target)
    assert back.status == 200, back
    does(cluster, "decommission-node", target)
    cluster.wait_exit(target, 60)
    start(stage, target)


def is_given_up_and_joins_empty(stage, target, meanwhile):
    """An operator takes it out for lost. With what it has it may not join; with empty drives it does, as another one."""
    cluster = stage.cluster
    drives = cluster.drives(target)
    stage.kill(target)
    wait_until(lambda: any(node["flags"] >= DOWN for node in stored_map(cluster)["nodes"]), 15, "it counts as down")
    Cli(cluster.endpoint).ok("node", "remove-unsafe", cluster.nodes[target]["id"], "--yes")
    wait_rebuilding(stage, but=target)
    meanwhile()
    assert "Start it with empty drives" in refusal(stage, arguments_with(stage, target))
    shutil.rmtree(stage.directory / target)
    for drive in drives:
        drive.mkdir(parents=True)
    start(stage, target)
    cluster.refresh()


@pytest.mark.parametrize("how", (dies_and_is_back, is_called_back_and_then_leaves_and_joins, is_given_up_and_joins_empty),
                         ids=lambda how: how.__name__)
def test_a_node_that_goes_and_comes_while_slices_are_made_again(make_stage, seed, how):
    """G4: no slice is there twice, none of another set, and each is where the record says."""
    rng = seeded(seed, "coded G4", how.__name__)
    # One that is given up is not waited for.
    settings = {} if how is is_given_up_and_joins_empty else {"target.out_after": "3s"}
    stage = make_returns(make_stage, 2, 1, targets=5, points=SLOW_REPAIR, drives=1, settings=settings)
    cluster = stage.cluster
    bodies = store(cluster, rng, count=30, high=200 * KIB)
    target = rng.choice(cluster.targets())
    held = held_on(cluster.drives(target))
    assert held > 0
    gone, left = [], []

    def meanwhile():
        left.append(len(what_is_wrong(cluster, bodies, 1)))
        gone.extend(change_some(cluster, rng, bodies))

    how(stage, target, meanwhile)
    wait_until_in_place(cluster, 60)
    read_all(cluster, bodies)
    check_absent(cluster, gone)
    wait_single(cluster, bodies, 1)
    print(f"injected: {target} with {held} slices {how.__name__} when {left[0]} objects were not whole yet; detected: each slice is there once")
    read_all(cluster, bodies)
    check_absent(cluster, gone)
