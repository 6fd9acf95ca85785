"""A new owner of a name waits for the former one, who may be about to write (faults.md N7, A4)."""

import concurrent.futures
import time

from harness.nodes import give_names_to, stored, wait_until_home
from harness.waiting import wait_until

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
