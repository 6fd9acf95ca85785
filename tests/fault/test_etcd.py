"""A cluster over etcd when etcd, or one of its proxies, goes away (docs/reliability.md A2, F1 to F5)."""

import concurrent.futures
import contextlib
import json
import shutil
import time

import pytest
from disks import seeded
from doses import dose
from harness import client as http
from harness import attribute, etcd
from harness.cli import Cli
from harness.cluster import LEASE_SECONDS
from harness.nodes import stored_map, wait_until_in_place
from harness.waiting import assert_within, scaled, wait_until
from history import now_ns
from load import Client, Crowd
from workload import ERRORS, Work

AWAY = dose(6, 600)  # seconds that all of etcd is away
NAMES = [f"n-{i:04}" for i in range(40)]  # of a load


def bucket_call(cluster, proxy, method, bucket, action=None):
    body = json.dumps({"action": action, "name": "", "value": None}).encode() if action else None
    headers = {"Content-Type": "application/json"} if action else None
    return http.request(method, f"{cluster.url_of(proxy)}/v1/buckets/{bucket}?provider=ais", body, headers, expect=False)


def is_fresh(answer):
    return answer.status == 200 and "Tarn-Stale" not in answer.headers


class Calm(Work):
    """Ten minutes of calls must be judged in the end."""

    def __call__(self, client):
        super().__call__(client)
        time.sleep(dose(0, 0.05))


def crowd_of(stage, seed, count=3, timeout=10):
    """A load on bucket "data" through both proxies, whose history is judged by `judge`."""
    urls = [stage.cluster.url_of("p1"), stage.cluster.url_of("p2")]
    clients = [Client(stage.recorder, f"c{i}", urls[i % 2 :] + urls[: i % 2], timeout) for i in range(count)]
    return Crowd(clients, Calm(seed, NAMES)).start()


def judge(stage, names=NAMES):
    with stage.client("judge", timeout=30) as client:
        stage.check(client, names, only=lambda op: op.name in names or op.op == "list")


def owners(cluster):
    """The map's version, and who is in it with which flags."""
    made = stored_map(cluster)
    return made["version"], {node["id"]: node["flags"] for node in made["nodes"]}


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_reads_outlive_etcd_and_writes_a_term_of_it(make_stage, how, seed):
    """F1: all members killed, or silent."""
    rng = seeded(seed, how)
    stage = make_stage(apart=True, meta="etcd", proxies=2, targets=2, drives=1)
    cluster = stage.cluster
    cluster.expect_errors(ERRORS)
    still = {f"s{i}": rng.randbytes(rng.choice((0, 10, 5000))) for i in range(10)}
    cluster.create_bucket("still")
    cluster.fill("still", still)
    wait_until_in_place(cluster)  # a new cluster publishes maps until all have joined
    before = owners(cluster)
    crowd = crowd_of(stage, seed)
    time.sleep(rng.uniform(0.2, 1.2))  # at any moment between two renewals
    getattr(cluster, how)("etcd1")
    begun = time.monotonic()
    assert cluster.put("still", "within-the-term", b"w").status == 200
    assert is_fresh(cluster.get("still", "s0"))

    def read(name, proxy="p1"):
        return http.request("GET", cluster.url("still", name, cluster.url_of(proxy)))

    wait_until(lambda: all("Tarn-Stale" in read(name).headers for name in still)
               and cluster.put("still", "refused", b"r").status == 503, LEASE_SECONDS + 1, "reads are marked, writes refused")
    seconds = time.monotonic() - begun
    assert cluster.get("still", "s0", headers={"Cache-Control": "no-cache"}).status == 503
    # Nor can the target know whether another one has a newer version.
    assert cluster.get("still", "s0", headers={"If-Match": '"other"'}).status == 503
    assert "Tarn-Stale" in cluster.get("still", "s0", headers={"Range": "bytes=100000-"}).headers
    # Another owner may have taken it meanwhile.
    assert cluster.get("still", "nobody-wrote-it").status == cluster.head("still", "nobody-wrote-it").status == 503
    # It is unknown whether the last of these exists. Each call waits for etcd as long as it may.
    calls = [(proxy, *words) for proxy in ("p1", "p2") for words in (
        ("POST", "new", "create-bck"), ("DELETE", "still", "destroy-bck"), ("HEAD", "unknown"))]
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        answers = list(pool.map(lambda words: bucket_call(cluster, *words).status, calls))
    assert answers == [503] * len(calls)
    for proxy in ("p1", "p2"):
        # Its own lease may have been renewed last of all.
        wait_until(lambda proxy=proxy: http.request("GET", cluster.url_of(proxy) + "/readyz").status == 503, LEASE_SECONDS,
                   f"{proxy} is not ready")
        assert cluster.metric(proxy, "tarn_meta_failing", call="lease") == 1
    reads = 0
    while reads < 40 or time.monotonic() < begun + AWAY:
        name, proxy = rng.choice(sorted(still)), rng.choice(("p1", "p2"))
        answer = read(name, proxy)
        assert (answer.status, answer.body) == (200, still[name]) and int(answer.headers["Tarn-Stale"]) >= 1, answer
        reads += 1
        time.sleep(dose(0, 0.1))
    gone = time.monotonic() - begun

    if how == "kill":
        cluster.start("etcd1")
    else:
        cluster.cont("etcd1")
    # No names have gone to other owners meanwhile.
    assert owners(cluster) == before
    wait_until(lambda: cluster.put("still", "healed", b"h").status == 200 and is_fresh(read("s0"))
               and is_fresh(read("s0", "p2")), 10, "all heals")
    crowd.stop()
    print(f"injected: {how} of etcd for {gone:.0f} s; detected: reads marked and writes refused after {seconds:.1f} s, {reads} reads "
          f"meanwhile")
    assert read("within-the-term").body == b"w"
    assert sorted(owners(cluster)[1]) == sorted(before[1])
    stage.wait_served()
    judge(stage)


def new_leader(urls, seconds):
    """When one of these members says that it leads."""
    def leads():
        for url in urls:
            with contextlib.suppress(OSError):
                if etcd.is_leader(url):
                    return True
        return False

    wait_until(leads, seconds, "etcd has another leader")
    return time.monotonic()


def test_loss_of_the_leader_of_three_is_hardly_seen(make_stage, seed):
    """F2: objects do not notice; bucket changes go on two seconds after etcd has elected another leader."""
    rng = seeded(seed, "leader")
    stage = make_stage(apart=True, meta="etcd", proxies=2, targets=2, drives=1, etcds=3)
    cluster = stage.cluster
    urls = {f"etcd{i}": cluster.url_of(f"etcd{i}", "client") for i in (1, 2, 3)}
    crowd = crowd_of(stage, seed, timeout=30)
    said = []
    for turn in range(dose(1, 5)):
        leader = next(name for name, url in urls.items() if etcd.is_leader(url))
        asked = rng.choice(("p1", "p2"))
        assert bucket_call(cluster, asked, "POST", f"before{turn}", "create-bck").status == 200
        time.sleep(rng.uniform(0, 1))
        killed = now_ns()
        cluster.kill(leader)
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            elected = pool.submit(new_leader, [url for name, url in urls.items() if name != leader], 10)
            # A call that was under way at the leader has an unknown outcome: it says so, and is asked again.
            answers = [0]
            while answers[-1] in (0, 503) and time.monotonic() - begun < scaled(10):
                answers.append(bucket_call(cluster, asked, "POST", f"after{turn}", "create-bck").status)
            seconds = time.monotonic() - begun
            election = elected.result() - begun
        assert answers[-1] == 200 or (answers[-1] == 409 and len(answers) > 2), answers
        time.sleep(0.5)
        said.append(f"{leader}: another leader after {election:.1f} s, a bucket made after {seconds:.1f} s")
        assert seconds <= scaled(max(0, election) + 2), said
        # A lease lives 2.5 s from its last renewal at least, and is renewed within a second of the election.
        hurt = [op.line() for op in stage.recorder.ops() if op.call >= killed and (op.status == 0 or op.status >= 500)
                and not (op.status == 503 and op.ret >= killed + 2.4e9 and op.op != "get" and election > 1.5)]
        assert not hurt, (said, hurt[:5])
        cluster.start(leader)
    crowd.stop()
    print(f"injected: kills of the leader: {'; '.join(said)}")
    assert len(stage.recorder.ops()) > 50
    stage.wait_served()
    judge(stage)


def test_a_proxy_that_missed_forgotten_changes_reads_all_anew(make_stage, seed):
    """F5: the changes of a time without connection are compacted away. Objects are written and read through the other one."""
    rng = seeded(seed, "compaction")
    stage = make_stage(apart=True, meta="etcd", proxies=2, targets=2, drives=1)
    cluster = stage.cluster
    cluster.expect_errors(ERRORS)
    url = cluster.url_of("etcd1", "client")
    sleeper, awake = rng.sample(("p1", "p2"), 2)
    assert bucket_call(cluster, awake, "POST", "goes", "create-bck").status == 200

    def listed():
        return {bucket["name"] for bucket in http.request("GET", cluster.url_of(sleeper) + "/v1/buckets").json()}

    wait_until(lambda: "goes" in listed(), 5, f"{sleeper} knows it")
    clients = [Client(stage.recorder, f"c{i}", [cluster.url_of(awake)], 10) for i in range(3)]
    crowd = Crowd(clients, Work(seed, NAMES)).start()
    cluster.stop(sleeper)
    cluster.kill("etcd1")  # ends the watch of the sleeper, which does not notice
    cluster.start("etcd1")
    there = {"data"}
    for i in range(20):
        if rng.random() < 0.2 and len(there) > 1:  # unless it has been destroyed: also what is new comes and goes
            gone = rng.choice(sorted(there - {"data"}))
            wait_until(lambda: bucket_call(cluster, awake, "DELETE", gone, "destroy-bck").status == 200, 20, f"{gone} is destroyed")
            there.discard(gone)
        else:
            assert bucket_call(cluster, awake, "POST", f"b{i}", "create-bck").status == 200
            there.add(f"b{i}")
        if rng.random() < 0.2:
            etcd.forget_changes(url)
    # The sleeper is still a node for this long: a destroyed bucket is destroyed when its lease has ended.
    assert bucket_call(cluster, awake, "DELETE", "goes", "destroy-bck").status == 200
    etcd.forget_changes(url)
    cluster.cont(sleeper)
    wait_until(lambda: listed() == there, 15, f"{sleeper} knows all buckets")
    crowd.stop()
    print(f"injected: 22 changes compacted away while {sleeper} slept; detected: it lists what is there")
    stage.wait_served()
    judge(stage)


class Retrying(Work):
    """A client that gets no answer asks again through the other proxy, up to twice: that one may be the next to be killed."""

    def __init__(self, *words):
        super().__init__(*words)
        self.slowest, self.failures = 0.0, []

    def __call__(self, client):
        begun = time.monotonic()
        op = self.once(client)
        for _ in range(2):
            if op.outcome in ("unknown", "failed"):
                op = self.again(client, op)  # its endpoints take turns
        self.slowest = max(self.slowest, time.monotonic() - begun)
        if op.outcome in ("unknown", "failed"):
            self.failures.append(op.line())


@pytest.mark.gate("A2")
def test_clients_go_on_when_proxies_are_killed(make_stage, seed):
    """A2: kill -9 of proxies in turn, under clients that retry at the other one."""
    rng = seeded(seed, "proxies")
    stage = make_stage(apart=True, meta="etcd", proxies=2, targets=2, drives=1)
    cluster = stage.cluster
    # Answers of a proxy stay good when it is gone.
    cluster.create_bucket("given")
    given = cluster.put("given", "redirected", b"r" * 100, follow=False)
    assert given.status == 307
    urls = [cluster.url_of("p1"), cluster.url_of("p2")]
    work = Retrying(seed, NAMES)
    crowd = Crowd([Client(stage.recorder, f"c{i}", urls, 20) for i in range(3)], work).start()
    kills = dose(3, 20)
    try:
        for number in range(kills):
            victim = "p1" if number == 0 else rng.choice(("p1", "p2"))
            time.sleep(rng.uniform(0.1, 0.6))
            stage.kill(victim)
            gone = now_ns()
            wait_until(lambda: any(op.ret > gone and op.outcome in ("unknown", "failed") for op in stage.recorder.ops()), 20,
                       f"a client had to do with {victim}")
            if number == 0:
                moved = http.request("PUT", given.headers["Location"], b"r" * 100)
                assert moved.status == 200, moved
            stage.start(victim, served=False)
            # The other one may be next: this one has to be of use by then.
            wait_until(lambda: http.request("GET", cluster.url("given", "redirected", cluster.url_of(victim))).status == 200, 10,
                       f"{victim} redirects")
            wait_until(lambda: bucket_call(cluster, victim, "GET", "given", "list").status == 200, 10, f"{victim} hears all targets")
        wait_until(lambda: len(stage.recorder.ops()) > 50, 60, "there was a load")
    finally:
        crowd.stop()
    ops = stage.recorder.ops()
    cut = sum(op.outcome in ("unknown", "failed") for op in ops)
    print(f"injected: {kills} kills; detected: {len(ops)} calls, {cut} had no answer at first, the slowest with its retries took "
          f"{work.slowest:.2f} s")
    assert not work.failures, work.failures[:5]
    assert len(ops) > 50 and cut > 0
    assert_within(work.slowest, 1, "the slowest call with its retries")
    assert cluster.get("given", "redirected").body == b"r" * 100
    stage.wait_served()
    judge(stage)


def test_an_etcd_without_its_data_is_refused_and_made_anew_from_the_drives(make_stage, seed):
    """F3: nodes do not follow a store that has lost the cluster; `recover` brings all back, and they go on. Clients write all the
    time, and nothing that was acknowledged is lost."""
    rng = seeded(seed, "wiped")
    stage = make_stage(apart=True, meta="etcd", proxies=2, targets=2, drives=1)
    cluster = stage.cluster
    cluster.expect_errors(ERRORS)
    for bucket in ("photos", "gone", "films"):
        assert bucket_call(cluster, "p1", "POST", bucket, "create-bck").status == 200
    assert bucket_call(cluster, "p2", "DELETE", "gone", "destroy-bck").status == 200
    for i in range(20):
        assert cluster.put("photos", f"n{i}", b"%d" % i).status == 200
    before = cluster.smap()
    assert cluster.put("films", "last", b"before").status == 200
    old = max(generations(cluster))
    crowd = crowd_of(stage, seed)
    away = rng.choice(("t1", "t2"))  # this one is down meanwhile

    time.sleep(rng.uniform(0.2, 1.2))
    cluster.kill("etcd1")
    data = cluster.directory / "etcd1"
    shutil.rmtree(data)
    data.mkdir(mode=0o700)
    cluster.start("etcd1")
    wait_until(lambda: cluster.put("films", "last", b"lost?").status == 503, 15, "writes are refused")
    cluster.kill(away)

    seen = [str(drive) for target in ("t1", "t2") for drive in cluster.drives(target)]
    done = Cli(cluster.endpoint).ok("cluster", "recover", "--to", cluster.url_of("etcd1", "client"), "--secret-file",
                    cluster.directory / "cluster.secret", *seen)
    print(done.decode())
    cluster.start(away)
    wait_until(lambda: cluster.put("films", "last", b"after").status == 200, 20, "writes go on")
    # A proxy that has its lease again may redirect before it has seen the new map.
    wait_until(lambda: int(cluster.smap()["version"]) > int(before["version"]), 10, "the proxy follows the new map")
    assert sorted(cluster.smap()["tmap"]) == sorted(before["tmap"])
    for proxy in ("p1", "p2"):
        wait_until(lambda: sorted(cluster.smap(proxy)["pmap"]) == sorted(before["pmap"]), 10, "proxies are in the map")
        names = {bucket["name"] for bucket in http.request("GET", cluster.url_of(proxy) + "/v1/buckets").json()}
        assert names == {"data", "photos", "films"}
        for i in range(20):
            answer = http.request("GET", cluster.url("photos", f"n{i}", cluster.url_of(proxy)))
            assert (answer.status, answer.body) == (200, b"%d" % i)
    new = max(generations(cluster))
    print(f"injected: etcd without its data; detected: 20 objects and 3 buckets are there, generation {old} -> {new}")
    assert new > old and new[0] > old[0]
    crowd.stop()
    stage.wait_served()
    judge(stage)
    # Nodes that start from now on have a higher incarnation than any before.
    cluster.kill("t1", "t2")
    cluster.start("t1", "t2")
    wait_until(lambda: cluster.put("films", "last", b"again").status == 200, 10, "writes after a restart")
    assert max(each[1] for each in generations(cluster)) > old[1]


def test_a_node_that_a_new_etcd_does_not_have_yet_is_told_at_once(make_stage, seed):
    """F3: straight after `recover`, what=rebalance names the nodes without a lease in the new etcd, for which `tarn cluster wait`
    waits. The proxies' watches need not be back."""
    stage = make_stage(apart=True, meta="etcd", proxies=2, targets=2, drives=1)
    cluster = stage.cluster
    cluster.expect_errors(ERRORS)
    cluster.kill("etcd1")
    data = cluster.directory / "etcd1"
    shutil.rmtree(data)
    data.mkdir(mode=0o700)
    cluster.start("etcd1")
    hung = next(id for id, node in cluster.smap()["tmap"].items() if node["public_net"]["direct_url"] == cluster.url_of("t2"))
    cluster.stop("t2")  # hangs, so it cannot register
    try:
        seen = [str(drive) for target in ("t1", "t2") for drive in cluster.drives(target)]
        Cli(cluster.endpoint).ok("cluster", "recover", "--to", cluster.url_of("etcd1", "client"), "--secret-file",
                                 cluster.directory / "cluster.secret", *seen)
        for proxy in ("p1", "p2"):
            said = http.request("GET", cluster.url_of(proxy) + "/v1/cluster?what=rebalance").json()
            print(f"detected: {proxy}: {said['without_lease']} of map {said['map']}")
            assert hung in said["without_lease"], said
    finally:
        cluster.cont("t2")
    Cli(cluster.endpoint).ok("cluster", "wait", "--timeout", "60s")
    assert cluster.put("data", "after", b"1").status == 200


def generations(cluster):
    return [said["generation"] for said in attribute.decoded(cluster.all_drives()).values()]
