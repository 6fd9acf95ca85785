"""tests/run: what it runs, and that it refuses what it does not know."""

import json
import os
import subprocess
import sys

import pytest
from harness.cluster import REPOSITORY

RUN = REPOSITORY / "tests" / "run"


# Prints the ids of the tests that the gate would carry out, and {id: names of its marks} of all.
COLLECT = """
import json, sys, pytest
class Marks:
    left_out = []
    def pytest_deselected(self, items):
        self.left_out += items
    def pytest_collection_finish(self, session):
        marks = {item.nodeid: [mark.name for mark in item.iter_markers()] for item in [*session.items, *self.left_out]}
        print(json.dumps([[item.nodeid for item in session.items], marks]), file=sys.stderr)
sys.exit(pytest.main(["--rootdir", sys.argv[1], "--collect-only", "-q", sys.argv[2]], plugins=[Marks()]))
"""


def collected(suite):
    """(ids of the gate's tests, {id: names of its marks} of all)"""
    environment = os.environ | {"TARN_TEST_TIER": "gate"}
    environment.pop("TARN_TEST_REPORT", None)  # that of the run which this test belongs to
    command = [sys.executable, "-c", COLLECT, str(REPOSITORY), f"tests/{suite}"]
    result = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    return json.loads(result.stderr.splitlines()[-1])


@pytest.mark.parametrize("suite", ["integration", "fault"])
def test_the_gate_has_a_part_of_each_suite_and_nothing_that_measures_the_machine(suite):
    gate, everything = collected(suite)
    gate = set(gate)
    assert gate and gate < set(everything)
    assert not [test for test in gate if {"deep", "alone"} & set(everything[test])]
    if suite == "fault":
        assert gate == {test for test, marks in everything.items() if "gate" in marks and not {"deep", "alone"} & set(marks)}


@pytest.mark.parametrize("words, says", [
    (["no-such-test"], "is neither a suite"), (["deep", "no_such_module"], "is neither a suite"),
    (["--since", "HEAD"], "--since goes with deep"), (["--repeat", "0"], "a number from 1 to 100")])
def test_what_it_does_not_know_is_refused(words, says):
    result = subprocess.run([RUN, *words], capture_output=True, text=True)
    assert result.returncode == 2 and says in result.stderr, result
