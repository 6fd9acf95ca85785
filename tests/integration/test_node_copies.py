"""Buckets whose objects have copies on several nodes: `mirror.domain: node`."""

import hashlib
import json
import os
import socket
import time
import urllib.parse

import pytest
from harness import attribute, client
from harness.nodes import give_names_to, wait_until_home
from harness.waiting import scaled, wait_until

LEASE_SECONDS = 4
MIB = 1 << 20
JSON = {"Content-Type": "application/json"}
ON_NODES = {"mirror": {"enabled": True, "domain": "node"}}
TARGETS = ("t1", "t2", "t3")


def files_of(cluster, bucket="two"):
    """{name: {target: what its file says}} of all that lies anywhere."""
    found = {}
    for target in TARGETS:
        for name, said in attribute.objects(cluster.drives(target)).items():
            if said["bucket"] == bucket:
                found.setdefault(name, {})[target] = said
    return found


def wait_agree(cluster, names, copies=2, seconds=5):
    """Until each name, and nothing else, lies on `copies` targets, the same version on each, known to all as settled."""
    wrong = []

    def agree():
        found = files_of(cluster)
        wrong[:] = sorted(set(names) ^ found.keys()) + [
            each for each in found.values() if len(each) != copies or len({str(said) for said in each.values()}) != 1]
        return not wrong

    try:
        wait_until(agree, seconds, "all homes have the same")
    except AssertionError:
        raise AssertionError(f"homes differ: {wrong}") from None


@pytest.fixture
def three(make_cluster):
    cluster = make_cluster(targets=3, drives=1)
    cluster.create_bucket("two", ON_NODES)
    wait_until_home(cluster)
    return cluster


def fill(cluster, count=12):
    bodies = {f"dir{i % 2}/n-{i}": os.urandom(size) for i, size in zip(range(count), [0, 1, 4096, 70_000] * count)}
    bodies |= {"large": os.urandom(3 * MIB + 77)}
    for name, body in bodies.items():
        answer = cluster.put("two", name, body, headers={"Ais-Custom-Md": "color=red"})
        assert answer.status == 200 and "Tarn-Durability" not in answer.headers
    return bodies


def test_an_object_lies_on_two_nodes_and_is_one(three):
    bodies = fill(three)
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
    bodies = fill(three)
    wait_agree(three, bodies)
    owned = [name for name in bodies if three.owner("two", name) == "t1"]
    assert len(owned) >= 2
    three.kill("t1")
    begun = time.monotonic()
    for base in [three.url_of("p1", kind) for kind in ("public", "relay")]:
        for name in owned:
            wait_until(lambda: client.request("GET", three.url("two", name, base), expect=False).status == 200, 5, "it is read")
            assert client.request("GET", three.url("two", name, base)).body == bodies[name]
    seconds = time.monotonic() - begun
    print(f"first good reads of all {len(owned)} names of a killed target, twice: {seconds:.2f} s")
    assert seconds < scaled(3)
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
    wait_until_home(three)
    wait_agree(three, bodies, seconds=10)


def test_names_move_with_all_their_copies(three):
    bodies = fill(three)
    give_names_to(three, "t2", "t3")
    wait_until_home(three)
    wait_agree(three, bodies)
    assert not any("t1" in each for each in files_of(three).values())
    for name, body in bodies.items():
        assert three.get("two", name).body == body
    give_names_to(three, *TARGETS)
    wait_until_home(three)
    wait_agree(three, bodies)
    assert any("t1" in each for each in files_of(three).values())
    for name, body in bodies.items():
        assert three.get("two", name).body == body


def test_with_one_target_left_a_write_is_degraded(three):
    give_names_to(three, "t2")
    wait_until_home(three)
    answer = three.put("two", "lonely", b"one copy")
    assert answer.status == 200 and answer.headers["Tarn-Durability"] == "degraded"
    give_names_to(three, *TARGETS)
    wait_until_home(three)
    wait_agree(three, ["lonely"])


def test_a_relayed_reader_does_not_notice_that_its_target_dies(three):
    body = os.urandom(48 * MIB)
    assert three.put("two", "large", body).status == 200
    wait_agree(three, ["large"])
    parts = urllib.parse.urlsplit(three.url_of("p1", "relay"))
    with client.RawConnection((parts.hostname, parts.port), timeout=30) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.send_head("GET", "/two/large", {})
        got = bytearray(connection.socket.recv(1 << 16))
        three.kill(three.owner("two", "large"))
        head = got.index(b"\r\n\r\n") + 4
        while len(got) < head + len(body):
            piece = connection.socket.recv(1 << 20)
            assert piece, f"cut after {len(got)} bytes"
            got += piece
    assert got.startswith(b"HTTP/1.1 200")
    assert len(three.logs["p1"].matching("goes on elsewhere")) == 1
    assert hashlib.sha256(body).digest() == hashlib.sha256(got[head:]).digest()


def redundancy(cluster):
    answer = client.request("GET", f"{cluster.endpoint}/v1/cluster?what=redundancy&provider=ais&bucket=two")
    assert answer.status == 200, answer
    return {key: answer.json()["buckets"][0][key] for key in ("full", "reduced", "at_risk", "lost", "copies")}


def test_copies_are_counted_wherever_they_lie(three):
    bodies = fill(three)
    count = len(bodies)
    assert redundancy(three) == {"full": count, "reduced": 0, "at_risk": 0, "lost": 0, "copies": 2}
    on_t1 = sum("t1" in each for each in files_of(three).values())
    three.kill("t1")
    wait_until(lambda: redundancy(three)["reduced"] == on_t1, 5, "what lies on the killed target is not counted")
    assert redundancy(three) == {"full": count - on_t1, "reduced": on_t1, "at_risk": on_t1, "lost": 0, "copies": 2}
