"""tests/run: what it runs, and that it refuses what it does not know."""

import os
import re
import subprocess
import sys

import pytest
from harness.cluster import REPOSITORY

RUN = REPOSITORY / "tests" / "run"


def collected(suite, *words, tier=""):
    """The ids of a suite's tests that a run would carry out."""
    command = [sys.executable, "-m", "pytest", "--rootdir", str(REPOSITORY), "--collect-only", "-q", *words, f"tests/{suite}"]
    environment = os.environ | {"TARN_TEST_TIER": tier}
    environment.pop("TARN_TEST_REPORT", None)  # that of the run which this test belongs to
    result = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert result.returncode in (0, 5), result.stdout  # 5: none
    return set(re.findall(r"^tests/\S+::.+$", result.stdout, re.MULTILINE))


@pytest.mark.parametrize("suite", ["integration", "fault"])
def test_the_gate_has_a_part_of_each_suite_and_nothing_that_measures_the_machine(suite):
    everything, gate = collected(suite), collected(suite, tier="gate")
    assert gate and gate < everything
    assert not gate & collected(suite, "-m", "deep or alone")
    if suite == "fault":
        assert gate == collected(suite, "-m", "gate and not alone and not deep")


@pytest.mark.parametrize("words, says", [
    (["no-such-test"], "is neither a suite"), (["deep", "no_such_module"], "is neither a suite"),
    (["--since", "HEAD"], "--since goes with deep"), (["--repeat", "0"], "a number from 1 to 100")])
def test_what_it_does_not_know_is_refused(words, says):
    result = subprocess.run([RUN, *words], capture_output=True, text=True)
    assert result.returncode == 2 and says in result.stderr, result
