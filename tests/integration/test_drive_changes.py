"""Drives that come and go while their target runs."""

import concurrent.futures
import json
import threading

import pytest
from harness import attribute, client
from harness.cli import Cli
from harness.cluster import NEVER_DOWN
from harness.waiting import wait_until


@pytest.fixture
def one(make_cluster):
    """One target with two drives, which a test may change."""
    return make_cluster(targets=1, drives=2)


METHODS = {"attach-mp": "PUT", "detach-mp": "DELETE", "enable-mp": "POST", "disable-mp": "POST", "fshc-mp": "POST",
           "rescan-mp": "POST"}


def change(cluster, action, path, query="", method=None, node="t1"):
    body = json.dumps({"action": action, "name": "", "value": str(path) if path is not None else None}).encode()
    return client.request(method or METHODS.get(action, "POST"), f"{cluster.endpoint}/v1/reverse/daemon/mountpaths{query}", body,
                          {"Ais-Node-Id": cluster.nodes[node]["id"], "Content-Type": "application/json"}, expect=False)


def paths(cluster):
    """AIStore's lists of drives."""
    told = client.request("GET", cluster.endpoint + "/v1/reverse/daemon?what=mountpaths", None,
                          {"Ais-Node-Id": cluster.nodes["t1"]["id"]}).json()
    return {key: told[key] for key in ("available", "waiting_dd", "disabled")}


def drive_of(cluster, name):
    """The drive that an object lies on, as a list says."""
    (entry,) = [each for each in cluster.list("data", prefix=name, props="name,location") if each["name"] == name]
    return entry["location"].split("mp[")[1].split(",")[0]


def spread(cluster, count=20):
    """Objects on both drives: {name: drive}."""
    names = cluster.fill("data", {f"o{i}": b"%d" % i for i in range(count)})
    found = {name: drive_of(cluster, name) for name in names}
    assert len(set(found.values())) == 2, found
    return found


def test_orders_at_the_same_time_wait_for_each_other(one):
    """So does an order that comes while the target itself changes its drives, to empty one or to take one back."""
    first, _ = one.drives("t1")
    for action in ("disable-mp", "enable-mp") * 3:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: change(one, action, first, "?dntres=true"), range(8)))
        assert {answer.status for answer in answers} == {200}, answers
    assert paths(one)["disabled"] == []


def test_a_disabled_drive_answers_503_and_takes_nothing_until_it_is_enabled(one):
    lies = spread(one)
    first, second = map(str, one.drives("t1"))
    there = [name for name in lies if lies[name] == first]
    assert change(one, "disable-mp", first, "?dntres=true").status == 200
    assert change(one, "disable-mp", first, "?dntres=true").status == 200, "it is so already"
    assert paths(one) == {"available": [second], "waiting_dd": [], "disabled": [first]}

    def check_disabled():
        for name, drive in lies.items():
            assert one.get("data", name).status == (503 if drive == first else 200), name
        assert "disabled (tarn drive enable)" in one.get("data", there[0]).text
        assert sorted(one.names("data")) == sorted(lies), "a list is never short"
        assert one.delete("data", there[0]).status == 503

    check_disabled()
    for i in range(20):
        assert one.put("data", f"new{i}", b"new").status == 200
        assert drive_of(one, f"new{i}") == second
    # An overwrite lies on the other drive, and is the newest also when the old version can be read again.
    assert one.put("data", there[1], b"overwritten").status == 200
    assert one.get("data", there[1]).body == b"overwritten"
    assert one.delete("data", there[1]).status == 503, "the old version would come back"
    lies[there[1]] = second
    lies.update({f"new{i}": second for i in range(20)})
    one.kill("t1")
    one.start("t1")
    assert paths(one)["disabled"] == [first]
    check_disabled()
    status = client.request("GET", one.endpoint + "/v1/reverse/daemon?what=node_status", None,
                            {"Ais-Node-Id": one.nodes["t1"]["id"]}).json()
    assert status["cluster"]["flags"] & (1 << 13) == 0, "a choice is no fault"

    assert change(one, "enable-mp", first).status == 200
    assert change(one, "enable-mp", first).status == 200
    assert paths(one)["disabled"] == []
    for name in lies:
        assert one.get("data", name).status == 200
    assert one.get("data", there[1]).body == b"overwritten"
    assert one.delete("data", there[1]).status == 200 and one.get("data", there[1]).status == 404
    one.kill("t1")
    one.start("t1")
    assert one.get("data", there[1]).status == 404 and one.get("data", there[0]).status == 200


def test_a_new_drive_is_used_at_once_and_after_a_restart(one):
    lies = spread(one)
    third = one.directory / "t1" / "third"
    third.mkdir()
    assert change(one, "attach-mp", third).status == 200
    again = change(one, "attach-mp", third)
    assert again.status == 400 and "in use already" in again.json()["message"]
    assert str(third) in paths(one)["available"]
    one.fill("data", dict.fromkeys((f"new{i}" for i in range(30)), b"new"))
    used = [f"new{i}" for i in range(30) if drive_of(one, f"new{i}") == str(third)]
    assert used
    assert one.metric("t1", "tarn_drive_up", drive=str(third)) == 1

    def check():
        for name in lies:
            assert one.get("data", name).body == name[1:].encode()
        for name in used:
            assert one.get("data", name).body == b"new"
        assert len(one.names("data")) == len(lies) + 30

    check()
    # What lay elsewhere is overwritten and deleted where it belongs now.
    for name in list(lies)[:10]:
        assert one.put("data", name, name[1:].encode()).status == 200
    one.kill("t1")
    one.start("t1")
    assert str(third) in paths(one)["available"]
    check()
    for name in used:
        assert one.delete("data", name).status == 200
    assert not set(used) & set(one.names("data"))


def test_a_detached_drive_is_gone_until_it_is_attached_again(one):
    lies = spread(one)
    first, second = map(str, one.drives("t1"))
    there = [name for name in lies if lies[name] == first]
    assert change(one, "detach-mp", first, "?dntres=true").status == 200
    wait_until(lambda: not paths(one)["waiting_dd"], 10, "the drive is closed")
    pid = one.pid("t1")
    open_files = {path.resolve() for path in __import__("pathlib").Path(f"/proc/{pid}/fd").iterdir()}
    assert not [path for path in open_files if str(path).startswith(first)], "it can be unmounted"
    assert paths(one) == {"available": [second], "waiting_dd": [], "disabled": []}
    assert sorted(one.names("data")) == sorted(set(lies) - set(there))
    assert one.get("data", there[0]).status == 404
    last = change(one, "detach-mp", second, "?dntres=true")
    assert last.status == 409 and "only one of this target in service" in last.json()["message"]
    one.kill("t1")
    one.start("t1")
    assert paths(one) == {"available": [second], "waiting_dd": [], "disabled": []}
    assert one.put("data", there[1], b"meanwhile").status == 200

    assert change(one, "attach-mp", first).status == 200
    assert sorted(one.names("data")) == sorted(lies)
    for name in lies:
        assert one.get("data", name).body == (b"meanwhile" if name == there[1] else name[1:].encode())
    # An empty one is let go of without further words.
    third = one.directory / "t1" / "third"
    third.mkdir()
    assert change(one, "attach-mp", third).status == 200
    assert change(one, "detach-mp", third).status == 200
    for name in lies:
        assert one.get("data", name).status == 200


def test_readers_and_writers_do_not_notice(make_cluster):
    """Drives come and go under load, each with what it holds: no request fails, no byte is wrong."""
    one = make_cluster(targets=1, drives=2, settings=NEVER_DOWN)
    third = one.directory / "t1" / "third"
    third.mkdir()
    body = bytes(range(256)) * 1024
    one.fill("data", dict.fromkeys((f"r{i}" for i in range(24)), body))
    stop, wrong = threading.Event(), []

    def read(i):
        while not stop.is_set():
            answer = one.get("data", f"r{i}")
            if answer.status != 200 or answer.body != body:
                wrong.append(answer)

    def write(i):
        number = 0
        while not stop.is_set():
            number += 1
            answer = one.put("data", f"w{i}", b"%d" % number)
            if answer.status != 200 or one.get("data", f"w{i}").body != b"%d" % number:
                wrong.append(answer)

    def look():
        while not stop.is_set():
            names = one.names("data")
            if len(set(names)) != len(names) or not {f"r{i}" for i in range(24)} <= set(names):
                wrong.append(names)

    threads = [threading.Thread(target=look), *(threading.Thread(target=read, args=(i,)) for i in range(4))]
    threads += [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert change(one, "attach-mp", third).status == 200
            wait_until(lambda: any(f"mp[{third}" in each["location"] for each in one.list("data", props="name,location")), 20,
                       "something lies on it")
            assert change(one, "detach-mp", third).status == 200
            wait_until(lambda: not paths(one)["waiting_dd"], 30, "the drive is empty and closed")
            assert not attribute.objects([third])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[:3]


def copies_of(cluster, name):
    answer = cluster.head("twice", name)
    return answer.headers["Ais-Mirror-Paths"].strip("[]").split(",") if answer.status == 200 else []


@pytest.mark.parametrize("restart", [False, True], ids=["runs", "restarts"])
@pytest.mark.parametrize("away, back", [("disable-mp", "enable-mp"), ("detach-mp", "attach-mp")])
def test_what_happens_to_mirrored_objects_without_a_drive_stays_when_it_is_back(one, away, back, restart):
    third = one.directory / "t1" / "third"
    third.mkdir()
    assert change(one, "attach-mp", third).status == 200
    one.create_bucket("twice", {"mirror": {"enabled": True}})
    names = [f"o{i}" for i in range(24)]
    for name in names:
        assert one.put("twice", name, name.encode()).status == 200
        assert len(copies_of(one, name)) == 2
    gone = str(one.drives("t1")[0])
    deleted, changed, kept, *_ = [name for name in names if any(gone in path for path in copies_of(one, name))]
    answer = change(one, away, gone)
    assert answer.status == 200, "every object lies on another drive, too: " + answer.text
    for name in names:
        assert one.get("twice", name).body == name.encode()
        assert not any(gone in path for path in copies_of(one, name))
    assert one.get("twice", "no such").status == 404
    assert one.delete("twice", deleted).status == 200
    assert one.put("twice", changed, b"changed").status == 200
    assert one.put("twice", "new", b"new").status == 200

    def check():
        assert one.get("twice", deleted).status == 404 and deleted not in one.names("twice")
        for name in {*names, "new"} - {deleted}:
            assert one.get("twice", name).body == (b"changed" if name == changed else name.encode())

    check()
    if restart:
        one.kill("t1")
        one.start("t1")
        check()
    assert change(one, back, gone).status == 200
    check()
    wait_until(lambda: one.redundancy("twice")["by_copies"] == {"2": len(names)}, 30, "every object has two copies again, and no more")
    there = {*names, "new"} - {deleted}
    wait_until(lambda: {len(copies_of(one, name)) for name in there} == {2}, 30, "none is on its way to another drive")
    one.kill("t1")
    one.start("t1")
    check()


@pytest.mark.parametrize("action, path, query, status, says", [
    ("attach-mp", "/no/such/directory", "", 404, "mountpath /no/such/directory does not exist"),
    ("detach-mp", "/no/such", "?dntres=true", 404, "mountpath /no/such does not exist"),
    ("disable-mp", "/no/such", "", 404, "mountpath /no/such does not exist"),
    ("enable-mp", "/no/such", "", 404, "mountpath /no/such does not exist"),
    ("fshc-mp", "/no/such", "", 400, "/no/such is not available"),
    ("attach-mp", "relative", "", 400, "must be the absolute path"),
    ("attach-mp", None, "", 400, "must be the absolute path"),
    ("format-mp", "/x", "", 400, "drives are changed with attach-mp"),
    ("attach-mp", "/tmp", "?mountpath_label=a/b", 400, "a label has 1 to 32"),
    ("detach-mp", "/tmp", "?dntres=perhaps", 400, "dntres=perhaps")])
def test_what_cannot_be_done_to_a_drive_says_why(cluster, action, path, query, status, says):
    answer = change(cluster, action, path, query)
    assert answer.status == status and says in answer.json()["message"], answer
    if status == 404:
        assert answer.json()["tcode"] == ("ErrNotFound" if action == "attach-mp" else "ErrMpathNotFound")


def test_what_is_no_drive_of_this_target_is_refused(make_cluster, tmp_path):
    cluster = make_cluster(targets=2, drives=1)
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("x")
    full = change(cluster, "attach-mp", tmp_path / "used")
    assert full.status == 409 and "not empty: it is refused" in full.json()["message"], full
    others = change(cluster, "attach-mp", cluster.drives("t2")[0])
    assert others.status == 409 and "belongs to target" in others.json()["message"], others
    link = tmp_path / "link"
    link.symlink_to(cluster.drives("t1")[0])
    twice = change(cluster, "attach-mp", link)
    assert twice.status == 409 and "given twice" in twice.json()["message"], twice
    wrong = change(cluster, "attach-mp", tmp_path, method="POST")
    assert wrong.status == 400 and "sent with PUT" in wrong.json()["message"]
    proxy = change(cluster, "attach-mp", tmp_path, node="p1")
    assert proxy.status == 400 and "a proxy has no drives" in proxy.json()["message"]
    assert change(cluster, "fshc-mp", cluster.drives("t1")[0]).status == 200


def test_the_command_line_changes_drives(one):
    cli = Cli(one.endpoint)
    node, third = one.nodes["t1"]["id"], one.directory / "t1" / "third"
    third.mkdir()
    spread(one)
    cli.ok("drive", "attach", node, third)
    shown = json.loads(cli.ok("--json", "drive", "ls"))
    assert {row["drive"]: row["state"] for row in shown} == {str(path): "up" for path in (*one.drives("t1"), third)}
    # What has moved there since it came moves away first, which the command waits for for two seconds.
    cli.ok("drive", "disable", node, third)
    wait_until(lambda: f"{third} disabled" in " ".join(cli.ok("drive", "ls").decode().split()), 20, "it is out of use")
    cli.ok("drive", "enable", node, third)
    cli.ok("drive", "detach", node, third)
    wait_until(lambda: str(third) not in cli.ok("drive", "ls").decode(), 20, "it is gone")
    first = one.drives("t1")[0]
    cli.ok("drive", "disable", "--wait", node, first)
    assert f"{first} disabled - disabled by an operator" in " ".join(cli.ok("drive", "ls").decode().split())
    cli.ok("drive", "enable", node, first)
    cli.refuses(3, "drive", "disable", node, "/no/such", says="does not exist")
    cli.ok("drive", "disable", "--force", node, one.drives("t1")[0])
    cli.ok("drive", "enable", node, one.drives("t1")[0])


def test_a_label_stays_until_the_drive_is_detached(one):
    spare = one.directory / "t1" / "spare"
    spare.mkdir()

    def label():
        told = client.request("GET", one.endpoint + "/v1/reverse/daemon?what=node_status", None,
                              {"Ais-Node-Id": one.nodes["t1"]["id"]}).json()
        return told["capacity"]["mountpaths"][str(spare)]["mountpath_label"]

    refused = change(one, "attach-mp", spare, "?mountpath_label=a%20b")
    assert refused.status == 400 and "mountpath_label=a b" in refused.json()["message"], refused
    assert change(one, "attach-mp", spare, "?mountpath_label=ssd").status == 200
    assert label() == "ssd"
    one.kill("t1")
    one.start("t1")
    assert label() == "ssd"
    refused = change(one, "disable-mp", spare, "?mountpath_label=hdd")
    assert refused.status == 400 and "attach-mp" in refused.json()["message"], refused
    assert change(one, "detach-mp", spare, "?dntres=true").status == 200
    assert change(one, "attach-mp", spare).status == 200
    assert label() == ""


def resilvers(cluster):
    """All resilver jobs, running and ended."""
    return client.request("GET", cluster.endpoint + "/v1/cluster?what=status_all", b'{"kind":"resilver"}',
                          {"Content-Type": "application/json"}, expect=False).json() or []


def at_rest(cluster, count):
    """`count` resilvers or more have begun, and all have ended well."""
    jobs = resilvers(cluster)
    return len(jobs) >= count and all(job["end_time"] and not job["err"] for job in jobs)


def places(cluster):
    """Names by the drive that they lie on, each once."""
    found = {str(drive): sorted(attribute.objects([drive])) for drive in cluster.directory.glob("t1/*") if (drive / ".tarn").exists()}
    return {drive: names for drive, names in found.items() if names}


@pytest.mark.parametrize("back", ["attach-mp", "enable-mp"])
def test_objects_move_by_themselves_when_a_drive_comes(one, back):
    """A job of kind resilver begins without an operator, and then look-ups visit one drive again."""
    lies = spread(one, 60)
    first, third = one.drives("t1")[0], one.directory / "t1" / "third"
    third.mkdir()
    if back == "enable-mp":
        assert change(one, "disable-mp", first, "?dntres=true").status == 200
        for name in lies:
            assert one.put("data", name, name[1:].encode()).status == 200
        assert {drive_of(one, name) for name in lies} == {str(one.drives("t1")[1])}
    came = third if back == "attach-mp" else first
    assert change(one, back, came).status == 200
    wait_until(lambda: at_rest(one, 1), 30, "the resilver has ended")
    assert len(resilvers(one)) == 1
    wait_until(lambda: len(one.logs["t1"].matching("mark of misplaced objects cleared")) >= len(places(one)), 20, "marks are cleared")
    now = places(one)
    assert sorted(sum(now.values(), [])) == sorted(lies), "each lies in one place"
    assert len(now[str(came)]) > 5
    for name in lies:
        assert one.get("data", name).body == name[1:].encode()


def test_what_came_with_dntres_moves_after_a_restart(one):
    lies = spread(one, 60)
    third = one.directory / "t1" / "third"
    third.mkdir()
    assert change(one, "attach-mp", third, "?dntres=true").status == 200
    assert not resilvers(one) and str(third) not in places(one)
    one.kill("t1")
    one.start("t1")
    wait_until(lambda: at_rest(one, 1), 30, "the resilver has ended")
    now = places(one)
    assert len(now[str(third)]) > 5 and sorted(sum(now.values(), [])) == sorted(lies)


def test_resilver_enabled_false_leaves_objects_where_they_are(make_cluster):
    one = make_cluster(targets=1, drives=2, settings={"resilver.enabled": "false"})
    spread(one, 40)
    third = one.directory / "t1" / "third"
    third.mkdir()
    assert change(one, "attach-mp", third).status == 200
    set_to = lambda value: client.request("PUT", f"{one.endpoint}/v1/cluster/set-config?resilver.enabled={value}", b"", expect=False)
    assert set_to("false").status == 200
    one.kill("t1")
    one.start("t1")
    assert not resilvers(one) and str(third) not in places(one)
    assert set_to("true").status == 200
    wait_until(lambda: str(third) in places(one) and at_rest(one, 1), 30, "it moves what belongs there")


@pytest.mark.parametrize("action", ["detach-mp", "disable-mp"])
def test_a_drive_gives_away_what_it_holds_before_it_goes(one, action):
    lies = spread(one, 60)
    first, second = map(str, one.drives("t1"))
    gone = [name for name in lies if lies[name] == first][0]
    assert one.delete("data", gone).status == 200
    del lies[gone]
    assert change(one, action, first).status == 200
    ends = {"available": [second], "waiting_dd": [], "disabled": [first] if action == "disable-mp" else []}
    wait_until(lambda: paths(one) == ends, 30, "it is empty and gone")
    for name in lies:
        assert one.get("data", name).body == name[1:].encode()
        assert drive_of(one, name) == second
    assert one.get("data", gone).status == 404 and sorted(one.names("data")) == sorted(lies)
    assert places(one) == {second: sorted(lies)}
    assert any(not job["err"] for job in resilvers(one)), "a job shows it"
    one.kill("t1")
    one.start("t1")
    assert paths(one) == ends
    assert change(one, "attach-mp" if action == "detach-mp" else "enable-mp", first).status == 200
    wait_until(lambda: len(places(one).get(first, [])) > 5, 30, "it gets its names again")
    for name in lies:
        assert one.get("data", name).body == name[1:].encode()


def test_a_drive_that_leaves_goes_on_after_a_kill_and_stays_when_told(make_cluster):
    one = make_cluster(targets=1, drives=2, settings={"rebalance.bandwidth": "100KiB"})
    body = bytes(range(256)) * 256
    one.fill("data", dict.fromkeys((f"o{i}" for i in range(60)), body))
    first, second = map(str, one.drives("t1"))
    there = places(one)[first]
    assert change(one, "detach-mp", first).status == 200
    assert change(one, "detach-mp", first).status == 200, "it is so already"
    assert paths(one) == {"available": [second], "waiting_dd": [first], "disabled": []}
    wait_until(lambda: len(places(one)[first]) < len(there), 30, "something has moved")
    last = change(one, "detach-mp", second)
    assert last.status == 409 and "only one of this target in service" in last.json()["message"], last
    # It stays, with what it has, and takes files again.
    assert change(one, "enable-mp", first).status == 200
    assert paths(one) == {"available": [first, second], "waiting_dd": [], "disabled": []}
    one.fill("data", dict.fromkeys((f"new{i}" for i in range(20)), body))
    assert any(drive_of(one, f"new{i}") == first for i in range(20))
    # It goes again, over a kill.
    assert change(one, "detach-mp", first).status == 200
    for i in range(20):
        assert one.put("data", f"late{i}", body).status == 200
        assert drive_of(one, f"late{i}") == second, "no new files go there"
    one.kill("t1")
    one.start("t1")
    assert paths(one)["waiting_dd"] == [first]
    assert drive_of(one, "late0") == second and one.put("data", "late20", body).status == 200
    assert drive_of(one, "late20") == second
    names = [f"o{i}" for i in range(60)] + [f"new{i}" for i in range(20)] + [f"late{i}" for i in range(21)]
    for name in names:
        assert one.get("data", name).body == body
    assert sorted(one.names("data")) == sorted(names)
    set_to = client.request("PUT", f"{one.endpoint}/v1/cluster/set-config?rebalance.bandwidth=0B", b"", expect=False)
    assert set_to.status == 200, set_to
    wait_until(lambda: paths(one) == {"available": [second], "waiting_dd": [], "disabled": []}, 60, "it is empty and gone")
    for name in names:
        assert one.get("data", name).body == body
    assert places(one) == {second: sorted(names)}


def test_a_drive_does_not_leave_when_the_others_have_no_room(one):
    spread(one)
    first = str(one.drives("t1")[0])
    settings = "space.highwm=1&space.out_of_space=1"
    assert client.request("PUT", f"{one.endpoint}/v1/cluster/set-config?{settings}", b"", expect=False).status == 200
    refused = change(one, "detach-mp", first)
    assert refused.status == 507 and "take 0 bytes only" in refused.json()["message"], refused
    assert paths(one)["waiting_dd"] == []


@pytest.mark.parametrize("away, back", [("disable-mp", "enable-mp"), ("detach-mp", "attach-mp")])
def test_an_old_version_does_not_come_back_with_its_drive(make_cluster, away, back):
    """Written anew without its drive, which is back when the one with the new version is missing: 503, never the old one."""
    one = make_cluster(targets=1, drives=2, settings={"resilver.enabled": "false"})
    lies = spread(one)
    first, second = one.drives("t1")
    name = next(name for name in lies if lies[name] == str(first))
    wait_until(lambda: change(one, away, first, "?dntres=true").status == 200, 10, "out of service")
    assert one.put("data", name, b"second").status == 200
    wait_until(lambda: not paths(one)["waiting_dd"], 10, "closed")
    # Back, and the target dies before it has compared the two.
    one.kill("t1")
    one.start("t1", fail_points="mirror.before_drop=error")
    assert change(one, back, first).status == 200
    assert one.get("data", name).body == b"second"
    one.kill("t1")
    second.rename(second.parent / "kept")
    second.mkdir()
    one.expect_errors("drive missing")
    one.start("t1")
    assert one.get("data", name).status == 503
    assert one.head("data", name).status == 503
    one.kill("t1")
    second.rmdir()
    (second.parent / "kept").rename(second)
    one.start("t1")
    wait_until(lambda: one.get("data", name).status == 200, 10, "it is back")
    assert one.get("data", name).body == b"second"
    wait_until(lambda: one.logs["t1"].matching("drive has caught up"), 20, "what was overtaken is gone")
    assert name not in attribute.objects([first])
    for each in lies:
        assert one.get("data", each).body == (b"second" if each == name else each[1:].encode())


def test_a_known_drive_whose_directory_is_gone_is_a_missing_drive(one):
    lies = spread(one)
    first, second = one.drives("t1")
    one.expect_errors("drive missing")
    for place in ("empty", "missing", "file"):
        one.kill("t1")
        second.rename(second.parent / "kept")
        if place == "empty":
            second.mkdir()
        if place == "file":
            second.write_text("a file")
        one.start("t1")
        assert {one.get("data", name).status for name in lies if lies[name] == str(second)} == {503}
        assert {one.get("data", name).status for name in lies if lies[name] == str(first)} == {200}
        one.logs["t1"].wait_for("drive missing.*--replace-drive")
        one.kill("t1")
        if place == "empty":
            second.rmdir()
        if place == "file":
            second.unlink()
        (second.parent / "kept").rename(second)
        one.start("t1")
        for name in lies:
            assert one.get("data", name).body == name[1:].encode()


def test_copies_are_made_elsewhere_when_their_drive_leaves(one):
    """Objects with copies, one of them with its only one on the drive, and objects without."""
    spread(one)
    first, second = one.drives("t1")
    one.create_bucket("twice", {"mirror": {"enabled": True}})
    assert change(one, "disable-mp", second, "?dntres=true").status == 200
    assert one.put("twice", "alone", b"alone").status == 200
    assert copies_of(one, "alone") == [copy for copy in copies_of(one, "alone") if str(first) in copy]
    third = one.directory / "t1" / "third"
    third.mkdir()
    assert change(one, "enable-mp", second).status == 200 and change(one, "attach-mp", third).status == 200
    names = ["alone", *(f"o{i}" for i in range(20))]
    one.fill("twice", names[1:])
    assert change(one, "detach-mp", first).status == 200
    wait_until(lambda: paths(one) == {"available": [str(second), str(third)], "waiting_dd": [], "disabled": []}, 30, "it is gone")
    for name in names:
        assert one.get("twice", name).body == name.encode()
    wait_until(lambda: one.redundancy("twice")["by_copies"] == {"2": len(names)}, 30, "every object has two copies again")
