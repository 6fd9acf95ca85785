"""Everything at once, on coded objects: kills, pauses, partitions, bad networks, joins and drains by a seeded schedule. Clients
write, read, delete and list meanwhile. At the end each object has each of its slices once, and no other slices are left.

TARN_TEST_SECONDS says for how long."""

import os
import random

from harness import attribute
from harness.coded import FULL_COPY, props, slices
from harness.waiting import wait_until
from load import Crowd
from nemesis import Nemesis
from workload import ERRORS, Work, judge

SECONDS = float(os.environ.get("TARN_TEST_SECONDS") or 10)
NAMES = [f"k-{i:04}" for i in range(24)]


def named(cluster):
    """{name: {(set, slice): [target]}} as the newest records have it."""
    ids = {node["id"]: name for name, node in cluster.nodes.items()}
    newest = {}
    for target in cluster.targets():
        for name, said in attribute.objects(cluster.drives(target), "coded").items():
            if name not in newest or newest[name]["generation"] < said["generation"]:
                newest[name] = said
    codings = {name: said["coding"] for name, said in newest.items() if said.get("coding")}
    return {name: {(coding["set"], i): [ids[holder]] for i, holder in [*enumerate(coding["holders"]), (FULL_COPY, coding["whole"])] if holder}
            for name, coding in codings.items()}


def wait_tidy(cluster, wanted, seconds=150):
    """Until what records name is there, and nothing else."""
    seen = []

    def tidy():
        try:
            seen[:] = [named(cluster), slices(cluster)]
        except (OSError, AssertionError, KeyError):  # a file goes while it is looked at
            return False
        return seen[0] == seen[1]

    try:
        wait_until(tidy, seconds, "there is what records name, and nothing else", every=0.5)
    except AssertionError:
        wrong = {name: (seen[0].get(name), seen[1].get(name)) for name in {*seen[0], *seen[1]} if seen[0].get(name) != seen[1].get(name)}
        raise AssertionError(f"(named, there): {wrong}") from None
    assert all(len(of_name) == wanted for of_name in seen[0].values()), seen[0]
    return len(seen[0])


def test_nothing_coded_is_lost_whatever_happens(make_site, seed):
    site = make_site(machines=6, targets=6)
    cluster = site.cluster
    cluster.expect_errors(ERRORS)
    cluster.expect_errors(r" error (drive|repair) ")
    rng = random.Random(seed)
    layout = rng.choice(("striped", "whole"))
    print(f"layout {layout}")
    cluster.create_bucket("coded", props(layout))
    nemesis = Nemesis(site, rng, log=lambda text: print(text, flush=True))
    crowd = Crowd(site.clients(6, name="coded-"), Work(seed, NAMES, "coded"))
    crowd.start()
    try:
        nemesis.run(SECONDS)
    finally:
        crowd.stop()
    print("injected:", dict(nemesis.injected), "detected:", dict(nemesis.detected))
    site.wait_quiet()
    verdict = judge(site, NAMES, "coded", 2)
    coded = wait_tidy(cluster, 3 + (layout == "whole"))
    print(f"{verdict.objects} objects, {coded} of them coded; tidy")
    assert sum(nemesis.detected.values()) > 0 and coded > 0
