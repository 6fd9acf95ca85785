"""Everything at once, on one cluster: joins, drains, kills, pauses, partitions and bad networks by a seeded schedule.
Clients write, read, delete and list single copies and copies on nodes, and destroy and make buckets.

TARN_TEST_SECONDS says for how long; with TARN_TEST_EVERY_FAULT each kind of fault must have happened. `tests/soak membership`
is this test for half an hour.
"""

import collections
import json
import os
import random
import time

from changes import Operator
from copies import ON_NODES
from harness import client as http
from harness.cli import Cli
from harness.waiting import wait_until
from load import Crowd
from nemesis import Nemesis
from workload import ERRORS, Renewing, Work, carried, judge

SECONDS = float(os.environ.get("TARN_TEST_SECONDS") or 14)
EVERY_FAULT = bool(os.environ.get("TARN_TEST_EVERY_FAULT"))
EPOCH = min(150, SECONDS / 2)  # seconds of faults between two checkpoints
COPIED, RENEWED = "copied", "renewed"
# Of each bucket the names, and how many clients it has.
MANY = 48 if SECONDS > 60 else 24
NAMES = {bucket: [f"{bucket[0]}-{i:04}" for i in range(count)] for bucket, count in (("data", MANY), (COPIED, MANY), (RENEWED, MANY // 2))}
CLIENTS = {"data": 4, COPIED: 4, RENEWED: 3}


def copies_of(cluster, bucket):
    """How many a bucket's objects have on nodes now, as it says."""
    answer = http.request("HEAD", f"{cluster.endpoint}/v1/buckets/{bucket}?provider=ais")
    assert answer.status == 200, answer
    mirror = json.loads(answer.headers["Ais-Bucket-Props"])["mirror"]
    return mirror["copies"] if mirror["enabled"] else 1


class Ordeal:
    """One cluster, one schedule, in epochs: faults and changes under load, then calm, in which everything must get into place and
    the history is judged. What the next epoch is judged by begins with what was there then."""

    def __init__(self, site, seed):
        self.site, self.seed = site, seed
        self.nemesis = Nemesis(site, random.Random(seed), log=self.say)
        self.operator = Operator(site, self.nemesis, seed, COPIED, log=self.say)
        self.outcomes = collections.Counter()
        self.destroyed = 0
        self.searches = [0, 0]  # histories of names, and those that only the fast checker has judged

    @staticmethod
    def say(text):
        print(text, flush=True)

    def epoch(self, number, seconds):
        site, seed = self.site, f"{self.seed}/{number}"
        renewing = Renewing(seed, NAMES[RENEWED], RENEWED, ON_NODES)
        crowds = [Crowd(site.clients(CLIENTS[bucket], name=f"{bucket}-"), Work(seed, names, bucket)) for bucket, names in NAMES.items()]
        crowds.append(Crowd(site.clients(1, timeout=20, name="renewing"), renewing))
        for crowd in crowds:
            crowd.start()
        self.operator.start()
        try:
            self.nemesis.run(seconds)
            self.operator.stop()
        finally:
            for crowd in crowds:
                crowd.stop()
        self.destroyed += renewing.destroyed
        self.checkpoint(number, renewing)

    def checkpoint(self, number, renewing):
        site, begun = self.site, time.monotonic()
        site.wait_quiet(meanwhile=self.operator.settle)
        moved = time.monotonic() - begun
        with site.clients(1, timeout=20, name="maker")[0] as client:
            wait_until(lambda: renewing.make(client), 60, f"{RENEWED} is there")
        verdicts = [judge(site, names, bucket, copies_of(site.cluster, bucket)) for bucket, names in NAMES.items()]
        ops = site.recorder.ops()
        counted = collections.Counter(f"{op.op} {op.outcome}" for op in ops)
        self.outcomes += counted
        self.searches[0] += sum(verdict.report.names for verdict in verdicts)
        self.searches[1] += sum(verdict.report.given_up for verdict in verdicts)
        site.recorder.begin_anew(carried(ops, verdicts))
        self.say(f"checkpoint {number}: {len(ops)} calls judged, {sum(verdict.objects for verdict in verdicts)} objects, map "
                 f"{site.map_version()}, targets {' '.join(site.present())}; all in place {moved:.1f} s after the last change, judged "
                 f"{time.monotonic() - begun - moved:.1f} s later")

    def converged(self):
        """Waits until users see a cluster in which all is in place."""
        cli = Cli(self.site.cluster.endpoint)
        cli.ok("cluster", "wait", "--timeout", "60s")
        counted = json.loads(cli.ok("redundancy", "--json"))
        assert counted["complete"] and all(each["reduced"] == each["lost"] == 0 for each in counted["buckets"]), counted
        self.say(cli.ok("redundancy").decode())

    def report(self):
        """Faults by kind: how often each was asked for, and how often it showed."""
        injected, detected = self.nemesis.injected + self.operator.injected, self.nemesis.detected + self.operator.detected
        kinds = dict.fromkeys((*Nemesis.KINDS, *Operator.KINDS))
        self.say("injected: " + ", ".join(f"{kind} {injected[kind]}" for kind in kinds) + f", buckets destroyed {self.destroyed}")
        self.say("detected: " + ", ".join(f"{kind} {detected[kind]}" for kind in kinds))
        self.say("calls: " + ", ".join(f"{what} {count}" for what, count in sorted(self.outcomes.items())))
        self.say(f"admin calls by status: {dict(sorted(self.operator.answers.items()))}; of {self.searches[0]} histories of names "
                 f"{self.searches[1]} were only judged by the fast checker")
        return injected, detected, [kind for kind in kinds if not detected[kind]]


def test_nothing_is_lost_whatever_happens_to_members_machines_and_network(make_site, seed):
    site = make_site(machines=6, targets=6)
    cluster = site.cluster
    cluster.expect_errors(ERRORS)
    cluster.create_bucket(COPIED, ON_NODES)
    cluster.create_bucket(RENEWED)
    first = site.map_version()
    ordeal = Ordeal(site, seed)
    left, number = SECONDS, 0
    try:
        while left > 0:
            number += 1
            ordeal.epoch(number, min(EPOCH, left))
            left -= EPOCH
        ordeal.converged()
    finally:
        injected, detected, never = ordeal.report()
    # A cut link or a bad one may have had nothing to carry for as long as it was.
    assert sum(detected.values()) * 3 >= sum(injected.values()) * 2 and site.map_version() > first
    assert not EVERY_FAULT or not never, f"never happened: {never}; a longer run has more of everything"
    done = sum(count for what, count in ordeal.outcomes.items() if what.split()[1] in ("done", "absent", "precondition"))
    assert done > 10 * SECONDS
