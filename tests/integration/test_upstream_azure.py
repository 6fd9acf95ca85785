"""Buckets of Azure's Blob service (az://), against Azurite."""

import concurrent.futures
import hashlib
import json

import pytest
from aistore.sdk.provider import Provider
from harness import client
from harness.azurite import ACCOUNT, KEY, AzureServer, account_sas
from harness.cli import Cli
from harness.coded import props, slices_of
from harness.jobs import handled
from harness.sdk import client_of
from harness.upstreams import evict, is_stored, list_of_buckets, make_bucket, wait_stored
from harness.waiting import wait_until

pytestmark = pytest.mark.deep("installs Node.js and Azurite: a minute, once")

MIB = 1 << 20


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    with AzureServer(tmp_path_factory.mktemp("azure")) as server:
        yield server


@pytest.fixture
def container(azure, request):
    """The name of a new container."""
    name = "c" + hashlib.md5(request.node.name.encode()).hexdigest()[:12]
    azure.make(name)
    return name


def cluster_of(make_cluster, environment, targets=2, **options):
    return make_cluster(targets=targets, environment={f"t{i + 1}": environment for i in range(targets)}, **options)


def put(cluster, uri, name, body, headers=None, query=""):
    return client.request("PUT", cluster.url(uri, name) + query, body, headers or {})


def test_azure_is_read_through(make_cluster, azure, container, rng):
    bodies = {f"train/{i:03}.tar": rng.randbytes(5000 + i) for i in range(12)}
    bodies |= {"large.tar": rng.randbytes(19 * MIB + 5), "empty": b"", "a b/ü+%41;=&.tar": rng.randbytes(70_000)}
    for name, body in bodies.items():
        azure.put(container, name, body, "application/x-tar")
    cluster = cluster_of(make_cluster, azure.environment)
    uri = f"az://{container}"
    absent = make_bucket(cluster, "az://nothing-there", azure.url)
    assert absent.status == 404 and "nothing-there" in absent.text, absent
    assert make_bucket(cluster, uri, azure.url).status == 200
    for name in ("large.tar", "empty", "a b/ü+%41;=&.tar", "train/003.tar"):
        head, answer, (_, upstream) = cluster.head(uri, name), cluster.get(uri, name), azure.get(container, name)
        assert answer.status == 200 and answer.body == bodies[name], name
        assert head.headers["Content-Length"] == str(len(bodies[name])) and head.headers["Ais-Present"] == "false", head
        assert answer.headers["ETag"] == head.headers["ETag"] == upstream["ETag"], answer
        assert answer.headers["Content-Type"] == "application/x-tar" and "source=azure" in answer.headers.get_all("Ais-Custom-Md")
        wait_stored(cluster, uri, name)
        warm = cluster.get(uri, name)
        assert warm.body == bodies[name] and warm.headers["ETag"] == upstream["ETag"], warm
    missing = cluster.get(uri, "nothing")
    assert missing.status == 404 and "BlobNotFound" in missing.text, missing

    def part(name, text, if_range=None):
        fields = {"Range": text} | ({"If-Range": if_range} if if_range else {})
        return client.request("GET", cluster.url(uri, name), headers=fields)

    def of(name):
        return azure.get(container, name)[1]["ETag"]

    plain, suffix = part("train/004.tar", "bytes=10-19"), part("train/005.tar", "bytes=-7")
    assert plain.status == 206 and plain.body == bodies["train/004.tar"][10:20], plain
    assert suffix.status == 206 and suffix.body == bodies["train/005.tar"][-7:], suffix
    assert suffix.headers["Content-Range"] == f"bytes 4998-5004/{len(bodies['train/005.tar'])}"
    same, other = part("train/006.tar", "bytes=5-9", of("train/006.tar")), part("train/007.tar", "bytes=5-9", of("train/006.tar"))
    assert same.status == 206 and same.body == bodies["train/006.tar"][5:10], same
    assert other.status == 200 and other.body == bodies["train/007.tar"], other
    beyond = part("train/008.tar", "bytes=9000-")
    assert beyond.status == 416, beyond
    assert not any(is_stored(cluster, uri, f"train/{i:03}.tar") for i in range(4, 9))

    assert handled(cluster, cluster.bucket_action("POST", uri, "prefetch-listrange", {"template": "train/"})) == 11
    evict(cluster, uri, "train/003.tar")
    azure.stop()
    try:
        assert cluster.get(uri, "train/009.tar").body == bodies["train/009.tar"]
        away = cluster.get(uri, "train/003.tar")
        assert away.status == 503 and azure.url in away.text, away  # not 404: the cluster cannot know
    finally:
        azure.start()
    assert cluster.get(uri, "train/003.tar").body == bodies["train/003.tar"]


def test_lists_of_azure_are_merged_page_by_page(make_cluster, azure, container):
    names = sorted([f"train/{i:03}.tar" for i in range(40)] + [f"dir-{i}/x" for i in range(5)] + ["a", "dir", "dir-", "z/ü b", "é"],
                   key=lambda name: name.encode())
    for name in names:
        azure.put(container, name, name.encode())
    cluster = cluster_of(make_cluster, azure.environment, targets=3)
    uri = f"az://{container}"
    assert make_bucket(cluster, uri, azure.url).status == 200
    for name in names[::3]:
        assert cluster.get(uri, name).status == 200
    wait_stored(cluster, uri, *names[::3])
    folded = ["a", "dir", "dir-", *(f"dir-{i}/" for i in range(5)), "train/", "z/", "é"]
    for pagesize in (0, 1, 7, 40):
        assert cluster.names(uri, pagesize=pagesize) == names
        assert cluster.names(uri, pagesize=pagesize, flags="2048") == folded
    assert cluster.names(uri, prefix="train/01", pagesize=3) == [f"train/{i:03}.tar" for i in range(10, 20)]
    assert cluster.names(uri, start_after="train/037.tar") == ["train/038.tar", "train/039.tar", "z/ü b", "é"]
    listed = {entry["name"]: entry for entry in cluster.list(uri, props="name,size,etag")}
    assert {name: int(entry["size"]) for name, entry in listed.items()} == {name: len(name.encode()) for name in names}
    assert cluster.names(uri, flags="1") == names[::3]


def test_azure_is_written_through(make_cluster, azure, container, rng, tmp_path):
    cluster = cluster_of(make_cluster, azure.environment)
    uri = f"az://{container}"
    assert make_bucket(cluster, uri, azure.url).status == 200
    for body in (rng.randbytes(200_000), rng.randbytes(100_000), b""):
        done = put(cluster, uri, "a/shard 1.tar", body, {"Content-Type": "application/x-tar", "Content-Encoding": "gzip"})
        upstream, headers = azure.get(container, "a/shard 1.tar")
        assert done.status == 200 and upstream == body and headers["ETag"] == done.headers["ETag"], done
        assert headers["Content-Type"] == "application/x-tar" and headers["Content-Encoding"] == "gzip"
        assert is_stored(cluster, uri, "a/shard 1.tar")
        for _ in range(2):  # what is stored, and what comes from upstream
            here = cluster.get(uri, "a/shard 1.tar")
            assert here.body == body and here.headers["ETag"] == headers["ETag"], here
            assert here.headers["Content-Type"] == "application/x-tar" and here.headers["Content-Encoding"] == "gzip"
            evict(cluster, uri, "a/shard 1.tar")
    assert put(cluster, uri, "a/shard 1.tar", b"x", {"If-None-Match": "*"}).status == 412
    assert put(cluster, uri, "a/shard 1.tar", b"x", {"If-Match": '"0x1"'}).status == 412
    assert put(cluster, uri, "a/shard 1.tar", b"x", {"If-Match": azure.get(container, "a/shard 1.tar")[1]["ETag"]}).status == 200
    assert cluster.delete(uri, "a/shard 1.tar").status == 200 and azure.get(container, "a/shard 1.tar")[0] is None
    assert cluster.get(uri, "a/shard 1.tar").status == 404 and cluster.delete(uri, "a/shard 1.tar").status == 404

    tarn = Cli(cluster.endpoint)
    (tmp_path / "new.tar").write_bytes(b"new")
    tarn.ok("put", tmp_path / "new.tar", f"{uri}/cli/")
    tarn.ok("cp", f"{uri}/cli/new.tar", "data/copied.tar")
    tarn.ok("cp", "data/copied.tar", f"{uri}/cli/back.tar")
    assert azure.get(container, "cli/back.tar")[0] == b"new"
    assert tarn.ok("ls", "-n", f"{uri}/cli/").split() == [b"cli/back.tar", b"cli/new.tar"]
    assert tarn.ok("bucket", "ls").split() == [b"data", uri.encode()]
    azure.put(container, "cold/1", b"1")
    assert handled(cluster, cluster.bucket_action("POST", uri, "copy-bck", {"prefix": "cold/"}, query="&bck_to=ais/@%23/whole/")) == 1
    assert cluster.get("whole", "cold/1").body == b"1"
    assert handled(cluster, cluster.bucket_action("DELETE", uri, "delete-listrange", {"template": ""})) == 3
    assert azure.names(container) == []
    azure.stop()
    try:
        down = put(cluster, uri, "kept", b"new")
        assert down.status == 503 and azure.url in down.text, down
    finally:
        azure.start()
    tarn.ok("bucket", "evict", uri)


def test_metadata_and_appends_are_written_through_to_azure(make_cluster, azure, container, rng):
    cluster = cluster_of(make_cluster, azure.environment)
    uri = f"az://{container}"
    assert make_bucket(cluster, uri, azure.url).status == 200
    body = rng.randbytes(100_000)
    fields = {"Content-Type": "application/x-tar", "Content-Encoding": "gzip", "Ais-Custom-Md": "label=cat"}
    assert put(cluster, uri, "a b", body, fields).status == 200

    def patch(values, query=""):
        return client.request("PATCH", cluster.url(uri, "a b") + query, json.dumps({"value": values}).encode(), expect=False)

    for is_kept, values, query, wanted in ((True, {"set": "1"}, "", {"label": "cat", "set": "1"}),
                                           (False, {"only": "2"}, "&set-new-custom=true", {"only": "2"}),
                                           (True, {"more": "3"}, "", {"only": "2", "more": "3"})):
        if not is_kept:
            evict(cluster, uri, "a b")
        done = patch(values, query)
        upstream, headers = azure.get(container, "a b")
        noted = {key.lower().removeprefix("x-ms-meta-"): value for key, value in headers.items() if key.lower().startswith("x-ms-meta-")}
        assert done.status == 200 and upstream == body and noted == wanted, (done, headers)
        assert headers["Content-Type"] == "application/x-tar" and headers["Content-Encoding"] == "gzip"
        assert is_stored(cluster, uri, "a b") == is_kept
        here = cluster.get(uri, "a b")
        lines = here.headers.get_all("Ais-Custom-Md")
        assert here.body == body and all(f"{key}={value}" in lines for key, value in wanted.items()), here
        assert here.headers["ETag"] == headers["ETag"]
        wait_stored(cluster, uri, "a b")
    assert patch({"Content-Type": "text/plain"}).status in (400, 501)

    begun = put(cluster, uri, "a b", b"more", {}, "&append_type=append&append_handle=")
    done = put(cluster, uri, "a b", b"", {}, "&append_type=flush&append_handle=" + begun.headers["Ais-Append-Handle"])
    upstream, headers = azure.get(container, "a b")
    assert done.status == 200 and upstream == body + b"more" and headers["Content-Type"] == "application/x-tar"
    assert cluster.get(uri, "a b").body == body + b"more"


def test_large_objects_go_to_azure_in_blocks(make_cluster, azure, container, rng):
    cluster = cluster_of(make_cluster, azure.environment, targets=1)
    uri = f"az://{container}"
    assert make_bucket(cluster, uri, azure.url).status == 200
    bodies = [rng.randbytes(MIB) * 70 + b"end", rng.randbytes(MIB) * 66]
    done = put(cluster, uri, "large.tar", bodies[0], {"Content-Type": "application/x-tar"})
    upstream, headers = azure.get(container, "large.tar")
    assert done.status == 200 and done.headers["ETag"] == headers["ETag"] and upstream == bodies[0], done
    assert headers["Content-Type"] == "application/x-tar"
    assert is_stored(cluster, uri, "large.tar")
    evict(cluster, uri, "large.tar")
    assert cluster.get(uri, "large.tar").body == bodies[0]
    # Of two at once one may lose its blocks to the other: it says so, and nothing is of both.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda body: put(cluster, uri, "both.tar", body), bodies))
    assert any(answer.status == 200 for answer in answers), answers
    for answer in answers:
        assert answer.status == 200 or (answer.status == 503 and "InvalidBlockList" in answer.text), answer
    assert azure.get(container, "both.tar")[0] in bodies
    assert cluster.get(uri, "both.tar").body == azure.get(container, "both.tar")[0]


def test_a_cache_of_azure_has_slices_and_a_copy_follows_it(make_cluster, azure, container, rng):
    bodies = {f"s/{i}": rng.randbytes(60_000 + i) for i in range(8)}
    for name, body in bodies.items():
        azure.put(container, name, body)
    cluster, uri = cluster_of(make_cluster, azure.environment, targets=4), f"az://{container}"
    assert make_bucket(cluster, uri, azure.url, props("whole")).status == 200
    tarn = Cli(cluster.endpoint)
    tarn.ok("bucket", "cp", uri, "mirror", "--sync")
    cluster.assert_bodies("mirror", bodies)
    assert cluster.bodies(uri, bodies) == bodies
    for name in bodies:
        wait_until(lambda name=name: {0, 1, 2} < set(slices_of(cluster, name)), 30, f"{name} has its slices")
    assert cluster.delete(uri, "s/1").status == 200
    bodies["s/0"] = rng.randbytes(70_000)
    azure.put(container, "s/0", bodies["s/0"])
    del bodies["s/1"]
    tarn.ok("bucket", "cp", uri, "mirror", "--sync")
    cluster.assert_bodies("mirror", bodies)
    assert cluster.names(uri) == sorted(bodies)


def test_changes_upstream_are_seen_where_that_is_wanted(make_cluster, azure, container):
    cluster = cluster_of(make_cluster, azure.environment, targets=1)
    uri = f"az://{container}"
    assert make_bucket(cluster, uri, azure.url, {"versioning": {"synchronize": True}}).status == 200
    for body in (b"one", b"two"):
        azure.put(container, "x", body)
        assert cluster.get(uri, "x").body == body
        wait_stored(cluster, uri, "x")
    azure.delete(container, "x")
    assert cluster.get(uri, "x").status == 404 and not is_stored(cluster, uri, "x")


def test_a_container_becomes_known_by_its_first_use(make_cluster, azure, container):
    azure.put(container, "x.tar", b"body")
    connection = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={azure.url};"
    for environment in ({"AZURE_STORAGE_CONNECTION_STRING": connection},
                        {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_SAS_TOKEN": account_sas("rwdlc"), "AIS_AZURE_URL": azure.url}):
        cluster = cluster_of(make_cluster, environment, targets=1)
        assert cluster.get("az://not-there", "x").status == 404
        bucket = client_of(cluster.endpoint).bucket(container, provider=Provider.AZURE)
        assert bucket.object("x.tar").get_reader().read_all() == b"body"
        assert [entry.name for entry in bucket.list_all_objects()] == ["x.tar"]
        assert put(cluster, f"az://{container}", "y.tar", b"y").status == 200 and azure.get(container, "y.tar")[0] == b"y"
        assert cluster.delete(f"az://{container}", "y.tar").status == 200
        props = client.request("HEAD", f"{cluster.endpoint}/v1/buckets/{container}?provider=az").headers["Ais-Bucket-Props"]
        assert azure.url in props and "sig=" not in props, props


def test_containers_of_the_account_are_listed(make_cluster, azure, container):
    azure.put(container, "x", b"body")
    azure.make(f"{container}-unknown")
    for environment in (azure.environment,
                        {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_SAS_TOKEN": account_sas("rl"), "AIS_AZURE_URL": azure.url}):
        cluster = cluster_of(make_cluster, environment, targets=1)
        assert cluster.get(f"az://{container}", "x").body == b"body"
        listed = list_of_buckets(cluster, presence=0, provider="az")
        assert {f"az://{container}", f"az://{container}-unknown"} <= set(listed), listed
        assert list_of_buckets(cluster, presence=0) == ["ais://data", *listed]
        assert sorted({*listed} - {f"az://{container}"}) == list_of_buckets(cluster, presence=5, provider="az")


def test_what_may_not_be_read_says_why(make_cluster, azure, container):
    azure.put(container, "x", b"body")
    azure.make("open", public=True)
    azure.put("open", "x", b"for all")
    listed = {"upstream.endpoints": azure.url}
    # The account is another one, so its SAS does not go to this server.
    other = {"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_SAS_TOKEN": account_sas("rl")}
    cluster = cluster_of(make_cluster, other, targets=1, settings=listed)
    refused = make_bucket(cluster, f"az://{container}", azure.url)
    assert refused.status in (403, 404), refused
    assert make_bucket(cluster, "az://open", azure.url).status == 200
    assert cluster.get("az://open", "x").body == b"for all" and cluster.names("az://open") == ["x"]
    assert make_bucket(cluster, "az://data", "https://third.blob.core.windows.net").status == 403

    wrong = azure.environment | {"AZURE_STORAGE_KEY": "AAAA"}
    cluster = cluster_of(make_cluster, wrong, targets=1)
    refused = make_bucket(cluster, f"az://{container}", azure.url)
    assert refused.status == 403 and "AuthorizationFailure" in refused.text, refused

    read_only = {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_SAS_TOKEN": account_sas("rl"), "AIS_AZURE_URL": azure.url}
    cluster = cluster_of(make_cluster, read_only, targets=1)
    assert cluster.get(f"az://{container}", "x").body == b"body"
    refused = put(cluster, f"az://{container}", "x", b"new")
    assert refused.status == 403 and "sig=" not in refused.text and azure.get(container, "x")[0] == b"body", refused

    cluster = make_cluster(targets=1)
    unknown = cluster.bucket_action("POST", "az://data", "create-bck", {})
    assert unknown.status == 400 and "AZURE_STORAGE_ACCOUNT" in unknown.text, unknown
