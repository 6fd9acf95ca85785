"""Fixtures of the fault tests; the seed, the generators and the clusters are those of tests/harness."""

import contextlib

import disks
import machines as machine_stages
import pytest
import stage as stages
from harness import netns
from harness.upstreams import FlawedServer, S3Server, WebServer


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


@pytest.fixture
def s3(tmp_path):
    """versitygw with the bucket "data"."""
    with S3Server(tmp_path / "s3") as server:
        server.client.create_bucket(Bucket="data")
        yield server


@pytest.fixture
def web(tmp_path):
    with WebServer(tmp_path / "web") as server:
        yield server


@pytest.fixture
def flawed():
    server = FlawedServer()
    yield server
    server.stop()


@pytest.fixture
def make_network():
    """Machines on a network of their own, gone afterwards: `make_network(5)`."""
    reason = netns.why_no_network()
    if reason:
        pytest.skip(reason)
    with contextlib.ExitStack() as made:
        yield lambda count: made.enter_context(netns.Network([f"m{i + 1}" for i in range(count)]))


@pytest.fixture
def make_site(lab, make_network, make_cluster):  # clusters stop before their network goes
    """Makes the test's cluster on machines of their own: `make_site(machines=5, targets=5)`."""
    made = []

    def make(machines=5, **options):
        made.append(machine_stages.Site(lab, make_cluster, make_network(machines), **options))
        return made[-1]

    yield make
    for site in made:  # so that its nodes can end in good order
        site.thaw()
        site.network.heal()


# The two file systems that Tarn is used on, where they can be had.
def pytest_generate_tests(metafunc):
    if "fs" in metafunc.fixturenames and not any(
        "fs" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")
    ):
        metafunc.parametrize("fs", [
            pytest.param(fs, marks=pytest.mark.skipif(bool(disks.why_no_loop(fs)), reason=f"{disks.why_no_loop(fs)}"))
            for fs in ("ext4", "xfs")
        ])
