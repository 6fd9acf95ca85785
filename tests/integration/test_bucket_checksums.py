"""`checksum.type` of a bucket: its objects bear that checksum however they came, and keep it."""

import hashlib
import json

import pytest
from harness import client
from harness.checksums import crc32c
from harness.cli import Cli
from harness.coded import props as coded

TYPES = ("md5", "crc32c", "sha256", "sha512")


def summed(kind, data):
    return f"{crc32c(data):08x}" if kind == "crc32c" else hashlib.new(kind, data).hexdigest()


def shown(answer):
    assert answer.status in (200, 206), answer
    return answer.headers.get("Ais-Checksum-Type"), answer.headers.get("Ais-Checksum-Value")


def listed(cluster, bucket, name):
    entry, = (each for each in cluster.list(bucket, props="name,checksum") if each["name"] == name)
    return entry.get("checksum", "")


def set_type(cluster, bucket, kind):
    answer = cluster.bucket_action("PATCH", bucket, "set-bprops", {"checksum": {"type": kind}})
    assert answer.status == 200, answer


def copy(cluster, bucket, name, goal):
    return client.request("PUT", cluster.url(bucket, name) + f"&object_to=ais/@%23/{goal}/{name}", b"")


def appended(cluster, bucket, name, chunks):
    handle = ""
    for chunk in chunks:
        answer = client.request("PUT", cluster.url(bucket, name) + f"&append_type=append&append_handle={handle}", chunk)
        assert answer.status == 200, answer
        handle = answer.headers["Ais-Append-Handle"]
    return client.request("PUT", cluster.url(bucket, name) + f"&append_type=flush&append_handle={handle}", b"")


@pytest.mark.parametrize("kind", TYPES)
def test_objects_bear_the_checksum_of_their_bucket(cluster, bucket, rng, kind):
    set_type(cluster, bucket, kind)
    body = rng.randbytes(1_300_001)
    ways = {"whole": cluster.put(bucket, "whole", body),
            "chunked": client.request("PUT", cluster.url(bucket, "chunked"), iter([body[:70_000], body[70_000:]])),
            "relayed": client.request("PUT", cluster.url(bucket, "relayed", base=cluster.relay), body),
            "appended": appended(cluster, bucket, "appended", [body[:1_048_577], body[1_048_577:]])}
    good = (kind, summed(kind, body))
    for name, answer in ways.items():
        assert shown(answer) == good, name
        assert shown(cluster.head(bucket, name)) == good and shown(cluster.get(bucket, name)) == good, name
        assert shown(client.request("HEAD", cluster.url(bucket, name) + "&props=checksum")) == good, name
        assert shown(client.request("GET", cluster.url(bucket, name), headers={"Range": "bytes=5-9"})) == good, name
        assert listed(cluster, bucket, name) == good[1], name
        assert "Ais-Custom-Md" not in cluster.head(bucket, name).headers, name
    assert shown(cluster.put(bucket, "empty", b"")) == (kind, summed(kind, b""))
    # More appended, and metadata changed: the checksum is that of what is there.
    assert shown(appended(cluster, bucket, "whole", [b"more"])) == (kind, summed(kind, body + b"more"))
    patch = json.dumps({"action": "", "name": "", "value": {"color": "red"}}).encode()
    for replace in ("", "&set-new-custom=true"):
        assert client.request("PATCH", cluster.url(bucket, "whole") + replace, patch).status == 200
        head = cluster.head(bucket, "whole")
        assert shown(head) == (kind, summed(kind, body + b"more")) and head.headers["Ais-Custom-Md"] == "color=red"


def test_a_change_of_type_is_for_what_is_written_from_then_on(cluster, bucket):
    first = shown(cluster.put(bucket, "a", b"first"))
    assert first[0] == "xxhash2"
    set_type(cluster, bucket, "xxhash")
    assert shown(cluster.put(bucket, "b", b"first")) == ("xxhash", first[1]), "XXH64 by its other name"
    set_type(cluster, bucket, "none")
    answer = cluster.put(bucket, "c", b"first")
    assert shown(answer) == (None, None) and shown(cluster.get(bucket, "c")) == (None, None)
    assert listed(cluster, bucket, "c") == "" and answer.headers["ETag"] == cluster.head(bucket, "a").headers["ETag"]
    assert shown(cluster.head(bucket, "a")) == first and shown(cluster.head(bucket, "b")) == ("xxhash", first[1])
    set_type(cluster, bucket, "md5")
    assert shown(cluster.put(bucket, "a", b"second")) == ("md5", summed("md5", b"second"))
    assert listed(cluster, bucket, "b") == first[1]


def test_a_copy_bears_the_checksum_of_its_own_bucket(cluster, bucket, rng):
    """Whichever target owns the copy."""
    goal = cluster.create_bucket(f"{bucket}-goal", {"checksum": {"type": "sha256"}})
    set_type(cluster, bucket, "md5")
    bodies = {f"o-{i}": rng.randbytes(1000 + i) for i in range(12)}
    moved = 0
    for name, body in bodies.items():
        answer = cluster.put(bucket, name, body, headers={"Ais-Custom-Md": "k=v", "Content-Type": "image/png"})
        assert answer.status == 200 and copy(cluster, bucket, name, goal).status == 200
        head = cluster.head(goal, name)
        assert shown(head) == ("sha256", summed("sha256", body)) and head.headers["Content-Type"] == "image/png"
        assert head.headers["Ais-Custom-Md"] == "k=v"
        moved += cluster.owner(bucket, name) != cluster.owner(goal, name)
    assert 0 < moved, "no copy went to another target"
    cluster.destroy_bucket(goal)


@pytest.mark.parametrize("layout", ["striped", "whole"])
def test_coded_objects_bear_it_as_well(make_cluster, rng, layout):
    cluster = make_cluster(targets=4, drives=1)
    cluster.create_bucket("cut", coded(layout) | {"checksum": {"type": "md5"}})
    body = rng.randbytes(400_000)
    good = ("md5", summed("md5", body))
    assert shown(cluster.put("cut", "a", body)) == good
    assert shown(client.request("PUT", cluster.url("cut", "b"), iter([body[:9], body[9:]]))) == good
    assert shown(cluster.put("cut", "small", b"tiny")) == ("md5", summed("md5", b"tiny"))
    for name in ("a", "b"):
        assert shown(cluster.get("cut", name)) == good and cluster.get("cut", name).body == body
    owner = cluster.owner("cut", "a")
    cluster.kill(owner)
    cluster.start(owner)
    assert shown(cluster.get("cut", "a")) == good


def test_a_body_is_compared_with_what_its_client_says_whatever_the_bucket_keeps(cluster, bucket):
    for kept in (*TYPES, "none"):
        set_type(cluster, bucket, kept)
        for said in TYPES:
            headers = {"Ais-Checksum-Type": said, "Ais-Checksum-Value": summed(said, b"body")}
            assert cluster.put(bucket, f"{kept}-{said}", b"body", headers=headers).status == 200
            assert cluster.put(bucket, "bad", b"b0dy", headers=headers).status == 400, (kept, said)
    assert "bad" not in cluster.names(bucket)


def test_users_cannot_write_the_checksum_of_an_object(cluster, bucket):
    for line in ("Ais-Checksum-Type=md5", "ais-checksum-value=00"):
        answer = cluster.put(bucket, "x", b"x", headers={"Ais-Custom-Md": line})
        assert answer.status == 400 and "choose another" in answer.json()["message"], answer
        key, value = line.split("=")
        patch = json.dumps({"action": "", "name": "", "value": {key: value}}).encode()
        assert cluster.put(bucket, "y", b"y").status == 200
        assert client.request("PATCH", cluster.url(bucket, "y"), patch).status == 400
        assert shown(cluster.head(bucket, "y"))[0] == "xxhash2"


def test_a_wrong_type_is_refused_and_changes_nothing(cluster, bucket):
    for wrong in ("md4", "", "MD5", 5):
        answer = cluster.bucket_action("PATCH", bucket, "set-bprops", {"checksum": {"type": wrong}})
        assert answer.status == 400 and "checksum.type" in answer.json()["message"], answer
    assert shown(cluster.put(bucket, "x", b"x"))[0] == "xxhash2"


def test_the_cli_verifies_what_it_moves_for_every_type(cluster, bucket, tmp_path, rng):
    cli = Cli(cluster.endpoint)
    source = tmp_path / "source"
    source.write_bytes(rng.randbytes(200_000))
    for kind in (*TYPES, "none"):
        set_type(cluster, bucket, kind)
        cli.ok("put", str(source), f"{bucket}/{kind}")
        cli.ok("get", f"{bucket}/{kind}", str(tmp_path / kind))
        assert (tmp_path / kind).read_bytes() == source.read_bytes()
