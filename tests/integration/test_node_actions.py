"""What operators ask of nodes: another primary, new counts, a new log, an end."""


import pytest
from harness import client
from harness.cli import Cli
from harness.waiting import wait_until


def id_of(cluster, name):
    return cluster.nodes[name]["id"]


def stop_message(*ids):
    return {"action": "shutdown-node", "name": "", "value": {"sid": "", "sids": list(ids), "skip_rebalance": True}}


def test_the_primary_passes_to_the_proxy_that_is_named(make_cluster):
    cluster = make_cluster(meta="etcd", proxies=3, targets=1, drives=1)
    ids = {name: id_of(cluster, name) for name in ("p1", "p2", "p3")}
    first = cluster.smap("p1")
    for asked, wanted in (("p1", "p2"), ("p1", "p3"), ("p2", "p3"), ("p3", "p1")):
        answer = cluster.call(asked, "PUT", f"/v1/cluster/proxy/{ids[wanted]}")
        assert answer.status == 200 and not answer.body, answer
        for proxy in ids:
            wait_until(lambda: cluster.smap(proxy)["proxy_si"]["daemon_id"] == ids[wanted], 5, f"{proxy} sees {wanted}")
    assert int(cluster.smap("p1")["version"]) > int(first["version"])
    Cli(cluster.url_of("p3")).ok("cluster", "set-primary", ids["p2"])
    assert cluster.smap("p3")["proxy_si"]["daemon_id"] == ids["p2"]
    # The lease has passed, too: when that proxy ends another one follows.
    cluster.kill("p2")
    wait_until(lambda: cluster.smap("p1")["proxy_si"]["daemon_id"] in (ids["p1"], ids["p3"]), 15, "another primary")
    primary = cluster.smap("p1")["proxy_si"]["daemon_id"]
    answer = cluster.call("p1", "PUT", f"/v1/cluster/proxy/{ids['p2']}")
    assert answer.status == 503 and f"proxy {ids['p2']} is not up" in answer.json()["message"], answer
    for node, status, says in ((id_of(cluster, "t1"), 400, "only a proxy can be the primary"),
                               ("pNobody00", 404, "node 'pNobody00' is not in the cluster map"),
                               (f"{ids['p1']}?frc=true", 501, "join two clusters"),
                               (f"{ids['p1']}?frc=perhaps", 400, "frc=perhaps")):
        answer = cluster.call("p1", "PUT", f"/v1/cluster/proxy/{node}")
        assert answer.status == status and says in answer.json()["message"], answer
    wait_until(lambda: cluster.smap("p3")["proxy_si"]["daemon_id"] == primary, 10, "p3 sees it, too")

    # A proxy that is not the primary, asked itself, and the primary, which refuses.
    other = "p1" if primary == ids["p3"] else "p3"
    stays = "p3" if other == "p1" else "p1"
    refused = cluster.call(other, "PUT", "/v1/cluster", stop_message(primary))
    assert refused.status == 400 and "make another proxy the primary first" in refused.json()["message"], refused
    assert cluster.call(other, "PUT", "/v1/cluster", stop_message(ids[other])).status == 200
    cluster.wait_exit(other)
    assert cluster.call(stays, "PUT", "/v1/cluster", {"action": "shutdown", "name": "", "value": None}).status == 200
    cluster.wait_exit(stays)
    cluster.wait_exit("t1")


def test_the_one_proxy_is_the_primary_already(cluster):
    assert cluster.call("p1", "PUT", f"/v1/cluster/proxy/{id_of(cluster, 'p1')}").status == 200
    refused = cluster.call("p1", "PUT", "/v1/cluster", stop_message(id_of(cluster, "p1")))
    assert refused.status == 400 and "shut the whole cluster down" in refused.json()["message"], refused


def status_of(cluster, name):
    """The answer to a GET; nothing when its redirect leads to a target that has just ended."""
    try:
        return cluster.get("data", name).status
    except ConnectionError:
        return None


def test_a_target_that_is_shut_down_comes_back_with_its_objects(make_cluster):
    cluster = make_cluster(targets=2, drives=1)
    name = cluster.names_owned_by("t2", "data", 1)[0]
    assert cluster.put("data", name, b"kept").status == 200
    Cli(cluster.endpoint).ok("cluster", "shutdown", id_of(cluster, "t2"), "--yes")
    cluster.wait_exit("t2")
    cluster.logs["t2"].wait_for("told to shut down")
    wait_until(lambda: status_of(cluster, name) == 503, 10, "the proxy knows that it is away")
    wait_until(lambda: cluster.call("p1", "PUT", "/v1/cluster", stop_message(id_of(cluster, "t2"))).status == 200, 10, "it is so already")
    cluster.start("t2")
    wait_until(lambda: cluster.get("data", name).status == 200, 10, "it serves again")
    assert cluster.get("data", name).body == b"kept"


def test_a_cluster_that_is_shut_down_starts_again(make_cluster):
    cluster = make_cluster(targets=2, drives=1)
    assert cluster.put("data", "x", b"kept").status == 200
    assert cluster.call("p1", "PUT", "/v1/cluster", {"action": "shutdown", "name": "", "value": None}).status == 200
    for node in ("p1", "t1", "t2"):
        cluster.wait_exit(node)
    cluster.start("p1", "t1", "t2")
    assert cluster.get("data", "x").body == b"kept"


@pytest.mark.parametrize("value, status, says", [
    (None, 400, '"value" must be'), ({}, 400, '"value" must be'), ({"sids": "x"}, 400, '"value" must be'),
    ({"sid": "tNobody00", "skip_rebalance": True}, 404, "tNobody00"),
    ({"sid": "tNobody00", "skip_rebalance": "yes"}, 400, '"value" must be')])
def test_a_node_that_cannot_be_shut_down_is_named(cluster, value, status, says):
    answer = cluster.call("p1", "PUT", "/v1/cluster", {"action": "shutdown-node", "value": value})
    assert answer.status == status and says in answer.json()["message"], answer


def test_only_nodes_may_ask_a_node_to_end(cluster):
    for listener in ("p1", "t1"):
        answer = client.request("PUT", cluster.url_of(listener) + "/v1/internal/shutdown", b"", expect=False)
        assert answer.status in (401, 404, 405, 409), answer


def test_counts_begin_anew(make_cluster):
    cluster, bucket, name = make_cluster(targets=1, drives=1), "data", "x"
    headers = {"Ais-Node-Id": id_of(cluster, "t1")}

    def tracker():
        return client.request("GET", cluster.endpoint + "/v1/reverse/daemon?what=node_status", None, headers).json()["tracker"]

    def counts():
        found = tracker()
        return found.get("put.n", 0), found.get("err.get.n", 0)

    def count():
        """Both, when there was one more of each: an answer is counted when it has gone, after the client has it."""
        puts, errors = counts()
        assert cluster.put(bucket, name, b"x").status == 200
        assert cluster.get(bucket, name, headers={"Range": "bytes=7-"}).status == 416
        wait_until(lambda: counts() == (puts + 1, errors + 1), 10, "each is counted once")
        return counts()

    before, exported = count(), cluster.metric("t1", "ais_target_put_count")
    assert before[0] > 0 and before[1] > 0
    assert cluster.call("p1", "PUT", "/v1/reverse/daemon", {"action": "reset-stats", "name": "", "value": True}, headers).status == 200
    after = tracker()
    assert after.get("put.n") == before[0] and "err.get.n" not in after
    assert cluster.call("p1", "PUT", "/v1/cluster", {"action": "reset-stats", "name": "", "value": False}).status == 200
    assert "put.n" not in tracker()
    assert count() == (1, 1)
    assert cluster.metric("t1", "ais_target_put_count") == exported + 1, "what Prometheus scrapes only ever grows"
    answer = cluster.call("p1", "PUT", "/v1/cluster", {"action": "reset-stats", "value": "all"})
    assert answer.status == 400 and "reset-stats" in answer.json()["message"]


def test_a_log_begins_anew(make_cluster):
    cluster = make_cluster(targets=1, drives=1)
    headers = {"Ais-Node-Id": id_of(cluster, "t1")}

    def log():
        return client.request("GET", cluster.endpoint + "/v1/reverse/daemon?what=log&severity=info", None, headers).text

    assert "target ready" in log()
    assert cluster.call("p1", "PUT", "/v1/reverse/daemon", {"action": "rotate-logs", "name": "", "value": None}, headers).status == 200
    assert "target ready" not in log() and "log begun anew" in log()
    assert cluster.call("p1", "PUT", "/v1/cluster", {"action": "rotate-logs", "name": "", "value": None}).status == 200
