"""Objects that come from upstream: the first read of them beside the same read from their server, over one limited link."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import threading
import time

from harness.go_programs import go_program
from lib.rows import Result
from lib.servers import Nginx, Tarn, mounted_image
from lib.stage import Failed, Unavailable, median, ratio, rounds_of, spread

MIB = 1 << 20
LINK_RATE, LINK_DELAY = 40e6, 0.015  # bytes/s of each connection, seconds one way
BUCKET = "bench-upstream"
READERS = 1000
HOT = 16  # objects that are read while a cache is full
ACCESS_KEY, SECRET_KEY = "bench-access", "bench-secret"


class Link:
    """Passes TCP connections on to `port`. What comes back (with `uploads`: what goes there) is counted and arrives
    LINK_DELAY later, at LINK_RATE per connection (`shared`: for all together)."""

    def __init__(self, port, uploads=False, shared=False):
        self.there, self.uploads, self.shared, self.bytes, self.connections = port, uploads, shared, 0, 0
        self.free = 0.0  # when a shared link has room again
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        serve = asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.server = asyncio.run_coroutine_threadsafe(serve, self.loop).result()
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    async def _pump(self, reader, writer, rate):
        queue = asyncio.Queue(16)

        async def read():
            free = 0.0  # when the connection has room again
            while data := await reader.read(65536):
                sent = self.loop.time()
                if rate:
                    sent = max(sent, self.free if self.shared else free) + len(data) / rate
                    free = self.free = sent
                    self.bytes += len(data)
                await queue.put((sent + LINK_DELAY, data))
            await queue.put((self.loop.time() + LINK_DELAY, b""))

        reading = asyncio.create_task(read())
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while (item := await queue.get())[1]:
                await asyncio.sleep(max(0.0, item[0] - self.loop.time()))
                writer.write(item[1])
                await writer.drain()
        reading.cancel()
        with contextlib.suppress(OSError):
            writer.close()

    async def _pass_on(self, reader, writer):
        self.connections += 1
        other, there = await asyncio.open_connection("127.0.0.1", self.there)
        there_rate, back_rate = (LINK_RATE, None) if self.uploads else (None, LINK_RATE)
        await asyncio.gather(self._pump(reader, there, there_rate), self._pump(other, writer, back_rate))


class FarServer:
    """A web server with `count` objects behind the link, and clusters that have a bucket of them. `alike`: one file with as
    many names. `shared`: of the link's rate."""

    def __init__(self, stage, name, size, count, alike=False, shared=False):
        self.stage, self.exits = stage, contextlib.ExitStack()
        self.directory = stage.new_directory(name)
        stage.need_space(2 * size * (1 if alike else count))
        nginx = self.exits.enter_context(Nginx(stage, self.directory / "nginx", burst=False))
        self.names = [f"shard-{i:06}.tar" for i in range(count)]
        for each in self.names:
            if alike and each != self.names[0]:
                os.link(nginx.root / self.names[0], nginx.root / each)
            else:
                (nginx.root / each).write_bytes(bytes(size))
        self.link = self.exits.enter_context(Link(nginx.ports["sendfile"], shared=shared))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.exits.close()

    def cluster(self, name, *settings, drives=1):
        url = f"http://127.0.0.1:{self.link.port}"
        tarn = self.exits.enter_context(Tarn(self.stage, self.directory / name, burst=False, drives=drives,
                                             settings=(f"upstream.endpoints={url}", *settings)))
        tarn.make_upstream_bucket(BUCKET, url)
        return tarn


@contextlib.contextmanager
def far_bucket(stage, name, size, count, shared=False):
    """(cluster, link, names): a bucket whose objects lie behind the link."""
    with FarServer(stage, name, size, count, shared=shared) as server:
        yield server.cluster("tarn"), server.link, server.names


def fetch(url):
    """(seconds to the first byte, to the last) of one GET by curl, which follows redirects."""
    command = ["curl", "-sfL", "-o", "/dev/null", "-w", "%{time_starttransfer} %{time_total}", url]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if result.returncode:
        raise Failed(f"{' '.join(command)}: exit {result.returncode}")
    return tuple(map(float, result.stdout.split()))


def measure_cold_get(stage):
    size = (16 if stage.quick else 96) * MIB
    with far_bucket(stage, "cold-get", size, stage.rounds + 1) as (tarn, link, names):
        sides = {"cold through Tarn": lambda number: fetch(tarn.upstream_url(BUCKET, names[number + 1])),
                 "from upstream": lambda number: fetch(f"http://127.0.0.1:{link.port}/{names[number + 1]}"),
                 "warm": lambda number: fetch(tarn.upstream_url(BUCKET, names[number + 1]))}
        measured = rounds_of(stage, sides)
        moved = link.bytes
    firsts = {side: [first for first, _ in its] for side, its in measured.items()}
    rates = {side: [size / total / 1e6 for _, total in its] for side, its in measured.items()}
    command = (f"curl, one object of {size // MIB} MiB after the other; a link of {LINK_RATE / 1e6:.0f} MB/s a connection and "
               f"{2e3 * LINK_DELAY:.0f} ms round trip")
    raw = {f"{side}, MB/s": spread(values) for side, values in rates.items()}
    raw["bytes over the link / read through it"] = moved / (2 * (stage.rounds + 1) * size)
    yield Result("cold_get_rate", ratio(rates["cold through Tarn"], rates["from upstream"]), stage.rounds, raw, command,
                 "nothing of them is in the cluster")
    yield Result("cold_get_first_byte", ratio(firsts["cold through Tarn"], firsts["from upstream"]), stage.rounds,
                 {f"{side}, ms": spread([1e3 * each for each in values]) for side, values in firsts.items()}, command,
                 "nothing of them is in the cluster")
    yield Result("warm_get_rate", ratio(rates["warm"], rates["cold through Tarn"]), stage.rounds, raw, command,
                 "the second read of them")


def measure_cold_get_shared_link(stage):
    """Several connections gain nothing here: the link is as fast as one of them."""
    size = (16 if stage.quick else 96) * MIB
    with far_bucket(stage, "cold-shared-link", size, stage.rounds + 1, shared=True) as (tarn, link, names):
        measured = rounds_of(stage, {
            "cold through Tarn": lambda number: size / fetch(tarn.upstream_url(BUCKET, names[number + 1]))[1] / 1e6,
            "from upstream": lambda number: size / fetch(f"http://127.0.0.1:{link.port}/{names[number + 1]}")[1] / 1e6})
    yield Result("cold_get_shared_link", ratio(measured["cold through Tarn"], measured["from upstream"]), stage.rounds,
                 {f"{side}, MB/s": spread(values) for side, values in measured.items()},
                 f"curl, one object of {size // MIB} MiB after the other; a link of {LINK_RATE / 1e6:.0f} MB/s for all connections and "
                 f"{2e3 * LINK_DELAY:.0f} ms round trip", "nothing of them is in the cluster")


def prefetch(tarn, names):
    """Seconds of a job that fetches these objects."""
    order = json.dumps({"action": "prefetch-listrange", "value": {"objnames": names}})
    begun = time.monotonic()
    status, _, job = tarn.call("POST", f"/v1/buckets/{BUCKET}?provider=ht", order, {"Content-Type": "application/json"})
    if status != 200:
        raise Failed(f"prefetch: status {status}: {job.decode(errors='replace')}")
    while True:
        status, _, body = tarn.call("GET", "/v1/cluster?what=status", json.dumps({"id": job.decode()}),
                                    {"Content-Type": "application/json"})
        state = json.loads(body)
        if status != 200 or state.get("err"):
            raise Failed(f"prefetch: status {status}: {body.decode(errors='replace')}")
        if state["end_time"]:
            return time.monotonic() - begun
        time.sleep(0.02)


def measure_prefetch(stage):
    """With several connections a prefetch is as many times faster."""
    size, each, connections = 8 * MIB, 4 if stage.quick else 24, 4
    with FarServer(stage, "prefetch", size, each * (stage.rounds + 1)) as server:
        clusters = {count: server.cluster(f"tarn-{count}", f"upstream.connections={count}") for count in (1, connections)}

        def run(count):
            return lambda number: prefetch(clusters[count], server.names[each * (number + 1):each * (number + 2)])

        measured = rounds_of(stage, {f"{count} connections": run(count) for count in clusters})
    rates = {side: [each * size / 1e6 / seconds for seconds in its] for side, its in measured.items()}
    yield Result("prefetch_4_connections", ratio(rates["4 connections"], rates["1 connections"]), stage.rounds,
                 {f"{side}, MB/s": spread(values) for side, values in rates.items()},
                 f"prefetch of {each} objects of {size // MIB} MiB, upstream.connections 1 and {connections}; a link of "
                 f"{LINK_RATE / 1e6:.0f} MB/s a connection and {2e3 * LINK_DELAY:.0f} ms round trip",
                 "nothing of them is in the cluster")


class FullCache:
    """A cluster whose only drive, an ext4 of its own, is filled with objects as far as it is told. From 99 % on what is read cold
    takes the place of others."""

    def __init__(self, stage, server, name, full, drive_size):
        self.stage = stage
        self.mount = server.directory / name / "t1" / "d1"
        server.exits.enter_context(mounted_image(stage, self.mount, 20_000, drive_size))
        self.tarn = server.cluster(name, "space.high_watermark=99", "space.low_watermark=98", "space.out_of_space=100",
                                   "space.reserve=1MiB", "upstream.connections=16")
        self.tarn.call("PATCH", f"/v1/buckets/{BUCKET}?provider=ht",
                       json.dumps({"action": "set-bprops", "value": {"lru": {"dont_evict_time": "0s"}}}),
                       {"Content-Type": "application/json"})
        self.cold = iter(server.names)
        while self.used() < full - 0.005:
            self.hot = [next(self.cold) for _ in range(HOT)]
            prefetch(self.tarn, self.hot)
        self.urls = stage.write_lines(f"{name}.urls", [self.tarn.upstream_target_url(BUCKET, each) for each in self.hot])

    def used(self):
        its = os.statvfs(self.mount)
        return 1 - its.f_bavail / its.f_blocks

    def evictions(self):
        return self.tarn.log("t1").count(" evicted drive=")

    def read(self, requests):
        """GB/s of GETs of what is hot, while something cold is always being fetched."""
        over = threading.Event()

        def fetch_cold():
            while not over.is_set():
                fetch(self.tarn.upstream_url(BUCKET, next(self.cold)))

        beside = threading.Thread(target=fetch_cold)
        beside.start()
        try:
            burst = self.stage.load(self.urls, requests=requests, connections=8, warm_up=HOT)
        finally:
            over.set()
            beside.join()
        return burst["bytes"] / 1e9 / burst["seconds"]


def measure_full(stage):
    """A cache that is full evicts as it is read; a half full one does not."""
    if os.geteuid() != 0:
        raise Unavailable("only root mounts a drive of its own")
    size, drive_size = 4 * MIB, (512 if stage.quick else 2048) * MIB
    requests = 300 if stage.quick else 8000
    with FarServer(stage, "full", size, 4 * drive_size // size, alike=True) as server:
        half = FullCache(stage, server, "half", 0.5, drive_size)
        full = FullCache(stage, server, "full", 0.99, drive_size)
        before = full.evictions()
        measured = rounds_of(stage, {"half full": lambda _: half.read(requests), "full": lambda _: full.read(requests)})
        evictions, used = full.evictions() - before, full.used()
        if half.evictions() or not evictions or used < 0.975:
            raise Failed(f"{half.evictions()} evictions at half full, {evictions} at {used:.3f}")
    yield Result("full_get_rate", ratio(measured["full"], measured["half full"]), stage.rounds,
                 {f"{side}, GB/s": spread(values) for side, values in measured.items()} | {"evictions": evictions},
                 f"tarn-bench-load, 8 connections, {HOT} objects of {size // MIB} MiB, while one curl reads cold objects through a link "
                 f"of {LINK_RATE / 1e6:.0f} MB/s; an ext4 of {drive_size // MIB} MiB", "what is read is warm")


def wait_for_files(tarn, count):
    deadline = time.monotonic() + 30
    while (stored := sum(1 for _ in tarn.files())) != count:
        if time.monotonic() > deadline:
            raise Failed(f"{stored} of {count} objects are stored")
        time.sleep(0.02)


def measure_refetch(stage):
    """A drive of two is lost and replaced: what lay there, and nothing else, comes from upstream again."""
    size, count = 4 * MIB, 12 if stage.quick else 48
    with FarServer(stage, "refetch", size, count) as server:
        tarn = server.cluster("tarn", drives=2)
        moved = []
        for _ in range(stage.rounds):
            for name in server.names:
                fetch(tarn.upstream_url(BUCKET, name))
            wait_for_files(tarn, count)  # an object is stored a moment after its last byte was sent
            lost = sum(its for _, path, its in tarn.files() if path.is_relative_to(tarn.drive(1)))
            if not 0 < lost < count * size:
                raise Failed(f"the drive has {lost} bytes of {count * size}")
            before = server.link.bytes
            tarn.replace_drive(1)
            for name in server.names:
                fetch(tarn.upstream_url(BUCKET, name))
            moved.append(round((server.link.bytes - before) / lost, 3))  # heads of answers pass, too
    yield Result("refetch_bytes", median(moved), stage.rounds, {"bytes over the link / lost": spread(moved)},
                 f"curl, {count} objects of {size // MIB} MiB, before and after one of two drives was emptied and replaced",
                 "all was read before")


def measure_shared_fill(stage):
    """All readers want the same object at once, and no target has it."""
    size, readers = (4 if stage.quick else 16) * MIB, 100 if stage.quick else READERS
    with far_bucket(stage, "shared-fill", size, stage.rounds) as (tarn, link, names):
        moved = []
        for name in names:
            before = link.bytes
            urls = stage.write_lines("shared.urls", [tarn.upstream_target_url(BUCKET, name)])
            stage.load(urls, requests=readers, connections=readers, warm_up=0)
            moved.append(round((link.bytes - before) / size, 3))  # heads of answers pass, too
    yield Result("cold_get_shared", median(moved), stage.rounds, {"bytes over the link / size": spread(moved)},
                 f"tarn-bench-load, {readers} connections, all GET one object of {size // MIB} MiB",
                 "nothing of it is in the cluster")


@contextlib.contextmanager
def s3_server(stage, directory):
    """The port of an S3 server (versitygw) over a new directory, with the bucket BUCKET."""
    (directory / BUCKET).mkdir(parents=True)
    try:
        program = go_program("versitygw")
    except AssertionError as problem:
        raise Unavailable(f"versitygw: {problem}") from None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([program, "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--port", f"127.0.0.1:{port}", "posix",
                                directory], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if time.monotonic() > until:
                raise Failed("versitygw does not listen")
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait()


def send(path, url, *words):
    """Seconds of one PUT by curl, which follows redirects."""
    command = ["curl", "-sfL", "-o", "/dev/null", "-w", "%{time_total}", "-T", str(path), *words, url]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if result.returncode:
        raise Failed(f"{' '.join(command)}: exit {result.returncode}")
    return float(result.stdout)


def measure_write_through(stage):
    size = (80 if stage.quick else 160) * MIB
    with contextlib.ExitStack() as exits:
        directory = stage.new_directory("write-through")
        stage.need_space(4 * size * (stage.rounds + 1))
        (directory / "body").write_bytes(os.urandom(MIB) * (size // MIB))
        link = exits.enter_context(Link(exits.enter_context(s3_server(stage, directory / "s3")), uploads=True))
        url = f"http://127.0.0.1:{link.port}"
        environment = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_ENDPOINT_URL": url}
        tarn = exits.enter_context(Tarn(stage, directory / "tarn", burst=False, environment=environment))
        signed = ("--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{ACCESS_KEY}:{SECRET_KEY}",
                  "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD")
        sides = {"through Tarn": lambda number: send(directory / "body", tarn.s3_url(BUCKET, f"t{number}")),
                 "to upstream": lambda number: send(directory / "body", f"{url}/{BUCKET}/u{number}", *signed)}
        measured = rounds_of(stage, sides)
    rates = {side: [size / 1e6 / seconds for seconds in its] for side, its in measured.items()}
    yield Result("write_through_rate", ratio(rates["through Tarn"], rates["to upstream"]), stage.rounds,
                 {f"{side}, MB/s": spread(values) for side, values in rates.items()},
                 f"curl -T, one object of {size // MIB} MiB after the other, to versitygw; a link of {LINK_RATE / 1e6:.0f} MB/s a "
                 f"connection and {2e3 * LINK_DELAY:.0f} ms round trip", "the drives sync what they take")
