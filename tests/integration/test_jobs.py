"""Jobs outlive their nodes: the proxy that drives one, the targets that do its work, the store's restart."""

import itertools
import json
import threading
import urllib.parse

import pytest
from harness import etcd, nodes
from harness.cli import Cli
from harness.jobs import ended, query, snaps, status, stop, total
from harness.sdk import client_of
from harness.waiting import guarded, wait_until

OBJECTS = 200
NAMES = [f"dir{i % 7}/n-{i:04}" for i in range(OBJECTS)]
SIZES = range(6, 306, 6)
SLOW = "copy_bucket.object=sleep:25"
SLOWER = "copy_bucket.object=sleep:100"  # a copy of all objects takes 6 s at least
SLOWEST = "copy_bucket.object=sleep:400"  # it does not end before a test ends it


def copied(cluster, proxy, job):
    return total(snaps(cluster, job, proxy), "loc-objs")


def record(cluster, job):
    return json.loads(nodes.stored(cluster, f"/tarn-jobs/job/{job}")[0])


def begin_copy(cluster, proxy, goal, source="data", at_least=5, **value):
    uname = urllib.parse.quote(f"ais/@#/{goal}/", safe="")
    answer = cluster.call(proxy, "POST", f"/v1/buckets/{source}?bck_to={uname}",
                 {"action": "copy-bck", "value": {"num-workers": -1} | value})
    assert answer.status == 200, answer
    wait_until(lambda: copied(cluster, proxy, answer.text) >= at_least, 20, "some objects are copied")
    return answer.text


def check_done(cluster, proxy, job, made, goal):
    """All of it is there, and the counts say so."""
    end = status(cluster, job, proxy)
    assert end["err"] == "" and not end["aborted"] and end["is_idle"], end
    found = snaps(cluster, job, proxy)
    assert sum(int(snap["stats"]["loc-objs"]) for snap in found.values()) == len(made), found
    assert sum(int(snap["stats"]["loc-bytes"]) for snap in found.values()) == sum(map(len, made.values()))
    sent = sum(int(snap["stats"]["out-objs"]) for snap in found.values())
    assert sent == sum(int(snap["stats"]["in-objs"]) for snap in found.values())
    assert all(snap["is_idle"] and not snap["aborted"] for snap in found.values())
    cluster.assert_bodies(goal, made)


def slow_cluster(make_cluster, slow=SLOW, others=None, **options):
    """`others`: fail points of other nodes than the targets."""
    return make_cluster(targets=3, drives=1, fail_points={f"t{i}": slow for i in (1, 2, 3)} | (others or {}), **options)


def slow_pair(make_cluster, slow):
    """Two proxies over etcd."""
    return slow_cluster(make_cluster, slow, meta="etcd", proxies=2)


def test_another_proxy_finishes_what_a_killed_one_began(make_cluster):
    for pause in (SLOWER, SLOWEST):  # on a slow machine a job may have ended before it is seen
        pair = slow_pair(make_cluster, pause)
        made = pair.fill("data", NAMES, SIZES)
        job = begin_copy(pair, "p2", "copied", at_least=20)
        pair.endpoint = pair.url_of("p1")
        assert copied(pair, "p1", job) >= 20, "p1 tells how far p2's job is"
        waits, limit = [], guarded(60)
        sdk = threading.Thread(target=lambda: waits.append(client_of(pair.endpoint).job(job, "copy-bck").wait(timeout=limit)))
        sdk.start()
        pair.kill("p2")
        if status(pair, job)["end_time"] == 0:
            break
        sdk.join()
    else:
        raise AssertionError("the job was over before its proxy died")
    ended(pair, job, 40)
    sdk.join()
    assert waits and waits[0].success, waits
    check_done(pair, "p1", job, made, "copied")
    assert record(pair, job)["runs"] == 2
    # The rest is told by the one that came back, too.
    pair.start("p2")
    check_done(pair, "p2", job, made, "copied")
    assert [each["uuid"] for each in query(pair, "status_all", "p2", kind="copy-bucket").json()] == [job]


def test_the_end_of_a_job_is_known_at_its_driver_as_soon_as_elsewhere(make_cluster):
    """The driver has the end of a job in the meta store, where others read it, before it notes that itself."""
    pair = slow_cluster(make_cluster, meta="etcd", proxies=2, others={"p2": "jobs.after_write=sleep:1500"})
    pair.fill("data", NAMES, SIZES)
    job = begin_copy(pair, "p2", "one", at_least=0)
    end = ended(pair, job, 40)
    assert status(pair, job, "p2") == end
    assert query(pair, "running_all", "p2", kind="copy-bucket").json() == []
    pair.logs["p2"].wait_for("failpoint hit name=jobs.after_write")


def test_a_job_is_stopped_at_any_proxy_and_stays_so(make_cluster):
    pair = slow_pair(make_cluster, SLOWEST)
    pair.fill("data", NAMES, SIZES)
    job = begin_copy(pair, "p2", "one")
    assert stop(pair, id=job).status == 200
    for proxy in ("p1", "p2"):
        end = status(pair, job, proxy)
        assert end["aborted"] and end["end_time"] > 0 and end["err"] == "", end
    left = pair.names("one")
    assert 0 < len(left) < OBJECTS

    # A job is stopped while it has no driver: the proxy that takes it over ends it.
    job = begin_copy(pair, "p2", "two")
    pair.endpoint = pair.url_of("p1")
    pair.kill("p2")
    assert stop(pair, id=job).status == 200
    assert status(pair, job)["aborted"]
    left = pair.names("two")
    pair.start("p2")
    assert status(pair, job, "p2")["aborted"]
    assert pair.names("two") == left and len(left) < OBJECTS, "it goes on behind our backs"
    assert query(pair, "running_all", "p2", kind="copy-bucket").json() == []

    # Ended jobs outlive all proxies.
    pair.kill("p1", "p2")
    pair.start("p1", "p2")
    assert status(pair, job)["aborted"]
    assert snaps(pair, job, "p2")[pair.nodes["t1"]["id"]]["abort-err"] == "stopped by a user"


@pytest.mark.deep("half a minute")
def test_the_only_proxy_goes_on_with_its_jobs_when_it_is_back(make_cluster):
    # Targets go on meanwhile, so each part takes longer than a start of the proxy.
    slow = "copy_bucket.object=sleep:75"
    cluster = slow_cluster(make_cluster, slow)
    made = cluster.fill("data", NAMES, SIZES)
    job = begin_copy(cluster, "p1", "copied", at_least=20)

    def answered():
        return cluster.metric("p1", "tarn_http_requests_total", listener="public", method="GET", status="200")

    tarn = Cli(cluster.endpoint)
    before, own = answered(), itertools.count(1)
    waiting = tarn.start("job", "wait", job, "--timeout", "60s")
    # It is patient with a cluster from which it has heard; each question of ours is counted, too.
    wait_until(lambda: answered() > before + next(own), 20, "tarn has had an answer")
    cluster.kill("p1")
    cluster.start("p1")
    assert status(cluster, job)["end_time"] == 0
    assert waiting.wait(60) == 0, waiting.stderr.read()
    check_done(cluster, "p1", job, made, "copied")

    # So when it is stopped and started in order.
    job = begin_copy(cluster, "p1", "again", at_least=20)
    cluster.down()
    cluster.up(fail_points={f"t{i}": slow for i in (1, 2, 3)})
    ended(cluster, job, 40)
    check_done(cluster, "p1", job, made, "again")
    job = begin_copy(cluster, "p1", "third")
    assert cluster.destroy_bucket("third").status == 200
    assert "destroyed" in ended(cluster, job, 40)["err"]


def test_a_target_that_is_killed_goes_on_with_its_part(make_cluster):
    cluster = slow_cluster(make_cluster, SLOWER)
    made = cluster.fill("data", NAMES, SIZES)
    job = begin_copy(cluster, "p1", "copied", at_least=30)
    cluster.kill("t2")
    assert status(cluster, job)["end_time"] == 0
    cluster.start("t2", fail_points=SLOW)
    ended(cluster, job, 60)
    check_done(cluster, "p1", job, made, "copied")
    assert record(cluster, job)["runs"] == 1


@pytest.mark.deep("more than 10 s")
def test_jobs_that_ended_long_ago_are_forgotten(make_cluster):
    """Records as proxies write them, of more jobs than are kept."""
    cluster = make_cluster(targets=1, drives=1)
    done = cluster_summary(cluster)
    model = record(cluster, done)
    ids = [f"old-{i:06}" for i in range(2000)]
    for at in range(0, len(ids), 100):
        puts = []
        for i in range(at, at + 100):
            made = model | {"id": ids[i], "ended": model["ended"] - (len(ids) - i) * 1_000_000}
            puts.append({"request_put": {"key": etcd.base64_of(f"/tarn-jobs/job/{ids[i]}"), "value": etcd.base64_of(json.dumps(made))}})
        assert nodes.kv(cluster, "txn", {"compare": [], "success": puts}).get("succeeded")

    def kept():
        found = nodes.kv(cluster, "range", {"key": etcd.base64_of("/tarn-jobs/job/"), "range_end": etcd.base64_of("/tarn-jobs/job0")})
        return len(found["kvs"])

    wait_until(lambda: kept() <= 500, 30, "old jobs are forgotten")
    assert kept() == 500
    assert len(query(cluster, "status_all").json()) == 500
    for job in (done, ids[-1], ids[-499]):
        assert status(cluster, job)["end_time"] > 0
    for job in (ids[0], ids[-500]):
        assert query(cluster, "status", id=job).status == 404


def cluster_summary(cluster):
    answer = cluster.call("p1", "GET", "/v1/buckets/data?provider=ais", {"action": "summary-bck", "value": {}})
    assert answer.status == 202, answer
    job = answer.text.strip('"\n')
    ended(cluster, job, 40)
    return job


def test_tarn_shows_waits_for_and_stops_jobs(make_cluster):
    cluster = slow_cluster(make_cluster, SLOWEST)
    tarn = Cli(cluster.endpoint)
    cluster.fill("data", NAMES, SIZES)
    job = begin_copy(cluster, "p1", "copied")
    shown = json.loads(tarn.ok("job", "ls", "--json"))
    # What moves as targets join is a job as well, and may begin only now.
    assert [(each["id"], each["kind"], each["state"]) for each in shown if each["kind"] != "rebalance"] == [(job, "copy-bck", "running")]
    assert job.encode() in tarn.ok("job", "ls", "--kind", "copy-bucket")
    shown = json.loads(tarn.ok("job", "show", job, "--json"))
    assert shown["id"] == job and shown["state"] == "running" and len(shown["targets"]) == 3
    assert sum(each["objects"] for each in shown["targets"]) >= 5
    for name in ("t1", "t2", "t3"):
        assert cluster.nodes[name]["id"].encode() in tarn.ok("job", "show", job)
    tarn.refuses(124, "job", "wait", job, "--timeout", "200ms", says=job)
    tarn.ok("job", "stop", job)
    assert json.loads(tarn.ok("job", "show", job, "--json"))["state"] == "aborted"
    assert job.encode() not in tarn.ok("job", "ls")
    assert job.encode() in tarn.ok("job", "ls", "--all")
    tarn.refuses(1, "job", "wait", job, says="stopped by a user")
    for command in (("show",), ("wait",), ("stop",)):
        tarn.refuses(3, "job", *command, "nosuchid123", says="nosuchid123")


def test_a_stop_of_rebuilds_reaches_targets_that_no_job_shows_yet(make_cluster):
    cluster = make_cluster(targets=3, drives=1)
    tarn = Cli(cluster.endpoint)
    assert query(cluster, "status_all", kind="rebuild").json() == []

    def stopped():
        told = query(cluster, "rebuild").json()["targets"]
        return [each["stopped"] for each in told.values()]

    assert stopped() == [False] * 3
    tarn.ok("rebuild", "stop")
    assert stopped() == [True] * 3
    tarn.ok("rebuild", "start", "--wait")
    assert stopped() == [False] * 3


def rebalances(cluster):
    """Status by id."""
    return {each["uuid"]: each for each in query(cluster, "status_all", kind="rebalance").json()}


def test_what_moves_when_the_map_changes_is_a_job(make_cluster):
    cluster = make_cluster(targets=3, drives=1)
    nodes.wait_until_in_place(cluster)
    made = cluster.fill("data", NAMES[:60], SIZES)
    job = f"g{nodes.give_names_to(cluster, 't1')}"
    wait_until(lambda: job in rebalances(cluster), 20, "the rebalance is noted")
    end = ended(cluster, job, 40)
    assert end["kind"] == "rebalance" and not end["aborted"] and end["err"] == "", end
    assert not nodes.stored_map(cluster).get("past"), "no target has names of others any longer"
    found = snaps(cluster, job)
    assert set(found) == {cluster.nodes[name]["id"] for name in ("t1", "t2", "t3")}
    assert all(snap["is_idle"] and snap["id"] == job and snap["end-time"] > snap["start-time"] for snap in found.values())
    cluster.assert_bodies("data", made)
    assert client_of(cluster.endpoint).job(job, "rebalance").wait(timeout=guarded(30)).success

    # Another map before the first has come true takes its place.
    limit(cluster, 500)
    first = nodes.give_names_to(cluster, "t2", "t3")
    wait_until(lambda: f"g{first}" in rebalances(cluster), 20, "a rebalance is noted")
    last = nodes.give_names_to(cluster, "t1", "t3")
    end = ended(cluster, f"g{first}", 40)
    assert end["aborted"] and end["err"] == "", end
    assert all(snap["abort-err"].startswith("overtaken by map version ") for snap in snaps(cluster, f"g{first}").values())
    job = wait_until(lambda: [job for job in rebalances(cluster) if int(job[1:]) >= last], 20, "another one is noted")[0]
    limit(cluster, 0)
    assert not ended(cluster, job, 40)["aborted"] and not nodes.stored_map(cluster).get("past")
    cluster.assert_bodies("data", made)


def limit(cluster, bandwidth):
    """Bytes a second that every target may move; 0: as many as it can."""
    for name in cluster.targets():
        assert nodes.call(cluster, name, "PATCH", "/v1/internal/rebalance", {"bandwidth": bandwidth}).status == 200


def test_a_resilver_is_a_job_of_one_target(make_cluster):
    cluster = make_cluster(targets=2, drives=2)
    made = cluster.fill("data", NAMES[:20], SIZES)
    target = cluster.nodes["t1"]["id"]
    start = lambda **value: cluster.call("p1", "PUT", "/v1/cluster", {"action": "start", "value": {"Kind": "resilver"} | value})
    answer = start(DaemonID=target)
    assert answer.status == 200, answer
    end = ended(cluster, answer.text, 40)
    assert end["kind"] == "resilver" and end["err"] == "" and not end["aborted"], end
    assert set(snaps(cluster, answer.text)) == {target}
    cluster.assert_bodies("data", made)
    assert start().status == 501 and start(DaemonID="nobody").status == 404
    assert start(DaemonID=cluster.nodes["p1"]["id"]).status == 400
