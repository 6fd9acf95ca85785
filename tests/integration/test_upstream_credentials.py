"""Credentials of targets for upstream servers: where targets find them, which of them a bucket uses, and what a server gets."""

import re

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from harness.upstreams import (ACCESS_KEY, AWS_CREDENTIALS, NOTHING, SECRET_KEY, UNSEEN, FlawedServer, MinioServer, SharedS3Server,
                               evict, is_stored, make_bucket, redirect_to, region_of, wait_stored)

REGION = "auto"  # Google's only one, so that one server can stand for both clouds; S3's signatures have to name it, too
ACCOUNTS = ("first", "second")
SECRETS = {"first": "secret-of-first", "second": "secret-of-second"}
# Provider: the variables that name a file and a profile of it, and what a key is called there.
FILES = {"s3": ("AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE", "aws_access_key_id", "aws_secret_access_key"),
         "gs": ("GCS_CREDENTIALS_FILE", "GCS_PROFILE", "gs_access_key_id", "gs_secret_access_key")}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A server with two accounts; each has a bucket of its own name, and may use no other."""
    with SharedS3Server(tmp_path_factory.mktemp("shared"), region=REGION) as server:
        for account in ACCOUNTS:
            server.add_account(account, SECRETS[account]).create_bucket(Bucket=account)
        yield server


@pytest.fixture
def elsewhere():
    """Two more servers, of which targets may ask the first."""
    servers = FlawedServer(), FlawedServer()
    yield servers
    for server in servers:
        server.stop()


def write_profiles(file, provider, profiles, more=""):
    """A file of credentials with {profile: account}. Its path."""
    *_, access, secret = FILES[provider]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(f"[{profile}]\n{access} = {account}\n{secret} = {SECRETS[account]}\n{more}"
                              for profile, account in profiles.items()))
    return str(file)


def started(make_cluster, server, *environments):
    """A cluster of one target for each of these environments; all of them may ask the server."""
    return make_cluster(targets=len(environments), settings={"upstream.endpoints": server.url},
                        environment={f"t{i + 1}": NOTHING | each for i, each in enumerate(environments)})


def assert_denied(answer, url):
    """Fails unless the client was told that upstream refused, and which server that was."""
    assert answer.status == 403 and "AccessDenied" in answer.text and url in answer.text, answer


def test_credentials_come_from_variables_and_files(make_cluster, shared, tmp_path):
    """Each target finds its credentials in another place: the bucket that it may read says which it found."""
    profiles = {"default": "first", "second": "second"}
    home = tmp_path / "home"
    in_file = {"AWS_REGION": REGION, "AWS_SHARED_CREDENTIALS_FILE": write_profiles(home / ".aws/credentials", "s3", profiles),
               "GCS_CREDENTIALS_FILE": write_profiles(tmp_path / "google", "gs", profiles)}
    with_profile = in_file | {"AWS_PROFILE": "second", "GCS_PROFILE": "second"}
    at_home = {"AWS_REGION": REGION, "HOME": str(home)}
    with_keys = with_profile | {"AWS_ACCESS_KEY_ID": "first", "AWS_SECRET_ACCESS_KEY": SECRETS["first"]}
    cluster = started(make_cluster, shared, in_file, with_profile, at_home, with_keys)
    accounts = [("t1", "s3", "first"), ("t2", "s3", "second"), ("t3", "s3", "first"), ("t4", "s3", "first"),
                ("t1", "gs", "first"), ("t2", "gs", "second"), ("t4", "gs", "second")]
    for provider in FILES:
        for bucket in ACCOUNTS:
            assert make_bucket(cluster, f"{provider}://{bucket}", shared.url, query=UNSEEN).status == 200
    for target, provider, account in accounts:
        for bucket in ACCOUNTS:
            (name,) = cluster.names_owned_by(target, f"{provider}://{bucket}", 1, prefix=provider)
            body = f"{target} reads {name}".encode()
            shared.client.put_object(Bucket=bucket, Key=name, Body=body)
            answer = cluster.get(f"{provider}://{bucket}", name)
            if bucket == account:
                assert answer.status == 200 and answer.body == body, answer
            else:
                assert_denied(answer, shared.url)


@pytest.mark.parametrize("provider", FILES)
def test_a_bucket_uses_the_profile_that_it_names(make_cluster, shared, tmp_path, provider):
    file = write_profiles(tmp_path / "credentials", provider, {f"of-{account}": account for account in ACCOUNTS})
    cluster = started(make_cluster, shared, *[{FILES[provider][0]: file, "AWS_REGION": REGION}] * 2)
    unsigned = make_bucket(cluster, f"{provider}://first", shared.url)  # the file has no default
    assert unsigned.status == 403 and shared.url in unsigned.text and "without credentials" in unsigned.text, unsigned
    for account, other in (ACCOUNTS, ACCOUNTS[::-1]):
        uri = f"{provider}://{account}"
        wrong = make_bucket(cluster, uri, shared.url, profile=f"of-{other}")
        assert wrong.status == 403 and shared.url in wrong.text and "without credentials" not in wrong.text, wrong
        assert make_bucket(cluster, uri, shared.url, profile=f"of-{account}").status == 200
        for name in ("cold", "later"):
            shared.client.put_object(Bucket=account, Key=f"{provider}/{name}", Body=name.encode())
        assert cluster.get(uri, f"{provider}/cold").body == b"cold"
        assert cluster.put(uri, f"{provider}/written", account.encode()).status == 200
        assert shared.client.get_object(Bucket=account, Key=f"{provider}/written")["Body"].read() == account.encode()
        assert cluster.names(uri, prefix=f"{provider}/") == [f"{provider}/{name}" for name in ("cold", "later", "written")]
    wait_stored(cluster, f"{provider}://first", f"{provider}/cold")

    def set_profile(profile):
        cloud = {"s3": "aws", "gs": "gcp"}[provider]
        changed = cluster.bucket_action("PATCH", f"{provider}://first", "set-bprops", {"extra": {cloud: {"profile": profile}}})
        assert changed.status == 200, changed

    set_profile("of-second")
    uri = f"{provider}://first"
    assert_denied(cluster.get(uri, f"{provider}/later"), shared.url)
    assert_denied(cluster.put(uri, f"{provider}/refused", b"x"), shared.url)
    assert_denied(cluster.list_page(uri), shared.url)
    upstream = {each["Key"] for each in shared.client.list_objects_v2(Bucket="first")["Contents"]}
    assert f"{provider}/written" in upstream and f"{provider}/refused" not in upstream
    assert not is_stored(cluster, uri, f"{provider}/refused")
    assert cluster.get(uri, f"{provider}/cold").body == b"cold"  # what is stored
    set_profile("of-first")
    assert cluster.get(uri, f"{provider}/later").body == b"later"


def test_a_server_takes_signatures_of_its_own_region_alone(make_cluster, shared, tmp_path):
    file = write_profiles(tmp_path / "credentials", "s3", {"default": "first"})
    cluster = started(make_cluster, shared, {"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_REGION": "eu-west-3"})
    uri, body = "s3://first", b"body"
    shared.client.put_object(Bucket="first", Key="region", Body=body)
    wrong = make_bucket(cluster, uri, shared.url, cloud_region="us-west-2")
    assert wrong.status == 400 and f"{shared.url}/first answered 400" in wrong.text, wrong
    assert make_bucket(cluster, uri, shared.url, query=UNSEEN).status == 200
    refused = cluster.get(uri, "region")
    assert refused.status == 502 and "AuthorizationHeaderMalformed" in refused.text and "eu-west-3" in refused.text, refused
    changed = cluster.bucket_action("PATCH", uri, "set-bprops", {"extra": {"aws": {"cloud_region": REGION}}})
    assert changed.status == 200 and cluster.get(uri, "region").body == body, changed


@pytest.mark.parametrize("server", [SharedS3Server, MinioServer], ids=lambda each: each.name)
def test_the_region_that_a_server_tells_is_kept_with_the_bucket(make_cluster, tmp_path, server):
    """Targets have another region than the server. versitygw tells its own in the body of a refusal, MinIO in a field."""
    with server(tmp_path / "server", region="eu-south-2") as s3:
        s3.client.create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": "eu-south-2"})
        s3.client.put_object(Bucket="data", Key="a", Body=b"body")
        cluster = started(make_cluster, s3, AWS_CREDENTIALS | {"AWS_REGION": "eu-west-3", "AWS_ENDPOINT_URL": s3.url})
        assert cluster.get("s3://data", "a").body == b"body"  # the first use
        assert region_of(cluster, "data") == "eu-south-2"
        assert cluster.put("s3://data", "b", b"new").status == 200
        assert s3.client.get_object(Bucket="data", Key="b")["Body"].read() == b"new"
        assert cluster.bucket_action("DELETE", "s3://data", "evict-remote-bck").status == 200
        assert make_bucket(cluster, "s3://data", s3.url).status == 200
        assert region_of(cluster, "data") == "eu-south-2" and cluster.names("s3://data") == ["a", "b"]
        absent = make_bucket(cluster, "s3://not-there", s3.url)
        assert absent.status == 404 and "not-there" in absent.text, absent


def assert_signed(headers, method, path, credentials, region):
    """Fails unless the request has the signature that boto's signer makes with this key and secret for this region."""
    (signed,) = re.findall(r"SignedHeaders=([^,]+)", headers["Authorization"])
    assert {"host", "x-amz-date", "x-amz-content-sha256"} <= set(signed.split(";")), headers
    assert ("x-amz-security-token" in headers) == ("x-amz-security-token" in signed.split(";")), headers
    signer = S3SigV4Auth(Credentials(*credentials), "s3", region)
    request = AWSRequest(method, f"http://{headers['Host']}{path}",
                         headers={name: value for name, value in headers.items() if name.lower() in signed.split(";")})
    request.context["timestamp"] = headers["x-amz-date"]
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    expected = f"AWS4-HMAC-SHA256 Credential={signer.scope(request)},SignedHeaders={signed},Signature={signature}"
    assert headers["Authorization"] == expected, headers


def test_region_and_session_token_are_signed(make_cluster, flawed, tmp_path):
    """Each target has another region and token: its requests have both, but for the region where the bucket names one."""
    file = write_profiles(tmp_path / "credentials", "s3", {"default": "first"}, more="aws_session_token = of the file\n")
    cluster = started(make_cluster, flawed, AWS_CREDENTIALS | {"AWS_REGION": "eu-west-3", "AWS_SESSION_TOKEN": "of/variables=="},
                      {"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_SESSION_TOKEN": "of no key"}, AWS_CREDENTIALS)
    assert make_bucket(cluster, "s3://usual", flawed.url).status == 200
    assert make_bucket(cluster, "s3://named", flawed.url, cloud_region="ap-south-1").status == 200
    keys, in_file = (ACCESS_KEY, SECRET_KEY), ("first", SECRETS["first"])
    for target, credentials, usual, token in (("t1", keys, "eu-west-3", "of/variables=="), ("t2", in_file, "us-east-1", "of the file"),
                                              ("t3", keys, "us-east-1", None)):
        for bucket, region in (("usual", usual), ("named", "ap-south-1")):
            (name,) = cluster.names_owned_by(target, f"s3://{bucket}", 1)
            flawed.seen.clear()
            assert cluster.put(f"s3://{bucket}", name, b"body").status == 200
            evict(cluster, f"s3://{bucket}", name)
            assert cluster.get(f"s3://{bucket}", name).body == b"body"
            requests = [(method, headers) for method, each, headers in flawed.seen if each == name]
            assert {"PUT", "GET"} <= {method for method, _ in requests}, requests
            for method, headers in requests:
                assert headers.get("x-amz-security-token") == token, headers
                assert_signed(headers, method, f"/{bucket}/{name}", credentials, region)


def test_a_redirect_to_another_server_is_not_followed(upstream_cluster, flawed, elsewhere):
    cluster = upstream_cluster(flawed, elsewhere[0], targets=1)
    for uri, url in (("s3://data", flawed.url), ("gs://data", flawed.url), ("ht://data", f"{flawed.url}/data/")):
        assert make_bucket(cluster, uri, url).status == 200
    for number, other in enumerate(elsewhere):
        for status in (301, 302, 303, 307, 308):
            name = f"{number}-{status}"
            location = f"{other.url}/data/{name}"
            flawed.objects[name] = other.objects[name] = b"body"
            flawed.flaws[name] = flawed.put_flaws[name] = redirect_to(location, status)
            answers = [cluster.get("s3://data", name), cluster.get("gs://data", name), cluster.get("ht://data", name),
                       cluster.put("s3://data", name, b"new"), cluster.put("gs://data", name, b"new")]
            for answer in answers:
                assert answer.status == 502 and f"redirects are not followed: name the server that has the objects ({location})" \
                    in answer.text, answer
            asked = [method for method, each, _ in flawed.seen if each == name and method in ("GET", "PUT")]
            assert sorted(asked) == ["GET"] * 3 + ["PUT"] * 2, asked
    assert [server.seen for server in elsewhere] == [[], []]

    assert make_bucket(cluster, "s3://named", elsewhere[0].url).status == 200  # as the error says
    assert cluster.get("s3://named", "0-301").body == b"body" and len(elsewhere[0].gets("0-301")) == 1
