"""The number of copies on nodes changes under load, while targets and proxies die (docs/decisions/014)."""

import time

from copies import Reading, put_all, wait_full
from disks import seeded
from harness import attribute
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until
from load import Crowd
from stage import Churn

ON_NODES = {"enabled": True, "domain": "node"}


def ask(cluster, proxy, method, path, **body):
    try:
        return cluster.call(proxy, method, path, body)
    except OSError:
        return None


def set_copies(cluster, proxy, copies):
    """Asks until it is done: the id of the job."""
    ids = []

    def set_them():
        answer = ask(cluster, proxy, "PATCH", "/v1/buckets/two?provider=ais", action="set-bprops",
                     value={"mirror": ON_NODES | {"copies": copies} if copies > 1 else {"enabled": False}})
        ids[:] = [answer.text] if answer is not None and answer.status == 200 else []
        return ids

    wait_until(set_them, 20, f"{copies} copies are asked for")
    return ids[0]


def wait_job(cluster, job, seconds=60):
    said = []

    def ended():
        answer = ask(cluster, "p2", "GET", "/v1/cluster?what=status", id=job)
        said[:] = [answer.json()] if answer is not None and answer.status == 200 else []
        return said and said[0]["end_time"] != 0

    wait_until(ended, seconds, f"job {job} ends")
    assert said[0]["err"] == "" and not said[0]["aborted"], said


def replicas_agree(cluster, copies):
    """Each object lies on so many targets, in one version that is known to be everywhere."""
    found = {}
    for target in cluster.targets():
        for name, said in attribute.objects(cluster.drives(target), "two").items():
            found.setdefault(name, []).append(str(said))
    return all(len(each) == copies and len(set(each)) == 1 for each in found.values())


def test_nobody_who_reads_notices_another_number_of_copies(make_stage, seed):
    stage = make_stage(targets=3, drives=1)
    cluster = stage.cluster
    cluster.create_bucket("two", {"mirror": ON_NODES})
    wait_until_in_place(cluster)
    names = [f"n-{i:04}" for i in range(60)]
    put_all([stage.client(f"w{i}") for i in range(3)], "two", names, 20_000)
    reading = Reading(seed, names)
    crowd = Crowd([stage.client(f"r{i}", timeout=30) for i in range(3)], reading).start()
    for copies in (3, 2, 1, 2):
        answer = ask(cluster, "p1", "POST", "/v1/buckets/two?provider=ais", action="make-n-copies", value=copies)
        assert answer.status == 200, answer
        wait_until(lambda: ask(cluster, "p1", "GET", "/v1/cluster?what=status", id=answer.text).json()["end_time"] != 0, 60, "it ends")
        assert replicas_agree(cluster, copies), copies
        wait_full(cluster, len(names), "two")
    crowd.stop()
    print(f"{reading.count} reads")
    assert reading.failures == [], reading.lines()


def test_load_while_the_number_changes_and_targets_and_proxies_die(make_stage, seed):
    rng = seeded(seed, "number of copies")
    stage = make_stage(targets=4, drives=1, meta="etcd", proxies=2)
    cluster = stage.cluster
    judge = stage.client("judge", [cluster.url_of("p2")], timeout=30)
    cluster.create_bucket("two", {})
    wait_until_in_place(cluster)
    names = [f"n-{i:04}" for i in range(20)]
    both = [cluster.url_of("p1"), cluster.url_of("p2")]
    kills = 0
    for number, copies in enumerate((2, 3, 2, 1, 3)):
        clients = [stage.client(f"r{number}c{i}", both, timeout=30) for i in range(3)]
        load = Churn(f"{seed}/{number}", names, bucket="two", sizes=(0, 100, 70_000, 300_000), lists=0.05)
        crowd = Crowd(clients, load).start()
        time.sleep(rng.uniform(0.3, 1))
        job = set_copies(cluster, "p1", copies)
        time.sleep(rng.uniform(0, 0.6))
        dies = rng.choice(("p1", "t1", "t2", "t3", "t4"))
        stage.kill(dies)
        kills += 1
        time.sleep(rng.uniform(0.2, 6))  # it is back before its lease ends, or others take its names
        stage.start(dies, served=False)
        wait_job(cluster, job)
        time.sleep(rng.uniform(0, 0.5))
        crowd.stop()
        wait_until_in_place(cluster)
        stage.look(judge, names, "two", seconds=20)
        wait_until(lambda: replicas_agree(cluster, copies), 20, f"all objects lie on {copies} replicas")
    stage.check(judge, names, "two")
    print(f"injected: {kills} kills")
