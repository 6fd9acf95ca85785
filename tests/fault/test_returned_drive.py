"""A drive that comes back after its objects were overwritten and deleted on another one (faults.md D5)."""

import json
import threading

from harness import attribute
from harness import client as http
from harness.waiting import wait_until

NAMES = [f"n-{i:03}" for i in range(120)]


def change(cluster, method, action, path, query=""):
    """One of AIStore's calls on drives."""
    body = json.dumps({"action": action, "name": "", "value": str(path)}).encode()
    return http.request(method, f"{cluster.endpoint}/v1/reverse/daemon/mountpaths{query}", body,
                        {"Ais-Node-Id": cluster.nodes["t1"]["id"], "Content-Type": "application/json"}, expect=False)


def attach(cluster, path):
    wait_until(lambda: change(cluster, "PUT", "attach-mp", path).status == 200, 10, "the drive is closed, and attached")


def test_a_drive_that_returns_brings_nothing_old_back(make_cluster):
    """At no moment of its return is an old version read, or is there again what was deleted."""
    cluster = make_cluster(targets=1, drives=2)
    for name in NAMES:
        assert cluster.put("data", name, f"old {name}".encode()).status == 200
    first = cluster.drives("t1")[0]
    there = sorted(attribute.objects([first]))
    overwritten, deleted, left = there[::3], there[1::3], there[2::3]
    assert len(left) > 5
    assert change(cluster, "DELETE", "detach-mp", first, "?dntres=true").status == 200
    for name in overwritten + deleted:
        assert cluster.put("data", name, f"new {name}".encode()).status == 200
    for name in deleted:
        assert cluster.delete("data", name).status == 200

    wrong, turns, enough = [], [0], threading.Event()

    def watch():
        while not enough.is_set():
            for name in overwritten + deleted:
                answer = cluster.get("data", name)
                seen = answer.body.decode() if answer.status == 200 else answer.status
                if seen not in ((f"new {name}", 503) if name in overwritten else (404, 503)):
                    wrong.append((name, seen))
            turns[0] += 1

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(3):
            before = turns[0]
            attach(cluster, first)
            wait_until(lambda: turns[0] > before + 1, 10, "all were read")
            assert change(cluster, "DELETE", "detach-mp", first, "?dntres=true").status == 200
        attach(cluster, first)
    finally:
        enough.set()
        watcher.join()
    print(f"injected: a drive with {len(overwritten)} old and {len(deleted)} deleted objects attached 4 times; detected: "
          f"{turns[0]} times all were read, {len(wrong)} wrong")
    assert not wrong, wrong[:5]
    cluster.kill("t1")
    cluster.start("t1")
    listed = cluster.names("data")
    assert listed == sorted(set(NAMES) - set(deleted))
    assert all(cluster.get("data", name).body == f"{'new' if name in overwritten else 'old'} {name}".encode() for name in listed)
