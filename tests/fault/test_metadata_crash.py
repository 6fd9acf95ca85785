"""kill -9 at every step of a PATCH and of a rename: the old or the new, never neither, and no file left over."""

import json
import shutil
import threading
import time
import urllib.parse

import pytest
from disks import seeded
from harness import attribute, client
from harness.waiting import wait_until
from stage import DRIVE_ERRORS

PATCH_POINTS = ("patch.before_attribute", "patch.before_fsync", "patch.before_index", "patch.before_reply")
BODY = bytes(range(256)) * 5000


def patch(cluster, name, value, **options):
    body = json.dumps({"action": "", "name": "", "value": value}).encode()
    return client.request("PATCH", cluster.url("data", name), body, {"Content-Type": "application/json"}, **options)


def custom_of(cluster, name):
    answer = cluster.head("data", name)
    assert answer.status == 200, answer
    return dict(line.split("=", 1) for line in answer.headers.get_all("Ais-Custom-Md") or [])


def lose_indexes(cluster, target):
    for drive in cluster.drives(target):
        shutil.rmtree(drive / ".tarn" / "index")


@pytest.mark.parametrize("point", PATCH_POINTS)
@pytest.mark.gate("A3")
def test_a_killed_patch_leaves_the_old_or_the_new_metadata(make_cluster, point):
    cluster = make_cluster(targets=1, drives=1)
    old, new = {"color": "red", "kept": "yes"}, {"color": "blue", "kept": "yes"}
    assert cluster.put("data", "x", BODY).status == 200
    assert patch(cluster, "x", old).status == 200
    before = cluster.head("data", "x").headers

    cluster.kill("t1")
    cluster.start("t1", fail_points=f"{point}=kill@1")
    with pytest.raises((ConnectionError, client.ProtocolError)):
        patch(cluster, "x", {"color": "blue"})
    cluster.wait_exit("t1")
    cluster.start("t1")
    found = custom_of(cluster, "x")
    print(f"injected: kill at {point}; found: {found}")
    assert found in (old, new)
    if point == "patch.before_attribute":
        assert found == old
    if point in ("patch.before_index", "patch.before_reply"):
        assert found == new, "the attribute was durable: the start has to find it"

    # Metadata that was seen stays, also when the index is made again from the files, and so does the object.
    cluster.kill("t1")
    lose_indexes(cluster, "t1")
    cluster.start("t1")
    assert custom_of(cluster, "x") == found
    answer = cluster.get("data", "x")
    assert answer.body == BODY
    assert answer.headers["ETag"] == before["ETag"] and answer.headers["Ais-Version"] == before["Ais-Version"]
    assert len(attribute.paths(cluster.drives("t1"))) == 1
    # And it can be changed again, and replaced, and deleted.
    assert patch(cluster, "x", {"color": "green"}).status == 200
    assert custom_of(cluster, "x") == old | {"color": "green"}
    assert cluster.put("data", "x", b"y").status == 200
    assert custom_of(cluster, "x") == {}
    assert cluster.delete("data", "x").status == 200
    assert cluster.names("data") == []


def test_acknowledged_metadata_outlives_an_index_that_lost_its_tail(make_cluster, tmp_path):
    """The index is as it was before the PATCH: what was acknowledged since is in the files."""
    cluster = make_cluster(targets=1, drives=1)
    names = [f"n-{i}" for i in range(20)]
    cluster.fill("data", names)
    cluster.kill("t1")
    index = cluster.drives("t1")[0] / ".tarn" / "index"
    shutil.copytree(index, tmp_path / "index")
    cluster.start("t1")
    for name in names[:10]:
        assert patch(cluster, name, {"of": name}).status == 200
    cluster.kill("t1")
    shutil.rmtree(index)
    shutil.copytree(tmp_path / "index", index)
    cluster.start("t1")
    assert [custom_of(cluster, name) for name in names] == [{"of": name} for name in names[:10]] + [{}] * 10
    assert cluster.logs["t1"].matching(r"drive open .* newer_metadata=10\b")
    assert cluster.bodies("data", names) == {name: name.encode() for name in names}


@pytest.mark.parametrize("point", ["nosync.before_sync=sleep:1500", "nosync.before_sync=sleep:1"])
def test_metadata_of_an_object_that_was_not_synced_yet(make_cluster, point):
    """durability: nosync writes the attribute after the acknowledgement: not over a newer one."""
    cluster = make_cluster(targets=1, drives=1, fail_points={"t1": point})
    assert cluster.bucket_action("POST", "quick", "create-bck", {"durability": "nosync"}).status == 200
    names = [f"n-{i}" for i in range(6)]
    body = json.dumps({"action": "", "name": "", "value": {"color": "red"}}).encode()
    for name in names:
        assert cluster.put("quick", name, name.encode() * 5000).status == 200
    for name in names:
        answer = client.request("PATCH", cluster.url("quick", name), body, {"Content-Type": "application/json"})
        assert answer.status == 200, answer
    time.sleep(3)  # every sync is done by now
    cluster.kill("t1")
    lose_indexes(cluster, "t1")
    cluster.start("t1")
    for name in names:
        answer = cluster.get("quick", name)
        assert answer.body == name.encode() * 5000 and answer.headers["Ais-Custom-Md"] == "color=red", name


class Patcher(threading.Thread):
    """Counts up in the metadata of one object until it gets no answer."""

    def __init__(self, cluster, name):
        super().__init__()
        self.cluster, self.name, self.sent, self.acknowledged = cluster, name, 0, 0

    def run(self):
        try:
            while True:
                self.sent += 1
                if patch(self.cluster, self.name, {"n": str(self.sent), "kept": "yes"}, timeout=4).status != 200:
                    return
                self.acknowledged = self.sent
        except (OSError, client.ProtocolError):
            return


def test_acknowledged_metadata_survives_a_power_cut(make_stage, fs, seed):
    """The power of all drives goes in the middle of PATCHes: no count goes back, no object is lost."""
    rng = seeded(seed, "patch", fs)
    stage = make_stage(targets=1, drives=2, fs=fs)
    cluster = stage.cluster
    cluster.expect_errors(DRIVE_ERRORS)
    names = [f"n-{i}" for i in range(8)]
    for name in names:
        assert cluster.put("data", name, name.encode() * 1000).status == 200
    counts = {name: 0 for name in names}
    for _ in range(4):
        patchers = [Patcher(cluster, name) for name in names]
        for patcher in patchers:
            patcher.sent = patcher.acknowledged = counts[patcher.name]
            patcher.start()
        time.sleep(rng.uniform(0.1, 0.6))
        stage.cut_power(rng, stage.disks["t1"], ["t1"])
        for patcher in patchers:
            patcher.join()
        for disk in stage.disks["t1"]:
            disk.remount()
        stage.start("t1")
        for patcher in patchers:
            found = int(custom_of(cluster, patcher.name).get("n", 0))
            assert patcher.acknowledged <= found <= patcher.sent, patcher.name
            assert cluster.get("data", patcher.name).body == patcher.name.encode() * 1000
            counts[patcher.name] = found
    print(f"injected: 4 power cuts; {sum(counts.values())} changes of metadata, none lost")
    assert min(counts.values()) > 0, "the cuts came before anything was acknowledged"


def rename(cluster, name, new_name):
    body = json.dumps({"action": "rename-obj", "name": new_name}).encode()
    return client.request("POST", cluster.url("data", name), body, {"Content-Type": "application/json"})


def copy(cluster, name, new_name):
    """The answer; None when there was none."""
    goal = urllib.parse.quote(f"ais/@#/data/{new_name}")
    try:
        return client.request("PUT", cluster.url("data", name) + f"&object_to={goal}", b"")
    except (OSError, client.ProtocolError):
        return None


def names_here_and_there(cluster):
    """(a name of t1, a name of t2)"""
    return cluster.names_owned_by("t1", "data", 1)[0], cluster.names_owned_by("t2", "data", 1)[0]


def body_of(seed):
    rng = seeded(seed, "body")
    return rng.randbytes(rng.choice((1, 5000, 300_000, 2_000_000)))


def test_a_rename_killed_before_the_delete_leaves_both_names(make_cluster, seed):
    body = body_of(seed)
    cluster = make_cluster(apart=True, targets=2, drives=1)
    source, goal = names_here_and_there(cluster)
    assert cluster.put("data", source, body).status == 200
    assert patch(cluster, source, {"color": "red"}).status == 200
    cluster.kill("t1")
    cluster.start("t1", fail_points="rename.before_delete=kill@1")
    with pytest.raises((ConnectionError, client.ProtocolError)):
        rename(cluster, source, goal)
    cluster.wait_exit("t1")
    cluster.start("t1")
    for name in (source, goal):
        assert cluster.get("data", name).body == body, name
        assert custom_of(cluster, name) == {"color": "red"}
    assert rename(cluster, source, goal).status == 200
    assert cluster.names("data") == [goal]
    assert cluster.get("data", goal).body == body
    assert len(attribute.paths(cluster.all_drives())) == 1


@pytest.mark.parametrize("point", ["put.body", "put.before_attribute", "put.before_index", "put.before_reply"])
def test_a_rename_whose_new_replica_dies_keeps_the_source(make_cluster, point, seed):
    body = body_of(seed)
    cluster = make_cluster(apart=True, targets=2, drives=1)
    source, goal = names_here_and_there(cluster)
    assert cluster.put("data", source, body).status == 200
    cluster.kill("t2")
    cluster.start("t2", fail_points=f"{point}=kill@1")
    answer = rename(cluster, source, goal)
    assert answer.status == 503, answer
    cluster.wait_exit("t2")
    assert cluster.get("data", source).body == body
    cluster.start("t2")
    assert cluster.get("data", source).body == body
    found = cluster.get("data", goal)
    assert found.status == 404 or found.body == body, "half a copy"
    assert rename(cluster, source, goal).status == 200
    assert cluster.names("data") == [goal] and cluster.get("data", goal).body == body


@pytest.mark.parametrize("dies", ["t1", "t2"])
def test_a_copy_whose_target_dies_is_whole_or_not_there(make_cluster, dies, seed):
    """A3: of the object, and of the target that it goes to, at every step; asked again it is the same object."""
    body = body_of(seed)
    cluster = make_cluster(apart=True, targets=2, drives=1)
    source, goal = names_here_and_there(cluster)
    assert cluster.put("data", source, body).status == 200
    etag = cluster.head("data", source).headers["ETag"]
    points = ["put.body", "put.before_attribute", "put.before_index", "put.before_reply"]
    if dies == "t1":  # to a name of its own it writes what it reads
        goal, points = cluster.names_owned_by("t1", "data", 2)[-1], ["put.before_attribute", "put.before_fsync", "put.before_index"]
    hits = 0
    for point in points:
        assert cluster.delete("data", goal).status in (200, 404)
        cluster.kill(dies)
        cluster.start(dies, fail_points=f"{point}=kill@1")
        answer = copy(cluster, source, goal)
        assert answer is None or answer.status == 503, answer
        cluster.wait_exit(dies)
        cluster.start(dies)
        hits += 1
        assert cluster.get("data", source).body == body
        found = cluster.get("data", goal)
        assert found.status == 404 or found.body == body, f"half a copy at {point}"
        assert copy(cluster, source, goal).status == 200
        again = cluster.get("data", goal)
        assert (again.body, again.headers["ETag"]) == (body, etag)
        assert cluster.names("data") == sorted([source, goal])
        wait_until(lambda: len(attribute.paths(cluster.all_drives())) == 2, 10, "nothing else is left")
    print(f"injected: {hits} kills; detected: each copy was whole or not there, and could be made again")


def test_a_restart_ends_appends_with_a_clear_error(make_cluster):
    cluster = make_cluster(targets=1, drives=1)
    assert cluster.put("data", "x", b"old").status == 200

    def append(handle, body, kind="append"):
        url = cluster.url("data", "x") + f"&append_type={kind}&append_handle={urllib.parse.quote(handle)}"
        return client.request("PUT", url, body)

    handle = append("", b" and new").headers["Ais-Append-Handle"]
    cluster.kill("t1")
    cluster.start("t1")
    for kind in ("append", "flush"):
        answer = append(handle, b"", kind)
        assert answer.status == 400 and "begin again with an empty handle" in answer.json()["message"]
    assert cluster.get("data", "x").body == b"old"
    assert len(attribute.paths(cluster.drives("t1"))) == 1, "the unfinished file is gone"
    assert attribute.data_files(cluster.drives("t1"))
