"""Nodes that are told to end while jobs and requests are under way: they end in order, and other proxies go on with the jobs."""

import contextlib
import http.client
import os
import random
import signal
import threading
import time
import urllib.parse

import pytest
from harness import jobs
from harness.waiting import scaled, wait_until

BAD_END = "tasks still run|tasks that did not end|CHECK failed"


def start_rebuild(cluster, proxy):
    return cluster.call(proxy, "PUT", "/v1/cluster", {"action": "start", "value": {"Kind": "rebuild"}})


def end(cluster, name):
    """Ends a node with SIGTERM. The lines that it logs meanwhile."""
    log = cluster.logs[name]
    before = len(log.lines())
    cluster.running.discard(name)
    os.kill(cluster.pid(name), signal.SIGTERM)
    cluster.wait_exit(name, scaled(60))
    lines = log.lines()[before:]
    said = " info proxy stopped" if name in cluster.proxies else " info target stopping node="
    assert any(said in line for line in lines), lines[-10:]
    assert not log.matching(BAD_END), log.matching(BAD_END)
    return lines


@pytest.mark.parametrize("meta", ["etcd", "embedded"])
def test_a_proxy_ends_in_order_while_a_job_waits(make_cluster, meta):
    """A rebuild waits for a target that is down. The calls of the meta store that it makes all the time may not hide from it
    that the proxy ends."""
    options = {"meta": "etcd", "proxies": 2} if meta == "etcd" else {}
    cluster = make_cluster(targets=2, drives=1, settings={"target.out_after": "1h"}, **options)
    driver = cluster.proxies[-1]
    cluster.kill("t2")
    started = start_rebuild(cluster, driver)
    assert started.status == 200, started
    job = started.text
    assert jobs.status(cluster, job)["end_time"] == 0
    lines = end(cluster, driver)
    assert not any("kind=rebuild" in line for line in lines), "the job is neither done nor failed"
    if meta == "etcd":
        wait_until(lambda: cluster.logs["p1"].matching(f"job taken kind=rebuild job={job}"), 60, "the other proxy goes on with it")
    else:
        cluster.start(driver)
    assert jobs.status(cluster, job)["end_time"] == 0


def ask_in_vain(cluster):
    with contextlib.suppress(OSError, http.client.HTTPException):
        cluster.bucket_action("POST", "late", "create-bck")


@pytest.mark.deep("waits half a minute for a store that stands still")
def test_a_proxy_whose_tasks_do_not_end_says_which_and_does_not_crash(make_cluster, tmp_path):
    """A request waits for the embedded store, which cannot be interrupted, for longer than the proxy waits for it."""
    now = tmp_path / "now"
    cluster = make_cluster(targets=1, drives=1, settings={"shutdown.grace": "100ms"},
                           fail_points={"p1": f"meta.before_reply=sleep:25000@{now}"})
    cluster.expect_errors("stopped with tasks that did not end")
    now.touch()
    asker = threading.Thread(target=ask_in_vain, args=(cluster,))
    asker.start()
    wait_until(lambda: cluster.logs["p1"].matching("failpoint hit name=meta.before_reply"), 60, "the store stands still")
    cluster.running.discard("p1")
    os.kill(cluster.pid("p1"), signal.SIGTERM)
    cluster.wait_exit("p1", scaled(120))
    asker.join(60)
    log = cluster.logs["p1"]
    assert log.matching("tasks still run .*tasks=connection$") and log.matching("stopped with tasks that did not end"), log.lines()[-10:]
    cluster.start("p1")
    assert cluster.put("data", "x", b"x").status == 200


def copy(cluster, proxy, goal):
    uname = urllib.parse.quote(f"ais/@#/{goal}/", safe="")
    return cluster.call(proxy, "POST", f"/v1/buckets/data?bck_to={uname}", {"action": "copy-bck", "value": {"num-workers": -1}})


def act(cluster, proxy, choice, number):
    """Begins an act that a proxy continues after its answer, or in a request that lasts."""
    bucket = f"b{number}"
    acts = [
        lambda: start_rebuild(cluster, proxy),
        lambda: copy(cluster, proxy, bucket),
        lambda: cluster.call(proxy, "GET", "/v1/buckets/data?provider=ais", {"action": "summary-bck", "value": {}}),
        lambda: cluster.call(proxy, "POST", f"/v1/buckets/{bucket}?provider=ais", {"action": "create-bck"}),
        lambda: cluster.call(proxy, "DELETE", "/v1/buckets/data?provider=ais",
                    {"action": "delete-listrange", "value": {"objnames": [f"n{number}"]}}),
        lambda: cluster.call(proxy, "GET", "/v1/buckets/data?provider=ais", {"action": "list", "value": {"props": "name"}}),
    ]
    with contextlib.suppress(OSError, http.client.HTTPException):
        acts[choice % len(acts)]()


@pytest.mark.deep("a minute or two")
def test_nodes_that_end_at_any_moment_end_in_order(make_cluster, seed):
    """Proxies with jobs and requests under way, and targets that go and come."""
    rng = random.Random(f"{seed} ends")
    cluster = make_cluster(targets=3, drives=1, meta="etcd", proxies=2, settings={"target.out_after": "1h", "shutdown.grace": "1s"},
                           fail_points={f"t{i}": "copy_bucket.object=sleep:25" for i in (1, 2, 3)})
    for i in range(60):
        assert cluster.put("data", f"n{i}", b"%d" % i * 100).status == 200
    away = None
    for number in range(12):
        proxy = rng.choice(cluster.proxies)
        if away is None and rng.random() < 0.6:
            away = rng.choice(cluster.targets())
            rng.choice([cluster.kill, lambda target: end(cluster, target)])(away)
        actors = [threading.Thread(target=act, args=(cluster, proxy, rng.randrange(60), 10 * number + i)) for i in range(rng.randint(1, 4))]
        for actor in actors:
            actor.start()
        time.sleep(rng.uniform(0, 2))
        end(cluster, proxy)
        for actor in actors:
            actor.join(90)
        cluster.start(proxy)
        if away is not None and rng.random() < 0.5:
            cluster.start(away)
            away = None
