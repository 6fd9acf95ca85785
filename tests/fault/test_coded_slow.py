"""Coded objects and drives that are slow, or answer nothing: a reader takes another slice (docs/reliability.md C11, C12)."""

import itertools
import threading
import time

import disks
import pytest
from disks import seeded
from harness import attribute, client
from harness.coded import KIB, props
from harness.nodes import wait_until_in_place
from harness.waiting import scaled, wait_until
from latency import measures_time
from stage import DRIVE_ERRORS

MIB = 1 << 20
PROPS = {"ec": {"enabled": True, "layout": "striped", "data_slices": 2, "parity_slices": 2, "objsize_limit": 1000}}
SLOW_MS = 6000
needs_fuse = pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")


def sent_elsewhere(cluster, name, slow):
    """Where a proxy sends a reader whom it does not send to the slow target, which has a copy of the record maybe."""
    def look():
        location = cluster.get("cut", name, follow=False).headers["Location"]
        return None if location.startswith(cluster.url_of(slow) + "/") else location
    return wait_until(look, 5, f"a reader of {name} is not sent to {slow}")


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
def test_a_slow_drive_costs_a_reader_another_slice_and_not_its_time(make_stage, seed):
    rng = seeded(seed, "slow")
    stage = make_stage(targets=4, drives=1, faulty=True)
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    cluster.create_bucket("cut", PROPS)
    wait_until_in_place(cluster)
    bodies = cluster.fill("cut", {f"n-{i}": rng.randbytes(rng.choice((70_000, 3 * MIB))) for i in range(8)})
    slow = rng.choice(cluster.targets())
    drive = stage.disks[slow][0]
    files = {said["name"]: path for path, said in attribute.slices(cluster.drives(slow)) if said["slice"]["index"] < 2}
    assert files, "no data slice lies there"
    stage.kill(slow)  # and with it what its process remembers
    stage.start(slow)
    wait_until_in_place(cluster)

    times = {}
    for path in files.values():
        drive.rule(f"delay read {path.name} always ms={SLOW_MS}")
    for name in files:
        url, begun = sent_elsewhere(cluster, name, slow), time.monotonic()
        answer = client.request("GET", url, timeout=30)
        times[name] = time.monotonic() - begun
        assert answer.status == 200 and answer.body == bodies[name], f"{name}: {answer!r:.200}"
    late = sum(len(cluster.logs[node].matching("slice is late, a reader takes another")) for node in cluster.targets())
    print(f"injected: reads of {len(files)} slices on {slow} take {SLOW_MS} ms ({drive.stats()}); detected: {late} passed over, "
          f"the slowest GET took {max(times.values()):.2f} s")
    assert drive.stats().get("delay.read", 0) >= 1, "the drive was not slow"
    assert late >= 1
    assert max(times.values()) < scaled(SLOW_MS / 1000 / 2), times
    drive.clear()


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
@pytest.mark.parametrize("props", (PROPS, {"mirror": {"enabled": True, "domain": "node"}}), ids=("coded", "copied"))
def test_a_reader_who_waits_for_a_drive_is_sent_to_another_replica(make_stage, seed, props):
    """C11: also who needs nothing but the record of a coded object there."""
    rng = seeded(seed, "opening")
    stage = make_stage(targets=3, drives=1, faulty=True)
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    if "ec" in props:
        props = {"ec": props["ec"] | {"data_slices": 1, "parity_slices": 1}}
    cluster.create_bucket("cut", props)
    wait_until_in_place(cluster)
    bodies = cluster.fill("cut", {f"n-{i}": rng.randbytes(rng.choice((70_000, 3 * MIB))) for i in range(6)})
    slow = rng.choice(cluster.targets())
    drive = stage.disks[slow][0]
    stage.kill(slow)  # and with it what its process remembers
    stage.start(slow)
    wait_until_in_place(cluster)
    lie = [(path, attribute.decode(raw)) for path, raw in attribute.data_files(cluster.drives(slow)).items()]
    files = {said["name"]: path for path, said in lie if "slice" not in said and said["name"] in bodies}
    assert files, f"{slow} is a replica of none of them"

    times = {}
    for path in files.values():
        drive.rule(f"delay open {path.name} always ms={SLOW_MS}")
    for name in files:
        begun = time.monotonic()
        answer = client.request("GET", cluster.url_of(slow) + f"/v1/objects/cut/{name}?provider=ais", timeout=30)
        times[name] = time.monotonic() - begun
        assert answer.status == 200 and answer.body == bodies[name], f"{name}: {answer!r:.200}"
    print(f"injected: {len(files)} openings on {slow} take {SLOW_MS} ms ({drive.stats()}); the slowest GET took {max(times.values()):.2f} s")
    assert drive.stats().get("delay.open", 0) >= 1, "the drive was not slow"
    assert 0.9 < max(times.values()) < scaled(SLOW_MS / 1000 / 2), times
    drive.clear()


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
def test_a_reader_who_waits_for_a_drive_is_sent_past_a_dead_replica(make_stage, seed):
    """C11 with A1: of three replicas one waits for its drive, and another is dead and still has its lease. The third serves, whichever
    replica is asked first. When that is dead too, readers wait for the drive."""
    rng = seeded(seed, "past")
    stage = make_stage(targets=3, drives=1, faulty=True, settings={"lease.term": "60s"})
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    cluster.create_bucket("cut", {"mirror": {"enabled": True, "domain": "node", "copies": 3}})
    wait_until_in_place(cluster)
    bodies = cluster.fill("cut", 8, 70_000, rng)
    slow, dead = rng.sample(cluster.targets(), 2)
    drive = stage.disks[slow][0]
    stage.kill(slow)  # and with it what its process remembers
    stage.start(slow)
    wait_until_in_place(cluster)
    stage.kill(dead)
    for path in attribute.data_files(cluster.drives(slow)):
        drive.rule(f"delay open {path.name} always ms={SLOW_MS}")

    def seconds_of_get(name):
        begun = time.monotonic()
        answer = client.request("GET", cluster.url_of(slow) + f"/v1/objects/cut/{name}?provider=ais", timeout=30)
        assert answer.status == 200 and answer.body == bodies[name], f"{name}: {answer!r:.200}"
        return time.monotonic() - begun

    last, *names = bodies
    slowest = max(seconds_of_get(name) for name in names)
    delayed = drive.stats().get("delay.open", 0)
    (third,) = set(cluster.targets()) - {slow, dead}
    stage.kill(third)
    waited = seconds_of_get(last)
    print(f"injected: {dead} dead, {delayed} openings on {slow} take {SLOW_MS} ms; the slowest GET took {slowest:.2f} s, "
          f"{waited:.2f} s with {third} dead as well")
    assert delayed >= 1, "the drive was not slow"
    assert slowest < scaled(SLOW_MS / 1000 / 2) and waited > SLOW_MS / 2000
    drive.clear()


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
def test_a_reader_of_a_full_copy_whose_drive_stops_is_given_slices(make_stage, seed):
    """C12, layout whole: the drive stops answering in the middle of an object; the same answer goes on with slices."""
    rng = seeded(seed, "stops")
    stage = make_stage(targets=4, drives=1, faultable=True, fs="ext4", size=256 * MIB)
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    cluster.create_bucket("cut", {"ec": PROPS["ec"] | {"layout": "whole", "parity_slices": 1}})
    wait_until_in_place(cluster)
    slow = rng.choice(cluster.targets())
    (name,), body = cluster.names_owned_by(slow, "cut", 1), rng.randbytes(24 * MIB + 77)
    assert cluster.put("cut", name, body).status == 200
    disk = stage.disks[slow][0]
    (path,) = [path for path, said in attribute.slices(cluster.drives(slow)) if said["slice"]["index"] == 255]
    stage.kill(slow)  # and with it what its process remembers
    stage.start(slow)
    wait_until_in_place(cluster)
    disk.forget(path)
    first, last = disk.physical(path, 12 * MIB), disk.physical(path, 24 * MIB)
    assert last > first, "the file system has cut the file into parts"
    disk.daemon.rule(f"delay read always from={first} to={last} ms={SLOW_MS}")
    begun = time.monotonic()
    answer = client.request("GET", cluster.url_of(slow) + f"/v1/objects/cut/{name}?provider=ais", timeout=30)
    seconds = time.monotonic() - begun
    given_up = cluster.logs[slow].matching("full copy given up by a reader")
    print(f"injected: {disk.daemon.stats()} on {slow}; detected: {given_up[:1]}, the GET took {seconds:.2f} s")
    assert answer.status == 200 and answer.body == body
    assert disk.daemon.stats().get("delay.read", 0) >= 1 and len(given_up) == 1
    assert "at=0 " not in given_up[0], "it stopped in the middle"
    assert seconds < scaled(SLOW_MS / 1000 / 2)
    disk.daemon.clear()


@measures_time
@needs_fuse
@pytest.mark.parametrize("layout", ["striped", "whole"])
def test_a_drive_that_hangs_holds_up_no_reader_and_no_writer_for_longer_than_until_it_is_known(make_stage, seed, layout):
    """C12: a call that has begun on it gives no answer. Reads give up waiting for it after a second, writes with a slice there when the
    drive is known to hang. From then on no client waits, not even for what the hanging calls hold."""
    rng = seeded(seed, "hangs", layout)
    hang_after = 4
    stage = make_stage(targets=8, drives=2, fs="ext4", faultable=True, size=96 * MIB, settings={"drive.hang_after": f"{hang_after}s"})
    cluster = stage.cluster
    cluster.expect_errors(r" (error|warn|critical) ")
    cluster.create_bucket("cut", props(layout, 4, 2))
    wait_until_in_place(cluster)
    bodies = cluster.fill("cut", 120, (500, 3000, 70 * KIB, 300 * KIB), rng)
    ends, calls, unanswered, wrong = threading.Event(), [], [], []

    def timed(kind, name, body=None):
        begun = time.monotonic()
        try:
            answer = client.request("GET" if kind == "read" else "PUT", cluster.url("cut", name), body, expect=False, timeout=20)
        except TimeoutError:
            unanswered.append((kind, name, begun))
            return None
        calls.append((kind, name, begun, time.monotonic() - begun, answer.status))
        return answer

    def read(names):
        while not ends.is_set():
            for name in names:
                answer = timed("read", name)
                if answer is None or answer.status != 200 or answer.body != bodies[name]:
                    wrong.append((name, answer))

    def write(number):
        for i in itertools.count():
            if ends.is_set():
                return
            timed("write", f"w{number}-{i % 30}", bodies["n-1"] * 7)

    threads = [threading.Thread(target=read, args=(sorted(bodies)[i::3],)) for i in range(3)]
    threads += [threading.Thread(target=write, args=(i,)) for i in range(3)]
    disk = stage.disks["t5"][0]
    for thread in threads:
        thread.start()
    time.sleep(1)
    disk.daemon.stop()
    hung = time.monotonic()
    try:
        wait_until(lambda: cluster.metric("t5", "tarn_drive_up", drive=str(disk.mountpoint)) == 0, 30, "the drive is known to hang")
        known = time.monotonic()
        time.sleep(10)
    finally:
        ends.set()
        for thread in threads:
            thread.join()
        disk.daemon.cont()
    reads = [seconds for kind, _, begun, seconds, _ in calls if kind == "read" and begun > hung - 1]
    caught = [seconds for kind, _, begun, seconds, _ in calls if kind == "write" and begun < known]
    later = [(seconds, status) for kind, _, begun, seconds, status in calls if kind == "write" and begun > known]
    refused = sum(status == 503 for _, status in later)
    print(f"injected: {disk.name} hangs, known after {known - hung:.1f} s; detected: {len(reads)} reads, the slowest {max(reads):.1f} s; writes until then at most "
          f"{max(caught):.1f} s, {len(later)} after it at most {max(seconds for seconds, _ in later):.1f} s, {refused} of them refused; {len(unanswered)} without an answer")
    assert not wrong, wrong[:3]
    # A record whose commit has begun on that drive of its owner has no other place: its writer is not answered before the drive is.
    assert all(kind == "write" and begun < known and cluster.owner("cut", name) == "t5" for kind, name, begun in unanswered), unanswered
    assert max(reads) < 5, "a reader waited for the drive"
    assert max(caught) < known - hung + 5, "a writer waited for the drive when it was known to hang"
    assert max(seconds for seconds, _ in later) < 5
    assert {status for _, status in later} <= {200, 503} and refused < len(later) / 2
    read_again = {name: client.request("GET", cluster.url("cut", name)).body for name in bodies}
    assert read_again == bodies


@needs_fuse
def test_a_drive_that_hangs_in_a_drop_holds_up_no_drop_on_another(make_stage, seed):
    """C12: slices of overwritten objects go after half a minute. What was to go from the drive when it hung may stay there; its target
    goes on looking after the slices on its other drive."""
    rng = seeded(seed, "hangs in a drop")
    stage = make_stage(targets=6, drives=2, fs="ext4", faultable=True, size=96 * MIB, settings={"drive.hang_after": "15s"})
    cluster = stage.cluster
    cluster.expect_errors(r" (error|warn|critical) ")
    cluster.create_bucket("cut", props("striped", 4, 2))
    wait_until_in_place(cluster)
    batches = [[f"{batch}-{i}" for i in range(30)] for batch in range(2)]

    def put(names):
        for name in names:
            assert cluster.put("cut", name, rng.randbytes(70 * KIB)).status == 200

    def slices(drive, names):
        return [path for path, said in attribute.slices([drive]) if said["name"] in names]

    put(batches[0] + batches[1])
    disk, other = stage.disks["t5"]
    caught, to_go = slices(disk.mountpoint, batches[0]), slices(other.mountpoint, batches[1])
    assert caught and to_go, "no slices lie there"
    begun = time.monotonic()
    put(batches[0])  # their old slices go 30 to 35 s from now, when the drive hangs and is not known to
    time.sleep(max(0, begun + 20 - time.monotonic()))
    put(batches[1])
    time.sleep(max(0, begun + 27 - time.monotonic()))
    disk.daemon.stop()
    try:
        wait_until(lambda: cluster.metric("t5", "tarn_drive_up", drive=str(disk.mountpoint)) == 0, 60, "the drive is known to hang")
        known = time.monotonic() - begun
        wait_until(lambda: not any(path.exists() for path in to_go), 40, "slices on the other drive go")
        print(f"injected: {disk.name} hangs with {len(caught)} slices that were to go, known after {known:.0f} s; "
              f"detected: {len(to_go)} of the other drive went after {time.monotonic() - begun:.0f} s")
    finally:
        disk.daemon.cont()
