"""Nodes go into maintenance, are drained, shut down, given up and taken in again, while clients go on. Also orders of an
operator for the moves of their objects."""

import json
import os
import shutil

import pytest
from harness import attribute, client
from harness.admin import act, does
from harness.cli import Cli
from harness.cluster import process_is_alive
from harness.members import DECOMMISSION, DOWN, MAINTENANCE
from harness.nodes import call, stored_map, wait_until_in_place
from harness.waiting import wait_until
from harness.watchers import Everybody


def rebalance(cluster, action, proxy="p1", **value):
    body = json.dumps({"action": action, "name": "", "value": {"ID": "", "Kind": "rebalance"} | value}).encode()
    return client.request("PUT", f"{cluster.url_of(proxy)}/v1/cluster", body, expect=False)


def told(cluster):
    """what=rebalance, with the targets by their names."""
    said = client.request("GET", cluster.endpoint + "/v1/cluster?what=rebalance").json()
    names = {node["id"]: name for name, node in cluster.nodes.items()}
    return said | {"targets": {names[node]: each for node, each in said["targets"].items()}}


def told_by(cluster, node):
    """What a target says of the names that it moves to their targets; one that was slow to answer is asked again."""
    return wait_until(lambda: (said := told(cluster)["targets"][node]) and "error" not in said and said, 10, f"{node} answers")


def configure(cluster, **settings):
    query = "&".join(f"rebalance.{key}={value}" for key, value in settings.items())
    answer = client.request("PUT", f"{cluster.endpoint}/v1/cluster/set-config?{query}", b"", expect=False)
    assert answer.status == 200, answer


def flags(cluster, node):
    found = cluster.smap()
    return (found["tmap"] | found["pmap"])[cluster.nodes[node]["id"]]["flags"]


def is_gone(cluster, node, proxy="p1"):
    found = cluster.smap(proxy)
    return cluster.nodes[node]["id"] not in found["tmap"] | found["pmap"]


def wait_gone(cluster, node, seconds=30, proxy="p1"):
    wait_until(lambda: is_gone(cluster, node, proxy), seconds, f"{node} is gone from the map")


def fill_and_settle(cluster, count, size=1000):
    bodies = cluster.fill("data", {f"n-{i:03}": os.urandom(size + i) for i in range(count)})
    wait_until_in_place(cluster)
    return bodies


def check_all(cluster, bodies):
    assert cluster.names("data") == sorted(bodies)
    for name, body in bodies.items():
        assert cluster.get("data", name).body == body, name


def lies(cluster, node):
    return sorted(attribute.data_files(cluster.drives(node)))


def test_a_target_is_drained_and_leaves_and_nobody_notices(make_cluster):
    cluster = make_cluster(targets=3, drives=2)
    bodies = fill_and_settle(cluster, 200)
    assert lies(cluster, "t3")
    drives = cluster.drives("t3")
    with Everybody(cluster, bodies):
        answer = does(cluster, "decommission-node", "t3", rm_user_data=True)
        assert answer == f"g{answer[1:]}" and int(answer[1:]) > 1, answer
        cluster.wait_exit("t3", 30)
        wait_gone(cluster, "t3")  # the target may hear of it before the proxy
        wait_until_in_place(cluster)
    assert attribute.data_files(drives) == {}
    cluster.logs["t3"].wait_for("taken out of the cluster node=.*: the process ends")
    # It holds nothing, so it may join as any other.
    cluster.start("t3")
    wait_until(lambda: not is_gone(cluster, "t3") and flags(cluster, "t3") == 0, 10, "t3 is in the map again")
    wait_until_in_place(cluster)
    wait_until(lambda: lies(cluster, "t3"), 10, "its objects are back")


def test_a_drain_goes_on_when_the_proxy_that_was_asked_dies(make_cluster):
    cluster = make_cluster(meta="etcd", proxies=3, targets=3, drives=1, settings={"rebalance.bandwidth": "8KiB"})
    bodies = fill_and_settle(cluster, 60, 4000)
    drives = cluster.drives("t1")
    ids = {cluster.nodes[proxy]["id"]: proxy for proxy in cluster.proxies}
    asked = ids[cluster.smap()["proxy_si"]["daemon_id"]]  # it leads, too
    does(cluster, "decommission-node", "t1", proxy=asked)
    wait_until(lambda: told_by(cluster, "t1")["walk"]["objects"] > 0, 10, "t1 gives objects away")
    cluster.kill(asked)
    other = next(proxy for proxy in cluster.proxies if proxy != asked)
    cluster.endpoint = cluster.url_of(other)
    assert attribute.data_files(drives), "it was drained before the proxy died"
    with Everybody(cluster, bodies):
        configure(cluster, bandwidth="0")
        wait_gone(cluster, "t1", proxy=other)
    cluster.wait_exit("t1")
    assert attribute.data_files(drives) == {}


def test_a_target_that_dies_while_it_is_drained_goes_on_when_it_is_back(make_cluster):
    cluster = make_cluster(targets=3, drives=1, settings={"rebalance.bandwidth": "8KiB"})
    bodies = fill_and_settle(cluster, 60, 4000)
    does(cluster, "decommission-node", "t1")
    wait_until(lambda: told_by(cluster, "t1")["walk"]["objects"] > 0, 10, "t1 gives objects away")
    cluster.kill("t1")
    left = len(lies(cluster, "t1"))
    assert left > 0 and flags(cluster, "t1") & ~DOWN == DECOMMISSION  # it may count as down by now
    cluster.start("t1")
    configure(cluster, bandwidth="0")
    drives = cluster.drives("t1")
    cluster.wait_exit("t1", 30)
    wait_gone(cluster, "t1")
    assert attribute.data_files(drives) == {}
    check_all(cluster, bodies)


def test_maintenance_takes_objects_away_and_its_end_brings_them_back(make_cluster):
    cluster = make_cluster(targets=3, drives=1)
    bodies = fill_and_settle(cluster, 120)
    before = len(lies(cluster, "t2"))
    assert before > 10
    with Everybody(cluster, bodies):
        started = does(cluster, "start-maintenance", "t2")
        wait_until_in_place(cluster)
        assert flags(cluster, "t2") == MAINTENANCE and lies(cluster, "t2") == []
        wait_until(lambda: told_by(cluster, "t2")["state"] == "in_place", 5, "t2 has nothing to do")
        refused = act(cluster, "start-maintenance", "t2")
        assert refused.status == 400 and "is in maintenance already" in refused.json()["message"], refused
        stopped = does(cluster, "stop-maintenance", "t2")
        assert int(stopped[1:]) > int(started[1:])
        wait_until_in_place(cluster)
        assert flags(cluster, "t2") == 0 and len(lies(cluster, "t2")) >= before


def test_several_nodes_leave_at_once_and_come_back_when_they_are_told(make_cluster):
    cluster = make_cluster(meta="etcd", proxies=2, targets=4, drives=1)
    bodies = fill_and_settle(cluster, 80)
    primary = cluster.smap()["proxy_si"]["daemon_id"]
    stays = next(proxy for proxy in cluster.proxies if cluster.nodes[proxy]["id"] == primary)
    (goes,) = {"p1", "p2"} - {stays}
    cluster.endpoint = cluster.url_of(stays)
    for nodes, says in ((("t1", stays), "is the primary"), (("t1", "t2", "t3", "t4"), "no other target would be left"),
                        (("t1", "nobody"), "nobody")):
        refused = act(cluster, "decommission-node", *nodes, proxy=goes)
        assert refused.status in (400, 404) and says in refused.json()["message"], refused
    assert does(cluster, "decommission-node", "t1", "t2", goes, proxy=goes, no_shutdown=True)
    for node in ("t1", "t2", goes):
        wait_gone(cluster, node, proxy=stays)
    assert lies(cluster, "t1") == lies(cluster, "t2") == []
    check_all(cluster, bodies)
    for node in ("t1", "t2", goes):  # each hears of it by itself, and would not join before it has
        wait_until(lambda: (ready := client.request("GET", cluster.url_of(node) + "/readyz")).status == 503 and
                   "was taken out of the cluster" in ready.text, 10, f"{node} knows that it was taken out")
        assert process_is_alive(cluster.pid(node))
    # None of them comes back by itself, whatever happens to its lease.
    version = int(cluster.smap(stays)["version"])

    def join(node, kind="internal"):
        body = json.dumps({"intra_control_net": {"direct_url": cluster.url_of(node, kind)}, "daemon_type": ""}).encode()
        return client.request("POST", cluster.endpoint + "/v1/cluster/join-by-admin", body, expect=False)

    wrong = join("t1", "public")
    assert wrong.status == 400 and "is not the internal address" in wrong.json()["message"], wrong
    assert int(cluster.smap(stays)["version"]) == version
    joined = join("t1")
    assert joined.status == 200 and joined.json()["daemon_id"] == cluster.nodes["t1"]["id"], joined
    assert joined.json()["rebalance_id"].startswith("g")
    Cli(cluster.endpoint).ok("node", "join", cluster.url_of(goes, "internal"))
    assert not is_gone(cluster, "t1", stays) and not is_gone(cluster, goes, stays) and is_gone(cluster, "t2", stays)
    assert join("t1").json() == {"daemon_id": cluster.nodes["t1"]["id"], "rebalance_id": ""}, "it is a member already"
    wait_until_in_place(cluster)
    assert lies(cluster, "t1")
    check_all(cluster, bodies)
    wait_until(lambda: cluster.get("data", "n-000").status == 200 and
               client.request("GET", cluster.url_of(goes) + "/readyz").status == 200, 10, "the proxy is of use again")


def test_a_target_is_shut_down_when_its_objects_have_moved_and_stays_in_maintenance(make_cluster):
    cluster = make_cluster(targets=3, drives=1)
    bodies = fill_and_settle(cluster, 60)
    cli = Cli(cluster.endpoint)
    cli.ok("node", "shutdown", cluster.nodes["t3"]["id"], "--yes", "--wait")
    cluster.wait_exit("t3")
    assert lies(cluster, "t3") == []
    check_all(cluster, bodies)
    cli.ok("cluster", "wait", "--timeout", "60s")
    assert f"{cluster.nodes['t3']['id']}" in cli.ok("node", "ls").decode() and "maintenance" in cli.ok("node", "ls").decode()
    # AIStore's clients ask every node of the map, and take an error of one for an error of all.
    headers = {"Ais-Node-Id": cluster.nodes["t3"]["id"]}
    url = cluster.endpoint + "/v1/reverse/daemon?what=node_status"
    status = wait_until(lambda: (answer := client.request("GET", url, None, headers)).status == 200 and answer, 10, "its lease has ended")
    assert (status.status, status.json()["status"], status.json()["tracker"]) == (200, "maintenance", {}), status
    cluster.start("t3")
    wait_until(lambda: flags(cluster, "t3") == MAINTENANCE, 5, "it is in maintenance")
    cli.ok("node", "maintenance", "stop", cluster.nodes["t3"]["id"], "--wait")
    assert process_is_alive(cluster.pid("t3")) and lies(cluster, "t3")
    check_all(cluster, bodies)


def test_objects_are_given_up_only_when_that_is_said(make_cluster):
    cluster = make_cluster(targets=3, drives=1)
    bodies = fill_and_settle(cluster, 60)
    cli = Cli(cluster.endpoint)
    held = len(lies(cluster, "t3"))
    refused = act(cluster, "decommission-node", "t3", skip_rebalance=True)
    assert refused.status == 409 and f"holds {held} objects" in refused.json()["message"], refused
    cli.refuses(6, "node", "decommission", cluster.nodes["t3"]["id"], "--no-rebalance", "--yes", says=f"{held} objects")
    assert flags(cluster, "t3") == 0
    lost = {name for name in bodies if cluster.owner("data", name) == "t3"}
    assert len(lost) == held
    assert does(cluster, "decommission-node", "t3", skip_rebalance=True, query="?frc=true") == ""
    cluster.wait_exit("t3")
    wait_gone(cluster, "t3")
    assert {cluster.get("data", name).status for name in lost} == {404}
    left = {name: body for name, body in bodies.items() if name not in lost}
    check_all(cluster, left)
    # What it holds is out of date by now.
    assert len(lies(cluster, "t3")) == held
    again = cluster.start("t3", check=False)
    assert again.returncode != 0
    (line,) = [line for line in cluster.logs["t3"].all_lines() if "is not in the cluster map" in line]
    assert "Start it with empty drives" in line
    for drive in (cluster.directory / "t3" / "d1",):
        shutil.rmtree(drive)
        drive.mkdir()
    cluster.start("t3")
    wait_until_in_place(cluster)
    check_all(cluster, left)


def test_a_target_that_stays_erases_what_it_holds_when_it_is_told_to(make_cluster):
    cluster = make_cluster(targets=2, drives=2)
    bodies = fill_and_settle(cluster, 60)
    lost = {name for name in bodies if cluster.owner("data", name) == "t2"}
    does(cluster, "decommission-node", "t2", skip_rebalance=True, rm_user_data=True, no_shutdown=True, query="?frc=true")
    wait_until(lambda: lies(cluster, "t2") == [], 10, "t2 has erased what it held")
    wait_until(lambda: cluster.logs["t2"].matching("target erased names="), 5, "t2 says so")
    answer = call(cluster, "t2", "POST", "/v1/internal/join")
    assert answer.status == 200, answer
    wait_until_in_place(cluster)
    check_all(cluster, {name: body for name, body in bodies.items() if name not in lost})


def test_a_dead_target_is_taken_out_and_what_only_it_held_is_gone(make_cluster):
    cluster = make_cluster(targets=3, drives=1)
    bodies = fill_and_settle(cluster, 40)
    lost = {name for name in bodies if cluster.owner("data", name) == "t1"}
    cluster.kill("t1")
    wait_until(lambda: any(node["flags"] >= 1 << 16 for node in stored_map(cluster)["nodes"]), 15, "t1 counts as down")
    for value, says in (({}, "is down and cannot give its names away"), ({"skip_rebalance": True}, "cannot be counted")):
        refused = act(cluster, "decommission-node", "t1", **value)
        assert refused.status == 409 and says in refused.json()["message"], refused
    assert cluster.list_page("data").status == 503
    Cli(cluster.endpoint).ok("node", "remove-unsafe", cluster.nodes["t1"]["id"], "--yes", "--wait")
    wait_until_in_place(cluster)
    check_all(cluster, {name: body for name, body in bodies.items() if name not in lost})


def test_objects_stop_moving_at_once_until_somebody_wants_it(make_cluster):
    cluster = make_cluster(targets=3, drives=1, settings={"rebalance.bandwidth": "8KiB"})
    bodies = fill_and_settle(cluster, 300, 4000)  # 50 s of moves

    def moved():
        return told_by(cluster, "t3")["walk"]["objects"]

    first = does(cluster, "start-maintenance", "t3")
    wait_until(lambda: moved() > 0, 10, "t3 gives objects away")
    walk = told_by(cluster, "t3")
    assert walk["state"] == "walking" and f"g{walk['map']}" == first and walk["walk"]["left_bytes"] > 0
    assert not told(cluster)["held"]
    wait_until(lambda: (told_by(cluster, "t3")["seconds_left"] or 0) > 0, 5, "it is known how long it takes")
    stop = rebalance(cluster, "stop", ID=first)
    assert stop.status == 200 and not stop.body, stop
    wait_until(lambda: told_by(cluster, "t3")["state"] == "held", 3, "t3 holds")
    left = len(lies(cluster, "t3"))
    cli = Cli(cluster.endpoint)
    cli.refuses(124, "cluster", "wait", "--timeout", "2s", says="rebalance is stopped")
    assert len(lies(cluster, "t3")) == left > 0
    check_all(cluster, bodies)
    # A target that goes and comes back changes nothing of that.
    cluster.kill("t1")
    cluster.start("t1")
    assert told(cluster)["held"] and len(lies(cluster, "t3")) == left

    configure(cluster, bandwidth="0", workers="8")
    started = cli.ok("cluster", "rebalance", "start").decode()
    assert started.startswith("rebalance g"), started
    wait_until_in_place(cluster)
    assert lies(cluster, "t3") == [] and not told(cluster)["held"]
    wait_until(lambda: "all objects are in place" in cli.ok("cluster", "rebalance", "show").decode(), 10, "the proxy knows it, too")
    check_all(cluster, bodies)
    assert rebalance(cluster, "stop").status == 200, "there is nothing to stop"
    assert rebalance(cluster, "stop", ID="g9999").status == 404

    # In maintenance without a move: what it holds stays, and can be read.
    assert does(cluster, "start-maintenance", "t1", skip_rebalance=True) == ""
    there = len(lies(cluster, "t1"))
    wait_until(lambda: told_by(cluster, "t1")["state"] == "held", 5, "t1 holds")
    check_all(cluster, bodies)
    assert len(lies(cluster, "t1")) == there > 0
    does(cluster, "stop-maintenance", "t1")
    wait_until_in_place(cluster)
    check_all(cluster, bodies)


def test_a_rebalance_that_was_asked_for_goes_on_when_a_killed_target_is_back(make_cluster):
    cluster = make_cluster(targets=2, drives=1)
    names = cluster.names_owned_by("t2", "data", 12)
    cluster.fill("data", names)
    configure(cluster, enabled="false", workers="1")  # one by one: when the third is to be erased, two have been
    # What the cluster does not know of: objects of t2 lie on a drive of t1 as well.
    cluster.kill("t1")
    there, here = cluster.drives("t2")[0], cluster.drives("t1")[0]
    for file in attribute.data_files([there]):
        goal = here / file.relative_to(there)
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, goal)
    cluster.start("t1", fail_points="move.before_erase=kill@3")
    assert len(lies(cluster, "t1")) == len(names), "no target has walked yet"
    started = rebalance(cluster, "start")
    assert started.status == 200, started
    cluster.wait_exit("t1", 20)
    assert 0 < len(lies(cluster, "t1")) < len(names)
    cluster.start("t1")
    wait_until(lambda: lies(cluster, "t1") == [], 20, "t1 has looked through everything")
    wait_until_in_place(cluster)
    check_all(cluster, {name: name.encode() for name in names})


def test_nothing_moves_by_itself_when_that_is_the_setting(make_cluster):
    cluster = make_cluster(targets=2, drives=1)
    bodies = fill_and_settle(cluster, 60)
    configure(cluster, enabled="false")
    shown = client.request("GET", cluster.endpoint + "/v1/cluster?what=cluster_config").json()["rebalance"]
    assert shown == {"enabled": False, "bandwidth": "0B", "workers": 0}, shown
    cluster.command("add", "target")
    cluster.refresh()
    cluster.running.add("t3")
    wait_until(lambda: told_by(cluster, "t1")["state"] == told_by(cluster, "t2")["state"] == "held", 10, "they hold")
    assert lies(cluster, "t3") == []
    check_all(cluster, bodies)
    assert rebalance(cluster, "start").text.startswith("g")
    wait_until_in_place(cluster)
    assert lies(cluster, "t3")
    # What an operator asks of a node is asked for.
    does(cluster, "start-maintenance", "t3")
    wait_until_in_place(cluster)
    assert lies(cluster, "t3") == []
    check_all(cluster, bodies)


@pytest.mark.parametrize("action, node, value, status, says", [
    ("start-maintenance", "p1", {}, 400, "is the primary"),
    ("decommission-node", "p1", {}, 400, "is the primary"),
    ("rm-unsafe", "p1", {}, 400, "is the primary"),
    ("start-maintenance", "tNobody00", {}, 404, "tNobody00"),
    ("stop-maintenance", "t1", {}, 400, "is not in maintenance"),
    ("start-maintenance", "t1", {"skip_rebalance": "yes"}, 400, '"value" must be'),
    ("stop-maintenance", "", {"sids": None}, 400, '"value" must be')])
def test_what_cannot_be_done_to_a_node_is_refused(cluster, action, node, value, status, says):
    wait_until_in_place(cluster)  # a new cluster publishes maps for a moment
    before = cluster.smap()["version"]
    answer = act(cluster, action, node, **value)
    assert answer.status == status and says in answer.json()["message"], answer
    assert cluster.smap()["version"] == before


@pytest.mark.parametrize("body, says", [(b"", "names no node"), (b"{}", "names no node"),
                                        (b'{"public_net":{"direct_url":"ftp://x"}}', "ftp")])
def test_a_join_needs_an_address(cluster, body, says):
    answer = client.request("POST", cluster.endpoint + "/v1/cluster/join-by-admin", body, expect=False)
    assert answer.status == 400 and says in answer.json()["message"], answer


def test_nodes_without_a_lease_are_named_until_they_have_one(make_cluster):
    """`tarn cluster wait` goes by it: a node may answer while the cluster still takes it for down."""
    cluster = make_cluster(targets=2, drives=1)
    assert told(cluster)["without_lease"] == []
    cluster.kill("t1")
    wait_until(lambda: told(cluster)["without_lease"] == [cluster.nodes["t1"]["id"]], 10, "the lease of t1 has ended")
    cluster.start("t1")
    wait_until(lambda: told(cluster)["without_lease"] == [], 10, "t1 has a lease again")
