"""tests/bench/run: it measures what it says, in the form that scripts read, and leaves nothing behind."""

import json
import os
import re
import signal
import subprocess

import pytest
from harness.cluster import PROGRAMS, REPOSITORY, processes_naming
from harness.waiting import scaled, wait_until

RUN = REPOSITORY / "tests" / "bench" / "run"


@pytest.fixture
def scratch(tmp_path):
    """Where the benchmark works; it must be empty again afterwards."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    yield directory
    assert list(directory.iterdir()) == []
    assert not processes_naming(str(directory))


def run(*words, programs=PROGRAMS):
    return subprocess.run([RUN, *map(str, words), "--bin", str(programs)], capture_output=True, text=True, timeout=scaled(240))


@pytest.mark.deep("measures the machine")
def test_rows_are_measured_and_printed_as_json(scratch):
    # start_first_put_s asks the proxy before a target has joined: that must not close the cluster to all targets.
    rows = ["redirect_cpu", "get_4KiB_redirected_cpu", "start_first_put_s"]
    result = run(*rows, "--json", "--rounds", 1, "--dir", scratch)
    assert result.returncode == 0, result.stdout + result.stderr
    records = {record["name"]: record for record in map(json.loads, result.stdout.splitlines())}
    assert sorted(records) == sorted(rows), "exactly the rows that were asked for"
    for record in records.values():
        assert record["value"] > 0 and record["rounds"] == 1
        assert record["pass"] is (record["value"] <= record["target"])
        assert record["command"] and record["caches"] and record["of"]
    # Both sides are there, and the value is their ratio.
    raw = records["redirect_cpu"]["raw"]
    mine, theirs = (raw[f"{side}, cpu us/request"]["median"] for side in ("tarn", "nginx"))
    assert records["redirect_cpu"]["value"] == pytest.approx(mine / theirs, rel=0.01)
    assert records["redirect_cpu"]["of"] == "nginx return 302"
    # A request through proxy and target costs more than one to nginx; below that it would not be one.
    assert records["get_4KiB_redirected_cpu"]["value"] > 1


def test_a_row_that_cannot_be_measured_says_why(scratch, tmp_path):
    programs = tmp_path / "bin"  # all but the emulated drive
    programs.mkdir()
    for program in PROGRAMS.iterdir():
        if program.name != "tarn-bench-drive":
            (programs / program.name).symlink_to(program)
    result = run("readers_4_on_one_drive", "--json", "--dir", scratch, programs=programs)
    assert result.returncode == 1
    record = json.loads(result.stdout)
    assert record["value"] is None and "libfuse3-dev" in record["unavailable"], record


@pytest.mark.deep("measures the machine")
def test_an_interrupt_leaves_nothing(scratch):
    process = subprocess.Popen([RUN, "drives_sum", "--quick", "--dir", str(scratch), "--bin", str(PROGRAMS)],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_until(lambda: process.poll() is not None or any("tarn-target" in command for _, command
                                                             in processes_naming(str(scratch))),
                   60, "a target runs on emulated drives")
        assert process.poll() is None, process.stdout.read()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=scaled(40))
        assert process.returncode == 130, output
    finally:
        process.kill()
        process.communicate()
    assert str(scratch) not in open("/proc/self/mounts").read()


def test_a_row_that_is_not_there_is_refused():
    result = run("get_2GiB_cpu")
    assert result.returncode == 2 and "there is no row get_2GiB_cpu" in result.stderr


def test_the_document_has_every_row_with_its_target():
    def rows(text):
        return re.findall(r"^\| (`\w+`) \|[^|]*\| ([^|]*) \| ([^|]*) \|", text, re.MULTILINE)

    table = subprocess.run([RUN, "--markdown", "--from", os.devnull], capture_output=True, text=True, check=True).stdout
    assert len(rows(table)) > 30
    assert rows((REPOSITORY / "docs" / "performance.md").read_text()) == rows(table)
