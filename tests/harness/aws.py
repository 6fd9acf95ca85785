"""S3 as AWS offers it: https on port 443 of hosts that have AWS's own names, of which the bucket is a part.

    with Aws(directory, ["us-east-1", "eu-central-1"]) as aws:
        aws["us-east-1"].make_bucket("photos")
        make_cluster(targets=2, network=aws.places, environment={"t1": aws.environment, "t2": aws.environment})

versitygw stands for each region, on a machine of its own (netns). Targets find it by an /etc/hosts that they alone see.
Needs what netns needs.
"""

import contextlib
import re
import socket

import boto3
import botocore.config

from harness.etcd import openssl
from harness.netns import Network
from harness.upstreams import ACCESS_KEY, AWS_CREDENTIALS, NOTHING, SECRET_KEY, S3Server

# Owner, bucket, time, client, requester, id, operation, key, target, status; the key may have blanks.
LOG_LINE = re.compile(r"\S+ (?P<bucket>\S+) \[[^]]*\] \S+ (?P<requester>\S+) \S+ \S+ .+? (?P<target>/\S*) (?P<status>\d{3}) ")
BIND = 'test -e /etc/hosts || : >/etc/hosts; mount --bind "$0" /etc/hosts && exec "$@"'  # a debootstrap has none


def host_of(region, bucket=""):
    return f"{bucket}{'.' if bucket else ''}s3.{region}.amazonaws.com"


def make_certificate(directory, regions, addresses):
    """A certificate of the authority `ca.pem` for addresses, and for hosts of regions and their buckets; `other.pem` is
    another authority."""
    names = [f"DNS:{host_of(region, bucket)}" for region in regions for bucket in ("", "*")] + [f"IP:{each}" for each in addresses]
    (directory / "ext").write_text(f"subjectAltName={','.join(names)}\n")
    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for authority in ("ca", "other"):
        openssl(directory, *new, "-x509", "-days", "2", "-subj", f"/CN={authority}", "-keyout", f"{authority}.key",
                "-out", f"{authority}.pem")
    openssl(directory, *new, "-subj", "/O=aws", "-keyout", "server.key", "-out", "csr")
    openssl(directory, "x509", "-req", "-in", "csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "ext", "-out", "server.pem")


class Region(S3Server):
    """versitygw as the S3 of a region, which knows buckets by the name of their host. `client` is boto3's."""

    def __init__(self, aws, region):
        self.aws, self.address = aws, aws.network.address(region)
        super().__init__(aws.directory / region, region)
        self.add_host()

    def client_of(self, access_key, secret_key):
        return boto3.client("s3", endpoint_url=f"https://{self.address}", verify=str(self.aws.directory / "ca.pem"),
                            aws_access_key_id=access_key, aws_secret_access_key=secret_key, region_name=self.region,
                            config=botocore.config.Config(s3={"addressing_style": "path"}, proxies={}))

    def command(self):
        return [*self.aws.network.runner(self.region), self.program, "--access", ACCESS_KEY, "--secret", SECRET_KEY,
                "--port", f"{self.address}:443", "--region", self.region, "--virtual-domain", host_of(self.region),
                "--cert", self.aws.directory / "server.pem", "--key", self.aws.directory / "server.key",
                "--access-log", self.directory / "access.log", "posix", self.directory / "root"]

    def is_ready(self):
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((self.address, 443)) == 0

    def add_host(self, bucket=""):
        """Has targets find the host of a bucket, or else of the region."""
        with open(self.aws.hosts, "a") as hosts:
            hosts.write(f"{self.address} {host_of(self.region, bucket)}\n")

    def make_bucket(self, bucket):
        """A bucket whose host can be found; one with a dot in its name has none."""
        self.client.create_bucket(Bucket=bucket)
        if "." not in bucket:
            self.add_host(bucket)

    def asked(self, bucket):
        """[(requester, target, status)] of what others than boto have asked about a bucket; "-" is the account."""
        log = (self.directory / "access.log").read_text()
        lines = [line for line in log.splitlines() if "Boto3/" not in line and not line.startswith("log starts ")]
        found = [LOG_LINE.match(line) for line in lines]
        assert all(found), log
        return [each.group("requester", "target", "status") for each in found if each["bucket"] == bucket]


class Places:
    """Has targets of a Cluster, which takes it for its network, see another /etc/hosts."""
    machines = ["p1", *(f"t{i + 1}" for i in range(4))]

    def __init__(self, hosts):
        self.hosts = hosts

    def place(self, name):
        return {} if name == "p1" else {"runner": ["unshare", "--mount", "sh", "-c", BIND, str(self.hosts)]}

    def heal(self):
        pass


class Aws:
    """The regions by their names."""

    def __init__(self, directory, regions):
        self.directory, self.hosts = directory, directory / "hosts"
        self.hosts.write_text("127.0.0.1 localhost\n")
        self.places = Places(self.hosts)
        self.environment = NOTHING | AWS_CREDENTIALS | {"SSL_CERT_FILE": str(directory / "ca.pem")}
        self._names, self._regions, self._end = regions, {}, None

    def __getitem__(self, region):
        return self._regions[region]

    def __enter__(self):
        with contextlib.ExitStack() as made:
            self.network = made.enter_context(Network(self._names))
            make_certificate(self.directory, self._names, map(self.network.address, self._names))
            self._regions = {region: made.enter_context(Region(self, region)) for region in self._names}
            self._end = made.pop_all()
        return self

    def __exit__(self, *_):
        self._end.close()
