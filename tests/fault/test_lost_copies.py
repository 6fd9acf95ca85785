"""Objects with copies on other nodes are read there when a node or drive is gone for good or stands still (docs/reliability.md N1, D1,
A4)."""

import collections
import contextlib
import json
import os
import shutil
import signal
import threading
import time

import disks
import pytest
from copies import ON_NODES, Reading, copies_of, files_of, put_all, wait_full
from disks import seeded
from doses import dose
from harness import attribute, jobs
from harness import client as http
from harness.nodes import stored_map, wait_until_in_place
from harness.waiting import scaled, wait_until
from history import now_ns
from load import Crowd
from machines import TERM
from stage import DRIVE_ERRORS, Churn
from workload import ERRORS, Work

NAMES = [f"o-{i:04}" for i in range(90)]
SINGLE = [f"s-{i:04}" for i in range(30)]
WRITTEN = [f"n-{i:04}" for i in range(40)]
OUT, DOWN = 1 << 17, 1 << 16


def flags_of(cluster, target):
    (flags,) = [node["flags"] for node in stored_map(cluster)["nodes"] if node["id"] == cluster.nodes[target]["id"]]
    return flags


def start(make_stage, **options):
    """A stage of three targets with NAMES in a bucket that has each object on two of them."""
    stage = make_stage(apart=True, targets=3, **options)
    stage.cluster.expect_errors(ERRORS)
    stage.cluster.create_bucket("two", ON_NODES)
    put_all([stage.client(f"f{i}") for i in range(8)], "two", NAMES, 20_000)
    wait_until_in_place(stage.cluster)
    return stage


def configure(cluster, *settings):
    answer = http.request("PUT", f"{cluster.endpoint}/v1/cluster/set-config?{'&'.join(settings)}", b"", expect=False)
    assert answer.status == 200, answer.body


def readers(stage, seed, timeout=30):
    """Two that are redirected and two that are relayed: (what they read of each kind, the crowds)."""
    reading = [Reading(f"{seed}/{kind}", NAMES) for kind in ("direct", "relayed")]
    return reading, [Crowd([stage.client(f"{kind}{i}", [url], timeout=timeout) for i in range(2)], work).start()
                     for kind, url, work in zip(("d", "r"), (stage.cluster.endpoint, stage.cluster.relay), reading)]


def test_a_node_lost_with_its_drives_is_read_past_and_made_again_elsewhere(make_stage, seed):
    """N1: killed, and its drives destroyed. Reads go on within 3 s and writes when its lease has ended. Nothing moves before it
    is out. Then all copies are made again, and another node may be lost."""
    rng = seeded(seed, "lost node")
    stage = start(make_stage, drives=1, settings={"target.out_after": "5s"})
    cluster, judge = stage.cluster, stage.client("judge", timeout=30)
    lost = rng.choice(cluster.targets())
    left = [target for target in cluster.targets() if target != lost]
    put_all([judge], "data", SINGLE, 3000)
    (alone, *_), (written, *_) = (cluster.names_owned_by(lost, bucket, 1, "of") for bucket in ("data", "two"))
    assert judge.put("data", alone, 100).status == 200
    before = files_of(cluster, set(NAMES))
    (direct, relayed), crowds = readers(stage, seed)
    try:
        since = now_ns()
        stage.kill(lost)
        for drive in cluster.drives(lost):
            shutil.rmtree(drive)
        wait_until(lambda: judge.put("two", written, 5000).status == 200, TERM + 6, "a write of a name of the lost node")
        write_gap = (now_ns() - since) / 1e9
        remain = {path: about for path, about in before.items() if path.exists()}
        moved = files_of(cluster, set(NAMES)) != remain
        assert not moved or flags_of(cluster, lost) & OUT, "something was made again for a target that is merely down"
        assert judge.get("data", alone).status == 503, "a single copy of a lost node is not gone for good"
        wait_until(lambda: flags_of(cluster, lost) & OUT, 15, "the lost node is out")
        wait_full(cluster, len(NAMES) + 1, "two")
    finally:
        for crowd in crowds:
            crowd.stop()
    read_gap = direct.last_failure(since)
    print(f"injected: {lost} and {len(before) - len(remain)} copies lost; detected: last failed read after {read_gap:.2f} s "
          f"({len(direct.failures)} of {direct.count}; {len(relayed.failures)} of {relayed.count} relayed), first write after "
          f"{write_gap:.2f} s, all copies again after {(now_ns() - since) / 1e9:.1f} s")
    assert direct.last_failure(since) <= scaled(3), direct.lines()
    assert write_gap <= scaled(TERM + 1)
    assert not relayed.failures, relayed.lines()
    assert all(sorted(targets) == left for targets in copies_of(cluster, NAMES, left).values())
    assert judge.get("data", alone).status == 503
    stage.check(judge, [*NAMES, written], "two", only=lambda op: op.bucket == "two")
    lose_another(stage, judge, seed, rng.choice(left), [*NAMES, written])


def lose_another(stage, judge, seed, second, names):
    """Killed when the copies of the first are made again: what both had once is read as before, though neither is back."""
    cluster = stage.cluster
    wait_until(lambda: all(past.get("only_for") for past in stored_map(cluster)["past"]), 15, "the lost node is not needed")
    found, crowds = readers(stage, f"{seed}/second")
    try:
        since = now_ns()
        stage.kill(second)
        wait_until(lambda: flags_of(cluster, second) & DOWN, TERM + 6, "the second node is down")
        stage.look(judge, names, "two")
    finally:
        for crowd in crowds:
            crowd.stop()
    direct, relayed = found
    print(f"injected: {second} killed as well; {len(direct.failures)} of {direct.count} reads failed, the last after "
          f"{direct.last_failure(since):.2f} s, {len(relayed.failures)} of {relayed.count} relayed")
    assert direct.last_failure(since) <= scaled(3), direct.lines()
    assert not relayed.failures, relayed.lines()
    assert cluster.names("two") == sorted(names)


def test_a_target_that_stands_still_is_read_past(make_stage, seed):
    """A4: stopped for less than a lease, then for more. Other targets answer requests that come more than 3 s after the stop. Nothing
    old is read, and what it acknowledges when it goes on is not lost."""
    rng = seeded(seed, "stopped target")
    stage = start(make_stage, drives=1)
    cluster, said, failures = stage.cluster, [], 0
    pauses = [rng.uniform(1, TERM - 0.5), rng.uniform(TERM, dose(7, 30)), *(rng.uniform(1, 30) for _ in range(dose(0, 4)))]
    writers = Crowd([stage.client(f"w{i}", timeout=TERM) for i in range(4)], Work(seed, WRITTEN)).start()
    try:
        for seconds in pauses:
            target = rng.choice(cluster.targets())
            found, crowds = readers(stage, f"{seed}/{seconds}", timeout=1)
            try:
                since = now_ns()
                os.kill(cluster.pid(target), signal.SIGSTOP)
                time.sleep(seconds)
                os.kill(cluster.pid(target), signal.SIGCONT)
            finally:
                for crowd in crowds:
                    crowd.stop()
            gap, failed = max(each.last_failure(since) for each in found), sum(len(each.failures) for each in found)
            failures += failed
            said.append(f"{target} for {seconds:.1f} s; {failed} of {sum(each.count for each in found)} reads failed, the last one was "
                        f"begun after {gap:.2f} s")
            assert gap <= scaled(3), [each.lines() for each in found]
            # Until the others have given back what they took, there are two who lack something.
            wait_until_in_place(cluster)
    finally:
        writers.stop()
    print(f"injected: {'; '.join(said)}")
    assert failures > 0, "no client noticed that it stood still"
    with stage.client("judge", timeout=30) as judge:
        stage.check(judge, NAMES, "two", only=lambda op: op.bucket == "two")
        stage.check(judge, WRITTEN, only=lambda op: op.bucket == "data")


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
def test_a_yanked_drive_hides_nothing_that_has_a_copy_elsewhere(make_stage, lab, seed):
    """D1: a drive of a target with two fails from one moment to the next. It is out within 5 s; what lay on it is read from the
    other nodes, and with the drive back all copies are there."""
    rng = seeded(seed, "yanked drive")
    stage = start(make_stage, drives=2, faulty=True)
    cluster, judge = stage.cluster, stage.client("judge", timeout=30)
    cluster.expect_errors(DRIVE_ERRORS)
    target, place = rng.choice(cluster.targets()), rng.choice([0, 1])
    drive, path = stage.disks[target][place], cluster.drives(target)[place]
    (direct, relayed), crowds = readers(stage, seed)
    try:
        since = now_ns()
        drive.kill()
        wait_until(lambda: cluster.metric(target, "tarn_drive_up", drive=str(path)) == 0, 5, "the drive is out")
        seconds = (now_ns() - since) / 1e9
        stage.look(judge, NAMES, "two")
    finally:
        for crowd in crowds:
            crowd.stop()
    print(f"injected: a drive of {target} yanked; detected: out after {seconds:.2f} s, the last of {len(direct.failures)} failed "
          f"reads of {direct.count} after {direct.last_failure(since):.2f} s, {len(relayed.failures)} of {relayed.count} relayed")
    assert direct.last_failure(since) <= scaled(5), direct.lines()
    assert not relayed.failures, relayed.lines()
    stage.kill(target)
    drive.close()
    lab.fault_fs(f"{target}again", directory=drive.directory, mountpoint=drive.mountpoint)
    stage.start(target)
    wait_until_in_place(cluster)
    wait_full(cluster, len(NAMES), "two")
    stage.check(judge, NAMES, "two")


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
def test_other_drives_take_what_is_written_while_one_is_away(make_stage, lab, seed):
    """D1: a drive of a target with two fails under writes. The other drive takes writes of its names. When it is back and the
    other one is away, it shows nothing that was overtaken or deleted meanwhile."""
    rng = seeded(seed, "yanked under writes")
    stage = start(make_stage, drives=2, faulty=True)
    cluster, judge = stage.cluster, stage.client("judge", timeout=30)
    cluster.expect_errors(DRIVE_ERRORS)
    target, place = rng.choice(cluster.targets()), rng.choice([0, 1])
    drives, paths = stage.disks[target], cluster.drives(target)
    away = sorted(attribute.objects([paths[place]], "two"))
    clients = [stage.client(f"c{i}", timeout=30) for i in range(3)]
    churned = rng.sample(NAMES, 24)
    crowd = Crowd(clients, Churn(seed, churned, bucket="two", sizes=(0, 100, 70_000))).start()
    try:
        time.sleep(rng.uniform(0.3, 1))
        drives[place].kill()
        wait_until(lambda: cluster.metric(target, "tarn_drive_up", drive=str(paths[place])) == 0, 5, "the drive is out")
        for name in away:
            wait_until(lambda: judge.put("two", name, 5000).status == 200, 10, f"{name} is written")
    finally:
        crowd.stop()
    stage.look(judge, NAMES, "two")
    there = attribute.objects([paths[1 - place]], "two").keys() & set(away)
    assert there >= set(away) - set(churned), "the other drive has the new versions"
    deleted = rng.choice(sorted(there))
    assert judge.delete("two", deleted).status == 200

    def restart(gone):
        """The target, with the drive that was away back, and maybe the other one away."""
        stage.kill(target)
        for j, drive in enumerate(drives):
            with contextlib.suppress(OSError):
                drive.close()
            if j != gone:
                drives[j] = lab.fault_fs(f"{target}d{j + 1}-{rng.random()}", directory=drive.directory, mountpoint=drive.mountpoint)
        stage.start(target, served=gone is None)

    def is_asked():
        """Looks at all names; true if the target was asked for a part of them. At first the proxy passes it over."""
        before = cluster.metric(target, "tarn_http_requests_total", method="GET") or 0
        stage.look(judge, NAMES, "two")
        return cluster.metric(target, "tarn_http_requests_total", method="GET") - before >= 20

    restart(gone=1 - place)
    wait_until(is_asked, 60, "clients are sent to the target")
    restart(gone=None)
    wait_until_in_place(cluster)
    stage.check(judge, NAMES, "two")
    on_drive = lambda path: attribute.objects([path], "two").keys()
    wait_until(lambda: not on_drive(paths[0]) & on_drive(paths[1]), 10, "what was overtaken is gone, and what lay elsewhere is in place")
    print(f"injected: a drive of {target} yanked under writes; detected: {len(away)} names of it written meanwhile")


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
def test_what_is_deleted_while_its_drive_is_away_stays_deleted(make_stage, lab, seed):
    """D1: the other drive takes the tombstones, and is asked for them after a start as well."""
    rng = seeded(seed, "deleted meanwhile")
    stage = start(make_stage, drives=2, faulty=True)
    cluster, judge = stage.cluster, stage.client("judge", timeout=30)
    cluster.expect_errors(DRIVE_ERRORS)
    target, place = rng.choice(cluster.targets()), rng.choice([0, 1])
    path = cluster.drives(target)[place]
    deleted = rng.sample(sorted(attribute.objects([path], "two")), 8)
    drive = stage.disks[target][place]
    drive.kill()
    wait_until(lambda: cluster.metric(target, "tarn_drive_up", drive=str(path)) == 0, 15, "the drive is out")
    for name in deleted:
        wait_until(lambda name=name: judge.delete("two", name).status in (200, 404), 15, f"{name} is deleted")
    stage.kill(target)
    with contextlib.suppress(OSError):
        drive.close()
    stage.disks[target][place] = lab.fault_fs(f"{target}d-back", directory=drive.directory, mountpoint=drive.mountpoint)
    assert attribute.objects([path], "two").keys() >= set(deleted), "the drive has them still"
    stage.start(target)
    for _ in range(4):  # each time at whichever replica the proxy chooses
        for name in deleted:
            assert judge.get("two", name).status == 404, name
    stage.check(judge, NAMES, "two")
    print(f"injected: a drive of {target} was away while {len(deleted)} names of it were deleted")


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
def test_a_write_whose_drive_goes_before_others_have_it_ends_at_once(make_stage, lab):
    """D1: no client waits for what can no longer be read back; the next attempt goes to the other drive."""
    stage = start(make_stage, drives=2, faulty=True)
    cluster, judge = stage.cluster, stage.client("judge", timeout=30)
    cluster.expect_errors(DRIVE_ERRORS)
    there = attribute.objects([cluster.drives("t1")[0]], "two")
    name = next(name for name in NAMES if name in there and cluster.owner("two", name) == "t1")
    stage.kill("t1")
    stage.start("t1", fail_points={"t1": "copies.send=sleep:1500"})
    wait_until_in_place(cluster)
    answer, begun = [], time.monotonic()
    writer = threading.Thread(target=lambda: answer.append(judge.put("two", name, 50_000).status), daemon=True)
    writer.start()
    time.sleep(0.7)
    assert not answer, "the write was over before the drive went"
    stage.disks["t1"][0].kill()
    writer.join()
    took = time.monotonic() - begun
    assert answer == [503] and took < scaled(6)
    wait_until(lambda: judge.put("two", name, 5000).status == 200, 10, f"{name} is written")
    stage.look(judge, NAMES, "two")
    print(f"injected: a drive yanked under a write on its way; detected: it ended after {took:.1f} s")


needs_ext4 = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")
# Log lines of a target whose drive dies.
DEAD_DRIVE = r" (error|warn) (drive|index|recovery|target|http|mirror|rebuild|scrub|copies|repair) "


def files_of_names(cluster, drives):
    """{name: {target: its generations}} of the files of bucket "two" on these drives."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for target in cluster.targets():
        for drive in cluster.drives(target):
            for raw in attribute.data_files([drive]).values() if drive in drives else []:
                said = attribute.decode(raw)
                if said["bucket"] == "two":
                    found[said["name"]][target].append(said["generation"])
    return found


def wait_twice(cluster, drives, names, seconds, what):
    """Until there is one file of each name, and of no other, at two targets, and both are of one version."""
    wrong = {}

    def twice():
        found = files_of_names(cluster, drives)
        wrong.clear()
        for name in {*names, *found}:
            its = [list(versions) for versions in found[name].values()]
            if name not in names or sorted(map(len, its)) != [1, 1] or its[0] != its[1]:
                wrong[name] = {target: list(versions) for target, versions in found[name].items()}
        return not wrong

    try:
        wait_until(twice, seconds, what, every=0.5)
    except AssertionError as late:
        raise AssertionError(f"{what}: {wrong}") from late


def copies_made(cluster):
    """{target: what it says of copies that it makes for others}"""
    return {target: told["copies"] for target, told in jobs.told(cluster, "rebuild")["targets"].items() if "copies" in told}


@needs_ext4
def test_copies_of_a_drive_that_died_are_made_again_without_an_operator(make_stage, seed):
    """D1, D6: a drive of a target with two dies. A minute later other targets make its copies on the other drive, though one of them is
    killed meanwhile, and a job shows it. When the drive is back, it brings nothing old, and nothing lies twice on a target."""
    rng = seeded(seed, "copies of a dead drive")
    slow = {f"t{i + 1}": "copies.before_give=sleep:100" for i in range(3)}
    stage = start(make_stage, drives=2, fs="ext4", size=64 << 20, fail_points=slow, settings={"rebuild.bandwidth_min": "64MiB"})
    cluster, judge = stage.cluster, stage.client("judge", timeout=30)
    cluster.expect_errors(DEAD_DRIVE)
    everywhere = [drive for target in cluster.targets() for drive in cluster.drives(target)]
    target, place = rng.choice(cluster.targets()), rng.choice([0, 1])
    dead = stage.disks[target][place]
    lost = sorted(attribute.objects([dead.mountpoint], "two"))
    alive = [drive for drive in everywhere if drive != dead.mountpoint]
    wait_twice(cluster, everywhere, set(NAMES), 10, "each object lies on two targets")
    begun = time.monotonic()
    dead.power_cut()
    assert dead.is_cut() and len(lost) > 10
    # Objects that are read before the drive is known to be dead are repaired at once: most should be left for the job.
    stage.look(judge, sorted(rng.sample(NAMES, 30)), "two")
    names = set(NAMES)
    changed, gone = lost[0], lost[1]
    wait_until(lambda: judge.put("two", changed, 30_000).status == 200, 15, f"{changed} is written")
    wait_until(lambda: judge.delete("two", gone).status in (200, 404), 15, f"{gone} is deleted")
    names.discard(gone)

    others = [each for each in cluster.targets() if each != target]
    giver = wait_until(lambda: next((each for each in others if stage.fail_point_hits(each, "copies.before_give")), None), 90,
                       "copies are made", every=0.05)
    held = files_of_names(cluster, alive)
    left = sum(len(held[name]) < 2 for name in names)
    stage.kill(giver)
    stage.start(giver, served=False)  # lists of other buckets are short without the drive
    assert left > 0, "all was made before a target was killed"
    shown = wait_until(lambda: [each for each in copies_made(cluster).values() if each["objects"] > 0], 60, "it tells of them")
    wait_twice(cluster, alive, names, 120, "each object lies on two targets again, without the drive")
    seconds = time.monotonic() - begun
    wait_until(lambda: {each["state"] for each in copies_made(cluster).values()} <= {"whole", "unknown"}, 60, "all is made")
    told = jobs.query(cluster, "status_all", kind="rebuild").json()
    assert told, "no job showed that copies were made"
    jobs.ended(cluster, told[0]["uuid"], 60)
    stage.look(judge, sorted(names), "two")

    overwritten, deleted, new = lost[2], lost[3], "o-new"
    for name in (overwritten, new):
        wait_until(lambda name=name: judge.put("two", name, 10_000).status == 200, 15, f"{name} is written")
    wait_until(lambda: judge.delete("two", deleted).status in (200, 404), 15, f"{deleted} is deleted")
    names = names - {deleted} | {new}
    dead.remount()
    wait_until(lambda: cluster.metric(target, "tarn_drive_up", drive=str(dead.mountpoint)) == 1, 30, "the drive is back")
    stage.look(judge, sorted(names), "two")
    wait_twice(cluster, everywhere, names, 120, "each object lies on two targets, once on each")
    stage.check(judge, [*NAMES, new], "two")
    wait_until(lambda: all(each["state"] == "whole" and each["left_objects"] == 0 for each in copies_made(cluster).values()), 30,
               "nothing is left to be made")
    print(f"injected: a drive of {target} with {len(lost)} copies died, {giver} killed with {left} still to be made; detected: "
          f"{max(each['objects'] for each in shown)} and more made again, all after {seconds:.0f} s; nothing old when the drive was back")


@needs_ext4
def test_a_target_whose_misplaced_copies_are_away_does_not_show_older_ones(make_stage, seed):
    """D1: a drive is away while its names are written, so that the new versions lie on the other drive. It is back and has caught up, and
    before they have moved to their place the other one dies. A third target still has the versions of before. While the last target with the
    new ones is down as well, the answer is 503."""
    rng = seeded(seed, "misplaced copies")
    stage = start(make_stage, drives=2, fs="ext4", size=64 << 20, settings={"resilver.enabled": "false"})
    cluster, judge = stage.cluster, stage.client("judge", timeout=30)
    cluster.expect_errors(DEAD_DRIVE)
    target, (place, other) = rng.choice(cluster.targets()), rng.sample([0, 1], 2)
    place, other = stage.disks[target][place], stage.disks[target][other]
    owned = attribute.objects([place.mountpoint], "two").keys() & {name for name in NAMES if cluster.owner("two", name) == target}
    replicas = copies_of(cluster, sorted(owned))
    second = replicas[min(owned)][-1] if replicas[min(owned)][0] == target else replicas[min(owned)][0]
    (third,) = set(cluster.targets()) - {target, second}
    names = sorted(name for name in owned if set(replicas[name]) == {target, second})
    drive_up = lambda disk: cluster.metric(target, "tarn_drive_up", drive=str(disk.mountpoint))
    holds = lambda node, name: name in attribute.objects(cluster.drives(node), "two")

    configure(cluster, "rebalance.enabled=false")
    stage.kill(target)
    wait_until(lambda: flags_of(cluster, target) & DOWN, TERM + 6, "the target is down")
    for name in names:
        wait_until(lambda name=name: judge.put("two", name, 3000).status == 200, 15, f"{name} is written")
    stage.start(target)
    wait_until(lambda: not flags_of(cluster, target) & DOWN, 15, "the target is up")
    place.power_cut()
    wait_until(lambda: drive_up(place) == 0, 15, "the drive is out")
    for name in names:
        wait_until(lambda name=name: judge.put("two", name, 6000).status == 200, 15, f"{name} is written once more")
    place.remount()
    wait_until(lambda: drive_up(place) == 1, 60, "the drive is back")
    ledger = lambda: json.loads((other.mountpoint / ".tarn/mirror.json").read_text())
    wait_until(lambda: not ledger()["behind"], 60, "the drive has caught up")
    on = lambda disk: attribute.objects([disk.mountpoint], "two").keys()
    assert on(other) >= set(names) and not on(place) & set(names), "the new versions have moved to their place already"
    other.power_cut()
    wait_until(lambda: drive_up(other) == 0, 15, "the other drive is out")
    assert all(holds(third, name) for name in names), "nothing old is left"
    stage.kill(second)
    wait_until(lambda: flags_of(cluster, second) & DOWN, TERM + 6, "the second target is down")
    said = {name: (judge.get("two", name).status, judge.head("two", name).status) for name in names}
    assert set(said.values()) == {(503, 503)}, said
    stage.start(second, served=False)
    stage.look(judge, names, "two", seconds=20)
    other.remount()
    wait_until(lambda: drive_up(other) == 1, 60, "the other drive is back")
    configure(cluster, "rebalance.enabled=true", "resilver.enabled=true")
    everywhere = [drive for each in cluster.targets() for drive in cluster.drives(each)]
    wait_twice(cluster, everywhere, set(NAMES), 60, "each object lies on two targets, once on each")
    wait_until(lambda: on(place) >= set(names), 60, "the new versions have moved to their place")
    wait_until(lambda: not ledger()["misplaced"], 60, "nothing is misplaced")
    stage.check(judge, NAMES, "two")
    print(f"injected: both drives of {target} died in turn, and {second} was killed; detected: nothing old of {len(names)} names")


@needs_ext4
def test_copies_are_not_made_while_rebuilds_are_stopped(make_stage, seed):
    """D1: `tarn rebuild stop` holds copies as it holds slices, and `start` makes them."""
    rng = seeded(seed, "stopped copies")
    slow = {f"t{i + 1}": "copies.before_give=sleep:1500" for i in range(3)}
    stage = start(make_stage, drives=2, fs="ext4", size=64 << 20, fail_points=slow)
    cluster = stage.cluster
    cluster.expect_errors(DEAD_DRIVE)
    target = rng.choice(cluster.targets())
    dead = rng.choice(stage.disks[target])
    alive = [drive for each in cluster.targets() for drive in cluster.drives(each) if drive != dead.mountpoint]
    dead.power_cut()
    assert dead.is_cut()
    wait_until(lambda: any(each["objects"] > 0 for each in copies_made(cluster).values()), 120, "copies are made", every=0.05)
    # The sender of a copy answers nothing meanwhile.
    wait_until(lambda: jobs.stop(cluster, Kind="rebuild").status == 200, 30, "all are told to stop")

    def has_stopped():
        targets = jobs.told(cluster, "rebuild")["targets"].values()
        return all("state" in told and (told["state"] == "stopped" or told["copies"]["state"] in ("whole", "unknown", "waiting"))
                   for told in targets)

    wait_until(has_stopped, 30, "all answer, and it has stopped")
    before = files_of_names(cluster, alive)
    left = sum(len(before[name]) < 2 for name in NAMES)
    assert left > 0, "all was made before it was stopped"
    time.sleep(3)
    assert {name: dict(its) for name, its in files_of_names(cluster, alive).items()} == {name: dict(its) for name, its in before.items()}
    job = jobs.start(cluster, "rebuild")
    wait_twice(cluster, alive, set(NAMES), 120, "each object lies on two targets again")
    jobs.ended(cluster, job, 60)
    print(f"injected: a drive of {target} died, stopped with {left} copies to be made; detected: none was made until start")
