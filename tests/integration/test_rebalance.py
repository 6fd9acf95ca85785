"""Moves between targets when names have other owners, and moves between the drives of a target. The maps are
published in the meta store, as an operator who sets targets into maintenance will do it."""

import errno
import json
import os
import re
import struct

import pytest
from harness import attribute, client
from harness.checksums import crc32c
from harness.nodes import Job, call, give_names_to, stored_map, wait_until_in_place
from harness.waiting import wait_until
from test_appends import append, flush, handle_of
from test_object_metadata import custom_of

MIB = 1 << 20
JSON = {"Content-Type": "application/json"}
NEWEST = (1 << 40, 1, 1)  # a generation above all


class Pair:
    """Two targets; `everything_to` moves all names to some of them."""

    def __init__(self, cluster):
        self.cluster = cluster
        wait_until_in_place(cluster)

    def everything_to(self, *owners):
        """The version of the map by which it moved."""
        version = give_names_to(self.cluster, *owners)
        wait_until_in_place(self.cluster)
        return version

    def ended(self, target, version):
        """What the last walk by this map says of itself."""
        found = self.cluster.logs[target].matching(rf"rebalance ended map={version} ")
        return dict(re.findall(r"(\w+)=(\S*)", found[-1])) if found else None

    def copies_begun(self, target):
        return attribute.paths(self.cluster.drives(target))

    def under_way(self, target):
        """How many copies have begun there and are not finished."""
        count = 0
        for path in self.copies_begun(target):
            try:
                attribute.read(path)
            except OSError as error:
                count += error.errno == errno.ENODATA
        return count

    def objects(self, target):
        return attribute.objects(self.cluster.drives(target))

    def patch_limits(self, target, **limits):
        answer = call(self.cluster, target, "PATCH", "/v1/internal/rebalance", limits)
        assert answer.status == 200, answer
        return answer.json()


@pytest.fixture
def pair(make_cluster):
    return Pair(make_cluster(targets=2, drives=2))


def store_varied(cluster, bucket="data"):
    """Objects of many sizes, of which one was overwritten, some have metadata, and one is deleted again. {name: body}"""
    bodies = {f"dir{i % 3}/n-{i}": os.urandom(size) for i, size in enumerate([0, 1, 100, 4096, 70_000] * 8)}
    bodies |= {"just one block": os.urandom(MIB), "one and a bit": os.urandom(MIB + 1), "large": os.urandom(5 * MIB + 77)}
    for name, body in bodies.items():
        assert cluster.put(bucket, name, body, headers={"Ais-Custom-Md": f"was={len(body)}"}).status == 200
    for name in ("large", "dir1/n-1"):
        bodies[name] += b"again"
        assert cluster.put(bucket, name, bodies[name]).status == 200
    patch = json.dumps({"value": {"color": "red", "weight": "3 kg"}}).encode()
    assert client.request("PATCH", cluster.url(bucket, "large"), patch, JSON).status == 200
    return bodies


def facts(cluster, name, bucket="data"):
    """All that a HEAD tells of the object itself."""
    told = {key.lower(): value for key, value in cluster.head(bucket, name).headers.items()}
    return {key: value for key, value in told.items() if key not in ("date", "tarn-request", "connection", "ais-location", "ais-mirror-paths")}


def moves_by_itself(cluster, enabled):
    answer = client.request("PUT", f"{cluster.endpoint}/v1/cluster/set-config?rebalance.enabled={enabled}", b"", expect=False)
    assert answer.status == 200, answer


def offer(pair, target, names, version, caller, generation=NEWEST, kind=1):
    """The names that `target` would take, of those offered in bucket "data"."""
    (bucket,) = {said["bucket_id"] for node in ("t1", "t2") for said in pair.objects(node).values()}
    body = {"bucket": bucket, "bmd": 1, "map": version,
            "names": [{"name": name, "kind": kind, "generation": list(generation)} for name in names]}
    answer = call(pair.cluster, target, "POST", "/v1/internal/move/offer", body, caller)
    assert answer.status == 200, answer
    return [names[index] for index in answer.json()["wanted"]]


def test_objects_move_with_all_that_belongs_to_them(pair):
    """Objects move there and back: bytes, generations, versions, times, checksums and metadata stay, and each lies in one place."""
    cluster = pair.cluster
    bodies = store_varied(cluster)
    assert cluster.delete("data", "dir2/n-2").status == 200
    del bodies["dir2/n-2"]
    told = {name: facts(cluster, name) for name in bodies}
    before = {target: pair.objects(target) for target in ("t1", "t2")}
    assert all(len(found) > 3 for found in before.values()), "too few names on a target to show anything"
    everything = before["t1"] | before["t2"]
    assert everything.keys() == bodies.keys()

    version = pair.everything_to("t2")
    assert pair.objects("t1") == {} and pair.objects("t2") == everything
    ended = wait_until(lambda: pair.ended("t1", version), 10, "the walk has ended")
    assert ended["clean"] == "true" and int(ended["objects"]) == len(before["t1"])
    assert int(ended["bytes"]) == sum(said["size"] for said in before["t1"].values())
    assert pair.ended("t2", version) is None, "it had nothing to give away"
    assert sorted(cluster.names("data")) == sorted(bodies)

    pair.everything_to("t1")
    assert pair.objects("t1") == everything and pair.objects("t2") == {}
    pair.everything_to("t1", "t2")
    assert {target: pair.objects(target) for target in ("t1", "t2")} == before
    for name, body in bodies.items():
        assert cluster.get("data", name).body == body
        assert facts(cluster, name) == told[name]
    # The delete went along: no target takes an older version. It is the newest change but one of this bucket.
    assert cluster.get("data", "dir2/n-2", follow=True).status == 404
    owner = cluster.owner("data", "dir2/n-2")
    sender = cluster.nodes["t1" if owner == "t2" else "t2"]["id"]
    incarnation = min(said["generation"][1] for said in before[owner].values())
    now = stored_map(cluster)["version"]
    assert offer(pair, owner, ["dir2/n-2"], now, sender, generation=(1, incarnation, 1)) == []
    assert offer(pair, owner, ["dir2/n-2"], now, sender) == ["dir2/n-2"]
    # All of it is on the drives.
    cluster.kill("t1", "t2")
    cluster.start("t1", "t2")
    wait_until_in_place(cluster)
    assert {target: pair.objects(target) for target in ("t1", "t2")} == before
    for name, body in bodies.items():
        assert cluster.get("data", name).body == body


def test_what_is_newer_at_the_receiver_stays(pair):
    """A PUT and a DELETE while an older copy is on its way; and limits are obeyed, also when they change meanwhile."""
    cluster = pair.cluster
    names = cluster.names_owned_by("t1", "data", 3)
    for name in names:
        assert cluster.put("data", name, os.urandom(3 * MIB)).status == 200
    kept = cluster.get("data", names[2]).body
    pair.everything_to("t2")
    assert pair.patch_limits("t2", bandwidth=MIB // 8, workers=2) == {"bandwidth": MIB // 8, "workers": 2}
    give_names_to(cluster, "t1", "t2")
    wait_until(lambda: pair.copies_begun("t1"), 20, "a copy is on its way")
    assert cluster.put("data", names[0], b"newer").status == 200
    assert cluster.put("data", names[1], b"newer, too").status == 200
    assert cluster.delete("data", names[1]).status == 200
    # What is older than a write here may have been given up by now; the rest cannot be through.
    assert names[2] in pair.objects("t2"), "3 MiB of 9 at 1/8 MiB/s"
    assert pair.patch_limits("t2", bandwidth=0) == {"bandwidth": 0, "workers": 2}
    wait_until_in_place(cluster)
    assert pair.objects("t2") == {}
    assert cluster.get("data", names[0]).body == b"newer"
    assert cluster.get("data", names[1]).status == 404
    assert cluster.get("data", names[2]).body == kept
    assert pair.objects("t1").keys() == {names[0], names[2]}


def test_as_many_move_at_a_time_as_workers_are_allowed_now(make_cluster):
    """One, then four, then one again, in the middle of a walk."""
    cluster = make_cluster(targets=2, drives=1)
    pair = Pair(cluster)
    names = cluster.names_owned_by("t1", "data", 60)
    for name in names:
        assert cluster.put("data", name, os.urandom(MIB)).status == 200
    pair.patch_limits("t1", bandwidth=2 * MIB, workers=1)
    give_names_to(cluster, "t2")
    seen = []

    def look():
        seen.append(pair.under_way("t2"))
        return seen[-1]

    def moved():
        return len(pair.copies_begun("t2")) - look()

    wait_until(lambda: moved() >= 3, 20, "three have moved, one after the other")
    assert max(seen) == 1
    assert pair.patch_limits("t1", workers=4)["workers"] == 4
    wait_until(lambda: look() == 4, 5, "four move at a time")
    before = moved()
    wait_until(lambda: moved() >= before + 4, 20, "four more have moved")
    assert max(seen) == 4
    assert pair.patch_limits("t1", workers=1)["workers"] == 1

    def one_at_a_time():
        """Two more have moved, one after the other. A worker that had begun another one before it heard ends that first."""
        seen.clear()
        before = moved()
        wait_until(lambda: moved() >= before + 2, 20, "two more have moved")
        return max(seen) == 1

    wait_until(one_at_a_time, 20, "those that had begun have ended")
    pair.patch_limits("t1", bandwidth=0, workers=0)
    wait_until_in_place(cluster)
    assert pair.objects("t1") == {} and len(pair.objects("t2")) == len(names)


def test_what_is_written_at_the_sender_meanwhile_moves_too(pair):
    """A write begins under the older map and ends while its name is on its way. It is not erased with the version that was
    sent, and follows it."""
    cluster = pair.cluster
    names = cluster.names_owned_by("t1", "data", 2)
    for name in names:
        assert cluster.put("data", name, os.urandom(3 * MIB)).status == 200
    pair.patch_limits("t1", bandwidth=MIB, workers=1)
    slow = []
    for name in names:
        body = f"newer {name}".encode()
        target = cluster.put("data", name, body, follow=False).headers["Location"]
        connection = client.RawConnection(target)
        connection.send_head("PUT", client.target_of(target), {"Content-Length": str(len(body))})
        connection.send(body[:-1])
        slow.append((connection, body))
    wait_until(lambda: len(pair.copies_begun("t1")) == 4, 10, "the writes have begun")
    give_names_to(cluster, "t2")
    wait_until(lambda: pair.copies_begun("t2"), 20, "a copy is on its way")
    for connection, body in slow:
        connection.send(body[-1:])
        assert connection.read_response("PUT").status == 200
        connection.close()
    pair.patch_limits("t1", bandwidth=0)
    wait_until_in_place(cluster)
    assert pair.objects("t1") == {} and pair.objects("t2").keys() == set(names)
    for name in names:
        assert cluster.get("data", name).body == f"newer {name}".encode()


def job_unless_too_early(cluster, node):
    try:
        return Job(cluster, node, "rebalance", "by hand").end()
    except AssertionError as refused:
        if "is not in force everywhere yet" not in str(refused):
            raise
        return None


def test_walks_take_turns_and_end_when_a_newer_map_comes(pair):
    """One walk at a time; a newer map ends a rebalance, and what that left goes by the newer one."""
    cluster = pair.cluster
    names = cluster.names_owned_by("t1", "data", 4)
    for name in names:
        assert cluster.put("data", name, os.urandom(2 * MIB)).status == 200
    pair.patch_limits("t1", bandwidth=MIB // 4)  # half a minute of work, in the middle of which all else happens
    away = give_names_to(cluster, "t2")
    wait_until(lambda: pair.copies_begun("t2"), 20, "a copy is on its way")
    for kind, says in (("rebalance", f"a rebalance by map {away} runs here already"), ("resilver", "a rebalance runs here")):
        refused = Job(cluster, "t1", kind, f"{kind} by hand").end()
        assert not refused["clean"] and says in refused["error"], refused
    give_names_to(cluster, "t1", "t2")
    wait_until_in_place(cluster)
    wait_until(lambda: pair.ended("t1", away), 10, "the older walk has ended")
    ended = cluster.logs["t1"].matching(f"rebalance ended map={away} ")
    assert len(ended) == 1 and "clean=false" in ended[0] and "newer map" in ended[0], ended
    assert pair.objects("t1").keys() == set(names) and pair.objects("t2") == {}
    # What the moves left behind is forgotten by a map of its own, which has to be in force first.
    again = wait_until(lambda: job_unless_too_early(cluster, "t2"), 10, "the map is in force")
    assert again["clean"] and again["objects"] == 0 and again["error"] == ""


def test_a_copy_is_taken_only_whole_and_from_whom_the_map_knows(make_cluster):
    cluster = make_cluster(targets=2, drives=1)
    pair = Pair(cluster)
    first, name = sorted(cluster.names_owned_by("t1", "data", 2))
    body = b"seven and twenty bytes long"
    # At a byte a second this one goes, and then no other for a day.
    assert cluster.put("data", first, bytes(100_000)).status == 200
    assert cluster.put("data", name, body).status == 200
    (raw,) = [raw for raw in attribute.data_files(cluster.drives("t1")).values() if attribute.decode(raw)["name"] == name]
    t1, t2 = (cluster.nodes[node]["id"] for node in ("t1", "t2"))
    pair.patch_limits("t1", bandwidth=1, workers=1)
    now = give_names_to(cluster, "t2")
    wait_until(lambda: pair.objects("t2").keys() == {first} and pair.objects("t1").keys() == {name}, 20, "the first has gone")

    def send(caller=t1, version=now, block=body, checksum=None, extra=b"", to="t2"):
        blocks = struct.pack("<I", crc32c(body) if checksum is None else checksum) + block
        return call(cluster, to, "PUT", f"/v1/internal/move/copy?map={version}&bmd=1",
                    struct.pack("<I", len(raw)) + raw + blocks + extra, caller)

    assert send(version=now + 1).status == 503
    for refused in (send(version=now - 1), send(caller="t9"), send(caller="test"), send(caller=t2, to="t1")):
        assert refused.status == 409 and "does not take a copy" in refused.text, refused
    wrong_block = body.replace(b"seven", b"eight")
    for broken in (send(checksum=1), send(block=wrong_block), send(block=wrong_block, checksum=crc32c(wrong_block)),
                   send(block=body[:-1]), send(extra=b"x")):
        assert broken.status == 400, broken
    assert pair.objects("t2").keys() == {first}
    assert send().json() == {"stored": True}
    assert send().json() == {"stored": False}, "once more is as good as once"
    assert pair.objects("t2")[name] == pair.objects("t1")[name]
    pair.patch_limits("t1", bandwidth=0)
    wait_until_in_place(cluster)
    assert pair.objects("t2").keys() == {first, name} and pair.objects("t1") == {}
    wait_until(lambda: len(pair.copies_begun("t2")) == 2, 5, "nothing is left of copies that were refused")


def test_a_flipped_bit_does_not_travel(pair):
    cluster = pair.cluster
    cluster.expect_errors("does not match its checksum")
    names = cluster.names_owned_by("t1", "data", 4)
    for name in names:
        assert cluster.put("data", name, os.urandom(MIB + 5000)).status == 200
    victim = next(path for path, said in attribute.decoded(cluster.drives("t1")).items() if said["name"] == names[1])
    with open(victim, "r+b") as file:
        file.seek(MIB + 100)
        (byte,) = file.read(1)
        file.seek(MIB + 100)
        file.write(bytes([byte ^ 1]))
    version = give_names_to(cluster, "t2")
    wait_until(lambda: pair.ended("t1", version), 20, "the walk has ended")
    (said, *_) = cluster.logs["t1"].matching(rf"rebalance ended map={version} ")
    assert "clean=false" in said and "1 names could not be moved" in said and "checksum" in said, said
    assert pair.objects("t1").keys() == {names[1]}
    assert pair.objects("t2").keys() == set(names) - {names[1]}
    assert stored_map(cluster)["past"], "t1 is asked for what it could not give away"


def test_a_drive_that_came_gets_what_belongs_there(make_cluster):
    """Resilver: half of the objects go to the second drive, all stay readable, and look-ups visit one drive again."""
    cluster = make_cluster(targets=1, drives=1, settings={"resilver.enabled": "false"})
    bodies = store_varied(cluster)
    assert cluster.delete("data", "dir2/n-2").status == 200
    del bodies["dir2/n-2"]
    told = {name: facts(cluster, name) for name in bodies}
    before = attribute.objects(cluster.drives("t1"))
    cluster.kill("t1")
    drives = cluster.add_drive("t1")
    cluster.start("t1")
    wait_until(lambda: cluster.list_page("data").status == 200, 10, "a list is answered")

    end = Job(cluster, "t1", "resilver", "r1").end()
    assert end["clean"] and end["error"] == "" and end["kind"] == "resilver", end
    here, there = (attribute.objects([drive]) for drive in drives)
    assert len(here) > 3 and len(there) > 3 and here | there == before, "each in one place, unchanged"
    assert end["objects"] == len(there) and end["bytes"] == sum(said["size"] for said in there.values())
    assert len(cluster.logs["t1"].matching("mark of misplaced objects cleared")) == 2
    for name, body in bodies.items():
        assert cluster.get("data", name).body == body
        assert facts(cluster, name) == told[name]
    assert cluster.get("data", "dir2/n-2").status == 404
    again = Job(cluster, "t1", "resilver", "r2").end()
    assert again["clean"] and again["objects"] == 0

    cluster.kill("t1")
    cluster.start("t1")
    opened = [line for line in cluster.logs["t1"].lines() if re.search(r"mark of misplaced objects", line)]
    assert len(opened) == 2, "the mark did not come back with the restart"
    assert Job(cluster, "t1", "resilver", "r3").end()["clean"]
    assert len(cluster.logs["t1"].matching("mark of misplaced objects cleared")) == 2, "it was clear"
    for name, body in bodies.items():
        assert cluster.get("data", name).body == body


def test_a_mirrored_object_moves_once_and_is_mirrored_again(pair):
    cluster = pair.cluster
    cluster.create_bucket("twice", {"mirror": {"enabled": True}})
    bodies = store_varied(cluster, "twice")
    assert cluster.delete("twice", "dir2/n-2").status == 200
    del bodies["dir2/n-2"]

    def on_drives(target):
        """What lies on each drive of a target."""
        return [attribute.objects([drive]) for drive in cluster.drives(target)]

    before = {target: on_drives(target) for target in ("t1", "t2")}
    assert all(first == second and len(first) > 3 for first, second in before.values()), "copies on both drives"
    ours = before["t1"][0]
    everything = ours | before["t2"][0]
    assert everything.keys() == bodies.keys()
    version = pair.everything_to("t2")
    ended = wait_until(lambda: pair.ended("t1", version), 10, "the walk has ended")
    assert ended["clean"] == "true" and int(ended["objects"]) == len(ours), "each moved once"
    assert int(ended["bytes"]) == sum(said["size"] for said in ours.values())
    assert on_drives("t1") == [{}, {}] and on_drives("t2") == [everything, everything]
    end = Job(cluster, "t2", "resilver", "r1").end()
    assert end["clean"] and end["objects"] == 0 and end["deleted"] == 0, end
    assert on_drives("t2") == [everything, everything], "they stay where the mirror put them"
    pair.everything_to("t1")
    assert on_drives("t2") == [{}, {}] and on_drives("t1") == [everything, everything]
    pair.everything_to("t1", "t2")
    assert {target: on_drives(target) for target in ("t1", "t2")} == before
    for name, body in bodies.items():
        assert cluster.get("twice", name).body == body


@pytest.mark.parametrize("props", [None, {"mirror": {"enabled": True}}], ids=["single", "mirrored"])
def test_what_has_not_come_to_its_owner_is_changed_and_copied_all_the_same(make_cluster, props):
    cluster = make_cluster(targets=2, drives=2)
    cluster.create_bucket("some", props)
    names = cluster.names_owned_by("t2", "some", 6)
    bodies = {name: os.urandom(size) for name, size in zip(names, (3 * MIB + 5, 70_000, 2 * MIB, 0, 1, MIB), strict=True)}
    cluster.fill("some", bodies, headers={"Ais-Custom-Md": "was=here"})
    wait_until_in_place(cluster)
    moves_by_itself(cluster, "false")
    give_names_to(cluster, "t1")
    wait_until(lambda: cluster.owner("some", names[0]) == "t1", 5, "t1 owns the names")
    patched, appended, copied, renamed, away, untouched = names

    def request(method, name, query="", body=b""):
        return client.request(method, cluster.url("some", name) + query, body, JSON, expect=False)

    def there(node):
        return {said["name"] for said in attribute.decoded(cluster.drives(node)).values()}

    assert there("t1") == set() and there("t2") == set(names)
    metadata = json.dumps({"value": {"colour": "red"}}).encode()
    answer = request("PATCH", patched, body=metadata)
    assert answer.status == 200, answer
    assert custom_of(cluster.head("some", patched)) == {"was": "here", "colour": "red"}
    tail = os.urandom(MIB + 1)
    handle = handle_of(append(cluster, "some", appended, tail))
    assert flush(cluster, "some", appended, handle).status == 200
    bodies[appended] += tail
    answer = request("PUT", copied, "&object_to=ais/@%23/some/the%20copy")
    assert answer.status == 200, answer
    bodies["the copy"] = bodies[copied]
    answer = request("POST", renamed, body=json.dumps({"action": "rename-obj", "name": "renamed"}).encode())
    assert answer.status == 200, answer
    bodies["renamed"] = bodies.pop(renamed)
    # As long as no target can send it, it is not known to be gone.
    cluster.kill("t2")
    for method, body in (("PATCH", metadata), ("POST", json.dumps({"action": "rename-obj", "name": "x"}).encode())):
        answer = request(method, away, body=body)
        assert answer.status == 503 and answer.headers["Retry-After"], answer
    cluster.start("t2")
    wait_until(lambda: request("PATCH", away, body=metadata).status == 200, 10, "t2 gives it")

    def check():
        assert cluster.names("some") == sorted(bodies)
        for name, body in bodies.items():
            assert cluster.get("some", name).body == body, name
        assert cluster.get("some", renamed).status == 404
        for name in (patched, away):
            assert custom_of(cluster.head("some", name)) == {"was": "here", "colour": "red"}
        assert custom_of(cluster.head("some", "the copy")) == {"was": "here"}

    assert untouched not in there("t1")
    check()
    moves_by_itself(cluster, "true")
    wait_until_in_place(cluster)
    assert there("t2") == set()
    check()
