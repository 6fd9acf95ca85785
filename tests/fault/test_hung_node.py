"""A target that stands still: the operator sees that, and is not kept waiting."""

import json
import time

from harness.cli import Cli
from harness.waiting import scaled, wait_until


def test_who_looks_at_a_cluster_is_not_kept_waiting_by_a_target_that_hangs(make_cluster):
    cluster = make_cluster(targets=3, drives=1)
    cluster.expect_errors(" (error|warn|critical) ")
    cli = Cli(cluster.endpoint)
    hung = cluster.nodes["t1"]["id"]
    cluster.stop("t1")
    try:
        wait_until(lambda: cluster.logs["p1"].matching("target suspect"), 30, "the proxy has noticed")
        took = {}
        for words in (["cluster", "status"], ["node", "ls"], ["cluster", "rebalance", "show"], ["bucket", "ls"], ["job", "ls"],
                      ["redundancy", "data"], ["drive", "ls"], ["rebuild", "plan"]):
            begun = time.monotonic()
            done = cli(*words)
            took[" ".join(words)] = time.monotonic() - begun
            assert done.returncode in (0, 7), (words, done.stdout, done.stderr)
        print({words: f"{seconds:.1f} s" for words, seconds in took.items()})
        assert hung.encode() in cli.ok("node", "ls")
        drives = cli("drive", "ls", "--json")
        assert drives.returncode == 7 and f"node {hung} does not answer" in drives.stderr, drives
        assert {row["node"] for row in json.loads(drives.stdout)} == {cluster.nodes[name]["id"] for name in ("t2", "t3")}
        assert max(took.values()) < scaled(15), took
    finally:
        cluster.cont("t1")
