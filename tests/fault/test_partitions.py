"""Machines that do not reach each other, or badly (docs/reliability.md N1 to N6, N9, A4, F4): nodes without a quorum say so, and no
two nodes own the same name."""

import random
import time

from copies import ON_NODES
from harness import client as http
from harness.waiting import wait_until
from load import Crowd
from machines import TERM, flags_of
from workload import ERRORS, Work, judge

NAMES = [f"n-{i:04}" for i in range(60)]
LOOK = 2  # seconds for those who look once in a while: proxies, targets, this test with calls that wait
OWN = "own"  # a bucket of the test's own calls, which no history has
OWN_COPIED = "own-copied"  # the same with copies on nodes
COPIED = "copied"  # one with copies, which has a history


def put_at(site, proxy, name, body=b"x" * 100):
    """The status of a PUT through a proxy, 0 without an answer."""
    try:
        return http.request("PUT", site.cluster.url(OWN, name, site.cluster.url_of(proxy)), body, timeout=4).status
    except (OSError, http.ProtocolError):
        return 0


def get_at(site, proxy, name, strict=False, bucket=OWN):
    """(status, whether it is marked as stale)"""
    headers = {"Cache-Control": "no-cache"} if strict else None
    try:
        answer = http.request("GET", site.cluster.url(bucket, name, site.cluster.url_of(proxy)), headers=headers, timeout=8)
    except (OSError, http.ProtocolError):
        return 0, False
    return answer.status, "Tarn-Stale" in answer.headers


def heal_and_wait(site, seconds=10):
    """How long it takes until writes of every target's names are taken and all is in place."""
    begun = time.monotonic()
    site.network.heal()
    site.wait_quiet(seconds)
    return time.monotonic() - begun


def test_partitions_stop_the_minority_and_nobody_else(make_site, seed):
    """N2, N3, N4, N9 and F4, one after the other on one cluster under load; the history is judged as a whole."""
    rng = random.Random(seed)
    site = make_site(machines=5, targets=5)
    net, cluster = site.network, site.cluster
    cluster.expect_errors(ERRORS)
    cluster.create_bucket(OWN)
    for bucket in (COPIED, OWN_COPIED):
        cluster.create_bucket(bucket, ON_NODES)
    mine = {target: cluster.names_owned_by(target, OWN, 2, "own") for target in cluster.targets()}
    for names in mine.values():
        assert cluster.put(OWN, names[0], b"x" * 100).status == 200
    alone = rng.choice(["m4", "m5"])
    (copied,) = cluster.names_owned_by(site.nodes_of(alone)[0], OWN_COPIED, 1)
    assert cluster.put(OWN_COPIED, copied, b"x" * 100).status == 200
    crowds = [Crowd(site.clients(4, name=name), Work(seed, NAMES, bucket)).start()
              for name, bucket in (("c", "data"), ("m", COPIED))]
    seconds = {}
    try:
        seconds["one of five"] = one_machine_alone(site, alone, mine, copied)
        seconds["two of five"] = a_minority_with_a_proxy(site, mine)
        seconds["one pair"] = two_that_do_not_see_each_other(site, mine)
        seconds["one way"] = a_machine_that_hears_nothing(site, rng.choice(["m2", "m3"]))
        seconds["swizzle"] = links_cut_one_by_one(site, rng)
    finally:
        for crowd in crowds:
            crowd.stop()
    print("injected: " + ", ".join(f"{what}: {lost} packets" for what, (lost, _) in seconds.items())
          + "; detected: in place again after " + ", ".join(f"{each:.1f} s" for _, each in seconds.values()))
    judge(site, NAMES)
    judge(site, NAMES, COPIED, copies=2)
    assert net.touched() and all(lost > 0 for lost, _ in seconds.values())


def faulty(site, break_it, look):
    """(packets that the fault took, seconds until all was well again)"""
    before = sum(site.network.touched().values())
    break_it()
    look()
    lost = sum(site.network.touched().values()) - before
    return lost, heal_and_wait(site)


def one_machine_alone(site, machine, mine, copied):
    """N2, 1 | n-1: what it owns is written elsewhere, and it refuses what comes with an old redirect. `copied` is a name of it
    that has a copy."""
    target = site.nodes_of(machine)[0]
    held, fresh = mine[target]
    old = site.cluster.put(OWN, fresh, b"late" * 25, follow=False)
    assert old.status == 307
    others = [each for each in site.machines() if each != machine]

    def look():
        wait_until(lambda: flags_of(site.cluster, target), TERM + 2, f"{target} is down", every=0.1)
        wait_until(lambda: put_at(site, "p1", fresh) == 200, 5, f"names of {target} are written elsewhere", every=0.1)
        late = http.request("PUT", old.headers["Location"], b"late" * 25, timeout=8)
        assert late.status == 503, late
        # The only copy is on the target that is cut off: 503, and not 404.
        assert get_at(site, "p1", held)[0] == 503
        # A name with a copy elsewhere is read there; it was not written either.
        assert get_at(site, "p1", copied, bucket=OWN_COPIED) == (200, False)

    return faulty(site, lambda: site.network.shut(machine, others), look)


def a_minority_with_a_proxy(site, mine):
    """N2, 2 | 3: m1, with a proxy and a member of etcd (F4: one that is behind), and m4."""

    def look():
        begun = time.monotonic()
        names = [each[0] for target, each in mine.items() if target in ("t1", "t4")]
        wait_until(lambda: all(get_at(site, "p1", name) in ((200, True), (503, False)) for name in names)
                   and put_at(site, "p1", names[0]) == 503, TERM + 2 + LOOK, "p1 refuses writes and marks reads", every=0.1)
        stale = [name for name in names if get_at(site, "p1", name) == (200, True)]
        assert stale, "nothing is read from the minority"
        assert get_at(site, "p1", stale[0], strict=True) == (503, False)
        wait_until(lambda: site.ask("p1", "/readyz") == 503, TERM, "p1 says that it is not ready", every=0.1)
        made = http.request("POST", site.cluster.url_of("p1") + "/v1/buckets/new?provider=ais",
                            b'{"action": "create-bck", "name": "", "value": null}', {"Content-Type": "application/json"},
                            expect=False)
        assert made.status == 503, made
        # The others go on, also with what the minority owned: another leader of etcd lets all leases begin anew.
        left = begun + 2 + TERM + 1 + LOOK - time.monotonic()
        for name in names:
            wait_until(lambda: put_at(site, "p2", name) == 200, max(1, left), f"{name} is written by the majority", every=0.1)

    return faulty(site, lambda: site.network.split(["m1", "m4"], ["m2", "m3", "m5"]), look)


def two_that_do_not_see_each_other(site, mine):
    """N3: t4 and t5 keep their leases, and their names; what one needs of the other is refused while names move."""
    before = site.map_version()

    def look():
        # Names move between the two: a target goes, and comes back.
        site.kill("t3")
        # A leader that etcd elects meanwhile, on a busy machine, begins every lease anew.
        wait_until(lambda: put_at(site, "p1", mine["t3"][1]) == 200, 2 * TERM + 1 + LOOK, "the names of t3 have other owners", every=0.1)
        site.start("t3", served=False)
        wait_until(lambda: put_at(site, "p1", mine["t3"][1]) == 200, TERM, "t3 takes writes again", every=0.1)
        for target in ("t4", "t5"):
            assert put_at(site, "p1", mine[target][1]) == 200
            assert not flags_of(site.cluster, target)
        assert site.map_version() > before

    return faulty(site, lambda: site.network.shut("m4", ["m5", "m3"]), look)


def a_machine_that_hears_nothing(site, machine):
    """N4: what it sends arrives, also at etcd; the answers do not."""
    target = next(name for name in site.nodes_of(machine) if name.startswith("t"))
    others = [each for each in site.machines() if each != machine]

    def look():
        # Its requests still renew its lease, until it has not read the map for a term. Or another leader of etcd, elected
        # within 2 s, lets all leases begin anew. Then the lease ends, and a second is for those who look once in a while.
        wait_until(lambda: flags_of(site.cluster, target), 2 * TERM + 1 + LOOK, f"{target} is down", every=0.1)

    return faulty(site, lambda: site.network.shut(machine, others, ("in",)), look)


def links_cut_one_by_one(site, rng):
    """N9: all links between machines go in one order, and come back in another."""
    machines = site.machines()
    links = [(one, other) for index, one in enumerate(machines) for other in machines[index + 1 :]]
    before = sum(site.network.touched().values())
    rng.shuffle(links)
    cut = []
    for link in links:
        cut.append(link)
        site.network.shut(link[0], [link[1]])
        time.sleep(rng.uniform(0, 0.5))
    lost = sum(site.network.touched().values()) - before
    rng.shuffle(cut)
    while cut:
        cut.pop()
        site.network.heal()
        for one, other in cut:
            site.network.shut(one, [other])
        time.sleep(rng.uniform(0, 0.3))
    return lost, heal_and_wait(site, 15)
