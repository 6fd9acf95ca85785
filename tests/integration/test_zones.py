"""Zones of targets (docs/decisions/024): where copies and slices lie, who may join, and how a running cluster is given zones."""

import collections
import json
import subprocess
import threading

import pytest
from harness import attribute, client
from harness.cli import Cli
from harness.cluster import PROGRAMS
from harness.coded import props
from harness.nodes import stored, stored_map, wait_until_in_place
from harness.waiting import guarded, wait_until

ON_NODES = {"mirror": {"enabled": True, "copies": 2, "domain": "node"}}
SIZE = 70_000


def zones_of(cluster):
    """{target: zone} as the cluster map has it."""
    said = cluster.smap()["tmap"]
    names = {node["id"]: name for name, node in cluster.nodes.items()}
    return {names[each]: node.get("zone", "") for each, node in said.items()}


def files_of(cluster, bucket):
    """{name: {target: inode of its file}}, of copies on nodes."""
    found = {}
    for target in cluster.targets():
        for path, said in attribute.decoded(cluster.drives(target)).items():
            if said["bucket"] == bucket:
                found.setdefault(said["name"], {})[target] = path.stat().st_ino
    return found


def slices_by_zone(cluster, zones, records=False):
    """{name: {zone: slices, or records}} of a coded bucket."""
    found = {}
    for target in cluster.targets():
        drives = cluster.drives(target)
        names = attribute.objects(drives, "cut") if records else [said["name"] for _, said in attribute.slices(drives)]
        for name in names:
            found.setdefault(name, collections.Counter())[zones[target]] += 1
    return found


def refused(cluster, name, zone):
    """What a new target says that is started with these words in the cluster, and does not join."""
    words = list(json.loads((cluster.directory / "cluster.json").read_text())["nodes"][1]["arguments"])
    folder = cluster.directory / name
    (folder / "d1").mkdir(parents=True)
    join, secret = (words[words.index(option) + 1] for option in ("--join", "--secret-file"))
    result = subprocess.run([PROGRAMS / "tarn-target", "--dir", folder, "--drive", folder / "d1", "--listen", "127.0.0.1:0", "--internal",
                             "127.0.0.1:0", "--join", join, "--secret-file", secret, *(["--zone", zone] if zone is not None else [])],
                            capture_output=True, text=True, timeout=guarded(60))
    assert result.returncode != 0, result
    return result


def without_zone(cluster, name):
    """Takes --zone off the command line of a node, from its next start on."""
    file = cluster.directory / "cluster.json"
    made = json.loads(file.read_text())
    (node,) = [node for node in made["nodes"] if node["name"] == name]
    at = node["arguments"].index("--zone")
    del node["arguments"][at:at + 2]
    file.write_text(json.dumps(made))


def restart(cluster, name):
    cluster.kill(name)
    cluster.start(name)


def test_copies_slices_and_records_lie_in_all_zones(make_cluster, rng):
    cluster = make_cluster(targets=6, drives=1, zones=3)
    zones = zones_of(cluster)
    assert zones == {"t1": "z1", "t2": "z2", "t3": "z3", "t4": "z1", "t5": "z2", "t6": "z3"}
    assert stored(cluster, "/tarn/schema")[0] == "3"
    cluster.create_bucket("two", ON_NODES)
    made = cluster.bucket_action("POST", "cut", "create-bck", props("striped", 4, 2))
    assert made.status == 200 and made.headers["Tarn-Survives"] == "drives=2, nodes=2, zones=1", made
    wait_until_in_place(cluster)
    cluster.fill("two", 24, SIZE, rng, durable=True)
    names = cluster.fill("cut", 12, SIZE, rng, durable=True)
    wait_until(lambda: all(len(replicas) == 2 for replicas in files_of(cluster, "two").values()), 60, "both copies are there")
    for name, replicas in files_of(cluster, "two").items():
        assert len({zones[target] for target in replicas}) == 2, (name, replicas)
        assert cluster.owner("two", name) in replicas, "the owner is the first by the hash, zones or not"
    slices = slices_by_zone(cluster, zones)
    assert slices == {name: {"z1": 2, "z2": 2, "z3": 2} for name in names}
    assert slices_by_zone(cluster, zones, records=True) == {name: {"z1": 1, "z2": 1, "z3": 1} for name in names}
    for bucket, survives in (("two", (1, 1, 1)), ("cut", (2, 2, 1))):
        said = cluster.redundancy(bucket)
        assert tuple(said[f"survives_{what}"] for what in ("drives", "nodes", "zones")) == survives, said


def test_with_fewer_slices_than_targets_each_zone_has_as_many(make_cluster, rng):
    """Without zones, most objects would have two of three slices in one."""
    cluster = make_cluster(targets=6, drives=1, zones=3)
    zones = zones_of(cluster)
    cluster.create_bucket("cut", props("striped", 2, 1))
    wait_until_in_place(cluster)
    names = cluster.fill("cut", 16, SIZE, rng, durable=True)
    assert slices_by_zone(cluster, zones) == {name: {"z1": 1, "z2": 1, "z3": 1} for name in names}
    assert cluster.redundancy("cut")["survives_zones"] == 1
    cli = Cli(cluster.endpoint)
    assert b"1 drive, 1 node, 1 zone" in cli.ok("redundancy", "cut")
    head = [line for line in cli.ok("node", "ls").decode().splitlines() if line.startswith("NODE")]
    assert head and head[0].split()[:4] == ["NODE", "ROLE", "ZONE", "STATE"], head
    shown = {node["id"]: node["zone"] for node in json.loads(cli.ok("node", "ls", "--json"))["nodes"] if node["role"] == "target"}
    assert shown == {cluster.nodes[target]["id"]: zone for target, zone in zones.items()}
    made = cli.ok("bucket", "create", "more", "--ec", "2+1", "--layout", "striped")
    assert made == b"more: survives the loss of any drive, of any target, of any zone\n"


@pytest.mark.parametrize("zone, says", [
    (None, "has no zone, and all other targets have one: start it with --zone NAME"),
    ("", "has no zone, and all other targets have one"),
    ("rack 1", "--zone: 'rack 1' is not the name of a zone: 1 to 63 letters"),
    ("z" * 64, "is not the name of a zone"),
])
def test_a_target_without_a_zone_may_not_join_targets_with_zones(make_cluster, zone, says):
    cluster = make_cluster(targets=2, drives=1, zones=2)
    wait_until_in_place(cluster)  # a new cluster publishes maps for a moment
    before = stored_map(cluster)["version"]
    result = refused(cluster, "t9", zone)
    assert says in result.stdout + result.stderr, result
    assert stored_map(cluster)["version"] == before, "nothing moves"


def test_a_running_cluster_is_given_zones_and_moves_its_data_once(make_cluster, rng):
    """Target by target, each killed and started with its zone. Reads go on, and find what was stored."""
    cluster = make_cluster(targets=4, drives=1)
    cluster.create_bucket("two", ON_NODES)
    wait_until_in_place(cluster)
    bodies = cluster.fill("two", 40, SIZE, rng, durable=True)
    wait_until(lambda: all(len(replicas) == 2 for replicas in files_of(cluster, "two").values()), 60, "both copies are there")
    assert "survives_zones" not in cluster.redundancy("two")
    placed, owners = files_of(cluster, "two"), {name: cluster.owner("two", name) for name in bodies}
    ends, wrong, reads = threading.Event(), [], [0]

    def read_on():
        while not ends.is_set():
            for name, body in bodies.items():
                try:
                    answer = cluster.get("two", name)
                except (OSError, client.ProtocolError):  # its target was killed just now
                    continue
                if answer.status not in (200, 503) or (answer.status == 200 and answer.body != body):
                    wrong.append((name, answer))
                reads[0] += answer.status == 200

    reader = threading.Thread(target=read_on)
    reader.start()
    try:
        for target, zone in (("t1", "a"), ("t2", "a"), ("t3", "b")):
            cluster.add_arguments(target, "--zone", zone)
            restart(cluster, target)
            wait_until_in_place(cluster, 60)
            wait_until(lambda: zones_of(cluster)[target] == zone, 10, "the proxy knows its zone")
            assert files_of(cluster, "two") == placed, f"{target} has a zone, and others have none: nothing moves"
        cluster.add_arguments("t4", "--zone", "b")
        restart(cluster, "t4")
        zones = {"t1": "a", "t2": "a", "t3": "b", "t4": "b"}
        wait_until(lambda: zones_of(cluster) == zones, 60, "all have a zone")
        wait_until_in_place(cluster, 60)
        wait_until(lambda: wrong or reads[0] > len(bodies), 60, "enough is read meanwhile")
    finally:
        ends.set()
        reader.join()
    assert wrong == [] and reads[0] > len(bodies), (wrong[:3], reads)
    moved = files_of(cluster, "two")
    for name, replicas in moved.items():
        assert sorted(zones[target] for target in replicas) == ["a", "b"], (name, replicas)
        kept = placed[name].keys() & replicas.keys()
        assert owners[name] in kept and cluster.owner("two", name) == owners[name]
        assert all(placed[name][target] == replicas[target] for target in kept), "what stays is not written again"
        together = len({zones[target] for target in placed[name]}) == 1
        assert len(kept) == (1 if together else 2), "only what was together in one zone moves"
    assert any(len(placed[name].keys() & replicas.keys()) == 1 for name, replicas in moved.items()), "something moved"
    assert cluster.redundancy("two")["survives_zones"] == 1
    # A start without --zone is no change.
    without_zone(cluster, "t3")
    restart(cluster, "t3")
    wait_until_in_place(cluster, 60)
    assert zones_of(cluster) == zones and files_of(cluster, "two") == moved
    assert {name: cluster.get("two", name).body for name in bodies} == bodies
