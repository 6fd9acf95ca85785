"""Fixtures of tests of the command line, of buckets with an upstream, and of the Helm chart."""

import functools
import hashlib

import pytest
from harness import upstreams
from harness.cli import Cli
from harness.helm import Helm
from harness.upstreams import FlawedServer, MinioServer, S3Server, WebServer


@pytest.fixture
def cli(cluster):
    return Cli(cluster.endpoint)


@pytest.fixture
def here(tmp_path):
    """A directory that only the command under test writes to."""
    directory = tmp_path / "here"
    directory.mkdir()
    return directory


@pytest.fixture(scope="module", params=[S3Server, pytest.param(MinioServer, marks=pytest.mark.deep)], ids=lambda each: each.name)
def s3(request, tmp_path_factory):
    """A real S3 server; deep tests run with a second one, whose program takes minutes to build."""
    with request.param(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def flawed():
    server = FlawedServer()
    yield server
    server.stop()


@pytest.fixture
def upstream_cluster(make_cluster):
    return functools.partial(upstreams.upstream_cluster, make_cluster)


@pytest.fixture
def new_bucket(upstream_cluster, s3, request):
    """(cluster, "s3://name", name) of a new bucket."""
    name = "b" + hashlib.md5(request.node.name.encode()).hexdigest()[:12]
    s3.client.create_bucket(Bucket=name)
    cluster = upstream_cluster(s3)
    assert upstreams.make_bucket(cluster, f"s3://{name}", s3.url).status == 200
    return cluster, f"s3://{name}", name


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    with WebServer(tmp_path_factory.mktemp("web")) as server:
        yield server


@pytest.fixture(scope="module")
def helm(tmp_path_factory):
    return Helm(tmp_path_factory.mktemp("helm"))
