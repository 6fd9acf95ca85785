"""deploy/quickstart: the demonstration works with a directory given, says what failed, and leaves nothing behind."""

import os
import re
import shutil
import signal
import subprocess
import threading

import pytest
from harness.cluster import PROGRAMS, REPOSITORY, processes_naming
from harness.waiting import guarded, wait_until

QUICKSTART = REPOSITORY / "deploy" / "quickstart"


@pytest.fixture
def start(tmp_path):
    """Starts quickstart with its temporary files below the test's directory."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    started = []

    def start(*words, programs=PROGRAMS, quickstart=QUICKSTART):
        process = subprocess.Popen([quickstart, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=os.environ | {"TMPDIR": str(temporary), "TARN_BIN": str(programs)},
                                   start_new_session=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
    assert not processes_naming(str(temporary))


@pytest.fixture
def files(tmp_path, rng):
    folder = tmp_path / "files"
    folder.mkdir()
    for i in range(300):
        (folder / f"{i % 7}.{i}.some name").write_bytes(rng.randbytes(rng.randrange(30_000)))
    return folder


@pytest.mark.deep("the gate runs the quickstart itself")
def test_it_moves_a_directory_through_a_cluster_and_compares(start, files, tmp_path):
    process = start(files)
    output, _ = process.communicate(timeout=guarded(120))
    assert process.returncode == 0, output
    assert "300 samples, each once, every byte equal" in output
    total = sum(path.stat().st_size for path in files.iterdir())
    measured = output.splitlines()[-6:-2]
    assert measured[0].startswith(f"  bytes verified: {total},")
    assert re.search(r"^  GET of 64 MiB: [\d.]+ GB/s, [\d.]+ CPU s/GB; (nginx|reading the files without a server) [\d.]+ GB/s, "
                     r"[\d.]+ CPU s/GB", measured[1]), measured
    assert re.search(r"^  16 readers of one drive: \d+\.\d+ of one reader's rate \(\d+ of \d+ MB/s, ", measured[2]), measured
    assert re.search(r"^  survived: kill -9 of t\d .*; back after [\d.]+ s, no sample lost", measured[3]), measured
    assert "kill -9 t" in output and "its names answer 503 with Retry-After" in output
    commands = output.partition("Try next:\n")[2].splitlines()
    assert output.rstrip().splitlines()[-1].endswith("docs/upstream.md"), "where data in clouds is explained"
    assert commands[0].split("#")[0].split()[:2] == ["deploy/local-cluster", "up"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_is_not_a_directory_is_refused(start, tmp_path):
    process = start(tmp_path / "nowhere")
    output, _ = process.communicate(timeout=guarded(30))
    assert process.returncode == 2 and "is not a directory" in output


@pytest.fixture
def failing_programs(tmp_path):
    """A folder of programs of which the proxy ends at once."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "tarn-target").symlink_to(PROGRAMS / "tarn-target")
    (programs / "tarn-proxy").write_text("#!/bin/sh\necho the disk is on fire >&2\nexit 1\n")
    (programs / "tarn-proxy").chmod(0o755)
    return programs


def test_a_failure_names_the_step_and_the_logs(start, files, failing_programs):
    process = start(files, programs=failing_programs)
    output, _ = process.communicate(timeout=guarded(60))
    assert process.returncode == 1
    assert 'failed at "start one proxy' in output and "the disk is on fire" in output and "/log" in output


def test_two_at_once_share_a_fresh_checkout(start, files, failing_programs, monkeypatch, tmp_path):
    deploy = tmp_path / "checkout" / "deploy"
    shutil.copytree(QUICKSTART.parent, deploy)
    (deploy / "demo" / "requirements.txt").write_text("webdataset\n")  # nothing is read, so a small one does
    monkeypatch.setenv("PIP_NO_DEPS", "1")
    both = [start(files, programs=failing_programs, quickstart=deploy / "quickstart") for _ in range(2)]
    for process in both:
        output, _ = process.communicate(timeout=guarded(600))  # pip loads packages, on a machine with other work
        assert "the disk is on fire" in output, output


def test_an_interrupt_stops_everything(start, files, tmp_path):
    process = start(files)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("== send them"):
            break
    os.killpg(process.pid, signal.SIGINT)
    # bash forgets one in some hundred interrupts, those that come as a command substitution ends. A user presses again.
    again = threading.Timer(10, os.killpg, (process.pid, signal.SIGINT))
    again.start()
    output = "".join(lines) + process.stdout.read()
    again.cancel()
    assert process.wait(guarded(60)) == 130, output
    assert "interrupted" in output
    wait_until(lambda: list((tmp_path / "tmp").iterdir()) == [], 5, "its directory is removed")
