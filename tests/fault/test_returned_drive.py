"""A drive that comes back after objects were overwritten and deleted on others (docs/reliability.md D5, D6)."""

import json
import random
import time

from copies import ON_NODES, put_all, wait_full
from disks import seeded
from doses import dose
from harness import attribute
from harness import client as http
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until
from load import Crowd

COPIED = [f"n-{i:05}" for i in range(dose(240, 10_000))]
SINGLE = [f"s-{i:05}" for i in range(dose(120, 2_000))]


def change(cluster, target, method, action, path, query=""):
    """One of AIStore's calls on drives."""
    body = json.dumps({"action": action, "name": "", "value": str(path)}).encode()
    return http.request(method, f"{cluster.endpoint}/v1/reverse/daemon/mountpaths{query}", body,
                        {"Ais-Node-Id": cluster.nodes[target]["id"], "Content-Type": "application/json"}, expect=False)


def attach(cluster, target, path):
    wait_until(lambda: change(cluster, target, "PUT", "attach-mp", path).status == 200, 10, "the drive is closed, and attached")


def detach(cluster, target, path):
    """Gives up what lies on it."""
    assert change(cluster, target, "DELETE", "detach-mp", path, "?dntres=true").status == 200


class Watch:
    """Reads what was changed while the drive was away; lists, and changes some of it again, where there are copies."""

    def __init__(self, seed, copied, single):
        self.seed, self.copied, self.single, self.count = seed, copied, single, 0
        self._generators = {}

    def __call__(self, client):
        rng = self._generators.setdefault(client, random.Random(f"{self.seed}/{client.log.name}"))
        draw = rng.random()
        if draw < 0.02:
            op = client.list("copied", pagesize=rng.choice((0, 100)))
        elif draw < 0.1:
            op = client.put("copied", rng.choice(self.copied[:20]), 3000)
        elif draw < 0.12:
            op = client.delete("copied", rng.choice(self.copied[:20]))
        elif draw < 0.5 and self.single:
            op = client.get("data", rng.choice(self.single))
        else:
            op = rng.choice((client.get, client.head))("copied", rng.choice(self.copied))
        self.count += 1
        if op.outcome in ("unknown", "failed"):
            time.sleep(0.01)


def delete_all(clients, bucket, names):
    left = list(names)

    def remove(client):
        op = client.delete(bucket, left.pop())
        assert op.status == 200, op.line()

    Crowd(clients, remove, count=len(left)).start().join()


def test_a_drive_that_returns_brings_nothing_old_back(make_stage, seed):
    """At no moment of its return is an old version read or listed, or a deleted object back. That holds for objects with copies
    on other targets, and for those that were written to another drive of the same target."""
    rng = seeded(seed, "returned drive")
    # Nothing moves to its place by itself: what has a single copy would go with the drive when it is given up again.
    stage = make_stage(apart=True, targets=3, drives=2, settings={"resilver.enabled": "false"})
    cluster = stage.cluster
    cluster.create_bucket("copied", ON_NODES)

    def clients(kind):
        return [stage.client(f"{kind}{i}", timeout=30) for i in range(6)]

    put_all(clients("p"), "copied", COPIED, 1000)
    put_all(clients("q"), "data", SINGLE, 1000)
    wait_until_in_place(cluster)
    target, place = rng.choice(cluster.targets()), rng.choice([0, 1])
    path = cluster.drives(target)[place]
    old = {bucket: sorted(attribute.objects([path], bucket)) for bucket in ("copied", "data")}
    detach(cluster, target, path)
    # Of what lies there a third is overwritten, another one deleted.
    kept, deleted = {}, {}
    for bucket, names in old.items():
        rng.shuffle(names)
        third = len(names) // 3
        deleted[bucket], kept[bucket] = names[:third], names[third : 2 * third]
    others = rng.sample(sorted(set(COPIED) - set(old["copied"])), len(COPIED) // 4)
    for bucket in old:
        again = kept[bucket] + deleted[bucket] + (others if bucket == "copied" else [])
        put_all(clients(f"w{bucket}"), bucket, again, 2000)
        delete_all(clients(f"x{bucket}"), bucket, deleted[bucket])

    watch = Watch(seed, kept["copied"] + deleted["copied"] + others, kept["data"] + deleted["data"])
    crowd = Crowd([stage.client(f"c{i}") for i in range(5)], watch).start()
    try:
        for turn in range(3):
            before = watch.count
            attach(cluster, target, path)
            wait_until(lambda: watch.count > before + 300, 30, "much was read")
            if turn < 2:
                detach(cluster, target, path)
    finally:
        crowd.stop()
    wait_until_in_place(cluster)
    print(f"injected: a drive of {target} with {len(kept['copied'] + kept['data'])} old and {len(deleted['copied'] + deleted['data'])} "
          f"deleted objects attached 3 times; detected: {watch.count} calls meanwhile")
    with stage.client("judge", timeout=30) as judge:
        stage.check(judge, COPIED, "copied", only=lambda op: op.bucket == "copied")
        stage.check(judge, SINGLE, "data", only=lambda op: op.bucket == "data")
    # And no double copies of what lies there (D6), once drives may give back what does not belong there.
    wait_full(cluster, len(cluster.names("copied")), "copied", seconds=dose(30, 300))
    assert http.request("PUT", f"{cluster.endpoint}/v1/cluster/set-config?resilver.enabled=true", b"", expect=False).status == 200
    drives = [drive for each in cluster.targets() for drive in cluster.drives(each)]
    wanted = 2 * len(cluster.names("copied")) + len(cluster.names("data"))
    wait_until(lambda: len(attribute.data_files(drives)) == wanted, dose(30, 300), "no file is left over", every=0.5)
