"""Links that lose, reset, throttle or delay (faults.md N5, N6), and an etcd that is slow or full (F7)."""

import os
import time

from harness import etcd
from harness import client as http
from harness.nodes import give_names_to, stored
from harness.waiting import scaled, wait_until
from load import Crowd
from machines import TERM, flags_of
from test_nemesis import ERRORS, Work, judge

NAMES = [f"n-{i:04}" for i in range(40)]
PATIENCE = 20  # seconds: no call may need longer
SLOW_ETCD = float(os.environ.get("TARN_TEST_SECONDS") or 10)


def test_bad_links_make_it_slow_and_nothing_else(make_site, seed):
    """The only etcd is on m1, with a proxy and a target; m3 has a target alone."""
    site = make_site(machines=3, targets=3, proxies=2, etcds=1)
    net, cluster = site.network, site.cluster
    cluster.expect_errors(ERRORS)
    crowd = Crowd(site.clients(6, timeout=PATIENCE), Work(seed, NAMES)).start()
    said = []

    def phase(what, seconds, machine, break_it, *words, calm=False):
        version, before, begun = site.map_version(), net.touched()[machine], len(site.recorder.ops())
        break_it(machine, *words)
        time.sleep(seconds)
        hit = net.touched()[machine] - before
        after = site.map_version()
        net.heal(machine)
        wait_until(lambda: all(site.ask(name, "/readyz") == 200 for name in (*site.proxies(), *site.targets())), 15,
                   f"all have leases after {what}", every=0.1)
        ops = site.recorder.ops()[begun:]
        said.append(f"{what}: {hit} packets, {sum(op.outcome in ('done', 'absent', 'precondition') for op in ops)} calls")
        assert hit > 0, what
        if calm:
            assert after == version, f"{what} moved names"

    try:
        for percent in (1, 10, 30):
            phase(f"loss of {percent} %", 1.5, "m2", net.lose, percent)
        phase("resets", 1.5, "m2", net.reset, 20)
        phase("2 Mbit/s", 1.5, "m2", net.limit, 2)
        for seconds in (0.1, 1.0):
            phase(f"delay of {seconds} s", 1 + 3 * seconds, "m3", net.delay, seconds, seconds / 2, calm=True)
        # Everybody's etcd answers a second late, but for those on its machine.
        phase("slow etcd", 1.5 * TERM, "m1", net.delay, 0.4, 0.2, calm=True)
    finally:
        crowd.stop()
    print("injected: " + "; ".join(said))
    ops = site.recorder.ops()
    slowest = max(ops, key=lambda op: op.ret - op.call)
    print(f"detected: the slowest of {len(ops)} calls took {(slowest.ret - slowest.call) / 1e9:.1f} s")
    assert slowest.ret - slowest.call < scaled(PATIENCE) * 1e9, slowest.line()
    assert not any(flags_of(cluster, target) >> 17 & 1 for target in cluster.targets()), "somebody is out"
    site.wait_quiet(15)
    judge(site, NAMES)


def test_a_slow_way_to_etcd_takes_nobody_down(make_site, seed):
    """N6: all that nodes and etcd say to each other takes up to a second, each way: no target is down, objects do not notice, and
    the cluster goes on to act: another version of the map settles."""
    site = make_site(machines=4, targets=3, proxies=2, etcds=1, etcds_apart=True)
    net, cluster = site.network, site.cluster
    cluster.expect_errors(ERRORS)
    crowd = Crowd(site.clients(4), Work(seed, NAMES)).start()
    leases = "lease gone|lease not renewed|target down"
    try:
        before, end = site.log_count(leases), time.monotonic() + SLOW_ETCD
        # There and back it may be 2.4 s: the lease is counted from when a renewal is sent, and one is sent each second.
        net.delay("m4", 0.8, 0.2)
        begun = len(site.recorder.ops())
        version, asked = give_names_to(cluster, *cluster.targets()), time.monotonic()
        wait_until(lambda: int(stored(cluster, "/tarn/settled")[0]) == version, 25, "a map settles")
        seconds = time.monotonic() - asked
        time.sleep(max(0, end - time.monotonic()))
        ops = site.recorder.ops()[begun:]
        hit = net.touched()["m4"]
        net.heal("m4")
    finally:
        crowd.stop()
    bad = [op.line() for op in ops if op.outcome not in ("done", "absent", "precondition")]
    print(f"injected: 0.6 to 1 s each way on {hit} connections; detected: a map settled in {seconds:.1f} s, {len(ops)} calls, {len(bad)} "
          f"without an answer, {site.log_count(leases) - before} words about leases")
    assert hit > 0 and len(ops) > 20 * SLOW_ETCD
    assert site.map_version() == version, "a target went down"
    # Connections that are there are reset when the delay begins and ends; what one proxy could not ask it says once.
    assert site.log_count("lease gone|target down") == 0
    assert not bad, bad[:5]
    site.wait_quiet(15)
    judge(site, NAMES)


def test_an_etcd_without_space_stops_changes_and_no_objects(make_cluster):
    """F7: the alarm NOSPACE refuses all writes to etcd; leases are renewed nevertheless."""
    cluster = make_cluster(meta="etcd", targets=2, drives=1)
    url = cluster.url_of("etcd1", "client")
    member = etcd.call_etcd(url, "/v3/maintenance/status", {})["header"]["member_id"]

    def alarm(action):
        etcd.call_etcd(url, "/v3/maintenance/alarm", {"action": action, "memberID": member, "alarm": "NOSPACE"})

    def make_bucket(name):
        return cluster.bucket_action("POST", name, "create-bck").status

    assert cluster.put("data", "before", b"b").status == 200
    alarm("ACTIVATE")
    try:
        assert make_bucket("refused") == 503
        begun = time.monotonic()
        calls = 0
        while time.monotonic() - begun < scaled(TERM + 1):  # leases go on to be renewed
            assert cluster.put("data", f"n{calls % 20}", b"%d" % calls).status == 200
            answer = cluster.get("data", "before")
            assert answer.status == 200 and "Tarn-Stale" not in answer.headers
            calls += 1
        # A target that ends is not taken over: nobody can say so in the store. Its names answer 503, and come back.
        name = next(name for name in (f"n{i}" for i in range(20)) if cluster.owner("data", name) == "t1")
        cluster.kill("t1")
        wait_until(lambda: cluster.get("data", name).status == 503, 5, "names of t1 answer 503")
        assert cluster.put("data", name, b"late").status == 503
    finally:
        alarm("DEACTIVATE")
    cluster.start("t1")
    wait_until(lambda: cluster.put("data", name, b"after").status == 200, 15, "all goes on")
    wait_until(lambda: make_bucket("refused") == 200, 5, "buckets are made again")
    print(f"injected: alarm NOSPACE; detected: {calls} PUTs and GETs meanwhile, changes refused")
    assert http.request("GET", cluster.url_of("p1") + "/readyz").status == 200
