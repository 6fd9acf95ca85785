"""A new owner of a name waits for the former one, who may be about to write (docs/reliability.md N7, A4)."""

import concurrent.futures
import json
import time

from disks import seeded
from harness import attribute
from harness import client as http
from harness.nodes import call, give_names_to, stored, stored_map, wait_until_in_place
from harness.waiting import wait_until
from load import Client, Crowd
from machines import flags_of
from workload import ERRORS, Work

NAMES = [f"n-{i:04}" for i in range(40)]  # of a load


def test_nobody_writes_a_name_before_its_former_owner_knows(make_cluster, seed):
    """The former owner is stopped while a map is published that gives its names away. It has its lease still: a write that
    it has in hand may be acknowledged when it goes on. Until then the new owner takes none."""
    rng = seeded(seed, "hand over")
    cluster = make_cluster(apart=True, targets=2, drives=1)
    wait_until_in_place(cluster)
    former, new = rng.sample(("t1", "t2"), 2)
    pause = rng.uniform(1, 2.5)  # seconds, less than is left of its lease
    name = cluster.names_owned_by(former, "data", 1)[0]
    assert cluster.put("data", name, b"by the former").status == 200
    cluster.stop(former)
    try:
        begun = time.monotonic()
        version = give_names_to(cluster, new)
        wait_until(lambda: cluster.owner("data", name) == new, pause, "the proxy follows the new map")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            write = pool.submit(cluster.put, "data", name, b"by the new one")
            while time.monotonic() < begun + pause:
                assert not write.done() or write.result().status == 503, "written while the former owner may still write"
                time.sleep(0.02)
            settled = int(stored(cluster, "/tarn/settled")[0])
            cluster.cont(former)
            print(f"injected: {former} stopped for {time.monotonic() - begun:.1f} s; detected: version {version} published, {settled} settled")
            assert settled < version
            answer = write.result()
    finally:
        cluster.cont(former)
    assert answer.status in (200, 503), answer
    wait_until(lambda: cluster.put("data", name, b"by the new one again").status == 200, 5, f"{new} takes writes")
    wait_until_in_place(cluster)
    assert cluster.get("data", name).body == b"by the new one again"


def test_who_comes_back_with_an_old_map_is_told_and_follows(make_stage, seed):
    """N7: a target and a proxy sleep while names are written, deleted and moved, the target dies and starts with what it had.
    What was asked by the old map is refused between nodes; a client is redirected, or told to try again, and never misled."""
    rng = seeded(seed, "old map")
    stage = make_stage(apart=True, targets=3, drives=1, meta="etcd", proxies=2)
    cluster = stage.cluster
    cluster.expect_errors(ERRORS)
    wait_until_in_place(cluster)
    away, other, third = rng.sample(cluster.targets(), 3)
    names = cluster.names_owned_by(away, "data", 12)
    changed, deleted, left = names[:5], names[5:8], names[8:]
    crowd = Crowd([Client(stage.recorder, f"c{i}", [cluster.endpoint], 4) for i in range(3)], Work(seed, NAMES)).start()
    for name in names:
        assert cluster.put("data", name, b"old").status == 200
    old = stored_map(cluster)["version"]
    p2 = cluster.url_of("p2")
    late = http.request("PUT", cluster.url("data", changed[0], p2), b"late", follow=False)
    assert late.status == 307
    bucket = 1  # the default one, which was made with the cluster
    its_id = cluster.nodes[away]["id"]

    def change(body, names=changed):
        for name in names:
            wait_until(lambda: cluster.put("data", name, body).status == 200, 10, f"{name} is written elsewhere", every=0.1)

    def return_of_it(body, come_back):
        """Clients' view of its names from the moment it goes on until all is in place."""
        come_back()
        seen = set()

        def look():
            for base in (p2, cluster.url_of(away), cluster.endpoint):
                for name in (*changed, *deleted, *left):
                    try:
                        answer = http.request("GET", cluster.url("data", name, base), timeout=5)
                    except (OSError, http.ProtocolError):
                        continue
                    told = answer.body if answer.status == 200 else answer.status
                    seen.add((told, "stale" if "Tarn-Stale" in answer.headers else ""))
                    allowed = {(503, ""), (503, "stale")}
                    allowed |= {(body, "")} if name in changed else {(404, "")} if name in deleted else {(b"old", "")}
                    if "Tarn-Stale" in answer.headers:  # outside of the promise, and says so
                        assert told in (body, b"old", 404, 503), (name, answer)
                    else:
                        assert (told, "") in allowed, (name, answer)
            now = stored_map(cluster)
            return (not now.get("past") and int(stored(cluster, "/tarn/settled")[0]) == now["version"]
                    and not flags_of(cluster, away) and seen)

        wait_until(look, 30, "all is in place")
        return seen

    cluster.stop(away, "p2")
    try:
        wait_until(lambda: flags_of(cluster, away), 10, f"{away} is down", every=0.1)
        change(b"new", [*changed, *deleted])
        for name in deleted:  # of which there is something that can be had
            assert cluster.delete("data", name).status == 200
        give_names_to(cluster, away, other)
        give_names_to(cluster, away, other, third)
        assert stored_map(cluster)["version"] >= old + 3
        for path in (f"/v1/internal/look-up?bucket={bucket}&object=x&uname=ais%2F%40%23%2Fdata%2Fx&copies=0&map={old}",
                     f"/v1/internal/list?bucket={bucket}&bmd=1&map={old}&limit=10"):
            wait_until(lambda: call(cluster, other, "GET", path, caller=its_id).status == 421, 5, f"{path} by an old map is refused")
    except BaseException:
        cluster.cont(away, "p2")
        raise
    first = return_of_it(b"new", lambda: cluster.cont(away, "p2"))
    # The old redirect is good, since the name is its own again; the write is the newest then.
    again = http.request("PUT", late.headers["Location"], b"late")
    assert again.status == 200 and cluster.get("data", changed[0]).body == b"late"
    cluster.kill(away)
    wait_until(lambda: flags_of(cluster, away), 10, f"{away} is down", every=0.1)
    change(b"newer")
    second = return_of_it(b"newer", lambda: cluster.start(away))
    print(f"injected: map {old} came back when there was {stored_map(cluster)['version']}; detected: {first | second}")
    crowd.stop()
    assert [name for name in cluster.names("data") if name not in NAMES] == sorted([*changed, *left])
    with stage.client("judge", timeout=30) as judge:
        stage.check(judge, NAMES, only=lambda op: op.name in NAMES)
    version = stored_map(cluster)["version"]
    status = json.loads(stored(cluster, f"/tarn/live/{its_id}")[0])
    assert status["map"] == version, status


def test_who_is_gone_in_the_middle_of_a_body_holds_up_no_name(make_cluster):
    """A client's machine vanishes while it sends a body, and then the name gets another owner, which waits for that
    write. A client may be slow for http.body_rate_window; one that vanished is noticed long before."""
    cluster = make_cluster(apart=True, targets=2, drives=1, settings={"http.body_rate_window": "1h"})
    cluster.expect_errors(ERRORS)
    wait_until_in_place(cluster)
    name = cluster.names_owned_by("t1", "data", 1)[0]
    url = http.request("PUT", cluster.url("data", name), b"x" * 1000, follow=False).headers["Location"]
    connection = http.RawConnection(url)
    connection.send_head("PUT", url[url.index("/v1/"):], {"Content-Length": "1000", "Expect": "100-continue"})
    assert connection.read_head()[0] == 100  # the write has begun
    connection.send(b"x" * 500)
    connection.vanish()
    begun = time.monotonic()
    give_names_to(cluster, "t2")
    wait_until(lambda: cluster.put("data", name, b"by t2").status == 200, 15, "t2 takes writes", every=0.1)
    wait_until_in_place(cluster, 15)
    print(f"injected: a client gone in the middle of its body; detected: all in place {time.monotonic() - begun:.1f} s later")
    assert cluster.get("data", name).body == b"by t2"


def test_a_receiver_that_stands_still_holds_up_moves_for_no_longer_than_its_lease(make_cluster):
    """t1 gives names to t2, slowly, when t2 stands still: when t2 is down they go to where they belong then."""
    cluster = make_cluster(apart=True, targets=3, drives=1, settings={"rebalance.bandwidth": "100KiB"})
    cluster.expect_errors(ERRORS)
    wait_until_in_place(cluster)
    names = cluster.names_owned_by("t2", "data", 10)
    give_names_to(cluster, "t1")
    for name in names:
        wait_until(lambda: cluster.put("data", name, b"x" * 60_000).status == 200, 10, f"t1 takes {name}")

    def lies(node):
        return set(attribute.objects(cluster.drives(node), "data"))

    def left():
        """Names that t1 holds and another node owns."""
        return [name for name in lies("t1") if cluster.owner("data", name) != "t1"]

    give_names_to(cluster, "t1", "t2", "t3")
    wait_until(lambda: lies("t2"), 10, "the first has come to t2", every=0.005)
    cluster.stop("t2")
    try:
        begun = time.monotonic()
        assert len(left()) >= 3, "too late"
        wait_until(lambda: flags_of(cluster, "t2"), 10, "t2 is down", every=0.1)
        wait_until(lambda: cluster.owner("data", names[0]) != "t2" and not left(), 15, "t1 goes on without t2", every=0.1)
        print(f"injected: t2 stood still; detected: the others have its names {time.monotonic() - begun:.1f} s later")
    finally:
        cluster.cont("t2")
    wait_until_in_place(cluster)
    assert cluster.names("data") == sorted(names)
