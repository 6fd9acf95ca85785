"""Coded objects (docs/decisions/019): writes and deletes that are cut short at each step, while others read through two proxies.

Slices that no record needs go within seconds here, not after half a minute: `safety.drop_later` is off everywhere.
"""

import threading
import time

import disks
import pytest
from copies import wait_settled
from disks import seeded
from harness import attribute, client
from harness.coded import props
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until
from load import Crowd
from stage import Churn

MIB = 1024 * 1024
AT_ONCE = "safety.drop_later=off"
BUCKET = "cut"
PROXIES = ("p1", "p2")
SIZES = (1001, 70_000, 300_000, MIB + 7)
WAYS = ("at once",) * 3 + ("another dies",) * 2 + ("taken over", "written")
DROPS_SECONDS = 6  # until what was told to go has gone
# Where an overwrite is cut short at the owner. Its own slice passes the points of a PUT, and after it the record.
OWNER = ("slice.upload=kill@2", "coded.before_seal=kill", "put.before_index=kill@1", "coded.one_sealed=kill@1", "coded.one_sealed=kill@3",
         "coded.before_record=kill", "copies.send=kill", "copies.given=kill", "copies.before_own=kill", "put.before_index=kill@2",
         "coded.before_drop=kill", "put.before_reply=kill")
# The same at another target with a slice and the record.
REPLICA = ("slice.written=kill", "slice.before_seal=kill", "put.before_attribute=kill@1", "put.before_index=kill@1", "slice.sealed=kill",
        "move.received=kill", "put.before_index=kill@2", "move.before_reply=kill")
FIRST = ("coded.one_sealed=kill@2", "coded.before_record=kill", "copies.given=kill", "copies.before_own=kill", "put.before_reply=kill")
DELETE = ("copies.send=kill", "copies.given=kill", "delete.before_tombstone=kill", "delete.before_unlink=kill", "delete.before_reply=kill")
PATCH = ("copies.given=kill", "copies.before_own=kill", "coded.before_drop=kill")


disks_needed = pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")


class Readers:
    """Two clients, each with a proxy of its own, that read one name all the time."""

    def __init__(self, stage, rng):
        self.name, self.draws = None, {}
        clients = []
        for proxy in PROXIES:
            clients.append(stage.client(f"reader-{proxy}", [stage.cluster.url_of(proxy)], timeout=10))
            self.draws[clients[-1]] = seeded(rng.random(), proxy)
        self.crowd = Crowd(clients, self.read).start()

    def read(self, reader):
        name, draw = self.name, self.draws[reader].random()
        if name is None:
            time.sleep(0.01)
        elif draw < 0.6:
            reader.get(BUCKET, name)
        elif draw < 0.8:
            reader.get(BUCKET, name, part=(500, 999))
        else:
            reader.head(BUCKET, name)
        time.sleep(0.01)

    def stop(self):
        self.crowd.stop()


class Steps:
    """Cuts writes short in one cluster, each under a name of its own."""

    def __init__(self, make_stage, seed, *words, layout=None, k=2, m=2, **disks_of):
        self.rng = seeded(seed, "coded steps", *words)
        layout = layout or self.rng.choice(("striped", "whole"))
        print(f"seed {seed}, layout {layout}")
        self.stage = make_stage(**{"targets": 4, "drives": 1, "meta": "etcd", "proxies": 2} | disks_of)
        self.cluster = self.stage.cluster
        self.stage.kill(*self.cluster.targets())
        self.start(*self.cluster.targets())
        self.cluster.create_bucket(BUCKET, props(layout, k, m))
        wait_until_in_place(self.cluster)
        self.judge = self.stage.client("judge", [self.cluster.url_of(proxy) for proxy in PROXIES], timeout=30)
        self.readers = Readers(self.stage, self.rng)
        self.names, self.ways, self.deck = [], [], []

    def start(self, *targets, point=""):
        """Targets that drop at once what may go, and are killed at a fail point."""
        points = ";".join(text for text in (AT_ONCE, point) if text)
        self.stage.start(*targets, fail_points={target: points for target in targets}, served=False)
        if self.cluster.running == set(self.cluster.nodes):
            self.stage.wait_served()

    def put(self, name, size=None):
        """Soon after a start a proxy may not have heard yet that a target is back."""
        wait_until(lambda: self.judge.put(BUCKET, name, size or self.rng.choice(SIZES)).status == 200, 10, f"{name} is written")

    def record_replicas(self, name):
        return [target for target in self.cluster.targets() if name in attribute.objects(self.cluster.drives(target), BUCKET)]

    def generations(self, name):
        """The generations of the record, at all targets that have it."""
        found = (attribute.objects(self.cluster.drives(target), BUCKET).get(name) for target in self.cluster.targets())
        return [said["generation"] for said in found if said]

    def cut(self, who, point, write, first=False, way=None):
        """`write(writer, name)` while the owner of the name, or another replica, is killed at `point`; what came of it."""
        name = f"n-{len(self.names):04}"
        self.names.append(name)
        owner = self.cluster.owner(BUCKET, name)
        if first:
            dies = owner
        else:
            self.put(name)
            replicas = self.record_replicas(name)
            assert owner in replicas and len(replicas) == 3, replicas
            dies = owner if who == "owner" else self.rng.choice([replica for replica in replicas if replica != owner])
        own = name if dies == owner else self.cluster.names_owned_by(dies, BUCKET, 1, prefix="probe")[0]
        wait_settled(self.cluster)  # else it would come to the point when it does what the step before has left
        self.stage.kill(dies)
        self.start(dies, point=point)
        wait_until_in_place(self.cluster)
        self.readers.name = name
        writer = self.stage.client(f"writer-{name}", timeout=30)
        done = []
        thread = threading.Thread(target=lambda: done.append(write(writer, name)), daemon=True)
        thread.start()
        self.stage.wait_gone(dies)
        assert self.stage.fail_point_hits(dies, point.split("=")[0]) > 0, f"{dies} did not end at {point}"
        self.comes_back(name, dies, own, way or self.draw_way())
        thread.join()
        self.stage.look(self.judge, [name], BUCKET, seconds=20)
        print(f"{who} {dies} killed at {point}, {self.ways[-1]}: {done[0].line()}")
        return name, done[0]

    def cut_off(self, who, point, write, first=False):
        """`write(writer, name)` while a drive of the owner of the name, or of another replica, fails at `point`; what came of it."""
        name = f"n-{len(self.names):04}"
        self.names.append(name)
        owner = self.cluster.owner(BUCKET, name)
        at = owner
        if not first:
            self.put(name)
            if who == "replica":
                at = self.rng.choice([replica for replica in self.record_replicas(name) if replica != owner])
        wait_settled(self.cluster)
        has_it = [disk for disk in self.stage.disks[at] if name in attribute.objects([disk.mountpoint], BUCKET)]
        disk = self.rng.choice(has_it or self.stage.disks[at])
        self.stage.kill(at)
        self.start(at, point=f"{point}=sleep:1000")
        wait_until_in_place(self.cluster)
        self.readers.name = name
        writer = self.stage.client(f"writer-{name}", timeout=60)
        done = []
        thread = threading.Thread(target=lambda: done.append(write(writer, name)), daemon=True)
        thread.start()
        wait_until(lambda: self.stage.fail_point_hits(at, point) > 0, 20, f"{at} has come to {point}")
        disk.power_cut()
        assert disk.is_cut()
        thread.join()
        self.stage.look(self.judge, [name], BUCKET, seconds=20)
        if self.rng.random() < 0.5:
            self.write_again(name)
        print(f"{disk.name} of {who} {at} failed at {point}: {done[0].line()}")
        self.stage.kill(at)
        disk.remount()
        self.start(at)
        wait_until_in_place(self.cluster)

    def draw_way(self):
        if not self.deck:
            self.deck = self.rng.sample(WAYS, len(WAYS))
        return self.deck.pop()

    def comes_back(self, name, dies, own, way):
        """The target that was killed, which owned `own`, in one of the ways in which others may have gone on meanwhile."""
        self.ways.append(way)
        if way in ("taken over", "written"):
            wait_until(lambda: self.owner_now(own) not in (None, dies), 30, f"another target owns {own}")
            self.stage.look(self.judge, [name], BUCKET, seconds=20)
        if way == "written":
            self.write_again(name)
        also = []
        if way == "another dies":  # before the first is back: two may be lost
            also = self.rng.sample([target for target in self.cluster.targets() if target != dies], 1)
            self.stage.kill(*also)
        self.start(dies)
        if also:
            self.stage.look(self.judge, [name], BUCKET, seconds=20)
            self.start(*also)
        wait_until_in_place(self.cluster)

    def owner_now(self, name):
        try:
            return self.cluster.owner(BUCKET, name)
        except (AssertionError, OSError):
            return None

    def write_again(self, name):
        """What was cut short blocks no later write."""
        begun = time.monotonic()
        wait_until(lambda: self.judge.put(BUCKET, name, self.rng.choice((100, *SIZES))).status == 200, 20, f"{name} is written")
        print(f"{name} is written again after {time.monotonic() - begun:.2f} s")

    def end(self):
        wait_settled(self.cluster)
        time.sleep(DROPS_SECONDS)
        self.stage.look(self.judge, self.names, BUCKET)
        self.readers.stop()
        self.stage.check(self.judge, self.names, BUCKET)


def overwrite(size):
    return lambda writer, name: writer.put(BUCKET, name, size)


def delete(writer, name):
    return writer.delete(BUCKET, name)


class Patched:
    """A change of metadata alone: what is read stays as it is."""

    def __init__(self, cluster):
        self.cluster, self.status = cluster, 0

    def __call__(self, _, name):
        try:
            url = self.cluster.url(BUCKET, name)
            self.status = client.request("PATCH", url, b'{"value": {"a": "b"}}', {"Content-Type": "application/json"}, expect=False).status
        except OSError:
            pass  # the one who answers was killed
        return self

    def line(self):
        return f"patched: {self.status}"


@pytest.mark.parametrize("who", ["owner", "replica"])
def test_overwrites_cut_short_at_every_step_show_the_old_version_or_the_new(make_stage, seed, who):
    steps = Steps(make_stage, seed, who)
    points = OWNER if who == "owner" else REPLICA
    again = []
    for point in points:
        name, op = steps.cut(who, point, overwrite(steps.rng.choice(SIZES)))
        if who == "replica" and steps.ways[-1] != "another dies":  # the others are enough
            assert op.status == 200, op.line()
        if steps.rng.random() < 0.5:
            again.append(name)
    for name in again:  # the others keep what the step left them, past all that is told to go
        steps.write_again(name)
    steps.end()
    print(f"injected: {len(points)} kills between steps")


def test_first_writes_deletes_and_changes_of_metadata_cut_short_are_done_or_not(make_stage, seed):
    steps = Steps(make_stage, seed, "first")
    again = []
    for point in FIRST:
        name, _ = steps.cut("owner", point, overwrite(steps.rng.choice(SIZES)), first=True)
        again.append(name)
    for point in DELETE:
        name, _ = steps.cut("owner", point, delete)
        again.append(name)
    for name in again[::2]:
        steps.write_again(name)
    for point in PATCH:
        steps.cut("owner", point, Patched(steps.cluster))
    steps.end()
    print(f"injected: {len(FIRST) + len(DELETE) + len(PATCH)} kills between steps")


@disks_needed
@pytest.mark.parametrize("who", ["owner", "replica"])
def test_writes_whose_drive_fails_at_every_step_show_the_old_version_or_the_new(make_stage, seed, who):
    """A7: the process lives on, and its other drive as well."""
    steps = Steps(make_stage, seed, "drive", who, drives=2, fs="ext4", faultable=True, size=96 * MIB)
    steps.cluster.expect_errors(r" (error|warn|critical) ")
    names = {point.split("=")[0] for point in (OWNER if who == "owner" else REPLICA)}
    cuts = [(point, overwrite(steps.rng.choice(SIZES)), False) for point in sorted(names)]
    if who == "owner":
        cuts += [(point.split("=")[0], overwrite(70_000), True) for point in FIRST]
    cuts += [(point.split("=")[0], delete, False) for point in DELETE if who == "owner"]
    for point, write, first in cuts:
        steps.cut_off(who, point, write, first)
    steps.end()
    print(f"injected: {len(cuts)} drives failed between steps")


def test_what_ends_before_its_record_leaves_the_old_version_whole(make_stage, seed):
    steps = Steps(make_stage, seed, "whole", layout="striped")  # the old version has nothing but its slices
    for point in ("coded.before_seal=kill", "coded.before_record=kill"):
        before = len(steps.stage.recorder.ops())
        name, _ = steps.cut("owner", point, overwrite(300_000), way="at once")
        first = next(op for op in steps.stage.recorder.ops()[before:] if op.op == "put")
        time.sleep(DROPS_SECONDS)
        ((found, _),) = steps.stage.look(steps.judge, [name], BUCKET).values()
        assert found.value == first.value, (first.line(), found.line())
    steps.end()


def test_a_version_that_is_brought_forward_is_a_commit_of_its_own(make_stage, seed):
    """Rule F: what only some replicas have does not become valid under the generation under which it was written."""
    steps = Steps(make_stage, seed, "forward")
    left = []

    def look_at_replicas(writer, name):
        op = writer.put(BUCKET, name, 300_000)
        left.append(steps.generations(name))
        return op

    name, _ = steps.cut("owner", "copies.before_own=kill", look_at_replicas, way="at once")
    wait_settled(steps.cluster)
    wait_until(lambda: len(set(steps.generations(name))) == 1 and len(steps.generations(name)) == 3, 10, "all replicas agree")
    assert steps.generations(name)[0] > max(left[0]), (left, steps.generations(name))
    steps.end()


def test_load_with_kills_loses_nothing(make_stage, seed):
    steps = Steps(make_stage, seed, "load")
    stage, cluster, rng = steps.stage, steps.cluster, steps.rng
    steps.names = [f"n-{i:04}" for i in range(10)]
    steps.readers.name = steps.names[0]
    for number in range(5):
        clients = [stage.client(f"r{number}c{i}", timeout=30) for i in range(3)]
        crowd = Crowd(clients, Churn(f"{seed}/{number}", steps.names, bucket=BUCKET, sizes=(100, 1001, 70_000, 300_000))).start()
        time.sleep(rng.uniform(0.3, 1))
        dies = rng.sample(cluster.targets(), rng.choice((1, 1, 2)))  # two are as many as may be lost
        stage.kill(*dies)
        time.sleep(rng.choice((0.1, 0.5, 6)))  # their names are written elsewhere, or they are back before that
        for target in dies:
            steps.start(target)
        time.sleep(rng.uniform(0.3, 1))
        crowd.stop()
        wait_until_in_place(cluster)
        stage.look(steps.judge, steps.names, BUCKET, seconds=20)
    steps.end()
