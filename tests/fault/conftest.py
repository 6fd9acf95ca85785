"""Fixtures of the fault tests; the seed, the generators and the clusters are those of tests/harness."""

import disks
import pytest


@pytest.fixture
def lab():
    """Where a test makes drives; all of them are gone afterwards."""
    with disks.Lab() as made:
        yield made
