"""The loss of a whole zone at one instant (docs/decisions/024): everything is read, and written, from what is left."""

import pytest
from disks import seeded
from harness import attribute, client
from harness.cluster import process_is_alive
from harness.coded import FULL_COPY, KIB, LIMIT, MIB, props
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until

ZONES = {"z1": ("t1", "t4"), "z2": ("t2", "t5"), "z3": ("t3", "t6")}
ON_NODES = {"mirror": {"enabled": True, "copies": 2, "domain": "node"}}
SIZES = (0, 100, LIMIT + 1, 70 * KIB, 300 * KIB, MIB + 7)
# What a target that was killed lets others say.
ZONE_DOWN = r" (error|warn) (target|http|mirror|rebuild|copies|cluster|proxy) "


def call(method, url, body=None):
    """The answer; none when the target to which a proxy sends us was killed just now."""
    try:
        return client.request(method, url, body, expect=False, timeout=60)
    except OSError:
        return None


def read(cluster, bucket, name, body):
    """False: not yet. What is wrong, or said not to be there, fails at once."""
    answer = call("GET", cluster.url(bucket, name))
    if answer is None:
        return False
    assert answer.status in (200, 503), f"{bucket}/{name}: {answer}"
    assert answer.status == 503 or answer.body == body, f"{bucket}/{name} is another version"
    return answer.status == 200


def read_all(cluster, wanted):
    for (bucket, name), body in wanted.items():
        wait_until(lambda b=bucket, n=name, wants=body: read(cluster, b, n, wants), 60, f"{bucket}/{name} is read")


def write(cluster, bucket, name, body):
    answer = call("PUT", cluster.url(bucket, name), body)
    assert answer is None or answer.status in (200, 503), f"{bucket}/{name}: {answer}"
    return answer is not None and answer.status == 200


def zones_with_slices(cluster, zones):
    """{name: [zone of each slice]} of the coded bucket."""
    found = {}
    for zone, targets in zones.items():
        for target in targets:
            for _, said in attribute.slices(cluster.drives(target)):
                if said["slice"]["index"] != FULL_COPY:
                    found.setdefault(said["name"], []).append(zone)
    return found


@pytest.mark.parametrize("layout", [pytest.param("striped", marks=pytest.mark.gate("N1 of a zone")), "whole"])
def test_a_zone_dies_at_once_and_reads_and_writes_go_on(make_stage, seed, layout):
    rng = seeded(seed, "zones", layout)
    stage = make_stage(targets=6, drives=2, zones=3)
    cluster = stage.cluster
    cluster.expect_errors(ZONE_DOWN)
    cluster.create_bucket("two", ON_NODES)
    cluster.create_bucket("cut", props(layout, 4, 2))
    wait_until_in_place(cluster)
    wanted = {(bucket, f"n-{i}"): rng.randbytes(SIZES[i % len(SIZES)]) for bucket in ("two", "cut") for i in range(18)}
    for (bucket, name), body in wanted.items():
        answer = cluster.put(bucket, name, body)
        assert answer.status == 200 and "Tarn-Durability" not in answer.headers, answer
    for name, zones in zones_with_slices(cluster, ZONES).items():
        most = max(zones.count(zone) for zone in ZONES)
        assert most == 2 or layout == "whole", (name, zones)
    for bucket in ("two", "cut"):
        wait_until(lambda b=bucket: (said := cluster.redundancy(b))["survives_zones"] == 1 and said["reduced"] == 0, 60,
                   f"{bucket} survives a zone")

    zone = rng.choice(sorted(ZONES))
    dead = ZONES[zone]
    owned = sum(cluster.owner(bucket, name) in dead for bucket, name in wanted)
    held = {name for name, zones in zones_with_slices(cluster, ZONES).items() if zone in zones}
    pids = [cluster.pid(target) for target in dead]
    stage.kill(*dead)
    assert not any(process_is_alive(pid) for pid in pids), "both targets of the zone are dead"
    assert held, "the zone held slices"
    read_all(cluster, wanted)
    absent = call("GET", cluster.url("cut", "never-written"))
    assert absent is None or absent.status in (404, 503), absent
    for bucket in ("two", "cut"):  # new names, and overwrites
        for name in ("new-1", "new-2", "n-3", "n-4", "n-5"):
            wanted[bucket, name] = rng.randbytes(200 * KIB)
            wait_until(lambda b=bucket, n=name: write(cluster, b, n, wanted[b, n]), 60, f"{bucket}/{name} is written")
    read_all(cluster, wanted)
    for bucket in ("two", "cut"):
        names = sorted(name for its, name in wanted if its == bucket)
        wait_until(lambda b=bucket: cluster.list_page(b).status == 200, 60, "a list is answered")
        assert sorted(cluster.names(bucket)) == names

    stage.start(*dead)
    wait_until_in_place(cluster, 60)
    for bucket in ("two", "cut"):
        wait_until(lambda b=bucket: (said := cluster.redundancy(b))["survives_zones"] == 1 and said["reduced"] == 0 and said["complete"],
                   120, f"{bucket} survives a zone again")
    read_all(cluster, wanted)
    print(f"injected: zone {zone}, {', '.join(dead)}, killed; it owned {owned} of {len(wanted)} objects and held slices of {len(held)}")
