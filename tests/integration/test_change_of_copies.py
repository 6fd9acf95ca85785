"""Another number of copies on nodes for a bucket that has objects (docs/decisions/014)."""

import os
import threading

import pytest
from harness import client
from harness.jobs import ended, snaps, stop, total
from harness.nodes import stored_map, wait_until_in_place
from harness.waiting import wait_until
from test_node_copies import ON_NODES, files_of, read_all, redundancy, store_varied, wait_agree

ONE_MORE = {"mirror": {"enabled": True, "domain": "node", "copies": 2}}


@pytest.fixture
def three(make_cluster):
    cluster = make_cluster(targets=3, drives=1)
    wait_until_in_place(cluster)
    return cluster


def begin(cluster, method, action, value, bucket="two"):
    answer = cluster.bucket_action(method, bucket, action, value)
    assert answer.status == 200 and answer.text, answer
    return answer.text


def change(cluster, method, action, value):
    """Changes it and waits for the good end of the job. Returns the job's id."""
    job = begin(cluster, method, action, value)
    end = ended(cluster, job)
    assert end["err"] == "" and not end["aborted"], end
    return job


def put_all(cluster, names, text="before"):
    return cluster.fill("two", {name: f"{name} {text}".encode() for name in names})


def test_the_number_of_copies_changes_under_what_is_there(three):
    three.create_bucket("two", ON_NODES)
    bodies = store_varied(three)
    assert three.delete("two", "dir0/n-0").status == 200
    del bodies["dir0/n-0"]
    count = len(bodies)
    job = change(three, "PATCH", "set-bprops", {"mirror": {"copies": 3}})
    wait_agree(three, bodies, 3)
    assert total(snaps(three, job), "loc-objs") == count
    read_all(three, bodies, gone=["dir0/n-0"])
    assert redundancy(three) == {"full": count, "reduced": 0, "at_risk": 0, "lost": 0, "copies": 3}
    assert three.put("two", "later", b"three times").status == 200
    bodies["later"] = b"three times"
    wait_agree(three, bodies, 3)
    for copies in (2, 1):
        change(three, "POST", "make-n-copies", copies)
        wait_agree(three, bodies, copies)
        read_all(three, bodies, gone=["dir0/n-0"])
        told = redundancy(three)
        assert (told["full"], told["copies"]) == (len(bodies), copies), told
    bodies["later"] = b"once"
    assert three.put("two", "later", bodies["later"]).status == 200
    wait_agree(three, bodies, 1)
    assert three.delete("two", "dir1/n-1").status == 200
    del bodies["dir1/n-1"]
    change(three, "POST", "make-n-copies", 3)
    wait_agree(three, bodies, 3)
    read_all(three, bodies, gone=["dir0/n-0", "dir1/n-1"])


def test_a_bucket_without_copies_gets_them(three):
    three.create_bucket("two")
    bodies = store_varied(three)
    assert three.delete("two", "dir0/n-0").status == 200
    del bodies["dir0/n-0"]
    assert {len(each) for each in files_of(three).values()} == {1}
    change(three, "PATCH", "set-bprops", ONE_MORE)
    wait_agree(three, bodies)
    assert redundancy(three)["full"] == len(bodies)
    three.kill("t1")
    read_all(three, bodies, gone=["dir0/n-0"])


def test_changes_that_follow_each_other_end_with_the_last(three):
    three.create_bucket("two", ON_NODES)
    bodies = store_varied(three, 30)
    jobs = [begin(three, "POST", "make-n-copies", copies) for copies in (3, 1, 2, 3, 2)]
    for job in jobs:
        end = ended(three, job)
        assert end["err"] == "" and (not end["aborted"] or job != jobs[-1]), end
    wait_agree(three, bodies, 2)
    read_all(three, bodies)
    wait_until(lambda: "past" not in stored_map(three), 30, "all former numbers are forgotten")


def test_a_job_that_is_stopped_is_gone_on_with_by_the_targets(three):
    three.create_bucket("two", ON_NODES)
    bodies = store_varied(three, 30)
    job = begin(three, "POST", "make-n-copies", 3)
    stop(three, id=job)
    ended(three, job)
    wait_agree(three, bodies, 3, seconds=20)


def test_what_cannot_be_is_refused(three):
    three.create_bucket("drives", {"mirror": {"enabled": True, "copies": 2}})
    answer = three.bucket_action("PATCH", "drives", "set-bprops", {"mirror": {"domain": "node"}})
    assert answer.status == 501 and "copies on drives and cannot have any on nodes" in answer.text, answer
    three.create_bucket("nodes", ON_NODES)

    def refused(mirror):
        answer = three.bucket_action("PATCH", "nodes", "set-bprops", {"mirror": mirror})
        assert answer.status == 501 and "copies on nodes and cannot have any on drives" in answer.text, answer

    refused({"domain": "drive"})
    begin(three, "PATCH", "set-bprops", {"mirror": {"enabled": False, "domain": "drive"}}, "nodes")
    refused({"enabled": True})


def test_a_new_replica_does_not_answer_for_those_who_had_the_name(three):
    """The owner dies before it has sent the name to the other replica, which does not have it and must answer 503."""
    three.create_bucket("two")
    bodies = put_all(three, three.names_owned_by("t1", "two", 8))
    three.kill("t1")
    three.start("t1", fail_points="move.send=kill")
    wait_until_in_place(three)
    begin(three, "PATCH", "set-bprops", ONE_MORE)
    three.wait_exit("t1", 20)
    relay = three.url_of("p1", "relay")
    statuses = {client.request("GET", three.url("two", name, relay), expect=False).status for name in [*bodies] * 3}
    assert statuses == {503}, "they exist, and no target that is up has them"
    three.start("t1")
    wait_until_in_place(three)
    wait_agree(three, bodies)
    read_all(three, bodies)


def test_a_write_under_way_comes_to_the_new_replicas_as_well(three):
    """When the number changes, all replicas of the old number have the version, and the owner is slow to commit its own."""
    three.create_bucket("two", ON_NODES)
    (name,) = three.names_owned_by("t1", "two", 1)
    put_all(three, [name])
    wait_agree(three, [name])
    three.kill("t1")
    three.start("t1", fail_points="copies.before_own=sleep:2500")
    wait_until_in_place(three)
    body = os.urandom(1000)
    answers = []
    writer = threading.Thread(target=lambda: answers.append(three.put("two", name, body, timeout=60)))
    writer.start()
    wait_until(lambda: three.logs["t1"].matching("failpoint hit name=copies.before_own"), 10, "the other replica has it")
    change(three, "POST", "make-n-copies", 3)
    writer.join()
    assert answers[0].status == 200
    wait_agree(three, [name], 3)
    assert client.request("GET", three.url("two", name)).body == body
