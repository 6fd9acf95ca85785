"""The first thing that a user does: files in with curl, files out with curl, through redirects."""

import os
import subprocess

import pytest
from harness import client
from harness.waiting import guarded

MIB = 1 << 20
SIZES = [0, 1, 511, 65536, MIB - 1, MIB, MIB + 1, 5 * MIB + 17]


def curl(*words, stdin=None):
    result = subprocess.run(["curl", "-sS", *map(str, words)], stdin=stdin, capture_output=True, timeout=guarded(120))
    assert result.returncode == 0, f"curl {words}: exit {result.returncode} {result.stderr!r} {result.stdout[:300]!r}"
    return result.stdout


@pytest.mark.parametrize("size", SIZES)
def test_a_file_comes_back_byte_for_byte(cluster, bucket, tmp_path, rng, size):
    sent, got = tmp_path / "sent", tmp_path / "got"
    sent.write_bytes(rng.randbytes(size))
    url = f"{cluster.endpoint}/{bucket}/file-{size}.bin"
    curl("-f", "-L", "-T", sent, url)
    curl("-f", "-L", "-o", got, url)
    assert got.read_bytes() == sent.read_bytes()


def test_a_tar_goes_straight_from_the_pipe_into_the_cluster(cluster, bucket, tmp_path):
    """`tar -c d | curl -T - -L`: no length is known beforehand, curl sends Expect and waits."""
    folder = tmp_path / "d"
    folder.mkdir()
    for i in range(50):
        (folder / f"{i:03}.bin").write_bytes(os.urandom(20_000))
    url = f"{cluster.endpoint}/{bucket}/d.tar"
    with subprocess.Popen(["tar", "-C", tmp_path, "-c", "d"], stdout=subprocess.PIPE) as tar:
        curl("-f", "-L", "-T", "-", url, stdin=tar.stdout)
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "d.tar").write_bytes(curl("-f", "-L", url))
    subprocess.run(["tar", "-C", out, "-xf", tmp_path / "d.tar"], check=True)
    assert subprocess.run(["diff", "-r", folder, out / "d"]).returncode == 0


def test_get_is_answered_302_and_put_307(cluster, bucket, tmp_path):
    url = f"{cluster.endpoint}/{bucket}/x"
    assert cluster.put(bucket, "x", b"payload").status == 200
    got = cluster.get(bucket, "x", follow=False)
    assert got.status == 302 and got.headers["Cache-Control"] == "no-store"
    assert "curl -L" in got.text and len(got.text.splitlines()) == 1
    assert cluster.head(bucket, "x", follow=False).status == 302
    put = cluster.put(bucket, "x", b"other", follow=False)
    assert put.status == 307 and "curl -L" in put.text
    assert cluster.delete(bucket, "x", follow=False).status == 307
    # curl without -L ends well having stored nothing; the line it prints says what to do.
    (tmp_path / "f").write_bytes(b"other")
    assert b"curl -L" in curl("-T", tmp_path / "f", url)
    assert cluster.get(bucket, "x").body == b"payload"


def test_the_redirected_url_is_signed_and_carries_what_the_proxy_saw(cluster, bucket):
    put = cluster.put(bucket, "x", b"12345", follow=False)
    location = put.headers["Location"]
    owner = cluster.owner(bucket, "x")
    assert location.startswith(f"{cluster.url_of(owner)}/v1/objects/{bucket}/x?")
    for key in ("pid=", "utm=", "vpams=", "len=5", "exp=", "u="):
        assert key in location, location
    assert "len=chunked" in cluster.put(bucket, "x", iter([b"12345"]), follow=False).headers["Location"]


def test_overwriting_replaces_bytes_size_and_etag(cluster, bucket):
    first = cluster.put(bucket, "x", b"first version")
    before = cluster.head(bucket, "x")
    assert cluster.put(bucket, "x", b"second").status == first.status == 200
    after = cluster.head(bucket, "x")
    assert cluster.get(bucket, "x").body == b"second"
    assert (before.headers["Content-Length"], after.headers["Content-Length"]) == ("13", "6")
    assert before.headers["ETag"] != after.headers["ETag"]
    assert [(entry["name"], int(entry["size"])) for entry in cluster.list(bucket)] == [("x", 6)]


def test_a_reader_of_the_old_version_gets_all_of_it(cluster, bucket, rng):
    """An overwrite and a delete meanwhile do not disturb a transfer that has begun."""
    old = rng.randbytes(24 * MIB)  # more than fits into the sockets
    for change in ("overwrite", "delete"):
        assert cluster.put(bucket, "x", old).status == 200
        with client.open_stream("GET", cluster.url(bucket, "x")) as stream:
            first = stream.read_at_least(1)
            if change == "overwrite":
                assert cluster.put(bucket, "x", b"new").status == 200
                assert cluster.get(bucket, "x").body == b"new"
            else:
                assert cluster.delete(bucket, "x").status == 200
                assert cluster.get(bucket, "x").status == 404
            assert first + stream.response().body == old


def test_deleting_makes_it_gone(cluster, bucket):
    assert cluster.put(bucket, "x", b"bytes").status == 200
    url = f"{cluster.endpoint}/{bucket}/x"
    curl("-f", "-L", "-X", "DELETE", url)
    assert cluster.get(bucket, "x").status == 404
    assert cluster.head(bucket, "x").status == 404
    assert cluster.names(bucket) == []
    assert cluster.delete(bucket, "x").status == 404
    assert cluster.put(bucket, "x", b"again").status == 200
    assert cluster.get(bucket, "x").body == b"again"


@pytest.mark.parametrize("form", ["{bucket}/{name}", "ais/{bucket}/{name}", "v1/objects/{bucket}/{name}?provider=ais",
                                  "v1/objects/{bucket}/{name}"])
def test_one_object_has_one_name_whatever_the_form_of_the_url(cluster, bucket, form):
    url = f"{cluster.endpoint}/{form.format(bucket=bucket, name='some/folder/x.bin')}"
    assert client.request("PUT", url, b"through " + form.encode()).status == 200
    assert cluster.get(bucket, "some/folder/x.bin").body == b"through " + form.encode()
    assert client.request("GET", url).body == b"through " + form.encode()
    assert cluster.names(bucket) == ["some/folder/x.bin"]


AWKWARD_NAMES = ["%", "%25", "%3D", "%%%", "你好世界", "track?name=lofi&v=1", "-x", ".x", "my audio file .m4a", "a+b", "a#b",
                 "tab\tname", "quote'\"", "semi;colon", "ünïcode/ßub/дир", "x" * 255]


def test_awkward_names_come_back_and_are_listed_as_they_are(cluster, bucket):
    cluster.fill(bucket, AWKWARD_NAMES)
    for name in AWKWARD_NAMES:
        assert cluster.get(bucket, name).body == name.encode(), name
        assert cluster.head(bucket, name).headers["Content-Length"] == str(len(name.encode()))
    assert cluster.names(bucket) == sorted(AWKWARD_NAMES, key=str.encode)
    for name in AWKWARD_NAMES:
        assert cluster.delete(bucket, name).status == 200, name
    assert cluster.names(bucket) == []
