"""What a list can be asked for: directories, fields, formats of time, and what is refused."""

import json
import re

import msgpack
import pytest
from harness import client
from harness.bulk import put_many
from harness.jobs import delete_many, ended, to_bucket

NO_RECURSION, NAME_ONLY, NAME_SIZE, NO_DIRS, CACHED = "2048", "16", "32", "8192", "1"
DIRECTORY, PRESENT = 256, 64


@pytest.fixture
def tree(cluster, bucket):
    cluster.fill(bucket, ("a", "dir/a", "dir/b", "dir/sub/c", "dir/sub/d", "dir0", "e/f/g", "z"))
    return bucket


def flat(entries):
    return [(entry["name"], int(entry["flags"])) for entry in entries]


def test_a_list_without_recursion_shows_directories_once(cluster, tree):
    """Every directory's objects lie on several targets: each lists it, the merged page has it once."""
    assert flat(cluster.list(tree, flags=NO_RECURSION)) == [
        ("a", PRESENT), ("dir/", PRESENT | DIRECTORY), ("dir0", PRESENT), ("e/", PRESENT | DIRECTORY), ("z", PRESENT)]
    assert flat(cluster.list(tree, flags=NO_RECURSION, prefix="dir/")) == [
        ("dir/a", PRESENT), ("dir/b", PRESENT), ("dir/sub/", PRESENT | DIRECTORY)]
    assert cluster.names(tree, flags=NO_RECURSION, prefix="dir") == ["dir/", "dir0"]
    assert cluster.names(tree, flags=str(2048 | 8192)) == ["a", "dir/", "dir0", "e/", "z"]


@pytest.mark.parametrize("pagesize", [1, 2, 3])
def test_pages_of_a_list_without_recursion_join_to_the_whole(cluster, tree, pagesize):
    """A token that is a directory's name leads to the name after the whole directory."""
    assert cluster.names(tree, flags=NO_RECURSION, pagesize=pagesize) == ["a", "dir/", "dir0", "e/", "z"]
    assert cluster.names(tree, flags=NO_RECURSION, prefix="dir/", pagesize=pagesize) == ["dir/a", "dir/b", "dir/sub/"]


def test_fields_are_those_that_were_asked_for(cluster, bucket):
    assert cluster.put(bucket, "x", b"hello world").status == 200
    stored = cluster.head(bucket, "x").headers
    (entry,) = cluster.list(bucket, props="name,size,checksum,version,atime,location,copies")
    assert entry["size"] == "11" and entry["checksum"] == "45ab6734b21e6968" == stored["Ais-Checksum-Value"]
    assert entry["version"] == "1" and entry["copies"] == 1
    assert re.fullmatch(r"\d\d [A-Z][a-z]{2} \d\d \d\d:\d\d UTC", entry["atime"])
    owner = cluster.owner(bucket, "x")
    place = re.fullmatch(r"t\[(\w+)\]:mp\[(\S+), \S*, \w+\]", entry["location"])
    assert place[1] == cluster.nodes[owner]["id"] and place[2] in map(str, cluster.drives(owner))
    assert cluster.list(bucket, props="name") == [{"name": "x", "flags": PRESENT}]
    assert cluster.list(bucket, props="") == [{"name": "x", "size": "11", "flags": PRESENT}]
    assert cluster.list(bucket, flags=NAME_ONLY) == [{"name": "x", "flags": PRESENT}]
    assert set(cluster.list(bucket, props="", flags=CACHED)[0]) == {"name", "size", "checksum", "atime", "flags"}
    (entry,) = cluster.list(bucket, props="atime", time_format="2006-01-02T15:04:05Z07:00")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["atime"])


def test_an_id_lasts_for_a_listing(cluster, tree):
    page = cluster.list_page(tree, pagesize=2).json()
    assert re.fullmatch(r"[A-Za-z0-9]{9,32}", page["uuid"])
    following = cluster.list_page(tree, pagesize=2, uuid=page["uuid"], continuation_token=page["continuation_token"]).json()
    assert following["uuid"] == page["uuid"]
    assert cluster.list_page(tree).json()["uuid"] != page["uuid"]


@pytest.mark.parametrize("value, status", [
    ({"flags": "8"}, 501), ({"flags": "4096"}, 501), ({"flags": "512"}, 400), ({"flags": "x"}, 400), ({"props": "colour"}, 400),
    ({"prefix": "a/../b"}, 400), ({"pagesize": -1}, 400), ({"time_format": "soon"}, 400), ({"target": "t1"}, 404)])
def test_what_a_list_cannot_answer_is_refused(cluster, tree, value, status):
    answer = cluster.list_page(tree, **value)
    assert answer.status == status, answer
    assert next(iter(value)) in answer.json()["message"] or list(value.values())[0] in answer.json()["message"], answer


def test_a_list_of_one_target_is_its_share(cluster, bucket):
    names = sorted(name for node in cluster.targets() for name in cluster.names_owned_by(node, bucket, 8))
    put_many(cluster, bucket, names)
    shares = {node: cluster.names(bucket, target=cluster.nodes[node]["id"]) for node in cluster.targets()}
    assert sorted(sum(shares.values(), [])) == names and all(shares.values())
    assert all(cluster.owner(bucket, name) == node for node, share in shares.items() for name in share)


def test_custom_metadata_etag_and_time_are_listed_when_asked_for(cluster, bucket):
    assert cluster.put(bucket, "x", b"hello world", headers={"Content-Type": "text/plain"}).status == 200
    (entry,) = cluster.list(bucket, props="name,custom,etag,last-modified")
    etag = cluster.head(bucket, "x").headers["ETag"]
    assert re.fullmatch(rf"\[ETag:{re.escape(etag)} LastModified:\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ\]", entry["custom-md"])
    (entry,) = cluster.list(bucket, props="name,custom")
    assert "custom-md" not in entry


def test_a_directory_of_many_names_costs_one_entry(cluster, bucket):
    """A list without recursion skips what lies in a directory; pages of one name find every directory all the same."""
    put_many(cluster, bucket, [f"{directory}/{i:03}" for directory in ("d1", "d2", "d3") for i in range(150)] + ["d2x", "a"])
    assert cluster.names(bucket, flags=NO_RECURSION, pagesize=1) == ["a", "d1/", "d2/", "d2x", "d3/"]
    assert cluster.names(bucket, flags=NO_RECURSION, start_after="d1/") == ["d2/", "d2x", "d3/"]
    assert cluster.names(bucket, flags=NO_RECURSION, prefix="d1/", pagesize=40) == [f"d1/{i:03}" for i in range(150)]


def test_large_pages_in_msgpack(cluster, bucket):
    """As the SDK asks for them: every target is asked more than once for a page."""
    names = [f"{i:05}" for i in range(1050)]
    put_many(cluster, bucket, names)
    body = {"action": "list", "name": "", "value": {"pagesize": 1000}}
    url = f"{cluster.endpoint}/v1/buckets/{bucket}?provider=ais"
    listed = []
    while True:
        answer = client.request("GET", url, json.dumps(body).encode(), {"Accept": "application/msgpack"}, expect=False)
        assert answer.status == 200 and answer.headers["Content-Type"] == "application/msgpack"
        page = msgpack.unpackb(answer.body)
        listed.append([entry["n"] for entry in page["Entries"]])
        body["value"] |= {"uuid": page["UUID"], "continuation_token": page["ContinuationToken"]}
        if not page["ContinuationToken"]:
            break
    assert [len(each) for each in listed] == [1000, 50]
    assert sum(listed, []) == names


def test_a_prefix_is_the_beginning_of_a_text_and_nothing_else(cluster, bucket):
    """No path, no pattern (but for the one "*" at its end that AIStore drops), nothing that is encoded: in lists, copies and deletions."""
    names = ["a?b", "a[b]", "a{b}", "a%2Fb", "a/b", "a/c/d", "a b", "a.b", "a\\b", "A", "aß", "a+b", "a&b=c", "$", "~a", "-a"]
    cluster.fill(bucket, names)
    for prefix in sorted({name[:length] for name in names for length in range(1, len(name) + 1)}):
        assert cluster.names(bucket, prefix=prefix) == sorted((name for name in names if name.startswith(prefix)), key=str.encode), prefix
    for prefix in ("a/", "a?", "a%", "a["):
        goal = f"{bucket}-goal"
        copied = to_bucket(cluster, bucket, "copy-bck", goal, {"prefix": prefix})
        assert copied.status == 200 and ended(cluster, copied.text)["err"] == "", copied
        assert cluster.names(goal) == sorted((name for name in names if name.startswith(prefix)), key=str.encode), prefix
        cluster.destroy_bucket(goal)
    for prefix in ("a/c", "a?", "$"):
        deleted = delete_many(cluster, bucket, template=prefix)
        assert deleted.status == 200 and ended(cluster, deleted.text)["err"] == "", deleted
        names = [name for name in names if not name.startswith(prefix)]
        assert cluster.names(bucket) == sorted(names, key=str.encode), prefix
