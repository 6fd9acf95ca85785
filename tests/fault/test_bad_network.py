"""Links that lose, reset, throttle or delay (docs/reliability.md N5, N6)."""

import os
import random
import time

from copies import ON_NODES, files_of
from harness.bulk import put_many
from harness.nodes import give_names_to, stored, wait_until_in_place
from harness.waiting import scaled, wait_until
from load import Crowd
from machines import TERM, flags_of
from workload import ERRORS, Work, judge

NAMES = [f"n-{i:04}" for i in range(40)]
STILL = [f"o-{i:04}" for i in range(60)]
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
        # etcd answers a second late, but not to the nodes on its machine.
        phase("slow etcd", 1.5 * TERM, "m1", net.delay, 0.4, 0.2, calm=True)
    finally:
        crowd.stop()
    print("injected: " + "; ".join(said))
    ops = site.recorder.ops()
    slowest = max(ops, key=lambda op: op.ret - op.call)
    print(f"detected: the slowest of {len(ops)} calls took {(slowest.ret - slowest.call) / 1e9:.1f} s")
    assert slowest.ret - slowest.call < scaled(PATIENCE) * 1e9, slowest.line()
    assert not any(flags_of(cluster, target) >> 17 & 1 for target in cluster.targets()), "a target is out"
    site.wait_quiet(15)
    judge(site, NAMES)


def test_a_slow_way_to_etcd_takes_nobody_down(make_site, seed):
    """N6: all messages of nodes and etcd take up to a second each way. No target is down, clients do not notice, and the cluster
    still acts: another map version settles."""
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


def test_a_machine_that_everything_takes_seconds_to_reach_is_not_out(make_site, seed):
    """N6, 2 to 5 s each way: longer than a lease, so others may take writes of its names meanwhile. It is never out, no object that was
    there moves, and all is well when it is over."""
    rng = random.Random(seed)
    site = make_site(machines=4, targets=3, proxies=2, etcds=1)
    net, cluster = site.network, site.cluster
    cluster.expect_errors(ERRORS)
    cluster.create_bucket("still", ON_NODES)
    put_many(cluster, "still", STILL, b"s" * 3000)
    wait_until_in_place(cluster)
    before, slow = files_of(cluster, set(STILL)), rng.choice(["m2", "m3"])
    crowd = Crowd(site.clients(4, timeout=4), Work(seed, NAMES)).start()
    seconds = rng.uniform(2, 5)
    flags = 0
    try:
        net.delay(slow, seconds, seconds / 4)
        end = time.monotonic() + max(SLOW_ETCD, 3 * TERM)
        while time.monotonic() < end:
            for target in cluster.targets():
                flags |= flags_of(cluster, target)
            time.sleep(0.2)
        hit = net.touched()[slow]
        net.heal(slow)
    finally:
        crowd.stop()
    site.wait_quiet(30)
    print(f"injected: {seconds:.1f} s each way to {slow} on {hit} connections; detected: {'down' if flags >> 16 & 1 else 'not down'}, "
          f"{'out' if flags >> 17 & 1 else 'not out'}")
    assert hit > 0 and not flags >> 17 & 1
    assert files_of(cluster, set(STILL)) == before, "objects that were not written lie where they lay"
    judge(site, NAMES)
