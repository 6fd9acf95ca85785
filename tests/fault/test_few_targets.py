"""Coded buckets on few targets (docs/decisions/019, "Few targets"): slices lie on drives of their own, and so do copies of the
record. So any m drives may die where there are fewer than m + 1 targets."""

import collections
import concurrent.futures
import os
import time

import disks
import pytest
from copies import wait_noted
from disks import seeded
from harness import attribute, client
from harness.coded import FULL_COPY, KIB, LIMIT, MIB, get, props
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until

needs_ext4 = pytest.mark.skipif(bool(disks.why_no_loop("ext4")), reason=f"{disks.why_no_loop('ext4')}")
K, M = 8, 2
SIZES = (0, 1, LIMIT, LIMIT + 1, 70 * KIB, 3 * MIB + 17)
# Log lines of a target whose drive dies.
DEAD_DRIVE = r" (error|warn) (drive|index|recovery|target|http|mirror|rebuild|scrub|copies) "


def drives_of_slices(cluster, name):
    """{drive: slices} of what lies anywhere of an object."""
    found = collections.Counter()
    for target in cluster.targets():
        for drive in cluster.drives(target):
            found[str(drive)] += sum(said["name"] == name for _, said in attribute.slices([drive]))
    return +found


def drives_of_record(cluster, name):
    return [str(drive) for target in cluster.targets() for drive in cluster.drives(target)
            if name in attribute.objects([drive], "cut")]


def listed(cluster):
    """The names of a list, which fit on a page; None while it would be incomplete."""
    answer = cluster.list_page("cut")
    assert answer.status in (200, 503), answer
    return [entry["name"] for entry in answer.json()["entries"]] if answer.status == 200 else None


def wait_survives(cluster, drives, seconds=30):
    wait_until(lambda: (said := cluster.redundancy("cut"))["complete"] and said["survives_drives"] >= drives and said["reduced"] == 0,
               seconds, f"the ledger says that any {drives} drives may go")


def read_all(cluster, wanted):
    for name, body in wanted.items():
        got = get(cluster, name)
        if got.status != 200:  # once more, as any client would
            got = get(cluster, name)
        assert got.status == 200 and got.body == body, (name, got)


@needs_ext4
@pytest.mark.parametrize("where", ("one target", "of one target", "of both"))
@pytest.mark.gate("D7 on few targets")
def test_any_m_drives_of_few_targets_may_die(make_stage, seed, where):
    rng = seeded(seed, "few targets", where)
    count, k, m = (1, 3, 2) if where == "one target" else (2, K, M)
    stage = make_stage(targets=count, drives=8, fs="ext4", size=64 * MIB)
    cluster = stage.cluster
    layout = rng.choice(("striped", "whole"))
    print(f"layout {layout}")
    cluster.create_bucket("cut", props(layout, k, m))
    wait_until_in_place(cluster)
    wanted = cluster.fill("cut", [f"n-{i:03}" for i in range(24)], SIZES, rng, durable=True)
    large = [name for name, body in wanted.items() if len(body) > LIMIT]
    for name in large[:4]:
        lies = drives_of_slices(cluster, name)
        assert max(lies.values()) == 1 and len(lies) == k + m + (layout == "whole"), lies
        assert len(drives_of_record(cluster, name)) == (3 if count == 1 else 4), "two at each of two targets"
    wait_survives(cluster, m)
    assert cluster.redundancy("cut")["survives_nodes"] == 0, "half of the slices are more than m"
    wait_noted(cluster)

    cluster.expect_errors(DEAD_DRIVE)
    die = rng.sample(stage.disks["t1"], 2) if where != "of both" else [rng.choice(stage.disks[t]) for t in ("t1", "t2")]
    for disk in die:
        disk.power_cut()
        assert disk.is_cut()
    read_all(cluster, wanted)
    absent = get(cluster, "never-written")
    assert absent.status == 404, absent

    def put(name, body):
        return client.request("PUT", cluster.url("cut", name), body, expect=False).status

    for name in ("new", large[0], "n-000"):  # one more, and overwrites
        wanted[name] = os.urandom(200 * KIB)
        wait_until(lambda: put(name, wanted[name]) == 200, 15, f"{name} is written")
    gone = large[1]
    wait_until(lambda: cluster.delete("cut", gone).status in (200, 404), 15, "a name is deleted")
    del wanted[gone]
    assert get(cluster, gone).status == 404
    read_all(cluster, wanted)
    wait_until(lambda: listed(cluster) == sorted(wanted), 15, "a list shows all, and nothing else")
    print(f"injected: {len(die)} drives {where} died; all {len(wanted)} objects were read")


@needs_ext4
def test_what_two_slices_on_one_drive_survive_is_not_said_to_be_more(make_stage, seed):
    """4 + 2 on three targets of two drives, of which one dies: five are left for six slices. The ledger says that one drive may go, and is
    not green. The owners are other targets, so that none of them loses a record."""
    rng = seeded(seed, "two slices on a drive")
    stage = make_stage(targets=3, drives=2, fs="ext4", size=64 * MIB)
    cluster = stage.cluster
    cluster.create_bucket("cut", props("striped", 4, 2))
    wait_until_in_place(cluster)
    dies = rng.choice(cluster.targets())
    dead = rng.choice(stage.disks[dies])
    names = [name for target in cluster.targets() if target != dies for name in cluster.names_owned_by(target, "cut", 5)]
    wanted = cluster.fill("cut", names, 200 * KIB, rng)
    wait_survives(cluster, 2)
    cluster.expect_errors(DEAD_DRIVE)
    held = len(attribute.slices([dead.mountpoint]))
    dead.power_cut()
    alive = [drive for drive in cluster.all_drives() if drive != dead.mountpoint]

    def lie(name):
        return collections.Counter(str(drive) for drive in alive for _, said in attribute.slices([drive]) if said["name"] == name)

    def made_again():
        return all(sum(lie(name).values()) == 6 for name in wanted)

    wait_until(made_again, 150, "what was on the dead drive is made again elsewhere", every=1)
    said = wait_until(lambda: (its := cluster.redundancy("cut"))["survives_drives"] == 1 and its["complete"] and its, 60,
                      "the ledger says that one drive may go")
    assert said["reduced"] == len(wanted) and said["at_risk"] == said["lost"] == 0, said
    worst = max(alive, key=lambda drive: max(collections.Counter(each["name"] for _, each in attribute.slices([drive])).values()))
    disk = next(disk for disk in stage.all_disks() if disk.mountpoint == worst)
    disk.power_cut()
    read_all(cluster, wanted)
    said = cluster.redundancy("cut")
    assert said["at_risk"] > 0 and said["survives_drives"] == 0, said
    print(f"injected: a drive with {held} slices died, then one with two of an object; detected: none more may go")


class Lost:
    """A bucket of 2 + 1 on four targets of two drives, of which one dies. Some objects have their record there, at the owner or at the
    other replica of the record."""

    def __init__(self, make_stage, seed):
        self.rng = seeded(seed, "records on a dead drive")
        layout = self.rng.choice(("striped", "whole"))
        print(f"layout {layout}")
        self.stage = make_stage(targets=4, drives=2, fs="ext4", size=64 * MIB)
        self.cluster = self.stage.cluster
        self.cluster.create_bucket("cut", props(layout, 2, 1))
        wait_until_in_place(self.cluster)
        self.slices = dict.fromkeys((0, 1, 2, FULL_COPY) if layout == "whole" else (0, 1, 2), 1)
        self.owned = {target: self.cluster.names_owned_by(target, "cut", 8) for target in self.cluster.targets()}
        self.wanted = {name: self.rng.randbytes(200 * KIB) for names in self.owned.values() for name in names}
        self.wanted |= {f"small-{i}": self.rng.randbytes(LIMIT) for i in range(8)}
        self.cluster.fill("cut", self.wanted)
        all_disks = [(target, disk) for target in self.cluster.targets() for disk in self.stage.disks[target]]
        self.target, self.dead = max(all_disks, key=lambda its: min(map(len, self.records(*its))))
        self.wrong = {}

    def records(self, target, disk):
        """Names of the records on it: of objects that its target owns, and others."""
        names = attribute.objects([disk.mountpoint], "cut")
        mine = [name for name in self.owned[target] if name in names]
        return mine, [name for name in names if name not in mine]

    def objects(self, drives):
        """({name: {slice: count}}, {name: records}) of what lies on these."""
        slices, records = collections.defaultdict(collections.Counter), collections.Counter()
        for drive in drives:
            for _, said in attribute.slices([drive]):
                slices[said["name"]][said["slice"]["index"]] += 1
            records.update(list(attribute.objects([drive], "cut")))
        return slices, records

    def is_whole(self, drives):
        """True if all is there, each slice and each record once, and the ledger says so, which it does not before."""
        said = self.cluster.redundancy("cut")
        green = said["complete"] and (said["full"], said["reduced"], said["at_risk"], said["lost"]) == (len(self.wanted), 0, 0, 0)
        slices, records = self.objects(drives)
        cut = {name for name, body in self.wanted.items() if len(body) > LIMIT}
        wrong = {name: (dict(slices[name]), records[name]) for name in {*slices, *records, *self.wanted}
                 if slices[name] != (self.slices if name in cut else {}) or records[name] != (2 if name in self.wanted else 0)}
        if green and said["drives_away"]:  # before its target has noticed, a drive that died is one that is there
            short = {name: its for name, its in wrong.items() if its[1] < 2 or (name in cut and not self.slices.keys() <= its[0].keys())}
            assert not short, (said, short)
        if not green:
            wrong["ledger"] = said
        self.wrong = wrong
        return not wrong

    def wait_whole(self, drives, seconds, what):
        try:
            wait_until(lambda: self.is_whole(drives), seconds, what, every=1)
        except AssertionError as late:
            raise AssertionError(self.wrong) from late


@needs_ext4
def test_objects_whose_record_lay_on_a_dead_drive_are_made_again(make_stage, seed):
    """The owner cannot see them: others give it the records once it believes the drive to be lost. When the drive is back, what it has
    is older, or there twice."""
    lost = Lost(make_stage, seed)
    cluster, dead = lost.cluster, lost.dead
    mine, others = lost.records(lost.target, dead)
    assert len(mine) > 1 and others, "nothing to lose"
    cluster.expect_errors(DEAD_DRIVE)
    dead.power_cut()
    assert dead.is_cut()
    alive = [drive for drive in cluster.all_drives() if drive != dead.mountpoint]
    read_all(cluster, lost.wanted)
    begun = time.monotonic()
    lost.wait_whole(alive, 120, "all is there again without the drive")
    said = cluster.redundancy("cut")
    assert (said["drives_away"], said["survives_drives"], said["targets_away"]) == (1, 1, []), said
    seconds = time.monotonic() - begun
    given = [line for target in cluster.targets() for line in cluster.logs[target].matching("lost records given")]
    assert given
    read_all(cluster, lost.wanted)

    gone, *changed = mine[:2] + others[:1]
    for name in changed:
        lost.wanted[name] = os.urandom(100 * KIB)
        wait_until(lambda name=name: client.request("PUT", cluster.url("cut", name), lost.wanted[name], expect=False).status == 200, 15,
                   f"{name} is written")
    wait_until(lambda: cluster.delete("cut", gone).status in (200, 404), 15, "a name is deleted")
    del lost.wanted[gone]
    read_all(cluster, lost.wanted)
    dead.remount()
    wait_until(lambda: cluster.metric(lost.target, "tarn_drive_up", drive=str(dead.mountpoint)) == 1, 30, "the drive is back")
    read_all(cluster, lost.wanted)
    assert get(cluster, gone).status == 404
    lost.wait_whole([*alive, dead.mountpoint], 120, "all is there once")
    assert cluster.redundancy("cut")["drives_away"] == 0
    read_all(cluster, lost.wanted)
    assert get(cluster, gone).status == 404
    print(f"injected: a drive died with records of {len(mine)} objects that its target owns, and {len(others)} others; detected: "
          f"{len(given)} targets gave them again, all was whole after {seconds:.0f} s, nothing old when the drive was back")


def space(path):
    its = os.statvfs(path)
    return its.f_bavail * its.f_frsize


def size_of(path):
    its = os.statvfs(path)
    return its.f_blocks * its.f_frsize


@needs_ext4
def test_a_hundred_units_fit_into_128_and_two_drives_may_die_then(make_stage, seed):
    """What 8 + 2 costs is a quarter more: where drives may be filled, nothing is kept back for slices that find no drive."""
    rng = seeded(seed, "full drives")
    settings = {"space.high_watermark": 90, "space.out_of_space": 99, "space.reserve": "1%"}
    stage = make_stage(targets=2, drives=8, fs="ext4", size=256 * MIB, settings=settings)
    cluster = stage.cluster
    cluster.create_bucket("cut", props("striped", K, M))
    wait_until_in_place(cluster)
    all_drives = cluster.all_drives()
    room = sum(space(drive) for drive in all_drives)  # 128 units
    size = 8 * MIB
    count = room * 100 // 128 // size
    bodies = {f"f-{i:04}": rng.randbytes(64) for i in range(count)}

    def body(name):
        return bodies[name] * (size // 64)

    def put(name):
        answer = client.request("PUT", cluster.url("cut", name), body(name), expect=False)
        assert answer.status == 200, (name, answer)

    with concurrent.futures.ThreadPoolExecutor(4) as workers:
        list(workers.map(put, bodies))

    def is_full():
        said = cluster.redundancy("cut")
        return (said["survives_drives"], said["survives_nodes"], said["lost"]) == (M, 0, 0)

    # A drive that was much slower than the others for a moment gets its slices now, if there is room for them.
    wait_until(is_full, 60, "all of it survives two drives, and no node", every=0.5)
    left = [space(drive) for drive in all_drives]
    print(f"{count} objects of {size} bytes in {room} bytes of drives; left {sum(left)}, on each {min(left)} to {max(left)}")
    assert sum(left) < room * 4 // 100, "100 units of data take 125 of the 128"
    fullest = 1 - min(space(drive) / size_of(drive) for drive in all_drives)
    assert 0.97 < fullest < 0.99, f"the fullest drive is {fullest:.1%} full"
    for name in rng.sample(sorted(bodies), 20):
        assert max(drives_of_slices(cluster, name).values()) == 1, "two slices on one drive die together"

    cluster.expect_errors(DEAD_DRIVE)
    die = rng.sample(stage.all_disks(), 2)
    for disk in die:
        disk.power_cut()
        assert disk.is_cut()

    def check(name):
        got = get(cluster, name)
        if got.status != 200:
            got = get(cluster, name)
        assert got.status == 200 and got.body == body(name), (name, got.status)

    with concurrent.futures.ThreadPoolExecutor(4) as workers:
        list(workers.map(check, bodies))
    print(f"injected: {[disk.name for disk in die]} died on full drives; all objects were read")
