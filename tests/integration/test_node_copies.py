"""Buckets whose objects have copies on several nodes: `mirror.domain: node`."""

import hashlib
import json
import os
import socket
import struct
import threading
import time
import urllib.parse

import pytest
from harness import attribute, client
from harness.checksums import crc32c
from harness.cli import Cli
from harness.cluster import LEASE_SECONDS
from harness.nodes import call, give_names_to, stored_map, wait_until_in_place
from harness.waiting import assert_within, wait_until
from test_reading import open_data_files

MIB = 1 << 20
JSON = {"Content-Type": "application/json"}
ON_NODES = {"mirror": {"enabled": True, "domain": "node"}}
TARGETS = ("t1", "t2", "t3")


def act(cluster, action, node=None, **value):
    """AIStore's action on a node (its name), or on a rebalance."""
    value |= {"sid": cluster.nodes[node]["id"]} if node else {}
    body = json.dumps({"action": action, "name": "", "value": value}).encode()
    answer = client.request("PUT", f"{cluster.endpoint}/v1/cluster", body, expect=False)
    assert answer.status == 200, answer


def drives_action(cluster, node, method, action, path):
    body = json.dumps({"action": action, "name": "", "value": str(path)}).encode()
    answer = client.request(method, f"{cluster.endpoint}/v1/reverse/daemon/mountpaths?dntres=true", body,
                            {"Ais-Node-Id": cluster.nodes[node]["id"], **JSON}, expect=False)
    assert answer.status == 200, answer


def get(url):
    """The answer; none when a proxy sends us to a target that was killed just now."""
    try:
        return client.request("GET", url, expect=False)
    except (OSError, client.ProtocolError):
        return None


def read_all(cluster, bodies, gone=(), seconds=10):
    """Every name is read right, in the end, and is never said not to exist before that; a list has them all."""
    def read(name, body):
        answer = get(cluster.url("two", name))
        if answer is None:
            return False
        assert answer.status in (200, 503), f"{name}: {answer}"
        assert answer.status == 503 or answer.body == body, f"{name} is another version"
        return answer.status == 200

    def is_gone(name):
        answer = get(cluster.url("two", name))
        if answer is None:
            return False
        assert answer.status in (404, 503), f"{name} is back: {answer}"
        return answer.status == 404

    for name, body in bodies.items():
        wait_until(lambda: read(name, body), seconds, f"{name} is read")
    for name in gone:
        wait_until(lambda: is_gone(name), seconds, f"{name} is gone")
    wait_until(lambda: cluster.list_page("two").status == 200, seconds, "a list is answered")
    assert sorted(cluster.names("two")) == sorted(bodies)


def files_of(cluster, bucket="two"):
    """{name: {target: what its file says}} of all that lies anywhere."""
    found = {}
    for target in (name for name in cluster.nodes if name.startswith("t")):
        for name, said in attribute.objects(cluster.drives(target)).items():
            if said["bucket"] == bucket:
                found.setdefault(name, {})[target] = said
    return found


def wait_agree(cluster, names, copies=2, seconds=5):
    """Waits until each name, and nothing else, lies on `copies` targets: the same version on each, and complete."""
    wrong = []

    def agree():
        found = files_of(cluster)
        wrong[:] = sorted(set(names) ^ found.keys()) + [
            each for each in found.values() if len(each) != copies or len({str(said) for said in each.values()}) != 1]
        return not wrong

    try:
        wait_until(agree, seconds, "all replicas have the same")
    except AssertionError:
        raise AssertionError(f"replicas differ: {wrong}") from None


@pytest.fixture
def three(make_cluster):
    cluster = make_cluster(targets=3, drives=1)
    cluster.create_bucket("two", ON_NODES)
    wait_until_in_place(cluster)
    return cluster


def store_varied(cluster, count=12):
    """Objects of many sizes, with metadata: {name: body}."""
    names, red = [f"dir{i % 2}/n-{i}" for i in range(count)], {"Ais-Custom-Md": "color=red"}
    bodies = cluster.fill("two", names, (0, 1, 4096, 70_000), durable=True, headers=red)
    return bodies | cluster.fill("two", ["large"], 3 * MIB + 77, durable=True, headers=red)


def test_an_object_lies_on_two_nodes_and_is_one(three):
    bodies = store_varied(three)
    wait_agree(three, bodies)
    assert sorted(three.names("two")) == sorted(bodies)
    assert sorted(three.names("two", pagesize=5)) == sorted(bodies)
    bodies["large"] += b"again"
    assert three.put("two", "large", bodies["large"]).status == 200
    assert client.request("PATCH", three.url("two", "dir0/n-0"), json.dumps({"value": {"weight": "3"}}).encode(), JSON).status == 200
    assert three.delete("two", "dir1/n-1").status == 200
    del bodies["dir1/n-1"]
    assert three.get("two", "dir1/n-1").status == 404
    assert sorted(three.names("two")) == sorted(bodies)
    for name, body in bodies.items():
        assert three.get("two", name).body == body
    wait_agree(three, bodies)
    pairs = [said["pairs"] for said in files_of(three)["dir0/n-0"].values()]
    assert pairs == [{"color": "red", "weight": "3"}] * 2
    refused = three.put("two", "large", b"x", headers={"If-None-Match": "*"})
    assert refused.status == 412


def test_a_killed_target_is_read_elsewhere_at_once_and_gets_what_it_missed(three):
    bodies = store_varied(three)
    owned = three.names_owned_by("t1", "two", 3)
    for name in owned:
        bodies[name] = name.encode()
        assert three.put("two", name, bodies[name]).status == 200
    wait_agree(three, bodies)
    three.kill("t1")
    begun = time.monotonic()
    for base in [three.url_of("p1", kind) for kind in ("public", "relay")]:
        for name in owned:
            url = three.url("two", name, base)
            # Of the first good answer: one that the other replica gave by chance says nothing of the next.
            answer = wait_until(lambda: (answer := get(url)) is not None and answer.status == 200 and answer, 5, "it is read")
            assert answer.body == bodies[name]
    seconds = time.monotonic() - begun
    assert_within(seconds, 3, f"first good reads of all {len(owned)} names of a killed target, twice")
    wait_until(lambda: three.list_page("two").status == 200, 5, "a list is answered")
    assert sorted(three.names("two")) == sorted(bodies)

    bodies[owned[0]] = b"written meanwhile"
    wait_until(lambda: three.put("two", owned[0], bodies[owned[0]]).status == 200, LEASE_SECONDS + 6, "a write is taken")
    assert three.delete("two", owned[1]).status == 200
    del bodies[owned[1]]
    assert sorted(three.names("two")) == sorted(bodies)
    three.start("t1")
    wait_until(lambda: three.list_page("two").status == 200, 5, "a list is answered")
    assert sorted(three.names("two")) == sorted(bodies)
    for name, body in bodies.items():
        assert three.get("two", name).body == body
    assert three.get("two", owned[1]).status == 404
    wait_until_in_place(three)
    wait_agree(three, bodies, seconds=10)


def test_names_move_with_all_their_copies(three):
    bodies = store_varied(three)
    give_names_to(three, "t2", "t3")
    wait_until_in_place(three)
    wait_agree(three, bodies)
    assert not any("t1" in each for each in files_of(three).values())
    for name, body in bodies.items():
        assert three.get("two", name).body == body
    give_names_to(three, *TARGETS)
    wait_until_in_place(three)
    wait_agree(three, bodies)
    assert any("t1" in each for each in files_of(three).values())
    for name, body in bodies.items():
        assert three.get("two", name).body == body


def test_with_one_target_left_a_write_is_degraded(three):
    give_names_to(three, "t2")
    wait_until_in_place(three)
    answer = three.put("two", "lonely", b"one copy")
    assert answer.status == 200 and answer.headers["Tarn-Durability"] == "degraded"
    give_names_to(three, *TARGETS)
    wait_until_in_place(three)
    wait_agree(three, ["lonely"])


def test_a_relayed_reader_does_not_notice_that_its_target_dies(three):
    body = os.urandom(48 * MIB)
    assert three.put("two", "large", body).status == 200
    wait_agree(three, ["large"])
    parts = urllib.parse.urlsplit(three.url_of("p1", "relay"))
    with client.RawConnection((parts.hostname, parts.port)) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.send_head("GET", "/two/large", {})
        got = bytearray(connection.socket.recv(1 << 16))
        # Where it is read from, which is not the owner when that has had much to do.
        # The one that sent the copy just now may have its own open for a moment.
        serving = wait_until(lambda: len(now := [target for target in TARGETS if open_data_files(three, target)]) == 1 and now, 10,
                             "one target reads")
        three.kill(*serving)
        head = got.index(b"\r\n\r\n") + 4
        while len(got) < head + len(body):
            chunk = connection.socket.recv(1 << 20)
            assert chunk, f"cut after {len(got)} bytes"
            got += chunk
    assert got.startswith(b"HTTP/1.1 200")
    assert len(three.logs["p1"].matching("goes on elsewhere")) == 1
    assert hashlib.sha256(body).digest() == hashlib.sha256(got[head:]).digest()


def redundancy(cluster):
    its = cluster.redundancy("two")
    return {key: its[key] for key in ("full", "reduced", "at_risk", "lost", "copies")}


def wait_full(cluster, count, seconds=60):
    """Until `count` objects are counted as full and no others are: a target that is slow to answer is left out of a count."""
    seen = []

    def full():
        seen[:] = [redundancy(cluster)]
        return seen[0] == {"full": count, "reduced": 0, "at_risk": 0, "lost": 0, "copies": 2}

    try:
        wait_until(full, seconds, "all are full")
    except AssertionError:
        raise AssertionError(f"wanted {count} full, last seen {seen}") from None


def test_copies_are_counted_wherever_they_lie(three):
    """When a target is away, the answer also names the targets whose objects the counts leave out."""
    bodies = store_varied(three)
    count = len(bodies)
    single = [three.names_owned_by(f"t{i}", "data", 1)[0] for i in (1, 2, 3)]
    three.fill("data", dict.fromkeys(single, b"x"))
    cli = Cli(three.endpoint)
    whole = json.loads(cli.ok("redundancy", "--json"))
    assert whole["complete"] and all(each["complete"] and each["targets_away"] == [] for each in whole["buckets"])
    assert redundancy(three) == {"full": count, "reduced": 0, "at_risk": 0, "lost": 0, "copies": 2}
    on_t1 = sum("t1" in each for each in files_of(three).values())
    three.kill("t1")
    left = {"full": count - on_t1, "reduced": on_t1, "at_risk": on_t1, "lost": 0, "copies": 2}
    wait_until(lambda: redundancy(three) == left, 5, "what lies on the killed target is not counted")
    found = cli("redundancy", "--json")
    assert found.returncode == 7 and three.nodes["t1"]["id"] in found.stderr, found
    found = json.loads(found.stdout)
    assert not found["complete"]
    buckets = {each["name"]: each for each in found["buckets"]}
    assert buckets["data"]["full"] == 2
    for each in buckets.values():
        assert each["targets_away"] == [three.nodes["t1"]["id"]] and not each["complete"], each
    table = cli("redundancy", "data")
    assert table.returncode == 7 and b"in part" in table.stdout and "incomplete" in table.stderr, table
    three.kill("t2")
    three.kill("t3")
    wait_until(lambda: redundancy(three)["full"] == 0, 5, "no target is left to count")
    assert len(json.loads(cli("redundancy", "two", "--json").stdout)["buckets"][0]["targets_away"]) == 3


def test_a_target_that_is_removed_while_names_move_costs_nobody_a_name(make_cluster):
    cluster = make_cluster(targets=4, drives=1)
    cluster.create_bucket("two", ON_NODES)
    wait_until_in_place(cluster)
    bodies = store_varied(cluster, 90)
    wait_agree(cluster, bodies)
    first = [name for name, each in files_of(cluster).items() if each.keys() == {"t1", "t2"}]
    assert first, "some names lie on both"
    # What t1 holds has other replicas, which do not get it; then its other holder dies, and is out for good.
    act(cluster, "start-maintenance", "t1", skip_rebalance=True)
    read_all(cluster, bodies)
    cluster.kill("t2")
    act(cluster, "rm-unsafe", "t2")
    wait_until(lambda: cluster.nodes["t2"]["id"] not in [node["id"] for node in stored_map(cluster)["nodes"]], 20, "t2 is out")
    assert stored_map(cluster)["past"], "names have not moved"
    read_all(cluster, bodies)
    bodies[first[0]] = b"written meanwhile"
    wait_until(lambda: cluster.put("two", first[0], bodies[first[0]], expect=False).status == 200, 10, "a write is taken")
    read_all(cluster, bodies)
    # Copies that were lost with it are made again.
    act(cluster, "start", Kind="rebalance")
    wait_until_in_place(cluster)
    read_all(cluster, bodies)
    wait_full(cluster, len(bodies))
    for each in files_of(cluster).values():
        assert each.keys() - {"t2"} == {"t3", "t4"}


@pytest.mark.parametrize("slowly", [False, True])
def test_copies_lost_with_a_drive_are_made_again(make_cluster, slowly):
    # Slowly: others have long enough to ask for what the drive has, while it is on its way out.
    cluster = make_cluster(targets=3, drives=2, fail_points={"t1": "detach.before_out=sleep:1500"} if slowly else None)
    cluster.create_bucket("two", ON_NODES)
    wait_until_in_place(cluster)
    bodies = store_varied(cluster, 60)
    wait_agree(cluster, bodies)
    path = cluster.drives("t1")[0]
    there = sorted(attribute.objects([path]))
    assert len(there) >= 4, there
    drives_action(cluster, "t1", "DELETE", "detach-mp", path)
    read_all(cluster, bodies)
    wait_until_in_place(cluster)
    wait_full(cluster, len(bodies))
    read_all(cluster, bodies)
    # It comes back with what has been deleted and overwritten since.
    deleted, changed = there[:2], there[2:4]
    for name in deleted:
        assert cluster.delete("two", name).status == 200
        del bodies[name]
    for name in changed:
        bodies[name] = os.urandom(99)
        assert cluster.put("two", name, bodies[name]).status == 200
    drives_action(cluster, "t1", "PUT", "attach-mp", path)
    read_all(cluster, bodies, gone=deleted)
    wait_until_in_place(cluster)
    read_all(cluster, bodies, gone=deleted)
    # A drive that has come is counted as soon as its known bad files have been read.
    wait_until(lambda: redundancy(cluster)["full"] == len(bodies), 60, "all objects are full")


def test_a_list_shows_what_all_replicas_have(three):
    """A record whose writer died before it could say that all replicas have it comes to one replica only, and is listed there."""
    (name,) = three.names_owned_by("t1", "two", 1)
    assert three.put("two", name, b"before").status == 200
    wait_agree(three, [name])
    (other,) = files_of(three)[name].keys() - {"t1"}
    (raw,) = [raw for raw in attribute.data_files(three.drives("t1")).values() if attribute.decode(raw)["name"] == name]
    assert three.delete("two", name).status == 200
    gone = stored_map(three)["version"]
    # A generation above all, as a later write has it: its first number is the version of the map.
    newer = attribute.with_generation(raw, (gone, 1 << 50, 1))
    sent = call(three, "t1", "PUT", f"/v1/internal/move/copy?map={gone}&bmd=1&unsettled=1",
                struct.pack("<I", len(newer)) + newer + struct.pack("<I", crc32c(b"before")) + b"before",
                three.nodes[other]["id"])
    assert sent.status == 200 and sent.json() == {"stored": True}, sent
    # It came to no other; but replicas look through what they have now and then, and may have given it on by now.
    assert "t1" in files_of(three)[name] and files_of(three)[name].keys() <= {"t1", other}
    assert three.names("two") == [name]
    assert files_of(three)[name].keys() == {"t1", other}
    three.kill("t1")
    wait_until(lambda: (answer := get(three.url("two", name))) and answer.body == b"before", 5, "the other replica has it")


def test_names_that_are_written_all_the_time_are_read_and_listed(three):
    """That holds while they move, too: there is hardly a moment at which all replicas have the newest version of each."""
    hot = [f"hot-{i}" for i in range(4)]
    three.fill("two", dict.fromkeys(hot, b"first"))
    ends, written, lists, read = threading.Event(), [], [], []

    def write(name):
        while not ends.is_set():
            written.append(three.put("two", name, os.urandom(100), expect=False).status)

    def look():
        while not ends.is_set():
            read.extend(three.get("two", name, expect=False).status for name in hot)
            answer = three.list_page("two")
            lists.append([entry["name"] for entry in answer.json()["entries"]] if answer.status == 200 else answer)

    crowd = [threading.Thread(target=work, args=words) for work, words in
             [(write, (name,)) for name in hot for _ in range(2)] + [(look, ())] * 2]
    for thread in crowd:
        thread.start()
    try:
        for _ in range(4):
            act(three, "start-maintenance", "t3")
            wait_until_in_place(three)
            act(three, "stop-maintenance", "t3")
            wait_until_in_place(three)
        wait_until(lambda: written.count(200) > 50 and len(lists) > 6, 60, "enough was written and listed meanwhile")
    finally:
        ends.set()
        for thread in crowd:
            thread.join()
    assert [seen for seen in lists if seen != hot] == []


def test_a_list_begins_anew_for_as_long_as_maps_follow_each_other(three):
    """A list that was made by the map before cannot be used: the proxy makes it again, and the reader gets all names."""
    bodies = store_varied(three)
    three.kill("t1")
    three.start("t1", fail_points="list.before_answer=sleep:1000")
    wait_until_in_place(three)
    answers, maps = [], 0

    def begun():
        return len(three.logs["t1"].matching("failpoint hit name=list.before_answer"))

    look = threading.Thread(target=lambda: answers.append(three.list_page("two")))
    look.start()
    while look.is_alive() and begun() < 8:  # each time t1 takes a second to answer, of which a map needs a small part
        give_names_to(three, "t1", "t2", *["t3"] * (maps % 2))
        maps += 1
        time.sleep(0.1)
    still_looks = look.is_alive()
    look.join()
    assert still_looks, f"the list ended after {maps} maps: {answers}"
    assert sorted(entry["name"] for entry in answers[0].json()["entries"]) == sorted(bodies)


def test_a_strict_bucket_takes_no_write_in_too_few_copies(three):
    three.create_bucket("strict", ON_NODES | {"durability": "strict"})
    assert three.put("strict", "whole", b"two copies").status == 200
    give_names_to(three, "t2")
    wait_until_in_place(three)
    refused = three.put("strict", "half", b"one copy", expect=False)
    assert refused.status == 503 and "a write needs 2 of them and there are targets for 1" in refused.text, refused
    assert three.delete("strict", "whole").status == 200, "what takes no room is done all the same"
    give_names_to(three, *TARGETS)
    wait_until_in_place(three)
    assert three.put("strict", "half", b"two copies").status == 200


def test_a_process_that_stands_still_holds_up_writes_for_its_lease(three):
    """It answers nothing and closes nothing: writes of which it is a replica wait until it is out of the map, not for its answer."""
    names = three.names_owned_by("t1", "two", 20)
    three.fill("two", dict.fromkeys(names, b"before"))
    wait_agree(three, names)
    held = [name for name, each in files_of(three).items() if "t2" in each]
    assert held
    three.stop("t2")
    try:
        begun = time.monotonic()
        wait_until(lambda: three.put("two", held[0], b"after", expect=False).status == 200, LEASE_SECONDS + 8, "it is written")
        seconds = time.monotonic() - begun
        assert_within(seconds, LEASE_SECONDS + 4, "a write of which a replica stands still")
        assert three.get("two", held[0]).body == b"after"
    finally:
        three.cont("t2")
    wait_until_in_place(three)
    wait_agree(three, names, seconds=10)
    assert three.get("two", held[0]).body == b"after"


def test_new_buckets_get_copies_on_nodes_when_the_cluster_says_so(three):
    answer = client.request("PUT", f"{three.endpoint}/v1/cluster/set-config?mirror.enabled=true&mirror.domain=node", b"", expect=False)
    assert answer.status == 200, answer
    three.create_bucket("later")
    assert three.put("later", "one", b"twice").status == 200
    wait_until(lambda: len(files_of(three, "later")["one"]) == 2, 5, "it lies on two nodes")
