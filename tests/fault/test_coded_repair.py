"""Coded objects heal by themselves. Slices that are lost with a target or a file are made again elsewhere, and slices that no
record needs are dropped (docs/decisions/019, "Repair" and "Slices that no record names")."""

import os
import random

import pytest
from harness import attribute, client, jobs
from harness.admin import does
from harness.cli import Cli
from harness.coded import flip, slices
from harness.nodes import stored_map, wait_until_in_place
from harness.waiting import wait_until

KIB = 1 << 10
SLICES = 3  # of 2 + 1
PROPS = {"ec": {"enabled": True, "layout": "striped", "data_slices": 2, "parity_slices": 1, "objsize_limit": 1000}}


@pytest.fixture
def five(make_cluster):
    cluster = make_cluster(targets=5, drives=1, settings={"target.out_after": "4s"})
    cluster.create_bucket("cut", PROPS)
    wait_until_in_place(cluster)
    return cluster


def bodies(seed, count=12):
    rng = random.Random(seed)
    return {f"n-{i}": rng.randbytes(rng.randrange(1001, 400 * KIB)) for i in range(count)}


def wait_whole(cluster, names, but=(), seconds=40):
    """Until each of these has each of its slices once, on targets of their own, and nothing else is anywhere."""
    seen = []

    def whole():
        seen[:] = [slices(cluster, but)]
        return set(seen[0]) == set(names) and all(
            len(of_name) == SLICES and all(len(where) == 1 for where in of_name.values())
            and len({where[0] for where in of_name.values()}) == SLICES for of_name in seen[0].values())

    try:
        wait_until(whole, seconds, "all slices are there once", every=0.25)
    except AssertionError:
        wrong = {name: of_name for name, of_name in seen[0].items() if sorted(map(len, of_name.values())) != [1] * SLICES}
        raise AssertionError(f"missing {set(names) - set(seen[0])}, too many {set(seen[0]) - set(names)}, wrong {wrong}") from None


def wait_looked(cluster):
    """Until all targets have looked by the newest map and found all whole. The next look comes when something is known to be
    missing. So no target repairs what a test damages before the test has counted."""
    version = stored_map(cluster)["version"]

    def looked():
        told = jobs.told(cluster, "rebuild")["targets"].values()
        return len(told) == len(cluster.targets()) and all(
            each.get("state") == "whole" and int(each["map"]) >= version for each in told)

    wait_until(looked, 60, f"all targets have looked by map {version}", every=0.1)


def read_all(cluster, wanted):
    for name, body in wanted.items():
        got = wait_until(lambda: (answer := client.request("GET", cluster.url("cut", name), expect=False)).status == 200 and answer,
                         10, f"{name} is read")
        assert got.body == body, name


def test_what_a_dead_target_had_is_made_again_and_what_it_brings_back_goes(five, seed):
    wanted = bodies(seed)
    five.fill("cut", wanted, durable=True)
    held = sum("t2" in where for of_name in slices(five).values() for where in of_name.values())
    assert held > 0, "nothing would be lost"
    five.kill("t2")
    wait_whole(five, wanted, but=["t2"])
    print(f"injected: t2 killed with {held} slices; detected: all made again at others")
    read_all(five, wanted)
    # Another one: what was made again is as good as the first.
    five.kill("t4")
    wait_whole(five, wanted, but=["t2", "t4"])
    read_all(five, wanted)
    five.start("t2", "t4")
    wait_until_in_place(five)
    wait_whole(five, wanted, seconds=80)
    read_all(five, wanted)


def size_of(wanted, *names):
    return sum(len(wanted[name]) for name in names)


def damage(cluster, name, index, how):
    """Does `how` to the file of a slice; the path."""
    for path, said in attribute.slices(cluster.all_drives()):
        if said["name"] == name and said["slice"]["index"] == index:
            how(path, said)
            return path
    raise AssertionError(f"{name} has no slice {index}")


def test_what_a_reader_finds_bad_is_made_anew(five, seed):
    """A slice with a changed byte, and one whose file is gone though its entry is there."""
    five.expect_errors("slice is not what was stored")
    wanted = bodies(seed, count=4)
    five.fill("cut", wanted, durable=True)
    before = {path: os.path.getsize(path) for path, _ in attribute.slices(five.all_drives())}
    changed = damage(five, "n-0", 0, lambda path, said: flip(path, said["slice"]["file_bytes"] // 2))
    gone = damage(five, "n-1", 1, lambda path, _: os.remove(path))
    for target in five.targets():  # what is in memory was compared before
        five.kill(target)
    five.start(*five.targets())
    wait_until_in_place(five)
    # One start drops the entry of a file that is gone; the other file looks as it should.
    read_all(five, wanted)

    def mended():
        after = {path for path, _ in attribute.slices(five.all_drives())}
        return changed not in after and gone not in after and len(after) == len(before)

    wait_until(mended, 30, "both are made anew", every=0.2)
    print(f"injected: a byte of {changed}, {gone} removed; detected: both made anew")
    wait_whole(five, wanted)
    read_all(five, wanted)


def test_a_file_that_goes_while_its_target_runs_is_made_anew(five, seed):
    wanted = bodies(seed, count=4)
    five.fill("cut", wanted, durable=True)
    wait_looked(five)
    whole = five.redundancy("cut")
    assert (whole["full"], whole["coded"], whole["survives_drives"], whole["survives_nodes"]) == (4, 4, 1, 1), whole
    assert whole["full_bytes"] == size_of(wanted, *wanted) and whole["lost_names"] == [] and not whole["lost_more"], whole
    gone = [damage(five, name, index, lambda path, _: os.remove(path)) for index, name in enumerate(["n-0", "n-1", "n-2"])]
    short = five.redundancy("cut")  # looks at the files as well
    assert (short["full"], short["reduced"], short["at_risk"], short["lost"]) == (1, 3, 3, 0), short
    assert short["survives_drives"] == 0, short
    assert (short["full_bytes"], short["reduced_bytes"], short["at_risk_bytes"], short["lost_bytes"]) == (
        size_of(wanted, "n-3"), size_of(wanted, "n-0", "n-1", "n-2"), size_of(wanted, "n-0", "n-1", "n-2"), 0), short
    read_all(five, wanted)
    wait_whole(five, wanted)
    wait_until(lambda: five.redundancy("cut")["full"] == 4, 10, "all are counted as full")
    print(f"injected: {len(gone)} files removed; detected: {short}, and all made anew")
    read_all(five, wanted)


def shown(cluster, name, **labels):
    return cluster.metric("p1", name, bucket="ais://cut", **labels)


def states(cluster):
    """The numbers of objects by state, from one scrape and so from one count."""
    metrics = cluster.metrics("p1")
    return tuple(metrics.get(f'tarn_bucket_objects{{bucket="ais://cut",state="{state}"}}') for state in ("full", "reduced", "at_risk", "lost"))


def test_metrics_show_what_is_short_and_when_it_is_whole_again(five, seed):
    """No client asks for anything: the primary counts by itself."""
    assert client.request("PUT", f"{five.endpoint}/v1/cluster/set-config?redundancy.interval=1s", expect=False).status == 200
    wanted = bodies(seed, count=4)
    five.fill("cut", wanted, durable=True)
    wait_looked(five)
    wait_until(lambda: states(five) == (4, 0, 0, 0), 30, "all are counted as full", every=0.05)
    assert shown(five, "tarn_bucket_bytes", state="full") == size_of(wanted, *wanted)
    assert (shown(five, "tarn_bucket_survives_drives"), shown(five, "tarn_bucket_survives_nodes")) == (1, 1)
    assert shown(five, "tarn_bucket_counted_whole") == 1 and shown(five, "tarn_bucket_counted_seconds") < 20
    damage(five, "n-0", 1, lambda path, _: os.remove(path))
    short = wait_until(lambda: (now := states(five)) != (4, 0, 0, 0) and None not in now and now, 20, "one is counted as short", every=0.02)
    assert short == (3, 1, 1, 0), short
    wait_until(lambda: states(five) == (4, 0, 0, 0), 30, "all are counted as full again", every=0.05)
    print(f"injected: a slice removed; detected: {short} in the metrics, and full again")
    five.kill("t3")
    wait_until(lambda: shown(five, "tarn_bucket_counted_whole") == 0, 20, "a count says that it leaves something out", every=0.05)


def test_what_is_lost_is_named(five, seed):
    """More files are gone than the code can replace."""
    five.expect_errors("lost|no slice could be made")
    wanted = bodies(seed, count=3)
    five.fill("cut", wanted, durable=True)
    wait_looked(five)
    for index in (0, 2):
        damage(five, "n-1", index, lambda path, _: os.remove(path))
    lost = wait_until(lambda: (now := five.redundancy("cut"))["lost"] == 1 and now, 10, "one is lost")
    assert lost["lost_names"] == ["n-1"] and lost["full"] == 2, lost
    assert lost["lost_bytes"] == size_of(wanted, "n-1") and lost["full_bytes"] == size_of(wanted, "n-0", "n-2"), lost
    assert (lost["survives_drives"], lost["survives_nodes"]) == (0, 0), lost
    table = Cli(five.endpoint).ok("redundancy", "cut")
    assert b"lost: cut/n-1\n" in table and b"more are lost" not in table, table
    behind = client.request("GET", f"{five.endpoint}/v1/cluster?what=redundancy&provider=ais&bucket=cut&lost_after=n-1").json()["buckets"][0]
    assert behind["lost"] == 1 and behind["lost_names"] == [], behind
    assert b"lost: " not in Cli(five.endpoint).ok("redundancy", "cut", "--lost-after", "n-1")
    answer = client.request("GET", five.url("cut", "n-1"), expect=False)
    assert answer.status in (500, 503), answer
    assert client.request("HEAD", five.url("cut", "n-1")).status == 200
    assert five.put("cut", "n-1", b"x" * 5000).status == 200
    wait_until(lambda: five.redundancy("cut")["full"] == 3, 10, "what was lost is written anew")


def test_slices_move_to_one_that_joins_and_off_one_that_leaves(five, seed):
    wanted = bodies(seed, count=24)
    five.fill("cut", wanted, durable=True)
    before = slices(five)
    new = five.add_target()
    wait_until_in_place(five)
    wait_until(lambda: any(new in where for of_name in slices(five).values() for where in of_name.values()), 30, "the new one has slices")
    wait_whole(five, wanted, seconds=60)
    after = slices(five)
    moved = sum(after[name][key] != before[name][key] for name in wanted for key in before[name])
    there = sum([new] in of_name.values() for of_name in after.values())
    print(f"{moved} slices moved, {there} of {3 * len(wanted)} are at {new}")
    assert moved == there, "a join moves slices to the new one only"
    read_all(five, wanted)
    does(five, "decommission-node", "t1")
    wait_whole(five, wanted, but=["t1"], seconds=60)
    read_all(five, wanted)
    wait_until(lambda: not attribute.slices(five.drives("t1")), 60, "what left is empty")
