"""Names and counts of what upstream has, in the cluster or not."""

import concurrent.futures
import json

import pytest
from aistore.sdk.errors import AISError
from aistore.sdk.list_object_flag import ListObjectFlag
from aistore.sdk.provider import Provider
from harness import jobs
from harness.cli import Cli
from harness.sdk import client_of
from harness.upstreams import AWS_CREDENTIALS, CREDENTIALS, S3Server, ask_for_buckets, list_of_buckets, make_bucket, wait_stored
from harness.waiting import guarded, wait_until


def test_lists_of_what_the_cluster_has_not(upstream_cluster, s3, rng):
    cluster, bucket = upstream_cluster(s3), "s3://parted"
    s3.client.create_bucket(Bucket="parted")
    names = [f"{i:02}.tar" for i in range(20)]
    for name in names:
        s3.client.put_object(Bucket="parted", Key=name, Body=name.encode())
    assert make_bucket(cluster, bucket, s3.url).status == 200
    stored = names[:8] + names[15:]
    for name in stored:
        assert cluster.get(bucket, name).status == 200
    wait_stored(cluster, bucket, *stored)
    left = [name for name in names if name not in stored]
    assert cluster.names(bucket, flags="512") == left
    page = cluster.list_page(bucket, flags="512", pagesize=3)  # the first pages have nothing of it
    assert [each["name"] for each in page.json()["entries"]] == left[:1] and page.json()["continuation_token"], page
    assert [each["name"] for each in cluster.list(bucket, pagesize=3, flags="512")] == left
    both = cluster.list_page(bucket, flags="513")
    assert both.status == 400 and "exclude" in both.text, both
    plain = cluster.create_bucket("parted-plain")
    assert cluster.list_page(plain, flags="512").status == 400


def test_a_name_that_no_bucket_has_upstream_is_refused_at_once(make_cluster, tmp_path):
    """Not as a failure of the server, which clients ask again and again."""
    with S3Server(tmp_path / "s3") as s3:
        environment = AWS_CREDENTIALS | {"AWS_ENDPOINT_URL": s3.url}
        cluster = make_cluster(targets=1, environment={"t1": environment})
        for name in ("INVALID_BCK_NAME", "AB"):
            for answer in (cluster.list_page(f"s3://{name}"), cluster.get(f"s3://{name}", "a")):
                assert answer.status in (400, 404) and name in answer.text, answer
        with pytest.raises(AISError):
            client_of(cluster.endpoint).bucket("INVALID_BCK_NAME", provider=Provider.AMAZON).list_all_objects()


def test_a_summary_counts_what_upstream_has(upstream_cluster, s3, web, rng):
    cluster, bucket = upstream_cluster(s3, web), "s3://counted"
    bodies = {f"{'ab'[i % 2]}/{i:04}": rng.randbytes(10 + i) for i in range(1200)}  # more than a page of upstream's
    s3.client.create_bucket(Bucket="counted")
    stored = ("a/0000", "b/0001", "b/0003")
    for name, body in bodies.items():
        if name in stored or s3.name != "versitygw":
            s3.client.put_object(Bucket="counted", Key=name, Body=body)
        else:  # which it lists as well, and costs less
            (s3.directory / "root" / "counted" / name).write_bytes(body)
    assert make_bucket(cluster, bucket, s3.url).status == 200
    assert cluster.bodies(bucket, stored) == {name: bodies[name] for name in stored}
    wait_stored(cluster, bucket, *stored)

    def ended(of, job, status):
        return wait_until(lambda: (answer := cluster.bucket_action("GET", of, "summary-bck", {"uuid": job})).status == status
                          and answer, 90, f"the summary ends with {status}")

    def summary(of, **value):
        job = cluster.bucket_action("GET", of, "summary-bck", value)
        assert job.status == 202, job
        (counts,) = ended(of, job.text, 200).json()
        return tuple(int(counts["ObjCount"][f"obj_count_{which}"]) for which in ("present", "remote")) + \
            tuple(int(counts["TotalSize"][f"size_all_{which}_objs"]) for which in ("present", "remote"))

    def sizes(prefix="", names=bodies):
        return sum(len(bodies[name]) for name in names if name.startswith(prefix))

    assert summary(bucket) == (3, 1200, 10 + 11 + 13, sizes())
    assert summary(bucket, prefix="b/", cached=False) == (2, 600, 11 + 13, sizes("b/"))
    assert summary(bucket, prefix="c/") == (0, 0, 0, 0)
    assert summary(bucket, cached=True) == (3, 0, 10 + 11 + 13, 0)
    wrong = cluster.bucket_action("GET", bucket, "summary-bck", {"cached": "perhaps"})
    assert wrong.status == 400 and "cached" in wrong.text, wrong
    packaged = client_of(cluster.endpoint).bucket("counted", provider=Provider.AMAZON)
    assert packaged.summary()["ObjCount"] == {"obj_count_present": "3", "obj_count_remote": "0"}  # it asks for what is cached
    _, info = packaged.info()
    assert info["ObjCount"] == {"obj_count_present": "3", "obj_count_remote": "1200"}
    _, info = packaged.info(bsumm_remote=False)
    assert info["ObjCount"] == {"obj_count_present": "3", "obj_count_remote": "0"}
    make_bucket(cluster, "ht://web", web.url)  # a web server has no list
    assert summary("ht://web") == (0, 0, 0, 0)
    s3.stop()
    try:
        job = cluster.bucket_action("GET", bucket, "summary-bck", {}).text
        assert s3.url in ended(bucket, job, 503).text
    finally:
        s3.start()



def test_buckets_of_accounts(make_cluster, tmp_path):
    """What an account has and the cluster does not know is listed where that is asked for, page by page."""
    names = [f"made-{i:04}" for i in range(1100)]  # more than one page
    with S3Server(tmp_path / "account") as account:
        for name in names:
            account.client.create_bucket(Bucket=name)
        keys = AWS_CREDENTIALS | {"AWS_ENDPOINT_URL": account.url}
        cluster = make_cluster(targets=2, environment={name: keys for name in ("t1", "t2")})
        known = f"s3://{names[7]}"
        assert cluster.put(known, "x", b"makes it known").status == 200

        there = [f"s3://{name}" for name in names]
        for usual in ({}, {"presence": 2}, {"presence": 4}):
            assert list_of_buckets(cluster, **usual) == ["ais://data", known]
        assert list_of_buckets(cluster, presence=0) == ["ais://data", *there]
        assert list_of_buckets(cluster, presence=1, provider="s3") == there
        assert list_of_buckets(cluster, presence=5) == [name for name in there if name != known]
        assert list_of_buckets(cluster, presence=0, provider="ais") == ["ais://data"]
        assert list_of_buckets(cluster, presence=0, provider="s3", namespace="%40%23elsewhere") == []
        without = ask_for_buckets(cluster, presence=0, provider="gs")
        assert without.status == 404 and "without a server or credentials" in without.text, without

        cli = Cli(cluster.endpoint)
        assert sorted(cli.ok("bucket", "ls").decode().split()) == ["data", known]
        assert sorted(cli.ok("ls", "--all").decode().split()) == ["data", *there]
        cli.refuses(2, "ls", "--all", "data", says="--all is for a list of buckets")

        account.stop()
        away = ask_for_buckets(cluster, presence=0)
        assert away.status == 503 and account.url in away.text, away
        assert list_of_buckets(cluster) == ["ais://data", known], "what the cluster knows is listed without upstream"


def test_an_inventory_is_listed_instead_of_upstream(upstream_cluster, s3, web, rng):
    s3.client.create_bucket(Bucket="inventoried")
    names = sorted({f"{rng.choice('abc')}/{rng.randrange(10**6):06}.tar" for _ in range(1300)})
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: s3.client.put_object(Bucket="inventoried", Key=name, Body=name.encode()), names))
    cluster, uri = upstream_cluster(s3, web, targets=3), "s3://inventoried"
    assert make_bucket(cluster, uri, s3.url).status == 200
    sdk = client_of(cluster.endpoint)
    bucket = sdk.bucket("inventoried", provider=Provider.AMAZON)
    assert bucket.show_inventory() == {}
    job = bucket.create_inventory(name="first", names_per_chunk=100)
    assert job.startswith("inv-") and sdk.job(job).wait_single_node(timeout=guarded(60)).success
    (said,) = bucket.show_inventory().values()
    assert (said.bucket, said.name, said.obj_name) == (uri, "first", "aws/@#/inventoried/first")
    assert said.ntotal == len(names) and said.chunks == -(-len(names) // 100) and said.size > 0 and said.finished >= said.started > 0
    assert bucket.show_inventory("first").keys() == {said.obj_name} and bucket.show_inventory("other") == {}

    s3.client.put_object(Bucket="inventoried", Key="zzz", Body=b"later")
    s3.stop()

    def listed(prefix="", page_size=0, **how):
        return [(entry.name, entry.size) for entry in bucket.list_all_objects(prefix=prefix, page_size=page_size, props="name,size", **how)]

    whole = [(name, len(name)) for name in names]
    assert listed(inventory_name="first") == listed(flags=[ListObjectFlag.NBI]) == whole
    assert listed(inventory_name="first", page_size=7, prefix="b/") == [each for each in whole if each[0].startswith("b/")]
    assert listed(inventory_name="first", prefix=names[1034]) == [whole[1034]] and listed(inventory_name="first", prefix="zzz") == []
    for missing in ({"inventory_name": "other"}, {"inventory_name": "a/b"}):
        with pytest.raises(AISError, match="inventory"):
            listed(**missing)
    s3.start()

    with pytest.raises(AISError, match="already exists"):
        bucket.create_inventory(prefix="a/")
    assert sdk.job(bucket.create_inventory(prefix="a/", force=True)).wait_single_node(timeout=guarded(60)).success
    (said,) = bucket.show_inventory().values()
    assert said.name.startswith("inv-") and said.prefix == "a/"
    assert listed(flags=[ListObjectFlag.NBI]) == [each for each in whole if each[0].startswith("a/")]
    assert listed() == [*whole, ("zzz", 5)], "upstream is asked without it"

    # What the cluster keeps for itself is no user's bucket.
    assert list_of_buckets(cluster) == ["ais://data", uri]
    assert cluster.list_page(".sys-inventory").status == 400
    with pytest.raises(AISError, match="no inventory"):
        bucket.destroy_inventory("other")
    bucket.destroy_inventory()
    assert bucket.show_inventory() == {}
    with pytest.raises(AISError, match="no inventory"):
        listed(flags=[ListObjectFlag.NBI])

    def refused(bucket, value, method="POST", action="create-inventory"):
        return cluster.bucket_action(method, bucket, action, value).status

    assert refused(uri, {"names_per_chunk": 1}) == refused(uri, {"name": "a/b"}) == refused(uri, {"prefix": 7}) == 400
    assert refused("data", {}) == refused(uri, {}, "DELETE") == 400
    assert make_bucket(cluster, "ht://web", web.url).status == 200
    assert refused("ht://web", {}) == 501

    assert sdk.job(bucket.create_inventory()).wait_single_node(timeout=guarded(60)).success and len(bucket.show_inventory()) == 1
    bucket.evict()
    assert make_bucket(cluster, uri, s3.url).status == 200
    assert bucket.show_inventory() == {}, "it goes with its bucket"


def test_inventories_of_the_command_line(upstream_cluster, s3):
    s3.client.create_bucket(Bucket="shown")
    for name in ("a/1", "a/2", "b"):
        s3.client.put_object(Bucket="shown", Key=name, Body=b"body")
    cluster, uri = upstream_cluster(s3), "s3://shown"
    assert make_bucket(cluster, uri, s3.url).status == 200
    tarn = Cli(cluster.endpoint)
    assert json.loads(tarn.ok("inventory", "show", uri, "--json")) == []
    tarn.refuses(3, "ls", "--inventory", uri, says="s3://shown has no inventory")
    assert b"3 objects" in tarn.ok("inventory", "make", uri, "--name", "first")
    (said,) = json.loads(tarn.ok("inventory", "show", uri, "--json"))
    assert said["name"] == "first" and said["ntotal"] == 3
    assert tarn.ok("inventory", "show", uri).split()[5:8] == [b"first", b"3", b"%dB" % said["size"]]
    s3.client.put_object(Bucket="shown", Key="c", Body=b"later")
    assert tarn.ok("ls", "-n", "--inventory", uri) == b"a/1\na/2\nb\n" and tarn.ok("ls", "-n", uri) == b"a/1\na/2\nb\nc\n"
    assert tarn.ok("ls", "--inventory", f"{uri}/a/").split() == [b"4", b"a/1", b"4", b"a/2"]
    tarn.refuses(2, "ls", "-d", "--inventory", uri, says="excludes --inventory")
    tarn.refuses(2, "inventory", "make", uri, says="already exists")
    job = tarn.ok("inventory", "make", uri, "--force", "--prefix", "a/", "--no-wait").decode().strip()
    jobs.idle(cluster, job)
    assert tarn.ok("ls", "-n", "-i", uri) == b"a/1\na/2\n"
    tarn.ok("inventory", "rm", uri)
    assert json.loads(tarn.ok("inventory", "show", uri, "--json")) == []
    tarn.refuses(2, "inventory", "make", "data", says="no upstream")


def test_an_inventory_is_made_though_its_target_dies(upstream_cluster, s3):
    s3.client.create_bucket(Bucket="interrupted")
    for i in range(30):
        s3.client.put_object(Bucket="interrupted", Key=f"o-{i:02}", Body=b"body")
    cluster, uri = upstream_cluster(s3, targets=1, fail_points={"t1": "inventory.chunk=kill@3"}), "s3://interrupted"
    assert make_bucket(cluster, uri, s3.url).status == 200
    job = cluster.bucket_action("POST", uri, "create-inventory", {"names_per_chunk": 5}).text
    cluster.wait_exit("t1", 30)
    cluster.start("t1", environment=CREDENTIALS)
    jobs.idle(cluster, job)
    assert jobs.status(cluster, job)["err"] == ""
    (said,) = cluster.bucket_action("GET", uri, "show-inventory", None).json().values()
    assert said["ntotal"] == 30 and said["chunks"] == 6
