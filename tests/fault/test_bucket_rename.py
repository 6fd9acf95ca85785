"""kill -9 of any node at any step of renaming a bucket (docs/reliability.md A3): all of it, or nothing; asking again is safe."""

import json
import shutil
import threading
import time
import urllib.parse

import pytest
from harness import client, jobs
from harness.waiting import wait_until

JSON = {"Content-Type": "application/json"}
ROUNDS = 10
SIZES = (0, 1, 5000, 70_000)
POINTS = ("rename_bucket.before_commit", "rename_bucket.before_acknowledged", "rename_bucket.before_reply")


def rename(cluster, source, goal):
    """The status of the answer; None when there was none."""
    goal = urllib.parse.quote(f"ais/@#/{goal}/", safe="")
    body = json.dumps({"action": "move-bck", "name": "", "value": None}).encode()
    url = f"{cluster.endpoint}/v1/buckets/{source}?provider=ais&bck_to={goal}"
    try:
        return client.request("POST", url, body, JSON, expect=False).status
    except (OSError, client.ProtocolError):
        return None


def read_meanwhile(cluster, made, old, new):
    """While the bucket may be renamed at any instant, what is no longer found under the old name is under the new one."""
    for name, body in made.items():
        answer = cluster.get(old, name)
        if answer.status == 404:
            answer = cluster.get(new, name)
        assert answer.status == 200 and answer.body == body, f"{name}: {answer!r}"


def wait_finished(cluster):
    """A rename that had begun when its proxy was killed is gone on with by the proxy that starts, an instant later."""
    wait_until(lambda: not jobs.query(cluster, "running_all").json(), 30, "no job runs")


def name_now(cluster, made, one, other):
    """Which of two names the bucket has: exactly one, with everything in it. Not while a rename is under way."""
    there = [name for name in (one, other) if cluster.list_page(name).status == 200]
    assert len(there) == 1, f"of {one} and {other} there are {there}"
    cluster.assert_bodies(there[0], made)
    return there[0]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.gate("A3")
def test_a_proxy_killed_at_any_step_of_a_rename(make_cluster, point, seed, rng):
    cluster = make_cluster(apart=True, targets=2, drives=1)
    cluster.create_bucket("old")
    made = cluster.fill("old", rng.randint(1, 40), SIZES, rng)
    cluster.kill("p1")
    cluster.start("p1", fail_points=f"{point}=kill@1")
    assert rename(cluster, "old", "new") is None
    cluster.wait_exit("p1")
    cluster.start("p1")
    read_meanwhile(cluster, made, "old", "new")
    wait_finished(cluster)
    found = name_now(cluster, made, "old", "new")
    taken = len(cluster.logs["p1"].matching("job taken kind=move-bck"))
    print(f"injected: kill at {point}; taken up again: {taken}; found: {found}")
    # Its record was there before its first step (decision 015), so it is carried out whatever the step was.
    assert taken == 1 and found == "new"
    # A client that got no answer asks again, and what is stored now is stored under the new name.
    assert rename(cluster, "old", "new") == 200
    assert name_now(cluster, made, "old", "new") == "new"
    made |= {"later": b"later"}
    assert cluster.put("new", "later", b"later").status == 200
    cluster.kill("t1", "t2", "p1")
    cluster.start("p1", "t1", "t2")
    assert name_now(cluster, made, "old", "new") == "new"


def test_nodes_killed_at_any_instant_of_a_rename(make_cluster, seed, rng):
    """Proxy, targets or all at once, within the time that a rename takes."""
    cluster = make_cluster(apart=True, targets=2, drives=1)
    cluster.create_bucket("a-0")
    made = cluster.fill("a-0", 24, SIZES, rng)
    now, answered, undone = "a-0", 0, 0
    for number in range(1, ROUNDS + 1):
        goal = f"a-{number}"
        victims = rng.choice([["p1"], ["p1"], ["t1"], ["t2"], ["p1", "t1", "t2"]])
        answers = []
        asking = threading.Thread(target=lambda: answers.append(rename(cluster, now, goal)))
        asking.start()
        time.sleep(rng.uniform(0, 0.03))
        cluster.kill(*victims)
        asking.join()
        cluster.start(*victims)
        read_meanwhile(cluster, made, now, goal)
        wait_finished(cluster)
        found = name_now(cluster, made, now, goal)
        if answers[0] == 200:
            answered += 1
            assert found == goal, "an acknowledged rename was undone"
        undone += found == now
        assert rename(cluster, now, goal) == 200
        assert name_now(cluster, made, now, goal) == goal
        now = goal
    print(f"injected: {ROUNDS} kills; {answered} renames were answered, {undone} had not happened")


def test_a_target_that_was_away_during_a_rename_knows_both_names_at_once(make_cluster):
    """Objects of the target are found under the new name as soon as it is back; the old name is gone there, too."""
    cluster = make_cluster(apart=True, targets=2, drives=1)
    cluster.create_bucket("old")
    made = cluster.fill("old", 24, SIZES)
    cluster.kill("t2")
    assert rename(cluster, "old", "new") == 200
    cluster.start("t2")
    assert name_now(cluster, made, "old", "new") == "new"
    for name in made:
        answer = client.request("GET", cluster.url("old", name, base=cluster.url_of("t2")))
        assert answer.status == 404 and answer.json()["tcode"] == "ErrBckNotFound"


def move_to_the_other_drive(cluster, node):
    """Misplaces the object of a target as an overflow does: on the drive that is not its place."""
    one, other = (drive / "data" for drive in cluster.drives(node))
    (path,) = [path for path in [*one.rglob("*"), *other.rglob("*")] if path.is_file()]
    source, goal = (one, other) if one in path.parents else (other, one)
    (goal / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
    path.rename(goal / path.relative_to(source))


def test_after_a_rename_a_start_still_knows_what_lies_on_another_drive_than_its_own(make_cluster):
    """Where a name belongs is a matter of the name its bucket was made with; a start must not judge by the new one."""
    cluster = make_cluster(targets=4, drives=2)
    cluster.create_bucket("old")
    nodes = cluster.targets()
    made = cluster.fill("old", {cluster.names_owned_by(node, "old", 1)[0]: node.encode() * 1000 for node in nodes})
    cluster.kill(*nodes)
    for node in nodes:
        move_to_the_other_drive(cluster, node)
    cluster.start(*nodes)
    now = "old"
    change = json.dumps({"action": "", "name": "", "value": {"colour": "red"}}).encode()
    for number in range(4):  # a wrong guess finds the right drive every other time
        goal = f"new-{number}"
        assert rename(cluster, now, goal) == 200
        now = goal
        for name in made:
            assert client.request("PATCH", cluster.url(now, name), change, JSON).status == 200
        cluster.kill(*nodes)
        if number >= 2:  # the files have to tell
            for node in nodes:
                for drive in cluster.drives(node):
                    shutil.rmtree(drive / ".tarn" / "index")
        cluster.start(*nodes)
        cluster.assert_bodies(now, made)


def test_a_rename_whose_proxy_died_is_not_done_again_when_the_name_was_given_anew(make_cluster):
    """A client without an answer asks another proxy, then takes the name back. The first rename, found later, is void."""
    cluster = make_cluster(targets=1, drives=1, meta="etcd", proxies=2)
    cluster.create_bucket("old")
    made = cluster.fill("old", 4, SIZES)
    cluster.kill("p1")
    cluster.start("p1", fail_points="rename_bucket.before_commit=kill@1")
    cluster.endpoint = cluster.url_of("p1")
    assert rename(cluster, "old", "new") is None
    cluster.wait_exit("p1")
    cluster.endpoint = cluster.url_of("p2")
    assert rename(cluster, "old", "new") == 200
    assert rename(cluster, "new", "old") == 200
    # When the lease of p1 has ended.
    wait_until(lambda: cluster.logs["p2"].matching("job taken kind=move-bck"), 20, "the job is taken up")
    wait_finished(cluster)
    assert name_now(cluster, made, "old", "new") == "old", "an acknowledged rename was undone by an older one"
