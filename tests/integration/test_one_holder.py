"""One identity runs once: what a copy of a node's directory may do beside it, and what a node does that is not registered."""

import base64
import json
import shutil
import subprocess

import pytest
from harness.cluster import SHORT_LEASES
from harness.etcd import base64_of
from harness.nodes import kv, stored
from harness.waiting import guarded, wait_until


def start_copy(cluster, name, tmp_path, *words, runner=()):
    """The program of node `name` from a copy of its directory, at other ports; (process, log)."""
    copy = tmp_path / "copy"
    shutil.copytree(cluster.directory / name, copy, ignore=shutil.ignore_patterns("LOCK"))
    log = tmp_path / "copy.log"
    role = cluster.nodes[name]["role"]
    with open(log, "wb") as file:
        process = subprocess.Popen([*runner, cluster.programs / f"tarn-{role}", "--dir", copy, "--listen", "127.0.0.1:0", "--internal",
                                    "127.0.0.1:0", *words], stdout=file, stderr=file)
    return process, log


@pytest.mark.parametrize("meta, name", [("embedded", "t1"), ("etcd", "t1"), ("etcd", "p2")])
def test_a_copy_of_a_running_node_is_refused(make_cluster, tmp_path, meta, name):
    cluster = make_cluster(meta=meta, proxies=2 if meta == "etcd" else 1, targets=2, drives=1)
    for i in range(20):
        assert cluster.put("data", f"o{i}", b"%d" % i).status == 200
    words = ["--relay", "127.0.0.1:0"] if name == "p2" else ["--drive", tmp_path / "copy" / "d1"]
    if meta == "etcd":
        words += ["--meta", cluster.nodes["etcd1"]["urls"]["client"], "--secret-file", cluster.directory / "cluster.secret"]
    else:
        words += ["--join", cluster.url_of("p1", "internal"), "--secret-file", cluster.directory / "p1" / "cluster.secret"]
    before = stored(cluster, f"/tarn/live/{cluster.nodes[name]['id']}")
    process, log = start_copy(cluster, name, tmp_path, *words)
    try:
        assert process.wait(guarded(30)) == 1, log.read_text()
        said = [line for line in log.read_text().splitlines() if f"at {cluster.url_of(name)}: a node runs once" in line]
        assert f"node {cluster.nodes[name]['id']} runs already, as process {cluster.pid(name)} on" in said[-1], log.read_text()
    finally:
        process.kill()
    assert json.loads(stored(cluster, f"/tarn/live/{cluster.nodes[name]['id']}")[0])["holder"] == json.loads(before[0])["holder"]
    for i in range(20):
        assert cluster.get("data", f"o{i}").body == b"%d" % i
    assert len(cluster.names("data")) == 20


CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")  # its pids mean nothing outside


def test_a_copy_in_another_container_waits_for_the_end_of_the_lease(make_cluster, tmp_path):
    """The copy cannot see the process that holds the lease. It is refused while that is renewed, and starts when it has ended."""
    cluster = make_cluster(meta="etcd", targets=1, drives=1, settings=SHORT_LEASES)
    assert cluster.put("data", "x", b"kept").status == 200
    words = ["--drive", tmp_path / "copy" / "d1", "--meta", cluster.nodes["etcd1"]["urls"]["client"], "--secret-file",
             cluster.directory / "cluster.secret", "--set", f"lease.term={SHORT_LEASES['lease.term']}"]
    process, log = start_copy(cluster, "t1", tmp_path, *words, runner=CONTAINER)
    assert process.wait(guarded(30)) == 1 and "runs already" in log.read_text(), log.read_text()
    wait_until(lambda: cluster.put("data", "x", b"still").status == 200, 10, "the one that runs takes writes")
    cluster.kill("t1")
    shutil.rmtree(tmp_path / "copy")
    process, log = start_copy(cluster, "t1", tmp_path, *words, runner=CONTAINER)
    try:
        wait_until(lambda: "target ready" in log.read_text(), 20, "the lease has ended")
    finally:
        process.kill()
        process.wait()


def live_key(cluster, name):
    return f"/tarn/live/{cluster.nodes[name]['id']}"


def test_a_node_that_is_not_registered_says_so_and_registers_anew(make_cluster):
    """The node's entry is gone although its lease holds. Others take it for down, so it may not go on as if it were up."""
    cluster = make_cluster(meta="etcd", targets=2, drives=1)
    name = cluster.names_owned_by("t1", "data", 1)[0]
    assert cluster.put("data", name, b"kept").status == 200
    for node in ("t1", "p1"):
        _, revision = stored(cluster, live_key(cluster, node))
        kv(cluster, "deleterange", {"key": base64_of(live_key(cluster, node))})
        wait_until(lambda: cluster.logs[node].matching("lease gone .*the node is not registered"), 10, f"{node} says so")
        wait_until(lambda: cluster.logs[node].matching("lease taken anew"), 10, f"{node} has registered anew")
        assert int(stored(cluster, live_key(cluster, node))[1]) > int(revision)
    wait_until(lambda: cluster.put("data", name, b"again").status == 200, 10, "it takes writes again")
    assert cluster.get("data", name).body == b"again"


def test_a_node_whose_entry_is_anothers_takes_no_writes(make_cluster):
    """Another process has the entry: one of an old version that did not look, or one on an unknown machine."""
    cluster = make_cluster(meta="etcd", targets=1, drives=1, settings=SHORT_LEASES)
    assert cluster.put("data", "x", b"before").status == 200
    key = live_key(cluster, "t1")
    direct = cluster.put("data", "y", b"", follow=False).headers["Location"]
    assert direct
    record = json.loads(stored(cluster, key)[0])
    own = record["holder"]
    record["holder"] = "another0another0 1 1 elsewhere elsewhere"
    kv(cluster, "put", {"key": base64_of(key), "value": base64.b64encode(json.dumps(record).encode()).decode()})
    wait_until(lambda: cluster.logs["t1"].matching("registered by another process"), 10, "it says so")
    wait_until(lambda: cluster.logs["t1"].matching("lease not renewed .*runs already, as process 1 on elsewhere"), 10, "and who it is")
    assert cluster.put("data", "x", b"after").status == 503
    assert json.loads(stored(cluster, key)[0])["holder"] == record["holder"], "it takes nothing back"
    # That one is gone.
    kv(cluster, "deleterange", {"key": base64_of(key)})
    wait_until(lambda: cluster.put("data", "x", b"after").status == 200, 20, "it is registered again")
    assert json.loads(stored(cluster, key)[0])["holder"] == own


def test_a_node_that_was_cut_off_says_that_another_one_has_its_place(make_cluster):
    """The node said before that it cannot reach the meta store. That is not the whole reason."""
    cluster = make_cluster(meta="etcd", targets=1, drives=1, settings=SHORT_LEASES)
    key = live_key(cluster, "t1")
    record = json.loads(stored(cluster, key)[0])
    record["holder"] = "another0another0 1 1 elsewhere elsewhere"
    cluster.kill("etcd1")
    cluster.logs["t1"].wait_for("lease not renewed", 20)
    cluster.stop("t1")
    cluster.start("etcd1")
    wait_until(lambda: not kv(cluster, "range", {"key": base64_of(key)}).get("kvs"), 20, "its lease has ended")
    kv(cluster, "put", {"key": base64_of(key), "value": base64.b64encode(json.dumps(record).encode()).decode()})
    cluster.cont("t1")
    cluster.logs["t1"].wait_for("lease not renewed .*runs already, as process 1 on elsewhere", 20)


def test_a_start_behind_a_kill_need_not_wait_for_the_lease(make_cluster):
    cluster = make_cluster(meta="etcd", targets=1, drives=1, settings={"lease.term": "60s"})
    assert cluster.put("data", "x", b"kept").status == 200
    cluster.kill("t1")
    cluster.start("t1")  # within a minute: its lease holds still
    wait_until(lambda: cluster.put("data", "x", b"again").status == 200, 10, "it takes writes")
