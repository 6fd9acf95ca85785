"""deploy/local-cluster: what scripts rely on, and its clear refusals."""

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from harness import client, nodes
from harness import cluster as cluster_module
from harness.cluster import KEYS, LOCAL_CLUSTER, PROGRAMS, process_is_alive, process_state, processes_naming
from harness.waiting import assert_within, guarded

SMALL = {"targets": 2, "drives": 1}


def local_cluster(*words):
    return subprocess.run([LOCAL_CLUSTER, *map(str, words)], capture_output=True, text=True, timeout=guarded(120))


def test_up_prints_endpoint_and_relay_and_an_object_can_be_stored(make_cluster):
    cluster = make_cluster(start=False, **SMALL)
    words = ["--port", "0", "--bin", str(cluster.programs), *cluster.options]
    lines = cluster.command("up", *words).stdout.splitlines()
    cluster.refresh()
    assert lines == [f"endpoint {cluster.endpoint}", f"relay {cluster.relay}"]
    assert cluster.put("data", "hello", b"world").status == 200
    assert cluster.get("data", "hello").body == b"world"
    # Nothing of the probe that `up` made is left.
    assert cluster.names("data") == ["hello"]


def test_status_tells_programs_what_runs_where(make_cluster):
    cluster = make_cluster(targets=2, drives=3)
    status = json.loads(cluster.command("status", "--json").stdout)
    assert status == json.loads(cluster.command("up", "--json", "--bin", str(cluster.programs)).stdout), "as `up` says it"
    assert [node["name"] for node in status["nodes"]] == ["p1", "t1", "t2"]
    assert [node["role"] for node in status["nodes"]] == ["proxy", "target", "target"]
    assert {node["state"] for node in status["nodes"]} == {"ready"}
    assert len({node["id"] for node in status["nodes"]}) == 3
    t2 = status["nodes"][2]
    assert t2["drives"] == [str(cluster.directory / "t2" / f"d{j}") for j in (1, 2, 3)]
    assert int((cluster.directory / "run" / "t2.pid").read_text()) == t2["pid"]
    assert (cluster.directory / "log" / "t2.log").stat().st_size > 0
    port = int(status["endpoint"].rpartition(":")[2])
    assert status["relay"] == f"http://127.0.0.1:{port + 1}"
    assert status["nodes"][0]["urls"]["internal"] == f"http://127.0.0.1:{port + 100}"


@pytest.mark.parametrize("program", ["proxy", "target"])
def test_every_setting_of_a_program_can_be_given_to_a_cluster(program):
    rows = subprocess.run([PROGRAMS / f"tarn-{program}", "--help-settings"], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^\| `([^`]+)`", rows, re.MULTILINE)) == KEYS[program]


LOCKS_A_FILE = """
import fcntl, sys, threading, time
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
for _ in range(30):
    threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
print("locked", flush=True)
time.sleep(300)
"""


@pytest.mark.deep("races with a kernel that ends threads; the lock was seen a moment longer once in some fifty gates")
def test_a_killed_process_is_gone_when_its_locks_are_released(tmp_path):
    """A start right after a kill found the index of its drive locked: the threads of the killed one were still ending."""
    path, ending = tmp_path / "lock", 0
    for _ in range(300):
        process = subprocess.Popen([sys.executable, "-c", LOCKS_A_FILE, path], stdout=subprocess.PIPE)
        with process:
            assert process.stdout.readline() == b"locked\n"
            process.kill()
            seen = set()
            while (state := process_state(process.pid)) is not None:
                seen.add(state)
            with open(path, "w") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ending += "X" in seen
        if ending == 5:
            break
    assert ending, "no killed process was seen while its threads ended"


def test_a_killed_node_comes_back_with_its_ports_and_its_data(make_cluster):
    cluster = make_cluster(**SMALL)
    names = [f"object-{i}" for i in range(20)]
    cluster.fill("data", names)
    before = cluster.nodes["t1"]
    cluster.kill("t1")
    assert not process_is_alive(before["pid"])
    cluster.refresh()
    assert (cluster.nodes["t1"]["state"], cluster.nodes["t1"]["pid"]) == ("down", None)
    cluster.start("t1")
    after = cluster.nodes["t1"]
    assert (after["state"], after["urls"], after["id"], after["drives"]) == (
        "ready", before["urls"], before["id"], before["drives"])
    assert cluster.bodies("data", names) == {name: name.encode() for name in names}


def test_stop_and_cont_freeze_a_node_and_wake_it(make_cluster):
    cluster = make_cluster(**SMALL)
    cluster.stop("t2")
    cluster.refresh()
    assert cluster.nodes["t2"]["state"] == "stopped"
    cluster.cont("t2")
    cluster.refresh()
    assert cluster.nodes["t2"]["state"] != "stopped"


def test_down_keeps_the_data_and_up_brings_it_back(make_cluster):
    cluster = make_cluster(**SMALL)
    assert cluster.put("data", "kept", b"x" * 1000).status == 200
    endpoint = cluster.endpoint
    cluster.down()
    cluster.refresh()
    assert {node["state"] for node in cluster.nodes.values()} == {"down"}
    cluster.up()
    assert cluster.endpoint == endpoint
    assert cluster.get("data", "kept").body == b"x" * 1000


def test_wipe_removes_everything_it_made_and_nothing_else(make_cluster, tmp_path):
    cluster = make_cluster(**SMALL)
    pids = [node["pid"] for node in cluster.nodes.values()]
    cluster.running = set()
    cluster.command("wipe")
    assert not cluster.directory.exists()
    assert not any(process_is_alive(pid) for pid in pids)

    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    result = local_cluster("wipe", "--dir", precious)
    assert result.returncode == 1 and "there is no cluster in" in result.stderr
    result = local_cluster("up", "--dir", precious, "--bin", PROGRAMS)
    assert result.returncode == 1 and "thesis.tex" in result.stderr
    assert [entry.name for entry in precious.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("words, says", [
    (["up", "--proxies", "2"], "--proxies 2 needs --meta etcd"),
    (["up", "--meta", "zookeeper"], "want embedded or etcd"),
    (["up", "--set", "no.such.key=1"], "--set no.such.key: no such key"),
    (["up", "--set", "log.level"], "want key=value"),
    (["up", "--targets", "0"], "--targets 0: want 1 to"),
    (["up", "--port", "70000"], "--port 70000: want 0 to"),
    (["up", "--env", "nonsense"], "--env nonsense: want NODE:KEY=VALUE"),
], ids=lambda value: "-".join(value) if isinstance(value, list) else "")
def test_what_is_not_there_is_refused_with_one_line(words, says, tmp_path):
    result = local_cluster(words[0], "--dir", tmp_path / "cluster", "--port", "0", "--bin", PROGRAMS, *words[1:]) \
        if words[0] == "up" else local_cluster(*words, "--dir", tmp_path / "cluster")
    assert result.returncode == 2
    assert says in result.stderr and len(result.stderr.splitlines()) == 1
    assert not processes_naming(str(tmp_path))


def test_unknown_node_and_missing_cluster_are_named(make_cluster, tmp_path):
    result = local_cluster("kill", "t1", "--dir", tmp_path / "nowhere")
    assert result.returncode == 1 and "there is no cluster in" in result.stderr
    cluster = make_cluster(**SMALL)
    result = cluster.command("kill", "t9", check=False)
    assert result.returncode == 1 and "there is no node t9" in result.stderr and "p1, t1, t2" in result.stderr
    result = cluster.command("start", "t1", check=False)
    assert result.returncode == 1 and "t1 is already running" in result.stderr


def test_another_cluster_is_not_started_over_an_existing_one(make_cluster):
    cluster = make_cluster(**SMALL)
    result = cluster.command("up", "--targets", "3", check=False)
    assert result.returncode == 1 and "another --targets" in result.stderr


def test_a_taken_port_is_named_before_anything_is_made(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = local_cluster("up", "--dir", tmp_path / "cluster", "--port", port, "--bin", PROGRAMS)
    assert result.returncode == 1 and f"port {port} of 127.0.0.1 is taken" in result.stderr
    assert not (tmp_path / "cluster").exists()


def test_of_two_clusters_on_one_port_at_the_same_moment_one_is_refused(tmp_path):
    """The second is refused although no node of the first listens yet."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with socket.socket(socket.AF_UNIX) as first:
        first.bind(f"\0tarn-local-cluster-127.0.0.1:{port}")
        result = local_cluster("up", "--dir", tmp_path / "cluster", "--port", port, "--bin", PROGRAMS)
    assert result.returncode == 1 and f"port {port} of 127.0.0.1 is taken" in result.stderr
    assert not (tmp_path / "cluster").exists()


def test_programs_that_are_not_built_are_asked_for(tmp_path):
    result = local_cluster("up", "--dir", tmp_path / "cluster", "--bin", tmp_path)
    assert result.returncode == 1 and "cmake --preset release" in result.stderr


def test_a_node_that_cannot_start_is_quoted_and_nothing_stays_behind(make_cluster):
    cluster = make_cluster(start=False, settings={"checksum.verify": "sometimes"}, **SMALL)
    result = cluster.command("up", "--port", "0", "--bin", str(cluster.programs), *cluster.options, check=False)
    assert result.returncode == 1
    assert "t1 ended while starting (exit code 2)" in result.stderr
    assert "checksum.verify" in result.stderr and "sometimes" in result.stderr
    assert "Traceback" not in result.stderr
    assert not processes_naming(str(cluster.directory))


def test_a_node_that_ends_while_it_is_stopped_is_no_error():
    """Its pid was read, and no process has it when the signal is sent."""
    ended = subprocess.Popen(["true"])
    ended.wait()

    class Node:
        name, role = "t1", "target"
        pids = [ended.pid]

        def pid(self):
            return self.pids.pop() if self.pids else None

        def wait_gone(self, pid, seconds):
            return process_state(pid) is None

    made = cluster_module.local_cluster.Cluster.__new__(cluster_module.local_cluster.Cluster)
    made.nodes = [Node()]
    made.stop()
    assert made.nodes[0].pids == []


def test_the_environment_reaches_the_nodes(make_cluster):
    cluster = make_cluster(environment={"t1": {"TARN_TEST_MARK": "only t1"}}, **SMALL)

    def environment(node):
        with open(f"/proc/{cluster.pid(node)}/environ", "rb") as file:
            return file.read().split(b"\0")

    assert b"TARN_TEST_MARK=only t1" in environment("t1")
    assert b"TARN_TEST_MARK=only t1" not in environment("t2")


def test_nodes_end_by_themselves_on_sigterm(make_cluster):
    cluster = make_cluster(**SMALL)
    result = cluster.down()
    assert "had to be killed" not in result.stderr
    assert cluster.command("down").returncode == 0  # it is so already


def test_a_target_that_stops_does_not_wait_for_its_next_heartbeat(make_cluster):
    cluster = make_cluster(targets=3, drives=1)
    path = "/v1/internal/heartbeat"
    waited = []
    for node in cluster.targets():
        proof = nodes.signed(cluster, "GET", path, "test")
        with client.open_stream("GET", cluster.url_of(node, "internal") + path, headers=proof) as beats:
            chunks = iter(beats)
            assert b"ready" in next(chunks) + next(chunks)  # the next one is a second away
            begun = time.monotonic()
            os.kill(cluster.pid(node), signal.SIGTERM)
            cluster.wait_exit(node)
            waited.append(time.monotonic() - begun)
            said = [b"about to end" in chunk for chunk in chunks]
            assert said == sorted(said), "ready, once it was about to end"
    # Of three, since others may use the machine.
    assert_within(min(waited), 0.6, "a target stops")


def test_a_second_proxy_on_the_same_directory_says_so_and_exits(make_cluster):
    cluster = make_cluster(targets=1, drives=1)
    result = subprocess.run(
        [PROGRAMS / "tarn-proxy", "--dir", cluster.directory / "p1", "--listen", "127.0.0.1:0", "--relay",
         "127.0.0.1:0", "--internal", "127.0.0.1:0"], capture_output=True, text=True, timeout=guarded(60))
    assert result.returncode == 1
    assert "exactly one proxy" in result.stderr
    # The first one is not disturbed: its node.json, too, is still its own.
    assert cluster.put("data", "still", b"here").status == 200
    cluster.refresh()
    assert cluster.nodes["p1"]["state"] == "ready"


@pytest.mark.parametrize("program", ["tarn-proxy", "tarn-target"])
def test_programs_explain_themselves(program):
    for word in ("--help", "--version"):
        result = subprocess.run([PROGRAMS / program, word], capture_output=True, text=True, timeout=guarded(30))
        assert result.returncode == 0 and "tarn" in (result.stdout + result.stderr).lower()
    result = subprocess.run([PROGRAMS / program, "--no-such-option"], capture_output=True, text=True, timeout=guarded(30))
    assert result.returncode == 2 and "--no-such-option" in result.stderr


def test_a_graceful_stop_lets_a_running_transfer_finish(make_cluster):
    cluster = make_cluster(targets=1, drives=1)
    body = bytes(range(256)) * (32 << 12)  # 32 MiB, more than the sockets hold
    assert cluster.put("data", "long", body).status == 200
    with client.open_stream("GET", cluster.url("data", "long")) as stream:
        first = stream.read_at_least(1)
        # The target is asked to stop while it still has most of the object to send.
        cluster.running.discard("t1")
        pid = cluster.pid("t1")
        os.kill(pid, signal.SIGTERM)
        rest = stream.response().body
    assert first + rest == body
    cluster.wait_exit("t1", 15)


def test_clusters_choose_ports_that_do_not_meet(make_cluster):
    first, second = make_cluster(targets=1, drives=1), make_cluster(targets=1, drives=1)
    ports = [url.rpartition(":")[2] for cluster in (first, second)
             for node in cluster.nodes.values() for url in node["urls"].values()]
    assert len(ports) == len(set(ports))
