"""What has copies on other nodes is read there when a node, or a drive of one, is gone for good, or stands still (faults.md N1,
D1, A4)."""

import contextlib
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
from harness import attribute
from harness.nodes import stored_map, wait_until_home
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
    wait_until_home(stage.cluster)
    return stage


def readers(stage, seed, timeout=30):
    """Two that are redirected and two that are relayed: (what they read of each kind, the crowds)."""
    reading = [Reading(f"{seed}/{kind}", NAMES) for kind in ("direct", "relayed")]
    return reading, [Crowd([stage.client(f"{kind}{i}", [url], timeout=timeout) for i in range(2)], work).start()
                     for kind, url, work in zip(("d", "r"), (stage.cluster.endpoint, stage.cluster.relay), reading)]


def test_a_node_lost_with_its_drives_is_read_past_and_made_again_elsewhere(make_stage, seed):
    """N1: killed, and its drives destroyed. Reads go on within 3 s and writes when its lease has ended; nothing moves before it
    is out; then all copies are made again, and another node may be lost."""
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
    """A4: stopped for less than a lease, then for more. Whoever asks more than 3 s after it stopped is answered by others; nothing old
    is read, and what it acknowledges when it goes on is not lost."""
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
            wait_until_home(cluster)
    finally:
        writers.stop()
    print(f"injected: {'; '.join(said)}")
    assert failures > 0, "nobody noticed that it stood still"
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
    wait_until_home(cluster)
    wait_full(cluster, len(NAMES), "two")
    stage.check(judge, NAMES, "two")


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
def test_other_drives_take_what_is_written_while_one_is_away(make_stage, lab, seed):
    """D1: a drive of a target with two fails under writes. Its names are written on, to the other drive; back again, and with the
    other one away in its turn, it shows nothing of what was overtaken or deleted meanwhile."""
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

    restart(gone=1 - place)
    stage.look(judge, NAMES, "two")
    restart(gone=None)
    wait_until_home(cluster)
    stage.check(judge, NAMES, "two")
    on_drive = lambda path: attribute.objects([path], "two").keys()
    wait_until(lambda: not on_drive(paths[0]) & on_drive(paths[1]), 10, "what was overtaken is gone, and what lay elsewhere is home")
    print(f"injected: a drive of {target} yanked under writes; detected: {len(away)} names of it written meanwhile")


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
def test_a_write_whose_drive_goes_before_others_have_it_ends_at_once(make_stage, lab):
    """D1: nobody waits for what cannot be read back any more; the next attempt goes to the other drive."""
    stage = start(make_stage, drives=2, faulty=True)
    cluster, judge = stage.cluster, stage.client("judge", timeout=30)
    cluster.expect_errors(DRIVE_ERRORS)
    there = attribute.objects([cluster.drives("t1")[0]], "two")
    name = next(name for name in NAMES if name in there and cluster.owner("two", name) == "t1")
    stage.kill("t1")
    stage.start("t1", fail_points={"t1": "copies.send=sleep:1500"})
    wait_until_home(cluster)
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
