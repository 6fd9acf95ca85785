"""Fixtures for all tests, and the record of what ran that tests/run reads."""

import contextlib
import itertools
import json
import os
import random
import shutil

import pytest

from harness import netns
from harness.cluster import PROGRAMS, Cluster, processes_naming
from harness.waiting import IN_GATE

# Clusters that are up while a test runs; their logs are shown when it fails.
_live = []
_failed = pytest.StashKey()
_is_worker = []


# --- reports -----------------------------------------------------------------------------------------------------

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        item.stash[_failed] = True
        for cluster in _live:
            for name, lines in cluster.last_lines().items():
                report.sections.append((f"last log lines of {name} in {cluster.directory}", lines))
    return report


def pytest_configure(config):
    # Of processes that share the tests (pytest-xdist), the one to which they report writes the record.
    worker = getattr(config, "workerinput", None)
    if worker:
        _is_worker.append(True)
        number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        os.environ["TARN_PORT_SHARE"] = f"{number % count}/{count}"


def _record(outcome, test, when, reason="", says=(), seconds=0.0):
    path = os.environ.get("TARN_TEST_REPORT")
    if path and not _is_worker:
        with open(path, "a") as report:
            report.write(json.dumps({"outcome": outcome, "test": test, "when": when, "reason": reason, "says": says,
                                     "seconds": seconds}) + "\n")


def _place_of_failure(report):
    """FILE:LINE: MESSAGE, on one line, or nothing."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return f"{os.path.basename(crash.path)}:{crash.lineno}: {' '.join(crash.message.split())}" if crash else ""


def pytest_runtest_logreport(report):
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        # An expected failure is a test that is left out, too.
        _record("skipped", report.nodeid, report.when, getattr(report, "wasxfail", "") or reason.removeprefix("Skipped: "),
                seconds=report.duration)
    elif report.failed:
        _record("failed", report.nodeid, report.when, _place_of_failure(report), says=_said(report), seconds=report.duration)
    elif report.when == "call":
        _record("passed", report.nodeid, report.when, says=_said(report), seconds=report.duration)
    else:
        _record("prepared", report.nodeid, report.when, seconds=report.duration)


# --- gate and deep -----------------------------------------------------------------------------------------------

def _is_of_gate(item):
    """True if the gate runs the test: the marks `gate` and `deep` say, else the folder does (docs/testing.md)."""
    if item.get_closest_marker("deep") or item.get_closest_marker("alone"):
        return False
    return bool(item.get_closest_marker("gate")) or not item.nodeid.startswith("tests/fault/")


def pytest_collection_modifyitems(config, items):
    if not IN_GATE:
        return
    config.hook.pytest_deselected(items=[item for item in items if not _is_of_gate(item)])
    items[:] = [item for item in items if _is_of_gate(item)]


def _said(report):
    return [value for name, value in report.user_properties if name == "says"]


@pytest.fixture
def say(record_property):
    """Prints a text below the runner's closing lines, also when the test passes."""
    return lambda text: record_property("says", text)


def pytest_collectreport(report):
    if report.skipped:  # a whole file that skipped itself
        _record("skipped", report.nodeid, "collect", report.longrepr[2].removeprefix("Skipped: "))


# --- randomness --------------------------------------------------------------------------------------------------

def seed_of_run():
    """A number from the environment, or else by chance."""
    return int(os.environ.get("TARN_TEST_SEED") or random.SystemRandom().randrange(2**32))


@pytest.fixture
def seed(request):
    """A number that makes the run of this test repeatable; shown when the test fails."""
    value = seed_of_run()
    print(f"seed {value}; repeat: TARN_TEST_SEED={value} tests/run {request.node.nodeid}")
    return value


@pytest.fixture
def rng(seed):
    return random.Random(seed)


# --- clusters ----------------------------------------------------------------------------------------------------

def _check(cluster):
    complaints = cluster.complaints()
    assert not complaints, "\n".join(complaints)


@pytest.fixture
def make_cluster(request, tmp_path, seed):
    """Makes clusters that belong to this test alone: `make_cluster(targets=1, settings={...})`, started unless
    `start=False`. Where names lie follows from the test and its seed. With `apart` each node has a machine of its own, with an address of its own (`cluster.network`), and
    the meta store is etcd. They are checked, stopped and removed at the end."""
    made, networks = [], contextlib.ExitStack()

    def make(start=True, fail_points=None, environment=None, directory=None, apart=False, **options):
        if apart:
            reason = netns.why_no_network()
            if reason:
                pytest.skip(reason)
            options.setdefault("meta", "etcd")  # several machines have no embedded store
            options["network"] = networks.enter_context(netns.machine_of_each(**options))
        options.setdefault("identities", f"{seed} {request.node.nodeid} {len(made)}")
        cluster = Cluster(directory or tmp_path / f"cluster{len(made)}", **options)
        made.append(cluster)
        _live.append(cluster)
        if start:
            cluster.up(fail_points=fail_points, environment=environment)
        return cluster

    yield make
    problems = []
    for cluster in made:
        problems += cluster.complaints()
        if cluster.network:
            cluster.network.heal()  # so that nodes can end in good order
    for cluster in made:
        failed = request.node.stash.get(_failed, False)
        if failed or problems:
            _keep_evidence(cluster)
        try:
            cluster.close(keep_data=bool(failed or problems))
            problems += cluster.complaints()  # of the way down
        except AssertionError as error:
            problems.append(str(error))
        if failed and not os.environ.get("TARN_TEST_KEEP"):
            _remove_drives(cluster)
    networks.close()
    assert not problems, "\n".join(dict.fromkeys(problems))


def _keep_evidence(cluster):
    """For tests/soak: the logs of all nodes, where they are not overwritten by the next round."""
    evidence = os.environ.get("TARN_TEST_EVIDENCE")
    if evidence and (cluster.directory / "log").is_dir():
        shutil.copytree(cluster.directory / "log", f"{evidence}/log-{cluster.directory.name}", dirs_exist_ok=True)


def _remove_drives(cluster):
    """The logs of a failed test are worth their room, gigabytes of objects are not."""
    for drive in cluster.directory.glob("t*/d*"):
        shutil.rmtree(drive, ignore_errors=True)


@pytest.fixture(autouse=True)
def _forget_clusters():
    """Runs around all other fixtures of a test: the logs stay at hand until the teardown has been reported."""
    yield
    _live[:] = [cluster for cluster in _live if cluster is _shared.get("cluster")]


@pytest.fixture
def fresh_cluster(make_cluster):
    """One proxy and four targets for this test alone: for tests that kill, stop or fill."""
    return make_cluster()


_shared = {}


@pytest.fixture(scope="session")
def _session_cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("shared") / "cluster", identities=f"{seed_of_run()} shared")
    _live.append(cluster)
    _shared["cluster"] = cluster
    cluster.up()
    yield cluster
    _live.remove(cluster)
    _shared.clear()
    cluster.begin_test()
    cluster.close(keep_data=True)
    _check(cluster)  # the way down: leaks are reported at the very end
    cluster.close()


@pytest.fixture
def cluster(_session_cluster):
    """The cluster that all cheap tests share: they leave every node alive, and keep to buckets of their own."""
    _session_cluster.begin_test()
    yield _session_cluster
    try:
        _check(_session_cluster)
    finally:
        _session_cluster.heal()


_bucket_numbers = itertools.count(1)


@pytest.fixture
def bucket(cluster):
    """A new bucket of the shared cluster, destroyed afterwards."""
    name = cluster.create_bucket(f"bucket-{next(_bucket_numbers)}")
    yield name
    cluster.destroy_bucket(name)


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_behind(tmp_path_factory):
    """No program of ours outlives the tests."""
    yield
    left = [found for found in processes_naming(str(tmp_path_factory.getbasetemp())) if "tarn-" in found[1]]
    for pid, _ in left:
        os.kill(pid, 9)
    assert not left, f"processes that outlived the tests: {left}"


def pytest_report_header():
    return f"programs: {PROGRAMS}"
