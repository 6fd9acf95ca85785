"""Addresses as nodes read, write and tell them: IPv6 in brackets, and what is announced can be called by others."""

import json
import re
import subprocess
import urllib.parse

import pytest
import requests
from harness import client
from harness.cli import Cli
from harness.cluster import LOCAL_CLUSTER, PROGRAMS
from harness.etcd import free_port
from harness.waiting import guarded, wait_until


@pytest.mark.parametrize("meta", ["embedded", "etcd"])
def test_a_cluster_lives_at_an_ipv6_address(tmp_path, meta):
    directory = tmp_path / "cluster"
    up = subprocess.run([LOCAL_CLUSTER, "up", "--dir", directory, "--bin", PROGRAMS, "--port", "0", "--host", "::1", "--meta", meta,
                         "--targets", "2", "--drives", "1", "--json"], capture_output=True, text=True, timeout=guarded(120))
    try:
        assert up.returncode == 0, up.stderr
        status = json.loads(up.stdout)
        assert status["endpoint"].startswith("http://[::1]:") and status["relay"].startswith("http://[::1]:")
        for base in (status["endpoint"], status["relay"]):
            assert requests.put(f"{base}/data/x", data=b"by requests").status_code == 200
            assert requests.get(f"{base}/data/x").content == b"by requests"
            done = subprocess.run(["curl", "-gsLfT", "-", f"{base}/data/y"], input=b"by curl", timeout=guarded(60))
            assert done.returncode == 0 and client.request("GET", f"{base}/data/y").body == b"by curl"
        smap = requests.get(f"{status['endpoint']}/v1/daemon?what=smap").json()
        for node in (*smap["pmap"].values(), *smap["tmap"].values()):
            for net in (node["public_net"], node["intra_control_net"]):
                assert net["node_ip_addr"] == "::1" and net["direct_url"] == f"http://[::1]:{net['daemon_port']}", net
        cli = Cli(status["endpoint"])
        cli.ok("put", "-", "data/z", input=b"by tarn")
        assert cli.ok("cat", "data/z") == b"by tarn"
        assert cli.ok("node", "ls").count(b"http://[::1]:") == 3
        error = client.request("GET", f"{status['endpoint']}/data/none").json()
        assert re.fullmatch(r"\[::1\]:[0-9]+", error["remote_addr"]), error
    finally:
        subprocess.run([LOCAL_CLUSTER, "wipe", "--dir", directory], check=True, timeout=guarded(60))


def start_target(cluster, tmp_path, *words, runner=()):
    """A target beside those of the cluster; its log."""
    drive = tmp_path / "drive"
    drive.mkdir(parents=True)
    log = tmp_path / "target.log"
    with open(log, "wb") as file:
        process = subprocess.Popen([*runner, cluster.programs / "tarn-target", "--dir", tmp_path / "dir", "--drive", drive, *words],
                                   stderr=file, stdout=file)
    return process, log


@pytest.mark.parametrize("words, says", [
    (("--listen", "::1:8200"), "an IPv6 address stands in brackets: [::1]:8200"),
    (("--listen", "[::1]:0", "--internal", "[::1]:0", "--advertise", "http://0.0.0.0:8200"), "none that others can call"),
    (("--listen", "[::1]:0", "--internal", "[::1]:0", "--advertise", "10.0.0.5:8200"), "10.0.0.5:8200")])
def test_an_address_that_nobody_can_call_is_refused(cluster, tmp_path, words, says):
    process, log = start_target(cluster, tmp_path / "t", "--join", cluster.url_of("p1", "internal"), "--secret-file",
                                cluster.directory / "p1" / "cluster.secret", *words)
    try:
        assert process.wait(guarded(30)) != 0
        assert says in log.read_text(), log.read_text()
    finally:
        process.kill()


def test_clients_of_a_network_are_redirected_to_its_address(make_cluster, tmp_path):
    """The narrowest network that a client is in decides; for the relay, and copies between targets, it is that of the node."""
    port = free_port()
    cluster = make_cluster(targets=1, drives=1)
    process, log = start_target(
        cluster, tmp_path / "t", "--join", cluster.url_of("p1", "internal"), "--secret-file", cluster.directory / "p1" / "cluster.secret",
        "--listen", f"0.0.0.0:{port}", "--internal", "127.0.0.1:0", "--advertise", "http://127.0.0.1:1",
        "--advertise", f"127.0.0.1=http://127.0.0.1:{port}", "--advertise", "127.0.0.2=http://127.0.0.9:2",
        "--advertise", "127.0.0.0/30=http://127.0.0.8:2")
    try:
        wait_until(lambda: "target ready" in log.read_text() or process.poll() is not None, 60, "it is ready")
        assert process.poll() is None, log.read_text()

        def sent_to(source):
            """Where a client at `source` is sent for the names of that target."""
            command = ["curl", "-sS", "--interface", source, "-o", "/dev/null", "-w", "%{redirect_url}\n"]
            names = [f"{cluster.endpoint}/data/n-{number}" for number in range(32)]
            lines = subprocess.run([*command, *(word for name in names for word in ("-o", "/dev/null", name))],
                                   capture_output=True, text=True, timeout=guarded(60), check=True).stdout.split()
            return {line.split("/v1/")[0] for line in lines} - {cluster.url_of("t1")}

        wait_until(lambda: sent_to("127.0.0.2") == {"http://127.0.0.9:2"}, 30, "the proxy has heard of it")
        assert sent_to("127.0.0.3") == {"http://127.0.0.8:2"}
        assert sent_to("127.0.0.4") == {"http://127.0.0.1:1"}
        names = [f"n-{number}" for number in range(32)]
        relay = cluster.url_of("p1", "relay")
        for name in names:
            assert client.request("PUT", cluster.url("data", name, relay), name.encode()).status == 200
            assert client.request("GET", cluster.url("data", name, relay)).body == name.encode()
        copy = "?provider=ais&object_to=" + urllib.parse.quote("ais/@#/data/", safe="")
        for name in names:
            assert client.request("PUT", f"{relay}/v1/objects/data/{name}{copy}copy-of-{name}", b"").status == 200
    finally:
        process.kill()
        process.wait()


def test_a_listener_at_all_addresses_tells_the_one_that_others_reach(make_cluster, tmp_path):
    """Beside etcd on another machine: not 127.0.0.1, which each of the others would take for itself."""
    cluster = make_cluster(apart=True, targets=1, drives=1)
    network = cluster.network
    words = ("--meta", cluster.nodes["etcd1"]["urls"]["client"], "--secret-file", cluster.directory / "cluster.secret")
    machine = network.machines[-1]
    for host, announced in (("0.0.0.0", network.address(machine)), ("[::]", network.address(machine)), ("127.0.0.1", "127.0.0.1")):
        process, log = start_target(cluster, tmp_path / announced / host, "--listen", f"{host}:8200", "--internal", f"{host}:8201",
                                    *words, runner=network.runner(machine))
        try:
            wait_until(lambda: "target ready" in log.read_text() or process.poll() is not None, 30, "it is ready")
            text = log.read_text()
            assert "target ready" in text and f"public=http://{announced}:8200 internal=http://{announced}:8201" in text, text
            assert ("others cannot call this node" in text) == (host == "127.0.0.1"), text
        finally:
            process.kill()
            process.wait()
