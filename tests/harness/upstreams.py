"""Upstream servers for buckets that have one: nginx, versitygw (S3), and one that breaks its promises."""

import contextlib
import hashlib
import http.server
import os
import shutil
import socket
import ssl
import subprocess
import threading
import urllib.parse

import boto3
import botocore.config
import botocore.exceptions
import pytest

from harness import client
from harness.etcd import free_port, stop, wait_alive
from harness.go_programs import go_program
from harness.waiting import wait_until

ACCESS_KEY, SECRET_KEY = "tarn-test-access", "tarn-test-secret"
GOOGLE_CREDENTIALS = {"GCS_ACCESS_KEY_ID": ACCESS_KEY, "GCS_SECRET_ACCESS_KEY": SECRET_KEY}
AWS_CREDENTIALS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
CREDENTIALS = AWS_CREDENTIALS | GOOGLE_CREDENTIALS
# Variables of the shell that runs the tests must not lend their values. Empty ones count as not set.
NOTHING = dict.fromkeys(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE",
                         "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE",
                         "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "GCS_ACCESS_KEY_ID",
                         "GCS_SECRET_ACCESS_KEY", "GCS_CREDENTIALS_FILE", "GCS_PROFILE", "GCS_ENDPOINT_URL"], "")
UNSEEN = "&dont_head_remote_bck=true"  # upstream is not asked when the bucket is made
# The property of a bucket that names its server.
SERVER_PROPERTY = {"s3": ("aws", "endpoint"), "gs": ("gcp", "endpoint"), "az": ("azure", "endpoint"), "ht": ("http", "url")}

NGINX = """
{user}worker_processes 1; daemon off; pid {directory}/pid; error_log {directory}/error.log;
events {{ }}
http {{
  access_log {directory}/access.log; limit_rate {rate}; sendfile on; output_buffers 1 64k;
  client_body_temp_path {directory}/t1; proxy_temp_path {directory}/t2; fastcgi_temp_path {directory}/t3;
  uwsgi_temp_path {directory}/t4; scgi_temp_path {directory}/t5;
  server {{ listen 127.0.0.1:{port}; root {directory}/files; }}
}}
"""


def listens(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """A program that is started, and ends with the block that it stands in."""
    process = None

    def stop(self):
        if self.process:
            stop(self.process)
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class WebServer(Server):
    """nginx with the files of a directory; at most `rate` bytes a second on each connection, 0 for no limit."""

    def __init__(self, directory, rate=0):
        if shutil.which("nginx") is None:
            pytest.skip("nginx is not installed (deploy/install-deps --bench)")
        self.directory = directory
        self.files = directory / "files"
        self.files.mkdir(parents=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        user = "user root; " if os.geteuid() == 0 else ""
        (directory / "nginx.conf").write_text(NGINX.format(user=user, directory=directory, port=self.port, rate=rate))

    def write(self, name, body):
        path = self.files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def fill(self, bodies, folder=""):
        """Has files {name: body} below a folder, and returns them."""
        for name, body in bodies.items():
            self.write(os.path.join(folder, name), body)
        return bodies

    def start(self):
        pid = self.directory / "pid"  # which nginx writes when the port is its own, and no other server's
        pid.unlink(missing_ok=True)
        self.process = subprocess.Popen(["nginx", "-c", str(self.directory / "nginx.conf"), "-e", "stderr"],
                                        stderr=subprocess.DEVNULL)
        wait_alive("nginx", self.process, lambda: pid.exists() and listens(self.port))
        return self

    def requests(self, method, name):
        """How often a file was asked for."""
        log = self.directory / "access.log"
        return log.read_text().count(f'"{method} /{urllib.parse.quote(name)} ') if log.exists() else 0


class S3Server(Server):
    """versitygw over a directory; checks signatures. `client` is boto3's."""
    name = "versitygw"

    def __init__(self, directory, region="us-east-1"):
        self.directory = directory
        (directory / "root").mkdir(parents=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.program = go_program(self.name)
        self.region = region
        self.client = self.client_of(ACCESS_KEY, SECRET_KEY)

    def client_of(self, access_key, secret_key):
        return boto3.client("s3", endpoint_url=self.url, aws_access_key_id=access_key, aws_secret_access_key=secret_key,
                            region_name=self.region, config=botocore.config.Config(s3={"addressing_style": "path"}))

    def start(self):
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, env=os.environ | self.environment())
        wait_alive(self.name, self.process, self.is_ready)
        return self

    def fill(self, bucket, bodies, **options):
        """Stores {name: body} in a bucket that is there, and returns them."""
        for name, body in bodies.items():
            self.client.put_object(Bucket=bucket, Key=name, Body=body, **options)
        return bodies

    def is_ready(self):
        if not listens(self.port):
            return False
        with contextlib.suppress(botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
            self.client.list_buckets()
            return True
        return False

    def command(self):
        return [self.program, "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--port", f"127.0.0.1:{self.port}",
                "--region", self.region, "posix", self.directory / "root"]

    def environment(self):
        return {}


class SharedS3Server(S3Server):
    """versitygw with several accounts, of which each has its own buckets alone."""

    def command(self):
        program, *words = super().command()
        accounts = self.directory / "accounts"
        accounts.mkdir(exist_ok=True)
        return [program, "--iam-dir", accounts, *words]

    def add_account(self, access_key, secret_key):
        """An account that may make buckets; its client of boto3."""
        subprocess.run([self.program, "admin", "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--endpoint-url", self.url, "--region",
                        self.region, "create-user", "--access", access_key, "--secret", secret_key, "--role", "userplus"],
                       check=True, capture_output=True, timeout=60)
        return self.client_of(access_key, secret_key)


class MinioServer(S3Server):
    """MinIO over a directory."""
    name = "minio"

    def command(self):
        return [self.program, "server", "--quiet", "--address", f"127.0.0.1:{self.port}", self.directory / "root"]

    def environment(self):
        return {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY, "MINIO_REGION": self.region, "MINIO_BROWSER": "off",
                "MINIO_UPDATE": "off", "HOME": str(self.directory)}


class FlawedServer:
    """Serves `objects` ({name: bytes}) as S3 does, and does to a GET what `flaws` says for its name: a function of
    (handler, body, range start) that answers by itself, called as long as it is there. `put_flaws` are functions of
    (handler, body) for PUT, and of (handler, None) for DELETE. `seen` is [(method, name, headers)]. With `has_parts` it
    answers ranges that begin at 0 with a part, too. Flaws may wait for the event `goes_on`, which a stop sets."""

    def __init__(self, certificates=None):
        """With the directory of make_certificates() it speaks https."""
        self.objects, self.flaws, self.put_flaws, self.seen, self.has_parts = {}, {}, {}, [], False
        self.goes_on = threading.Event()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.answer()

            def do_GET(self):
                self.answer()

            def do_PUT(self):
                self.change(self.rfile.read(int(self.headers["Content-Length"])))

            def do_DELETE(self):
                self.change(None)

            def change(self, body):
                name = urllib.parse.unquote(self.path.partition("?")[0]).split("/", 2)[2]
                flaw = owner.put_flaws.get(name)  # before it is seen: a test that waits for that may take the flaw away then
                owner.seen.append((self.command, name, dict(self.headers)))
                if flaw:
                    return flaw(self, body)
                self.accept(name, body)

            def accept(self, name, body):
                """Makes the change, and says so."""
                if "x-amz-copy-source" in self.headers:
                    return self.accept_copy(name)
                if body is None:
                    owner.objects.pop(name, None)
                    return self.say(204, b"")
                owner.objects[name] = body
                self.send_response(200)
                self.send_header("ETag", etag_of(body))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def accept_copy(self, name):
                """An object gets other metadata."""
                tag = etag_of(owner.objects[name])
                if self.headers["x-amz-copy-source-if-match"] != tag:
                    return self.say(412, b"<Error><Code>PreconditionFailed</Code><Message>changed</Message></Error>")
                self.say(200, f"<CopyObjectResult><ETag>{tag.replace(chr(34), '&quot;')}</ETag></CopyObjectResult>".encode())

            def answer(self):
                name = urllib.parse.unquote(self.path.partition("?")[0]).split("/", 2)[2:]
                flaw = owner.flaws.get(name[0]) if name and self.command == "GET" else None
                owner.seen.append((self.command, name[0] if name else "", dict(self.headers)))
                if not name:
                    return self.say(200, b"")
                body = owner.objects.get(name[0])
                if body is None:
                    return self.say(404, b"<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>")
                wanted = self.headers.get("Range")
                first, _, last = wanted.removeprefix("bytes=").partition("-") if wanted else ("0", "", "")
                start, end = int(first), int(last or len(body) - 1) + 1
                if flaw:
                    return flaw(self, body, start)
                if self.headers.get("If-Match", etag_of(body)) != etag_of(body):
                    return self.say(412, b"<Error><Code>PreconditionFailed</Code><Message>changed</Message></Error>")
                end = min(end, len(body)) if owner.has_parts else len(body)
                self.begin(body, start, end=end, is_part=start > 0 or (owner.has_parts and wanted))
                if self.command == "GET":
                    self.wfile.write(body[start:end])

            def begin(self, body, start=0, etag=None, end=None, is_part=None):
                """The head of an answer with `body` from `start` on, or to `end`."""
                end = len(body) if end is None else end
                is_part = bool(start) if is_part is None else is_part
                self.send_response(206 if is_part else 200)
                if is_part:
                    self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(body)}")
                self.send_header("ETag", etag or etag_of(body))
                self.send_header("Content-Length", str(end - start))
                self.end_headers()

            def say(self, status, body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def cut(self):
                """Ends the connection without a proper end of the body."""
                self.wfile.flush()
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if certificates:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if certificates else 'http'}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()  # seconds until it sees stop()

    def gets(self, name):
        return [headers for method, each, headers in self.seen if method == "GET" and each == name]

    def stop(self):
        self.goes_on.set()
        self.server.shutdown()
        self.server.server_close()


def stand_still(goes_on):
    """A flaw of a FlawedServer: half of the body comes, the rest when the event `goes_on` is set."""
    def flaw(handler, its, start):
        handler.begin(its, start)
        handler.wfile.write(its[:len(its) // 2])
        handler.wfile.flush()
        goes_on.wait(60)
        handler.wfile.write(its[len(its) // 2:])

    return flaw


def redirect_to(location, status=302):
    """A flaw of a FlawedServer, of GET and of PUT."""
    def flaw(handler, *_):
        handler.send_response(status)
        handler.send_header("Location", location)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return flaw


def etag_of(body):
    return f'"{hashlib.md5(body).hexdigest()}"'


def is_stored(cluster, bucket, name):
    """True if the cluster has the object."""
    return client.request("HEAD", cluster.url(bucket, name) + "&presence=2").status == 200


def wait_stored(cluster, bucket, *names):
    for name in names:
        wait_until(lambda: is_stored(cluster, bucket, name), 20, f"{bucket}/{name} is stored")


def counted(cluster, name, *nodes):
    """The counter tarn_upstream_NAME, of these targets or else all of them together."""
    return sum(cluster.metric(node, f"tarn_upstream_{name}") or 0 for node in nodes or cluster.targets())


def evict(cluster, bucket, name):
    """Takes an object out of the cluster alone."""
    answer = client.request("DELETE", cluster.url(bucket, name), b'{"action":"evict-listrange"}', expect=False)
    assert answer.status == 200, answer


def upstream_cluster(make_cluster, *servers, targets=3, settings=None, environment=None, **options):
    """A cluster whose targets may ask these servers, and have the credentials for S3, by AWS's names and by Google's."""
    listed = {"upstream.endpoints": ",".join(server.url for server in servers)}
    each = CREDENTIALS | (environment or {})
    return make_cluster(targets=targets, settings=listed | (settings or {}),
                        environment={f"t{i + 1}": each for i in range(targets)}, **options)


def make_bucket(cluster, bucket, url, props=None, query="", **extra):
    """Makes a bucket with an upstream, "ht://web" or "s3://data", known to the cluster. The answer. `extra` has what its
    cloud is told beside the server, say profile="x"."""
    group, key = SERVER_PROPERTY[bucket.partition("://")[0]]
    return cluster.bucket_action("POST", bucket, "create-bck", {"extra": {group: {key: url} | extra}} | (props or {}), query=query)


def region_of(cluster, bucket):
    """The region that the cluster keeps with a bucket of S3, by its name alone."""
    return cluster.props(f"aws://{bucket}")["extra"]["aws"]["cloud_region"]


def ask_for_buckets(cluster, **query):
    words = "&".join(f"{key}={value}" for key, value in query.items())
    return client.request("GET", f"{cluster.endpoint}/v1/buckets?{words}", b'{"action":"list","name":"","value":null}', expect=False)


def list_of_buckets(cluster, **query):
    """URIs of the buckets that the cluster lists, sorted."""
    answer = ask_for_buckets(cluster, **query)
    assert answer.status == 200, answer
    schemes = {"aws": "s3", "gcp": "gs", "azure": "az"}
    return sorted(f"{schemes.get(each['provider'], each['provider'])}://{each['name']}" for each in answer.json())
