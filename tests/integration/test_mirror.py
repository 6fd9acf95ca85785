"""Mirrored buckets as users see them: copies are there, said so, kept in step, and their number can be changed.

The drives of the shared cluster's targets are two each, so two copies are all that there can be; more drives are in
tests/fault/test_mirror.py.
"""

import itertools
import json

import pytest
from harness import client
from test_appends import append, flush, handle_of
from test_bucket_jobs import ended, snaps, total

JSON = {"Content-Type": "application/json"}
_numbers = itertools.count(1)


@pytest.fixture
def mirrored(cluster):
    name = f"mirrored-{next(_numbers)}"
    cluster.create_bucket(name, {"mirror": {"enabled": True}})
    yield name
    cluster.destroy_bucket(name)


def copies(cluster, bucket, name):
    """The number of copies, which both forms of HEAD agree on."""
    answer = cluster.head(bucket, name)
    assert answer.status == 200, answer
    paths = answer.headers["Ais-Mirror-Paths"].strip("[]").split(",")
    assert len(set(paths)) == len(paths) == int(answer.headers["Ais-Mirror-Copies"])
    selected = client.request("HEAD", cluster.url(bucket, name) + "&props=copies")
    assert sorted(selected.headers["Ais-Mirror-Paths"].split(",")) == sorted(paths)
    return len(paths)


def listed(cluster, bucket):
    return {entry["name"]: int(entry.get("copies", 0)) for entry in cluster.list(bucket, props="name,size,copies")}


def change(cluster, method, bucket, action, value):
    """Sends a change of the number of copies and waits for its job: the counts of all targets."""
    answer = cluster.bucket_action(method, bucket, action, value)
    assert answer.status == 200 and answer.text, answer
    end = ended(cluster, answer.text)
    assert end["err"] == "" and not end["aborted"], end
    return total(snaps(cluster, answer.text), "loc-objs")


def test_every_way_to_write_keeps_both_copies_in_step(cluster, mirrored, rng):
    body = rng.randbytes(1_200_000)
    assert cluster.put(mirrored, "a", body).status == 200
    assert copies(cluster, mirrored, "a") == 2
    assert cluster.put(mirrored, "a", body[:70_000]).status == 200
    assert cluster.get(mirrored, "a").body == body[:70_000] and copies(cluster, mirrored, "a") == 2
    custom = json.dumps({"action": "", "value": {"colour": "red"}}).encode()
    assert client.request("PATCH", cluster.url(mirrored, "a"), custom, JSON).status == 200
    assert "colour=red" in cluster.head(mirrored, "a").headers["Ais-Custom-Md"] and copies(cluster, mirrored, "a") == 2
    handle = handle_of(append(cluster, mirrored, "b", body))
    assert flush(cluster, mirrored, "b", handle).status == 200
    assert copies(cluster, mirrored, "b") == 2
    renamed = json.dumps({"action": "rename-obj", "name": "c"}).encode()
    assert client.request("POST", cluster.url(mirrored, "b"), renamed, JSON).status == 200
    assert cluster.get(mirrored, "b").status == 404
    assert cluster.get(mirrored, "c").body == body and copies(cluster, mirrored, "c") == 2
    assert listed(cluster, mirrored) == {"a": 2, "c": 2}
    found = cluster.redundancy(mirrored)
    assert (found["copies"], found["full"], found["reduced"], found["lost"]) == (2, 2, 0, 0)
    assert cluster.delete(mirrored, "a").status == 200
    assert cluster.get(mirrored, "a").status == 404 and listed(cluster, mirrored) == {"c": 2}


def test_the_number_of_copies_changes_under_what_is_there(cluster, bucket, rng):
    bodies = cluster.fill(bucket, {f"n-{i}": rng.randbytes(rng.choice((0, 100, 50_000, 1_100_000))) for i in range(12)})
    assert set(listed(cluster, bucket).values()) == {1}
    # The pass that each target begins by itself may be faster than the job with some of them.
    assert change(cluster, "PATCH", bucket, "set-bprops", {"mirror": {"enabled": True}}) <= len(bodies)
    assert listed(cluster, bucket) == dict.fromkeys(bodies, 2)
    assert cluster.redundancy(bucket)["full"] == len(bodies)
    change(cluster, "POST", bucket, "make-n-copies", 1)
    assert listed(cluster, bucket) == dict.fromkeys(bodies, 1)
    assert cluster.redundancy(bucket)["by_copies"] == {"1": len(bodies)}
    change(cluster, "POST", bucket, "make-n-copies", 2)
    assert listed(cluster, bucket) == dict.fromkeys(bodies, 2)
    for name, body in bodies.items():
        assert cluster.get(bucket, name).body == body


def test_what_cannot_be_is_refused(cluster, mirrored):
    for value in (0, 33, -1, "many", None):
        answer = cluster.bucket_action("POST", mirrored, "make-n-copies", value)
        assert answer.status == 400 and "1 to 32" in answer.json()["message"], answer
    answer = cluster.bucket_action("PATCH", mirrored, "set-bprops", {"mirror": {"domain": "node"}})
    assert answer.status == 501 and "cannot have any on nodes" in answer.json()["message"], answer


def test_tarn_redundancy_counts(cluster, mirrored, cli):
    assert cluster.put(mirrored, "x", b"x").status == 200
    counted = json.loads(cli.ok("redundancy", mirrored, "--json"))
    assert [(each["name"], each["full"]) for each in counted["buckets"]] == [(mirrored, 1)]
    (found,) = counted["buckets"]
    assert (found["full_bytes"], found["reduced_bytes"], found["lost_names"], found["lost_more"]) == (1, 0, [], False), found
    assert (found["survives_drives"], found["survives_nodes"]) == (1, 0), found
    assert mirrored.encode() in cli.ok("redundancy")
