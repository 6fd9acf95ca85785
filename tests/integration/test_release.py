"""What is released cannot be told to fail: fail points are not in it, whatever the environment says."""

import json
import os
import re
import subprocess

import pytest
from harness import attribute
from harness.cluster import PROGRAMS, REPOSITORY

RELEASE = PROGRAMS.parent / "bin"

pytestmark = pytest.mark.skipif(os.environ.get("TARN_TEST_PRESET", "release") != "release",
                                reason="looks at released programs; the release preset has them")

POINT = re.compile(rb'"((?:safety|put|delete)\.[a-z_]+)"')
SWITCHES = (b"TARN_FAIL_POINTS", b"TARN_TEST_IDENTITIES", b"TARN_TEST_PLACES")


def names_of_fail_points():
    found = subprocess.run(["git", "grep", "-hoE", r'"(safety|put|delete)\.[a-z_]+"', "--", "*.cc", "*.h", ":!tests"],
                           cwd=REPOSITORY, capture_output=True, check=True).stdout
    names = set(POINT.findall(found))
    assert len(names) > 10, "the sources name fail points"
    return names


def dynamic_symbols(program):
    return subprocess.run(["nm", "--dynamic", "--demangle", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("program", ["tarn", "tarn-proxy", "tarn-target"])
def test_released_programs_have_no_fail_points(program):
    binary = (RELEASE / program).read_bytes()
    assert {name for name in names_of_fail_points() if name in binary} == set()
    assert [switch for switch in SWITCHES if switch in binary] == []
    # Those of the tests, linked from the same objects, have the switches: the search finds them where they are.
    if program != "tarn":
        assert all(switch in (PROGRAMS / program).read_bytes() for switch in SWITCHES)


@pytest.mark.parametrize("program", ["tarn-proxy", "tarn-target"])
def test_no_library_can_bring_fail_points_into_a_released_program(program):
    symbols = dynamic_symbols(RELEASE / program)
    assert " U " in symbols, "nm shows what the program takes from libraries"
    assert "fail_point" not in symbols


def test_a_released_target_ignores_the_variable(make_cluster):
    cluster = make_cluster(targets=1, drives=1, programs=RELEASE,
                           environment={"t1": {"TARN_FAIL_POINTS": "put.before_reply=kill"}})
    assert cluster.put("data", "x", b"stored").status == 200
    assert cluster.get("data", "x").body == b"stored"
    assert not cluster.logs["t1"].matching("failpoint")


def test_a_test_has_the_same_placement_each_time(make_cluster, tmp_path):
    """A test with a target that has much or nothing must not depend on chance."""
    def placement(folder, text):
        cluster = make_cluster(targets=2, drives=2, directory=tmp_path / folder / "cluster", identities=text)
        drives = cluster.all_drives()
        known = [json.loads((drive / ".tarn/drive.json").read_text())["drive"] for drive in drives]
        cluster.fill("data", dict.fromkeys((f"n-{i}" for i in range(40)), b"x"))
        lies = {said["name"]: "/".join(path.parts[len(cluster.directory.parts):][:2])
                for path, said in attribute.decoded(drives).items()}
        return [cluster.nodes[name]["id"] for name in sorted(cluster.nodes)] + known, lies

    (first, lies), (again, lies_again), (other, lies_otherwise) = placement("a", "text"), placement("b", "text"), placement("c", "other")
    assert first == again and len(set(first)) == 7
    assert not set(first) & set(other)
    assert lies == lies_again and len(lies) == 40 and len(set(lies.values())) == 4
    assert lies != lies_otherwise
