"""Buckets with an upstream: what the cluster does not have is read from there, once, and served from the drives after."""

import concurrent.futures

import pytest
from aistore.sdk.provider import Provider
from harness import client
from harness.cli import Cli
from harness.jobs import finished
from harness.sdk import client_of
from harness.upstreams import CREDENTIALS, WebServer, counted, is_stored, make_bucket, wait_stored
from harness.waiting import wait_until

MIB = 1 << 20


@pytest.fixture(scope="module")
def slow_web(tmp_path_factory):
    with WebServer(tmp_path_factory.mktemp("slow"), rate="2m") as server:
        yield server


def test_a_web_server_is_read_once_and_then_not_needed(upstream_cluster, web, rng):
    bodies = web.fill({"a.tar": rng.randbytes(5 * MIB + 3), "sub/b c.tar": rng.randbytes(70_000), "empty": b"", "one": b"x"})
    cluster = upstream_cluster(web)
    assert make_bucket(cluster, "ht://web", web.url).status == 200
    cold = {}
    for name, body in bodies.items():
        head = cluster.head("ht://web", name)
        assert head.status == 200 and head.headers["Ais-Present"] == "false", head
        assert head.headers["Content-Length"] == str(len(body))
        cold[name] = cluster.get("ht://web", name)
        assert cold[name].status == 200 and cold[name].body == body, name
    wait_stored(cluster, "ht://web", *bodies)
    web.stop()
    for name, body in bodies.items():
        warm = cluster.get("ht://web", name)
        assert warm.status == 200 and warm.body == body, name
        for field in ("ETag", "Last-Modified", "Content-Type"):  # a client that goes on, or asks for changes, sees one object
            assert warm.headers[field] == cold[name].headers[field], field
        assert cluster.head("ht://web", name).headers["Ais-Present"] == "true"
        assert web.requests("GET", name) == 1, name
    again = client.request("GET", cluster.url("ht://web", "a.tar"), headers={"If-None-Match": cold["a.tar"].headers["ETag"]})
    assert again.status == 304
    gone = cluster.get("ht://web", "never.seen")
    assert gone.status == 503 and web.url in gone.text, gone  # not 404: the cluster cannot know
    web.start()
    missing = cluster.get("ht://web", "never.seen")
    assert missing.status == 404 and "ht://web/never.seen" in missing.text, missing


def test_many_readers_of_one_cold_object_are_one_request_upstream(upstream_cluster, slow_web, rng):
    body = rng.randbytes(6 * MIB)
    slow_web.write("shared.tar", body)
    cluster = upstream_cluster(slow_web)
    make_bucket(cluster, "ht://web", slow_web.url)
    leaves = client.request("GET", cluster.url("ht://web", "shared.tar"), follow=False).headers["Location"]
    with client.RawConnection(leaves) as reader:  # the one that begins it, and goes away
        reader.send(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % leaves.split("/", 3)[3].join(["/", ""]).encode())
        reader.reader.read(10_000)
    # Readers of parts: test_late_readers_join_at_any_offset.
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        for answer in pool.map(lambda _: cluster.get("ht://web", "shared.tar"), range(20)):
            assert answer.body == body
    wait_stored(cluster, "ht://web", "shared.tar")
    wait_until(lambda: counted(cluster, "fills_total") == 1, 10, "the fill is counted")  # which it is when it is stored
    assert counted(cluster, "bytes_total") == len(body)
    wait_until(lambda: slow_web.requests("GET", "shared.tar") == 1, 10, "nginx has logged it")


def test_parts_of_a_cold_object(upstream_cluster, web, rng):
    body = rng.randbytes(3 * MIB)
    for name in ("parts.tar", "suffix.tar"):
        web.write(name, body)
    cluster = upstream_cluster(web)
    make_bucket(cluster, "ht://web", web.url)

    def part(name, text):
        return client.request("GET", cluster.url("ht://web", name), headers={"Range": text})

    first = part("parts.tar", "bytes=10-19")
    assert first.status == 206 and first.body == body[10:20] and first.headers["Content-Range"] == f"bytes 10-19/{len(body)}"
    assert not is_stored(cluster, "ht://web", "parts.tar")  # one part alone is passed through
    second = part("parts.tar", "bytes=20-29")
    assert second.status == 206 and second.body == body[20:30]
    wait_stored(cluster, "ht://web", "parts.tar")  # two are a reader of the whole
    assert part("parts.tar", "bytes=5-6").body == body[5:7]
    assert part("suffix.tar", "bytes=-7").body == body[-7:]
    beyond = part("suffix.tar", f"bytes={len(body)}-")
    assert beyond.status == 416, beyond


def test_s3_with_its_lists(upstream_cluster, s3, rng):
    bodies = {f"train/{i:04}.tar": rng.randbytes(1000 + i) for i in range(25)} | {"top.bin": rng.randbytes(MIB + 1), "empty": b""}
    s3.client.create_bucket(Bucket="imagenet")
    s3.fill("imagenet", bodies, ContentType="application/x-tar")
    parts = rng.randbytes(11 * MIB)
    upload = s3.client.create_multipart_upload(Bucket="imagenet", Key="parts.tar")["UploadId"]
    tags = [{"PartNumber": i + 1, "ETag": s3.client.upload_part(Bucket="imagenet", Key="parts.tar", UploadId=upload, PartNumber=i + 1,
                                                                Body=parts[i * 6 * MIB:(i + 1) * 6 * MIB])["ETag"]} for i in range(2)]
    s3.client.complete_multipart_upload(Bucket="imagenet", Key="parts.tar", UploadId=upload, MultipartUpload={"Parts": tags})
    bodies["parts.tar"] = parts
    cluster = upstream_cluster(s3)
    absent = make_bucket(cluster, "s3://nothing-there", s3.url)
    assert absent.status == 404 and "nothing-there" in absent.text, absent
    assert make_bucket(cluster, "s3://imagenet", s3.url).status == 200

    assert cluster.list("s3://imagenet", flags="1") == []
    listed = cluster.list("s3://imagenet", props="name,size,etag")
    assert [entry["name"] for entry in listed] == sorted(bodies)
    assert {entry["name"]: int(entry.get("size", 0)) for entry in listed} == {name: len(body) for name, body in bodies.items()}
    assert not any(entry.get("flags", 0) & 64 for entry in listed)

    chosen = ["train/0003.tar", "top.bin", "empty", "parts.tar"]
    for name in chosen:
        answer = cluster.get("s3://imagenet", name)
        assert answer.status == 200 and answer.body == bodies[name], name
        upstream = s3.client.head_object(Bucket="imagenet", Key=name)
        assert answer.headers["ETag"] == upstream["ETag"] and "source=aws" in answer.headers.get_all("Ais-Custom-Md")
    wait_stored(cluster, "s3://imagenet", *chosen)
    assert sorted(cluster.names("s3://imagenet", flags="1")) == sorted(chosen)
    here = {entry["name"] for entry in cluster.list("s3://imagenet") if entry.get("flags", 0) & 64}
    assert here == set(chosen)
    assert cluster.names("s3://imagenet", pagesize=7) == sorted(bodies)  # page by page, from both sides
    assert cluster.names("s3://imagenet", prefix="train/001") == [f"train/{i:04}.tar" for i in range(10, 20)]
    assert cluster.names("s3://imagenet", flags="2048") == ["empty", "parts.tar", "top.bin", "train/"]
    assert cluster.names("s3://imagenet", flags="2048", pagesize=1) == ["empty", "parts.tar", "top.bin", "train/"]

    missing = cluster.get("s3://imagenet", "train/9999.tar")
    assert missing.status == 404 and "NoSuchKey" in missing.text, missing
    s3.client.put_object(Bucket="imagenet", Key="top.bin", Body=b"changed upstream")
    assert cluster.get("s3://imagenet", "top.bin").body == bodies["top.bin"]  # never asked again: versioning is off


def test_a_list_has_what_the_cluster_keeps_of_names_that_are_gone_upstream(upstream_cluster, s3, rng):
    """Such names are before, between and after the names that upstream still has."""
    cluster, bucket, gone = upstream_cluster(s3), "s3://listed", ["a", "c", "e"]
    s3.client.create_bucket(Bucket="listed")
    for name in "abcde":
        s3.client.put_object(Bucket="listed", Key=name, Body=name.encode() * 100)
    make_bucket(cluster, bucket, s3.url)
    here = [*gone, "b"]
    for name in here:
        assert cluster.get(bucket, name).body == name.encode() * 100
    wait_stored(cluster, bucket, *here)
    for name in gone:
        s3.client.delete_object(Bucket="listed", Key=name)
    for size in (0, 1, 2):
        listed = cluster.list(bucket, pagesize=size)
        assert [entry["name"] for entry in listed] == list("abcde")
        assert {entry["name"] for entry in listed if entry.get("flags", 0) & 64} == set(here)
    assert cluster.names(bucket, flags="1") == sorted(here)
    assert cluster.bucket_action("PATCH", bucket, "set-bprops", {"versioning": {"synchronize": True}}).status == 200
    assert cluster.get(bucket, "c").status == 404  # which evicts it
    assert cluster.names(bucket, pagesize=2) == ["a", "b", "d", "e"]


def test_the_aistore_package_reads_through(upstream_cluster, s3, rng):
    body = rng.randbytes(300_000)
    s3.client.create_bucket(Bucket="packaged")
    s3.client.put_object(Bucket="packaged", Key="a/b.bin", Body=body)
    cluster = upstream_cluster(s3)
    make_bucket(cluster, "s3://packaged", s3.url)
    bucket = client_of(cluster.endpoint).bucket("packaged", provider=Provider.AMAZON)
    assert [entry.name for entry in bucket.list_all_objects()] == ["a/b.bin"]
    assert bucket.object("a/b.bin").get_reader().read_all() == body
    wait_stored(cluster, "s3://packaged", "a/b.bin")
    assert [entry.name for entry in bucket.list_all_objects(flags=[]) if entry.is_cached()] == ["a/b.bin"]
    assert bucket.object("a/b.bin").props.present
    assert "packaged" in {each.name for each in client_of(cluster.endpoint).cluster().list_buckets(provider=Provider.AMAZON)}
    bucket.evict()
    assert "packaged" not in {each.name for each in client_of(cluster.endpoint).cluster().list_buckets(provider=Provider.AMAZON)}
    assert s3.client.head_object(Bucket="packaged", Key="a/b.bin")["ContentLength"] == len(body)


def test_a_bucket_of_s3_becomes_known_by_its_first_use(upstream_cluster, make_cluster, s3, rng):
    body = rng.randbytes(10_000)
    for bucket in ("first-read", "first-list", "first-head", "first-prefetch", "first-write"):
        s3.client.create_bucket(Bucket=bucket)
        s3.client.put_object(Bucket=bucket, Key="x.tar", Body=body)
    cluster = make_cluster(targets=2, environment={name: CREDENTIALS | {"AWS_ENDPOINT_URL": s3.url} for name in ("t1", "t2")})

    def known():
        return {each["name"] for each in client.request(
            "GET", f"{cluster.endpoint}/v1/buckets?provider=aws", b'{"action":"list"}', expect=False).json()}

    head = f"{cluster.endpoint}/v1/buckets/first-head?provider=aws"
    looked = client.request("HEAD", head + "&dont_add_remote_bck_md=true")
    assert looked.status == 200 and s3.url in looked.headers["Ais-Bucket-Props"] and known() == set(), looked
    assert client.request("HEAD", head).status == 200
    assert cluster.get("s3://first-read", "x.tar").body == body
    assert client_of(cluster.endpoint).bucket("first-list", provider=Provider.AMAZON).list_objects().entries[0].name == "x.tar"
    assert finished(cluster, cluster.bucket_action("POST", "s3://first-prefetch", "prefetch-listrange", {"template": ""})) == (1, 10_000)
    assert cluster.put("s3://first-write", "y.tar", body).status == 200
    assert s3.client.get_object(Bucket="first-write", Key="y.tar")["Body"].read() == body
    assert known() == {"first-read", "first-list", "first-head", "first-prefetch", "first-write"}
    server = cluster.props("s3://first-read")["extra"]["aws"]["endpoint"]
    assert server == s3.url, "a target that is started without that variable would ask another server"
    for answer in (cluster.get("s3://not-there", "x"), cluster.put("s3://not-there", "x", b""), cluster.list_page("s3://not-there")):
        assert answer.status == 404, answer
    assert "not-there" not in known()
    apart = make_cluster(targets=1)  # it has no server of S3, and asks none
    assert apart.get("s3://first-read", "x.tar").status == 404


def test_bad_orders_say_what_is_wrong(upstream_cluster, web, s3, flawed):
    cluster = upstream_cluster(web, s3)

    def refused(status, answer, *words):
        assert answer.status == status and all(word in answer.text for word in words), answer

    refused(404, cluster.get("ht://web", "a"), "tarn bucket create ht://web")
    refused(400, cluster.bucket_action("POST", "ht://web", "create-bck", {}), "extra.http.url")
    refused(400, make_bucket(cluster, "ht://web", "ftp://x/"), "extra.http.url", "ftp://x/")
    refused(403, make_bucket(cluster, "ht://web", flawed.url), "upstream.endpoints", flawed.url)
    refused(403, make_bucket(cluster, "s3://data", "http://169.254.169.254"), "upstream.endpoints")
    refused(400, make_bucket(cluster, "s3://data", s3.url, {"extra": {"aws": {"endpoint": s3.url, "cloud_region": "x/../y"}}}),
            "cloud_region")
    refused(400, make_bucket(cluster, "s3://data", s3.url, {"extra": {"aws": {"endpoint": s3.url, "profile": "nobody"}}}), "nobody")
    refused(400, cluster.bucket_action("POST", "own", "create-bck", {"extra": {"aws": {"endpoint": s3.url}}}), "extra.aws.endpoint")
    refused(501, cluster.bucket_action("POST", "oc://data", "create-bck", {}), "oci://data")
    refused(501, cluster.bucket_action("POST", "gs://data", "create-bck", {"extra": {"gcp": {"application_creds": "/x.json"}}}),
            "application_creds")
    assert flawed.seen == []
    assert make_bucket(cluster, "ht://web", web.url).status == 200
    refused(409, make_bucket(cluster, "ht://web", web.url), "already exists")
    assert cluster.bucket_action("PATCH", "ht://web", "reset-bprops").status == 200  # where its objects are stays
    assert cluster.props("ht://web")["extra"]["http"]["url"].startswith(web.url)
    refused(501, cluster.put("ht://web", "a", b"x"), "web server", "read only")
    refused(501, client.request("PATCH", cluster.url("ht://web", "a"), b'{"value":{"a":"b"}}', expect=False), "read only")
    refused(501, client.request("DELETE", cluster.url("ht://web", "a") + "&latest-ver=true", expect=False), "latest-ver")
    refused(400, cluster.bucket_action("PATCH", "data", "set-bprops", {"versioning": {"synchronize": True}}), "nothing upstream")
    refused(501, cluster.bucket_action("GET", "ht://web", "list", {}), "web server", "CACHED")
    refused(400, cluster.bucket_action("PATCH", "ht://web", "set-bprops", {"extra": {"http": {"url": web.url + "/other"}}}), "evict")
    refused(400, cluster.bucket_action("DELETE", "ht://web", "destroy-bck"), "evict-remote-bck")


def test_the_command_line(upstream_cluster, web, rng, tmp_path):
    bodies = web.fill({f"shard-{i:06}.tar": rng.randbytes(5000 + i) for i in range(6)}, "cli")
    cluster = upstream_cluster(web)
    tarn = Cli(cluster.endpoint)
    tarn.ok("bucket", "create", "ht://shards", "--upstream", f"{web.url}/cli/")
    assert tarn.ok("bucket", "ls").split() == [b"data", b"ht://shards"]
    tarn.ok("get", "ht://shards/shard-000000.tar", "one.tar", cwd=tmp_path)
    assert (tmp_path / "one.tar").read_bytes() == bodies["shard-000000.tar"]
    assert b"shard-000000.tar" in tarn.ok("stat", "ht://shards/shard-000000.tar")
    assert b"fetched" in tarn.ok("prefetch", "ht://shards", "--template", "shard-{000000..000005}.tar")
    assert tarn.ok("ls", "-n", "--cached", "ht://shards").decode().split() == sorted(bodies)
    (tmp_path / "all").mkdir()
    tarn.ok("get", "ht://shards/shard-{000000..000005}.tar", "all/", cwd=tmp_path)
    assert {path.name: path.read_bytes() for path in (tmp_path / "all").iterdir()} == bodies
    line, = (each for each in tarn.ok("redundancy", "ht://shards").decode().splitlines() if each.startswith("ht://shards "))
    assert "any: fetched again" in line, line
    tarn.refuses(2, "put", "one.tar", "ht://shards/new.tar", cwd=tmp_path, says="read only")
    tarn.refuses(2, "rm", "ht://shards/shard-000000.tar", says="evict")
    tarn.refuses(2, "bucket", "create", "own", "--upstream", web.url, says="--upstream")
    assert b"evicted" in tarn.ok("evict", "ht://shards", "--all")
    assert tarn.ok("ls", "-n", "--cached", "ht://shards") == b""
    tarn.ok("bucket", "evict", "ht://shards")
    assert tarn.ok("bucket", "ls").split() == [b"data"]
