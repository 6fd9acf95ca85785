"""Buckets with copies, seen from outside: how many copies there are, and whether readers notice what happens."""

import json
import os
import random
import time

from harness import attribute
from harness.waiting import wait_until
from load import Crowd

ON_NODES = {"mirror": {"enabled": True, "copies": 2, "domain": "node"}}


def wait_full(cluster, objects, bucket="m", seconds=30):
    """Until every object has all its copies, counted from the indexes."""
    seen = []

    def full():
        seen[:] = [cluster.redundancy(bucket)]
        return (seen[0]["full"], seen[0]["reduced"], seen[0]["lost"]) == (objects, 0, 0)

    try:
        wait_until(full, seconds, "all copies are there")
    except AssertionError:
        raise AssertionError(f"wanted {objects} full, last seen {seen}") from None


def wait_noted(cluster, seconds=60):
    """Waits until each target has noted on all of its drives which buckets are complete there. Before that a target cannot know whether an
    object's only copy is on a drive that is away. So it refuses lists, and answers no 404."""

    def noted(drive):
        ledger = drive / ".tarn/mirror.json"
        return ledger.exists() and json.loads(ledger.read_text())["complete"]

    wait_until(lambda: all(map(noted, cluster.all_drives())), seconds,
               "a pass over the copies on drives has ended", every=0.1)


def wait_settled(cluster, seconds=20):
    """Waits until every version is complete, also those that writers left pending when they died."""

    def left():
        return {target: cluster.metric(target, "tarn_copies_pending") for target in cluster.targets() if target in cluster.running}

    wait_until(lambda: not any(left().values()), seconds, "every version is complete", every=0.1)


def copies_of(cluster, names, targets=None):
    """{name: targets that have it}, of these names only, also of names that no target has."""
    found = {name: [] for name in names}
    for target in targets or cluster.targets():
        for name in attribute.objects(cluster.drives(target)):
            if name in found:
                found[name].append(target)
    return found


def files_of(cluster, names):
    """{path: (inode, when it was written)} of the data files of these objects: any that moves, or is made again, changes it."""
    found = {}
    for path, said in attribute.decoded(cluster.all_drives()).items():
        if said["name"] in names:
            about = os.stat(path)
            found[path] = (about.st_ino, about.st_mtime_ns)
    return found


def put_all(clients, bucket, names, size):
    """Stores a value of its own under each name; `clients` are load.Clients, each a thread of its own."""
    left = list(names)

    def store(client):
        op = client.put(bucket, left.pop(), size)
        assert op.status == 200, op.line()

    crowd = Crowd(clients, store, count=len(left)).start()
    crowd.join()


class Reading:
    """Reads one of some names; keeps the calls that did not give what is known to be there. A reader who got no answer
    waits for a while, as clients do."""

    def __init__(self, seed, names, bucket="two"):
        self.seed, self.names, self.bucket = seed, names, bucket
        self.failures, self.count = [], 0
        self._generators = {}

    def __call__(self, client):
        rng = self._generators.setdefault(client, random.Random(f"{self.seed}/{client.log.name}"))
        name, draw = rng.choice(self.names), rng.random()
        if draw < 0.6:
            op = client.get(self.bucket, name)
        elif draw < 0.8:
            op = client.get(self.bucket, name, part=(0, 999))
        else:
            op = client.head(self.bucket, name)
        self.count += 1
        if op.outcome != "done":
            self.failures.append(op)
            time.sleep(0.01)

    def lines(self):
        return [op.line() for op in self.failures[:10]]

    def last_failure(self, since):
        """Seconds from `since` (of history.now_ns) until the last call that failed was made; 0 without one."""
        return max([0, *(op.call - since for op in self.failures)]) / 1e9
