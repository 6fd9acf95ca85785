"""A whole cluster ends for good: with or without what users stored, over both meta stores, whichever node dies meanwhile."""

import ctypes
import json
import os

import pytest
from harness import client
from harness.cli import Cli
from harness.etcd import base64_of, call_etcd
from harness.nodes import stored_map
from harness.waiting import wait_until

PR_SET_CHILD_SUBREAPER = 36
DOWN = 1 << 16
NAMES = [f"o-{i:02}" for i in range(30)]
SIZES = range(3000, 3030)


@pytest.fixture
def reaper():
    """Nodes that outlive the command which started them are children of the tests: exit codes can be read."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def exit_code(cluster, name, seconds=60):
    pid = cluster.pid(name)
    cluster.wait_exit(name, seconds)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def end(cluster, proxy="p1", query="", **value):
    body = json.dumps({"action": "decommission", "name": "", "value": value or None}).encode()
    return client.request("PUT", f"{cluster.url_of(proxy)}/v1/cluster{query}", body, expect=False)


def flags_of(cluster, node):
    return next(each["flags"] for each in stored_map(cluster)["nodes"] if each["id"] == node)


def uuid_of(cluster):
    return cluster.smap()["uuid"]


def exported(drives, directory):
    Cli("").ok("export", *drives, "--to", directory)
    return {path.name: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def keys_in(etcd):
    # Everything from "/tarn-" to the end of "/tarn/".
    found = call_etcd(etcd, "/v3/kv/range", {"key": base64_of("/tarn-"), "range_end": base64_of("/tarn0"), "keys_only": True})
    return found.get("kvs", [])


def test_drives_keep_their_objects_for_an_export(make_cluster, reaper, tmp_path):
    cluster = make_cluster(targets=2, drives=2)
    bodies, drives, old = cluster.fill("data", NAMES, SIZES), cluster.all_drives(), uuid_of(cluster)
    cli = Cli(cluster.endpoint)
    cli.refuses(1, "cluster", "decommission", says="--yes")
    assert cluster.get("data", "o-00").status == 200
    told = json.loads(cli.ok("cluster", "decommission", "--yes", "--json"))
    assert told == {"cluster": old, "said": ""}
    assert {name: exit_code(cluster, name) for name in ("p1", "t1", "t2")} == {"p1": 0, "t1": 0, "t2": 0}
    assert exported(drives, tmp_path / "out") == bodies
    # What begins in that place is another cluster, with nothing in it, and takes no drives of the old one.
    cluster.start("p1")
    assert uuid_of(cluster) != old
    refused = cluster.start("t1", check=False)
    assert refused.returncode != 0 and "belongs to cluster" in refused.stderr, refused.stderr
    cluster.expect_errors("belongs to cluster")
    assert exported(drives, tmp_path / "again") == bodies


def test_user_data_is_erased_and_everything_can_be_used_again(make_cluster, reaper):
    cluster = make_cluster(targets=2, drives=2)
    cluster.fill("data", NAMES, SIZES)
    drives, old = cluster.all_drives(), uuid_of(cluster)
    cluster.create_bucket("more")
    assert end(cluster, rm_user_data=True).status == 200
    assert {name: exit_code(cluster, name) for name in ("p1", "t1", "t2")} == {"p1": 0, "t1": 0, "t2": 0}
    assert {str(drive): sorted(os.listdir(drive)) for drive in drives} == {str(drive): [] for drive in drives}
    cluster.start("p1", "t1", "t2")
    assert uuid_of(cluster) != old
    assert cluster.names("data") == []
    assert cluster.put("data", "o-00", b"new").status == 200 and cluster.get("data", "o-00").body == b"new"


def test_a_node_that_is_down_stands_against_it_and_is_left_out_by_force(make_cluster, reaper, tmp_path):
    cluster = make_cluster(meta="etcd", proxies=2, targets=3, drives=1)
    bodies = cluster.fill("data", NAMES, SIZES)
    drives, kept = cluster.all_drives(), cluster.drives("t3")
    etcd, away = cluster.url_of("etcd1", "client"), cluster.nodes["t3"]["id"]
    cluster.kill("t3")
    wait_until(lambda: flags_of(cluster, away) & DOWN, 15, "t3's lease has ended")
    wait_until(lambda: int(cluster.smap()["version"]) >= stored_map(cluster)["version"], 10, "p1 knows that others have its names")
    refused = end(cluster, "p2", rm_user_data=True)
    assert refused.status == 409 and f"node {away} is down" in refused.json()["message"], refused
    name = cluster.names_owned_by("t1", "data", 1)[0]
    assert cluster.put("data", name, b"x").status == 200, "what is refused changes nothing"
    bodies[name] = b"x"
    answer = end(cluster, "p2", "?frc=true", rm_user_data=True)
    assert answer.status == 200 and answer.text == f"left out: {away}\n", answer
    assert {name: exit_code(cluster, name) for name in ("p1", "p2", "t1", "t2")} == {"p1": 0, "p2": 0, "t1": 0, "t2": 0}
    assert keys_in(etcd) == []
    assert [os.listdir(drive) for drive in drives if drive not in kept] == [[], []]
    left = exported(kept, tmp_path / "out")
    assert left and left.items() <= bodies.items()
    # The proxies may begin another cluster in the same store.
    cluster.start("p1", "p2", "t1")
    assert cluster.put("data", "x", b"new").status == 200


@pytest.mark.parametrize("point", ["end.bucket", "end.targets", "end.before_keys"])
def test_it_goes_on_when_the_proxy_that_drives_it_dies(make_cluster, reaper, point):
    cluster = make_cluster(meta="etcd", proxies=2, targets=2, drives=1, fail_points={"p1": f"{point}=kill"})
    cluster.fill("data", NAMES, SIZES)
    drives, etcd = cluster.all_drives(), cluster.url_of("etcd1", "client")
    cluster.create_bucket("more")
    ids = {name: cluster.nodes[name]["id"] for name in ("p1", "p2")}
    assert client.request("PUT", f"{cluster.url_of('p2')}/v1/cluster/proxy/{ids['p1']}", b"", expect=False).status == 200
    assert end(cluster, "p2", rm_user_data=True).status == 200
    assert exit_code(cluster, "p1", 30) == -9
    if point == "end.before_keys":  # the others have ended in order before
        assert {exit_code(cluster, name) for name in ("t1", "t2", "p2")} == {0}
        assert keys_in(etcd)
        cluster.start("p2", check=False)  # which may have ended before it was seen to be ready
        cluster.running.discard("p2")
        wait_until(lambda: cluster.logs["p2"].matching("cluster decommissioned"), 30, "p2 has gone on")
        wait_until(lambda: cluster.logs["p2"].lines()[-1].endswith("proxy stopped"), 20, "p2 has ended")
    else:
        again = end_while_it_runs(cluster, "p2")
        assert again in (0, 200), again
        assert {exit_code(cluster, name) for name in ("p2", "t1", "t2")} == {0}
    assert keys_in(etcd) == []
    assert [os.listdir(drive) for drive in drives] == [[], []]


def end_while_it_runs(cluster, proxy):
    """The status of asking again; 0 when the cluster was gone before it could be asked."""
    try:
        return end(cluster, proxy, rm_user_data=True).status
    except OSError:
        return 0


def test_a_drive_that_cannot_be_emptied_keeps_the_cluster_from_ending_in_order(make_cluster, reaper):
    cluster = make_cluster(targets=2, drives=2)
    cluster.fill("data", NAMES, SIZES)
    cluster.expect_errors("drive missing")
    missing, away = cluster.drives("t1")[1], cluster.nodes["t1"]["id"]
    cluster.kill("t1")
    missing.rename(missing.with_name("elsewhere"))
    missing.mkdir()
    cluster.start("t1")
    assert end(cluster, rm_user_data=True).status == 200
    assert exit_code(cluster, "t1") == 1 and exit_code(cluster, "t2") == 0
    assert any(f"drive {missing} is not there and cannot be emptied" in line for line in cluster.logs["t1"].lines())
    refused = end(cluster, rm_user_data=True)
    assert refused.status == 409 and f"node {away} is down and has not ended in order" in refused.json()["message"], refused
    other = end(cluster, query="?frc=true")
    assert other.status == 409 and "erased (rm_user_data)" in other.json()["message"], other
    answer = end(cluster, query="?frc=true", rm_user_data=True)
    assert (answer.status, answer.text) == (200, f"left out: {away}\n"), answer
    assert exit_code(cluster, "p1") == 0


def test_what_cannot_be_meant_is_refused(cluster):
    for value, status, says in (({"rm_user_data": "yes"}, 400, '"value" is'),
                                ({"sids": ["t1"]}, 400, "decommission-node"),
                                ({"no_shutdown": True}, 400, "no program goes on")):
        answer = end(cluster, **value)
        assert answer.status == status and says in answer.json()["message"], answer
    body = json.dumps({"action": "decommission", "value": [1]}).encode()
    assert client.request("PUT", cluster.endpoint + "/v1/cluster", body, expect=False).status == 400
