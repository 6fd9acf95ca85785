"""Coded objects: what an upload costs beside a plain one, and what readers keep when nodes die."""

import contextlib
import subprocess
import time

from lib.cluster_rows import drives_of, seconds_without, server_of, wait_in_place
from lib.drive_rows import COLD, mb_a_second
from lib.rows import Result
from lib.servers import BUCKET, Tarn
from lib.stage import drop_from_cache, median, ratio, rounds_of, spread, use_memory, wait_until

MIB = 1 << 20
LAYOUTS = ("striped", "whole")
DATA, PARITY = 4, 2
CODED = "bench-coded"
TARGETS = 8  # one for each slice, for the full copy, and one to spare


def coding(layout):
    return {"ec": {"enabled": True, "layout": layout, "data_slices": DATA, "parity_slices": PARITY, "objsize_limit": MIB - 1}}


def coded_cluster(stage, exits, name, targets=TARGETS, layout="striped", settings=(), drive_rate=None):
    """(cluster with the coded bucket, its emulated drives: one of `drive_rate` bytes/s a target, or none)."""
    directory = stage.new_directory(name)
    drives = drives_of(stage, exits, directory, range(1, targets + 1), drive_rate) if drive_rate else []
    tarn = exits.enter_context(Tarn(stage, directory / "tarn", burst=False, targets=targets, settings=settings))
    tarn.make_bucket(CODED, coding(layout))
    wait_in_place(tarn)
    return tarn, drives


def names_of(count, prefix="shard"):
    return [f"{prefix}-{i:06}.tar" for i in range(count)]


def files_of(tarn, targets=None):
    """[(target, object, path, bytes)] of all files with bytes: slices, full copies and plain objects."""
    return [(target, *file) for target in targets or range(1, tarn.targets + 1) for file in tarn.files(target) if file[2]]


def forget(tarn, drives, targets=None):
    """Cold, and from here on the drives are as slow as they are."""
    for drive in drives:
        drive.model(False)
    drop_from_cache([path for _, _, path, _ in files_of(tarn, targets)])
    for drive in drives:
        drive.model(True)


def full_speed(drives):
    for drive in drives:
        drive.model(False)


# --- uploads ----------------------------------------------------------------------------------------------------------------

UPLOAD_CONNECTIONS, CODING_CPU = 4, 0.06  # s/GB


class Uploads:
    """Bursts of PUTs under new names; what they stored is counted, then removed, after each burst."""

    def __init__(self, stage, tarn):
        self.stage, self.tarn = stage, tarn
        self.size, self.count = (16 if stage.quick else 64) * MIB, 4

    def burst(self, bucket, number):
        names = names_of(self.count, f"put-{bucket}-{number}")
        urls = self.stage.write_lines("put.urls", self.tarn.upload_urls(names, self.size, bucket))
        use_memory(3 * self.count * self.size)  # slices that are removed go after a while, plain objects at once
        burst = self.stage.load(urls, self.tarn.all_pids(), method="PUT", body=self.size, requests=self.count,
                                connections=UPLOAD_CONNECTIONS, warm_up=0)
        mine = set(names)
        burst["stored"] = sum(size for _, name, _, size in files_of(self.tarn) if name in mine)
        self.tarn.remove(names, bucket)
        return burst


def measure_put(stage, layout):
    """A coded upload may cost what a plain one costs for each byte that it stores, and the coding."""
    with contextlib.ExitStack() as exits:
        tarn, _ = coded_cluster(stage, exits, f"put-{layout}", layout=layout)
        uploads = Uploads(stage, tarn)
        stage.need_space(3 * (stage.rounds + 1) * uploads.count * uploads.size)  # what is removed goes after a while
        measured = rounds_of(stage, {layout: lambda number: uploads.burst(CODED, number),
                                     "plain": lambda number: uploads.burst(BUCKET, number)})
    cpu = {side: [burst["server_cpu_s"] / burst["bytes"] * 1e9 for burst in bursts] for side, bursts in measured.items()}
    rate = {side: [mb_a_second(burst) for burst in bursts] for side, bursts in measured.items()}
    stored = {side: median([burst["stored"] / burst["bytes"] for burst in bursts]) for side, bursts in measured.items()}
    more = stored[layout] / stored["plain"]
    command = (f"tarn-bench-load PUT, {UPLOAD_CONNECTIONS} connections, {uploads.count} bodies of {uploads.size // MIB} MiB a burst, synced, "
               f"{DATA}+{PARITY} of {TARGETS} targets; CPU of all nodes")
    caches = "new names, on the same file system"
    yield Result(f"ec_put_{layout}_cpu", ratio([each - CODING_CPU for each in cpu[layout]], [more * each for each in cpu["plain"]]),
                 stage.rounds, {f"{side}, cpu s/GB": spread(values) for side, values in cpu.items()}
                 | {f"{side}, bytes stored a byte": share for side, share in stored.items()}, command, caches)
    yield Result(f"ec_put_{layout}_rate", ratio(rate[layout], rate["plain"]), stage.rounds,
                 {f"{side}, MB/s": spread(values) for side, values in rate.items()}, command, caches)


# --- nodes are dead ---------------------------------------------------------------------------------------------------------

DEGRADED_RATE, DEGRADED_READERS = 50e6, 6


def reads_well(url):
    """True if curl, which follows redirects, gets the first byte of it."""
    return subprocess.run(["curl", "-sfL", "-o", "/dev/null", "-r", "0-0", "--max-time", "10", url], capture_output=True).returncode == 0


def wait_readable(tarn, names):
    for url in tarn.proxy_urls(names, CODED):
        wait_until(lambda url=url: reads_well(url), 30, f"{url} is read")


class Degraded:
    """Readers of objects of 8 targets, before and after some of these are killed. They read cold from the drives, and warm to show
    the cost where no drive is the limit."""

    def __init__(self, stage, exits, layout):
        self.stage, self.layout = stage, layout
        size, count = (16 * MIB, 32) if stage.quick else (32 * MIB, 72)
        stage.need_space(3 * count * size)
        self.tarn, self.drives = coded_cluster(stage, exits, f"degraded-{layout}", layout=layout, drive_rate=DEGRADED_RATE)
        self.names = names_of(count)
        self.tarn.store(self.names, size, CODED)
        self.owners = {name: server_of(self.tarn, name, "GET", CODED) for name in self.names}
        self.rates = {f"{kind}, {when}": [] for kind in ("cold", "warm") for when in ("before", "after")}

    def owned(self, target):
        return [name for name in self.names if self.owners[name] == target]

    def read(self, names, readers, when):
        """All of these once, cold; once more, which another replica than before may have to read; once more, warm."""
        sources = self.stage.write_lines("degraded.sources", self.tarn.proxy_urls(names, CODED))
        forget(self.tarn, self.drives)
        self.rates[f"cold, {when}"].append(mb_a_second(self.stage.readers(sources, readers)))
        full_speed(self.drives)
        self.stage.readers(sources, readers)
        self.rates[f"warm, {when}"].append(mb_a_second(self.stage.readers(sources, readers)))

    def round(self, victims, names, readers):
        self.read(names, readers, "before")
        self.tarn.kill(*victims)
        wait_readable(self.tarn, names[:1])  # right after the kill
        self.read(names, readers, "after")
        self.tarn.start(*victims)
        wait_in_place(self.tarn)

    def result(self, what):
        value = ratio(self.rates["cold, after"], self.rates["cold, before"])
        raw = {f"{side}, MB/s": spread(values) for side, values in self.rates.items()}
        raw["warm, after / before"] = ratio(self.rates["warm, after"], self.rates["warm, before"])
        return Result(f"degraded_get_{self.layout}", value, len(self.rates["cold, after"]), raw,
                      f"{what}, {DATA}+{PARITY} of {TARGETS} targets, an emulated drive of {DEGRADED_RATE / 1e6:.0f} "
                      "MB/s each", COLD)


def measure_degraded_whole(stage):
    """One reader of the objects of a target, whose full copies go with it."""
    stage.need_drive()
    with contextlib.ExitStack() as exits:
        degraded = Degraded(stage, exits, "whole")
        by_count = sorted(set(degraded.owners.values()), key=lambda target: -len(degraded.owned(target)))
        for number in range(min(stage.rounds, 4)):
            victim = by_count[number % len(by_count)]
            degraded.round([victim], degraded.owned(victim), 1)
        yield degraded.result("one reader of all objects of a target, once, which is killed")


def measure_degraded_striped(stage):
    """All drives are at work; two of them, and with these a quarter of what they give, are gone in the end."""
    stage.need_drive()
    with contextlib.ExitStack() as exits:
        degraded = Degraded(stage, exits, "striped")
        for number in range(min(stage.rounds, 4)):
            degraded.round([f"t{2 * number % TARGETS + 1}", f"t{2 * number % TARGETS + 2}"], degraded.names, DEGRADED_READERS)
        yield degraded.result(f"{DEGRADED_READERS} readers of all objects, once, two targets are killed")


def measure_failover_read(stage):
    """Measures both layouts in turn."""
    took = {layout: [] for layout in LAYOUTS}
    with contextlib.ExitStack() as exits:
        tarn, _ = coded_cluster(stage, exits, "failover")
        buckets = {layout: f"{CODED}-{layout}" for layout in LAYOUTS}
        names = names_of(stage.rounds)
        for layout, bucket in buckets.items():
            tarn.make_bucket(bucket, coding(layout))
            tarn.store(names, 4 * MIB, bucket)
        for name in names:
            for layout, bucket in buckets.items():
                took[layout].append(seconds_without(tarn, name, "GET", bucket=bucket))
    yield Result("ec_failover_read_s", max(max(its) for its in took.values()), stage.rounds,
                 {f"{layout}, s": spread(its) for layout, its in took.items()},
                 "the longest of the rounds, from kill -9 of the owner, then GET of 4 MiB through the proxy's redirect, again and again, "
                 f"until one is good; {DATA}+{PARITY} of {TARGETS} targets", "warm")


# --- one object of many drives ----------------------------------------------------------------------------------------------

STRIPE_RATE = 50e6


def measure_striped_get(stage):
    stage.need_drive()
    size = (128 if stage.quick else 512) * MIB
    stage.need_space(2 * size)
    rates = {"striped": [], "one drive": []}
    with contextlib.ExitStack() as exits:
        tarn, drives = coded_cluster(stage, exits, "striped", drive_rate=STRIPE_RATE)
        name = names_of(1)[0]
        tarn.store([name], size, CODED)
        # A slice as a plain file is what one of its drives gives.
        sources = {"striped": tarn.proxy_urls([name], CODED)[0], "one drive": files_of(tarn)[0][2]}
        for _ in range(stage.rounds):
            for side, source in sources.items():
                forget(tarn, drives)
                rates[side].append(mb_a_second(stage.readers(stage.write_lines("striped.sources", [source]), 1)))
        full_speed(drives)
    yield Result("striped_get_4_drives", ratio(rates["striped"], rates["one drive"]), stage.rounds,
                 {f"{side}, MB/s": spread(values) for side, values in rates.items()},
                 f"one reader of one object of {size // MIB} MiB, {DATA}+{PARITY}, against one of a slice as a plain file, emulated drives of "
                 f"{STRIPE_RATE / 1e6:.0f} MB/s", COLD)
