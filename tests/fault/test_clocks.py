"""Wall clocks that jump, and clocks that run too fast or too slowly (docs/reliability.md N8)."""

import email.utils
import random
import time

from clocks import WrongClock
from harness import client as http
from harness.nodes import call
from harness.waiting import wait_until
from history import now_ns
from load import Client, Crowd
from workload import ERRORS, Work

NAMES = [f"n-{i:04}" for i in range(40)]
HOUR = 3600


def test_no_clock_loses_anything_or_brings_anything_back(make_stage, tmp_path, seed):
    """Versions never come from a wall clock, and leases survive a drift of a tenth. What is signed with a time that is
    an hour away may be refused, with the code for that, and nothing else."""
    rng = random.Random(seed)
    nodes = ["p1", "p2", "t1", "t2", "t3"]
    drifts = dict(zip(nodes, [0.0, 0.0, 0.1, -0.1, 0.0]))
    clocks = {name: WrongClock(tmp_path / f"{name}.clock", drifts[name]) for name in nodes}
    stage = make_stage(apart=True, targets=3, drives=1, meta="etcd", proxies=2,
                       environment={name: clock.environment for name, clock in clocks.items()})
    cluster = stage.cluster
    cluster.expect_errors(ERRORS)
    urls = [cluster.url_of("p1"), cluster.url_of("p2")]
    crowd = Crowd([Client(stage.recorder, f"c{i}", urls[i % 2 :] + urls[: i % 2], 4) for i in range(6)],
                  Work(seed, NAMES)).start()
    jumps, refusals, away = [], [], [now_ns(), 0]
    try:
        time.sleep(5)  # longer than a lease lasts
        steady = stage.recorder.ops()
        for seconds in (HOUR, -24 * HOUR, 30, -HOUR):
            name = rng.choice(nodes)
            clocks[name].set_ahead(seconds)
            jumps.append(f"{name} {seconds:+} s")
            wait_until(lambda: offset_of(cluster, name, seconds), 5, f"the clock of {name} is wrong")
            # A node checks the time of a signature, and tells a caller that is more than five minutes off why it refuses.
            asked = call(cluster, name, "GET", "/v1/internal/nothing")
            refusals.append((asked.status, asked.text))
            assert (asked.status == 401 and "set the clocks" in asked.text) == (abs(seconds) > 300), asked
            # Clients only hear that an object is unavailable for now.
            for url in urls:
                answer = http.request("GET", cluster.url("data", rng.choice(NAMES), url))
                assert answer.status in (200, 404) or answer.status == 503 and answer.headers["Retry-After"], answer
            # Names move while some refuse each other.
            if seconds == -24 * HOUR:
                away[0] = now_ns()
                stage.kill("t3")
                stage.start("t3", environment={"t3": clocks["t3"].environment}, served=False)
                away[1] = now_ns() + 4_000_000_000  # until the proxies have pinged it again
            time.sleep(rng.uniform(0.5, 1.5))
            clocks[name].set_ahead(0)
    finally:
        for clock in clocks.values():
            clock.set_ahead(0)
        crowd.stop()
    wrong = [op.line() for op in steady if op.status == 0 or op.status >= 400 and op.status not in (404, 412)]
    assert len(steady) > 100 and not wrong, wrong[:5]
    for name in ("t1", "t2"):
        assert not cluster.logs[name].matching("lease gone|lease not renewed")
    ops = stage.recorder.ops()
    codes = {op.status for op in ops}
    refused = sum(status == 401 for status, _ in refusals)
    print(f"injected: drifts of a tenth, jumps: {', '.join(jumps)}; detected: {refused} times a node refused the time of another, "
          f"clients saw {sorted(codes)}")
    assert refused == 3 and codes <= {0, 200, 204, 206, 404, 412, 503}, codes
    silent = [op.line() for op in ops if op.status == 0 and not (op.ret > away[0] and op.call < away[1])]
    assert not silent, f"no answer, and no node was dead: {silent[:5]}"
    stage.wait_served()
    with Client(stage.recorder, "judge", urls) as judge:
        stage.check(judge, NAMES)


def offset_of(cluster, name, seconds):
    """True if the node's answers are dated so many seconds away."""
    answer = http.request("GET", cluster.url_of(name) + "/healthz")
    date = answer.headers.get("Date")
    if date is None:
        return True
    return abs(email.utils.parsedate_to_datetime(date).timestamp() - time.time() - seconds) < 3
