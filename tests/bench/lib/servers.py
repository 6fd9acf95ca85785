"""The servers that rows compare: a cluster of Tarn, nginx, and an emulated drive, each a context that ends what it began."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
from pathlib import Path

from harness import attribute
from lib.stage import DRIVE_TOOL, REPOSITORY, Failed, Unavailable, wait_until

LOCAL_CLUSTER = REPOSITORY / "deploy" / "local-cluster"
BUCKET = "bench"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Tarn:
    """One proxy and one or more targets through deploy/local-cluster, the bucket `bench` in it. Drives may be mounted in
    DIRECTORY/tN/dN before it starts."""

    def __init__(self, stage, directory, drives=1, burst=True, settings=(), enter=None, targets=1, bucket=None, environment=None):
        self.stage, self.directory, self.drives_count, self.targets = stage, Path(directory), drives, targets
        self.bucket = bucket  # properties of the bucket `bench`
        self.words = [*stage.server(burst), str(LOCAL_CLUSTER)]
        self.settings = [word for setting in settings for word in ("--set", setting)]
        self.environment = os.environ | {"TARN_BIN": str(stage.programs)} | (environment or {})
        self.enter = enter  # what each process does first: joins a cgroup

    def _command(self, *words, timeout=120):
        command = [*self.words, *words, "--dir", str(self.directory)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, preexec_fn=self.enter,
                                env=self.environment)
        if result.returncode != 0:
            raise Failed(f"{' '.join(command)}: exit {result.returncode}: {result.stdout}{result.stderr}")
        return result.stdout

    def __enter__(self):
        try:
            self.up()
            self.make_bucket(BUCKET, self.bucket)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Failed, subprocess.TimeoutExpired):
            self._command("down")

    def up(self):
        # Adopting a million files takes a minute.
        self._command("up", "--port", "0", "--targets", str(self.targets), "--drives", str(self.drives_count), "--timeout", "600",
                      *self.settings, timeout=660)
        status = json.loads(self._command("status", "--json"))
        self.endpoint = status["endpoint"]
        self.nodes = nodes = {node["name"]: node for node in status["nodes"]}
        self.target_url = nodes["t1"]["urls"]["public"]
        self.proxy_pid, self.target_pid = nodes["p1"]["pid"], nodes["t1"]["pid"]
        self.pids = [self.proxy_pid, self.target_pid]

    def down(self):
        self._command("down")

    def add_target(self):
        """One target more; its name."""
        self._command("add", "target")
        self.targets += 1
        self._look()
        return f"t{self.targets}"

    def kill(self, *names):
        """kill -9 of these nodes; returns at once."""
        for name in names:
            os.kill(self.nodes[name]["pid"], signal.SIGKILL)

    def start(self, *names):
        """Starts nodes that were killed."""
        self._command("start", *names)
        self._look()

    def replace_drive(self, index, target=1):
        """The target is killed, its drive emptied, and named as a new one when the target starts again."""
        name, drive = f"t{target}", self.drive(index, target)
        self.kill(name)
        shutil.rmtree(drive)
        drive.mkdir()
        file = self.directory / "cluster.json"
        made = json.loads(file.read_text())
        (node,) = [node for node in made["nodes"] if node["name"] == name]
        if "--replace-drive" not in node["arguments"]:
            node["arguments"] += ["--replace-drive", str(drive)]
        file.write_text(json.dumps(made))
        self.start(name)

    def _look(self):
        status = json.loads(self._command("status", "--json"))
        self.nodes = {node["name"]: node for node in status["nodes"]}

    def all_pids(self):
        return [node["pid"] for node in self.nodes.values() if node["pid"]]

    def log(self, node):
        return (self.directory / "log" / f"{node}.log").read_text()

    def hurry(self):
        """Real-time priority from here on, for a cluster whose start took too long to have it."""
        if self.stage.real_time:
            for pid in self.pids:
                subprocess.run(["chrt", "-a", "-r", "-p", "1", str(pid)], check=True)

    def drive(self, index=1, target=1):
        return self.directory / f"t{target}" / f"d{index}"

    # --- calls --------------------------------------------------------------------------------------------------

    def call(self, method, path, body=None, headers=None):
        """(status, headers, body) of the proxy's answer; redirects are not followed."""
        connection = http.client.HTTPConnection(self.endpoint.partition("//")[2], timeout=120)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def make_bucket(self, bucket, properties=None):
        action = {"action": "create-bck"} | ({"value": properties} if properties else {})
        status, _, body = self.call("POST", f"/v1/buckets/{bucket}?provider=ais", json.dumps(action),
                                    {"Content-Type": "application/json"})
        if status not in (200, 409):
            raise Failed(f"bucket {bucket} {properties or ''}: status {status}: {body.decode(errors='replace').strip()}")

    def make_upstream_bucket(self, bucket, url):
        """A bucket of the files of a web server."""
        value = {"extra": {"http": {"url": url}}}
        status, _, body = self.call("POST", f"/v1/buckets/{bucket}?provider=ht", json.dumps({"action": "create-bck", "value": value}),
                                    {"Content-Type": "application/json"})
        if status != 200:
            raise Failed(f"bucket ht://{bucket}: status {status}: {body.decode(errors='replace').strip()}")

    def upstream_url(self, bucket, name):
        return f"{self.endpoint}/v1/objects/{bucket}/{name}?provider=ht"

    def s3_url(self, bucket, name):
        return f"{self.endpoint}/v1/objects/{bucket}/{name}?provider=aws"

    def upstream_target_url(self, bucket, name):
        return f"{self.target_url}/v1/objects/{bucket}/{name}?provider=ht"

    def bucket_properties(self, bucket):
        _, headers, _ = self.call("HEAD", f"/v1/buckets/{bucket}?provider=ais")
        return json.loads(headers.get("Ais-Bucket-Props", "{}"))

    @staticmethod
    def path(bucket, name):
        return f"/v1/objects/{bucket}/{urllib.parse.quote(name)}?provider=ais"

    def proxy_urls(self, names, bucket=BUCKET):
        return [self.endpoint + self.path(bucket, name) for name in names]

    def target_urls(self, names, bucket=BUCKET):
        """Where the redirect leads, unsigned: targets answer readers who ask them directly."""
        return [self.target_url + self.path(bucket, name) for name in names]

    def upload_urls(self, names, size, bucket=BUCKET):
        """Where the proxy sends each upload: signed, and good for a body of `size` bytes only."""
        connection = http.client.HTTPConnection(self.endpoint.partition("//")[2], timeout=30)
        urls = []
        for name in names:
            connection.putrequest("PUT", self.path(bucket, name))
            connection.putheader("Content-Length", str(size))
            connection.putheader("Expect", "100-continue")
            connection.endheaders()
            answer = connection.getresponse()
            answer.read()
            if answer.status not in (302, 307):
                raise Failed(f"PUT {name}: the proxy answered {answer.status}, not a redirect")
            urls.append(answer.headers["Location"])
            connection.close()  # the announced body never comes
        return urls

    def store(self, names, size, bucket=BUCKET, connections=4):
        """Objects of `size` bytes that no drive can compress."""
        urls = self.stage.write_lines("store.urls", self.proxy_urls(names, bucket))
        self.stage.load(urls, method="PUT", follow=True, requests=len(names), body=size, warm_up=0,
                        connections=min(connections, len(names)))

    def remove(self, names, bucket=BUCKET):
        urls = self.stage.write_lines("remove.urls", self.proxy_urls(names, bucket))
        self.stage.load(urls, method="DELETE", follow=True, requests=len(names), warm_up=0, connections=16)

    # --- files --------------------------------------------------------------------------------------------------

    def files(self, target=1):
        """(name of the object, file, bytes) of all data files of one target. Of a coded object it may have several: an empty one
        with the record, slices, the full copy."""
        for index in range(1, self.drives_count + 1):
            for path in sorted((self.drive(index, target) / "data").glob("*/*")):
                with contextlib.suppress(OSError):  # it went meanwhile, or has no attribute yet: it is being written
                    yield attribute.read(path)["name"], path, path.stat().st_size

    def data_files(self, size=None, target=1):
        """{name of the object: its file} of one target; `size`: only files of that many bytes."""
        return {name: path for name, path, its in self.files(target) if size in (None, its)}


NGINX_CONFIG = """
worker_processes 1; daemon off; pid {directory}/nginx.pid; error_log {directory}/error.log warn; {user}
events {{ worker_connections 10000; use epoll; }}
http {{
  access_log off; server_tokens off; default_type application/octet-stream; client_max_body_size 0;
  keepalive_requests 1000000000; keepalive_timeout 300s; tcp_nodelay on; tcp_nopush on;
  client_body_temp_path {directory}/dav/.tmp; proxy_temp_path {directory}/t1; fastcgi_temp_path {directory}/t2;
  uwsgi_temp_path {directory}/t3; scgi_temp_path {directory}/t4;
  server {{ listen 127.0.0.1:{sendfile}; root {root}; sendfile on; sendfile_max_chunk 2m; }}
  server {{ listen 127.0.0.1:{cached}; root {root}; sendfile on; sendfile_max_chunk 2m;
            open_file_cache max=10000 inactive=1h; open_file_cache_valid 1h; }}
  server {{ listen 127.0.0.1:{threads}; root {root}; sendfile on; aio threads; }}
  server {{ listen 127.0.0.1:{redirect}; location / {{ return 302 http://127.0.0.1:{sendfile}$request_uri; }} }}
  server {{ listen 127.0.0.1:{dav}; root {directory}/dav; client_body_buffer_size 256k;
            location / {{ dav_methods PUT DELETE; create_full_put_path on; }} }}
}}
"""


class Nginx:
    """nginx with one worker: `sendfile`, `cached` (sendfile, open files kept), `threads` (aio threads), `redirect`, `dav`.
    `root` is filled with links to the files that it serves."""

    KINDS = ("sendfile", "cached", "threads", "redirect", "dav")

    def __init__(self, stage, directory, burst=True):
        self.stage, self.directory, self.burst = stage, Path(directory), burst
        self.root = self.directory / "www"
        self.dav = self.directory / "dav"

    def __enter__(self):
        self.stage.need_nginx()
        self.root.mkdir(parents=True)
        (self.dav / ".tmp").mkdir(parents=True)
        self.ports = {kind: free_port() for kind in self.KINDS}
        config = self.directory / "nginx.conf"
        config.write_text(NGINX_CONFIG.format(directory=self.directory, root=self.root, **self.ports,
                                              user="user root;" if os.geteuid() == 0 else ""))
        program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        with open(self.directory / "output", "wb") as output:
            self.process = subprocess.Popen(
                [*self.stage.server(self.burst), program, "-e", str(self.directory / "error.log"), "-p",
                 str(self.directory), "-c", str(config)], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            wait_until(self._answers, 10, "nginx answers")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _answers(self):
        if self.process.poll() is not None:
            raise Failed(f"nginx ended: {(self.directory / 'output').read_text()}{(self.directory / 'error.log').read_text()}")
        try:
            socket.create_connection(("127.0.0.1", self.ports["sendfile"]), timeout=1).close()
            return True
        except OSError:
            return False

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def pids(self):
        return [self.process.pid]

    def serve(self, name, path):
        """`path` under /name."""
        link = self.root / name
        link.unlink(missing_ok=True)
        link.symlink_to(path)

    def url(self, kind, name):
        return f"http://127.0.0.1:{self.ports[kind]}/{name}"


class EmulatedDrive:
    """`mount` behaves like one drive (tarn-bench-drive) over the directory `behind`."""

    def __init__(self, stage, mount, behind, rate=200e6, seek_ms=8.0, half_turn_ms=4.0):
        self.stage, self.mount, self.behind = stage, Path(mount), Path(behind)
        self.words = ["--rate", f"{rate:.0f}", "--seek-ms", f"{seek_ms:g}", "--half-turn-ms", f"{half_turn_ms:g}"]

    def __enter__(self):
        self.mount.mkdir(parents=True, exist_ok=True)
        self.behind.mkdir(parents=True, exist_ok=True)
        device = self.mount.stat().st_dev
        self.process = subprocess.Popen([str(self.stage.programs / DRIVE_TOOL), str(self.mount), str(self.behind),
                                         *self.words], stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            wait_until(lambda: self.process.poll() is not None or self.mount.stat().st_dev != device, 10,
                       f"{self.mount} is mounted")
            if self.process.poll() is not None:
                raise Unavailable("no FUSE file system can be mounted here")
            self._as_dirty_as_a_drive()
            self.model(False)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _as_dirty_as_a_drive(self):
        """FUSE may have a hundredth of what a drive may have in memory to be written, or writers wait for the kernel."""
        device = self.mount.stat().st_dev
        place = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}")
        for name, value in (("strict_limit", 0), ("max_ratio", 100)):
            if os.access(place / name, os.W_OK):
                (place / name).write_text(f"{value}\n")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            subprocess.run(["umount", "-l", str(self.mount)], stderr=subprocess.DEVNULL)
            self.process.kill()
            self.process.wait()

    def model(self, on):
        """Off: as fast as the directory behind it, to fill it. On: a drive, its counters at zero."""
        os.setxattr(self.mount, "user.bench.model", b"1" if on else b"0")

    def head(self):
        return json.loads(os.getxattr(self.mount, "user.bench.head"))


@contextlib.contextmanager
def mounted_image(stage, mount, files, size=4 << 30):
    """A file system of its own for `files` small files. They are gone when it is unmounted; to remove them one by one
    takes longer than the measurement. Without root the directory as it is."""
    mount.mkdir(parents=True)
    if os.geteuid() != 0:
        yield
        return
    image = stage.new_directory("image") / "ext4"
    with open(image, "wb") as file:
        file.truncate(size)
    # Inodes of 512 bytes hold the attribute of a file without a block of its own.
    subprocess.run(["mkfs.ext4", "-q", "-F", "-I", "512", "-N", str(files + 50_000), str(image)], check=True)
    subprocess.run(["mount", "-o", "loop,noatime", str(image), str(mount)], check=True)
    shutil.rmtree(mount / "lost+found")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=False)
        image.unlink()


def cpu_seconds(pid):
    """CPU time of all living threads of a process, to the nanosecond."""
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def memory_of(pid):
    """KiB of memory that is the process's own: heap and stacks, not the page cache and not mapped files."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1])
    raise Failed(f"/proc/{pid}/smaps_rollup has no line Anonymous")


def settle(pid, seconds=5.0):
    """memory_of(pid) once it no longer changes."""
    before, deadline = memory_of(pid), time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.3)
        now = memory_of(pid)
        if now == before:
            break
        before = now
    return before
