"""Every meta store keeps the same promises: embedded, through a proxy's gateway, and etcd."""

import json
import os
import pathlib
import ssl
import subprocess
import time
import urllib.request

import pytest
from harness import client
from harness.etcd import (PASSWORD, allow_user, answers, make_certificates, make_secret, openssl, running_etcd, stop,
                          wait_alive)
from harness.waiting import assert_within, scaled

PROGRAMS = pathlib.Path(os.environ.get("TARN_BIN") or pathlib.Path(__file__).parents[2] / "build" / "release" / "test")


def run_suite(say, store, *arguments):
    """Runs the one suite that all stores must pass, and has tests/run print what it says."""
    done = subprocess.run([PROGRAMS / "tarn-meta-conformance", *map(str, arguments)], capture_output=True, text=True, timeout=180 * scaled(1))
    say("".join(f"meta store, {store}: {line}\n" for line in done.stdout.splitlines()).rstrip())
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert not failed and done.returncode == 0, "\n".join(failed) + done.stderr
    assert done.stdout.splitlines()[-1].endswith("checks hold")


@pytest.fixture
def etcd(tmp_path):
    with running_etcd(tmp_path) as url:
        yield url


@pytest.fixture
def guarded_etcd(tmp_path):
    """An etcd that wants TLS, a client certificate and a user, whose tokens end after two seconds. Its URL, and the
    options with which our programs get in."""
    make_certificates(tmp_path)
    openssl(tmp_path, "genrsa", "-out", "jwt.key", "2048")
    openssl(tmp_path, "rsa", "-in", "jwt.key", "-pubout", "-out", "jwt.pub")
    context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    context.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")
    words = ["--cert-file", tmp_path / "server.pem", "--key-file", tmp_path / "server.key", "--client-cert-auth",
             "--trusted-ca-file", tmp_path / "ca.pem", "--auth-token",
             f"jwt,pub-key={tmp_path}/jwt.pub,priv-key={tmp_path}/jwt.key,sign-method=RS256,ttl=2s"]
    password = tmp_path / "password"
    password.write_text(PASSWORD + "\n")
    password.chmod(0o600)
    with running_etcd(tmp_path, "https", words, context) as url:
        def post(path, body):
            request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            urllib.request.urlopen(request, timeout=10, context=context).read()

        allow_user(post)
        yield url, ["--meta-ca", tmp_path / "ca.pem", "--meta-cert", tmp_path / "client.pem",
                    "--meta-key", tmp_path / "client.key", "--meta-user", "tarn", "--meta-password-file", password]


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
        wait_alive(f"{name} has written {file}", process, file.exists)
        return process, json.loads(file.read_text())["urls"]

    yield start_node
    for process in reversed(running):
        stop(process)


@pytest.fixture
def proxy(start, tmp_path):
    process, urls = start("tarn-proxy", "p1", "--relay", "127.0.0.1:0")
    return process, urls, tmp_path / "p1" / "cluster.secret"


def test_embedded_store_keeps_the_promises(say, tmp_path):
    run_suite(say, "embedded", "--embedded", tmp_path / "meta")


def test_embedded_store_keeps_them_behind_the_gateway_of_a_proxy(say, proxy):
    _, urls, secret = proxy
    run_suite(say, "embedded, behind a proxy", urls["internal"], "--secret-file", secret)


def test_etcd_keeps_the_promises(say, etcd):
    run_suite(say, "etcd", etcd)


@pytest.mark.deep("more than 10 s")
def test_etcd_keeps_them_with_tls_and_a_user_whose_tokens_end(say, guarded_etcd):
    url, words = guarded_etcd
    run_suite(say, "etcd with TLS and a user", url, *words)


def test_nodes_live_on_an_etcd_with_tls_and_a_user(guarded_etcd, start, tmp_path):
    """Proxy and target log in, and again when their tokens end: the lease is renewed all the time."""
    url, words = guarded_etcd
    secret = make_secret(tmp_path / "secret")
    meta = ["--meta", url, *words, "--secret-file", secret]
    _, urls = start("tarn-proxy", "p1", "--relay", "127.0.0.1:0", *meta)
    drive = tmp_path / "drive"
    drive.mkdir()
    target, target_urls = start("tarn-target", "t1", "--drive", drive, *meta)
    wait_alive("t1 is ready", target, lambda: answers(target_urls["public"] + "/readyz"))
    deadline = time.monotonic() + 5  # more than a lease, and than two tokens
    while time.monotonic() < deadline:
        for node in (urls, target_urls):
            ready = client.request("GET", node["public"] + "/readyz")
            assert ready.status == 200, ready
        time.sleep(0.2)


@pytest.mark.parametrize("broken, complaint", [
    ({"--meta-ca": None}, "its certificate is not accepted"),
    ({"--meta-password-file": "wrong"}, "login of user 'tarn'"),
    ({"--meta-key": None}, "a client certificate and its key go together"),
])
def test_what_does_not_let_a_proxy_in_is_said(guarded_etcd, tmp_path, broken, complaint):
    url, words = guarded_etcd
    for flag, value in broken.items():
        at = words.index(flag)
        if value is None:
            del words[at:at + 2]
        else:
            words[at + 1] = tmp_path / value
            words[at + 1].write_text("nonsense\n")
            words[at + 1].chmod(0o600)
    done = run_program("tarn-proxy", "--dir", tmp_path / "p", "--meta", url, *words, "--secret-file",
                       make_secret(tmp_path / "secret"))
    assert done.returncode == 1 and complaint in done.stderr, done.stderr


def run_program(program, *words):
    """Runs a program that is expected to end by itself."""
    ports = ["--listen", "127.0.0.1:0", "--internal", "127.0.0.1:0"]
    relay = ["--relay", "127.0.0.1:0"] if program == "tarn-proxy" else []
    return subprocess.run([PROGRAMS / program, *ports, *relay, *map(str, words)], capture_output=True, text=True,
                          timeout=30 * scaled(1))


def test_nodes_without_the_secret_of_the_cluster_are_refused(etcd, start, tmp_path):
    start("tarn-proxy", "p1", "--relay", "127.0.0.1:0", "--meta", etcd, "--secret-file", make_secret(tmp_path / "secret"))
    (tmp_path / "drive").mkdir()
    other = make_secret(tmp_path / "other")
    for program, words in (("tarn-proxy", []), ("tarn-target", ["--drive", tmp_path / "drive"])):
        done = run_program(program, "--dir", tmp_path / "x", "--meta", etcd, *words, "--secret-file", other)
        assert done.returncode == 1 and "is not the one of the cluster in this meta store" in done.stderr, done.stderr
        done = run_program(program, "--dir", tmp_path / "x", "--meta", etcd, *words)
        assert done.returncode == 2 and "--secret-file" in done.stderr, done.stderr
    assert not any((tmp_path / "drive").iterdir())


def test_a_directory_serves_one_proxy_at_a_time(etcd, start, tmp_path):
    meta = ["--meta", etcd, "--secret-file", make_secret(tmp_path / "secret")]
    start("tarn-proxy", "p1", "--relay", "127.0.0.1:0", *meta)
    done = run_program("tarn-proxy", "--dir", tmp_path / "p1", *meta)
    assert done.returncode == 1 and "another proxy runs in" in done.stderr, done.stderr


def test_proxy_stops_at_once_although_a_target_watches_its_store(proxy, start, tmp_path):
    process, urls, secret = proxy
    drive = tmp_path / "drive"
    drive.mkdir()
    target, target_urls = start("tarn-target", "t1", "--drive", drive, "--join", urls["internal"], "--secret-file", secret)
    wait_alive("t1 is ready", target, lambda: answers(target_urls["public"] + "/readyz"))
    begun = time.monotonic()
    stop(process)
    assert process.returncode == 0
    assert_within(time.monotonic() - begun, 10, "a proxy stops")
