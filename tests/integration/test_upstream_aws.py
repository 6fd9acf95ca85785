"""Buckets of AWS itself: https to the host that the bucket has in its region, with a certificate and a signature that hold.
versitygw stands for AWS."""

import pytest
from harness import netns
from harness.aws import Aws, host_of
from harness.cli import Cli
from harness.upstreams import ACCESS_KEY, UNSEEN, list_of_buckets, wait_stored

MIB = 1 << 20
HOME, ABROAD = "us-east-1", "eu-central-1"


@pytest.fixture(scope="module")
def aws(tmp_path_factory):
    reason = netns.why_no_network()
    if reason:
        pytest.skip(reason)
    with Aws(tmp_path_factory.mktemp("aws"), [HOME, ABROAD]) as aws:
        yield aws


@pytest.fixture
def cluster_of(make_cluster, aws):
    """Makes a cluster with a target for each of these changes of the environment. None names a server."""
    def make(*changes):
        return make_cluster(targets=len(changes), network=aws.places,
                            environment={f"t{i + 1}": aws.environment | each for i, each in enumerate(changes)})

    return make


def create(cluster, uri, query="", **extra):
    return cluster.bucket_action("POST", uri, "create-bck", {"extra": {"aws": extra}} if extra else None, query)


def paths_asked(region, bucket):
    """Paths that targets have asked a region for. Fails unless each request was accepted and signed by the account."""
    asked = region.asked(bucket)
    assert asked and all(requester == ACCESS_KEY and status < "400" for requester, _, status in asked), asked
    return {target.partition("?")[0] for _, target, _ in asked}


def test_a_bucket_is_read_listed_and_written_at_its_own_host(aws, cluster_of, rng):
    home, uri = aws[HOME], "s3://photos"
    bodies = {"train/0.tar": rng.randbytes(10_000), "a b/ü+%41;=&.tar": rng.randbytes(3000), "large.tar": rng.randbytes(9 * MIB)}
    home.make_bucket("photos")
    home.fill("photos", bodies)
    cluster = cluster_of({}, {})
    # The bucket becomes known by its first use.
    assert list_of_buckets(cluster) == ["ais://data"] and cluster.get(uri, "train/0.tar").body == bodies["train/0.tar"]
    assert list_of_buckets(cluster) == ["ais://data", uri]
    assert cluster.names(uri) == sorted(bodies) and cluster.bodies(uri, bodies) == bodies
    wait_stored(cluster, uri, *bodies)

    bodies["small.tar"], bodies["parts.tar"] = rng.randbytes(5000), rng.randbytes(MIB) * 33 + b"end"
    for name in ("small.tar", "parts.tar"):
        done, upstream = cluster.put(uri, name, bodies[name]), home.client.get_object(Bucket="photos", Key=name)
        assert done.status == 200 and upstream["ETag"] == done.headers["ETag"] and upstream["Body"].read() == bodies[name], done
    assert upstream["ETag"].endswith('-3"') and "Uploads" not in home.client.list_multipart_uploads(Bucket="photos")
    assert cluster.delete(uri, "train/0.tar").status == 200
    del bodies["train/0.tar"]
    assert [each["Key"] for each in home.client.list_objects_v2(Bucket="photos")["Contents"]] == sorted(bodies)
    assert cluster.names(uri) == sorted(bodies)
    # The bucket was named by the host alone.
    assert paths_asked(home, "photos") == {"/", "/train/0.tar", "/a%20b/%C3%BC%2B%2541%3B%3D%26.tar", "/large.tar", "/small.tar",
                                           "/parts.tar"}

    home.add_host("not-there")
    absent = cluster.get("s3://not-there", "x"), create(cluster, "s3://not-there")
    assert [answer.status for answer in absent] == [404, 404] and list_of_buckets(cluster) == ["ais://data", uri], absent
    assert uri in list_of_buckets(cluster, presence=0, provider="aws") and paths_asked(home, "-") == {"/"}
    home.stop()
    try:
        assert cluster.bodies(uri, bodies) == bodies
    finally:
        home.start()


def test_a_bucket_with_a_dot_in_its_name_is_a_part_of_the_path(aws, cluster_of, rng, tmp_path):
    """A certificate for *.s3.REGION.amazonaws.com does not hold for names with one more dot."""
    home, uri, bodies = aws[HOME], "s3://set.of.photos", {"a.tar": rng.randbytes(4000)}
    home.make_bucket("set.of.photos")
    home.client.put_object(Bucket="set.of.photos", Key="a.tar", Body=bodies["a.tar"])
    cluster = cluster_of({})
    tarn = Cli(cluster.endpoint)
    tarn.ok("bucket", "create", uri)
    cluster.assert_bodies(uri, bodies)
    (tmp_path / "b.tar").write_bytes(b"new")
    tarn.ok("put", tmp_path / "b.tar", f"{uri}/b.tar")
    assert home.client.get_object(Bucket="set.of.photos", Key="b.tar")["Body"].read() == b"new"
    tarn.ok("rm", f"{uri}/b.tar")
    assert [each["Key"] for each in home.client.list_objects_v2(Bucket="set.of.photos")["Contents"]] == ["a.tar"]
    assert paths_asked(home, "set.of.photos") == {"/set.of.photos", "/set.of.photos/a.tar", "/set.of.photos/b.tar"}


def test_a_bucket_is_asked_for_in_its_region(aws, cluster_of):
    """The region of a bucket is its property, or else that of its targets, or else us-east-1."""
    home, abroad = aws[HOME], aws[ABROAD]
    buckets = {"bucket-of-us": home, "bucket-of-eu": abroad, "usual-of-us": home, "usual-of-eu": abroad, "named-of-eu": abroad}
    for name, region in buckets.items():
        region.make_bucket(name)
        region.client.put_object(Bucket=name, Key="where", Body=region.region.encode())

    def check(cluster, bucket):
        uri, region = f"s3://{bucket}", buckets[bucket]
        cluster.assert_bodies(uri, {"where": region.region.encode()})
        assert cluster.put(uri, "new", b"new").status == 200
        assert region.client.get_object(Bucket=bucket, Key="new")["Body"].read() == b"new"

    of_us = cluster_of({})
    assert create(of_us, "s3://bucket-of-eu", cloud_region=ABROAD).status == 200
    check(of_us, "bucket-of-eu")
    check(of_us, "usual-of-us")
    # A host of AWS that is named needs no leave of the operator.
    assert create(of_us, "s3://named-of-eu", cloud_region=ABROAD, endpoint=f"https://{host_of(ABROAD)}").status == 200
    check(of_us, "named-of-eu")
    of_eu = cluster_of({"AWS_REGION": ABROAD})
    assert create(of_eu, "s3://bucket-of-us", cloud_region=HOME).status == 200
    check(of_eu, "bucket-of-us")
    check(of_eu, "usual-of-eu")
    for bucket, region in buckets.items():
        root = "/named-of-eu" if bucket == "named-of-eu" else ""
        assert paths_asked(region, bucket) >= {f"{root}/where", f"{root}/new"}, bucket


def test_a_certificate_of_an_unknown_authority_is_refused(aws, cluster_of):
    home, uri = aws[HOME], "s3://secret"
    home.make_bucket("secret")
    cluster = cluster_of({}, {"SSL_CERT_FILE": str(aws.directory / "other.pem")})
    assert create(cluster, uri, UNSEEN).status == 200
    impatient = cluster.bucket_action("PATCH", uri, "set-bprops", {"rate_limit": {"backend": {
        "enabled": True, "num_retries": 1, "max_tokens": 1_000_000}}})
    assert impatient.status == 200, impatient
    (trusting,), (wary,) = (cluster.names_owned_by(target, uri, 1) for target in ("t1", "t2"))
    for name in (trusting, wary):
        home.client.put_object(Bucket="secret", Key=name, Body=b"body")
    asked = len(home.asked("secret"))
    refused = cluster.get(uri, wary), cluster.put(uri, wary, b"new"), cluster.delete(uri, wary)
    for answer in refused:
        assert answer.status == 503 and host_of(HOME, "secret") in answer.text, answer
        assert "certificate is not accepted: unable to get local issuer certificate" in answer.text, answer
    assert len(home.asked("secret")) == asked and home.client.get_object(Bucket="secret", Key=wary)["Body"].read() == b"body"
    assert cluster.get(uri, trusting).body == b"body" and paths_asked(home, "secret") == {f"/{trusting}"}
