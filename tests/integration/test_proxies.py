"""Several proxies over etcd: any of them answers anything."""

import json
import os
import signal
import threading

import pytest
from harness import attribute, client, etcd
from harness.cli import Cli
from harness.cluster import PROGRAMS, Cluster
from harness.fixtures import seed_of_run
from harness.waiting import scaled, wait_until


@pytest.fixture(scope="module")
def module_cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("proxies") / "cluster", meta="etcd", proxies=2, targets=2, drives=1,
                      identities=f"{seed_of_run()} proxies")
    cluster.up()
    yield cluster
    cluster.close()


@pytest.fixture
def pair(module_cluster):
    """A cluster with two proxies, for tests that leave all nodes alive."""
    module_cluster.begin_test()
    yield module_cluster
    assert not module_cluster.complaints(), module_cluster.complaints()


def bucket_action(cluster, proxy, method, bucket, action, value=None):
    return cluster.call(proxy, method, f"/v1/buckets/{bucket}?provider=ais", {"action": action, "value": value})


def test_what_one_proxy_stored_the_other_serves(pair):
    assert client.request("PUT", pair.url("data", "a", pair.url_of("p1")), b"one").status == 200
    assert client.request("GET", pair.url("data", "a", pair.url_of("p2"))).body == b"one"
    assert client.request("DELETE", pair.url("data", "a", pair.url_of("p2"))).status == 200
    assert client.request("GET", pair.url("data", "a", pair.url_of("p1"))).status == 404


def test_changes_of_buckets_are_seen_by_both_at_once(pair):
    for i in range(15):
        here, there = ("p1", "p2") if i % 2 else ("p2", "p1")
        assert bucket_action(pair, here, "POST", "turns", "create-bck").status == 200
        assert client.request("PUT", pair.url("turns", "x", pair.url_of(there)), b"%d" % i).status == 200
        assert bucket_action(pair, there, "POST", "turns", "create-bck").status == 409
        assert bucket_action(pair, there, "PATCH", "turns", "set-bprops", {"durability": "nosync"}).status == 200
        assert json.loads(pair.call(here, "HEAD", "/v1/buckets/turns").headers["Ais-Bucket-Props"])["durability"] == "nosync"
        assert bucket_action(pair, here, "DELETE", "turns", "destroy-bck").status == 200
        for proxy in (there, here):
            assert client.request("GET", pair.url("turns", "x", pair.url_of(proxy))).status == 404
            assert pair.call(proxy, "GET", "/v1/buckets/turns").status == 404


def test_of_two_who_make_one_bucket_one_wins(pair):
    for i in range(5):
        answers = []
        threads = [threading.Thread(target=lambda p=proxy: answers.append(
            bucket_action(pair, p, "POST", f"race{i}", "create-bck").status)) for proxy in ("p1", "p2")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [200, 409]


def test_jobs_can_be_asked_for_at_any_proxy(pair):
    assert bucket_action(pair, "p1", "POST", "counted", "create-bck").status == 200
    pair.fill("counted", dict.fromkeys((f"n{i}" for i in range(3)), b"x" * 10))
    started = pair.call("p1", "GET", "/v1/buckets/counted?provider=ais", {"action": "summary-bck", "value": {}})
    assert started.status == 202
    job = started.text.strip().strip('"')

    def done():
        answer = pair.call("p2", "GET", "/v1/buckets/counted?provider=ais",
                      {"action": "summary-bck", "value": {"uuid": job}})
        assert answer.status in (200, 202, 206), answer
        return answer.json() if answer.status == 200 else None

    summary = wait_until(done, 10, "p2 tells the result of p1's job")
    assert summary[0]["name"] == "counted"
    for what in ("status", "qryxstats"):
        answer = pair.call("p2", "GET", f"/v1/cluster?what={what}", {"id": job, "kind": "summary"})
        assert answer.status == 200 and job in answer.text, answer
    assert job in pair.call("p2", "GET", "/v1/cluster?what=status_all", {}).text
    missing = pair.call("p2", "GET", "/v1/cluster?what=status", {"id": "nosuchjob1", "kind": "summary"})
    assert missing.status == 404


def test_both_name_one_primary(pair):
    ids = {node["id"] for name, node in pair.nodes.items() if name.startswith("p")}
    for proxy in ("p1", "p2"):  # each hears by itself of the one that joined last
        wait_until(lambda: set(pair.smap(proxy)["pmap"]) == ids, 10, f"{proxy} knows both")
    maps = [pair.smap(proxy) for proxy in ("p1", "p2")]
    assert {each["proxy_si"]["daemon_id"] for each in maps} < ids and len({m["proxy_si"]["daemon_id"] for m in maps}) == 1
    assert set(maps[0]["pmap"]) == ids


def test_another_proxy_becomes_primary_when_it_is_killed(make_cluster):
    cluster = make_cluster(meta="etcd", proxies=2, targets=1, drives=1)
    names = {node["id"]: name for name, node in cluster.nodes.items()}

    def primary(proxy):
        return names[cluster.smap(proxy)["proxy_si"]["daemon_id"]]

    for _ in range(2):
        old = primary("p1")
        other = "p2" if old == "p1" else "p1"
        version = int(cluster.smap(other)["version"])
        cluster.kill(old)
        # The lease of 4 s ends up to 4.4 s after its last renewal, then a look every 0.2 s.
        wait_until(lambda: primary(other) == other, 8, f"{other} is primary")
        assert int(cluster.smap(other)["version"]) > version
        cluster.start(old)
        wait_until(lambda: primary(old) == other, 5, "the old primary does not take it back")
    # A graceful end hands it over at once.
    old = primary("p1")
    other = "p2" if old == "p1" else "p1"
    cluster.running.discard(old)
    os.kill(cluster.pid(old), signal.SIGTERM)
    wait_until(lambda: primary(other) == other, 3, f"{other} is primary")  # less than a lease lasts


def test_a_proxy_that_stays_away_is_taken_out_and_joins_again(make_cluster):
    """One that was killed, then one that does not run for a while: no operator has to clear up after them."""
    cluster = make_cluster(meta="etcd", proxies=2, targets=1, drives=1, settings={"proxy.out_after": "1s"})
    assert cluster.put("data", "a", b"one").status == 200
    away = cluster.nodes["p2"]["id"]

    def is_member():
        return away in cluster.smap("p1")["pmap"]

    for leave, come in ((cluster.kill, cluster.start), (cluster.stop, cluster.cont)):
        leave("p2")
        wait_until(lambda: not is_member(), 60, "it is taken out")
        Cli(cluster.endpoint).ok("cluster", "wait", "--timeout", "60s")
        come("p2")
        wait_until(is_member, 60, "it is a member again")
        wait_until(lambda: client.request("GET", cluster.url("data", "a", cluster.url_of("p2")), expect=False).status == 200, 60, "it serves")
        wait_until(lambda: away in cluster.smap("p2")["pmap"], 60, "it knows it itself")


def test_a_proxy_can_be_added(make_cluster):
    cluster = make_cluster(meta="etcd", proxies=1, targets=1, drives=1)
    assert cluster.put("data", "a", b"one").status == 200
    cluster.command("add", "proxy")
    cluster.refresh()
    cluster.running.add("p2")
    assert cluster.nodes["p2"]["state"] == "ready"
    port = int(cluster.endpoint.rpartition(":")[2])
    assert cluster.url_of("p2").endswith(f":{port + 2}") and cluster.url_of("p2", "relay").endswith(f":{port + 3}")
    assert client.request("GET", cluster.url("data", "a", cluster.url_of("p2"))).body == b"one"
    cluster.down()
    cluster.command("up", "--bin", str(PROGRAMS))
    cluster.refresh()
    cluster.running = set(cluster.nodes)
    assert cluster.nodes["p2"]["state"] == "ready"


def generations(cluster):
    return [said["generation"] for said in attribute.decoded(cluster.all_drives()).values()]


def to_etcd(cluster, url):
    """Starts all nodes with --meta, as an operator does after move-metadata."""
    file = cluster.directory / "cluster.json"
    record = json.loads(file.read_text())
    secret = str(cluster.directory / "p1" / "cluster.secret")
    for node in record["nodes"]:
        words = node["arguments"]
        if node["role"] == "proxy":
            words += ["--meta", url, "--secret-file", secret]
        else:
            at = words.index("--join")
            words[at:at + 2] = ["--meta", url]
    file.write_text(json.dumps(record))


def test_an_embedded_cluster_moves_to_etcd_without_losing_a_bucket(make_cluster, tmp_path):
    cluster = make_cluster(targets=2, drives=1)
    buckets = [f"b{i}" for i in range(120)]
    for bucket in (*buckets, "gone"):
        assert bucket_action(cluster, "p1", "POST", bucket, "create-bck").status == 200
    assert bucket_action(cluster, "p1", "PATCH", "b7", "set-bprops", {"durability": "nosync"}).status == 200
    assert bucket_action(cluster, "p1", "DELETE", "gone", "destroy-bck").status == 200
    for bucket in buckets[::10]:
        assert cluster.put(bucket, "object", bucket.encode()).status == 200
    before = cluster.call("p1", "GET", "/v1/daemon?what=bmd").json()
    job = cluster.call("p1", "GET", "/v1/buckets/b0?provider=ais", {"action": "summary-bck", "value": {}}).text.strip('"\n')
    ended = wait_until(lambda: [each for each in cluster.call("p1", "GET", "/v1/cluster?what=status_all", {"id": job}).json()
                                if each["end_time"]], 10, "the summary ends")
    old = max(generations(cluster))
    cluster.down()
    tarn = Cli("http://127.0.0.1:9")
    with etcd.running_etcd(tmp_path) as url:
        said = tarn.ok("cluster", "move-metadata", "--from", cluster.directory / "p1", "--to", url).decode()
        assert f"{len(buckets) + 1} buckets" in said
        # From now on no proxy starts with the old store.
        result = cluster.command("up", "--bin", PROGRAMS, check=False)
        assert result.returncode == 1 and f"was moved to {url}" in result.stderr
        # The same command again does nothing, and another one cannot move the store elsewhere.
        tarn.ok("cluster", "move-metadata", "--from", cluster.directory / "p1", "--to", url)
        tarn.refuses(6, "cluster", "move-metadata", "--from", cluster.directory / "p1", "--to", "http://127.0.0.1:9",
                     says="moved to")
        to_etcd(cluster, url)
        cluster.up()
        assert cluster.call("p1", "GET", "/v1/daemon?what=bmd").json() == before
        for bucket in buckets[::10]:
            assert cluster.get(bucket, "object").body == bucket.encode()
        assert cluster.put("b0", "object", b"new").status == 200
        new = max(generations(cluster))
        assert new > old and new[1] > old[1]
        assert cluster.call("p1", "GET", "/v1/buckets/gone").status == 404
        # A proxy that has just started reads the records of jobs beside its work.
        wait_until(lambda: cluster.call("p1", "GET", "/v1/cluster?what=status_all", {"id": job}).json() == ended, 10, "the job is known")
        cluster.down()


def test_the_running_proxy_keeps_its_store(make_cluster, tmp_path):
    cluster = make_cluster(targets=1, drives=1)
    Cli(cluster.endpoint).refuses(6, "cluster", "move-metadata", "--from", cluster.directory / "p1",
                                  "--to", "http://127.0.0.1:9", says="stop the proxy first")


def test_a_lost_embedded_store_is_made_anew_from_the_drives(make_cluster, tmp_path):
    cluster = make_cluster(targets=2, drives=1)
    for bucket in ("photos", "films"):
        assert bucket_action(cluster, "p1", "POST", bucket, "create-bck").status == 200
    for i in range(20):
        assert cluster.put("photos", f"n{i}", b"%d" % i).status == 200
    old = max(generations(cluster))
    cluster.down()
    proxy = cluster.directory / "p1"
    lost = tmp_path / "lost"
    (proxy / "meta").rename(lost)
    # A proxy that starts with nothing makes a new cluster, which no target of the old one joins.
    result = cluster.command("up", "--bin", PROGRAMS, "--timeout", str(scaled(30)), check=False)
    assert result.returncode == 1 and "belongs to cluster" in result.stderr, result.stderr
    (proxy / "meta").rename(tmp_path / "foreign")
    drives = [drive for target in ("t1", "t2") for drive in cluster.drives(target)]
    tarn = Cli("http://127.0.0.1:9")
    said = tarn.ok("cluster", "recover", "--to", proxy, "--secret-file", proxy / "cluster.secret", *drives).decode()
    assert "3 buckets" in said
    cluster.up()
    for i in range(20):
        assert cluster.get("photos", f"n{i}").body == b"%d" % i
    assert {each["name"] for each in cluster.call("p1", "GET", "/v1/buckets").json()} == {"data", "photos", "films"}
    assert cluster.put("photos", "n0", b"new").status == 200
    assert max(generations(cluster)) > old and max(each[1] for each in generations(cluster)) > old[1]
    # A store that is older than what the drives have seen is refused.
    cluster.down()
    (proxy / "meta").rename(tmp_path / "recovered")
    lost.rename(proxy / "meta")
    result = cluster.command("up", "--bin", PROGRAMS, "--timeout", str(scaled(30)), check=False)
    assert result.returncode == 1 and "put back to an older state" in result.stderr, result.stderr
