"""Buckets with `ec.enabled`: objects are cut into slices, and any m of their holders may be lost."""

import contextlib
import itertools
import json
import os
import shutil
import time

import pytest
from harness import attribute, client
from harness.cli import Cli
from harness.coded import KIB, LIMIT, MIB, STRIPE, at_two_replicas, flip, get, props, put_aside, record_of, records_of, slices_of
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until

def coded(k=2, m=1, **others):
    return props("striped", k, m, **others)


@pytest.fixture
def four(make_cluster):
    cluster = make_cluster(targets=4, drives=1)
    cluster.create_bucket("cut", coded())
    wait_until_in_place(cluster)
    return cluster


BODIES = {"one": 1001, "unit": 64 * KIB - 32, "stripe": STRIPE, "stripe and one": STRIPE + 1, "long": 5 * MIB + 77}


def test_an_object_lies_in_slices_and_is_read_as_it_was(four):
    for name, size in BODIES.items():
        body = os.urandom(size)
        answer = four.put("cut", name, body)
        assert answer.status == 200 and "Tarn-Durability" not in answer.headers, answer
        got = get(four, name)
        assert got.status == 200 and got.body == body
        assert got.headers["ETag"] == answer.headers["ETag"] and int(got.headers["Content-Length"]) == size
        wait_until(lambda: at_two_replicas(four, name), 5, "the record has two replicas")
        record, _ = record_of(four, name)
        assert record["size"] == size and record["coding"]["k"] == 2 and record["coding"]["m"] == 1
        lies = slices_of(four, name)
        assert sorted(lies) == [0, 1, 2] and len({holders[0] for holders in lies.values()}) == 3
        ids = {four.nodes[target]["id"]: target for target in four.targets()}
        assert [ids[holder] for holder in record["coding"]["holders"]] == [lies[i][0] for i in range(3)]
    assert sorted(four.names("cut")) == sorted(BODIES)


def test_small_objects_are_copied(four):
    for size in (0, 1, LIMIT):
        assert four.put("cut", f"small-{size}", b"x" * size).status == 200
        assert get(four, f"small-{size}").body == b"x" * size
        assert slices_of(four, f"small-{size}") == {}
        wait_until(lambda: at_two_replicas(four, f"small-{size}"), 5, "there are two copies")


def test_ranges(four):
    body = os.urandom(3 * STRIPE + 1234)
    assert four.put("cut", "a", body).status == 200
    unit = 64 * KIB - 32
    for begin, end in [(0, 1), (unit - 1, unit + 1), (STRIPE - 1, STRIPE + 1), (STRIPE, 2 * STRIPE), (10, len(body)), (len(body) - 1, len(body))]:
        got = get(four, "a", Range=f"bytes={begin}-{end - 1}")
        assert got.status == 206 and got.body == body[begin:end], (begin, end)
        assert got.headers["Content-Range"] == f"bytes {begin}-{end - 1}/{len(body)}"


def test_chunks_appends_copies_and_metadata(four):
    body = os.urandom(300 * KIB)
    chunked = client.request("PUT", four.url("cut", "chunked"), iter([body[:100], body[100:]]))
    assert chunked.status == 200 and get(four, "chunked").body == body
    assert sorted(slices_of(four, "chunked")) == [0, 1, 2]
    before, _ = record_of(four, "chunked")
    patched = client.request("PATCH", four.url("cut", "chunked"), b'{"value": {"color": "red"}}', {"Content-Type": "application/json"})
    assert patched.status == 200
    after, _ = record_of(four, "chunked")
    assert after["pairs"]["color"] == "red" and after["coding"] == before["coding"] and after["generation"] > before["generation"]
    assert get(four, "chunked").body == body
    four.create_bucket("plain")
    for goal in ("ais/@#/plain/copy", "ais/@#/cut/copy"):
        copied = client.request("PUT", four.url("cut", "chunked") + "&object_to=" + goal.replace("#", "%23"), b"")
        assert copied.status == 200, copied
    assert four.get("plain", "copy").body == body and get(four, "copy").body == body
    assert sorted(slices_of(four, "copy")) == [0, 1, 2]


@pytest.mark.deep("a minute: former slices stay for half a minute")
def test_an_overwrite_and_a_delete_take_the_slices_away(four):
    first, second = os.urandom(200 * KIB), os.urandom(150 * KIB)
    assert four.put("cut", "a", first).status == 200
    assert four.put("cut", "a", second).status == 200
    assert get(four, "a").body == second
    new = record_of(four, "a")[0]["coding"]["set"]

    def sets():
        return {said["slice"]["set"] for _, said in attribute.slices(four.all_drives())}

    # A reader by the former record may go on for half a minute.
    wait_until(lambda: sets() == {new}, 60, "the slices of before are gone")
    assert get(four, "a").body == second
    assert four.delete("cut", "a").status == 200
    assert get(four, "a").status == 404
    wait_until(lambda: sets() == set(), 60, "all slices are gone")


def test_it_is_read_without_any_one_target(four):
    bodies = four.fill("cut", {f"n-{i}": os.urandom(100 * KIB + i) for i in range(12)})

    def read(name):
        try:
            return get(four, name)
        except OSError:  # sent to the one that was killed just now
            return None

    for target in four.targets():
        four.kill(target)
        begun = time.monotonic()
        for name, body in bodies.items():
            got = wait_until(lambda: (answer := read(name)) is not None and answer.status == 200 and answer, 5, f"{name} is read")
            assert got.body == body, name
        print(f"all {len(bodies)} names read without {target}: {time.monotonic() - begun:.2f} s")
        four.start(target)
        wait_until_in_place(four)


def test_too_few_slices_are_said_and_read_again_when_holders_are_back(four):
    body = os.urandom(400 * KIB)
    name = four.names_owned_by("t1", "cut", 1)[0]
    assert four.put("cut", name, body).status == 200
    owner = four.owner("cut", name)
    others = [holders[0] for holders in slices_of(four, name).values() if holders[0] != owner]
    four.kill(*others[:2])

    def refused():
        try:
            answer = get(four, name)
        except OSError:  # sent to one that was killed just now
            return False
        return answer.status == 503 and "slices of" in answer.json()["message"] and answer

    said = wait_until(refused, 20, "too few slices are an error")
    assert "2 are needed" in said.json()["message"], said
    four.start(*others[:2])
    wait_until_in_place(four)
    got = wait_until(lambda: (answer := get(four, name)).status == 200 and answer, 20, "it is read again")
    assert got.body == body


def test_an_object_without_slices_is_lost_and_not_gone(four):
    body = os.urandom(300 * KIB)
    assert four.put("cut", "a", body).status == 200
    four.kill(*four.targets())
    for target in four.targets():
        for path, said in attribute.slices(four.drives(target)):
            if said["name"] == "a":
                os.unlink(path)
    four.start(*four.targets())
    wait_until_in_place(four)
    four.expect_errors("object lost|slices are left")
    got = wait_until(lambda: (answer := get(four, "a")).status != 503 and answer, 20, "it is judged")
    assert got.status == 500 and "fewer than 2 of its 3 slices are left" in got.json()["message"], got
    wait_until(lambda: any(log.matching("object lost .*ais://cut/a") for log in four.logs.values()), 10, "a log names it")
    head = client.request("HEAD", four.url("cut", "a"), expect=False)
    assert head.status == 200 and int(head.headers["Content-Length"]) == len(body)
    assert four.names("cut") == ["a"]
    assert four.put("cut", "a", body).status == 200 and get(four, "a").body == body


def test_a_bucket_is_not_coded_while_a_target_is_away(four):
    four.kill("t4")
    names = iter(range(1000))
    answer = wait_until(lambda: (made := four.bucket_action("POST", f"try-{next(names)}", "create-bck", coded())).status == 503 and made, 20,
                        "its lease has ended")
    said = answer.json()["message"]
    assert "ec.enabled" in said and f"t[{four.nodes['t4']['id']}] is away" in said, said
    four.create_bucket("plain")
    four.start("t4")
    wait_until(lambda: four.bucket_action("POST", "more", "create-bck", coded()).status == 200, 20, "the proxy knows that it is back")


def test_who_is_put_aside_takes_no_slices_and_stays_needed_while_it_has_some(four):
    for i in range(8):
        assert four.put("cut", f"before-{i}", os.urandom(100 * KIB)).status == 200
    before = {said["name"] for _, said in attribute.slices(four.drives("t4"))}
    assert before
    put_aside(four, "t4")

    def in_place(target):
        said = client.request("GET", four.endpoint + "/v1/cluster?what=rebalance").json()
        return said["settled"] == said["map"] and said["targets"][four.nodes[target]["id"]]["state"] == "in_place"

    wait_until(lambda: attribute.objects(four.drives("t4"), "cut") == {}, 20, "its records are away")
    for i in range(8):
        assert four.put("cut", f"after-{i}", os.urandom(100 * KIB)).status == 200
    time.sleep(2)
    assert {said["name"] for _, said in attribute.slices(four.drives("t4"))} == before
    wait_until(lambda: in_place("t1") or in_place("t2") or in_place("t3"), 20, "others hold nothing that is not theirs")
    assert not in_place("t4"), "it holds slices, so it is needed"
    for name in before:
        assert get(four, name).status == 200


def test_a_version_that_was_overtaken_goes_from_who_is_no_replica_any_more(four):
    """It is unknown whether all replicas had it, and they may not send a newer version to a target that is none."""
    (name,) = four.names_owned_by("t1", "cut", 1)
    assert four.put("cut", name, b"first").status == 200
    wait_until(lambda: at_two_replicas(four, name), 5, "there are two copies")
    (other,) = [target for target in four.targets() if target != "t1" and name in attribute.objects(four.drives(target), "cut")]
    four.kill("t1")
    four.start("t1", fail_points="copies.before_own=kill")
    wait_until_in_place(four)
    with contextlib.suppress(OSError):
        assert four.put("cut", name, b"second").status >= 500
    four.wait_exit("t1", 20)
    four.kill(other)
    pending = attribute.objects(four.drives(other), "cut")[name]
    assert pending["size"] == len(b"second") and "\x01unsettled" in pending["pairs"], pending
    four.start("t1")

    def put():
        try:
            return four.put("cut", name, b"the third").status == 200
        except OSError:
            return False

    wait_until(put, 30, "it is written without that replica")
    put_aside(four, other)
    four.start(other)
    wait_until(lambda: name not in attribute.objects(four.drives(other), "cut"), 30, "what was overtaken is erased")
    assert get(four, name).body == b"the third"
    wait_until(lambda: at_two_replicas(four, name), 5, "both replicas have it")


def test_a_changed_byte_is_never_served(four):
    body = os.urandom(5 * STRIPE)
    assert four.put("cut", "a", body).status == 200
    four.expect_errors("slice is not what was stored")
    for target in four.targets():
        for path, said in attribute.slices(four.drives(target)):
            if said["slice"]["index"] != 0:
                continue
            flip(path, said["slice"]["file_bytes"] // 2)
            four.kill(target)  # what is in memory was compared before
            four.start(target)
    wait_until_in_place(four)
    assert get(four, "a").body == body
    # The target that has it notices, and sends none of it.
    wait_until(lambda: any(log.matching("slice is not what was stored") for log in four.logs.values()), 10, "a log says so")


def test_slices_that_changed_places_are_never_decoded(make_cluster):
    """Each block of them is whole, of this object, and not what was asked for."""
    cluster = make_cluster(targets=4, drives=1)
    cluster.create_bucket("cut", coded(2, 2))
    wait_until_in_place(cluster)
    body = os.urandom(5 * STRIPE)
    assert cluster.put("cut", "a", body).status == 200
    lies = {said["slice"]["index"]: (target, path, said["slice"]["file_bytes"])
            for target in cluster.targets() for path, said in attribute.slices(cluster.drives(target))}
    (first, one, bytes_of_one), (second, other, bytes_of_other) = lies[0], lies[1]
    assert bytes_of_one == bytes_of_other
    cluster.expect_errors("slice is not what was stored")
    cluster.kill(first, second)  # what is in memory was compared before
    a, b = one.read_bytes(), other.read_bytes()
    for path, data in ((one, b), (other, a)):
        with open(path, "r+b") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    cluster.start(first, second)
    wait_until_in_place(cluster)
    for begin, end in [(0, len(body)), (10, 100), (STRIPE - 1, STRIPE + 1)]:
        got = get(cluster, "a", Range=f"bytes={begin}-{end - 1}")
        assert got.status == 206 and got.body == body[begin:end], (begin, end)
    assert get(cluster, "a").body == body


def test_a_write_needs_a_slice_more_than_a_read(make_cluster):
    """With k slices alone, the next drive that fails would take the object with it."""
    cluster = make_cluster(targets=3, drives=1)
    cluster.create_bucket("cut", coded())
    wait_until_in_place(cluster)
    body = os.urandom(100 * KIB)
    assert cluster.put("cut", "a", body).status == 200
    cluster.kill("t3")
    wait_until(lambda: (got := get_or_none(cluster, "a")) and got.status == 200, 20, "two slices are read")

    def put():
        return client.request("PUT", cluster.url("cut", "b"), body, expect=False)

    def refused():  # and not because of the change of the map alone
        try:
            answer = put()
        except OSError:  # sent to the one that was killed just now
            return False
        assert answer.status == 503 and int(answer.headers["Retry-After"]) >= 1, answer
        return b"are needed" in answer.body

    wait_until(refused, 20, "a write is refused for want of holders")
    assert {put().status for _ in range(5)} == {503}
    wait_until(lambda: slices_of(cluster, "b") == {}, 20, "no slice of it is left")
    assert records_of(cluster, "b") == [] and cluster.names("cut") == ["a"]
    cluster.start("t3")
    wait_until_in_place(cluster)
    wait_until(lambda: put().status == 200, 10, "it is written")


EC_FIELDS = ("Ais-Ec-Generation", "Ais-Ec-Data", "Ais-Ec-Parity", "Ais-Ec-Replicated")


def test_head_says_how_an_object_is_kept(four):
    """In AIStore's words, through both listeners, and only when asked for with `props=`."""
    four.create_bucket("plain")
    for bucket, name, size in (("cut", "cut", 5000), ("cut", "copied", LIMIT), ("plain", "plain", 5000)):
        assert four.put(bucket, name, os.urandom(size)).status == 200

    def said(bucket, name, query="", base=None):
        answer = client.request("HEAD", four.url(bucket, name, base=base) + query)
        return [answer.headers.get(field) for field in EC_FIELDS]

    for base in (four.endpoint, four.relay):
        generation, *others = said("cut", "cut", base=base)
        assert int(generation) > 0 and others == ["2", "1", "false"]
        assert said("cut", "copied", base=base)[1:] == ["2", "1", "true"]
        assert said("plain", "plain", base=base) == [None] * 4
        assert said("cut", "cut", "&props=ec,size", base) == [generation, *others]
        assert said("cut", "cut", "&props=size", base) == [None] * 4
    assert four.put("cut", "cut", os.urandom(5000)).status == 200
    assert int(said("cut", "cut")[0]) > int(generation)
    four.kill(four.owner("cut", "cut"))
    wait_until(lambda: said_now(four, "cut") == ["2", "1", "false"], 10, "another replica says the same")


def said_now(cluster, name):
    try:
        answer = client.request("HEAD", cluster.url("cut", name), expect=False)
    except OSError:  # sent to the one that was killed just now
        return None
    return [answer.headers.get(field) for field in EC_FIELDS[1:]]


def exported(directory):
    return {path.name: path.read_bytes() for path in (directory / "cut").iterdir()} if (directory / "cut").exists() else {}


def test_export_makes_objects_of_their_slices(four, tmp_path):
    """Without a cluster, without any one target; what cannot be made is named, and no wrong byte is written."""
    bodies = {name: os.urandom(size) for name, size in BODIES.items()} | {"small": b"copied", "gone": os.urandom(STRIPE)}
    for name, body in bodies.items():
        assert four.put("cut", name, os.urandom(5000)).status == 200
        assert four.put("cut", name, body).status == 200
        record_of(four, name)
    assert four.delete("cut", "gone").status == 200
    del bodies["gone"]
    drives = {target: four.drives(target) for target in four.targets()}
    four.down()
    for drive in itertools.chain(*drives.values()):
        shutil.rmtree(drive / ".tarn" / "index")  # the files say all that it knew
    cli = Cli("http://127.0.0.1:1")
    for left_out in (None, *drives):
        some = [drive for target, each in drives.items() if target != left_out for drive in each]
        told = json.loads(cli.ok("export", "--json", *some, "--to", tmp_path / f"without {left_out}"))
        assert exported(tmp_path / f"without {left_out}") == bodies and told["failed"] == 0, left_out
    # Two of which one has no slice of an object at all.
    has = {target for holders in slices_of(four, "long").values() for target in holders}
    (none,) = set(drives) - has
    told_of = min(target for target in has if "long" in attribute.objects(drives[target], "cut"))
    two = [drive for target in (none, told_of) for drive in drives[target]]
    result = cli("export", "--json", *two, "--to", tmp_path / "two")
    told, found = json.loads(result.stdout), exported(tmp_path / "two")
    assert told["failed"] > 0 and len(found) < len(bodies) and found.items() <= bodies.items()
    assert result.returncode == (8 if told["failed"] else 0) and ("are needed" in result.stderr) == (told["failed"] > 0), result


def test_export_tells_of_slices_without_a_record(four, tmp_path):
    body = os.urandom(2 * STRIPE)
    assert four.put("cut", "a", body).status == 200
    record_of(four, "a")
    drives = four.all_drives()
    four.down()
    for path, raw in attribute.data_files(drives).items():
        if "coding" in attribute.decode(raw):
            path.unlink()
    cli = Cli("http://127.0.0.1:1")
    told = json.loads(cli.ok("export", "--json", *drives, "--to", tmp_path / "plain"))
    assert told["written"] == 0 and told["without_record"] == 1 and exported(tmp_path / "plain") == {}
    cli.ok("export", "--salvage", *drives, "--to", tmp_path / "salvaged")
    assert exported(tmp_path / "salvaged") == {"a": body}


def test_a_lost_index_is_made_anew_from_slices(four):
    bodies = {name: os.urandom(size) for name, size in BODIES.items()} | {"small": b"copied"}
    for name, body in bodies.items():
        assert four.put("cut", name, body).status == 200
        record_of(four, name)
    lies = {name: slices_of(four, name) for name in bodies}
    four.kill("t1", "t2", "t3", "t4")
    for target in four.targets():
        for drive in four.drives(target):
            shutil.rmtree(drive / ".tarn" / "index")
    four.start("t1", "t2", "t3", "t4")
    wait_until_in_place(four)
    four.assert_bodies("cut", bodies)
    assert {name: slices_of(four, name) for name in bodies} == lies
    four.kill("t1")  # and a slice less is borne as before
    for name, body in bodies.items():
        assert wait_until(lambda: (got := get_or_none(four, name)) and got.status == 200 and got, 20, f"{name} is read").body == body


def get_or_none(cluster, name):
    try:
        return get(cluster, name)
    except OSError:  # sent to the one that was killed just now
        return None


def test_a_cluster_with_coded_buckets_is_recovered_from_its_drives(make_cluster, tmp_path):
    """The drives, too, know what a bucket is like and once was like."""
    cluster = make_cluster(targets=3, drives=2)
    buckets = {"cut": coded(), "few": coded(k=2, m=3), "whole": props("whole", 2, 1)}
    bodies = {}
    for bucket, its in buckets.items():
        cluster.create_bucket(bucket, its)
        for size in (LIMIT, 3 * STRIPE + 5):
            bodies[bucket, f"o-{size}"] = os.urandom(size)
            assert cluster.put(bucket, f"o-{size}", bodies[bucket, f"o-{size}"]).status == 200
    was = {bucket: cluster.props(bucket) for bucket in buckets}
    assert was["few"]["ec"]["parity_slices"] == 3
    cluster.down()
    proxy = cluster.directory / "p1"
    (proxy / "meta").rename(tmp_path / "lost")
    drives = cluster.all_drives()
    Cli("http://127.0.0.1:9").ok("cluster", "recover", "--to", proxy, "--secret-file", proxy / "cluster.secret", *drives)
    cluster.up()
    wait_until_in_place(cluster)
    assert {bucket: cluster.props(bucket) for bucket in buckets} == was
    for (bucket, name), body in bodies.items():
        assert cluster.get(bucket, name).body == body
        assert cluster.put(bucket, f"new-{name}", body).status == 200
    cluster.kill("t3")  # of each bucket that many slices, and records, may go

    def read(bucket, name):
        with contextlib.suppress(OSError):
            return client.request("GET", cluster.url(bucket, name), expect=False)

    for (bucket, name), body in bodies.items():
        for each in (name, f"new-{name}"):
            got = wait_until(lambda: (answer := read(bucket, each)) and answer.status == 200 and answer, 20, f"{each} of {bucket} is read")
            assert got.body == body


def test_what_cannot_be_is_refused(four):
    for props, status, words in [
            (coded(k=30, m=3), 400, "32"),
            (coded(mirror={"enabled": True}), 400, "exclude"),
            (coded(k=0), 400, "ec.data_slices"),
            (coded(m=0), 400, "ec.parity_slices"),
            (coded(k=-1), 400, "ec.data_slices"),
            (coded(k="4"), 400, "ec.data_slices"),
            (coded(k=3, m=2), 400, "with ec.parity_slices 2, ec.data_slices can be 2 at most"),
            (coded(k=1, m=5), 400, "together they can be 4 at most"),
            ({"ec": {"enabled": True, "objsize_limit": -2}}, 400, "ec.objsize_limit"),
            ({"ec": {"enabled": True, "objsize_limit": "64KiB"}}, 400, "ec.objsize_limit"),
            ({"ec": {"enabled": True, "objsize_limit": 1 << 63}}, 400, "ec.objsize_limit"),
            ({"ec": {"enabled": True, "layout": "copies"}}, 400, "ec.layout"),
            ({"ec": {"enabled": "yes"}}, 400, "ec.enabled"),
    ]:
        answer = four.bucket_action("POST", "no", "create-bck", props)
        assert answer.status == status and words in answer.json()["message"], answer
        assert four.bucket_action("HEAD", "no", "").status == 404, "nothing was made"
        was = four.props("cut")
        changed = four.bucket_action("PATCH", "cut", "set-bprops", props)
        assert changed.status == status, changed
        assert four.props("cut") == was, "nothing was changed"


def test_a_new_bucket_says_what_it_survives(four):
    for k, m, says in [(2, 1, "drives=1, nodes=1"), (2, 2, "drives=2, nodes=2"), (1, 1, "drives=1, nodes=1")]:
        answer = four.bucket_action("POST", f"of-{k}-{m}", "create-bck", coded(k=k, m=m))
        assert answer.status == 200 and answer.headers["Tarn-Survives"] == says, answer
    assert "Tarn-Survives" not in four.bucket_action("POST", "plain", "create-bck").headers
