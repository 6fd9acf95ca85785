"""Slices on drives that lie, or that are told to go: tests of the unit tests' program that must notice when a safety is off."""

import os
import subprocess

import pytest
from harness.cluster import PROGRAMS
from harness.waiting import scaled

pytestmark = pytest.mark.gate("G7")


def run_unit_test(name):
    """One test case of the unit tests, without the safety that tests/sabotage has switched off."""
    environment = dict(os.environ)
    point, hits = (environment.get(name) for name in ("TARN_SABOTAGE_POINT", "TARN_SABOTAGE_HITS"))
    if point:
        environment["TARN_FAIL_POINTS"] = f"{point}=off"
    result = subprocess.run([PROGRAMS / "tarn-unit-tests", name],
                            env=environment, capture_output=True, text=True, timeout=scaled(60))
    if hits:
        with open(hits, "a") as file:
            file.writelines(f"{line}\n" for line in result.stderr.splitlines() if f"hit name={point} " in line)
    assert result.returncode == 0 and "1 test case" in result.stdout, result.stdout


def test_damaged_and_misplaced_blocks_are_never_decoded():
    run_unit_test("slices: damaged and misplaced blocks are never decoded")


def test_a_slice_of_a_higher_generation_is_not_dropped():
    run_unit_test("slice: it is dropped up to its generation*")
