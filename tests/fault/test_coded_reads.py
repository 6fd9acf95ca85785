"""Reads of erasure-coded objects while m of their nodes die at one instant: from the first byte on, from what is left."""

import contextlib
import threading
import time

import pytest
from disks import seeded
from harness import attribute, client
from harness.cli import Cli
from harness.coded import KIB, LIMIT, MIB, props
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until

SIZES = (500, 70 * KIB, 300 * KIB, MIB + 7)
NAMES = 32
AFTER = 6  # seconds of reading from the loss on


class Reader:
    """Reads all names in turn, again and again, and notes what each read took."""

    def __init__(self, url_of, bodies, tries, patience=60, before_again=lambda name: None):
        self.url_of, self.bodies, self.tries, self.patience, self.before_again = url_of, bodies, tries, patience, before_again
        self.reads, self.problems = [], []  # (begun, seconds, tries), texts
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def read(self, name):
        """As a client does that tries again once: after Retry-After, or after `before_again` when the connection ended."""
        said = []
        for attempt in range(1, self.tries + 1):
            try:
                answer = client.request("GET", self.url_of(name), expect=False, timeout=self.patience)
            except (OSError, client.ProtocolError) as error:  # the answer may be cut short as well
                said.append(repr(error))
                if attempt < self.tries:
                    self.before_again(name)
                continue
            if answer.status == 200:
                assert answer.body == self.bodies[name], name
                return attempt
            said.append(f"{answer.status} {answer.text[:200]}")
            if attempt < self.tries:
                time.sleep(float(answer.headers.get("Retry-After", 0)))
        self.problems.append((time.monotonic(), name, said))
        return self.tries

    def run(self):
        while not self.ends.is_set():
            for name in self.bodies:
                begun = time.monotonic()
                try:
                    attempts = self.read(name)
                except Exception as error:  # a thread must not die unseen
                    self.problems.append((time.monotonic(), name, [repr(error)]))
                    return
                self.reads.append((begun, time.monotonic() - begun, attempts))

    def stop(self):
        self.ends.set()
        self.thread.join()

    def slowest_since(self, moment):
        return max(seconds for begun, seconds, _ in self.reads if begun + seconds > moment)


@pytest.mark.parametrize("way, layout", [pytest.param("kill", "striped", marks=pytest.mark.gate("N1")), ("kill", "whole"),
                                         ("stop", "striped"), ("stop", "whole")])
def test_m_nodes_go_at_once_and_no_read_is_refused(make_cluster, layout, way, seed):
    rng = seeded(seed, "coded reads", layout, way)
    cluster = make_cluster(targets=8, drives=1)
    cluster.create_bucket("cut", props(layout, 4, 2))
    wait_until_in_place(cluster)
    bodies = cluster.fill("cut", NAMES, SIZES, rng)
    owner = cluster.owner("cut", "n-2")
    gone = [owner, rng.choice([target for target in cluster.targets() if target != owner])]

    def sent_elsewhere(name):
        """The proxy may hear of an end a moment after the client whose connection it was, and of the other one later. It chooses
        a holder each time."""
        answers = [cluster.get("cut", name, follow=False) for _ in range(16)]
        dead = tuple(cluster.url_of(target) + "/" for target in gone)
        return all(answer.status == 302 and not answer.headers["Location"].startswith(dead) for answer in answers)

    readers = [Reader(lambda name: cluster.url("cut", name, base=cluster.relay), bodies, tries=1),
               # A client that was sent to a target which is stopped hears nothing: it must give up and ask again.
               Reader(lambda name: cluster.url("cut", name), bodies, tries=2, patience=5 if way == "stop" else 60,
                      before_again=lambda name: wait_until(lambda: sent_elsewhere(name), 60, f"{name} is to be had elsewhere"))]
    with contextlib.ExitStack() as ends:
        for reader in readers:
            ends.callback(reader.stop)
        time.sleep(1)
        # Written when they have a second left.
        fresh = cluster.fill("cut", [f"fresh-{i}" for i in range(4)], SIZES, rng)
        begun = time.monotonic()
        getattr(cluster, way)(*gone)
        for name, body in fresh.items():
            got = client.request("GET", cluster.url("cut", name, base=cluster.relay), timeout=60)
            assert got.status == 200 and got.body == body, (name, got)
            head = client.request("HEAD", cluster.url("cut", name, base=cluster.relay), timeout=60)
            assert head.status == 200 and int(head.headers["Content-Length"]) == len(body), (name, head)
        print(f"{gone} went; all that was written just before was read in {time.monotonic() - begun:.2f} s")
        wait_until(lambda: cluster.list_page("cut").status == 200, 20, "the proxy has heard of both, and lists without them")
        assert sorted(cluster.names("cut")) == sorted(bodies | fresh), "a list is whole"
        time.sleep(max(0, begun + AFTER - time.monotonic()))
    if way == "stop":
        cluster.cont(*gone)
    for kind, reader in zip(("relayed", "redirected"), readers, strict=True):
        again = sum(attempts > 1 for _, _, attempts in reader.reads)
        print(f"{kind}: {len(reader.reads)} reads, {again} of them tried again, the slowest since the loss took {reader.slowest_since(begun):.2f} s")
    for reader in readers:
        assert reader.problems == [], [(round(when - begun, 2), name, said) for when, name, said in reader.problems[:5]]
        assert any(start > begun for start, _, _ in reader.reads), "no client read after the loss"


def test_when_more_nodes_are_lost_than_may_be_the_lost_names_are_named_and_no_others(make_cluster, seed):
    """m + 1 of them, one at a time, given up with what they had: of some objects fewer than k slices are left."""
    rng = seeded(seed, "m + 1")
    cluster = make_cluster(targets=8, drives=2, settings={"target.out_after": "2s"})
    cluster.expect_errors(" (error|warn|critical) ")
    cluster.create_bucket("cut", props("striped", 4, 2))
    wait_until_in_place(cluster)
    bodies = cluster.fill("cut", NAMES, SIZES, rng)
    gone = rng.sample(cluster.targets(), 3)
    left = [target for target in cluster.targets() if target not in gone]
    slices, records = {name: 0 for name in bodies}, {name: 0 for name in bodies}
    for target in left:
        for _, said in attribute.slices(cluster.drives(target)):
            slices[said["name"]] += 1
        for name in attribute.objects(cluster.drives(target), "cut"):
            records[name] += 1
    cut = [name for name, body in bodies.items() if len(body) > LIMIT]
    lost = sorted(name for name in cut if slices[name] < 4)
    assert lost and len(lost) < len(cut), "losses of another kind than this test is about"
    cluster.kill(*gone)
    # Until they are given up it is not known what became of them, and no name is said not to be there.
    for name in bodies:
        answer = client.request("GET", cluster.url("cut", name, base=cluster.relay), expect=False, timeout=60)
        assert answer.status == 503 or (answer.status == 200 and answer.body == bodies[name]), (name, answer)
    for target in gone:
        Cli(cluster.endpoint).ok("node", "remove-unsafe", cluster.nodes[target]["id"], "--yes")
    known = {name for name in bodies if records[name] or slices[name]}

    def judged():
        said = cluster.redundancy("cut")
        return said["complete"] and said["reduced"] == 0 and sorted(said["lost_names"]) == [name for name in lost if records[name]] and said

    try:
        said = wait_until(judged, 60, "the ledger names what is lost, and all else is whole again")
    except AssertionError as error:
        raise AssertionError(f"{error}: {cluster.redundancy('cut')}, lost: {lost}, records {records}") from None
    print(f"injected: {gone} lost, {len(lost)} of {len(cut)} objects with fewer than 4 slices; detected: {said['lost_names']}")
    for name, body in bodies.items():
        answer = client.request("GET", cluster.url("cut", name, base=cluster.relay), expect=False, timeout=60)
        if name in lost:
            assert answer.status in (404, 500, 503) and (answer.status != 404 or not records[name]), (name, answer)
        elif records[name]:
            assert answer.status == 200 and answer.body == body, (name, answer)
        if not records[name]:
            print(f"{name}: {len(body)} bytes, {slices[name]} slices and no record: {answer.status} {answer.text[:200]}")
    assert set(cluster.names("cut")) <= known and set(said["lost_names"]) <= set(cluster.names("cut"))
