"""Copying and renaming whole buckets, and the jobs that do it."""

import concurrent.futures
import itertools
import json
import shutil
import threading
import urllib.parse

import pytest
from harness import client
from harness.jobs import JSON, ended, query, snaps, status, stop, to_bucket, total
from harness.waiting import wait_until

_numbers = itertools.count(1)


def copy(cluster, source, goal, **value):
    """Copies to the end, which must be good. The id of the job."""
    answer = to_bucket(cluster, source, "copy-bck", goal, value)
    assert answer.status == 200, answer
    end = ended(cluster, answer.text)
    assert end["err"] == "" and not end["aborted"], end
    return answer.text


@pytest.fixture
def goal(cluster):
    """A name for a bucket that is not there yet."""
    name = f"goal-{next(_numbers)}"
    yield name
    cluster.destroy_bucket(name)


# --- copies --------------------------------------------------------------------------------------------------------


def test_a_copy_has_everything(cluster, bucket, goal):
    cluster.bucket_action("PATCH", bucket, "set-bprops", {"versioning": {"enabled": False}, "extra": {"custom": "of us"}})
    made = cluster.fill(bucket, [f"dir{i % 3}/n-{i}" for i in range(40)], 1000)
    made["large"] = bytes(range(256)) * 20_000
    assert cluster.put(bucket, "large", made["large"]).status == 200
    body = json.dumps({"value": {"color": "red"}}).encode()
    assert client.request("PATCH", cluster.url(bucket, "large"), body, JSON).status == 200

    job = copy(cluster, bucket, goal)
    cluster.assert_bodies(goal, made)
    cluster.assert_bodies(bucket, made)
    assert cluster.head(goal, "large").headers["Ais-Custom-Md"] == "color=red"
    props = cluster.props(goal)
    assert props["versioning"]["enabled"] is False and props["extra"]["custom"] == "of us"

    found = snaps(cluster, job)
    assert set(found) == {cluster.nodes[name]["id"] for name in cluster.targets()}
    assert total(found, "loc-objs") == len(made) and total(found, "loc-bytes") == sum(map(len, made.values()))
    assert total(found, "out-objs") == total(found, "in-objs") > 0, "names of another bucket have other owners"
    assert total(found, "out-bytes") == total(found, "in-bytes")
    for snap in found.values():
        assert snap["kind"] == "copy-bck" and snap["is_idle"] and not snap["aborted"] and snap["end-time"][:4] >= "2026"
        assert (snap["src-bck"]["name"], snap["dst-bck"]["name"], snap["bck"]["name"]) == (bucket, goal, goal)


def test_names_are_chosen_and_changed_on_the_way(cluster, bucket, goal):
    cluster.fill(bucket, ["a.jpg", "a.tar.jpg", "in/b.jpg", "in/deep/c.jpg", "in/d.txt", "jpg", "z"], 1000)
    copy(cluster, bucket, goal, **{"prefix": "in/", "prepend": "old/", "ext": {"jpg": "png"}})
    assert cluster.names(goal) == ["old/in/b.png", "old/in/d.txt", "old/in/deep/c.png"]
    assert cluster.get(goal, "old/in/b.png").body == cluster.get(bucket, "in/b.jpg").body
    copy(cluster, bucket, goal, **{"prefix": "in/", "prepend": "flat-", "non-recurs": True, "num-workers": -1})
    assert cluster.names(goal, prefix="flat-") == ["flat-in/b.jpg", "flat-in/d.txt"]
    copy(cluster, bucket, goal, **{"prefix": "a.", "ext": {".jpg": ".png"}, "num-workers": 3, "latest-ver": True})
    assert cluster.names(goal, prefix="a") == ["a.png", "a.tar.png"]


def test_a_dry_run_counts_and_writes_nothing(cluster, bucket, goal):
    made = cluster.fill(bucket, ["a", "b", "dir/c"], 1000)
    found = snaps(cluster, copy(cluster, bucket, goal, dry_run=True))
    assert total(found, "loc-objs") == 3 and total(found, "loc-bytes") == sum(map(len, made.values()))
    assert cluster.names(goal) == []
    # Onto itself it is how clients look at a bucket.
    found = snaps(cluster, copy(cluster, bucket, bucket, dry_run=True, prefix="dir/", coer=True))
    assert total(found, "loc-objs") == 1
    cluster.assert_bodies(bucket, made)


def test_synchronize_deletes_what_the_source_has_not(cluster, bucket, goal):
    made = cluster.fill(bucket, [f"n-{i}" for i in range(20)] + ["other/x"], 1000)
    copy(cluster, bucket, goal)
    cluster.fill(goal, [f"extra-{i}" for i in range(10)] + ["n-extra"], 1000)
    for i in range(0, 20, 3):
        assert cluster.delete(bucket, f"n-{i}").status == 200
        del made[f"n-{i}"]
    copy(cluster, bucket, goal)
    assert len(cluster.names(goal)) == 32, "without synchronize nothing is deleted"
    copy(cluster, bucket, goal, synchronize=True, prefix="n-")
    assert cluster.names(goal) == sorted([*made, *(f"extra-{i}" for i in range(10))])
    copy(cluster, bucket, goal, synchronize=True)
    cluster.assert_bodies(goal, made)
    cluster.assert_bodies(bucket, made)


def test_copies_that_make_no_sense_are_refused(cluster, bucket, goal):
    cluster.fill(bucket, ["a"], 1000)
    for value, status_code, says in [
        ({"synchronize": True, "prepend": "x"}, 400, "synchronize"), ({"synchronize": True, "ext": {"a": "b"}}, 400, "synchronize"),
        ({"num-workers": 1000}, 400, "num-workers"), ({"num-workers": "3"}, 400, "num-workers"), ({"prefix": "../"}, 400, "prefix"),
        ({"prepend": "/x"}, 400, "/x"), ({"ext": ["jpg"]}, 400, "ext"), ({"ext": {"jpg": "a/b"}}, 400, "ext"),
        ({"dry_run": "yes"}, 400, "dry_run"), ({"id": "transform"}, 501, "later work"), ([], 400, "value"),
    ]:
        answer = to_bucket(cluster, bucket, "copy-bck", goal, value)
        assert answer.status == status_code and says in answer.json()["message"], (value, answer)
    for where, status_code, says in [(bucket, 400, "onto itself"), ("aws/@#/up/", 404, "tarn bucket create s3://up"),
                                     ("oci/@#/up/", 501, "later work"), ("ht/@#/up/", 501, "read only"), ("ais/@far#/b/", 501, "later work"),
                                     ("nonsense/", 400, "provider/"), ("ais/@#/a b/", 400, "letters")]:
        answer = to_bucket(cluster, bucket, "copy-bck", where)
        assert answer.status == status_code and says in answer.json()["message"], (where, answer)
    body = json.dumps({"action": "copy-bck"}).encode()
    answer = client.request("POST", f"{cluster.endpoint}/v1/buckets/{bucket}", body, JSON, expect=False)
    assert answer.status == 400 and "bck_to" in answer.json()["message"]
    answer = to_bucket(cluster, "no-such-bucket", "copy-bck", goal)
    assert answer.status == 404 and answer.json()["tcode"] == "ErrBckNotFound"
    assert goal not in [each["name"] for each in client.request("GET", f"{cluster.endpoint}/v1/buckets").json()]


def test_a_name_that_cannot_be_is_an_error_of_the_job(cluster, bucket, goal):
    cluster.fill(bucket, ["a" * 1000, "b", "c"], 1000)
    job = to_bucket(cluster, bucket, "copy-bck", goal, {"prepend": "p" * 30}).text
    assert "at most 1024" in ended(cluster, job)["err"]
    job = to_bucket(cluster, bucket, "copy-bck", goal, {"prepend": "p" * 30, "coer": True}).text
    assert "1 objects could not be copied" in ended(cluster, job)["err"]
    assert cluster.names(goal) == ["p" * 30 + "b", "p" * 30 + "c"]


# --- jobs ----------------------------------------------------------------------------------------------------------


def slow_cluster(make_cluster, milliseconds, **options):
    """A cluster whose targets take so long for each object of a copy, and 160 objects."""
    points = {name: f"copy_bucket.object=sleep:{milliseconds}" for name in ("t1", "t2")}
    cluster = make_cluster(targets=2, drives=1, fail_points=points, **options)
    cluster.fill("data", [f"n-{i}" for i in range(160)], 1000)
    return cluster


@pytest.fixture
def slow(make_cluster):
    return slow_cluster(make_cluster, 50)


@pytest.fixture
def slower(make_cluster):
    """A copy takes half a minute or more: it does not end before a test ends it."""
    return slow_cluster(make_cluster, 400)


def begin_slow_copy(cluster, **value):
    answer = to_bucket(cluster, "data", "copy-bck", "copied", {"num-workers": -1} | value)
    assert answer.status == 200, answer
    wait_until(lambda: total(snaps(cluster, answer.text), "loc-objs") > 3, 20, "some objects are copied")
    return answer.text


def test_a_copy_is_watched_and_stopped(slower):
    job = begin_slow_copy(slower)
    assert status(slower, job)["end_time"] == 0
    # What moved as targets joined may be over only now.
    wait_until(lambda: query(slower, "running_all").json() == [f"copy-bck[{job}]"], 5, "nothing else runs")
    for message in ({"kind": "copy-bucket"}, {"bck": {"name": "copied", "provider": "ais"}}, {"buckets": [{"name": "data"}]}):
        assert all(len(found) == 1 for found in query(slower, "qryxstats", show_active=True, **message).json().values()), message
    assert query(slower, "qryxstats", bck={"name": "else"}).json() == {slower.nodes[t]["id"]: [] for t in ("t1", "t2")}

    # Meanwhile the same copy, and a rename of its buckets, would be in its way.
    for answer in (to_bucket(slower, "data", "copy-bck", "copied"), to_bucket(slower, "data", "move-bck", "x"),
                   to_bucket(slower, "copied", "move-bck", "x")):
        assert answer.status == 409 and answer.json()["tcode"] == "ErrLimitedCoexistence", answer
        assert f"copy-bck[{job}]" in answer.json()["message"] and "currently running" in answer.json()["message"]

    assert stop(slower, Kind="copy-bck", ID=job).status == 200
    end = status(slower, job)
    assert end["aborted"] and end["end_time"] > 0 and end["err"] == ""
    left = slower.names("copied")
    assert 0 < len(left) < 160
    for snap in snaps(slower, job).values():
        assert snap["aborted"] and snap["abort-err"] and snap["is_idle"]
    answer = query(slower, "qryxstats", id=job, show_active=True)
    assert answer.status == 404 and answer.json()["message"] == f'"x-[{job}]-only-running" not found'
    assert stop(slower, ID=job).status == 200, "once more is no error"
    assert slower.names("copied") == left, "it goes on behind our backs"
    assert slower.bodies("copied").items() <= slower.bodies("data").items()


def test_of_equal_copies_asked_for_at_one_instant_one_runs(slower):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: to_bucket(slower, "data", "copy-bck", "copied"), range(8)))
    assert sorted(answer.status for answer in answers) == [200] + 7 * [409], answers


def test_a_job_whose_target_stays_away_ends_with_an_error(make_cluster):
    cluster = slow_cluster(make_cluster, 400, settings={"job.patience": "2s"})
    job = begin_slow_copy(cluster)
    cluster.kill("t2")
    end = ended(cluster, job)
    assert cluster.nodes["t2"]["id"] in end["err"] and "job.patience" in end["err"] and not end["aborted"], end
    assert all(snap["err"] == end["err"] and snap["is_idle"] for snap in snaps(cluster, job).values())
    cluster.kill("t1")
    cluster.start("t1", "t2")
    copy(cluster, "data", "copied")
    cluster.assert_bodies("copied", cluster.bodies("data"))


def test_what_one_target_cannot_copy_keeps_no_other_from_its_own(slow):
    """With "coer" each copies what it can, also when one has ended, with an error, long before the others."""
    bad = "t1" if slow.owner("data", "bad") == "t1" else "t2"
    for name in slow.names("data"):
        if slow.owner("data", name) == bad:
            assert slow.delete("data", name).status == 200
    bad_name = slow.names_owned_by(bad, "data", 1, prefix="b" * 1000)[0]
    slow.fill("data", [bad_name], 1000)
    good = [name for name in slow.names("data") if name != bad_name]
    assert len(good) > 10
    job = to_bucket(slow, "data", "copy-bck", "copied", {"prepend": "p" * 30, "coer": True, "num-workers": -1}).text
    assert "1 objects could not be copied" in ended(slow, job)["err"]
    assert slow.names("copied") == sorted("p" * 30 + name for name in good)


def test_nobody_is_told_that_a_part_of_a_failed_job_is_done(slow):
    """Clients wait until the parts are idle, and look for an error then."""
    bad_name = slow.names_owned_by("t1", "data", 1, prefix="b" * 1000)[0]
    slow.fill("data", [bad_name], 1000)
    job = to_bucket(slow, "data", "copy-bck", "copied", {"prepend": "p" * 30}).text
    seen = []
    while not seen or not all(snap["is_idle"] for snap in seen[-1].values()):
        seen.append(snaps(slow, job))
    for found in seen:
        for snap in found.values():
            assert snap["err"] or not snap["is_idle"] or snap["stats"]["loc-objs"] != "0", seen[-1]


def test_a_copy_of_a_bucket_that_is_destroyed_is_no_success(slower):
    job = begin_slow_copy(slower)
    assert slower.destroy_bucket("data").status == 200
    assert "destroyed" in ended(slower, job)["err"]


def test_questions_about_nothing(cluster):
    for what in ("status", "qryxstats"):
        answer = query(cluster, what, id="nosuchid123")
        assert answer.status == 404 and answer.json()["tcode"] == "ErrXactNotFound", answer
    answer = query(cluster, "status", kind="dsort")
    assert answer.status == 404 and answer.json()["message"] == "x-dsort does not exist"
    for answer in (query(cluster, "status_all", node="no-such-node"),
                   client.request("GET", f"{cluster.endpoint}/v1/reverse/daemon?what=snode", headers={"Ais-Node-Id": "no-such-node"}, expect=False),
                   stop(cluster, Kind="lru", DaemonID="no-such-node")):
        assert answer.status == 404 and answer.json()["tcode"] == "errNodeNotFound", answer
        assert "no-such-node" in answer.json()["message"]
    assert query(cluster, "status", bck={"provider": "nothing", "name": "x"}, kind="lru").status == 400
    assert stop(cluster, Kind="lru").status == 200, "none of that kind runs"
    assert stop(cluster).status == 400
    answer = stop(cluster, ID="nosuchid123")
    assert answer.status == 404 and answer.json()["tcode"] == "ErrXactNotFound"


# --- renames -------------------------------------------------------------------------------------------------------


def rename(cluster, source, goal):
    answer = to_bucket(cluster, source, "move-bck", goal)
    assert answer.status == 200, answer
    end = ended(cluster, answer.text)
    assert end["kind"] == "move-bck" and end["err"] == "" and not end["aborted"]
    return answer.text


def bucket_names(cluster):
    return {each["name"] for each in client.request("GET", f"{cluster.endpoint}/v1/buckets").json()}


def test_a_rename_keeps_everything_and_moves_nothing(cluster, goal):
    source = cluster.create_bucket(f"source-{next(_numbers)}")
    made = cluster.fill(source, [f"n-{i}" for i in range(30)], 1000)
    etags = {name: cluster.head(source, name).headers["ETag"] for name in made}
    owners = {name: cluster.owner(source, name) for name in made}
    job = rename(cluster, source, goal)
    assert source not in bucket_names(cluster) and goal in bucket_names(cluster)
    cluster.assert_bodies(goal, made)
    assert {name: cluster.head(goal, name).headers["ETag"] for name in made} == etags
    assert {name: cluster.owner(goal, name) for name in made} == owners
    for answer in (cluster.list_page(source), cluster.get(source, "n-1"), cluster.put(source, "n-1", b"x")):
        assert answer.status == 404 and answer.json()["tcode"] == "ErrBckNotFound", answer
    for snap in snaps(cluster, job).values():
        assert (snap["src-bck"]["name"], snap["dst-bck"]["name"]) == (source, goal) and snap["is_idle"]
    # It is a bucket like any other.
    assert cluster.put(goal, "new", b"new").status == 200
    assert cluster.put(goal, "n-1", b"over").headers["Ais-Version"] == "2"
    assert cluster.delete(goal, "n-2").status == 200
    made = {name: body for name, body in made.items() if name != "n-2"} | {"new": b"new", "n-1": b"over"}
    cluster.assert_bodies(goal, made)


def test_a_name_that_was_left_can_be_used_again(cluster, goal):
    source = cluster.create_bucket(f"source-{next(_numbers)}")
    cluster.fill(source, ["a", "b"], 1000)
    rename(cluster, source, goal)
    cluster.create_bucket(source)
    try:
        assert cluster.names(source) == []
        assert cluster.put(source, "a", b"of the new one").status == 200
        assert cluster.get(goal, "a").body != b"of the new one"
        # The two are placed alike, and are two all the same: also for copies of objects between them.
        goal_uname = urllib.parse.quote(f"ais/@#/{goal}/a")
        assert client.request("PUT", cluster.url(source, "a") + f"&object_to={goal_uname}", b"").status == 200
        assert cluster.get(goal, "a").body == b"of the new one"
        assert cluster.delete(source, "a").status == 200
        assert cluster.names(goal) == ["a", "b"] and cluster.names(source) == []
        copy(cluster, goal, source)
        cluster.assert_bodies(source, cluster.bodies(goal))
    finally:
        cluster.destroy_bucket(source)


def test_renames_that_cannot_be_and_those_that_are_done(cluster, bucket, goal):
    source = cluster.create_bucket(f"source-{next(_numbers)}")
    made = cluster.fill(source, ["a"], 1000)
    for source_name, where, status_code, tcode in [
        (source, bucket, 409, "ErrBucketAlreadyExists"), ("no-such-bucket", goal, 404, "ErrBckNotFound"), (source, source, 400, None),
        (source, "v1", 400, None), (source, "a b", 400, None), (source, "aws/@#/x/", 501, "ErrUnsupp"), ("no-such-bucket", bucket, 409, None),
    ]:
        answer = to_bucket(cluster, source_name, "move-bck", where)
        assert answer.status == status_code and answer.json().get("tcode") in (tcode, "ErrBucketAlreadyExists"), answer
    rename(cluster, source, goal)
    # A client that did not hear the answer asks again.
    rename(cluster, source, goal)
    cluster.assert_bodies(goal, made)
    # But not when there is another one of that name.
    cluster.create_bucket(source)
    answer = to_bucket(cluster, source, "move-bck", goal)
    assert answer.status == 409 and f"ais://{goal}\"" in answer.json()["message"]
    cluster.destroy_bucket(source)
    # There and back, and on.
    rename(cluster, goal, source)
    cluster.assert_bodies(source, made)
    rename(cluster, source, goal + "-2")
    rename(cluster, goal + "-2", goal)
    cluster.assert_bodies(goal, made)


def test_nothing_acknowledged_is_lost_during_a_rename(cluster, goal):
    """Writers to either name go on while it changes; what was acknowledged under one is in the one bucket."""
    source = cluster.create_bucket(f"source-{next(_numbers)}")
    stored, over = {}, threading.Event()

    def write(number):
        for i in itertools.count():
            if over.is_set():
                return
            name, body = f"w{number}-{i}", f"{number}/{i}".encode() * 500
            for bucket in (source, goal):
                answer = cluster.put(bucket, name, body)
                if answer.status == 200:
                    stored[name] = body
                    break
                assert answer.status == 404, answer

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(stored) > 20, 20, "writers are at work")
    rename(cluster, source, goal)
    before = len(stored)
    wait_until(lambda: len(stored) > before + 20, 20, "writers go on")
    over.set()
    for thread in threads:
        thread.join()
    cluster.assert_bodies(goal, stored)
    assert source not in bucket_names(cluster)


def test_a_renamed_bucket_survives_restarts_and_lost_indexes(make_cluster):
    cluster = make_cluster(targets=2, drives=2)
    cluster.create_bucket("old")
    made = cluster.fill("old", [f"n-{i}" for i in range(40)], 1000)
    rename(cluster, "old", "new")
    made |= cluster.fill("new", [f"m-{i}" for i in range(40)], 1000)
    cluster.down()
    for name in ("t1", "t2"):
        for drive in cluster.drives(name):
            shutil.rmtree(drive / ".tarn" / "index")
    cluster.up()
    cluster.assert_bodies("new", made)
    assert cluster.list_page("old").status == 404
    saved = json.loads((cluster.drives("t1")[0] / ".tarn" / "cluster.json").read_text())
    record = next(each for each in saved["bmd"]["buckets"] if each["bucket"]["name"] == "new")
    assert record["first_name"]["name"] == "old", "the drives know where its names belong"


def test_any_target_sends_readers_of_a_renamed_bucket_on(cluster, goal):
    """AIStore's clients that read from targets hash the name that they know."""
    source = cluster.create_bucket(f"source-{next(_numbers)}")
    made = cluster.fill(source, ["a", "b", "c", "d"], 1000)
    rename(cluster, source, goal)
    for name, body in made.items():
        for target in cluster.targets():
            answer = client.request("GET", cluster.url(goal, name, base=cluster.url_of(target)))
            assert answer.status == 200 and answer.body == body, (target, answer)
            answer = client.request("HEAD", cluster.url(goal, name, base=cluster.url_of(target)))
            assert answer.status == 200 and answer.headers["Content-Length"] == str(len(body))
