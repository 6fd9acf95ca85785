"""Targets go down, return and join: who takes writes then, what readers are told, and that nothing is lost meanwhile."""

import os
import re
import signal
import time

import pytest
from harness import attribute, client
from harness.cluster import SHORT_LEASE_SECONDS, SHORT_LEASES
from harness.nodes import stored_map, wait_until_in_place
from harness.waiting import assert_within, wait_until
from harness.watchers import Watcher, everywhere

NAMES = [f"n-{i}" for i in range(48)]


def store(cluster, names, text):
    cluster.fill("data", {name: f"{text} {name}".encode() for name in names})


def read(cluster, name, base=None):
    answer = client.request("GET", cluster.url("data", name, base))
    return answer.body.decode() if answer.status == 200 else answer.status


def wait_known(cluster):
    """Until all nodes that run have heard of the newest map, which each does in its own time."""
    newest = stored_map(cluster)["version"]

    def knows(node):
        return int(cluster.smap(node)["version"]) >= newest

    nodes = [name for name in (*cluster.proxies, *cluster.targets()) if name in cluster.running]
    wait_until(lambda: all(knows(node) for node in nodes), 10, f"all know map {newest}")


def check_all(cluster, wanted):
    """`wanted`: {name: text, or None for what was deleted}, through each proxy, both ways, and in lists."""
    wait_known(cluster)
    for base in everywhere(cluster):
        assert {name: read(cluster, name, base) for name in wanted} == {
            name: 404 if text is None else text for name, text in wanted.items()}
    there = sorted(name for name, text in wanted.items() if text is not None)
    wait_until(lambda: cluster.list_page("data").status == 200, 5, "a list is answered")
    assert cluster.names("data") == there
    assert cluster.names("data", pagesize=5) == there


def put_until_taken(cluster, name, body):
    """Stores it as soon as a target takes it. Returns how long that took."""
    begun = time.monotonic()

    def is_taken():
        try:
            return cluster.put("data", name, body).status == 200
        except OSError:  # redirected to the one that ended just now
            return False

    wait_until(is_taken, SHORT_LEASE_SECONDS + 6, f"a write of {name} is taken")
    return time.monotonic() - begun


def kinds(meta):
    return {"meta": "etcd", "proxies": 2} if meta == "etcd" else {}


@pytest.mark.parametrize("meta", ["embedded", "etcd"])
def test_names_of_a_target_that_is_down_are_written_elsewhere_and_nothing_is_lost_when_it_returns(make_cluster, meta):
    cluster = make_cluster(targets=3, drives=1, settings=SHORT_LEASES, **kinds(meta))
    lost = cluster.names_owned_by("t1", "data", 4)
    names = NAMES + lost
    store(cluster, names, "old")
    rewritten, deleted, untouched = lost[0], lost[1], lost[2:]
    cluster.kill("t1")
    seconds = put_until_taken(cluster, rewritten, f"new {rewritten}".encode())
    assert_within(seconds, SHORT_LEASE_SECONDS + 3, "the names of a killed target are written again")
    put_until_taken(cluster, deleted, b"soon gone")
    assert cluster.delete("data", deleted).status == 200
    created = put_until_taken(cluster, "created", b"new created") and "created"
    # What only the killed target has is not here now; it is not gone.
    wait_known(cluster)  # or a proxy sends readers to the dead one
    assert read(cluster, rewritten) == f"new {rewritten}"
    assert read(cluster, deleted) == 404
    for base in everywhere(cluster):
        assert [read(cluster, name, base) for name in untouched] == [503] * len(untouched)
    assert cluster.delete("data", untouched[0]).status == 503
    assert cluster.put("data", untouched[0], b"x", headers={"If-None-Match": "*"}).status == 503
    assert cluster.list_page("data").status == 503

    cluster.start("t1")
    wanted = {name: f"old {name}" for name in names} | {rewritten: f"new {rewritten}", deleted: None, created: "new created"}
    wait_until(lambda: read(cluster, untouched[0]) == wanted[untouched[0]], 5, "the target that is back is asked again")
    check_all(cluster, wanted)
    # It takes the writes of its names again, whatever lies elsewhere meanwhile.
    assert cluster.put("data", rewritten, b"x", headers={"If-None-Match": "*"}).status == 412
    assert cluster.delete("data", rewritten).status == 200
    put_until_taken(cluster, deleted, b"back")
    check_all(cluster, wanted | {rewritten: None, deleted: "back"})


@pytest.mark.parametrize("meta", ["embedded", "etcd"])
def test_a_target_joins_a_cluster_that_holds_objects(make_cluster, meta):
    cluster = make_cluster(targets=2, drives=1, **kinds(meta))
    store(cluster, NAMES, "old")
    wanted = {name: f"old {name}" for name in NAMES}
    cluster.command("add", "target")
    cluster.refresh()
    cluster.running.add("t3")
    assert cluster.nodes["t3"]["state"] == "ready"
    wait_until(lambda: any(cluster.owner("data", name) == "t3" for name in NAMES), 5, "t3 owns names")
    check_all(cluster, wanted)
    mine = [name for name in NAMES if cluster.owner("data", name) == "t3"]
    assert len(mine) >= 2
    # Conditions and deletes know what has not moved yet.
    assert cluster.put("data", mine[0], b"x", headers={"If-None-Match": "*"}).status == 412
    etag = cluster.head("data", mine[0]).headers["ETag"]
    assert cluster.put("data", mine[0], b"second", headers={"If-Match": etag}).status == 200
    assert cluster.delete("data", mine[1]).status == 200
    assert cluster.delete("data", mine[1]).status == 404
    check_all(cluster, wanted | {mine[0]: "second", mine[1]: None})


def test_a_target_of_three_times_the_weight_gets_three_times_the_names(make_cluster):
    cluster = make_cluster(targets=1, drives=1)
    names = [f"n-{i}" for i in range(400)]
    store(cluster, names, "old")
    cluster.command("add", "target", "--set", "target.weight=3")
    cluster.refresh()
    cluster.running.add("t2")
    wait_until_in_place(cluster)
    check_all(cluster, {name: f"old {name}" for name in names})
    # By its files, not by what this test computes: 300 of 400, give or take six standard deviations.
    heavy = len(attribute.objects(cluster.drives("t2")))
    assert 248 <= heavy <= 352, heavy
    assert heavy + len(attribute.objects(cluster.drives("t1"))) == 400


@pytest.mark.parametrize("meta", ["embedded", "etcd"])
def test_objects_move_to_a_target_that_joins_and_nobody_notices(make_cluster, meta):
    """All of 300 objects can be read and are listed once at every moment; what moves is the share of the one who came."""
    cluster = make_cluster(targets=3, drives=1, **kinds(meta))
    bodies = cluster.fill("data", {f"n-{i:03}": os.urandom(100 + 97 * i) for i in range(300)})
    wait_until_in_place(cluster)
    names, ways = sorted(bodies), everywhere(cluster)

    def read_one(turn):
        name = names[turn * 7 % len(names)]
        answer = client.request("GET", cluster.url("data", name, ways[turn % len(ways)]))
        return None if (answer.status, answer.body) == (200, bodies[name]) else f"{name}: {answer}"

    def list_all(turn):
        found = cluster.names("data", pagesize=(0, 50)[turn % 2])
        return None if found == names else f"a list has {len(found)} names: {sorted(set(names) ^ set(found))}"

    watchers = [Watcher(read_one), Watcher(read_one), Watcher(list_all)]
    for watcher in watchers:
        watcher.start()
    try:
        cluster.command("add", "target")
        cluster.refresh()
        cluster.running.add("t4")
        wait_until(lambda: attribute.data_files(cluster.drives("t4")), 20, "something moves to t4")
        wait_until_in_place(cluster)
    finally:
        wrong = [watcher.end() for watcher in watchers]
    print(f"{[watcher.turns for watcher in watchers]} reads, reads and lists meanwhile")
    print("\n".join(problem for each in wrong for problem in each))
    assert wrong == [[], [], []]
    assert all(watcher.turns >= 3 for watcher in watchers)

    lies = {target: attribute.objects(cluster.drives(target)) for target in cluster.targets()}
    assert sorted(name for found in lies.values() for name in found) == names, "each lies in one place"
    assert all(cluster.owner("data", name) == target for target, found in lies.items() for name in found)
    best = sum(said["size"] for said in lies["t4"].values())
    moved = sum(int(count) for target in cluster.targets() for line in cluster.logs[target].matching("rebalance ended ")
                for count in re.findall(r" bytes=(\d+)", line))
    print(f"{len(lies['t4'])} objects are at t4; moved {moved} bytes, at least {best} had to")
    assert 36 <= len(lies["t4"]) <= 114  # 75, give or take five standard deviations
    assert best <= moved <= 1.05 * best
    assert not stored_map(cluster).get("past")


def test_a_target_that_is_stopped_gracefully_hands_its_names_over_at_once(make_cluster):
    cluster = make_cluster(targets=2, drives=1)
    store(cluster, NAMES, "old")
    name = next(name for name in NAMES if cluster.owner("data", name) == "t1")
    cluster.running.discard("t1")
    os.kill(cluster.pid("t1"), signal.SIGTERM)
    seconds = put_until_taken(cluster, name, b"new")
    assert_within(seconds, 2.5, "a name is written at another target")
    cluster.wait_exit("t1", 15)
    cluster.start("t1")
    check_all(cluster, {each: f"old {each}" for each in NAMES} | {name: "new"})


def test_every_target_restarts_in_turn_and_all_stays_as_it_was(make_cluster):
    cluster = make_cluster(targets=3, drives=1)
    store(cluster, NAMES, "old")
    wanted = {name: f"old {name}" for name in NAMES}
    for target in cluster.targets():
        cluster.kill(target)
        name = NAMES[cluster.targets().index(target)]
        wanted[name] = f"while {target} was away"
        put_until_taken(cluster, name, wanted[name].encode())
        cluster.start(target)
    check_all(cluster, wanted)
