"""Fixtures of the fault tests; the seed, the generators and the clusters are those of tests/harness."""

import disks
import pytest
import stage as stages


@pytest.fixture
def lab():
    """Where a test makes drives; all of them are gone afterwards."""
    with disks.Lab() as made:
        yield made


@pytest.fixture
def make_stage(lab, make_cluster):  # in this order: clusters stop before their drives go
    """Makes the test's cluster, on drives of the lab: `make_stage(targets=1, drives=2, fs="ext4")`."""

    def make(**options):
        return stages.Stage(lab, make_cluster, **options)

    return make


# The two file systems that Tarn is used on, where they can be had.
def pytest_generate_tests(metafunc):
    if "fs" in metafunc.fixturenames and not any(
        "fs" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")
    ):
        metafunc.parametrize("fs", [
            pytest.param(fs, marks=pytest.mark.skipif(bool(disks.why_no_loop(fs)), reason=f"{disks.why_no_loop(fs)}"))
            for fs in ("ext4", "xfs")
        ])
