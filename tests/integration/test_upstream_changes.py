"""Objects of buckets with an upstream are changed there: custom metadata by PATCH, and content by appends."""

import concurrent.futures
import json

import pytest
from aistore.sdk.provider import Provider
from harness import client
from harness.sdk import client_of
from harness.upstreams import S3Server, etag_of, evict, is_stored, make_bucket, wait_stored

MIB = 1 << 20


def patch(cluster, uri, name, values, replace=False, headers=None):
    query = "&set-new-custom=true" if replace else ""
    return client.request("PATCH", cluster.url(uri, name) + query, json.dumps({"value": values}).encode(), headers or {}, expect=False)


def append(cluster, uri, name, body, handle="", kind="append", headers=None):
    query = f"&append_type={kind}&append_handle={handle}"
    return client.request("PUT", cluster.url(uri, name) + query, body, headers or {})


def noted(answer):
    """The users' own pairs."""
    pairs = dict(line.split("=", 1) for line in answer.headers.get_all("Ais-Custom-Md", []))
    return {key: value for key, value in pairs.items() if key not in ("source", "ETag", "orig_url")}


@pytest.mark.parametrize("size", [1000, 40 * MIB])
@pytest.mark.parametrize("stored", [True, False])
def test_metadata_is_changed_upstream_and_here(new_bucket, s3, rng, stored, size):
    cluster, uri, name = new_bucket
    body = rng.randbytes(1000) + bytes(size - 1000)
    if size > 32 * MIB:  # in parts: its entity tag becomes another one
        line = {"Content-Type": "application/x-tar", "Ais-Custom-Md": "label=cat"}
        assert client.request("PUT", cluster.url(uri, "a b/ü.tar"), body, line).status == 200
    else:
        s3.client.put_object(Bucket=name, Key="a b/ü.tar", Body=body, ContentType="application/x-tar", CacheControl="max-age=60",
                             ContentDisposition="attachment", Metadata={"label": "cat"})
        assert cluster.get(uri, "a b/ü.tar").body == body
        wait_stored(cluster, uri, "a b/ü.tar")
    if not stored:
        evict(cluster, uri, "a b/ü.tar")

    def check(wanted):
        upstream = s3.client.get_object(Bucket=name, Key="a b/ü.tar")
        assert upstream["Body"].read() == body and upstream["Metadata"] == wanted, upstream
        assert upstream["ContentType"] == "application/x-tar"
        if size <= 32 * MIB:
            assert upstream["CacheControl"] == "max-age=60" and upstream["ContentDisposition"] == "attachment"
        assert is_stored(cluster, uri, "a b/ü.tar") == stored
        here = cluster.head(uri, "a b/ü.tar")
        assert noted(here) == wanted and here.headers["ETag"] == upstream["ETag"], here
        assert here.headers["Content-Type"] == "application/x-tar"

    done = patch(cluster, uri, "a b/ü.tar", {"set": "train=1", "label": "dog"})
    assert done.status == 200 and not done.body, done
    check({"label": "dog", "set": "train=1"})
    assert patch(cluster, uri, "a b/ü.tar", {"only": "this"}, replace=True).status == 200
    check({"only": "this"})
    assert patch(cluster, uri, "a b/ü.tar", {}, replace=True).status == 200
    check({})
    if stored:  # nothing was fetched for it, and nothing has to be
        s3.stop()
        try:
            assert cluster.get(uri, "a b/ü.tar").body == body
        finally:
            s3.start()
    assert client.request("GET", cluster.url(uri, "a b/ü.tar") + "&latest-ver=true").body == body


def test_what_cannot_be_changed_stays_as_it_is(new_bucket, s3):
    cluster, uri, name = new_bucket
    s3.client.put_object(Bucket=name, Key="a", Body=b"first", Metadata={"label": "cat"})
    assert cluster.get(uri, "a").body == b"first"
    wait_stored(cluster, uri, "a")

    def refused(answer, status, *words):
        assert answer.status == status and all(word in answer.text for word in words), answer
        assert s3.client.head_object(Bucket=name, Key="a")["Metadata"] == {"label": "cat"}
        assert is_stored(cluster, uri, "a") and noted(cluster.head(uri, "a")) == {"label": "cat"}

    refused(patch(cluster, uri, "a", {"Label": "x"}), 400, "custom metadata", "Label", "lower-case")
    refused(patch(cluster, uri, "a", {"label": "ü"}), 400, "custom metadata", "ASCII")
    refused(patch(cluster, uri, "a", {"label": "x" * 3000}), 400, "2048")
    refused(patch(cluster, uri, "none", {"label": "x"}), 404, "none")
    refused(patch(cluster, uri, "a", {"label": "x"}, headers={"If-Match": '"other"'}), 412, etag_of(b"first").strip('"'))
    refused(append(cluster, uri, "a", b"x", kind="flush"), 400, "append_handle")
    s3.stop()
    down = patch(cluster, uri, "a", {"label": "x"})
    no_append = append(cluster, uri, "a", b"x")
    s3.start()
    refused(down, 503, s3.url)
    refused(no_append, 503, s3.url)
    # Conditions that hold, and one on what upstream has got meanwhile.
    assert patch(cluster, uri, "a", {"label": "dog"}, headers={"If-Match": etag_of(b"first")}).status == 200
    s3.client.put_object(Bucket=name, Key="a", Body=b"second", Metadata={"theirs": "1"})
    assert patch(cluster, uri, "a", {"ours": "2"}, headers={"If-Match": etag_of(b"second")}).status == 200
    assert s3.client.head_object(Bucket=name, Key="a")["Metadata"] == {"theirs": "1", "ours": "2"}
    # What was stored is of the older version, and is not served for it.
    assert cluster.get(uri, "a").body == b"second" and noted(cluster.head(uri, "a")) == {"theirs": "1", "ours": "2"}


@pytest.mark.parametrize("size", [1000, 40 * MIB])
def test_changes_at_the_same_time_are_all_made(new_bucket, s3, size):
    cluster, uri, name = new_bucket
    body = bytes(size)
    assert client.request("PUT", cluster.url(uri, "a"), body, {"Content-Type": "application/x-tar"}).status == 200
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda i: patch(cluster, uri, "a", {f"key{i}": str(i)}), range(6)))
    assert [answer.status for answer in answers] == [200] * 6, answers
    wanted = {f"key{i}": str(i) for i in range(6)}
    assert s3.client.head_object(Bucket=name, Key="a")["Metadata"] == wanted
    assert noted(cluster.head(uri, "a")) == wanted and cluster.get(uri, "a").body == body


@pytest.mark.parametrize("s3", [S3Server], ids=["versitygw"], indirect=True)  # MinIO takes less
def test_metadata_that_the_cluster_cannot_show_is_not_lost(new_bucket, s3):
    cluster, uri, name = new_bucket
    theirs = {f"k{i:02}": "x" * 62 for i in range(31)}  # within AWS's limit, and not within ours
    s3.client.put_object(Bucket=name, Key="a", Body=b"a", Metadata=theirs)
    for answer in (patch(cluster, uri, "a", {"k": "1"}), append(cluster, uri, "a", b"more")):
        assert answer.status == 501 and "would be lost" in answer.text, answer
    assert s3.client.head_object(Bucket=name, Key="a")["Metadata"] == theirs
    assert patch(cluster, uri, "a", {"k": "1"}, replace=True).status == 200
    assert s3.client.head_object(Bucket=name, Key="a")["Metadata"] == {"k": "1"}


def test_appends_begin_with_what_upstream_has_and_end_there(new_bucket, s3, rng):
    cluster, uri, name = new_bucket
    s3.client.put_object(Bucket=name, Key="log", Body=b"zero", ContentType="text/plain", Metadata={"label": "cat"})
    first = append(cluster, uri, "log", b" one")
    assert first.status == 200, first
    second = append(cluster, uri, "log", b" two", first.headers["Ais-Append-Handle"])
    # Invisible before the flush, here and there.
    assert s3.client.get_object(Bucket=name, Key="log")["Body"].read() == b"zero" == cluster.get(uri, "log").body
    done = append(cluster, uri, "log", b"", second.headers["Ais-Append-Handle"], kind="flush", headers={"Ais-Custom-Md": "set=1"})
    assert done.status == 200 and done.headers["ETag"] == etag_of(b"zero one two"), done
    upstream = s3.client.get_object(Bucket=name, Key="log")
    assert upstream["Body"].read() == b"zero one two" and upstream["ContentType"] == "text/plain"
    assert upstream["Metadata"] == {"label": "cat", "set": "1"}
    assert is_stored(cluster, uri, "log") and cluster.get(uri, "log").body == b"zero one two"
    # What is stored is older than what upstream has: the append is to that.
    s3.client.put_object(Bucket=name, Key="log", Body=b"theirs")
    begun = append(cluster, uri, "log", b" ours")
    assert append(cluster, uri, "log", b"", begun.headers["Ais-Append-Handle"], kind="flush").status == 200
    assert s3.client.get_object(Bucket=name, Key="log")["Body"].read() == b"theirs ours" == cluster.get(uri, "log").body
    # Upstream has it no longer: it begins anew.
    s3.client.delete_object(Bucket=name, Key="log")
    begun = append(cluster, uri, "log", b"again")
    assert append(cluster, uri, "log", b"", begun.headers["Ais-Append-Handle"], kind="flush").status == 200
    assert s3.client.get_object(Bucket=name, Key="log")["Body"].read() == b"again" == cluster.get(uri, "log").body

    # A large one goes in parts; a flush that upstream does not take may be sent again.
    half = rng.randbytes(MIB) * 20
    begun = append(cluster, uri, "large.tar", half)
    begun = append(cluster, uri, "large.tar", half, begun.headers["Ais-Append-Handle"])
    s3.stop()
    down = append(cluster, uri, "large.tar", b"", begun.headers["Ais-Append-Handle"], kind="flush")
    s3.start()
    assert down.status == 503 and s3.url in down.text, down
    done = append(cluster, uri, "large.tar", b"", begun.headers["Ais-Append-Handle"], kind="flush")
    assert done.status == 200 and done.headers["ETag"].endswith('-3"'), done
    assert s3.client.get_object(Bucket=name, Key="large.tar")["Body"].read() == half + half
    assert is_stored(cluster, uri, "large.tar") and cluster.get(uri, "large.tar").body == half + half


def test_the_aistore_package_changes_objects(new_bucket, s3):
    cluster, uri, name = new_bucket
    remote = client_of(cluster.endpoint).bucket(name, provider=Provider.AMAZON)
    thing = remote.object("sdk/a")
    thing.get_writer().put_content(b"content")
    thing.get_writer().set_custom_props({"one": "1", "two": "2"})
    thing.get_writer().set_custom_props({"two": "3"})
    assert s3.client.head_object(Bucket=name, Key="sdk/a")["Metadata"] == {"one": "1", "two": "3"}
    thing.get_writer().set_custom_props({"three": "3"}, replace_existing=True)
    assert s3.client.head_object(Bucket=name, Key="sdk/a")["Metadata"] == {"three": "3"}
    handle = thing.get_writer().append_content(b" and")
    handle = thing.get_writer().append_content(b" more", handle=handle)
    assert thing.get_writer().append_content(b"", handle=handle, flush=True) == ""
    assert thing.get_reader().read_all() == b"content and more"
    assert s3.client.get_object(Bucket=name, Key="sdk/a")["Body"].read() == b"content and more"


def test_a_refusal_of_upstream_is_the_answer(upstream_cluster, flawed):
    cluster = upstream_cluster(flawed)
    uri = "s3://data"
    make_bucket(cluster, uri, flawed.url)
    flawed.objects["a"] = b"old"
    assert cluster.get(uri, "a").body == b"old"
    wait_stored(cluster, uri, "a")

    def say(status, code):
        return lambda handler, body: handler.say(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    flawed.put_flaws["a"] = say(403, "AccessDenied")
    refused = patch(cluster, uri, "a", {"label": "x"})
    assert refused.status == 403 and "AccessDenied" in refused.text, refused
    reads = len(flawed.gets("a"))
    assert is_stored(cluster, uri, "a") and cluster.get(uri, "a").body == b"old" and len(flawed.gets("a")) == reads
    # Another version came between the question and the change.
    flawed.put_flaws["a"] = say(412, "PreconditionFailed")
    overtaken = patch(cluster, uri, "a", {"label": "x"})
    assert overtaken.status == 503 and "meanwhile" in overtaken.text, overtaken
    assert cluster.get(uri, "a").body == b"old"
    wait_stored(cluster, uri, "a")
    # S3 says 200 before it knows: it is not known if the change was made, and nothing is kept until that is over.
    flawed.put_flaws["a"] = say(200, "InternalError")
    unknown = patch(cluster, uri, "a", {"label": "x"})
    assert unknown.status == 503 and "not known" in unknown.text, unknown
    del flawed.put_flaws["a"]
    flawed.objects["a"] = b"new"
    assert cluster.get(uri, "a").body == b"new" and not is_stored(cluster, uri, "a")
    copies = [headers for method, _, headers in flawed.seen if "x-amz-copy-source" in headers]
    assert {each["x-amz-copy-source"] for each in copies} == {"/data/a"}
    assert {each["x-amz-copy-source-if-match"] for each in copies} == {etag_of(b"old")}


def test_an_object_that_was_read_is_present(upstream_cluster, s3):
    """It is present even while it is being stored, after the last byte of the answer."""
    s3.client.create_bucket(Bucket="present")
    cluster = upstream_cluster(s3, targets=1, fail_points={"t1": "fill.before_commit=sleep:700"})
    make_bucket(cluster, "s3://present", s3.url)
    for name, body in (("a", b"body"), ("empty", b"")):
        s3.client.put_object(Bucket="present", Key=name, Body=body)
        assert cluster.head("s3://present", name).headers["Ais-Present"] == "false"
        assert cluster.get("s3://present", name).body == body
        assert cluster.head("s3://present", name).headers["Ais-Present"] == "true"
