"""Settings of a running cluster: kept, in force everywhere, checked; and what one node is told alone."""

import json
import re
import socket
import time
from urllib.parse import urlparse

import pytest
from harness import client
from harness.cli import Cli
from harness.cluster import REPOSITORY, Cluster
from harness.fixtures import seed_of_run
from harness.waiting import assert_within, wait_until


NODES = ("p1", "p2", "t1", "t2")


@pytest.fixture(scope="module")
def module_cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("configuration") / "cluster", meta="etcd", proxies=2, targets=2, drives=1,
                      identities=f"{seed_of_run()} configuration",
                      settings={"space.out_of_space": 97})
    cluster.up()
    yield cluster
    cluster.close()


@pytest.fixture
def pair(module_cluster):
    """Two proxies and two targets over etcd; nothing is set afterwards."""
    module_cluster.begin_test()
    yield module_cluster
    reset = module_cluster.call("p1", "PUT", "/v1/cluster", {"action": "reset-config", "value": [
        "log.level", "space.highwm", "space.out_of_space", "http.header_timeout", "versioning.enabled", "mirror.copies",
        "redirect_put_status"]})
    assert reset.status == 200, reset
    assert module_cluster.call("p1", "PUT", "/v1/cluster", {"action": "reset-config", "value": None}).status == 200
    assert not module_cluster.complaints(), module_cluster.complaints()


def put_at(cluster, node, path, body=None):
    return cluster.call("p1", "PUT", f"/v1/reverse/daemon{path}", body, {"Ais-Node-Id": cluster.nodes[node]["id"]})


def settings(cluster, proxy):
    """Without the part that says which proxy is the primary: on a busy machine it may have changed in between."""
    answer = client.request("GET", cluster.url_of(proxy) + "/v1/cluster?what=cluster_config").json()
    return {section: its for section, its in answer.items() if section != "proxy"}


def in_force(cluster, node):
    return client.request("GET", cluster.url_of(node) + "/v1/daemon?what=config").json()


def test_a_setting_is_in_force_on_all_nodes_when_it_is_answered(pair):
    before = int(settings(pair, "p1")["config_version"])
    for level in ("4", "3", "4"):
        assert pair.call("p1", "PUT", f"/v1/cluster/set-config?log.level={level}&space.highwm=80").status == 200
        for node in NODES:
            assert in_force(pair, node)["log"]["level"] == level, node
        assert settings(pair, "p2")["log"]["level"] == level
    assert pair.metric("t1", "tarn_drive_up") == 1
    wait_until(lambda: pair.logs["t2"].matching(r" debug http request "), 5, "the level is acted upon")
    assert settings(pair, "p2")["space"]["highwm"] == 80 and in_force(pair, "t1")["space"]["highwm"] == 80
    assert int(settings(pair, "p1")["config_version"]) == before + 3
    # The same again is no change.
    assert pair.call("p2", "PUT", "/v1/cluster/set-config?log.level=4").status == 200
    assert int(settings(pair, "p1")["config_version"]) == before + 3


def test_messages_and_queries_say_the_same(pair):
    value = {"space": {"highwm": 70, "out_of_space": None}, "log": {"level": "4"}}
    assert pair.call("p2", "PUT", "/v1/cluster", {"action": "set-config", "name": "", "value": value}).status == 200
    assert in_force(pair, "t2")["space"]["highwm"] == 70
    assert pair.call("p2", "PUT", "/v1/cluster?action=set-config&space.highwm=71").status == 200
    assert in_force(pair, "t2")["space"]["highwm"] == 71 and in_force(pair, "t2")["log"]["level"] == "4"


def test_what_the_start_said_holds_until_the_cluster_says_otherwise(pair):
    assert settings(pair, "p1")["space"]["out_of_space"] == 95 and in_force(pair, "t1")["space"]["out_of_space"] == 97
    assert pair.call("p1", "PUT", "/v1/cluster/set-config?space.out_of_space=96").status == 200
    assert in_force(pair, "t1")["space"]["out_of_space"] == 96
    assert pair.call("p1", "PUT", "/v1/cluster", {"action": "reset-config", "value": ["space.out_of_space"]}).status == 200
    assert in_force(pair, "t1")["space"]["out_of_space"] == 97


def test_settings_survive_the_restart_of_every_node(pair):
    assert pair.call("p1", "PUT", "/v1/cluster/set-config?space.highwm=66").status == 200
    assert put_at(pair, "t1", "/set-config?log.level=4&transient=false").status == 200
    assert put_at(pair, "t2", "/set-config?log.level=4&transient=true").status == 200
    assert in_force(pair, "t2")["log"]["level"] == "4"
    pair.kill("p1", "p2", "t1", "t2")
    pair.start("p1", "p2", "t1", "t2")
    for node in NODES:
        assert in_force(pair, node)["space"]["highwm"] == 66, node
    assert in_force(pair, "t1")["log"]["level"] == "4", "its own"
    assert in_force(pair, "t2")["log"]["level"] == "3", "until it ended"


def test_a_node_that_was_down_learns_what_was_set(pair):
    pair.kill("t2")
    assert pair.call("p1", "PUT", "/v1/cluster/set-config?space.highwm=61").status == 200
    pair.start("t2")
    assert in_force(pair, "t2")["space"]["highwm"] == 61


def test_what_one_node_is_told_wins_until_it_is_reset(pair):
    assert pair.call("p1", "PUT", "/v1/cluster/set-config?log.level=4").status == 200
    assert put_at(pair, "t1", "/set-config?log.level=5&transient=false").status == 200
    assert [in_force(pair, node)["log"]["level"] for node in ("t1", "t2", "p1")] == ["5", "4", "4"]
    assert pair.call("p1", "PUT", "/v1/cluster/set-config?log.level=3").status == 200
    assert in_force(pair, "t1")["log"]["level"] == "5"
    assert put_at(pair, "t1", "", {"action": "reset-config", "name": "", "value": None}).status == 200
    assert in_force(pair, "t1")["log"]["level"] == "3"
    assert put_at(pair, "t2", "/set-config?log.level=4").status == 200
    assert pair.call("p2", "PUT", "/v1/cluster", {"action": "reset-config", "name": "", "value": None}).status == 200
    assert in_force(pair, "t2")["log"]["level"] == "3", "a reset of the cluster is one of every node"


def test_transient_settings_are_kept_nowhere(pair):
    version = settings(pair, "p1")["config_version"]
    assert pair.call("p1", "PUT", "/v1/cluster/set-config?log.level=4&transient=true").status == 200
    assert {in_force(pair, node)["log"]["level"] for node in NODES} == {"4"}
    assert settings(pair, "p1")["config_version"] == version and settings(pair, "p2")["log"]["level"] == "3"


@pytest.mark.parametrize("what, status, says", [
    ("bogus.key=1", 400, "there is no setting 'bogus.key'"),
    ("log.level=loud", 400, "setting 'log.level' cannot be 'loud'"),
    ("space.highwm=0", 400, "a whole number from 1 to 100 is allowed"),
    ("space.highwm=98", 400, "cannot be above 'space.out_of_space' (95)"),
    ("http.header_timeout=soon", 400, "setting 'http.header_timeout' cannot be 'soon'"),
    ("drive.threads=3", 400, "setting 'drive.threads' is read at the start of a program"),
    ("checksum.type=md4", 400, "checksum.type"),
    ("checksum.enable_read_range=true", 501, "checksum.enable_read_range"),
    ("features=8", 501, "setting 'features' of AIStore's cannot be changed"),
    ("disk.iostat_time_long=4s", 501, "setting 'disk.iostat_time_long' of AIStore's cannot be changed"),
    ("transient=perhaps&log.level=4", 400, "transient=perhaps is neither true nor false"),
    ("transient=true", 400, "nothing to set"),
])
def test_what_cannot_be_set_says_why_and_changes_nothing(pair, what, status, says):
    before = settings(pair, "p1")
    # What comes with it, and could be, is not set either.
    for path in (f"/v1/cluster/set-config?{what}", f"/v1/cluster/set-config?redirect_put_status=302&{what}"):
        if what == "transient=true" and "302" in path:
            continue
        answer = pair.call("p1", "PUT", path)
        assert answer.status == status and says in answer.json()["message"], answer
    assert settings(pair, "p2") == before
    answer = pair.call("p1", "PUT", f"/v1/reverse/daemon/set-config?{what}", None, {"Ais-Node-Id": pair.nodes["t1"]["id"]})
    assert answer.status == (400 if what.startswith("checksum") else status), answer


def test_settings_that_need_a_restart_say_so(pair):
    page = (REPOSITORY / "docs" / "configuration.md").read_text()
    names = re.findall(r"`([\w.]+)`", re.search(r"others need a restart: (.*?)\. Set", page, re.DOTALL)[1])
    assert len(names) >= 16
    for name in names:
        answer = pair.call("p1", "PUT", f"/v1/cluster/set-config?{name}=1")
        assert answer.status == 400 and f"setting '{name}' is read at the start of a program" in answer.json()["message"], answer


def test_other_messages_that_make_no_sense_say_so(pair):
    for body, status, says in (
            ({"action": "set-config", "value": [1]}, 400, "no JSON object"),
            ({"action": "set-config", "value": {}}, 400, "nothing to set"),
            ({"action": "reset-config", "value": [1]}, 400, "a list of settings"),
            ({"action": "reset-config", "value": ["bogus"]}, 400, "there is no setting 'bogus'"),
            ({"action": "reload-creds", "value": {}}, 501, "reload-creds"),
            (None, 400, "needs a body")):
        answer = pair.call("p1", "PUT", "/v1/cluster", body)
        assert answer.status == status and says in answer.json()["message"], answer
    answer = put_at(pair, "t1", "/set-config?mirror.copies=3")
    assert answer.status == 400 and "for the whole cluster only" in answer.json()["message"], answer
    answer = put_at(pair, "t1", "", {"action": "reload-creds"})
    assert answer.status == 501 and "reload-creds" in answer.json()["message"]


def test_new_buckets_begin_with_what_was_set(pair):
    pair.create_bucket("before")
    assert pair.call("p1", "PUT", "/v1/cluster/set-config?versioning.enabled=false&mirror.copies=3").status == 200

    def props(bucket):
        answer = client.request("HEAD", f"{pair.url_of('p2')}/v1/buckets/{bucket}?provider=ais")
        found = json.loads(answer.headers["Ais-Bucket-Props"])
        return found["versioning"]["enabled"], found["mirror"]["copies"]

    pair.create_bucket("after")
    pair.create_bucket("chosen", {"mirror": {"copies": 4}})
    assert [props(name) for name in ("before", "after", "chosen")] == [(True, 2), (False, 3), (False, 4)]
    assert pair.bucket_action("PATCH", "before", "reset-bprops").status == 200
    assert props("before") == (False, 3), "a reset gives a bucket the cluster's defaults"
    for name in ("before", "after", "chosen"):
        pair.destroy_bucket(name)


def test_timeouts_and_statuses_act_on_a_running_node(pair):
    assert pair.call("p2", "PUT", "/v1/cluster/set-config?http.header_timeout=200ms&redirect_put_status=302").status == 200
    for node in ("p1", "t1"):
        where = urlparse(pair.url_of(node))
        with socket.create_connection((where.hostname, where.port), timeout=20) as half:
            began = time.monotonic()
            half.sendall(b"GET /healthz HTTP/1.1\r\nHo")
            assert b"408" in half.recv(4096), node
            assert_within(time.monotonic() - began, 9, "the 10 s of the start would be too long")
    answer = client.request("PUT", pair.url("data", "x", pair.url_of("p1")), b"x", follow=False)
    assert answer.status == 302


def test_the_command_line_shows_sets_and_forgets(pair):
    cli = Cli(pair.url_of("p1"))
    cli.ok("cluster", "config", "set", "space.highwm=72", "log.level=debug")
    shown = json.loads(cli.ok("--json", "cluster", "config", "get", "space", "log.level"))
    assert shown["space.highwm"] == 72 and shown["log.level"] == "4" and "http.idle_timeout" not in shown
    node = pair.nodes["t1"]["id"]
    cli.ok("cluster", "config", "set", "--node", node, "log.level=trace")
    assert in_force(pair, "t1")["log"]["level"] == "5" and in_force(pair, "t2")["log"]["level"] == "4"
    assert b"5" in cli.ok("cluster", "config", "get", "--node", node, "log.level").split()
    cli.ok("cluster", "config", "reset", "--node", node)
    assert in_force(pair, "t1")["log"]["level"] == "4"
    cli.ok("cluster", "config", "reset", "log.level")
    assert in_force(pair, "t1")["log"]["level"] == "3" and in_force(pair, "t1")["space"]["highwm"] == 72
    cli.refuses(2, "cluster", "config", "set", "space.highwm", says="no KEY=VALUE")
    cli.refuses(2, "cluster", "config", "set", "space.highwm=x", says="whole number")
    cli.refuses(2, "cluster", "config", "set", "checksum.type=md4", says="md4")
    cli.refuses(3, "cluster", "config", "get", "bogus", says="no setting of that name")
    cli.refuses(3, "cluster", "config", "get", "--node", "tNobody00", says="tNobody00")
