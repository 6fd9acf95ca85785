"""Drives: many readers of a rotating one, the sum of several, a second epoch, and a consumer that must not stall."""

import concurrent.futures
import contextlib
import json
import random
import subprocess

from lib.isolation import MemoryGroup
from lib.rows import Result
from lib.servers import EmulatedDrive, Nginx, Tarn
from lib.stage import Failed, Unavailable, drop_from_cache, median, spread

MIB = 1 << 20
RATE, SEEK_MS, HALF_TURN_MS = 200e6, 8.0, 4.0
BESIDE_ROUNDS = 2  # how many rounds the sides that are only shown beside take part in
COLD = "cold: dropped before each run"


def mb_a_second(run):
    return run["bytes"] / 1e6 / run["seconds"]


def _drive_text(rate, seek_ms, half_turn_ms):
    return f"emulated drive, {rate / 1e6:.0f} MB/s, {seek_ms:g} + {half_turn_ms:g} ms a switch, first come first served"


# --- many readers of one drive ----------------------------------------------------------------------------------------------

class FullDrive:
    """One target on one drive full of objects, emulated or (`drive` is None) that of the scratch directory; nginx, if it is
    there, serves the same files."""

    def __init__(self, stage, drive, tarn, nginx):
        self.stage, self.drive, self.tarn, self.nginx = stage, drive, tarn, nginx
        count, size = (20, 32 * MIB) if stage.quick else (72, 96 * MIB)
        self.names = [f"shard-{i:06}.tar" for i in range(count)]
        tarn.store(self.names, size)
        files = tarn.data_files(size)
        self.files = [files[name] for name in self.names]
        if nginx:
            for name in self.names:
                nginx.serve(name, files[name])

    def run(self, kind, streams, seconds, beside=None):
        """`streams` cold readers for some seconds, each of files of its own: through `tarn`, `nginx` or `plain`. What `beside()`
        does at the same time is in the answer's "beside"."""
        sources = {
            "tarn": lambda: self.tarn.target_urls(self.names),
            "plain": lambda: self.files,
            "nginx": lambda: [self.nginx.url("threads", name) for name in self.names],
        }[kind]()
        self.model(False)  # what still waits for the head, of an earlier run, ends now
        drop_from_cache(self.files)
        self.model(True)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(beside) if beside else None
            run = self.stage.readers(self.stage.write_lines("readers.sources", sources), streams, seconds)
            run["beside"] = other.result() if other else None
        run["seeks"] = self.drive.head()["seeks"] if self.drive else 0
        self.model(False)
        return run

    def model(self, on):
        if self.drive:
            self.drive.model(on)


@contextlib.contextmanager
def full_drive(stage, emulated=True, beside=True):
    directory = stage.new_directory("readers")
    with contextlib.ExitStack() as exits:
        drive = nginx = None
        if emulated:
            drive = exits.enter_context(EmulatedDrive(stage, directory / "tarn" / "t1" / "d1", directory / "behind", RATE,
                                                      SEEK_MS, HALF_TURN_MS))
        if beside:
            with contextlib.suppress(Unavailable):
                nginx = exits.enter_context(Nginx(stage, directory / "nginx", burst=False))
        tarn = exits.enter_context(Tarn(stage, directory / "tarn", burst=False))
        yield FullDrive(stage, drive, tarn, nginx)


def measure_readers(stage, streams):
    stage.need_drive()
    stage.need_space((1 if stage.quick else 7) << 30)
    full = stage.shared("full drive", lambda: full_drive(stage))
    seconds = 3 if stage.quick else (20 if streams > 16 else 8)
    alone_seconds = 2 if stage.quick else 4
    runs = {"one reader, plain": [], "one reader, tarn": [], f"{streams} readers, tarn": [], f"{streams} readers, plain": []}
    if full.nginx:
        runs[f"{streams} readers, nginx aio threads"] = []
    ratios = []
    for number in range(stage.rounds):
        for side, its in runs.items():
            beside = side.startswith(f"{streams} ") and not side.endswith("tarn")
            if beside and number >= BESIDE_ROUNDS:
                continue
            alone = side.startswith("one")
            kind = side.partition(", ")[2].partition(" ")[0]
            its.append(full.run(kind, 1 if alone else streams, alone_seconds if alone else seconds))
        alone = max(mb_a_second(runs[side][-1]) for side in ("one reader, plain", "one reader, tarn"))
        ratios.append(mb_a_second(runs[f"{streams} readers, tarn"][-1]) / alone)
    raw = {}
    for side, its in runs.items():
        raw[side] = {"MB/s": median([mb_a_second(run) for run in its]), "seeks": median([run["seeks"] for run in its]),
                     "longest wait of a stream, s": max(run["longest_wait_s"] for run in its),
                     "streams without a byte": max(run["starved_streams"] for run in its)}
    yield Result(f"readers_{streams}_on_one_drive", median(ratios), stage.rounds, raw,
                 f"tarn-bench-readers, {seconds} s ({alone_seconds} s alone), a file of {96 if not stage.quick else 32} MiB a "
                 f"reader, over the faster of one plain reader and one through Tarn; {_drive_text(RATE, SEEK_MS, HALF_TURN_MS)}", COLD)


UPLOADS, READERS_BESIDE = 4, 16


def measure_uploads_beside(stage):
    """Readers and uploads of one drive at once; what both get together counts, and that neither starves."""
    stage.need_drive()
    stage.need_space((2 if stage.quick else 10) << 30)
    full = stage.shared("full drive", lambda: full_drive(stage))
    seconds, size = (4, 16 * MIB) if stage.quick else (15, 64 * MIB)
    runs = {"one reader, tarn": [], f"{READERS_BESIDE} readers, tarn": [], f"{READERS_BESIDE} readers beside uploads, tarn": [],
            "these uploads": []}
    ratios = []
    for number in range(stage.rounds):
        runs["one reader, tarn"].append(full.run("tarn", 1, 2 if stage.quick else 4))
        runs[f"{READERS_BESIDE} readers, tarn"].append(full.run("tarn", READERS_BESIDE, seconds))
        names = [f"upload-{number}-{i:03}.tar" for i in range(seconds * 200 * MIB // size)]
        urls = stage.write_lines("uploads.urls", full.tarn.upload_urls(names, size))
        both = full.run("tarn", READERS_BESIDE, seconds, lambda urls=urls: stage.tool(
            "tarn-bench-load", "--urls", urls, "--method", "PUT", "--connections", UPLOADS, "--seconds", seconds, "--body", size,
            "--warm-up", 0, burst=False))
        uploaded = both["beside"]
        runs[f"{READERS_BESIDE} readers beside uploads, tarn"].append(both)
        runs["these uploads"].append({**uploaded, "seeks": both["seeks"]})
        ratios.append(sum(mb_a_second(run) for run in (both, uploaded)) / mb_a_second(runs["one reader, tarn"][-1]))
    raw = {side: {"MB/s": spread([mb_a_second(run) for run in its]), "seeks": median([run["seeks"] for run in its])}
           | ({"longest wait of a stream, s": max(run["longest_wait_s"] for run in its)} if "readers" in side else {})
           for side, its in runs.items()}
    yield Result("readers_16_and_4_uploads", median(ratios), stage.rounds, raw,
                 f"{READERS_BESIDE} readers and {UPLOADS} uploads of {size // MIB} MiB at once, {seconds} s; read and acknowledged "
                 f"bytes together over one reader; {_drive_text(RATE, SEEK_MS, HALF_TURN_MS)}", COLD)


# --- the sum of drives ------------------------------------------------------------------------------------------------------

DRIVES, DRIVE_RATE, READERS_A_DRIVE = 8, 100e6, 2


def read_at_once(stage, sources, streams, seconds):
    """Reads from each of several drives or targets: a process each, so that none waits for another. Sum in MB/s."""
    files = [stage.write_lines(f"readers-{index}.sources", lines) for index, lines in enumerate(sources)]
    processes = [subprocess.Popen(
        [*stage.client(burst=False), str(stage.programs / "tarn-bench-readers"), "--sources", str(file), "--streams",
         str(streams), "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True) for file in files]
    total = 0.0
    for process in processes:
        output, _ = process.communicate(timeout=60)
        if process.returncode != 0:
            raise Failed(f"tarn-bench-readers: exit {process.returncode}")
        total += mb_a_second(json.loads(output))
    return total


def measure_sum(stage):
    stage.need_drive()
    stage.need_space(5 << 30)
    directory = stage.new_directory("sum")
    seconds, size, count = (1, 16 * MIB, 16 * DRIVES) if stage.quick else (3, 32 * MIB, 18 * DRIVES)
    with contextlib.ExitStack() as exits:
        drives = [exits.enter_context(EmulatedDrive(stage, directory / "tarn" / "t1" / f"d{i + 1}", directory / f"behind{i + 1}",
                                                    DRIVE_RATE, 0, 0)) for i in range(DRIVES)]
        tarn = exits.enter_context(Tarn(stage, directory / "tarn", drives=DRIVES, burst=False))
        tarn.store([f"shard-{i:06}.tar" for i in range(count)], size)
        files = tarn.data_files(size)
        on_drive = {i: sorted(name for name, path in files.items() if path.is_relative_to(tarn.drive(i + 1)))
                    for i in range(DRIVES)}
        if min(len(names) for names in on_drive.values()) < READERS_A_DRIVE:
            raise Failed("a drive got hardly any object")
        sides = {"tarn": {i: tarn.target_urls(names) for i, names in on_drive.items()},
                 "drives alone": {i: [files[name] for name in names] for i, names in on_drive.items()}}
        measured = {side: [] for side in sides}
        for _ in range(stage.rounds):
            for side, sources in sides.items():
                for drive in drives:
                    drive.model(False)
                drop_from_cache(files.values())
                for drive in drives:
                    drive.model(True)
                measured[side].append(read_at_once(stage, sources.values(), READERS_A_DRIVE, seconds))
        for drive in drives:
            drive.model(False)
    raw = {f"{side}, MB/s": spread(values) for side, values in measured.items()}
    yield Result("drives_sum", median([a / b for a, b in zip(measured["tarn"], measured["drives alone"])]), stage.rounds, raw,
                 f"{READERS_A_DRIVE} readers on each of {DRIVES} emulated drives of {DRIVE_RATE / 1e6:.0f} MB/s, {seconds} s, "
                 "against the same readers of the same files", COLD)


# --- a second epoch ------------------------------------------------------------------------------------------------------------

def measure_epoch(stage):
    stage.need_drive()
    limit = (192 if stage.quick else 256) * MIB
    size = 32 * MIB
    count = 4 * limit // size
    stage.need_space(count * size)
    directory = stage.new_directory("epoch")
    seed = 20  # of the orders, the same in every run
    with contextlib.ExitStack() as exits:
        group = MemoryGroup(stage.group, limit)
        exits.callback(group.close)
        if group.path is None:
            raise Unavailable(f"no memory cgroup can be made: {group.why}")
        drive = exits.enter_context(EmulatedDrive(stage, directory / "tarn" / "t1" / "d1", directory / "behind", RATE,
                                                  SEEK_MS, HALF_TURN_MS))
        tarn = exits.enter_context(Tarn(stage, directory / "tarn", burst=False, enter=group.enter))
        names = [f"shard-{i:06}.tar" for i in range(count)]
        tarn.store(names, size)
        files = tarn.data_files(size)
        epochs = {"first": [], "second": []}
        for number in range(stage.rounds):
            drive.model(False)
            drop_from_cache(files.values())
            drive.model(True)
            for epoch, its in epochs.items():
                random.Random(f"{seed}-{number}-{epoch}").shuffle(names)
                sources = stage.write_lines("epoch.sources", tarn.target_urls(names))
                its.append(stage.readers(sources, 4))
        drive.model(False)
        most = group.usage()
    rates = {epoch: [mb_a_second(run) for run in its] for epoch, its in epochs.items()}
    raw = {f"{epoch}, MB/s": spread(values) for epoch, values in rates.items()}
    raw |= {"data set, MiB": count * size // MIB, "memory cgroup of the server, MiB": limit // MIB,
            "most charged to it, MiB": most // MIB}
    yield Result("second_epoch", median([b / a for a, b in zip(rates["first"], rates["second"])]), stage.rounds, raw,
                 f"4 readers, every object once an epoch, in another order; {_drive_text(RATE, SEEK_MS, HALF_TURN_MS)}",
                 "cold before the first epoch, as that left them before the second")


# --- a consumer that must not stall --------------------------------------------------------------------------------------------

STALL_STREAMS = 4


@contextlib.contextmanager
def _plain_shelf(stage):
    """Objects on the drive of the scratch directory itself."""
    count, size = (16 if stage.quick else 64), 64 * MIB
    stage.need_space(count * size)
    with Tarn(stage, stage.new_directory("stall"), burst=False) as tarn:
        names = [f"shard-{i:06}.tar" for i in range(count)]
        tarn.store(names, size)
        files = tarn.data_files(size)
        yield tarn, names, [files[name] for name in names]


def measure_stall(stage, row, pace):
    tarn, names, files = stage.shared("plain shelf", lambda: _plain_shelf(stage))
    seconds = 2 if stage.quick else (8 if pace < 5e8 else 3.5)
    sides = {"tarn": stage.write_lines("stall-tarn.sources", tarn.target_urls(names)),
             "local files": stage.write_lines("stall-local.sources", files)}
    shares = {side: [] for side in sides}
    for _ in range(stage.rounds):
        for side, sources in sides.items():
            drop_from_cache(files)
            run = stage.readers(sources, STALL_STREAMS, seconds, pace=pace)
            if not run["steps"]:
                raise Failed(f"the consumer took no step ({side})")
            shares[side].append(100 * run["stalled_s"] / run["consumed_s"])
    yield Result(row, median([a - b for a, b in zip(shares["tarn"], shares["local files"])]), stage.rounds,
                 {f"{side}, % of time stalled": spread(values) for side, values in shares.items()},
                 f"tarn-bench-readers --pace {pace:.0f}, batches of 4 MiB, 64 MiB read ahead by {STALL_STREAMS} streams, {seconds} s",
                 COLD)
