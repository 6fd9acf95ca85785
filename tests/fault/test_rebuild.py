"""Rebuild as a job (docs/operations.md): it begins by itself when something is lost, tells how far it is, and obeys limits. It
goes on after a restart of its driver or of a target that works, and ends when nothing is missing that can be made."""

import json
import os
import random
import time

import pytest
from harness import attribute, client, jobs
from harness.coded import put_aside, slices
from harness.nodes import stored, stored_map, wait_until_in_place
from harness.waiting import wait_until
from test_coded_repair import PROPS, read_all, wait_whole
from test_number_of_copies import ON_NODES, set_copies

MIB = 1 << 20


def make(make_cluster, count=12, size=600_000, options=None, **settings):
    cluster = make_cluster(targets=5, drives=1, settings={"target.out_after": "4s"} | settings, **options or {})
    cluster.create_bucket("cut", PROPS)
    wait_until_in_place(cluster)
    rng = random.Random(1)
    wanted = cluster.fill("cut", count, size, rng)
    return cluster, wanted


def running(cluster, kind="rebuild"):
    """Ids of the jobs of a kind that run."""
    answer = jobs.query(cluster, "status_all", kind=kind, show_active=True)
    return [each["uuid"] for each in answer.json() or []] if answer.status == 200 else []


def reports(cluster):
    return {target: told for target, told in jobs.told(cluster, "rebuild")["targets"].items() if "state" in told}


def left(cluster):
    return sum(told["left_objects"] for told in reports(cluster).values())


def test_a_lost_target_begins_a_job_that_ends_when_all_is_made(make_cluster):
    """Under a ceiling, so that it can be watched: the job shows what each target makes, bytes, rate and time left."""
    cluster, wanted = make(make_cluster, **{"rebalance.bandwidth": "256KiB", "rebuild.bandwidth_min": "0B"})
    held = sum("t2" in where for of_name in slices(cluster).values() for where in of_name.values())
    assert held > 3, "too little would be lost"
    cluster.kill("t2")
    (job,) = wait_until(lambda: running(cluster), 30, "a job begins by itself", every=0.1)
    begun = time.monotonic()
    seen = wait_until(lambda: [told for told in reports(cluster).values()
                               if told["state"] == "working" and told["rate"] > 0 and told["seconds_left"]],
                      30, "it tells how far it is", every=0.05)
    assert all(told["rate"] < 2 * 256 * 1024 and told["by_missing"] for told in seen), seen
    assert left(cluster) > 0 and jobs.status(cluster, job)["end_time"] == 0
    # A target that works for it may be gone for a while.
    cluster.kill("t4")
    cluster.start("t4")
    print(f"injected: t2 with {held} slices lost, t4 killed in the middle of the rebuild; detected: job {job} goes on")
    status = jobs.ended(cluster, job, 120)
    took = time.monotonic() - begun
    assert status["err"] == "" and not status["aborted"], status
    wait_whole(cluster, wanted, but=["t2"])
    assert left(cluster) == 0
    made = jobs.snaps(cluster, job)
    assert 0 < jobs.total(made, "loc-objs") <= held + 1, made
    assert jobs.total(made, "loc-bytes") > 0
    assert took > 1, "the ceiling was not obeyed"
    read_all(cluster, wanted)


def lose_one_and_stop(cluster):
    """t2 is killed, and the rebuild that begins is stopped: what lies where then."""
    cluster.kill("t2")
    (job,) = wait_until(lambda: running(cluster), 30, "a job begins by itself", every=0.1)
    assert jobs.stop(cluster, Kind="rebuild").status == 200
    assert jobs.ended(cluster, job)["aborted"]
    wait_until(lambda: all(told["state"] in ("stopped", "whole") for told in reports(cluster).values()), 20, "all have stopped")
    short = slices(cluster, ["t2"])
    assert any(len(of_name) < 3 for of_name in short.values()), "it was over before it was stopped"
    return short


def without_ceiling(cluster):
    answer = client.request("PUT", f"{cluster.endpoint}/v1/cluster/set-config?rebalance.bandwidth=0B", expect=False)
    assert answer.status == 200


def test_a_rebuild_is_stopped_and_started(make_cluster):
    """The stop holds though a newer map comes, by which no target has walked yet."""
    cluster, wanted = make(make_cluster, **{"rebalance.bandwidth": "64KiB", "rebuild.bandwidth_min": "0B"})
    cluster.create_bucket("two", {"mirror": ON_NODES | {"copies": 2}})
    short = lose_one_and_stop(cluster)
    before = stored_map(cluster)["version"]
    set_copies(cluster, "p1", 3)
    wait_until(lambda: stored_map(cluster)["version"] > before, 20, "there is another map")
    time.sleep(3)
    assert slices(cluster, ["t2"]) == short and not running(cluster), "something goes on"
    assert all(told["state"] in ("stopped", "whole") for told in reports(cluster).values())
    print(f"injected: maps {before + 1} to {stored_map(cluster)['version']} behind a stop; detected: it holds")
    without_ceiling(cluster)
    job = jobs.start(cluster, "rebuild")
    status = jobs.ended(cluster, job, 60)
    assert status["err"] == "" and not status["aborted"], status
    wait_whole(cluster, wanted, but=["t2"])
    # With nothing missing it ends at once, and has made nothing.
    job = jobs.start(cluster, "rebuild")
    jobs.ended(cluster, job, 20)
    assert jobs.total(jobs.snaps(cluster, job), "loc-objs") == 0


def test_a_new_target_does_not_wait_for_repairs_under_way(make_cluster):
    """A name is handed over while its slices are being made again, though that takes minutes."""
    cluster, wanted = make(make_cluster, count=40, size=2 * MIB, **{"rebuild.bandwidth_max": "32KiB"})
    cluster.kill("t2")
    wait_until(lambda: any(told["state"] == "working" and told["rate"] > 0 for told in reports(cluster).values()), 30, "slices are being made")
    cluster.add_target()
    taken = wait_until(lambda: [name for name in wanted if cluster.owner("cut", name) == "t6"], 30, "some names are those of t6")
    assert sum(told["objects"] for told in reports(cluster).values()) == 0, "nothing was being made that took longer"
    for name in taken:
        wanted[name] = wanted[name][::-1]
        answer = cluster.put("cut", name, wanted[name])
        assert answer.status == 200, f"{name}: {answer!r:.300}"
    told = r"object not made whole .*the name has another owner by now"
    wait_until(lambda: any(log.matching(told) for log in cluster.logs.values()), 60, "what is made for names of t6 ends before all is copied")
    print(f"injected: t2 is lost, t6 joins while {left(cluster)} objects are short; detected: t6 has taken writes of {len(taken)} of them")
    answer = client.request("PUT", f"{cluster.endpoint}/v1/cluster/set-config?rebuild.bandwidth_max=0B", expect=False)
    assert answer.status == 200
    wait_whole(cluster, wanted, but=["t2"], seconds=60)
    read_all(cluster, wanted)


def test_a_stop_is_over_when_more_is_lost(make_cluster):
    """Here a target in maintenance: the operator need not remember the stop."""
    cluster, wanted = make(make_cluster, **{"rebalance.bandwidth": "64KiB", "rebuild.bandwidth_min": "0B"})
    lose_one_and_stop(cluster)
    without_ceiling(cluster)
    put_aside(cluster, "t4")
    wait_whole(cluster, wanted, but=["t2"])
    wait_until(lambda: any(log.matching("more is lost") for log in cluster.logs.values()), 10, "a log says so")
    print("injected: t4 in maintenance after a stop; detected: it is over, all slices are made again")
    read_all(cluster, wanted)


def store_wide(cluster, seed, count, size):
    """Stores `count` objects of 2 + 2."""
    cluster.create_bucket("cut", {"ec": PROPS["ec"] | {"parity_slices": 2}})
    wait_until_in_place(cluster)
    rng = random.Random(seed)
    return cluster.fill("cut", [f"n-{i:03}" for i in range(count)], size, rng)


def lose_slices(cluster, target):
    """Removes the files of a target's slices and restarts it. Returns how many there were."""
    cluster.kill(target)
    files = [path for path, _ in attribute.slices(cluster.drives(target))]
    for path in files:
        os.remove(path)
    cluster.start(target)
    return len(files)


def test_what_a_second_loss_endangers_does_not_wait_for_what_the_first_began(make_cluster, seed):
    """Under a ceiling that makes a rebuild long, a target dies, and then another one loses what its drive had. Targets interrupt the
    repair of objects that survive one more loss, and first repair those that survive none."""
    settings = {"target.out_after": "2s", "rebalance.bandwidth": "32KiB", "rebuild.bandwidth_min": "0B"}
    cluster = make_cluster(targets=6, drives=1, settings=settings)
    cluster.expect_errors(r" (error|warn) (recovery|drive|target|http|repair) ")
    wanted = store_wide(cluster, seed, 240, 100_000)
    cluster.kill("t2")
    others = {cluster.nodes[target]["id"] for target in cluster.targets()} - {cluster.nodes["t2"]["id"], cluster.nodes["t4"]["id"]}

    def busy():
        told = {target: its for target, its in reports(cluster).items() if target in others}
        return len(told) == len(others) and all(its["state"] == "working" and its["left_objects"] > 8 for its in told.values()) and told

    before = wait_until(busy, 60, "all make again what t2 had", every=0.1)
    gone = lose_slices(cluster, "t4")
    first, last = {}, {}

    def endangered_are_made():
        for target, its in reports(cluster).items():
            twice, once = its["by_missing"].get("2", 0), its["by_missing"].get("1", 0)
            look = its["map"], its["looks"]  # another one counts other objects: names go back to t4
            if target not in others or its["state"] != "working" or (target not in first and not twice):
                continue
            if target not in first or first[target][0] != look:
                first[target], last[target] = (look, twice, once, its), (twice, once)
            if last[target][0]:  # not those after them
                last[target] = twice, once
        return set(first) == others and all(first[target][1] - last[target][0] >= min(4, first[target][1]) for target in others)

    wait_until(endangered_are_made, 90, "objects that survive no further loss are repaired", every=0.05)
    for target in others:
        _, twice, once, its = first[target]
        had = before[target]["left_objects"]
        print(f"{target}: {had} left after the first loss, {twice} of two after the second, {once} of one; then {last[target]}")
        assert once - last[target][1] < 4, "others were repaired before those that survive no further loss"
        assert its["objects"] - before[target]["objects"] < had, "what the first loss began was ended first"
    print(f"injected: t2 killed, {gone} slices of t4 gone; detected: those that lost two slices are made first")
    answer = client.request("PUT", f"{cluster.endpoint}/v1/cluster/set-config?rebalance.bandwidth=0B", expect=False)
    assert answer.status == 200

    def whole():
        there = slices(cluster, ["t2"])
        return all(sorted(map(len, there.get(name, {}).values())) == [1] * 4 for name in wanted)

    wait_until(whole, 60, "all slices are there once", every=0.5)
    read_all(cluster, wanted)


def test_a_scrub_goes_on_when_the_proxy_that_drives_it_dies(make_cluster, seed):
    """The proxy that drives a scrub is killed in the middle. The other one goes on with the same job, and no drive begins
    anew."""
    cluster = make_cluster(targets=3, drives=1, proxies=2, meta="etcd", settings={"scrub.bandwidth": "1MiB"})
    rng = random.Random(seed)
    for target in cluster.targets():  # as many for each: by the ids of nodes, which are random, one may own hardly any name
        for name in cluster.names_owned_by(target, "data", 8):
            assert cluster.put("data", name, rng.randbytes(512 * 1024)).status == 200

    def drives():
        answer = client.request("GET", f"{cluster.url_of('p2')}/v1/cluster?what=scrub").json()["targets"]
        return {path: drive for target in answer.values() for path, drive in target["drives"].items()}

    def ended(job):
        body = f'{{"id":"{job}"}}'.encode()
        answer = client.request("GET", f"{cluster.url_of('p2')}/v1/cluster?what=status", body, jobs.JSON, expect=False)
        return answer.status == 200 and answer.json()["end_time"] != 0 and answer.json()

    job = jobs.start(cluster, "scrub")
    before = wait_until(lambda: (seen := drives()) and all(drive["files"] > 1 for drive in seen.values()) and seen, 30,
                        "all drives have begun", every=0.05)
    assert any(drive["running"] for drive in before.values()), f"it was over before the proxy died: {before}"
    cluster.kill("p1")
    status = wait_until(lambda: ended(job), 90, "the job ends, driven by the other proxy")
    assert status["err"] == "" and not status["aborted"], status
    after = drives()
    for path, drive in before.items():
        # A drive that had ended by then has no present pass: when its pass began is what it has verified, and stays so.
        began = drive["began_ns"] if drive["running"] else drive["verified_ns"]
        its = (after[path]["job"], after[path]["running"], after[path]["verified_ns"])
        assert its == (job, False, began), f"{path} has done the pass that it had begun, to its end; {drive} became {after[path]}"
    print(f"injected: p1 killed behind {[drive['files'] for drive in before.values()]} files; detected: job {job} ends at p2")
    cluster.start("p1")


def test_a_rebuild_goes_on_when_the_proxy_that_shows_it_dies(make_cluster):
    """Targets make what is missing whichever proxy drives the job, and another proxy goes on with it."""
    cluster, wanted = make(make_cluster, options={"meta": "etcd", "proxies": 2}, **{"rebalance.bandwidth": "64KiB", "rebuild.bandwidth_min": "0B"})
    cluster.kill("t2")
    (job,) = wait_until(lambda: running(cluster), 60, "a job begins by itself", every=0.1)
    shows = wait_until(lambda: json.loads(stored(cluster, f"/tarn-jobs/job/{job}")[0])["driver"], 30, "a proxy shows it", every=0.1)
    (proxy,) = [name for name in ("p1", "p2") if cluster.nodes[name]["id"] == shows]
    (other,) = {"p1", "p2"} - {proxy}
    cluster.kill(proxy)
    cluster.endpoint = cluster.url_of(other)
    began = left(cluster)
    assert began > 0, "it was over before the proxy died"
    status = jobs.ended(cluster, job, 180)
    assert status["err"] == "" and not status["aborted"], status
    assert left(cluster) == 0
    wait_whole(cluster, wanted, but=["t2"])
    read_all(cluster, wanted)
    print(f"injected: {proxy} killed with {began} objects left; detected: job {job} ends at {other}")
    cluster.start(proxy)


@pytest.mark.parametrize("what", ["target", "drive"])
@pytest.mark.gate("rebuild")
def test_the_plan_says_what_a_loss_would_cost(make_cluster, what):
    """Beside what the files on the drives say, and what is then made again."""
    cluster, wanted = make(make_cluster, **{"rebuild.bandwidth_min": "1MiB"})
    assert cluster.put("data", "only", b"x" * 1000).status == 200
    told = jobs.told(cluster, "rebuild_plan")
    assert told["complete"]
    there = slices(cluster)
    for target in cluster.targets():
        its = told["targets"][cluster.nodes[target]["id"]]
        loss = its["loss"] if what == "target" else its["drives"][str(cluster.drives(target)[0])]
        held = sum(target in where for of_name in there.values() for where in of_name.values())
        only = cluster.owner("data", "only") == target
        assert loss["objects"] == held and loss["lost"] == (1 if only else 0), (target, loss)
        assert held * 300_000 < loss["bytes"] < held * 310_000 and loss["read_bytes"] == 2 * loss["bytes"]
        assert loss["sources_least"] == loss["sources_most"] == (2 if held else 0)
        assert loss["at_risk"] == held, "with one parity slice nothing more may go"
        rates = 4 if what == "target" else 5
        assert loss["seconds_most"] == pytest.approx(3 * loss["bytes"] / (rates * MIB)) and loss["seconds_least"] is None
