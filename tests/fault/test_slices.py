"""Slices on drives that lie: what they bring is checked before anything is made of it."""

import os
import subprocess

from harness.cluster import PROGRAMS
from harness.waiting import scaled


def test_damaged_and_misplaced_blocks_are_never_decoded():
    environment = dict(os.environ)
    point, hits = (environment.get(name) for name in ("TARN_SABOTAGE_POINT", "TARN_SABOTAGE_HITS"))
    if point:
        environment["TARN_FAIL_POINTS"] = f"{point}=off"
    result = subprocess.run([PROGRAMS / "tarn-unit-tests", "slices: damaged and misplaced blocks are never decoded"],
                            env=environment, capture_output=True, text=True, timeout=scaled(60))
    if hits:
        with open(hits, "a") as file:
            file.writelines(f"{line}\n" for line in result.stderr.splitlines() if f"hit name={point} " in line)
    assert result.returncode == 0 and "1 test case" in result.stdout, result.stdout
