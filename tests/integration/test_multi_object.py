"""Jobs on many objects: delete and copy by list, template and prefix, on real processes."""

import itertools
import json

import pytest
from harness import client
from harness.bulk import put_many
from harness.jobs import JSON, copy_many, delete_many, ended, idle, query, snaps, status, stop, to_bucket, total
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until

_numbers = itertools.count(1)


def delete(cluster, bucket, **value):
    """Deletes to the end. The status of the job."""
    answer = delete_many(cluster, bucket, **value)
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain"), answer
    return ended(cluster, answer.text)


def good(end):
    assert end["err"] == "" and not end["aborted"] and end["is_idle"], end
    return end["uuid"]


@pytest.fixture
def goal(cluster):
    name = f"many-{next(_numbers)}"
    yield name
    cluster.destroy_bucket(name)


# --- what is meant ------------------------------------------------------------------------------------------------


def test_a_list_is_deleted_and_nothing_else(cluster, bucket):
    made = cluster.fill(bucket, [f"n-{i}" for i in range(40)] + ["dir/ä ö", "{0..1}"], 100)
    wanted = ["n-3", "n-17", "dir/ä ö", "{0..1}", "n-3"]
    job = good(delete(cluster, bucket, objnames=wanted, template=""))
    for name in set(wanted):
        assert cluster.get(bucket, name).status == 404
        del made[name]
    cluster.assert_bodies(bucket, made)
    found = snaps(cluster, job)
    assert set(found) == {cluster.nodes[name]["id"] for name in cluster.targets()}
    assert total(found, "loc-objs") == 4
    for snap in found.values():
        assert snap["kind"] == "delete-listrange" and snap["is_idle"] and snap["end-time"][:4] >= "2026"
        assert snap["bck"]["name"] == bucket and snap["ctlmsg"].startswith("list:[n-3 n-17")


def test_templates_mean_what_they_mean_to_aistore(cluster, bucket):
    names = [f"a-{i:03}.tar" for i in range(30)] + [f"a-{i}.tar" for i in range(12)] + ["a-0100.tar", "b-001.tar", "logs/x", "logs/y/z"]
    made = cluster.fill(bucket, names, 100)

    def check(template, gone, **value):
        job = good(delete(cluster, bucket, template=template, **value))
        assert total(snaps(cluster, job), "loc-objs") == len(gone), template
        for name in gone:
            del made[name]
        assert cluster.names(bucket) == sorted(made), template

    check("a-{000..008..4}.tar", ["a-000.tar", "a-004.tar", "a-008.tar"])
    check("a-{0..2}.tar", ["a-0.tar", "a-1.tar", "a-2.tar"])
    check("a-@002.tar", ["a-001.tar", "a-002.tar"])
    check("{1..9}-nothing", [])
    check("{1..9}{1..9}{1..9}{1..9}{1..9}{1..9}", [])  # more than are tried one by one
    check("a-{000..999999}.tar", [f"a-{i:03}.tar" for i in range(30) if f"a-{i:03}.tar" in made])
    check("a-%d.tar", [f"a-{i}.tar" for i in range(3, 12)])
    check("logs/", ["logs/x"], **{"non-recurs": True})
    check("logs/", ["logs/y/z"])
    check("*", list(made))
    cluster.assert_bodies(bucket, {})


def test_names_that_are_not_there(cluster, bucket):
    cluster.fill(bucket, [f"n-{i}" for i in range(6)], 100)
    end = delete(cluster, bucket, objnames=["n-0", "no-such", "n-1", "nor-this"])
    assert end["err"].startswith("2 of the 4 objects do not exist") and f"ais://{bucket}/" in end["err"], end
    assert cluster.names(bucket) == ["n-2", "n-3", "n-4", "n-5"], "the others are deleted all the same"
    good(delete(cluster, bucket, objnames=["n-2", "no-such"], coer=True))
    good(delete(cluster, bucket, template="n-{0..3}"))
    assert cluster.names(bucket) == ["n-4", "n-5"]


def test_a_dry_run_deletes_nothing(cluster, bucket):
    made = cluster.fill(bucket, [f"n-{i}" for i in range(6)], 100)
    found = snaps(cluster, good(delete(cluster, bucket, template="n-{0..3}", dry_run=True)))
    assert total(found, "loc-objs") == 4 and total(found, "loc-bytes") == sum(len(made[f"n-{i}"]) for i in range(4))
    cluster.assert_bodies(bucket, made)


def test_copies_by_list_template_and_prefix(cluster, bucket, goal):
    made = cluster.fill(bucket, [f"n-{i:02}.jpg" for i in range(30)] + ["dir/a.jpg", "dir/b"], 100)
    body = json.dumps({"value": {"color": "red"}}).encode()
    assert client.request("PATCH", cluster.url(bucket, "dir/b"), body, JSON).status == 200
    answer = copy_many(cluster, bucket, goal, template="n-{00..19}.jpg", coer=False, prefix="", prepend="", dry_run=False)
    assert answer.status == 200, answer
    found = idle(cluster, answer.text)
    # It stays for ten seconds, waiting for more, as AIStore's does; it can be stopped then.
    assert query(cluster, "running_all").json().count(f"copy-listrange[{answer.text}]") == 1
    assert stop(cluster, ID=answer.text).status == 200 and status(cluster, answer.text)["aborted"]
    assert total(found, "loc-objs") == 20 and total(found, "out-objs") == total(found, "in-objs") > 0
    for snap in found.values():
        assert snap["kind"] == "copy-listrange" and (snap["src-bck"]["name"], snap["dst-bck"]["name"]) == (bucket, goal)
    cluster.assert_bodies(goal, {name: made[name] for name in sorted(made) if name.startswith("n-") and name < "n-20"})

    job = copy_many(cluster, bucket, goal, objnames=["dir/b", "dir/a.jpg"], prepend="p/", ext={"jpg": "png"}, **{"num-workers": 1}).text
    idle(cluster, job)
    assert cluster.names(goal, prefix="p/") == ["p/dir/a.png", "p/dir/b"]
    assert cluster.head(goal, "p/dir/b").headers["Ais-Custom-Md"] == "color=red"
    job = copy_many(cluster, bucket, goal, template="dir/", prepend="q/").text
    idle(cluster, job)
    assert cluster.names(goal, prefix="q/") == ["q/dir/a.jpg", "q/dir/b"]
    before = cluster.bodies(goal)
    found = idle(cluster, copy_many(cluster, bucket, goal, template="", dry_run=True, prepend="x/").text)
    assert total(found, "loc-objs") == len(made) and total(found, "loc-bytes") == sum(map(len, made.values()))
    cluster.assert_bodies(goal, before)
    end = ended(cluster, copy_many(cluster, bucket, goal, objnames=["no-such", "dir/b"]).text)
    assert f"ais://{bucket}/no-such does not exist" in end["err"]
    for job in query(cluster, "running_all", kind="copy-listrange").json():  # a rebalance is not ours to stop
        assert stop(cluster, ID=job.partition("[")[2].rstrip("]")).status == 200


def test_synchronize_deletes_named_objects_that_the_source_has_not(cluster, bucket, goal):
    made = cluster.fill(bucket, [f"n-{i}" for i in range(10)], 100)
    idle(cluster, copy_many(cluster, bucket, goal, template="").text)
    extra = cluster.fill(goal, ["n-10", "n-11", "n-x", "other"], 100)
    for name in ("n-1", "n-4"):
        assert cluster.delete(bucket, name).status == 200
    gone = {name: made.pop(name) for name in ("n-1", "n-4")}
    dry = copy_many(cluster, bucket, goal, template="n-{0..10}", synchronize=True, dry_run=True)
    idle(cluster, dry.text)
    cluster.assert_bodies(goal, made | gone | extra)
    idle(cluster, copy_many(cluster, bucket, goal, template="n-{2..10}", synchronize=True).text)
    del gone["n-4"], extra["n-10"]
    cluster.assert_bodies(goal, made | gone | extra)
    idle(cluster, copy_many(cluster, bucket, goal, objnames=["n-2", "n-11"], synchronize=True).text)
    del extra["n-11"]
    cluster.assert_bodies(goal, made | gone | extra)
    idle(cluster, copy_many(cluster, bucket, goal, template="n-", synchronize=True).text)
    cluster.assert_bodies(goal, made | {"other": extra["other"]})


def test_what_makes_no_sense_is_refused(cluster, bucket, goal):
    cluster.fill(bucket, ["a"], 100)
    for value, says in [({}, "which objects"), ({"objnames": []}, "which objects"), ({"objnames": [], "template": ""}, "which objects"),
                        ({"objnames": ["a"], "template": "b"}, "both"), ({"template": "a{1..3"}, "a{1..3"), ({"template": "{1..99999999}"}, "10000000"),
                        ({"objnames": ["../a"]}, "component"), ({"objnames": "a"}, "no list"), ({"template": "a", "num-workers": 1000}, "num-workers")]:
        answer = delete_many(cluster, bucket, **value)
        assert answer.status == 400 and says in answer.json()["message"], (value, answer)
    assert cluster.bucket_action("DELETE", bucket, "delete-listrange").status == 400
    for where, value, code, says in [(bucket, {"template": "a"}, 400, "into itself"), (goal, {"template": "a", "synchronize": True, "prepend": "x"}, 400, "synchronize"),
                                     (goal, {"template": "a", "prefix": "x"}, 400, "prefix"), ("a b", {"template": "a"}, 400, "letters"),
                                     (goal, {"template": "a", "id": "transform"}, 501, "later work")]:
        answer = copy_many(cluster, bucket, where, **value)
        assert answer.status == code and says in answer.json()["message"], (value, answer)
    answer = cluster.bucket_action("POST", bucket, "copy-listrange", {"template": "a"})
    assert answer.status == 400 and "tobck" in answer.json()["message"]
    for method, action in [("DELETE", "evict-listrange"), ("POST", "prefetch-listrange")]:
        answer = cluster.bucket_action(method, bucket, action, {"objnames": ["a"]})
        assert answer.status == 400 and answer.json()["tcode"] == "ErrInvalidBackendProvider", answer
    for method, action in [("POST", "delete-listrange"), ("DELETE", "copy-listrange"), ("DELETE", "prefetch-listrange")]:
        answer = cluster.bucket_action(method, bucket, action, {"template": "a"})
        assert answer.status == 400 and action in answer.json()["message"], answer
    answer = delete_many(cluster, "no-such-bucket", template="a")
    assert answer.status == 404 and answer.json()["tcode"] == "ErrBckNotFound"
    assert cluster.names(bucket) == ["a"]
    assert goal not in [each["name"] for each in client.request("GET", f"{cluster.endpoint}/v1/buckets").json()]


def test_a_long_list(cluster, bucket):
    """Names by the ten thousand in one message; most of them are not there."""
    made = cluster.fill(bucket, [f"n-{i}" for i in range(50)], 100)
    names = [f"n-{i}" for i in range(0, 60_000, 2)] + ["keep-none"]
    good(delete(cluster, bucket, objnames=names, coer=True))
    assert cluster.names(bucket) == sorted(name for name in made if int(name[2:]) % 2)


# --- jobs on a slow cluster ---------------------------------------------------------------------------------------


@pytest.fixture
def slow(make_cluster):
    """A cluster whose targets take 50 ms before each object of such a job, and 200 objects."""
    cluster = make_cluster(targets=2, drives=1, fail_points={name: "batch.object=sleep:50" for name in ("t1", "t2")})
    cluster.fill("data", [f"n-{i:03}" for i in range(200)], 100)
    return cluster


def begin_slow(cluster, **value):
    answer = delete_many(cluster, "data", template="n-", **({"num-workers": -1} | value))
    assert answer.status == 200, answer
    wait_until(lambda: total(snaps(cluster, answer.text), "loc-objs") > 3, 20, "some objects are deleted")
    return answer.text


def test_a_delete_is_watched_and_stopped(slow):
    job = begin_slow(slow)
    assert status(slow, job)["end_time"] == 0
    # What moved as targets joined may be over only now.
    wait_until(lambda: query(slow, "running_all").json() == [f"delete-listrange[{job}]"], 5, "nothing else runs")
    for kind in ("delete-listrange", "delete-objects"):
        assert all(len(found) == 1 for found in query(slow, "qryxstats", kind=kind, show_active=True).json().values())
    assert stop(slow, Kind="delete-listrange", ID=job).status == 200
    end = status(slow, job)
    assert end["aborted"] and end["end_time"] > 0
    left = slow.names("data")
    assert 0 < len(left) < 197
    for _ in range(3):
        assert slow.names("data") == left, "it goes on behind our backs"


def test_the_bucket_may_be_renamed_meanwhile_and_not_destroyed(slow):
    job = begin_slow(slow, **{"num-workers": 8})
    assert to_bucket(slow, "data", "move-bck", "renamed").status == 200
    good(ended(slow, job))
    assert slow.names("renamed") == []
    put_many(slow, "renamed", [f"n-{i:04}" for i in range(2400)])  # a minute of work
    job = delete_many(slow, "renamed", template="n-", **{"num-workers": -1}).text
    wait_until(lambda: total(snaps(slow, job), "loc-objs") > 3, 20, "some objects are deleted")
    assert slow.destroy_bucket("renamed").status == 200
    assert "destroyed" in ended(slow, job)["err"]


# --- a cluster that changes ---------------------------------------------------------------------------------------


def test_a_target_joins_while_2000_names_are_deleted(make_cluster, rng):
    """The names are deleted by template, 600 more by prefix. None survives, and no other is touched, wherever each was then."""
    # A machine on which a target needs longer to join than the jobs take has slower jobs.
    assert any(joined_meanwhile(make_cluster, rng, pause) for pause in (10, 50, 250)), "the target joined too late"


def joined_meanwhile(make_cluster, rng, pause):
    """False when the target was not there before the jobs had ended. `pause`: ms before each object."""
    cluster = make_cluster(targets=2, drives=1, fail_points={name: f"batch.object=sleep:{pause}" for name in ("t1", "t2")})
    by_template = [f"old-{i:04}" for i in range(2000)]
    by_prefix = [f"pre/{i}" for i in range(600)]
    others = [f"old-{i:05}" for i in range(60)] + [f"pre-{i}" for i in range(60)]
    names = by_template + by_prefix + others
    put_many(cluster, "data", rng.sample(names, len(names)))
    jobs = [delete_many(cluster, "data", template=template).text for template in ("old-{0000..1999}", "pre/")]

    def done(job):
        return total(snaps(cluster, job), "loc-objs")

    for job in jobs:
        wait_until(lambda job=job: done(job) > 50, 20, "it is under way")
    begun = [done(job) for job in jobs]
    cluster.command("add", "target")
    cluster.refresh()
    cluster.running.add("t3")
    there = [done(job) for job in jobs]
    print(f"{begun} names were deleted when the target came, {there} when it was there")
    in_time = there[0] < 1800
    for job in jobs:
        good(ended(cluster, job, pause * 6))
    assert cluster.names("data") == sorted(others)
    assert [done(job) for job in jobs] == [2000, 600]
    if not in_time:
        return False
    assert snaps(cluster, jobs[0])[cluster.nodes["t3"]["id"]]["stats"]["loc-objs"] != "0", "the one that joined did its share"
    wait_until_in_place(cluster)
    assert cluster.names("data") == sorted(others)
    assert all(cluster.get("data", name).body == b"x" for name in others)
    return True
