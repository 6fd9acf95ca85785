"""Reports of a rebuild to operators (docs/operations.md): how long it takes yet, and why objects are not whole. They name nodes
that are waited for and until when, where there is no room, which limit holds it back, and that it was stopped."""

import random
import re
import time

import pytest
from harness import attribute, client, jobs
from harness.cli import Cli
from harness.coded import slices
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until
from test_coded_repair import PROPS, read_all, wait_whole
from test_rebuild import left, make, reports, running


def waits(told, why):
    return [each for each in told["waits"] if each["why"] == why]


def held_by(cluster, target):
    """Objects with a slice there."""
    return {name for name, of_name in slices(cluster).items() if any(target in where for where in of_name.values())}


@pytest.mark.gate("rebuild")
def test_objects_that_wait_for_a_target_say_for_which_and_until_when(make_cluster):
    cluster, wanted = make(make_cluster, **{"target.out_after": "10m"})
    held = held_by(cluster, "t2")
    assert held, "nothing would wait"
    away = cluster.nodes["t2"]["id"]
    cluster.kill("t2")

    def all_wait():
        told = jobs.told(cluster, "rebuild")
        its = waits(told, "waits_for_node")
        return len(its) == 1 and its[0]["objects"] == len(held) and "down_seconds" in its[0] and its[0]

    its = wait_until(all_wait, 60, "all objects with a slice there wait for it")
    assert its["node"] == away and its["targets"], its
    assert 0 < its["down_seconds"] < 600 and its["down_seconds"] + its["out_in_seconds"] == pytest.approx(600, abs=1), its
    assert jobs.told(cluster, "rebuild")["seconds_left"] is None, "it is unknown when it is back"
    bucket = cluster.redundancy("cut")
    assert [(each["why"], each["node"], each["objects"]) for each in bucket["waits"]] == [("waits_for_node", away, len(held))], bucket
    cli = Cli(cluster.endpoint)
    many = "1 object waits" if len(held) == 1 else f"{len(held)} objects wait"
    shown = cli.ok("rebuild", "status").decode()
    assert f"{many} for t[{away}], which has been down for " in shown and re.search("; it is out in (9|10)m\n", shown), shown
    assert f"{many} for t[{away}]" in cli(*("redundancy", "cut")).stdout.decode()
    print(f"injected: t2 killed with slices of {len(held)} objects; detected: they wait for it, {its['down_seconds']:.0f} s so far")
    cluster.start("t2")
    wait_until(lambda: not jobs.told(cluster, "rebuild")["waits"] and not cluster.redundancy("cut")["waits"], 60, "nothing waits")
    read_all(cluster, wanted)


def set_config(cluster, *words):
    Cli(cluster.endpoint).ok("cluster", "config", *words)


def test_objects_that_wait_for_a_drive_say_at_which_target(make_cluster, seed):
    """A drive out of service may be back for a minute; from then on slices that lay there are missing ones."""
    cluster = make_cluster(targets=4, drives=2)
    cluster.create_bucket("cut", PROPS)
    wait_until_in_place(cluster)
    rng = random.Random(seed)
    wanted = cluster.fill("cut", 60, 50_000, rng)
    drive = max(cluster.drives("t3"), key=lambda each: len(list(attribute.slices([each]))))
    held = {said["name"] for _, said in attribute.slices([drive])}
    target = cluster.nodes["t3"]["id"]
    Cli(cluster.endpoint).ok("drive", "disable", target, drive, "--force")

    def looked_for():
        """The reasons after a further rebuild, since no report shows when t3 has looked through its drives."""
        jobs.ended(cluster, jobs.start(cluster, "rebuild"), 50)
        return waits(jobs.told(cluster, "rebuild"), "waits_for_drive")

    its = wait_until(looked_for, 50, "objects wait for the drive")
    assert [each["node"] for each in its] == [target] and 0 < its[0]["objects"] <= len(held), (its, held)
    assert f"for a drive of t[{target}] that may be back" in Cli(cluster.endpoint).ok("rebuild", "status").decode()
    print(f"injected: a drive with slices of {len(held)} objects out of service; detected: {its[0]['objects']} wait for it")

    wait_until(lambda: not waits(jobs.told(cluster, "rebuild"), "waits_for_drive"), 120, "a minute later nothing waits for it any longer")
    Cli(cluster.endpoint).ok("drive", "enable", target, drive)
    read_all(cluster, wanted)


def take_no_files(cluster, *targets):
    """From here on these take no files."""
    for target in targets:
        set_config(cluster, "set", "--node", cluster.nodes[target]["id"], "space.highwm=1", "space.out_of_space=1")


@pytest.mark.gate("rebuild")
def test_what_a_full_target_does_not_take_goes_to_another(make_cluster):
    """Slices do; the record of an object has its own targets."""
    cluster, wanted = make(make_cluster, count=24, size=60_000)
    cluster.expect_errors(r" (error|warn) ")
    before, lost = held_by(cluster, "t3"), held_by(cluster, "t2")
    assert lost - before, "t3 would get some of them"
    take_no_files(cluster, "t3")
    cluster.kill("t2")
    wait_whole(cluster, wanted, but=["t2"], seconds=120)
    assert held_by(cluster, "t3") <= before, "t3 has got nothing"
    read_all(cluster, wanted)
    print(f"injected: t3 takes no files, t2 killed with slices of {len(lost)} objects; detected: made again elsewhere")


def test_targets_without_room_are_named(make_cluster):
    """Slices that would go to them are reported with their places, and are made again once there is room."""
    cluster, wanted = make(make_cluster, count=24, size=60_000)
    cluster.expect_errors(r" (error|warn) ")
    take_no_files(cluster, "t1", "t3", "t4", "t5")
    full = cluster.nodes["t3"]["id"]
    cluster.kill("t2")

    def no_room():
        return [each for each in waits(jobs.told(cluster, "rebuild"), "no_room") if each.get("node") == full]

    (its,) = wait_until(no_room, 90, "objects find no room there")
    assert its["objects"] > 0 and jobs.told(cluster, "rebuild")["seconds_left"] is None, its
    assert f"no room at t[{full}]: add drives" in Cli(cluster.endpoint).ok("rebuild", "status").decode()
    assert ("no_room", full) in {(each["why"], each.get("node")) for each in cluster.redundancy("cut")["waits"]}
    print(f"injected: no target takes files, t2 killed; detected: {its['objects']} objects find no room at t3")
    for target in ("t1", "t3", "t4", "t5"):
        set_config(cluster, "reset", "--node", cluster.nodes[target]["id"])
    wait_whole(cluster, wanted, but=["t2"], seconds=120)
    wait_until(lambda: not jobs.told(cluster, "rebuild")["waits"], 90, "no reason is left")


@pytest.mark.gate("rebuild")
def test_a_limit_and_a_stop_are_said_to_hold_it_back(make_cluster):
    """The ceiling of rebuilds alone, below the floor, which it wins against."""
    # A slice takes five seconds: no target is done before the test has seen all.
    cluster, wanted = make(make_cluster, count=48, **{"rebuild.bandwidth_max": "64KiB", "rebuild.floor": "1MiB"})
    cluster.kill("t2")
    (job,) = wait_until(lambda: running(cluster), 60, "a job begins by itself", every=0.1)
    (its,) = wait_until(lambda: waits(jobs.told(cluster, "rebuild"), "limit"), 60, "the limit holds it back", every=0.1)
    assert its["setting"] == "rebuild.bandwidth_max", its
    seen = wait_until(lambda: [told for told in reports(cluster).values() if told["state"] == "working" and told["rate"] > 0], 60,
                      "it is measured", every=0.1)
    assert all(told["rate"] < 2 * 64 * 1024 for told in seen), seen
    wait_until(lambda: jobs.told(cluster, "rebuild")["seconds_left"], 60, "it is known how long it takes", every=0.1)

    def job_says():
        extra = [snap["ext"] for snap in jobs.snaps(cluster, job).values()]
        return extra and all(each and each["seconds_left"] > 0 for each in extra)

    wait_until(job_says, 60, "the job says it, too", every=0.1)
    cli = Cli(cluster.endpoint)
    assert "rebuild.bandwidth_max holds back t[" in cli.ok("rebuild", "status").decode()
    assert waits(cluster.redundancy("cut"), "limit")

    def gauges():
        return {target: {name: cluster.metric(target, f"tarn_rebuild_{name}", work="slices") for name in ("left_bytes", "rate", "seconds_left")}
                for target in cluster.targets() if target != "t2"}

    wait_until(lambda: any(all(its.values()) for its in gauges().values()), 60, "a target that works has it in its metrics", every=0.1)
    assert left(cluster) > 0, "it was over before it was stopped"
    assert jobs.stop(cluster, Kind="rebuild").status == 200
    assert jobs.ended(cluster, job)["aborted"]

    def stopped():
        told = jobs.told(cluster, "rebuild")
        its = waits(told, "stopped")
        return its and not waits(told, "limit") and its[0]["objects"] == left(cluster) > 0 and told["seconds_left"] is None

    wait_until(stopped, 60, "all that is left is said to be stopped")
    assert "stopped by an operator at t[" in cli.ok("rebuild", "status").decode()
    assert waits(cluster.redundancy("cut"), "stopped")
    print(f"injected: t2 killed under a ceiling, then a stop; detected: both are named, {left(cluster)} objects are left")
    set_config(cluster, "set", "rebuild.bandwidth_max=0B")
    jobs.ended(cluster, jobs.start(cluster, "rebuild"), 90)
    wait_whole(cluster, wanted, but=["t2"])
    wait_until(lambda: not jobs.told(cluster, "rebuild")["waits"], 60, "no reason is left")


def evenly_lost(cluster, target, count, size):
    """Objects that the others own, of each of them as many with a slice on the target, and how many these are."""
    rng = random.Random(5)
    wanted, lost = {}, {}
    others = [each for each in cluster.targets() if each != target]
    for owner in others:
        for name in cluster.names_owned_by(owner, "cut", count, prefix=owner):
            wanted[name] = rng.randbytes(size)
            assert cluster.put("cut", name, wanted[name]).status == 200
    held = held_by(cluster, target)
    for owner in others:
        lost[owner] = sorted(name for name in held if name.startswith(owner))
    fewest = min(map(len, lost.values()))
    for names in lost.values():
        for name in names[fewest:]:
            assert cluster.delete("cut", name).status in (200, 204)
            del wanted[name]
    return wanted, fewest * len(others)


def test_the_time_left_is_right_to_a_fifth(make_cluster):
    """The ceiling is the clock here: looked at from a quarter of the work to three quarters."""
    settings = {"target.out_after": "4s", "rebuild.bandwidth_max": "64KiB"}
    cluster = make_cluster(targets=5, drives=1, settings=settings)
    cluster.create_bucket("cut", PROPS)
    wait_until_in_place(cluster)
    wanted, lost = evenly_lost(cluster, "t2", 300, 40_000)
    assert lost >= 450, "too little would be lost"
    cluster.kill("t2")
    (job,) = wait_until(lambda: running(cluster), 60, "a job begins by itself", every=0.1)
    said = []
    while jobs.status(cluster, job)["end_time"] == 0:
        told = jobs.told(cluster, "rebuild")
        its = [each for each in told["targets"].values() if "state" in each]
        done, yet = sum(each["bytes"] for each in its), sum(each["left_bytes"] for each in its)
        if told["seconds_left"] and done + yet and all(each["state"] != "looking" for each in its):
            said.append((time.monotonic(), done / (done + yet), told["seconds_left"]))
        time.sleep(0.25)
        if yet:
            end = time.monotonic()
    within = [(at, seconds) for at, share, seconds in said if 0.25 <= share <= 0.75]
    assert len(within) >= 10, said
    wrong = [(round(end - at, 1), round(seconds, 1)) for at, seconds in within if abs(seconds - (end - at)) > 0.2 * (end - at)]
    print(f"injected: t2 killed, {lost} slices lost under a ceiling; said of {within[0][0] - end:.0f} to {within[-1][0] - end:.0f} s: "
          f"{len(within)}, of which wrong by more than a fifth {wrong}")
    assert not wrong, "(seconds that it took, seconds that were said)"
    wait_whole(cluster, wanted, but=["t2"])


def test_bytes_that_no_record_names_are_told_until_they_go(make_cluster, seed):
    """The owner dies when all slices of a new object are sealed, and no record names them. They may be all that is left of an object,
    so they stay, and are told, until the name is written: then they go."""
    cluster, wanted = make(make_cluster, count=4)
    cluster.expect_errors(r" (error|warn) ")
    its = cluster.redundancy("cut")
    assert (its["unnamed_bytes"], its["unjudged_bytes"]) == (0, 0), its
    owner = cluster.owner("cut", "broken")
    cluster.kill(owner)
    cluster.start(owner, fail_points="coded.before_record=kill")
    wait_until_in_place(cluster)
    body = random.Random(seed).randbytes(600_000)
    with pytest.raises((OSError, client.ProtocolError)):
        client.request("PUT", cluster.url("cut", "broken"), body, expect=False)
    cluster.wait_exit(owner)
    assert sorted(map(len, slices(cluster)["broken"].values())) == [1, 1, 1], "it was to die behind the last seal"
    cluster.start(owner)
    wait_until_in_place(cluster)

    def told(key, count):
        its = cluster.redundancy("cut")
        return its[f"{key}_pieces"] == count and its

    jobs.ended(cluster, jobs.start(cluster, "rebuild"), 60)  # all targets ask owners about what they have
    its = wait_until(lambda: told("unjudged", 3), 60, "the slices are told", every=0.25)
    assert 900_000 < its["unjudged_bytes"] < 910_000 and its["full"] == len(wanted), its
    print(f"injected: {owner} killed before its record; detected: {its['unjudged_bytes']} bytes that no record names")
    assert cluster.put("cut", "broken", body).status == 200
    jobs.ended(cluster, jobs.start(cluster, "rebuild"), 60)
    its = wait_until(lambda: told("unnamed", 3), 25, "they are told to go", every=0.25)
    assert 900_000 < its["unnamed_bytes"] < 910_000, its
    wanted["broken"] = body
    wait_whole(cluster, wanted, seconds=90)
    its = wait_until(lambda: told("unnamed", 0), 30, "nothing is told any longer")
    assert (its["unnamed_bytes"], its["unjudged_bytes"]) == (0, 0), its
    read_all(cluster, wanted)
