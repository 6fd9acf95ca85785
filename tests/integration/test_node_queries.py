"""What nodes tell of themselves: counters, drives, jobs and metrics are real, and the log level changes while they run."""

import json
import re

import pytest
from harness import client
from harness.cluster import REPOSITORY
from harness.waiting import wait_until


def query(cluster, path, headers=None, body=None, method="GET"):
    data = None if body is None else json.dumps(body).encode()
    return client.request(method, cluster.endpoint + path, data, headers, expect=False)


def status_of(cluster, name):
    return query(cluster, "/v1/reverse/daemon?what=node_status", {"Ais-Node-Id": cluster.nodes[name]["id"]}).json()


def test_counters_are_those_of_the_requests(cluster, bucket):
    name = cluster.names_owned_by("t2", bucket, 1)[0]
    before = status_of(cluster, "t2")["tracker"]
    assert cluster.put(bucket, name, b"x" * 1000).status == 200
    for _ in range(3):
        assert cluster.get(bucket, name).status == 200
    assert cluster.get(bucket, name, headers={"Range": "bytes=5-9"}).status == 206
    assert cluster.head(bucket, name).status == 200
    assert cluster.delete(bucket, name).status == 200
    assert cluster.get(bucket, name).status == 404
    wanted = {"put.n": 1, "put.size": 1000, "get.n": 4, "get.size": 3005, "head.n": 1, "del.n": 1}

    def counted():
        after = status_of(cluster, "t2")["tracker"]
        return after if {key: after.get(key, 0) - before.get(key, 0) for key in wanted} == wanted else None

    after = wait_until(counted, 10, "each is counted once")  # which an answer is when it has gone, after the client has it
    gained = {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)}
    assert "err.get.n" not in gained and gained["get.ns.total"] > 0
    labels = {"node_id": cluster.nodes["t2"]["id"]}
    assert cluster.metric("t2", "ais_target_get_bytes", **labels) == after["get.size"]


def test_capacity_is_that_of_the_drives(cluster):
    import os
    status = status_of(cluster, "t1")
    assert set(status["capacity"]["mountpaths"]) == {str(drive) for drive in cluster.drives("t1")}
    for path, drive in status["capacity"]["mountpaths"].items():
        space = os.statvfs(path)
        total = int(drive["used"]) + int(drive["avail"])
        assert abs(total - space.f_blocks * space.f_frsize) < 0.01 * total
        assert drive["fs"]["FsType"] and re.fullmatch(r"-?\d+,-?\d+", drive["fs"]["FsID"])
    assert status["cluster"]["flags"] & 6 == 6
    proxies = query(cluster, "/v1/reverse/daemon?what=node_status", {"Ais-Node-Id": cluster.nodes["p1"]["id"]}).json()
    assert proxies["capacity"]["mountpaths"] == {} and proxies["snode"]["daemon_type"] == "proxy"


def test_a_lost_drive_shows(make_cluster):
    """A drive that is taken out is no longer a mountpath, and raises AIStore's flag of a disk fault."""
    cluster = make_cluster(targets=1, drives=2)
    drive = cluster.drives("t1")[1]
    drive.rename(drive.with_name("gone"))
    cluster.expect_errors(r"drive")
    try:
        def mountpaths():
            return query(cluster, "/v1/cluster?what=mountpaths").json()[cluster.nodes["t1"]["id"]]

        wait_until(lambda: status_of(cluster, "t1")["cluster"]["flags"] & (1 << 13), 60, "the flag is up")
        # "out" until the target lets go of it, when its index was the first to notice.
        wait_until(lambda: mountpaths()["states"][str(drive)] == "missing", 60, "it is missing")
        paths = mountpaths()
        assert str(drive) in paths.pop("notes")[str(drive)], "why it is out"
        assert paths.pop("states") == {str(cluster.drives("t1")[0]): "up", str(drive): "missing"}
        assert paths == {"available": [str(cluster.drives("t1")[0])], "waiting_dd": [], "disabled": [str(drive)]}
    finally:
        drive.with_name("gone").rename(drive)


@pytest.mark.parametrize("path, node", [
    ("/v1/cluster/set-config?log.level={}", None), ("/v1/reverse/daemon/set-config?log.level={}", "t1"),
    ("/v1/cluster", None)])
def test_the_log_level_changes_while_a_node_runs(cluster, path, node):
    headers = {"Ais-Node-Id": cluster.nodes[node]["id"]} if node else None

    def change(level):
        body = None if "{}" in path else {"action": "set-config", "name": "", "value": {"log": {"level": level}}}
        assert query(cluster, path.format(level), headers, body, "PUT").status == 200

    def requests_logged():
        assert client.request("GET", cluster.url_of("t1") + "/v1/objects/data/no-such?provider=ais").status in (404, 503)
        return len(cluster.logs["t1"].matching(r" debug http request .*no-such"))

    try:
        assert requests_logged() == 0
        change("debug")
        wait_until(lambda: requests_logged() > 0, 5, "requests are logged")
        config = query(cluster, "/v1/reverse/daemon?what=config", {"Ais-Node-Id": cluster.nodes["t1"]["id"]}).json()
        assert config["log"]["level"] == "4"
    finally:
        change("3")
        # What a node was told alone would win over what the cluster says later.
        assert query(cluster, "/v1/cluster", None, {"action": "reset-config", "value": None}, "PUT").status == 200
    cluster.logs["t1"].mark()
    assert requests_logged() == 0


def test_a_log_is_read_from_an_offset_and_by_severity(cluster):
    headers = {"Ais-Node-Id": cluster.nodes["t1"]["id"]}
    whole = query(cluster, "/v1/reverse/daemon?what=log&severity=info", headers).text
    assert re.search(r"^\S+Z info target ready node=", whole, re.MULTILINE)
    assert " info " not in query(cluster, "/v1/reverse/daemon?what=log&severity=warning", headers).text
    assert query(cluster, f"/v1/reverse/daemon?what=log&offset={10**9}", headers).text == ""
    for bad in ("severity=loud", "offset=x", "all=perhaps"):
        assert query(cluster, f"/v1/reverse/daemon?what=log&{bad}", headers).status == 400


def test_a_cluster_answer_is_never_short(make_cluster):
    cluster = make_cluster(targets=2, drives=1)
    assert len(query(cluster, "/v1/cluster?what=sysinfo").json()["target"]) == 2
    cluster.kill("t2")
    for what in ("sysinfo", "node_stats", "mountpaths"):
        answer = query(cluster, f"/v1/cluster?what={what}")
        assert answer.status == 503 and cluster_id(cluster, "t2") in answer.json()["message"], answer
    job = query(cluster, "/v1/buckets/data", body={"action": "summary-bck", "value": {}}).text
    wait_until(lambda: query(cluster, "/v1/buckets/data", body={"action": "summary-bck", "value": {"uuid": job}}).status == 503,
               20, "the summary has failed")
    status = query(cluster, "/v1/cluster?what=status", body={"id": job}).json()
    assert status["end_time"] > 0 and cluster_id(cluster, "t2") in status["err"]


def cluster_id(cluster, name):
    return cluster.nodes[name]["id"]


def test_a_summary_counts_what_a_list_shows(cluster, bucket, rng):
    sizes = {f"{directory}/{i}": rng.randrange(0, 9000) for directory in ("a", "b") for i in range(20)}
    for name, size in sizes.items():
        assert cluster.put(bucket, name, b"x" * size).status == 200
    assert cluster.delete(bucket, "a/0").status == 200
    del sizes["a/0"]
    for prefix in ("", "a/", "b/1", "nothing"):
        wanted = [size for name, size in sizes.items() if name.startswith(prefix)]
        job = query(cluster, f"/v1/buckets/{bucket}", body={"action": "summary-bck", "value": {"prefix": prefix}}).text
        value = {"action": "summary-bck", "value": {"uuid": job}}
        wait_until(lambda: query(cluster, f"/v1/buckets/{bucket}", body=value).status == 200, 10, "the summary is done")
        (summary,) = query(cluster, f"/v1/buckets/{bucket}", body=value).json()
        assert summary["ObjCount"]["obj_count_present"] == str(len(wanted))
        assert summary["TotalSize"]["size_all_present_objs"] == str(sum(wanted))
        assert summary["ObjSize"]["obj_max_size"] == max(wanted, default=0)
    assert query(cluster, f"/v1/buckets/{bucket}", body={"action": "summary-bck", "value": {"uuid": "nosuchid1"}}).status == 404


def test_every_metric_is_documented_and_no_other(cluster, make_cluster):
    text = (REPOSITORY / "docs" / "metrics.md").read_text()
    written = set(re.findall(r"`((?:tarn|ais)_[a-z_*<>]+)`", text)) - {"ais_target_", "ais_proxy_"}
    exported = set()
    for node in ("p1", "t1"):
        scrape = client.request("GET", cluster.url_of(node) + "/metrics").text
        exported |= set(re.findall(r"^# TYPE (\S+)", scrape, re.MULTILINE))
    assert "no-such" not in scrape and "bucket-" not in scrape, "nothing of a request is in a label"
    exported |= metrics_of_redundancy(make_cluster(targets=2, drives=1, zones=2))
    assert any(name.startswith("ais_target_") for name in exported) and any(name.startswith("ais_proxy_") for name in exported)
    operations = "get|put|head|append|del|ren|lst"
    patterns = {re.escape(name).replace("\\*", "(?:target|proxy)").replace("<operation>", f"(?:{operations})") for name in written}
    known = re.compile("|".join(patterns))
    assert not {name for name in exported if not known.fullmatch(name)}
    assert not {pattern for pattern in patterns if not any(re.fullmatch(pattern, name) for name in exported)}


def metrics_of_redundancy(cluster):
    """Names of those that show once all buckets, one of them with objects, have been counted."""
    query(cluster, "/v1/cluster/set-config?redundancy.interval=1s&scrub.period=10s", method="PUT")  # the age is known from the first scrub on
    assert cluster.put("data", "a", b"a").status == 200

    def scraped():
        text = client.request("GET", cluster.url_of("p1") + "/metrics").text
        return text if "tarn_bucket_survives_drives" in text and "tarn_bucket_oldest_verified_seconds" in text else None

    scrape = wait_until(scraped, 20, "the bucket has been counted")
    return set(re.findall(r"^# TYPE (tarn_bucket_\S+)", scrape, re.MULTILINE))


