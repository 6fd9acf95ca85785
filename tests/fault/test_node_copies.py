"""Copies on several nodes (docs/decisions/014): writes that are cut short at each step, and load while targets die."""

import json
import threading
import time

from copies import wait_settled
from disks import seeded
from harness import attribute, client
from harness.nodes import stored_map, wait_until_in_place
from harness.waiting import wait_until
from load import Crowd
from stage import Churn

MIB = 1024 * 1024
TARGETS = ("t1", "t2", "t3")
# Where a write is cut short at the owner, and at another replica.
OWNER = ("copies.send=kill", "copies.before_own=kill", "put.before_attribute=kill", "put.before_index=kill",
         "put.before_reply=kill")
REPLICA = ("move.received=kill", "put.before_index=kill", "move.before_reply=kill")


def make_bucket(cluster, name="two"):
    cluster.create_bucket(name, {"mirror": {"enabled": True, "domain": "node"}})
    wait_until_in_place(cluster)


def replicas_of(cluster, name):
    return [target for target in TARGETS if name in attribute.objects(cluster.drives(target))]


def all_replicas_agree(cluster):
    """Each name lies on two targets, in one version that is known to be everywhere."""
    found = {}
    for target in TARGETS:
        for name, said in attribute.objects(cluster.drives(target)).items():
            found.setdefault(name, []).append(str(said))
    return all(len(each) == 2 and each[0] == each[1] for each in found.values())


def location_at(cluster, target, name):
    """Where a proxy sends a reader whom it sends to this replica."""
    def look():
        location = cluster.get("two", name, follow=False).headers["Location"]
        return location if location.startswith(cluster.url_of(target) + "/") else None
    return wait_until(look, 5, f"a reader is sent to {target}")


def test_writes_cut_short_at_every_step_show_one_version(make_stage, seed):
    rng = seeded(seed, "node copies")
    stage = make_stage(targets=3, drives=1)
    cluster, judge = stage.cluster, stage.client("judge", timeout=30)
    make_bucket(cluster)
    names = []
    steps = [("owner", point) for point in OWNER] + [("replica", point) for point in REPLICA]
    for number, (who, point) in enumerate(steps):
        name = f"n-{number:04}"
        names.append(name)
        assert judge.put("two", name, rng.choice((0, 100, 70_000, MIB + 7))).status == 200
        owner = cluster.owner("two", name)
        (replica,) = [target for target in replicas_of(cluster, name) if target != owner]
        dies = owner if who == "owner" else replica
        stage.kill(dies)
        stage.start(dies, fail_points={dies: point})
        wait_until_in_place(cluster)
        writer = stage.client(f"w{number}", timeout=30)
        thread = threading.Thread(target=writer.put, args=("two", name, rng.choice((1, 5000, MIB))), daemon=True)
        thread.start()
        stage.wait_gone(dies)
        stage.look(judge, [name], "two", seconds=20)  # by then its lease has ended
        thread.join()
        stage.start(dies)
        wait_until_in_place(cluster)
        stage.look(judge, [name], "two")
    wait_settled(cluster)
    stage.check(judge, names, "two")
    wait_until(lambda: all_replicas_agree(cluster), 10, "all replicas have the same")
    print(f"injected: {len(steps)} kills between steps")


def test_what_a_killed_writer_left_is_done_although_nobody_asks(make_stage):
    """The other replica has the new version. The owner died before it had it, and is back before another target took its names."""
    stage = make_stage(targets=3, drives=1)
    cluster, judge = stage.cluster, stage.client("judge", timeout=30)
    make_bucket(cluster)
    (name,) = cluster.names_owned_by("t1", "two", 1)
    assert judge.put("two", name, 100).status == 200
    stage.kill("t1")
    stage.start("t1", fail_points={"t1": "copies.before_own=kill"})
    wait_until_in_place(cluster)
    wait_settled(cluster)  # no target walks through its drives for another reason
    begun, version = time.monotonic(), stored_map(cluster)["version"]
    assert judge.put("two", name, 5000).status in (0, 503)
    stage.wait_gone("t1")
    stage.start("t1")
    assert not all_replicas_agree(cluster), "nothing was left half done"
    wait_until(lambda: all_replicas_agree(cluster), 15, "all replicas have the same")
    wait_settled(cluster)
    print(f"injected: a writer killed; detected: all replicas agree {time.monotonic() - begun:.1f} s later, by map {version} still: "
          f"{version == stored_map(cluster)['version']}")
    found = judge.get("two", name)
    assert found.status == 200 and found.length == 5000
    stage.check(judge, [name], "two")


def test_a_delete_on_its_way_hides_nothing_at_one_replica_before_all_have_it(make_stage):
    """The note of an object's end comes to a replica between a reader's look at what is there and the opening of it."""
    stage = make_stage(targets=3, drives=1)
    cluster = stage.cluster
    make_bucket(cluster)
    (name,) = cluster.names_owned_by("t1", "two", 1)
    assert cluster.put("two", name, b"x" * 100).status == 200
    (replica,) = [target for target in replicas_of(cluster, name) if target != "t1"]
    stage.kill("t1", replica)
    stage.start("t1", replica, fail_points={"t1": "delete.before_tombstone=sleep:3000", replica: "get.before_open=sleep:900"})
    wait_until_in_place(cluster)
    at_owner, at_replica = (location_at(cluster, target, name) for target in ("t1", replica))

    seen = {}
    reader = threading.Thread(target=lambda: seen.update(late=client.request("GET", at_replica).status), daemon=True)
    deleter = threading.Thread(target=lambda: seen.update(deleted=cluster.delete("two", name).status), daemon=True)
    reader.start()  # for less than the second after which it would be sent to the other replica
    time.sleep(0.2)
    deleter.start()
    wait_until(lambda: attribute.objects(cluster.drives(replica)).get(name) is None, 2, "the other replica has the note")
    assert "late" not in seen, "the reader had opened what was there before"
    time.sleep(1.5)
    still = client.request("GET", at_owner).status
    assert "deleted" not in seen and still == 200, "the delete was to be on its way"
    assert seen.get("late") != 404, "what all replicas did not know yet was shown"
    deleter.join()
    reader.join()
    assert seen["deleted"] == 200 and seen["late"] in (200, 404, 503)
    print(f"injected: a delete that has reached one of two replicas; the reader there heard {seen['late']}")


def test_load_with_kills_loses_nothing(make_stage, seed):
    rng = seeded(seed, "node load")
    stage = make_stage(targets=3, drives=1)
    cluster, judge = stage.cluster, stage.client("judge", timeout=30)
    make_bucket(cluster)
    names = [f"n-{i:04}" for i in range(12)]
    for number in range(4):
        clients = [stage.client(f"r{number}c{i}", timeout=30) for i in range(3)]
        crowd = Crowd(clients, Churn(f"{seed}/{number}", names, bucket="two", sizes=(0, 100, 70_000, 300_000))).start()
        time.sleep(rng.uniform(0.5, 1.5))
        dies = rng.choice(TARGETS)
        stage.kill(dies)
        time.sleep(rng.uniform(0.5, 7))  # its names are written elsewhere, or it is back before that
        stage.start(dies)
        time.sleep(rng.uniform(0.5, 2))
        crowd.stop()
        wait_until_in_place(cluster)
        stage.look(judge, names, "two")
    wait_settled(cluster)
    stage.check(judge, names, "two")
    wait_until(lambda: all_replicas_agree(cluster), 20, "all replicas have the same")


def test_load_while_drives_go_and_come_and_a_target_is_given_up(make_stage, seed):
    rng = seeded(seed, "node losses")
    stage = make_stage(targets=4, drives=2)
    cluster, judge = stage.cluster, stage.client("judge", timeout=30)
    make_bucket(cluster)
    names = [f"n-{i:04}" for i in range(24)]
    clients = [stage.client(f"c{i}", timeout=30) for i in range(3)]
    crowd = Crowd(clients, Churn(seed, names, bucket="two", sizes=(0, 100, 70_000, 300_000))).start()

    def call(method, path, action, value, node=None):
        body = json.dumps({"action": action, "name": "", "value": value}).encode()
        fields = {"Ais-Node-Id": cluster.nodes[node]["id"]} if node else {}
        answer = client.request(method, cluster.endpoint + path, body, {"Content-Type": "application/json"} | fields, expect=False)
        return answer.status == 200

    def change(method, action, node, path):
        wait_until(lambda: call(method, "/v1/reverse/daemon/mountpaths?dntres=true", action, str(path), node), 20, f"{action} {path}")

    for node in ("t1", "t3"):
        path = rng.choice(cluster.drives(node))
        time.sleep(rng.uniform(0.2, 1))
        change("DELETE", "detach-mp", node, path)
        wait_until_in_place(cluster)
        time.sleep(rng.uniform(0.2, 1))
        change("PUT", "attach-mp", node, path)  # with what has been overwritten and deleted since
        wait_until_in_place(cluster)
    stage.kill("t2")
    gone = cluster.nodes["t2"]["id"]
    wait_until(lambda: call("PUT", "/v1/cluster", "rm-unsafe", {"sid": gone}), 20, "t2 is given up")
    wait_until(lambda: gone not in [node["id"] for node in stored_map(cluster)["nodes"]], 20, "t2 is out")
    wait_until_in_place(cluster)
    time.sleep(rng.uniform(0.2, 1))
    crowd.stop()
    stage.look(judge, names, "two")
    wait_settled(cluster)
    stage.check(judge, names, "two")
    told = cluster.redundancy("two")
    assert told["reduced"] == told["lost"] == 0, told
