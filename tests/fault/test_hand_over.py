"""A new owner of a name waits for the former one, who may be about to write (faults.md N7, A4)."""

import concurrent.futures
import json
import time

from harness import attribute
from harness import client as http
from harness.nodes import call, give_names_to, stored, stored_map, wait_until_home
from harness.waiting import wait_until
from machines import flags_of
from test_nemesis import ERRORS

PAUSE = 2  # seconds, less than a lease lasts


def test_nobody_writes_a_name_before_its_former_owner_knows(make_cluster):
    """The former owner is stopped while a map is published that gives its names away. It has its lease still: a write that
    it has in hand may be acknowledged when it goes on. Until then the new owner takes none."""
    cluster = make_cluster(targets=2, drives=1)
    wait_until_home(cluster)
    name = cluster.names_owned_by("t1", "data", 1)[0]
    assert cluster.put("data", name, b"by t1").status == 200
    cluster.stop("t1")
    try:
        begun = time.monotonic()
        version = give_names_to(cluster, "t2")
        wait_until(lambda: cluster.owner("data", name) == "t2", PAUSE, "the proxy follows the new map")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            write = pool.submit(cluster.put, "data", name, b"by t2")
            while time.monotonic() < begun + PAUSE:
                assert not write.done() or write.result().status == 503, "written while t1 may still write"
                time.sleep(0.02)
            settled = int(stored(cluster, "/tarn/settled")[0])
            cluster.cont("t1")
            print(f"injected: t1 stopped for {time.monotonic() - begun:.1f} s; detected: version {version} published, {settled} settled")
            assert settled < version
            answer = write.result()
    finally:
        cluster.cont("t1")
    assert answer.status in (200, 503), answer
    wait_until(lambda: cluster.put("data", name, b"by t2 again").status == 200, 5, "t2 takes writes")
    wait_until_home(cluster)
    assert cluster.get("data", name).body == b"by t2 again"


def test_who_comes_back_with_an_old_map_is_told_and_follows(make_cluster):
    """N7: a target and a proxy sleep while names are written, deleted and moved, the target dies and starts with what it had.
    What was asked by the old map is refused between nodes; a client is redirected, or told to try again, and never misled."""
    cluster = make_cluster(targets=3, drives=1, meta="etcd", proxies=2)
    cluster.expect_errors(ERRORS)
    wait_until_home(cluster)
    names = cluster.names_owned_by("t1", "data", 12)
    changed, deleted, left = names[:5], names[5:8], names[8:]
    for name in names:
        assert cluster.put("data", name, b"old").status == 200
    old = stored_map(cluster)["version"]
    p2 = cluster.url_of("p2")
    late = http.request("PUT", cluster.url("data", changed[0], p2), b"late", follow=False)
    assert late.status == 307
    bucket = 1  # the default one, which was made with the cluster
    t1 = cluster.nodes["t1"]["id"]

    def change(body, names=changed):
        for name in names:
            wait_until(lambda: cluster.put("data", name, body).status == 200, 10, f"{name} is written elsewhere", every=0.1)

    def return_of_t1(body, come_back):
        """What clients see of t1's names from the moment it goes on until all is at home."""
        come_back()
        seen = set()

        def look():
            for base in (p2, cluster.url_of("t1"), cluster.endpoint):
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
                    and not flags_of(cluster, "t1") and seen)

        wait_until(look, 30, "all is at home")
        return seen

    cluster.stop("t1", "p2")
    try:
        wait_until(lambda: flags_of(cluster, "t1"), 10, "t1 is down", every=0.1)
        change(b"new", [*changed, *deleted])
        for name in deleted:  # of which there is something that can be had
            assert cluster.delete("data", name).status == 200
        give_names_to(cluster, "t1", "t2")
        give_names_to(cluster, "t1", "t2", "t3")
        assert stored_map(cluster)["version"] >= old + 3
        for path in (f"/v1/internal/look-up?bucket={bucket}&object=x&uname=ais%2F%40%23%2Fdata%2Fx&copies=0&map={old}",
                     f"/v1/internal/list?bucket={bucket}&bmd=1&map={old}&limit=10"):
            wait_until(lambda: call(cluster, "t2", "GET", path, caller=t1).status == 421, 5, f"{path} by an old map is refused")
    except BaseException:
        cluster.cont("t1", "p2")
        raise
    first = return_of_t1(b"new", lambda: cluster.cont("t1", "p2"))
    # The old redirect is good, since the name is t1's again; the write is the newest then.
    again = http.request("PUT", late.headers["Location"], b"late")
    assert again.status == 200 and cluster.get("data", changed[0]).body == b"late"
    cluster.kill("t1")
    wait_until(lambda: flags_of(cluster, "t1"), 10, "t1 is down", every=0.1)
    change(b"newer")
    second = return_of_t1(b"newer", lambda: cluster.start("t1"))
    print(f"injected: map {old} came back when there was {stored_map(cluster)['version']}; detected: {first | second}")
    assert cluster.names("data") == sorted([*changed, *left])
    version = stored_map(cluster)["version"]
    word = json.loads(stored(cluster, f"/tarn/live/{t1}")[0])
    assert word["map"] == version, word


def test_who_is_gone_in_the_middle_of_a_body_holds_up_no_name(make_cluster):
    """A client's machine is gone without a word while it sends a body, and then the name gets another owner, who waits for
    the write that was begun. Somebody may be slow for http.body_rate_window; who is gone is noticed long before."""
    cluster = make_cluster(targets=2, drives=1, settings={"http.body_rate_window": "1h"})
    cluster.expect_errors(ERRORS)
    wait_until_home(cluster)
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
    wait_until_home(cluster, 15)
    print(f"injected: a client gone in the middle of its body; detected: all at home {time.monotonic() - begun:.1f} s later")
    assert cluster.get("data", name).body == b"by t2"


def test_a_receiver_that_stands_still_holds_up_moves_for_no_longer_than_its_lease(make_cluster):
    """t1 gives names to t2, slowly, when t2 stands still: when t2 is down they go to where they are at home then."""
    cluster = make_cluster(targets=3, drives=1, settings={"rebalance.bandwidth": "100KiB"})
    cluster.expect_errors(ERRORS)
    wait_until_home(cluster)
    names = cluster.names_owned_by("t2", "data", 10)
    give_names_to(cluster, "t1")
    for name in names:
        wait_until(lambda: cluster.put("data", name, b"x" * 60_000).status == 200, 10, f"t1 takes {name}")

    def lies(node):
        return set(attribute.objects(cluster.drives(node), "data"))

    def left():
        """What t1 holds and another node owns."""
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
    wait_until_home(cluster)
    assert cluster.names("data") == sorted(names)
