"""A cluster over etcd when etcd, or one of its proxies, goes away (faults.md A2, F1 to F5)."""

import concurrent.futures
import contextlib
import json
import random
import shutil
import threading
import time

import checker
import pytest
from harness import client as http
from harness import attribute, etcd
from harness.cli import Cli
from harness.waiting import scaled, wait_until
from history import Recorder
from load import Client, Crowd

LEASE_SECONDS = 4


def smap(cluster, proxy="p1"):
    return http.request("GET", cluster.url_of(proxy) + "/v1/daemon?what=smap").json()


def bucket_call(cluster, proxy, method, bucket, action=None):
    body = json.dumps({"action": action, "name": "", "value": None}).encode() if action else None
    headers = {"Content-Type": "application/json"} if action else None
    return http.request(method, f"{cluster.url_of(proxy)}/v1/buckets/{bucket}?provider=ais", body, headers, expect=False)


def is_fresh(answer):
    return answer.status == 200 and "Tarn-Stale" not in answer.headers


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_reads_outlive_etcd_and_writes_a_term_of_it(make_cluster, how):
    """F1: killed, or silent."""
    cluster = make_cluster(meta="etcd", proxies=2, targets=2, drives=1)
    for i in range(10):
        assert cluster.put("data", f"n{i}", b"%d" % i).status == 200
    before = smap(cluster)
    getattr(cluster, how)("etcd1")
    begun = time.monotonic()
    assert cluster.put("data", "within-the-term", b"w").status == 200
    assert is_fresh(cluster.get("data", "n0"))

    def read(name, proxy="p1"):
        return cluster.get("data", name, headers=None) if proxy == "p1" else http.request(
            "GET", cluster.url("data", name, cluster.url_of(proxy)))

    wait_until(lambda: all("Tarn-Stale" in read(f"n{i}").headers for i in range(10))
               and cluster.put("data", "refused", b"r").status == 503, 3 * LEASE_SECONDS, "reads are marked")
    seconds = time.monotonic() - begun
    print(f"injected: {how} of etcd; detected: reads marked and writes refused after {seconds:.1f} s")
    for i in range(10):
        for proxy in ("p1", "p2"):
            answer = read(f"n{i}", proxy)
            assert (answer.status, answer.body) == (200, b"%d" % i) and int(answer.headers["Tarn-Stale"]) >= 1
    assert cluster.get("data", "n0", headers={"Cache-Control": "no-cache"}).status == 503
    # Another owner may have taken it meanwhile.
    assert cluster.get("data", "nobody-wrote-it").status == cluster.head("data", "nobody-wrote-it").status == 503
    # Nobody knows whether the last of these does not exist. Each waits for etcd as long as it may.
    calls = [(proxy, *words) for proxy in ("p1", "p2") for words in (
        ("POST", "new", "create-bck"), ("DELETE", "data", "destroy-bck"), ("HEAD", "unknown"))]
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        answers = list(pool.map(lambda words: bucket_call(cluster, *words).status, calls))
    assert answers == [503] * len(calls)
    for proxy in ("p1", "p2"):
        # Its own lease may have been renewed last of all.
        wait_until(lambda proxy=proxy: http.request("GET", cluster.url_of(proxy) + "/readyz").status == 503, LEASE_SECONDS,
                   f"{proxy} is not ready")

    if how == "kill":
        cluster.start("etcd1")
    else:
        cluster.cont("etcd1")
    wait_until(lambda: cluster.put("data", "healed", b"h").status == 200 and is_fresh(read("n0"))
               and is_fresh(read("n0", "p2")), 15, "all heals")
    assert read("within-the-term").body == b"w"
    # Nobody's names went elsewhere meanwhile.
    after = smap(cluster)
    assert sorted(after["tmap"]) == sorted(before["tmap"])


def test_loss_of_the_leader_of_three_is_hardly_seen(make_cluster, seed):
    """F2: objects do not notice; bucket changes wait for the new leader."""
    cluster = make_cluster(meta="etcd", proxies=2, targets=2, drives=1, etcds=3)
    urls = {f"etcd{i}": cluster.url_of(f"etcd{i}", "client") for i in (1, 2, 3)}
    recorder = Recorder()
    endpoints = [cluster.endpoint, cluster.url_of("p2")]
    clients = [Client(recorder, f"c{i}", endpoints, timeout=30) for i in range(2)]
    rng = random.Random(seed)

    def work(client):
        name = f"n-{rng.randrange(50)}"
        if rng.random() < 0.5:
            client.put("data", name, 1000)
        else:
            client.get("data", name)

    assert cluster.put("data", "first", b"f").status == 200
    crowd = Crowd(clients, work).start()
    leader = next(name for name, url in urls.items() if etcd.is_leader(url))
    assert bucket_call(cluster, "p1", "POST", "before", "create-bck").status == 200
    cluster.kill(leader)
    begun = time.monotonic()
    # A call that was under way at the leader has an unknown outcome: it says so, and is asked again.
    answers = [bucket_call(cluster, "p2", "POST", "after", "create-bck").status]
    while answers[-1] == 503 and time.monotonic() - begun < scaled(6):
        answers.append(bucket_call(cluster, "p2", "POST", "after", "create-bck").status)
    seconds = time.monotonic() - begun
    assert answers[-1] == 200 or (answers[-1] == 409 and len(answers) > 1), answers
    time.sleep(0.5)
    crowd.stop()
    print(f"injected: kill of {leader}, the leader; detected: a bucket was made {seconds:.1f} s later")
    # An election takes 1 to 2 s; a call that was under way at the dead leader ends after 3 s.
    assert seconds <= scaled(6)
    ops = recorder.ops()
    failed = [op for op in ops if op.status == 0 or op.status >= 500]
    # A lease lives 2.5 s from its last renewal at least. Where an election takes longer, writes are refused for a moment.
    hurt = [op.line() for op in failed if op.op != "put" or op.status != 503 or seconds < 2]
    assert len(ops) > 50 and not hurt, hurt[:5]
    report = checker.check(ops)
    assert report.ok, str(report)
    cluster.start(leader)


def test_a_proxy_that_missed_forgotten_changes_reads_all_anew(make_cluster):
    """F5: the changes of a time without connection are compacted away."""
    cluster = make_cluster(meta="etcd", proxies=2, targets=1, drives=1)
    url = cluster.url_of("etcd1", "client")
    assert bucket_call(cluster, "p1", "POST", "goes", "create-bck").status == 200
    wait_until(lambda: "goes" in http.request("GET", cluster.url_of("p2") + "/v1/buckets").text, 5, "p2 knows it")
    cluster.stop("p2")
    cluster.kill("etcd1")  # ends the watch of p2, which does not notice
    cluster.start("etcd1")
    for i in range(20):
        made = bucket_call(cluster, "p1", "POST", f"b{i}", "create-bck")
        assert made.status == 200, made
    etcd.forget_changes(url)
    # p2 is still a node for this long: a destroyed bucket is destroyed when its lease has ended.
    assert bucket_call(cluster, "p1", "DELETE", "goes", "destroy-bck").status == 200
    etcd.forget_changes(url)
    cluster.cont("p2")

    def listed():
        return {bucket["name"] for bucket in http.request("GET", cluster.url_of("p2") + "/v1/buckets").json()}

    wait_until(lambda: listed() == {"data", *(f"b{i}" for i in range(20))}, 15, "p2 knows all buckets")
    print("injected: 22 changes compacted away while p2 slept; detected: p2 lists what is there")


def test_clients_go_on_when_proxies_are_killed(make_cluster, seed):
    """A2: kill -9 of proxies in turn, under clients that retry at the other one."""
    cluster = make_cluster(meta="etcd", proxies=2, targets=2, drives=1)
    urls = {name: cluster.url_of(name) for name in ("p1", "p2")}
    # What a proxy has answered stays good when it is gone.
    given = cluster.put("data", "redirected", b"r" * 100, follow=False)
    assert given.status == 307
    rng = random.Random(seed)
    slowest, failures, done, kills = [0.0], [], [0], 0
    stop = threading.Event()

    def one(index):
        choices = random.Random(f"{seed}/{index}")
        number = 0
        while not stop.is_set():
            number += 1
            name, body = f"c{index}-{number}", b"%d/%d " % (index, number) * 2000
            for method, wanted in (("PUT", b""), ("GET", body)):
                first = choices.choice(["p1", "p2"])
                other = "p2" if first == "p1" else "p1"
                answer, begun = None, time.monotonic()
                for proxy in (first, other, first):  # the other one may be the next to be killed
                    answer = attempt(method, cluster.url("data", name, urls[proxy]), body)
                    if answer is not None and answer.status == 200:
                        break
                slowest[0] = max(slowest[0], time.monotonic() - begun)
                if answer is None or answer.status != 200 or (method == "GET" and answer.body != wanted):
                    failures.append((method, name, answer))
                done[0] += 1

    def attempt(method, url, body):
        try:
            return http.request(method, url, body if method == "PUT" else None, timeout=20)
        except (OSError, http.ProtocolError):
            return None

    threads = [threading.Thread(target=one, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    try:
        for victim in ("p1", "p2", "p1"):
            time.sleep(rng.uniform(0.2, 0.6))
            cluster.kill(victim)
            kills += 1
            if kills == 1:
                moved = http.request("PUT", given.headers["Location"], b"r" * 100)
                assert moved.status == 200, moved
            cluster.start(victim)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    print(f"injected: {kills} kills; detected: {done[0]} calls, the slowest with its retry took {slowest[0]:.2f} s")
    assert not failures, failures[:5]
    assert done[0] > 50 and slowest[0] <= scaled(1)
    assert cluster.get("data", "redirected").body == b"r" * 100


def test_an_etcd_without_its_data_is_refused_and_made_anew_from_the_drives(make_cluster):
    """F3: nodes do not follow a store that has lost the cluster; `recover` brings all back, and they go on."""
    cluster = make_cluster(meta="etcd", proxies=2, targets=2, drives=1)
    for bucket in ("photos", "gone", "films"):
        assert bucket_call(cluster, "p1", "POST", bucket, "create-bck").status == 200
    assert bucket_call(cluster, "p2", "DELETE", "gone", "destroy-bck").status == 200
    for i in range(20):
        assert cluster.put("photos", f"n{i}", b"%d" % i).status == 200
    before = smap(cluster)
    assert cluster.put("films", "last", b"before").status == 200
    old = max(generations(cluster))

    cluster.kill("etcd1")
    data = cluster.directory / "etcd1"
    shutil.rmtree(data)
    data.mkdir(mode=0o700)
    cluster.start("etcd1")
    wait_until(lambda: cluster.put("films", "last", b"lost?").status == 503, 15, "writes are refused")
    cluster.kill("t2")  # one target is down meanwhile

    seen = [str(drive) for target in ("t1", "t2") for drive in cluster.drives(target)]
    done = Cli(cluster.endpoint).ok("cluster", "recover", "--to", cluster.url_of("etcd1", "client"), "--secret-file",
                    cluster.directory / "cluster.secret", *seen)
    print(done.decode())
    cluster.start("t2")
    wait_until(lambda: cluster.put("films", "last", b"after").status == 200, 20, "writes go on")
    # A proxy that has its lease again may redirect before it has seen the new map.
    wait_until(lambda: int(smap(cluster)["version"]) > int(before["version"]), 10, "the proxy follows the new map")
    assert sorted(smap(cluster)["tmap"]) == sorted(before["tmap"])
    for proxy in ("p1", "p2"):
        wait_until(lambda: sorted(smap(cluster, proxy)["pmap"]) == sorted(before["pmap"]), 10, "proxies are in the map")
        names = {bucket["name"] for bucket in http.request("GET", cluster.url_of(proxy) + "/v1/buckets").json()}
        assert names == {"data", "photos", "films"}
        for i in range(20):
            answer = http.request("GET", cluster.url("photos", f"n{i}", cluster.url_of(proxy)))
            assert (answer.status, answer.body) == (200, b"%d" % i)
    new = max(generations(cluster))
    print(f"injected: etcd without its data; detected: 20 objects and 3 buckets are there, generation {old} -> {new}")
    assert new > old and new[0] > old[0]
    # What starts from now on has a higher incarnation than any before.
    cluster.kill("t1", "t2")
    cluster.start("t1", "t2")
    wait_until(lambda: cluster.put("films", "last", b"again").status == 200, 10, "writes after a restart")
    assert max(each[1] for each in generations(cluster)) > old[1]


def generations(cluster):
    found = []
    for target in cluster.targets():
        for drive in cluster.drives(target):
            for path in (drive / "data").glob("*/*"):
                with contextlib.suppress(FileNotFoundError):  # replaced, and unlinked by now
                    found.append(attribute.generation_of(path))
    return found
