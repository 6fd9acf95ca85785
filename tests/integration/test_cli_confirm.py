"""Commands that destroy or take away: they ask once at a terminal, and refuse where there is none."""

import os
import pty
import subprocess

import pytest
from harness.cli import Cli
from harness.waiting import guarded


@pytest.fixture
def cli(cluster):
    return Cli(cluster.endpoint)


def at_a_terminal(cli, answer, *words):
    """Runs a command whose standard input is a terminal at which `answer` is typed: (exit code, what it printed)."""
    ours, its = pty.openpty()
    try:
        process = subprocess.Popen([cli.program, *words], env=cli.environment, stdin=its, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        os.write(ours, answer.encode() + b"\n")
        printed, _ = process.communicate(timeout=guarded(60))
        return process.returncode, printed.decode()
    finally:
        os.close(ours)
        os.close(its)


def commands(cluster, bucket):
    node = cluster.nodes["t1"]["id"]
    return [("bucket", "rm", bucket), ("rm", bucket, "--prefix", "a"), ("rm", bucket, "--all"), ("node", "decommission", node),
            ("node", "shutdown", node), ("node", "remove-unsafe", node), ("cluster", "shutdown"), ("cluster", "shutdown", node),
            ("cluster", "decommission"), ("cluster", "decommission", "--rm-user-data")]


def test_without_a_terminal_each_refuses_and_names_yes(cli, cluster, bucket):
    assert cluster.put(bucket, "a", b"stays").status == 200
    before = cli.ok("node", "ls", "--json")
    for words in commands(cluster, bucket):
        for piped in (b"", b"n\n", b"y\n"):
            refused = cli.refuses(1, *words, input=piped, says="--yes")
            assert "not confirmed" in refused.stderr, words
    assert cluster.get(bucket, "a").body == b"stays"
    assert cli.ok("node", "ls", "--json") == before


def test_at_a_terminal_each_asks_once_and_n_is_no(cli, cluster, bucket):
    assert cluster.put(bucket, "a", b"stays").status == 200
    before = cli.ok("node", "ls", "--json")
    for words in commands(cluster, bucket):
        for answer in ("n", "", "no", "Y or N"):
            code, printed = at_a_terminal(cli, answer, *words)
            assert code == 1 and printed.count("? [y/N]") == 1 and "not confirmed" in printed, (words, printed)
    assert cluster.get(bucket, "a").body == b"stays"
    assert cli.ok("node", "ls", "--json") == before


def test_y_is_yes(cli, cluster, bucket):
    assert cluster.put(bucket, "a", b"goes").status == 200
    assert at_a_terminal(cli, "y", "rm", bucket, "--prefix", "a")[0] == 0
    assert cluster.get(bucket, "a").status == 404
    assert at_a_terminal(cli, "yes", "bucket", "rm", bucket)[0] == 0
    assert cluster.put(bucket, "a", b"x").status == 404
