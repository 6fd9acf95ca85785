"""Temporary credentials of a role for S3: of a token that MinIO's STS takes, and of the service of a container."""

import pytest
from harness.roles import TokenIssuer, container_service
from harness.upstreams import NOTHING, UNSEEN, MinioServer, SharedS3Server, list_of_buckets, make_bucket
from harness.waiting import wait_until

REGION = "us-east-1"
ARN = "arn:aws:iam::123456789012:role/tarn"
NAMES = [f"n{i}" for i in range(8)]


class StsServer(MinioServer):
    """MinIO that gives credentials for tokens of an issuer, also by the calls of AWS's STS."""

    def __init__(self, directory, issuer):
        self.issuer = issuer
        super().__init__(directory)

    def environment(self):
        return super().environment() | {"MINIO_IDENTITY_OPENID_CONFIG_URL": self.issuer.config_url,
                                        "MINIO_IDENTITY_OPENID_CLIENT_ID": "tarn"}


@pytest.fixture
def issuer(tmp_path):
    with TokenIssuer(tmp_path) as issuer:
        yield issuer


@pytest.fixture
def sts(tmp_path, issuer):
    with StsServer(tmp_path / "minio", issuer) as server:
        server.client.create_bucket(Bucket="data")
        for name in NAMES:
            server.client.put_object(Bucket="data", Key=name, Body=name.encode())
        yield server


def started(make_cluster, server, tmp_path, t1=None, t2=None, **environment):
    """A cluster with these variables of both targets, and of each."""
    common = NOTHING | {"AWS_REGION": REGION, "HOME": str(tmp_path), "AWS_ENDPOINT_URL": server.url} | environment
    return make_cluster(targets=2, environment={"t1": common | (t1 or {}), "t2": common | (t2 or {})})


def serves_all(cluster):
    return all(cluster.get("s3://data", name).status == 200 for name in NAMES)


def test_a_role_is_taken_by_a_token(make_cluster, issuer, sts, tmp_path):
    """As in a pod of EKS. First the token is another cluster's: the client is told what STS said, and later ones are tried."""
    token = tmp_path / "token"
    token.write_text(issuer.token("someone else", policy="readwrite"))
    cluster = started(make_cluster, sts, tmp_path, AWS_ROLE_ARN=ARN, AWS_WEB_IDENTITY_TOKEN_FILE=str(token),
                      AWS_ENDPOINT_URL_STS=sts.url)
    cluster.expect_errors("credentials not renewed|upstream refused")
    assert make_bucket(cluster, "s3://data", sts.url, query=UNSEEN).status == 200
    wait_until(lambda: "InvalidParameterValue" in cluster.get("s3://data", "n0").text, 10, "STS has refused the token")
    refused = cluster.get("s3://data", "n0")
    assert refused.status == 503 and "Retry-After" in refused.headers and ARN in refused.text, refused
    token.write_text(issuer.token("tarn", policy="readwrite") + "\n")
    wait_until(lambda: serves_all(cluster), 20, "both targets have the next token taken")

    sts.client.create_bucket(Bucket="found")  # becomes known by its first use
    for name in NAMES:
        assert cluster.put("s3://found", name, name.encode()).status == 200
        assert sts.client.get_object(Bucket="found", Key=name)["Body"].read() == name.encode()
    assert cluster.delete("s3://found", "n0").status == 200 and cluster.names("s3://found") == NAMES[1:]
    cluster.assert_bodies("s3://data", {name: name.encode() for name in NAMES})
    assert "s3://found" in list_of_buckets(cluster, presence=0, provider="aws")


def test_a_role_may_do_what_its_policy_says(make_cluster, issuer, sts, tmp_path):
    token = tmp_path / "token"
    token.write_text(issuer.token("tarn", policy="readonly"))
    cluster = started(make_cluster, sts, tmp_path, AWS_ROLE_ARN=ARN, AWS_WEB_IDENTITY_TOKEN_FILE=str(token),
                      AWS_ENDPOINT_URL_STS=sts.url)
    assert make_bucket(cluster, "s3://data", sts.url, query=UNSEEN).status == 200
    wait_until(lambda: serves_all(cluster), 20, "both targets have taken the role")
    denied = cluster.put("s3://data", "n0", b"new")
    assert denied.status == 403 and "AccessDenied" in denied.text, denied
    assert sts.client.get_object(Bucket="data", Key="n0")["Body"].read() == b"n0"


@pytest.mark.deep("credentials that hold for seconds have to be renewed in time")
def test_credentials_of_a_container_are_renewed_before_they_expire(make_cluster, tmp_path):
    """As in pods with EKS Pod Identity. The keys change, and each target signs with the newest ones, without an error between."""
    accounts = {"first": "secret-of-first", "second": "secret-of-second"}
    given, tokens = ["first"], {"t1": "token of t1", "t2": "token of t2"}
    for target, token in tokens.items():
        (tmp_path / target).write_text(token + "\n")
    with SharedS3Server(tmp_path / "s3", region=REGION) as s3:
        for account, secret in accounts.items():
            s3.add_account(account, secret).create_bucket(Bucket=account)
        with container_service(lambda: (given[0], accounts[given[0]]), tokens.values(), seconds=20) as (url, asked):
            cluster = started(make_cluster, s3, tmp_path, AWS_CONTAINER_CREDENTIALS_FULL_URI=url,
                              **{target: {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / target)} for target in tokens})
            cluster.expect_errors("credentials not renewed|upstream refused")
            for account in accounts:
                # Each read asks upstream.
                assert make_bucket(cluster, f"s3://{account}", s3.url, {"versioning": {"validate_warm_get": True}},
                                   query=UNSEEN).status == 200
            names = [name for target in tokens for name in cluster.names_owned_by(target, "s3://first", 2)]
            for account in accounts:
                for name in names:
                    s3.client.put_object(Bucket=account, Key=name, Body=account.encode())
            statuses = lambda account: {cluster.get(f"s3://{account}", name).status for name in names}
            assert statuses("first") == {200} and statuses("second") == {403}
            seen = set()

            def renewed():
                seen.update(statuses("first"))
                return all(len(times) >= 2 for times in asked.values())

            wait_until(renewed, 30, "both were renewed")
            assert seen == {200}
            given[0] = "second"
            wait_until(lambda: statuses("second") == {200}, 30, "the new keys are used")
        wait_until(lambda: statuses("second") == {503}, 30, "no credentials come any longer")
        expired = cluster.get("s3://second", names[0])
        assert "have expired: " in expired.text and "Retry-After" in expired.headers, expired
