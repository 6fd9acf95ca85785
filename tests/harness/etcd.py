"""An etcd of a test's own, as an operator would run it, and other small things around meta stores."""

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import pytest

from harness.waiting import guarded


def wait_alive(what, process, condition, seconds=20):
    """Waits for a condition while a program must go on to run."""
    deadline = time.monotonic() + guarded(seconds)
    while not condition():
        assert process.poll() is None, f"{what}: the program ended with {process.returncode}"
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def answers(url, context=None):
    try:
        with urllib.request.urlopen(url, timeout=1, context=context) as answer:
            return answer.status == 200
    except OSError:
        return False


def stop(process, seconds=40):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=guarded(seconds))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running_etcd(directory, scheme="http", words=(), context=None):
    """One etcd, ready; the URL of its clients."""
    binary = shutil.which("etcd")
    if binary is None:
        pytest.skip("etcd is not installed (deploy/install-deps --test)")
    client, peer = free_port(), free_port()
    url = f"{scheme}://127.0.0.1:{client}"
    with open(directory / "etcd.log", "wb") as log:
        process = subprocess.Popen(
            [binary, "--data-dir", directory / "etcd", "--log-level", "error",
             "--listen-client-urls", url, "--advertise-client-urls", url,
             "--listen-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-cluster", f"default=http://127.0.0.1:{peer}", *words],
            stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_alive("etcd answers", process, lambda: answers(url + "/health", context))
            yield url
        finally:
            stop(process)


def openssl(directory, *words):
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True, timeout=60)


def make_certificates(directory):
    """An authority, a server's certificate for 127.0.0.1 and a client's, as an operator makes them."""
    openssl(directory, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=authority",
            "-keyout", "ca.key", "-out", "ca.pem")
    for name, subject in (("server", "/O=etcd"), ("client", "/O=tarn")):
        openssl(directory, "req", "-newkey", "rsa:2048", "-nodes", "-subj", subject, "-keyout", f"{name}.key", "-out", "csr")
        (directory / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl(directory, "x509", "-req", "-in", "csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "2", "-extfile", "ext", "-out", f"{name}.pem")


PASSWORD = "correct horse"


def allow_user(post):
    """The user `tarn`, who may touch its own keys and those of the suite and nothing else; then etcd asks for users."""
    post("/v3/auth/user/add", {"name": "root", "password": "r"})
    post("/v3/auth/role/add", {"name": "root"})
    post("/v3/auth/user/grant", {"user": "root", "role": "root"})
    post("/v3/auth/user/add", {"name": "tarn", "password": PASSWORD})
    post("/v3/auth/role/add", {"name": "tarn"})
    for first, last in (("/tarn-", "/tarn0"), ("/conformance/", "/conformance0")):
        post("/v3/auth/role/grant", {"name": "tarn", "perm": {"permType": "READWRITE", "key": base64_of(first),
                                                              "range_end": base64_of(last)}})
    post("/v3/auth/user/grant", {"user": "tarn", "role": "tarn"})
    post("/v3/auth/enable", {})


def base64_of(text):
    return base64.b64encode(text.encode()).decode()


def make_secret(file):
    file.write_text(os.urandom(32).hex() + "\n")
    file.chmod(0o600)
    return file


def call_etcd(url, path, body, timeout=10):
    """One call of etcd's gateway."""
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


def is_leader(url):
    status = call_etcd(url, "/v3/maintenance/status", {})
    return status.get("leader") == status["header"]["member_id"]  # without a quorum there is none


def revision(url):
    answer = call_etcd(url, "/v3/kv/range", {"key": base64_of("/tarn/cluster")})
    return int(answer["header"]["revision"])


def forget_changes(url):
    """Compaction: a watcher that has not seen all changes can no longer get them."""
    call_etcd(url, "/v3/kv/compaction", {"revision": str(revision(url)), "physical": True})


class Commits:
    """Writes through each of these members, as long as it is entered: when etcd took a write."""

    def __init__(self, urls):
        self._times, self._stop = [time.monotonic()], threading.Event()
        self._writers = [threading.Thread(target=self._write, args=(url,), daemon=True) for url in urls]

    def __enter__(self):
        for writer in self._writers:
            writer.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for writer in self._writers:
            writer.join()

    def _write(self, url):
        while not self._stop.wait(0.05):
            with contextlib.suppress(OSError, ValueError):
                call_etcd(url, "/v3/kv/put", {"key": base64_of("/probe"), "value": ""}, timeout=1)
                self._times.append(time.monotonic())

    def longest_gap(self):
        """For how many seconds on end it took none, until now."""
        times = sorted([*self._times, time.monotonic()])
        return max(after - before for before, after in zip(times, times[1:]))
