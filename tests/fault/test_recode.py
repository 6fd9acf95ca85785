"""Another coding for a bucket under load, while targets die (docs/decisions/019, "Changes of coding")."""

import json

import disks
import pytest
from copies import wait_full
from disks import seeded
from harness import attribute
from harness import client as http
from harness.coded import props, put_aside
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until
from latency import forget_pages
from load import Crowd
from test_coded_nemesis import wait_tidy
from workload import ERRORS, Work

NAMES = [f"k-{i:04}" for i in range(40)]
JSON = {"Content-Type": "application/json"}
PLAIN = {"ec": {"enabled": False}}


def coding(layout, k, m):
    return {"ec": props(layout, k, m)["ec"]}


def slices(value):
    ec = value["ec"]
    return ec["data_slices"] + ec["parity_slices"] + (ec["layout"] == "whole") if ec["enabled"] else 0


def ask_until(cluster, what, method, path, **body):
    """The text of the first good answer."""
    said = []

    def done():
        try:
            said[:] = [http.request(method, cluster.endpoint + path, json.dumps(body).encode(), JSON, expect=False)]
        except OSError:
            return False
        return said[0].status == 200

    wait_until(done, 60, f"{what}: {said}", every=0.1)
    return said[0]


def is_over(cluster, job):
    said = ask_until(cluster, "the job's status", "GET", "/v1/cluster?what=status", id=job).json()
    assert said["end_time"] == 0 or (said["err"] == "" and not said["aborted"]), said
    return said["end_time"] != 0


def test_the_coding_changes_under_load_while_targets_die(make_stage, seed):
    """From whole objects to slices, to others, and back: no version is lost or comes back, whichever target is killed meanwhile."""
    rng = seeded(seed, "recode")
    slow = {f"t{i}": "recode.before_read=sleep:20" for i in range(1, 6)}
    stage = make_stage(targets=5, drives=1, fail_points=slow)
    cluster = stage.cluster
    cluster.expect_errors(ERRORS)
    cluster.expect_errors(r" error (drive|repair) ")
    cluster.create_bucket("coded")
    wait_until_in_place(cluster)
    with stage.client("first", timeout=30) as first:
        for name in NAMES:
            assert first.put("coded", name, rng.choice((0, 100, 5000, 300_000))).status == 200
    steps = [coding("striped", 2, 1), coding("whole", 2, 2), coding(rng.choice(("whole", "striped")), 3, 1), PLAIN]
    crowd = Crowd([stage.client(f"c{i}", timeout=30) for i in range(4)], Work(seed, NAMES, "coded")).start()
    killed = 0
    try:
        for step in steps:
            job = ask_until(cluster, f"{step} is set", "PATCH", "/v1/buckets/coded?provider=ais", action="set-bprops", value=step).text
            victim = rng.choice(cluster.targets())
            running = not is_over(cluster, job)
            stage.kill(victim)
            stage.start(victim, served=False)
            killed += running
            wait_until(lambda of=job: is_over(cluster, of), 120, f"{step}: the job ends", every=0.2)
    finally:
        crowd.stop()
    print(f"injected: {killed} targets killed while objects were recoded, in {len(steps)} changes")
    assert killed > 0
    stage.wait_served()
    wait_tidy(cluster, slices(steps[-1]))
    with stage.client("judge", timeout=30) as judge:
        stage.check(judge, NAMES, "coded", only=lambda op: op.bucket == "coded")
    wait_full(cluster, len(cluster.names("coded")), "coded")


def slow_to_read(stage):
    """The target that has the object "a" of the bucket "cut", and its drive, whose reads of it take four seconds from here on. That is
    long enough for a PUT on a busy machine, and too short for a drive that hangs."""
    cluster = stage.cluster
    (target,) = [target for target in cluster.targets() if "a" in attribute.objects(cluster.drives(target), "cut")]
    (path,) = attribute.data_files(cluster.drives(target))
    drive = stage.disks[target][0]
    stage.kill(target)  # and with it what its process remembers
    forget_pages(path)
    stage.start(target)
    drive.rule(f"delay read {path.name} always ms=4000")
    return target, drive


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
@pytest.mark.gate("changes of coding")
def test_what_is_written_while_its_object_is_recoded_stays(make_stage, seed):
    """The owner takes long to read the old content, and meanwhile a client writes something else."""
    rng = seeded(seed, "overwritten")
    stage = make_stage(targets=2, drives=1, faulty=True)
    cluster = stage.cluster
    cluster.create_bucket("cut")
    wait_until_in_place(cluster)
    old, new = rng.randbytes(200_000), rng.randbytes(200_000)
    assert cluster.put("cut", "a", old).status == 200
    _, drive = slow_to_read(stage)
    job = ask_until(cluster, "it is to be cut", "PATCH", "/v1/buckets/cut?provider=ais", action="set-bprops", value=coding("striped", 1, 1)).text
    wait_until(lambda: drive.stats().get("delay.read", 0) > 0, 10, "it is being read")
    written = cluster.put("cut", "a", new)
    assert written.status == 200 and not is_over(cluster, job)
    wait_until(lambda: is_over(cluster, job), 60, "the job ends", every=0.2)
    got = cluster.get("cut", "a")
    print(f"injected: {drive.stats()} while it was recoded; detected: what was written meanwhile is there")
    assert got.status == 200 and got.body == new and got.headers["ETag"] == written.headers["ETag"]


@pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
@pytest.mark.gate("changes of coding")
def test_a_hand_over_does_not_wait_for_what_is_being_recoded(make_stage, seed):
    """The owner of an object that it is reading for minutes goes into maintenance: the next one takes writes of the name at
    once."""
    rng = seeded(seed, "handed over")
    stage = make_stage(targets=3, drives=1, faulty=True)
    cluster = stage.cluster
    cluster.expect_errors(ERRORS)
    cluster.create_bucket("cut")
    wait_until_in_place(cluster)
    old, new = rng.randbytes(4_000_000), rng.randbytes(200_000)
    assert cluster.put("cut", "a", old).status == 200
    target, drive = slow_to_read(stage)
    ask_until(cluster, "it is to be cut", "PATCH", "/v1/buckets/cut?provider=ais", action="set-bprops", value=coding("striped", 1, 1))
    wait_until(lambda: drive.stats().get("delay.read", 0) > 0, 10, "it is being read")
    put_aside(cluster, target)
    wait_until(lambda: cluster.owner("cut", "a") != target, 30, "another target owns it")
    read = drive.stats()["delay.read"]
    written = cluster.put("cut", "a", new)
    assert written.status == 200, written
    print(f"injected: {target} in maintenance, {read} slow reads of what it recodes; detected: {cluster.owner('cut', 'a')} takes a write")
    assert drive.stats()["delay.read"] * (128 << 10) < len(old), "it was recoded before"
    drive.clear()
    got = cluster.get("cut", "a")
    assert got.status == 200 and got.body == new and got.headers["ETag"] == written.headers["ETag"]
