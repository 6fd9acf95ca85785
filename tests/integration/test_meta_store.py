"""Every meta store keeps the same promises: embedded, through a proxy's gateway, and etcd."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

PROGRAMS = pathlib.Path(os.environ.get("TARN_BIN") or pathlib.Path(__file__).parents[2] / "build" / "test" / "bin")
SLOWDOWN = float(os.environ.get("TARN_TEST_SLOWDOWN") or 1)


def run_suite(*arguments):
    done = subprocess.run([PROGRAMS / "tarn-meta-conformance", *map(str, arguments)], capture_output=True, text=True, timeout=180 * SLOWDOWN)
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert not failed and done.returncode == 0, "\n".join(failed) + done.stderr
    assert done.stdout.splitlines()[-1].endswith("checks hold")


def wait_until(what, process, condition, seconds=20):
    deadline = time.monotonic() + seconds * SLOWDOWN
    while not condition():
        assert process.poll() is None, f"{what}: the program ended with {process.returncode}"
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False


def stop(process, seconds=40):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=seconds * SLOWDOWN)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def etcd(tmp_path):
    binary = shutil.which("etcd")
    if binary is None:
        pytest.skip("etcd is not installed (deploy/install-deps --test)")
    client, peer = free_port(), free_port()
    url = f"http://127.0.0.1:{client}"
    with open(tmp_path / "etcd.log", "wb") as log:
        process = subprocess.Popen(
            [binary, "--data-dir", tmp_path / "etcd", "--log-level", "error",
             "--listen-client-urls", url, "--advertise-client-urls", url,
             "--listen-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-cluster", f"default=http://127.0.0.1:{peer}"],
            stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until("etcd answers", process, lambda: answers(url + "/health"))
            yield url
        finally:
            stop(process)


@pytest.fixture
def start(tmp_path):
    """Starts a node in a directory of its own and waits for its node.json; stops all at the end."""
    running = []

    def start_node(program, name, *words):
        with open(tmp_path / f"{name}.log", "wb") as log:
            process = subprocess.Popen([PROGRAMS / program, "--dir", tmp_path / name, "--listen", "127.0.0.1:0",
                                        "--internal", "127.0.0.1:0", *words], stdout=log, stderr=subprocess.STDOUT)
        running.append(process)
        file = tmp_path / name / "node.json"
        wait_until(f"{name} has written {file}", process, file.exists)
        return process, json.loads(file.read_text())["urls"]

    yield start_node
    for process in reversed(running):
        stop(process)


@pytest.fixture
def proxy(start, tmp_path):
    process, urls = start("tarn-proxy", "p1", "--relay", "127.0.0.1:0")
    return process, urls, tmp_path / "p1" / "cluster.secret"


def test_embedded_store_keeps_the_promises(tmp_path):
    run_suite("--embedded", tmp_path / "meta")


def test_embedded_store_keeps_them_behind_the_gateway_of_a_proxy(proxy):
    _, urls, secret = proxy
    run_suite(urls["internal"], "--secret-file", secret)


def test_etcd_keeps_the_promises(etcd):
    run_suite(etcd)


def test_proxy_stops_at_once_although_a_target_watches_its_store(proxy, start, tmp_path):
    process, urls, secret = proxy
    drive = tmp_path / "drive"
    drive.mkdir()
    target, target_urls = start("tarn-target", "t1", "--drive", drive, "--join", urls["internal"], "--secret-file", secret)
    wait_until("t1 is ready", target, lambda: answers(target_urls["public"] + "/readyz"))
    begun = time.monotonic()
    stop(process)
    assert process.returncode == 0
    assert time.monotonic() - begun < 10 * SLOWDOWN
