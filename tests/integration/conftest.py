"""What tests of the command line have in common."""

import pytest
from harness.cli import Cli


@pytest.fixture
def cli(cluster):
    return Cli(cluster.endpoint)


@pytest.fixture
def here(tmp_path):
    """A directory that only the command under test writes to."""
    directory = tmp_path / "here"
    directory.mkdir()
    return directory
