"""Everything at once: a seeded schedule of joins, drains, kills, pauses, partitions and bad networks under load.

TARN_TEST_SECONDS says for how long; tests/soak asks for more than tests/run does.
"""

import os
import random
import time

import checker
import pytest
from copies import ON_NODES, wait_full, wait_settled
from harness import attribute
from harness.waiting import scaled
from load import Crowd
from nemesis import Nemesis

SECONDS = float(os.environ.get("TARN_TEST_SECONDS") or 15)
NAMES = [f"n-{i:04}" for i in range(48)]
CLIENTS = 10
# What a node may complain of while others are away.
ERRORS = r" error (cluster|target|http|proxy) "


class Work:
    """One call of a client: any of those that a bucket takes. After a failure it waits for a while, as clients do."""

    SIZES = (0, 1, 100, 4096, 70_000, 300_000)

    def __init__(self, seed, names, bucket="data"):
        self.seed, self.names, self.bucket = seed, names, bucket
        self._of = {}

    def __call__(self, client):
        op = self.once(client)
        if op.outcome in ("unknown", "failed"):
            time.sleep(random.uniform(0.01, 0.1))

    def once(self, client):
        rng, etags = self._of.setdefault(client, (random.Random(f"{self.seed}/{client.log.name}"), {}))
        name, draw, size = rng.choice(self.names), rng.random(), rng.choice(self.SIZES)
        if draw < 0.32:
            op = client.put(self.bucket, name, size)
        elif draw < 0.38:
            op = client.put(self.bucket, name, size, if_none_match=True)
        elif draw < 0.44 and name in etags:
            op = client.put(self.bucket, name, size, if_match=etags[name])
        elif draw < 0.56:
            op = client.delete(self.bucket, name)
        elif draw < 0.62:
            op = client.list(self.bucket, pagesize=rng.choice((0, 7, 20)))
        elif draw < 0.9:
            op = client.get(self.bucket, name)
        else:
            op = client.head(self.bucket, name)
        if op.etag:
            etags[name] = op.etag
        return op

    def again(self, client, op):
        """The same call once more; a PUT writes another value."""
        if op.op == "put":
            return client.put(op.bucket, op.name, op.length, op.if_none_match, op.if_match)
        return getattr(client, op.op)(op.bucket, op.name)


def judge(site, names, bucket="data", copies=1):
    """All checkers over the history and a look at the end through every proxy; where every object lies, and how often."""
    cluster = site.cluster
    if copies > 1:
        wait_settled(cluster)
    with site.clients(1, name="judge")[0] as client:
        found, listed = {}, None
        for _ in site.proxies():  # its endpoints take turns
            found = site.look(client, names, bucket, seconds=20)
        listed = client.list(bucket)
    assert listed.outcome == "done", listed.line()
    ops = site.recorder.ops()
    report = checker.check(ops, final=(bucket, found, listed))
    print(report)
    assert report.ok, str(report)
    assert report.given_up * 4 <= report.names, "too many names were only judged by the fast checker"
    if copies > 1:
        wait_full(cluster, len(listed.names), bucket)
    lies = {target: attribute.objects(cluster.drives(target), bucket) for target in cluster.targets()}
    there = sorted(name for each in lies.values() for name in each)
    assert there == sorted(entry[0] for entry in listed.names * copies), "every object lies where it should, and nothing else does"
    wrong = [name for name, _, _ in listed.names if name not in lies[cluster.owner(bucket, name)]]
    assert not wrong, f"not at home: {wrong}"
    return report, ops


# How many copies a bucket has, on as many targets. One of several copies is to be read while the target of another is down.
@pytest.mark.parametrize("copies", [1, 2])
def test_nothing_is_lost_whatever_happens_to_machines_and_network(make_site, seed, copies):
    rng = random.Random(seed)
    site = make_site(machines=7, targets=5)
    site.cluster.expect_errors(ERRORS)
    bucket = "data" if copies == 1 else site.cluster.create_bucket("copied", ON_NODES)
    first = site.map_version()
    crowd = Crowd(site.clients(CLIENTS), Work(seed, NAMES, bucket)).start()
    nemesis = Nemesis(site, rng)
    try:
        nemesis.run(SECONDS)
    finally:
        crowd.stop()
    begun = time.monotonic()
    site.wait_quiet(60)
    seconds = time.monotonic() - begun
    last = site.map_version()
    print(f"injected: {dict(nemesis.injected)}; detected: {dict(nemesis.detected)}, map versions {first} to {last}, all at home "
          f"{seconds:.1f} s after the last fault")
    report, ops = judge(site, NAMES, bucket, copies)
    done = sum(op.outcome in ("done", "absent", "precondition") for op in ops)
    print(f"{done} of {len(ops)} calls had an answer")
    # A cut link or a bad one may have had nothing to carry for as long as it was.
    seen = sum(nemesis.detected.values())
    assert seen * 3 >= sum(nemesis.injected.values()) * 2 and last > first
    assert done > 20 * SECONDS
    assert seconds <= scaled(30)
