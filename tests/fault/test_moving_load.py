"""Clients go on while names move: targets join, are drained, leave, die in between (docs/reliability.md G1, G2, G3, G6)."""

import random
import re
import time

from copies import ON_NODES, wait_full, wait_settled
from doses import FULL, dose
from harness import attribute
from harness.admin import does
from harness.bulk import put_many
from harness.nodes import stored_map, wait_until_in_place
from harness.waiting import scaled, wait_until
from load import Crowd
from machines import TERM
from workload import ERRORS, Work

OBJECTS = [f"o-{i:06}" for i in range(dose(600, 20_000))]  # of a bucket that no client writes to
NAMES = [f"n-{i:04}" for i in range(40)]
SLOW = "" if FULL else "move.send=sleep:15"  # so that clients meet what moves: of few objects, too
SECONDS = dose(60, 900)  # for a change to end


class RetryingWork(Work):
    """A client that gets no answer, or a 5xx, asks once more, as SDKs do; `failures` are those that then failed, too."""

    def __init__(self, *words):
        super().__init__(*words)
        self.failures, self.retries = [], 0

    def __call__(self, client):
        op = self.once(client)
        if op.outcome in ("unknown", "failed"):
            self.retries += 1
            time.sleep(0.2)
            again = self.again(client, op)
            if again.outcome in ("unknown", "failed"):
                self.failures.append(again.line())


def moved_bytes(cluster, since=0):
    """The bytes that all walks together have sent, by their reports."""
    return sum(int(count) for target in cluster.targets() for line in cluster.logs[target].matching("rebalance ended ")
               for count in re.findall(r" bytes=(\d+)", line)) - since


def where(cluster):
    """{target: {(bucket, name): bytes}} of all that lies on drives."""
    return {target: {(bucket, name): said["size"] for bucket in ("still", "data")
                     for name, said in attribute.objects(cluster.drives(target), bucket).items()}
            for target in cluster.targets()}


def test_clients_go_on_while_names_move(make_stage, seed):
    rng = random.Random(seed)
    stage = make_stage(apart=True, targets=3, drives=1)
    cluster = stage.cluster
    cluster.expect_errors(ERRORS)
    cluster.create_bucket("still")
    put_many(cluster, "still", OBJECTS, body=b"s" * 2000)
    stage.kill(*cluster.targets())
    stage.start(*cluster.targets(), fail_points={target: SLOW for target in cluster.targets()})
    wait_until_in_place(cluster)
    work = RetryingWork(seed, NAMES)
    cluster.create_bucket("copied", ON_NODES)
    copied = RetryingWork(seed, NAMES, "copied")
    crowds = [Crowd([stage.client(f"{name}{i}") for i in range(count)], each).start()
              for name, count, each in (("c", 4, work), ("m", 3, copied))]
    said = []
    try:
        # G1 and G6: join, drain, return; every call has an answer, at the second try at the latest.
        timed(said, "join", cluster, lambda: cluster.add_target())
        aside, leaves = rng.sample(cluster.targets(), 2)
        drained = timed(said, f"drain of {aside}", cluster, lambda: does(cluster, "start-maintenance", aside))
        timed(said, "its return", cluster, lambda: does(cluster, "stop-maintenance", aside))
        timed(said, f"removal of {leaves}", cluster, lambda: remove(cluster, leaves))
        timed(said, "its new entry", cluster, lambda: stage.start(leaves, fail_points={leaves: SLOW}, served=False))
        failures, calls = work.failures + copied.failures, len(stage.recorder.ops())
        # G2: a target dies at random progress.
        crashed(said, stage, rng, drained)
    finally:
        for crowd in crowds:
            crowd.stop()
    wait_settled(cluster)
    with stage.client("judge") as client:
        stage.check(client, NAMES, "copied")
    wait_full(cluster, len(cluster.names("copied")), "copied")
    cluster.destroy_bucket("copied")
    overlapping(said, stage, rng)
    print("injected: " + "; ".join(said))
    print(f"detected: {calls} calls while names moved, {work.retries + copied.retries} tried again, {len(failures)} of them in vain")
    assert calls > 300 and not failures, failures[:5]
    assert sorted(cluster.names("still")) == OBJECTS
    with stage.client("judge") as client:
        stage.check(client, NAMES)


def timed(said, what, cluster, change):
    before, begun = stored_map(cluster)["version"], time.monotonic()
    change()
    wait_until(lambda: stored_map(cluster)["version"] > before, 10, f"{what}: another map")
    wait_until_in_place(cluster, SECONDS)
    seconds = time.monotonic() - begun
    said.append(f"{what} {seconds:.1f} s")
    return seconds


def remove(cluster, target):
    """Decommissions a target: it sends all objects to others and ends."""
    does(cluster, "decommission-node", target)
    cluster.wait_exit(target, SECONDS)


def crashed(said, stage, rng, normal):
    """G2: one of the targets dies while another is drained."""
    cluster = stage.cluster
    begun = time.monotonic()
    drained, dead = rng.choice(cluster.targets()), rng.choice(cluster.targets())
    does(cluster, "start-maintenance", drained)
    time.sleep(rng.uniform(0.1, normal / 2))
    stage.kill(dead)
    stage.start(dead, served=False)
    wait_until_in_place(cluster, SECONDS)
    seconds = time.monotonic() - begun
    said.append(f"drain of {drained} with a kill of {dead} {seconds:.1f} s")
    does(cluster, "stop-maintenance", drained)
    wait_until_in_place(cluster, SECONDS)
    assert seconds <= scaled(2 * normal + TERM + 2), "a crash costs more than as much time again, and a lease"


def overlapping(said, stage, rng):
    """G3: a target gets its names back, and while they move another goes into maintenance: all ends as by the last
    map."""
    cluster = stage.cluster
    back, aside = rng.sample(cluster.targets(), 2)
    does(cluster, "start-maintenance", back)
    wait_until_in_place(cluster, SECONDS)
    before = moved_bytes(cluster)
    first = where(cluster)
    does(cluster, "stop-maintenance", back)
    wait_until(lambda: attribute.data_files(cluster.drives(back)), 20, f"something moves to {back}")
    does(cluster, "start-maintenance", aside)
    wait_until_in_place(cluster, SECONDS)
    last = where(cluster)
    assert not last[aside], "something is left where no name belongs"
    misplaced = [key for target, each in last.items() for key in each if cluster.owner(*key) != target]
    assert not misplaced, misplaced[:5]
    assert sorted(name for each in last.values() for bucket, name in each if bucket == "still") == OBJECTS
    optimum = sum(size for target, each in last.items() for key, size in each.items() if key not in first[target])
    moved = moved_bytes(cluster) - before
    said.append(f"{aside} in maintenance while {back} came back: moved {moved} bytes, at least {optimum} had to")
    assert optimum > 500_000 and moved <= 1.2 * optimum, (moved, optimum)
