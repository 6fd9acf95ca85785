"""What is released cannot be told to fail: fail points are not in it, whatever the environment says."""

import os
import re
import subprocess

import pytest
from harness.cluster import PROGRAMS, REPOSITORY

RELEASE = REPOSITORY / "build" / "release" / "bin"

pytestmark = pytest.mark.skipif(os.environ.get("TARN_TEST_PRESET", "test") != "test",
                                reason="looks at released programs; the test preset does")

POINT = re.compile(rb"(?:safety|put|delete)\.[a-z_]+")


def fail_points_in(program):
    """Names of fail points that the sources use and that stand in the program."""
    found = subprocess.run(["git", "grep", "-hoE", r'"(safety|put|delete)\.[a-z_]+"', "--", "*.cc", "*.h", ":!tests"],
                           cwd=REPOSITORY, capture_output=True, check=True).stdout
    names = set(POINT.findall(found))
    assert len(names) > 10, "the sources name fail points"
    binary = program.read_bytes()
    return {name for name in names if name in binary}


@pytest.mark.parametrize("program", ["tarn-proxy", "tarn-target"])
def test_released_programs_have_no_fail_points(program):
    assert (RELEASE / program).exists(), "tests/run builds the release preset before these tests"
    # The search itself works: programs of a test build have them.
    if program == "tarn-target":
        assert fail_points_in(PROGRAMS / program)
    assert fail_points_in(RELEASE / program) == set()
    assert b"TARN_FAIL_POINTS" not in (RELEASE / program).read_bytes()


def test_a_released_target_ignores_the_variable(make_cluster):
    cluster = make_cluster(targets=1, drives=1, programs=RELEASE,
                           environment={"t1": {"TARN_FAIL_POINTS": "put.before_reply=kill"}})
    assert cluster.put("data", "x", b"stored").status == 200
    assert cluster.get("data", "x").body == b"stored"
    assert not cluster.logs["t1"].matching("failpoint")
