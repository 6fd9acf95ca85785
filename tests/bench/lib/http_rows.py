"""GET, PUT and redirects beside nginx: rate, and CPU time of the server on its core."""

import contextlib
import os

from lib.rows import Result
from lib.servers import BUCKET, Nginx, Tarn, mounted_image
from lib.stage import BURST_SECONDS, Failed, Unavailable, median, ratio, rounds_of, spread

MIB = 1 << 20
#             bytes, how many objects, connections
GET_SIZES = {"1GiB": (1024 * MIB, 1, 1), "64MiB": (64 * MIB, 4, 4), "1MiB": (MIB, 16, 16), "4KiB": (4096, 256, 16)}
#             bytes, uploads a burst, connections
PUT_SIZES = {"1GiB": (1024 * MIB, 1, 1), "64MiB": (64 * MIB, 12, 4), "1MiB": (MIB, 512, 8), "4KiB": (4096, 4096, 16)}
SMALL_BYTES, SMALL_FILES = 64 << 10, 200_000
REDIRECT_NAMES, REDIRECT_CONNECTIONS = 1000, 64
WARM = "warm, the same files on both sides"
NOSYNC = "bench-nosync"


class Pair:
    """Tarn and nginx on one core, nginx serving Tarn's own data files."""

    def __init__(self, tarn, nginx):
        self.tarn, self.nginx = tarn, nginx
        self.loaded = set()

    def load(self, size_name):
        """Stores the objects of one size once; returns their names."""
        size, count, _ = GET_SIZES[size_name]
        names = [f"{size_name}-{i:03}" for i in range(count)]
        if size_name not in self.loaded:
            self.tarn.store(names, size)
            files = self.tarn.data_files(size)
            for name in names:
                self.nginx.serve(name, files[name])
                read_whole(files[name])
            self.loaded.add(size_name)
        return names


def read_whole(path):
    with open(path, "rb", buffering=0) as file:
        buffer = bytearray(MIB)
        while file.readinto(buffer):
            pass


@contextlib.contextmanager
def _pair(stage):
    with contextlib.ExitStack() as exits:
        nginx = exits.enter_context(Nginx(stage, stage.new_directory("nginx")))
        tarn = exits.enter_context(Tarn(stage, stage.new_directory("tarn")))
        yield Pair(tarn, nginx)


def pair(stage):
    stage.need_nginx()
    return stage.shared("pair", lambda: _pair(stage))


@contextlib.contextmanager
def _small_pair(stage):
    """Both on a new file system, and no file goes before the end. ext4 gives the inode of a removed file to another one after
    35 s at the earliest. Until then each new file passes over all such inodes, those of other programs too: that cost nginx
    ten times the upload."""
    directory = stage.new_directory("small")
    with mounted_image(stage, directory / "drive", SMALL_FILES), contextlib.ExitStack() as exits:
        nginx = exits.enter_context(Nginx(stage, directory / "drive" / "nginx"))
        tarn = exits.enter_context(Tarn(stage, directory / "drive" / "tarn"))
        yield Pair(tarn, nginx)


def small_pair(stage):
    stage.need_nginx()
    return stage.shared("small pair", lambda: _small_pair(stage))


def _cpu_a_gb(burst):
    return burst["server_cpu_s"] / (burst["bytes"] / 1e9)


def _gb_a_second(burst):
    return burst["bytes"] / 1e9 / burst["seconds"]


def _cpu_a_request(burst):
    return burst["server_cpu_s"] / burst["requests"] * 1e6


def _requests_a_second(burst):
    return burst["requests"] / burst["seconds"]


def _results(stage, prefix, measured, first, second, by_bytes, command, caches):
    """The rows PREFIX_cpu and PREFIX_rate: side `first` over side `second`, all sides in the raw figures."""
    cpu, cpu_unit = (_cpu_a_gb, "cpu s/GB") if by_bytes else (_cpu_a_request, "cpu us/request")
    rate, rate_unit = (_gb_a_second, "GB/s") if by_bytes else (_requests_a_second, "requests/s")
    for kind, function, unit in (("cpu", cpu, cpu_unit), ("rate", rate, rate_unit)):
        raw = {f"{side}, {unit}": spread([function(burst) for burst in bursts]) for side, bursts in measured.items()}
        if kind == "rate":
            # Near 100 % it is the client's core that limits the rate.
            raw["client's core busy, %"] = {
                side: round(100 * median([burst["client_cpu_s"] / burst["seconds"] for burst in bursts]))
                for side, bursts in measured.items()}
            raw["p99 of a request, us"] = {side: median([burst["p99_us"] for burst in bursts])
                                           for side, bursts in measured.items()}
        value = ratio([function(burst) for burst in measured[first]], [function(burst) for burst in measured[second]])
        yield Result(f"{prefix}_{kind}", value, stage.rounds, raw, command, caches)


def measure_get(stage, size_name):
    both = pair(stage)
    names = both.load(size_name)
    size, _, connections = GET_SIZES[size_name]
    tarn, nginx = both.tarn, both.nginx
    mine = stage.write_lines("mine.urls", tarn.target_urls(names))
    theirs = stage.write_lines("theirs.urls", [nginx.url("sendfile", name) for name in names])
    sides = {
        "tarn": lambda _: stage.load(mine, [tarn.target_pid], connections=connections, seconds=BURST_SECONDS),
        "nginx": lambda _: stage.load(theirs, nginx.pids, connections=connections, seconds=BURST_SECONDS),
    }
    if size <= MIB:
        # It answers from open files that may have been replaced meanwhile, which a store must not; shown beside.
        kept = stage.write_lines("kept.urls", [nginx.url("cached", name) for name in names])
        sides["nginx with open_file_cache"] = lambda _: stage.load(
            kept, nginx.pids, connections=connections, seconds=BURST_SECONDS)
    command = f"tarn-bench-load GET, {connections} connections, {len(names)} objects, bursts of {BURST_SECONDS} s"
    yield from _results(stage, f"get_{size_name}", rounds_of(stage, sides), "tarn", "nginx", size > SMALL_BYTES, command, WARM)


def measure_redirected(stage):
    """A client that goes to the proxy and from there to the target, against one that asks nginx once."""
    both = pair(stage)
    names = both.load("4KiB")
    connections = GET_SIZES["4KiB"][2]
    mine = stage.write_lines("mine.urls", both.tarn.proxy_urls(names))
    theirs = stage.write_lines("theirs.urls", [both.nginx.url("sendfile", name) for name in names])
    measured = rounds_of(stage, {
        "tarn, proxy and target": lambda _: stage.load(mine, both.tarn.pids, connections=connections, follow=True,
                                                       seconds=BURST_SECONDS),
        "nginx": lambda _: stage.load(theirs, both.nginx.pids, connections=connections, seconds=BURST_SECONDS)})
    command = f"tarn-bench-load GET --follow, {connections} connections, {len(names)} objects, bursts of {BURST_SECONDS} s"
    for result in _results(stage, "get_4KiB_redirected", measured, "tarn, proxy and target", "nginx", False, command, WARM):
        if result.name == "get_4KiB_redirected_cpu":
            yield result


def measure_redirect(stage):
    both = pair(stage)
    names = [f"redirected/{i:06}.tar" for i in range(REDIRECT_NAMES)]
    mine = stage.write_lines("mine.urls", both.tarn.proxy_urls(names))
    theirs = stage.write_lines("theirs.urls", [both.nginx.url("redirect", f"v1/objects/{BUCKET}/{name}") for name in names])
    options = {"connections": REDIRECT_CONNECTIONS, "expect": 302, "seconds": BURST_SECONDS}
    measured = rounds_of(stage, {"tarn": lambda _: stage.load(mine, [both.tarn.proxy_pid], **options),
                                 "nginx": lambda _: stage.load(theirs, both.nginx.pids, **options)})
    for side, bursts in measured.items():
        if not all(burst["requests"] for burst in bursts):
            raise Failed(f"{side} redirected nothing")
    command = f"tarn-bench-load GET, {REDIRECT_CONNECTIONS} connections, {REDIRECT_NAMES} names, bursts of {BURST_SECONDS} s"
    yield from _results(stage, "redirect", measured, "tarn", "nginx", False, command, "no files involved")


# --- PUT ----------------------------------------------------------------------------------------------------------------

def _nosync_bucket(tarn):
    """Makes the bucket that acknowledges before anything is synced, or says that this Tarn has none."""
    try:
        tarn.make_bucket(NOSYNC, {"durability": "nosync"})
    except Failed as error:
        raise Unavailable(f"this Tarn refuses `durability: nosync`: {error}") from None
    if tarn.bucket_properties(NOSYNC).get("durability") != "nosync":
        raise Unavailable("this Tarn takes no notice of `durability: nosync`")
    return NOSYNC


class Uploads:
    """Bursts of PUTs under names that were never there; what they stored is removed after each burst, not within it."""

    def __init__(self, stage, both, size_name, bucket):
        self.stage, self.both, self.bucket = stage, both, bucket
        self.size, self.count, self.connections = PUT_SIZES[size_name]
        self.label = f"{bucket}-{size_name}"
        self.removes = self.size > SMALL_BYTES
        if stage.quick and size_name != "1GiB":
            self.count //= 4

    def _burst(self, urls, pids):
        return self.stage.load(self.stage.write_lines("put.urls", urls), pids, method="PUT", body=self.size,
                               requests=self.count, connections=self.connections, warm_up=0)

    def names(self, number):
        return [f"put-{self.label}-{number}-{i:04}" for i in range(self.count)]

    def tarn(self, number):
        names = self.names(number)
        urls = self.both.tarn.upload_urls(names, self.size, self.bucket)
        burst = self._burst(urls, [self.both.tarn.target_pid])
        if self.removes:
            self.both.tarn.remove(names, self.bucket)
        return burst

    def nginx(self, number):
        names = self.names(number)
        burst = self._burst([self.both.nginx.url("dav", name) for name in names], self.both.nginx.pids)
        if self.removes:
            for name in names:
                os.unlink(self.both.nginx.dav / name)
        return burst


def measure_put(stage, size_name, synced):
    size, _, _ = PUT_SIZES[size_name]
    both = pair(stage) if size > SMALL_BYTES else small_pair(stage)
    stage.need_space(4 << 30)
    bucket = BUCKET if synced else _nosync_bucket(both.tarn)
    uploads = Uploads(stage, both, size_name, bucket)
    measured = rounds_of(stage, {"tarn": uploads.tarn, "nginx": uploads.nginx})
    prefix = f"put_{size_name}_synced" if synced else f"put_{size_name}"
    command = (f"tarn-bench-load PUT, {uploads.connections} connections, {uploads.count} bodies a burst, "
               f"{'synced' if synced else 'durability: nosync'} against client_body_buffer_size 256k, nothing synced")
    yield from _results(stage, prefix, measured, "tarn", "nginx", size > SMALL_BYTES, command, "new names, on the same file system")
