"""Whether nodes may stop: `what=safe_to_stop` and `tarn node safe-to-stop` say what would be unreadable, and wait for it."""

import json
import threading

import pytest
from harness import client
from harness.cli import Cli
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until

COUNT = 40


def ask(cluster, *nodes, proxy="p1"):
    ids = ",".join(cluster.nodes[node]["id"] for node in nodes)
    return client.request("GET", f"{cluster.url_of(proxy)}/v1/cluster?what=safe_to_stop&node={ids}").json()


@pytest.fixture
def three(make_cluster):
    cluster = make_cluster(targets=3, drives=2)
    yield cluster, Cli(cluster.endpoint)


def test_two_copies_let_one_target_stop_and_no_other_beside_it(three):
    cluster, tarn = three
    tarn.ok("bucket", "create", "safe", "--copies", "2", "--domain", "node")
    cluster.fill("safe", COUNT, 2000)
    wait_until_in_place(cluster)
    ids = {name: node["id"] for name, node in cluster.nodes.items()}
    safe = {"safe": True, "nodes": [ids["t1"]], "reasons": [], "notes": []}
    wait_until(lambda: ask(cluster, "t1") == safe, 10, "the proxy knows that all names are in place")
    assert tarn.ok("node", "safe-to-stop", ids["t1"]).decode() == f"safe to stop: {ids['t1']}\n"
    both = ask(cluster, "t1", "t2")
    assert not both["safe"] and both["nodes"] == sorted([ids["t1"], ids["t2"]])
    assert len(both["reasons"]) == 1 and "bucket safe: " in both["reasons"][0] and "would be unreadable" in both["reasons"][0]

    cluster.kill("t2")
    cluster.expect_errors(r"t2|target")
    told = ask(cluster, "t1")
    assert not told["safe"], told
    wait_until(lambda: ids["t2"] in " ".join(ask(cluster, "t1")["reasons"]), 10, "the proxy knows whose fault it is")
    wait_until(lambda: "may be all that has them" in " ".join(ask(cluster, "t1")["reasons"]), 60, "the target is down by the map")
    assert ids["t2"] in " ".join(ask(cluster, "t1")["reasons"])
    refused = tarn("node", "safe-to-stop", ids["t1"])
    assert refused.returncode == 1 and ids["t2"] in refused.stdout.decode() and "not safe to stop" in refused.stderr
    told = json.loads(tarn("node", "safe-to-stop", ids["t1"], "--json").stdout)
    assert told["safe"] is False and told["reasons"]
    # The one that is down may stop, of course.
    assert ask(cluster, "t2")["safe"]

    # A caller waits until it is back.
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(tarn("node", "safe-to-stop", ids["t1"], "--wait", "80s")))
    waiting.start()
    cluster.start("t2")
    waiting.join()
    assert answers[0].returncode == 0, answers


@pytest.mark.deep("a drive that is back is believed after a minute")
def test_copies_on_a_drive_that_is_away_do_not_count(three):
    """All targets are up and nothing moves, and yet the only copies left of some objects lie on one of them."""
    cluster, tarn = three
    tarn.ok("bucket", "create", "safe", "--copies", "2", "--domain", "node")
    cluster.fill("safe", COUNT, 2000)
    wait_until_in_place(cluster)
    assert ask(cluster, "t2")["safe"]
    drive = cluster.drives("t1")[0]
    cluster.expect_errors(r"drive")
    drive.rename(drive.with_name("gone"))
    try:
        wait_until(lambda: "would be unreadable" in " ".join(ask(cluster, "t2")["reasons"]), 60, "the drive is missed")
        assert ask(cluster, "t1")["safe"], "what t1 has, others have"
    finally:
        drive.with_name("gone").rename(drive)
    wait_until(lambda: ask(cluster, "t2")["safe"], 120, "the drive is back")


def test_single_copies_are_a_note_and_never_a_reason(three):
    cluster, tarn = three
    safe = {"safe": True, "nodes": [cluster.nodes["t1"]["id"]], "reasons": [], "notes": []}
    wait_until(lambda: ask(cluster, "t1") == safe, 60, "all is in place that moved as targets joined")
    cluster.fill("data", COUNT, 2000)
    wait_until_in_place(cluster)
    told = wait_until(lambda: (said := ask(cluster, "t1"))["safe"] and said, 10, "the proxy knows that all names are in place")
    assert len(told["notes"]) == 1
    assert told["notes"][0].startswith("bucket data: ") and "on one target only" in told["notes"][0]
    assert "note: bucket data: " in tarn.ok("node", "safe-to-stop", cluster.nodes["t1"]["id"]).decode()
    cluster.kill("t2")
    cluster.expect_errors(r"t2|target")
    wait_until(lambda: ask(cluster, "t1")["safe"], 60, "others have taken the names over")


def test_slices_let_as_many_targets_stop_as_there_is_parity(three):
    cluster, tarn = three
    for layout in ("striped", "whole"):
        tarn.ok("bucket", "create", layout, "--ec", "2+1", "--layout", layout, "--set", "ec.objsize_limit=1000")
        cluster.fill(layout, COUNT, 30_000)
    wait_until_in_place(cluster)
    for target in ("t1", "t2", "t3"):
        wait_until(lambda: ask(cluster, target)["reasons"] == [], 10, "the proxy knows that all names are in place")
    both = ask(cluster, "t1", "t3")
    assert not both["safe"] and {"striped", "whole"} == {reason.split(":")[0].split()[1] for reason in both["reasons"]}
    cluster.kill("t3")
    cluster.expect_errors(r"t3|target|slice")
    wait_until(lambda: any("striped" in reason for reason in ask(cluster, "t1")["reasons"]), 60, "too few slices would be left")
    wait_until(lambda: cluster.nodes["t3"]["id"] in " ".join(ask(cluster, "t1")["reasons"]), 10, "the proxy knows whose fault it is")


def test_proxies_and_wrong_questions(make_cluster):
    cluster = make_cluster(targets=2, proxies=2, meta="etcd")
    ids = {name: node["id"] for name, node in cluster.nodes.items()}
    for proxy in ("p1", "p2"):
        wait_until(lambda: ask(cluster, "t1", proxy=proxy)["safe"], 60, "all is in place that moved as targets joined")
        wait_until(lambda: ask(cluster, "p1", proxy=proxy)["safe"], 10, f"{proxy} knows the other one")
        assert ask(cluster, "p1", "p2", proxy=proxy)["reasons"] == ["no other proxy is up"]
    unknown = client.request("GET", f"{cluster.endpoint}/v1/cluster?what=safe_to_stop&node={ids['t1']},tNone", expect=False)
    assert unknown.status == 404 and unknown.json()["tcode"] == "errNodeNotFound" and "'tNone' is not in the cluster map" in unknown.json()["message"]
    for query in ("", "&node=", "&node=,"):
        nothing = client.request("GET", f"{cluster.endpoint}/v1/cluster?what=safe_to_stop{query}", expect=False)
        assert nothing.status == 400 and "needs node=ID" in nothing.json()["message"]
    tarn = Cli(cluster.endpoint)
    tarn.refuses(3, "node", "safe-to-stop", "tNone", says="is not in the cluster map")
    tarn.refuses(2, "node", "safe-to-stop", ids["t1"], "--wait", "soon", says="--wait")
