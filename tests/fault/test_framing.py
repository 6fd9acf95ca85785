"""Malformed HTTP at every door (docs/reliability.md J6): refused, or parsed exactly as RFC 9112 says, and alike everywhere."""

import collections
import concurrent.futures
import dataclasses
import urllib.parse

import corpus
import pytest
from corpus_case import ACCEPT, REJECT
from corpus_driver import readings, send
from harness import client as http
from harness.waiting import guarded

pytestmark = pytest.mark.gate("J6")

DOORS = ("redirect", "relay", "target")
AT_ONCE = 8


class Door:
    """One listener that all cases are sent to."""

    def __init__(self, cluster, bucket, kind):
        self.cluster, self.bucket, self.kind = cluster, bucket, kind
        base = {"redirect": cluster.endpoint, "relay": cluster.relay}.get(kind)
        if kind == "target":
            self.owner = cluster.owner(bucket, "owner-of-this")
            base = cluster.url_of(self.owner)
            self.names = cluster.names_owned_by(self.owner, bucket, 1)
        parts = urllib.parse.urlsplit(base)
        self.address, self.host = (parts.hostname, parts.port), parts.netloc.encode()

    def path(self, number, case):
        """A path for the case of its own, so that what it stores can be found. None: only a signed one will do."""
        return f"/v1/objects/{self.bucket}/{self.kind}-{number}?provider=ais"

    def signed(self, number, case):
        """A PUT at a target needs the proxy's signature for a name of that target and the case's length."""
        index = 0
        while True:
            name = f"target-{number}-{index}"
            headers = {"Transfer-Encoding": "chunked", "Expect": "100-continue"} if case.chunked else {
                "Content-Length": str(len(case.body or b"")), "Expect": "100-continue"}
            with http.RawConnection(self.cluster.endpoint) as connection:
                connection.send_head("PUT", f"/v1/objects/{self.bucket}/{name}?provider=ais", headers)
                answer = connection.read_response()
            assert answer.status == 307, answer
            if answer.headers["Location"].startswith(self.cluster.url_of(self.owner) + "/"):
                return name, http.target_of(answer.headers["Location"])
            index += 1

    def send(self, number, case):
        """(name that a PUT of the case would store, what came back)"""
        name, target = f"{self.kind}-{number}", self.path(number, case)
        if self.kind == "target" and case.is_put:
            name, target = self.signed(number, case)
        wire = case.wire.replace(b"{T}", target.encode()).replace(b"{H}", self.host)
        is_head = wire.lstrip().startswith(b"HEAD")
        seen = send(self.address, wire, timeout=guarded(8), heads=(0,) if is_head else ())
        if is_head and seen.junk and seen.statuses == [400]:
            seen.junk = b""  # a head that cannot be parsed is no HEAD yet: its answer may have a body
        return name, seen


def as_the_door_sees_it(case, kind):
    """The redirecting listener never reads the body of a PUT: it answers 307, or 411 (chunks without Expect), and
    closes. Whatever the body, that counts as refused and as understood. A name without object is 404."""
    changed = dataclasses.replace(case, semantic=case.semantic | {404})
    if kind == "redirect" and case.is_put:
        changed = dataclasses.replace(changed, statuses=case.statuses | {307, 411}, may_close=True,
                                             semantic=changed.semantic | {411})
    if kind == "target" and case.is_put and case.chunked and case.body == b"":
        # Chunks were announced to the proxy and none came: understood, and refused as lost in the redirect.
        changed = dataclasses.replace(changed, semantic=changed.semantic | {400})
    return changed


def send_all_cases(cluster, bucket, kind):
    """J6, all cases at one door: {case: its readings}. Fails when one is neither refused nor read as RFC 9112 says."""
    door = Door(cluster, bucket, kind)
    cases = corpus.cases()
    wrong, seen_as, stored = [], {}, {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda pair: door.send(*pair), enumerate(cases)))
    for case, (name, seen) in zip(cases, results):
        verdict = readings(as_the_door_sees_it(case, kind), seen)
        if isinstance(verdict, str):
            wrong.append(f"{case.name}: {verdict}")
            continue
        seen_as[case.name] = verdict
        if case.expect in (REJECT, ACCEPT) and case.expect not in verdict:
            wrong.append(f"{case.name}: {seen.statuses}, but must be {case.expect}ed")
        if case.is_put and seen.statuses[:1] == [200]:
            stored[name] = case
    there = set(cluster.names(bucket))
    for name, case in stored.items():
        answer = cluster.get(bucket, name)
        if answer.status != 200 or answer.body != case.body:
            wrong.append(f"{case.name}: stored {answer.status} {answer.body[:60]!r} instead of {(case.body or b'nothing')[:60]!r}")
    if strangers := {name for name in there if name.startswith(kind)} - set(stored):
        wrong.append(f"stored by requests that were refused: {sorted(strangers)}")
    counts = collections.Counter("/".join(sorted(verdict)) for verdict in seen_as.values())
    print(f"injected: {len(cases)} cases at the {kind} door; detected: {dict(counts)}, {len(stored)} bodies stored exactly")
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:40])
    assert cluster.get(bucket, "no-such", follow=True).status == 404
    return seen_as


def test_every_malformed_request_is_refused_or_read_as_the_rfc_says_alike_at_all_doors(cluster, bucket):
    """No case may have one framing at the proxy and another at the target: that is how requests are smuggled."""
    verdicts = {kind: send_all_cases(cluster, bucket, kind) for kind in DOORS}
    differ = [f"{name}: {[(door, sorted(verdicts[door][name])) for door in DOORS]}" for name in verdicts["target"]
              if all(name in verdicts[door] for door in DOORS) and not set.intersection(*(verdicts[door][name] for door in DOORS))]
    print(f"{len(verdicts['target'])} cases compared, {len(differ)} differ")
    assert not differ, "\n".join(differ[:40])
