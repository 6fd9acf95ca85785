"""The power goes while an object is written through to its upstream server (docs/reliability.md B1)."""

import concurrent.futures
import contextlib

import pytest
from harness import client
from harness.upstreams import CREDENTIALS, is_stored, make_bucket, upstream_cluster
from harness.waiting import wait_until
from stage import DRIVE_ERRORS

STEP = "write_through.after_upstream"
BUCKET = "s3://data"


def upstream_body(s3, name):
    with contextlib.suppress(s3.client.exceptions.NoSuchKey):
        return s3.client.get_object(Bucket="data", Key=name)["Body"].read()
    return None


class Cut:
    """Power cuts of a target and its drives that come when upstream has accepted a write, and before it is committed."""

    def __init__(self, stage, s3, rng):
        self.stage, self.s3, self.rng = stage, s3, rng
        self.cluster, self.disks = stage.cluster, stage.disks["t1"]

    def write(self, verb, name, body):
        """A change that gets no answer."""
        with pytest.raises((client.ProtocolError, OSError)):
            client.request(verb, self.cluster.url(BUCKET, name), body)

    def leave_unsynced(self):
        """A file on each drive that is not synced: its bytes go with the power."""
        files = [disk.mountpoint / "unsynced" for disk in self.disks]
        for file in files:
            file.write_bytes(b"unsynced" * 1000)
        return files

    def during(self, verb, name, body):
        """A cut in this write; afterwards the target is up again, with what its drives have kept."""
        self.stage.kill("t1")
        self.stage.start("t1", fail_points={"t1": f"{STEP}=sleep:600000@1"}, environment={"t1": CREDENTIALS})
        assert is_stored(self.cluster, BUCKET, name), "there is an old version that may be served"
        hits, cuts = self.stage.fail_point_hits("t1", STEP), self.cuts()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            writer = pool.submit(self.write, verb, name, body)
            wait_until(lambda: self.stage.fail_point_hits("t1", STEP) > hits, 20, "upstream has accepted it")
            unsynced = self.leave_unsynced()
            self.stage.cut_power(self.rng, self.disks, ["t1"])
            writer.result()
        for disk in self.disks:
            disk.remount()
        assert self.cuts() - cuts == len(self.disks)
        assert not any(file.exists() and file.read_bytes() for file in unsynced), "what is not synced is lost"
        assert upstream_body(self.s3, name) == body
        self.stage.start("t1", environment={"t1": CREDENTIALS})

    def cuts(self):
        return sum(disk.power_cuts for disk in self.disks)


# The mark of a write is synced before upstream is asked: without it the old version would be there, and be served.
@pytest.mark.gate("B1, of a write through")
@pytest.mark.parametrize("drives, kept", [(1, {}), (2, {"mirror": {"enabled": True, "copies": 2}})], ids=["one drive", "two copies"])
def test_what_upstream_accepted_before_the_power_went_is_read(make_stage, s3, rng, fs, drives, kept):
    stage = upstream_cluster(make_stage, s3, targets=1, drives=drives, fs=fs)
    cluster, cut = stage.cluster, Cut(stage, s3, rng)
    cluster.expect_errors(DRIVE_ERRORS)
    assert make_bucket(cluster, BUCKET, s3.url, kept).status == 200
    bodies = cluster.fill(BUCKET, ("written", "deleted", "untouched"), 100_000, rng)

    bodies["written"] = rng.randbytes(100_000)
    cut.during("PUT", "written", bodies["written"])
    assert not is_stored(cluster, BUCKET, "written"), "the old version is back"
    assert is_stored(cluster, BUCKET, "untouched")
    cut.during("DELETE", "deleted", None)
    assert not is_stored(cluster, BUCKET, "deleted"), "the old version is back"
    del bodies["deleted"]
    for _ in range(2):
        assert cluster.get(BUCKET, "deleted").status == 404
        assert cluster.bodies(BUCKET, bodies) == bodies
    print(f"injected: {cut.cuts()} drives cut off behind upstream's answers; detected: every read has what upstream has")

    # Clients send it again, as they should.
    for name in ("written", "deleted"):
        bodies[name] = rng.randbytes(100_000)
        assert cluster.put(BUCKET, name, bodies[name]).status == 200
        assert upstream_body(s3, name) == bodies[name] == cluster.get(BUCKET, name).body
