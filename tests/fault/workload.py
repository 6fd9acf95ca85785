"""Clients who do all that a bucket takes, or destroy and make it again, and the judge of what they saw."""

import collections
import dataclasses
import random
import time

import checker
from copies import wait_full, wait_settled
from harness import attribute
from harness.waiting import wait_until
from history import UNKNOWN, now_ns

# What a node may complain of while others are away.
ERRORS = r" error (cluster|target|http|proxy) "
# For how long something on the way, a packet or a proxy that was stopped, may still carry out a call without an answer.
LATE_NS = 60_000_000_000


class Work:
    """One call of a client: any of those that a bucket takes. After a failure it waits for a while, as clients do."""

    SIZES = (0, 1, 100, 4096, 70_000, 300_000)

    def __init__(self, seed, names, bucket="data"):
        self.seed, self.names, self.bucket = seed, names, bucket
        self._of = {}

    def __call__(self, client):
        op = self.once(client)
        if op.outcome in ("unknown", "failed", "refused"):
            time.sleep(random.uniform(0.01, 0.1))

    def once(self, client):
        rng, seen = self._of.setdefault(client, (random.Random(f"{self.seed}/{client.log.name}"), {}))
        name, draw, size = rng.choice(self.names), rng.random(), rng.choice(self.SIZES)
        etag, length = seen.get(name, ("", 0))
        if draw < 0.32:
            op = client.put(self.bucket, name, size)
        elif draw < 0.38:
            op = client.put(self.bucket, name, size, if_none_match=True)
        elif draw < 0.44 and etag:
            op = client.put(self.bucket, name, size, if_match=etag)
        elif draw < 0.56:
            op = client.delete(self.bucket, name)
        elif draw < 0.62:
            op = client.list(self.bucket, pagesize=rng.choice((0, 7, 20)))
        elif draw < 0.8:
            op = client.get(self.bucket, name)
        elif draw < 0.9 and length:
            op = client.get(self.bucket, name, part=self._part(rng, length), if_match=etag)
        else:
            op = client.head(self.bucket, name)
        if op.etag:
            seen[name] = (op.etag, op.total if op.op in ("get", "head") else op.length)
        return op

    @staticmethod
    def _part(rng, length):
        first = rng.randrange(length)
        return first, rng.randrange(first, length)

    def again(self, client, op):
        """The same call once more; a PUT writes another value."""
        if op.op == "put":
            return client.put(op.bucket, op.name, op.length, op.if_none_match, op.if_match)
        return getattr(client, op.op)(op.bucket, op.name)


class Renewing:
    """Destroys a bucket every now and then, and makes it again (docs/reliability.md L6): with single copies, or with `props`. Asks until
    the answer is certain. To the checker a bucket that is destroyed is a DELETE of every name."""

    def __init__(self, seed, names, bucket, props, every=(2.0, 8.0)):
        self.rng, self.names, self.bucket, self.props, self.every = random.Random(f"{seed}/renewing"), names, bucket, props, every
        self.destroyed = self.made = 0
        self._is_there = True
        self._next = time.monotonic() + self.rng.uniform(*every)

    def __call__(self, client):
        if time.monotonic() < self._next:
            time.sleep(0.05)
            return
        if self._is_there:
            op = client.destroy_bucket(self.bucket, self.names)
            if op.outcome in ("done", "absent"):
                self.destroyed += op.outcome == "done"
                self._is_there = False
                self._next = time.monotonic() + self.rng.choice((0, 0.3))
        elif self.make(client):
            self.made += 1
            self._next = time.monotonic() + self.rng.uniform(*self.every)
        time.sleep(0.05)

    def make(self, client):
        """True when it is there."""
        self._is_there = client.create_bucket(self.bucket, self.rng.choice((None, self.props))) in (200, 409)
        return self._is_there


@dataclasses.dataclass
class Verdict:
    """What a bucket holds at the end: `found` is {name: (GET, HEAD)}."""

    report: checker.Report
    found: dict
    objects: int


def judge(site, names, bucket="data", copies=1):
    """All checkers over the history of a bucket and a look at the end through every proxy; where every object lies, and how
    often."""
    cluster = site.cluster
    if copies > 1:
        wait_settled(cluster)
    with site.clients(1, name=f"judge-{bucket}")[0] as client:
        for _ in site.proxies():  # its endpoints take turns
            found = site.look(client, names, bucket, seconds=20)
        listed = client.list(bucket)
    assert listed.outcome == "done", listed.line()
    report = checker.check([op for op in site.recorder.ops() if op.bucket == bucket], final=(bucket, found, listed))
    print(f"{bucket}: {report}", flush=True)
    assert report.ok, str(report)
    assert report.given_up * 4 <= report.names, "too many names were only judged by the fast checker"
    if copies > 1:
        wait_full(cluster, len(listed.names), bucket)
    wait_placed(cluster, bucket, sorted(entry[0] for entry in listed.names), copies)
    return Verdict(report, found, len(listed.names))


def wait_placed(cluster, bucket, names, copies, seconds=20):
    """Waits until the drives hold so many copies of each of these names, one of them at its owner, and nothing else of the
    bucket. Files of a destroyed bucket of the same name are erased in the background."""
    found = []

    def misplaced():
        try:
            lies = {target: attribute.objects(cluster.drives(target), bucket) for target in cluster.targets()}
            owners = {name: cluster.owner(bucket, name) for name in names}
        except AssertionError as error:  # two files; a proxy that has not heard yet from a target that was stopped
            return [str(error)]
        counted = collections.Counter(name for each in lies.values() for name in each)
        wrong = [f"{name}: {counted[name]} copies" for name in {*counted, *names} if counted[name] != copies * (name in names)]
        return wrong or [f"{name} is misplaced" for name in names if name not in lies[owners[name]]]

    def placed():
        found[:] = misplaced()
        return not found

    try:
        wait_until(placed, seconds, f"{bucket} is in place", every=0.1)
    except AssertionError:
        raise AssertionError(f"{bucket}: wanted {copies} copies of each object where it belongs, found {found[:10]}") from None


def carried(ops, verdicts):
    """Returns the part of a history that is needed to judge what comes after it. That is the writes of what the judge found at
    the end, and writes whose effect no client has seen and may still come."""
    found = [get for verdict in verdicts for get, _ in verdict.found.values() if get.outcome == "done"]
    assert all(get.value is not None for get in found), [get.line() for get in found if get.value is None]
    kept = [dataclasses.replace(get, op="put", total=-1) for get in found]
    seen = {op.value for op in ops if op.op == "get"}
    late = now_ns() - LATE_NS
    return kept + [op for op in ops if op.outcome == UNKNOWN and op.call > late and not (op.op == "put" and op.value in seen)]
