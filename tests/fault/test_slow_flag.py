"""A drive that takes ten times as long as its siblings is said to be slow, and well again when it is (faults.md C11)."""

import time

import disks
import pytest
from disks import seeded
from harness import client
from harness.waiting import scaled, wait_until
from load import Crowd
from stage import DRIVE_ERRORS, Churn

DELAY_MS = 60


def slow_flags(stage):
    """Of all drives of t1, in their order."""
    return [stage.cluster.metric("t1", "tarn_drive_slow", drive=str(disk.mountpoint)) for disk in stage.disks["t1"]]


def notes(stage):
    """What is said of drives of t1 that are not well."""
    said = client.request("GET", stage.cluster.endpoint + "/v1/cluster?what=mountpaths").json()
    return said[stage.cluster.nodes["t1"]["id"]].get("notes", {})


@pytest.mark.skipif(bool(disks.why_no_loop("ext4") or disks.why_no_fuse()), reason="needs loop devices and FUSE")
def test_a_slow_drive_is_flagged_and_a_busy_one_is_not(make_stage, seed):
    rng = seeded(seed, "slow flag")
    stage = make_stage(targets=1, drives=3, fs="ext4", recording=True)
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    names = [f"n-{i:03}" for i in range(60)]
    churn = Churn(seed, names, sizes=(5000, 70_000, 300_000))
    crowd = Crowd([stage.client(f"c{i}", timeout=30) for i in range(4)], churn).start()
    place = rng.randrange(3)
    disk = stage.disks["t1"][place]
    log = cluster.logs["t1"]
    try:
        time.sleep(10)  # of load, which is no reason
        assert slow_flags(stage) == [0, 0, 0]
        disk.daemon.rule(f"delay any always ms={DELAY_MS}")
        begun = time.monotonic()
        wait_until(lambda: slow_flags(stage)[place] == 1, scaled(30), "the drive is said to be slow", every=0.5)
        found = time.monotonic() - begun
        delayed = sum(count for key, count in disk.daemon.stats().items() if key.startswith("delay"))
        assert delayed > 0, "the disk was not slow"
        assert sum(slow_flags(stage)) == 1, "its siblings are well"
        assert notes(stage) == {str(disk.mountpoint): "slow"}
        disk.daemon.clear()
        begun = time.monotonic()
        wait_until(lambda: slow_flags(stage) == [0, 0, 0], scaled(30), "the drive is well again", every=0.5)
        healed = time.monotonic() - begun
        assert notes(stage) == {}
    finally:
        disk.daemon.clear()
        crowd.stop()
    flagged, cleared = log.matching("drive is slow drive="), log.matching("drive is slow no more")
    print(f"injected: {delayed} requests took {DELAY_MS} ms longer; detected after {found:.1f} s, well again after {healed:.1f} s")
    assert len(flagged) == len(cleared) == 1 and str(disk.mountpoint) in flagged[0], flagged + cleared
    with stage.client("judge", timeout=30) as judge:
        stage.check(judge, names)
