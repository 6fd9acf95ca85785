"""Buckets of Google Cloud Storage (gs://). Its XML API is S3's, so versitygw stands for it; where Google is different, a
server of the test does."""

import contextlib

import pytest
from aistore.sdk.provider import Provider
from harness import client, jobs
from harness.cli import Cli
from harness.coded import props, slices_of
from harness.jobs import handled
from harness.sdk import client_of
from harness.upstreams import GOOGLE_CREDENTIALS, S3Server, evict, is_stored, list_of_buckets, make_bucket, wait_stored
from harness.waiting import wait_until

AWS_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "of-aws", "AWS_SECRET_ACCESS_KEY": "secret-of-aws"}


@pytest.fixture(scope="module")
def google(tmp_path_factory):
    """A server of S3 in the one region that Google has."""
    with S3Server(tmp_path_factory.mktemp("google"), region="auto") as server:
        yield server


def test_google_is_read_listed_and_changed(upstream_cluster, google, rng, tmp_path):
    bodies = {f"train/{i:03}.tar": rng.randbytes(5000 + i) for i in range(12)} | {"large.tar": rng.randbytes(11 << 20)}
    google.client.create_bucket(Bucket="google")
    google.fill("google", bodies, ContentType="application/x-tar")
    cluster = upstream_cluster(google)
    uri = "gs://google"
    absent = make_bucket(cluster, "gs://nothing-there", google.url)
    assert absent.status == 404 and "nothing-there" in absent.text, absent
    assert make_bucket(cluster, uri, google.url).status == 200
    assert "gcp" in client.request("GET", f"{cluster.endpoint}/v1/cluster?what=backends").json()

    assert cluster.names(uri, pagesize=5) == sorted(bodies) and cluster.names(uri, flags="1") == []
    assert cluster.names(uri, flags="2048") == ["large.tar", "train/"]
    for name in ("large.tar", "train/003.tar"):
        answer = cluster.get(uri, name)
        assert answer.body == bodies[name] and "source=gcp" in answer.headers.get_all("Ais-Custom-Md"), answer
        assert answer.headers["ETag"] == google.client.head_object(Bucket="google", Key=name)["ETag"]
    wait_stored(cluster, uri, "large.tar", "train/003.tar")
    missing = cluster.get(uri, "nothing")
    assert missing.status == 404 and "NoSuchKey" in missing.text, missing

    def part(name, text, if_range=None):
        fields = {"Range": text} | ({"If-Range": if_range} if if_range else {})
        return client.request("GET", cluster.url(uri, name), headers=fields)

    tag = google.client.head_object(Bucket="google", Key="train/000.tar")["ETag"]
    same, other, suffix = part("train/000.tar", "bytes=5-9", tag), part("train/001.tar", "bytes=5-9", tag), part("train/002.tar", "bytes=-3")
    assert same.status == 206 and same.body == bodies["train/000.tar"][5:10], same
    assert other.status == 200 and other.body == bodies["train/001.tar"], other
    assert suffix.status == 206 and suffix.body == bodies["train/002.tar"][-3:], suffix

    assert handled(cluster, cluster.bucket_action("POST", uri, "prefetch-listrange", {"template": "train/"})) == 11
    assert cluster.names(uri, flags="1") == sorted(bodies)
    evict(cluster, uri, "train/003.tar")
    assert not is_stored(cluster, uri, "train/003.tar") and cluster.get(uri, "train/003.tar").body == bodies["train/003.tar"]

    easy = f"{cluster.endpoint}/gs"
    assert [each["name"] for each in client.request("GET", easy).json()] == ["google"]
    assert client.request("GET", f"{easy}/google/train/004.tar").body == bodies["train/004.tar"]
    assert client.request("HEAD", f"{easy}/google").headers["Ais-Bucket-Props"]
    assert len(client.request("GET", f"{easy}/google/").json()["entries"]) == len(bodies)
    assert client.request("PUT", f"{easy}/google/easy.tar", b"easy").status == 200
    assert google.client.get_object(Bucket="google", Key="easy.tar")["Body"].read() == b"easy"
    assert client.request("DELETE", f"{easy}/google/easy.tar").status == 200

    tarn = Cli(cluster.endpoint)
    (tmp_path / "new.tar").write_bytes(b"new")
    tarn.ok("put", tmp_path / "new.tar", f"{uri}/cli/")
    assert google.client.get_object(Bucket="google", Key="cli/new.tar")["Body"].read() == b"new"
    tarn.ok("cp", f"{uri}/train/004.tar", "data/copied.tar")
    tarn.ok("cp", "data/copied.tar", f"{uri}/cli/back.tar")
    assert google.client.get_object(Bucket="google", Key="cli/back.tar")["Body"].read() == bodies["train/004.tar"]
    tarn.ok("rm", f"{uri}/cli/new.tar")
    assert tarn.ok("ls", "-n", f"{uri}/cli/").split() == [b"cli/back.tar"]
    assert handled(cluster, cluster.bucket_action("DELETE", uri, "delete-listrange", {"template": "train/"})) == 12
    assert {each["Key"] for each in google.client.list_objects_v2(Bucket="google")["Contents"]} == {"cli/back.tar", "large.tar"}
    tarn.ok("bucket", "evict", uri)
    assert tarn.ok("bucket", "ls").split() == [b"data"]


def test_a_bucket_of_google_becomes_known_by_its_first_use(make_cluster, google, rng):
    body = rng.randbytes(10_000)
    google.client.create_bucket(Bucket="google-first")
    google.client.put_object(Bucket="google-first", Key="x.tar", Body=body)
    cluster = make_cluster(targets=2, environment={name: GOOGLE_CREDENTIALS | {"GCS_ENDPOINT_URL": google.url} for name in ("t1", "t2")})
    assert cluster.get("gs://not-there", "x").status == 404
    assert cluster.get("s3://google-first", "x.tar").status == 404  # no server of S3 is asked
    assert list_of_buckets(cluster) == ["ais://data"] and "gs://google-first" in list_of_buckets(cluster, presence=5, provider="gs")
    bucket = client_of(cluster.endpoint).bucket("google-first", provider=Provider.GOOGLE)
    assert bucket.object("x.tar").get_reader().read_all() == body
    assert [entry.name for entry in bucket.list_all_objects()] == ["x.tar"]
    assert cluster.props("gs://google-first")["extra"]["gcp"]["endpoint"] == google.url


def test_large_objects_go_to_google_in_parts(upstream_cluster, google, rng):
    google.client.create_bucket(Bucket="google-large")
    cluster = upstream_cluster(google, targets=1)
    assert make_bucket(cluster, "gs://google-large", google.url).status == 200
    body = rng.randbytes(1 << 20) * 70 + b"end"
    done = client.request("PUT", cluster.url("gs://google-large", "x.tar"), body, {"Content-Type": "application/x-tar"})
    upstream = google.client.get_object(Bucket="google-large", Key="x.tar")
    assert done.status == 200 and done.headers["ETag"] == upstream["ETag"] and upstream["ETag"].endswith('-5"'), done
    assert upstream["ContentType"] == "application/x-tar" and upstream["Body"].read() == body
    evict(cluster, "gs://google-large", "x.tar")
    assert cluster.get("gs://google-large", "x.tar").body == body
    assert "Uploads" not in google.client.list_multipart_uploads(Bucket="google-large")


def test_a_cache_of_google_has_slices_and_a_copy_follows_it(upstream_cluster, google, rng):
    google.client.create_bucket(Bucket="google-sliced")
    bodies = google.fill("google-sliced", {f"s/{i}": rng.randbytes(60_000 + i) for i in range(8)})
    cluster, uri = upstream_cluster(google, targets=4), "gs://google-sliced"
    assert make_bucket(cluster, uri, google.url, props("striped")).status == 200
    tarn = Cli(cluster.endpoint)
    tarn.ok("bucket", "cp", uri, "mirror", "--sync")
    cluster.assert_bodies("mirror", bodies)
    assert cluster.bodies(uri, bodies) == bodies
    bodies["s/0"] = rng.randbytes(70_000)
    assert cluster.put(uri, "s/0", bodies["s/0"]).status == 200
    assert google.client.get_object(Bucket="google-sliced", Key="s/0")["Body"].read() == bodies["s/0"]
    for name in bodies:
        wait_until(lambda name=name: set(slices_of(cluster, name)) == {0, 1, 2}, 30, f"{name} has its slices")
    assert cluster.bodies(uri, bodies) == bodies
    google.client.delete_object(Bucket="google-sliced", Key="s/1")
    del bodies["s/1"]
    sdk = client_of(cluster.endpoint)
    job = sdk.bucket("google-sliced", provider=Provider.GOOGLE).copy(sdk.bucket("mirror"), sync=True)
    jobs.idle(cluster, job)
    cluster.assert_bodies("mirror", bodies)
    assert not is_stored(cluster, uri, "s/1") and cluster.names(uri) == sorted(bodies)


@pytest.mark.parametrize("has_keys", [True, False])
def test_keys_of_aws_are_not_sent_to_google(make_cluster, flawed, has_keys):
    flawed.objects["a"] = b"body"
    keys = AWS_CREDENTIALS | ({"GCS_ACCESS_KEY_ID": "of-google", "GCS_SECRET_ACCESS_KEY": "s"} if has_keys else {})
    cluster = make_cluster(targets=1, settings={"upstream.endpoints": flawed.url}, environment={"t1": keys})
    assert make_bucket(cluster, "gs://data", flawed.url).status == 200
    assert cluster.get("gs://data", "a").body == b"body"
    for _, _, headers in flawed.seen:
        assert ("Credential=of-google/" in headers["Authorization"]) if has_keys else ("Authorization" not in headers), headers
    assert flawed.gets("a")[0]["Accept-Encoding"] == "gzip"
    if not has_keys:
        flawed.flaws["b"] = lambda handler, body, start: handler.say(403, b"<Error><Code>AccessDenied</Code></Error>")
        flawed.objects["b"] = b"b"
        refused = cluster.get("gs://data", "b")
        assert refused.status == 403 and "without credentials" in refused.text, refused


@pytest.mark.parametrize("fields", [{"x-goog-hash": "crc32c=AAAAAA=="}, {"x-goog-stored-content-encoding": "gzip"}])
def test_a_body_of_google_that_is_not_the_stored_one_is_not_kept(upstream_cluster, flawed, fields):
    def answer(handler, body, start):
        handler.send_response(200)
        for name, value in ({"ETag": '"composite"', "Content-Length": str(len(body))} | fields).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    flawed.objects["a"] = b"body"
    flawed.flaws["a"] = answer
    cluster = upstream_cluster(flawed, targets=1)
    assert make_bucket(cluster, "gs://data", flawed.url).status == 200
    with contextlib.suppress(client.ProtocolError, OSError):
        refused = cluster.get("gs://data", "a")
        assert refused.status == 502, refused
    assert not is_stored(cluster, "gs://data", "a")
    del flawed.flaws["a"]
    assert cluster.get("gs://data", "a").body == b"body"
