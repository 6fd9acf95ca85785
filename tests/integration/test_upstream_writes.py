"""Buckets with an upstream are written through: PUT and DELETE change the object there, then in the cluster."""

import base64
import concurrent.futures
import contextlib
import hashlib
import threading

import pytest
from aistore.sdk.provider import Provider
from botocore.exceptions import ClientError
from harness import client
from harness.cli import Cli
from harness.jobs import handled
from harness.sdk import client_of
from harness.upstreams import WebServer, etag_of, evict, is_stored, make_bucket, stand_still, wait_stored
from harness.waiting import guarded, wait_until

MIB = 1 << 20


def exists_upstream(s3, bucket, name):
    try:
        s3.client.head_object(Bucket=bucket, Key=name)
    except ClientError as error:
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 404, error
        return False
    return True


def put(cluster, bucket, name, body, headers=None):
    return client.request("PUT", cluster.url(bucket, name), body, headers or {})


def test_what_is_written_is_upstream_and_here(new_bucket, s3, rng):
    cluster, uri, name = new_bucket
    bodies = [rng.randbytes(200_000), rng.randbytes(100_000), b""]
    for body in bodies:
        done = put(cluster, uri, "a/shard 1.tar", body, {"Content-Type": "application/x-tar"})
        assert done.status == 200 and done.headers["ETag"] == etag_of(body), done
        upstream = s3.client.get_object(Bucket=name, Key="a/shard 1.tar")
        assert upstream["Body"].read() == body and upstream["ETag"] == etag_of(body)
        assert upstream["ContentType"] == "application/x-tar"
        assert is_stored(cluster, uri, "a/shard 1.tar")
        here = cluster.get(uri, "a/shard 1.tar")
        assert here.body == body and here.headers["ETag"] == etag_of(body)
        assert here.headers["Content-Type"] == "application/x-tar"
        evict(cluster, uri, "a/shard 1.tar")
        again = cluster.get(uri, "a/shard 1.tar")
        assert again.body == body and again.headers["ETag"] == etag_of(body)
        assert again.headers["Content-Type"] == "application/x-tar"
    assert cluster.delete(uri, "a/shard 1.tar").status == 200
    assert not exists_upstream(s3, name, "a/shard 1.tar") and cluster.get(uri, "a/shard 1.tar").status == 404
    assert cluster.delete(uri, "a/shard 1.tar").status == 404
    # Without a type of its own it has none after an eviction either.
    assert put(cluster, uri, "plain", b"plain").status == 200
    before = cluster.get(uri, "plain")
    evict(cluster, uri, "plain")
    assert cluster.get(uri, "plain").headers["Content-Type"] == before.headers["Content-Type"]
    # What was never read through the cluster is deleted as well; so is what is gone upstream.
    s3.client.put_object(Bucket=name, Key="cold", Body=b"cold")
    assert cluster.delete(uri, "cold").status == 200 and not exists_upstream(s3, name, "cold")
    assert put(cluster, uri, "gone", b"gone").status == 200
    s3.client.delete_object(Bucket=name, Key="gone")
    assert cluster.get(uri, "gone").body == b"gone"
    assert cluster.delete(uri, "gone").status == 200 and cluster.get(uri, "gone").status == 404
    # A name that was deleted is written, and stored, as any other.
    assert put(cluster, uri, "gone", b"back").status == 200 and is_stored(cluster, uri, "gone")
    assert s3.client.get_object(Bucket=name, Key="gone")["Body"].read() == b"back"


@pytest.mark.parametrize("size", [1000, 33 * MIB])
def test_custom_metadata_survives_an_eviction(new_bucket, s3, rng, size):
    cluster, uri, name = new_bucket
    noted = {"label": "cat, dog", "set_2": "a=b"}
    body = rng.randbytes(1000) + bytes(size - 1000)
    line = ", ".join(f"{key}={value}" for key, value in noted.items())
    assert put(cluster, uri, "noted", body, {"Ais-Custom-Md": line}).status == 200

    def shown(answer):
        return dict(line.split("=", 1) for line in answer.headers.get_all("Ais-Custom-Md") if line.partition("=")[0] in noted)

    assert s3.client.head_object(Bucket=name, Key="noted")["Metadata"] == noted
    assert shown(cluster.head(uri, "noted")) == noted
    evict(cluster, uri, "noted")
    assert shown(cluster.head(uri, "noted")) == noted
    assert shown(cluster.get(uri, "noted")) == noted
    wait_stored(cluster, uri, "noted")
    assert shown(cluster.head(uri, "noted")) == shown(cluster.get(uri, "noted")) == noted
    # What others noted there, in whatever case.
    s3.client.put_object(Bucket=name, Key="theirs", Body=b"theirs", Metadata={"Set_2": "x"})
    assert shown(cluster.get(uri, "theirs")) == {"set_2": "x"}


def test_large_objects_go_in_parts(new_bucket, s3, rng):
    cluster, uri, name = new_bucket
    body = rng.randbytes(MIB) * 70 + b"end"
    done = put(cluster, uri, "large.tar", body, {"Content-Type": "application/x-tar"})
    assert done.status == 200 and done.headers["ETag"].endswith('-5"'), done
    upstream = s3.client.get_object(Bucket=name, Key="large.tar")
    assert upstream["ETag"] == done.headers["ETag"] and upstream["ContentType"] == "application/x-tar"
    assert hashlib.sha256(upstream["Body"].read()).digest() == hashlib.sha256(body).digest()
    assert is_stored(cluster, uri, "large.tar") and cluster.get(uri, "large.tar").body == body
    evict(cluster, uri, "large.tar")
    assert cluster.get(uri, "large.tar").body == body
    assert "Uploads" not in s3.client.list_multipart_uploads(Bucket=name)


def test_conditions_are_those_of_the_object_upstream(new_bucket, s3):
    cluster, uri, name = new_bucket
    s3.client.put_object(Bucket=name, Key="cold", Body=b"cold")
    there = put(cluster, uri, "cold", b"new", {"If-None-Match": "*"})
    assert there.status == 412 and etag_of(b"cold").strip('"') in there.text, there
    other = put(cluster, uri, "cold", b"new", {"If-Match": etag_of(b"other")})
    assert other.status == 412, other
    other = client.request("DELETE", cluster.url(uri, "cold"), None, {"If-Match": etag_of(b"other")})
    assert other.status == 412 and exists_upstream(s3, name, "cold"), other
    assert put(cluster, uri, "cold", b"new", {"If-Match": etag_of(b"cold")}).status == 200
    assert put(cluster, uri, "new", b"new", {"If-Match": etag_of(b"cold")}).status == 412
    assert put(cluster, uri, "new", b"new", {"If-None-Match": "*"}).status == 200
    assert cluster.get(uri, "cold").body == b"new" == s3.client.get_object(Bucket=name, Key="new")["Body"].read()


def test_writers_of_one_name_are_in_one_order(new_bucket, s3, rng):
    cluster, uri, name = new_bucket
    bodies = [rng.randbytes(50_000 + i) for i in range(16)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(done.status == 200 for done in pool.map(lambda body: put(cluster, uri, "one", body), bodies))
    last = s3.client.get_object(Bucket=name, Key="one")["Body"].read()
    assert last in bodies and is_stored(cluster, uri, "one") and cluster.get(uri, "one").body == last


def test_the_aistore_package_and_the_command_line_write(new_bucket, s3, rng, tmp_path):
    cluster, uri, name = new_bucket
    body = rng.randbytes(70_000)
    remote = client_of(cluster.endpoint).bucket(name, provider=Provider.AMAZON)
    for i in range(6):
        remote.object(f"sdk/{i}").get_writer().put_content(body)
    assert s3.client.get_object(Bucket=name, Key="sdk/0")["Body"].read() == body
    remote.object("sdk/0").delete()
    assert not exists_upstream(s3, name, "sdk/0")
    s3.client.put_object(Bucket=name, Key="sdk/cold", Body=b"cold")
    job = remote.objects(obj_template="sdk/{1..3}").delete()
    client_of(cluster.endpoint).job(job).wait_for_idle(timeout=guarded(60))
    assert [each["Key"] for each in s3.client.list_objects_v2(Bucket=name)["Contents"]] == ["sdk/4", "sdk/5", "sdk/cold"]
    assert handled(cluster, cluster.bucket_action("DELETE", uri, "delete-listrange", {"template": "sdk/"})) == 3
    assert "Contents" not in s3.client.list_objects_v2(Bucket=name)

    tarn = Cli(cluster.endpoint)
    (tmp_path / "x.tar").write_bytes(body)
    tarn.ok("put", tmp_path / "x.tar", f"{uri}/cli/")
    assert s3.client.get_object(Bucket=name, Key="cli/x.tar")["Body"].read() == body
    s3.client.put_object(Bucket=name, Key="cli/cold.tar", Body=b"cold")
    tarn.ok("cp", f"{uri}/cli/cold.tar", "data/cold.tar")
    tarn.ok("cp", "data/cold.tar", f"{uri}/cli/copy.tar")
    assert s3.client.get_object(Bucket=name, Key="cli/copy.tar")["Body"].read() == b"cold"
    tarn.ok("rm", f"{uri}/cli/x.tar")
    assert not exists_upstream(s3, name, "cli/x.tar")


def test_copies_from_upstream_and_to_it(new_bucket, s3, rng):
    cluster, uri, name = new_bucket
    bodies = {f"c/{i}": rng.randbytes(5000 + i) for i in range(12)}
    for each, body in bodies.items():
        s3.client.put_object(Bucket=name, Key=each, Body=body, ContentType="application/x-tar")

    def copy(source, each, goal):
        return client.request("PUT", cluster.url(source, each) + f"&object_to={goal}", b"")

    assert copy(uri, "c/0", "ais/@%23/data/one").status == 200  # of a cold object
    here = cluster.get("data", "one")
    assert here.body == bodies["c/0"] and here.headers["Content-Type"] == "application/x-tar"
    assert copy(uri, "absent", "ais/@%23/data/x").status == 404
    assert copy("data", "one", f"aws/@%23/{name}/back").status == 200
    upstream = s3.client.get_object(Bucket=name, Key="back")
    assert upstream["Body"].read() == bodies["c/0"] and upstream["ContentType"] == "application/x-tar"
    assert is_stored(cluster, uri, "back") and cluster.get(uri, "back").headers["ETag"] == upstream["ETag"]

    # Whole buckets: all that upstream has, of which the cluster has little.
    whole = cluster.bucket_action("POST", uri, "copy-bck", {"prefix": "c/"}, query="&bck_to=ais/@%23/whole/")
    assert handled(cluster, whole) == 12 and cluster.bodies("whole", bodies) == bodies
    some = cluster.bucket_action("POST", uri, "copy-listrange", {"template": "c/{3..5}", "tobck": {"name": "some", "provider": "ais"}})
    assert handled(cluster, some) == 3 and cluster.names("some") == ["c/3", "c/4", "c/5"]
    up = cluster.bucket_action("POST", "whole", "copy-bck", {"prepend": "up/"}, query=f"&bck_to=aws/@%23/{name}/")
    assert handled(cluster, up) == 12
    for each, body in bodies.items():
        assert s3.client.get_object(Bucket=name, Key="up/" + each)["Body"].read() == body
    up = cluster.bucket_action("POST", "some", "copy-listrange", {"template": "", "prepend": "2/", "tobck": {"name": name, "provider": "aws"}})
    assert handled(cluster, up) == 3 and s3.client.get_object(Bucket=name, Key="2/c/4")["Body"].read() == bodies["c/4"]
    refused = cluster.bucket_action("POST", "some", "copy-bck", {}, query="&bck_to=ht/@%23/web/")
    assert refused.status == 501, refused


def synchronize(cluster, source, goal, **value):
    copied = cluster.bucket_action("POST", source, "copy-bck", {"synchronize": True, **value}, query=f"&bck_to={goal}")
    handled(cluster, copied)


def store(cluster, bucket, bodies):
    cluster.create_bucket(bucket)
    cluster.fill(bucket, bodies)


def test_a_copy_follows_what_upstream_has(new_bucket, s3, rng):
    cluster, uri, name = new_bucket
    bodies = {f"c/{i:02}": rng.randbytes(3000 + i) for i in range(40)}

    def put_upstream(*names):
        for each in names:
            s3.client.put_object(Bucket=name, Key=each, Body=bodies[each])

    put_upstream(*bodies)
    synchronize(cluster, uri, "ais/@%23/mirror/")
    cluster.assert_bodies("mirror", bodies)
    outside = {"c/x": b"between", "d": b"outside of the prefix"}
    for each, body in outside.items():
        assert cluster.put("mirror", each, body).status == 200
    gone = [f"c/{i:02}" for i in range(0, 40, 3)]  # the cluster has them all
    for each in gone:
        s3.client.delete_object(Bucket=name, Key=each)
        del bodies[each]
    bodies |= {"c/01": rng.randbytes(5000), "c/more": rng.randbytes(100)}
    put_upstream("c/01", "c/more")
    dry = cluster.bucket_action("POST", uri, "copy-bck", {"synchronize": True, "dry_run": True}, query="&bck_to=ais/@%23/mirror/")
    handled(cluster, dry)
    assert set(gone) | {"c/x", "d"} <= set(cluster.names("mirror")), "a dry run deletes nothing"
    synchronize(cluster, uri, "ais/@%23/mirror/", prefix="c/")
    cluster.assert_bodies("mirror", bodies | {"d": outside["d"]})
    assert not any(is_stored(cluster, uri, each) for each in gone)
    synchronize(cluster, uri, "ais/@%23/mirror/")
    cluster.assert_bodies("mirror", bodies)
    cached = cluster.bucket_action("POST", uri, "copy-bck", {"synchronize": True}, query="&bck_to=ais/@%23/mirror/&presence=2")
    assert cached.status == 400 and "presence=2" in cached.text, cached
    cluster.assert_bodies("mirror", bodies)


def test_a_copy_of_named_objects_follows_what_upstream_has(new_bucket, s3):
    cluster, uri, name = new_bucket
    for each in ("n-1", "n-2", "n-3"):
        s3.client.put_object(Bucket=name, Key=each, Body=b"old")

    def copy(**value):
        order = {"tobck": {"name": "named", "provider": "ais"}, "synchronize": True, **value}
        handled(cluster, cluster.bucket_action("POST", uri, "copy-listrange", order))

    copy(template="n-{1..3}")
    cluster.assert_bodies("named", {each: b"old" for each in ("n-1", "n-2", "n-3")})
    s3.client.delete_object(Bucket=name, Key="n-1")
    s3.client.put_object(Bucket=name, Key="n-2", Body=b"newer")
    copy(template="n-{1..3}")
    cluster.assert_bodies("named", {"n-2": b"newer", "n-3": b"old"})
    assert not is_stored(cluster, uri, "n-1"), "it is gone upstream, and here"
    s3.client.delete_object(Bucket=name, Key="n-3")
    copy(template="n-")
    cluster.assert_bodies("named", {"n-2": b"newer"})


def test_upstream_follows_what_is_here(new_bucket, s3, rng):
    cluster, uri, name = new_bucket
    bodies = {f"c/{i}": rng.randbytes(2000 + i) for i in range(12)}
    store(cluster, "here", bodies)
    for each in ("c/1", "c/other", "other"):  # of which the cluster has none
        s3.client.put_object(Bucket=name, Key=each, Body=b"upstream")
    synchronize(cluster, "here", f"aws/@%23/{name}/", prefix="c/")

    def upstream():
        return {each["Key"] for each in s3.client.list_objects_v2(Bucket=name)["Contents"]}

    assert upstream() == {*bodies, "other"}
    assert cluster.delete("here", "c/0").status == 200
    synchronize(cluster, "here", f"aws/@%23/{name}/")
    del bodies["c/0"]
    assert upstream() == set(bodies)
    for each, body in bodies.items():
        assert s3.client.get_object(Bucket=name, Key=each)["Body"].read() == body


def test_what_cannot_be_written_changes_nothing(new_bucket, s3, upstream_cluster, tmp_path, rng):
    cluster, uri, name = new_bucket
    assert put(cluster, uri, "kept", b"kept").status == 200

    def refused(answer, status, *words):
        assert answer.status == status and all(word in answer.text for word in words), answer
        assert is_stored(cluster, uri, "kept"), answer
        assert s3.client.get_object(Bucket=name, Key="kept")["Body"].read() == b"kept"

    refused(put(cluster, uri, "kept", b"new", {"Content-MD5": base64.b64encode(bytes(16)).decode()}), 400, "MD5")
    refused(put(cluster, uri, "kept", b"new", {"Ais-Custom-Md": "Label=1"}), 400, "custom metadata", "Label", "lower-case")
    renamed = client.request("POST", cluster.url(uri, "kept"), b'{"action":"rename-obj","name":"other"}', expect=False)
    refused(renamed, 501, "renamed", "copy")

    s3.stop()
    down = put(cluster, uri, "kept", b"new")
    gone = cluster.delete(uri, "kept")
    s3.start()
    refused(down, 503, s3.url)
    refused(gone, 503, s3.url)
    assert put(cluster, uri, "kept", b"new").status == 200 and is_stored(cluster, uri, "kept")

    with WebServer(tmp_path / "web") as web:
        web.write("a", b"a")
        other = upstream_cluster(web, targets=1)
        make_bucket(other, "ht://web", web.url)
        assert other.get("ht://web", "a").body == b"a"
        wait_stored(other, "ht://web", "a")
        assert other.put("data", "b", b"b").status == 200
        copy = client.request("PUT", other.url("data", "b") + "&object_to=ht/@%23/web/a", b"")
        append = client.request("PUT", other.url("ht://web", "a") + "&append_type=append", b"b")
        patch = client.request("PATCH", other.url("ht://web", "a"), b'{"value":{"a":"b"}}', expect=False)
        for answer in (put(other, "ht://web", "a", b"b"), other.delete("ht://web", "a"), copy, append, patch):
            assert answer.status == 501 and "web server" in answer.text, answer
        assert is_stored(other, "ht://web", "a") and other.get("ht://web", "a").body == b"a"


def test_a_refusal_of_upstream_is_the_answer(upstream_cluster, flawed):
    cluster = upstream_cluster(flawed)
    make_bucket(cluster, "s3://data", flawed.url)
    assert put(cluster, "s3://data", "a", b"old").status == 200

    def refuse(status, code, times=1000):
        left = [times]

        def answer(handler, body):
            left[0] -= 1
            if left[0] < 0:
                return handler.accept("a", body)
            handler.say(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())
        flawed.put_flaws["a"] = answer

    refuse(403, "AccessDenied")
    for answer in (put(cluster, "s3://data", "a", b"new"), cluster.delete("s3://data", "a")):
        assert answer.status == 403 and "AccessDenied" in answer.text, answer
    # It stayed as it was, and is fetched and kept again, since upstream certainly refused.
    assert cluster.get("s3://data", "a").body == b"old"
    wait_stored(cluster, "s3://data", "a")
    refuse(404, "NoSuchBucket")
    assert put(cluster, "s3://data", "a", b"new").status == 404
    refuse(503, "SlowDown", times=2)
    assert put(cluster, "s3://data", "a", b"new").status == 200 and flawed.objects["a"] == b"new"

    def other_bytes(handler, body):
        flawed.objects["a"] = b"other"
        handler.send_response(200)
        handler.send_header("ETag", etag_of(b"other"))
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    flawed.put_flaws["a"] = other_bytes
    wrong = put(cluster, "s3://data", "a", b"newer")
    assert wrong.status == 503 and "other bytes" in wrong.text, wrong
    assert cluster.get("s3://data", "a").body == b"other"  # that is what upstream has


def test_a_fill_of_the_old_version_is_not_kept_and_not_joined(upstream_cluster, flawed, rng):
    old, new, goes_on = rng.randbytes(MIB), rng.randbytes(MIB), threading.Event()
    flawed.objects["a"] = old
    flawed.flaws["a"] = stand_still(goes_on)
    cluster = upstream_cluster(flawed, targets=1)
    make_bucket(cluster, "s3://data", flawed.url)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        reader = pool.submit(cluster.get, "s3://data", "a")
        wait_until(lambda: flawed.gets("a"), 20, "the old version is being fetched")
        del flawed.flaws["a"]
        assert put(cluster, "s3://data", "a", new).status == 200
        assert cluster.get("s3://data", "a").body == new
        evict(cluster, "s3://data", "a")
        assert cluster.get("s3://data", "a").body == new  # does not join the old fill
        goes_on.set()
        with contextlib.suppress(client.ProtocolError, OSError):
            assert reader.result().body == old  # it began before the write
    wait_stored(cluster, "s3://data", "a")
    assert cluster.get("s3://data", "a").body == new
