"""Where rows are measured: programs, cores, scratch space, the servers, and the load that is put on them."""

import contextlib
import json
import mmap
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
SERVER_CORE, CLIENT_CORE = 1, 0
BURST_SECONDS = 0.4
TOOLS = ("tarn-bench-load", "tarn-bench-readers", "tarn-bench-seed", "tarn-bench-slices")
DRIVE_TOOL = "tarn-bench-drive"


class Unavailable(Exception):
    """A row cannot be measured here; the text says what is missing."""


class Failed(Exception):
    """Something that should have worked did not."""


class OutOfTime(Exception):
    pass


@contextlib.contextmanager
def time_limit(seconds, what):
    """Ends the block with OutOfTime; a benchmark that hangs would never end by itself."""
    def expired(_number, _frame):
        raise OutOfTime(f"{what} did not end within {seconds} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Stage:
    def __init__(self, directory, programs, rounds, quick, note, group):
        self.directory = Path(directory)
        self.programs = Path(programs)
        self.rounds = rounds
        self.quick = quick
        self.note = note
        self.group = group  # name for cgroups
        self.cores = os.cpu_count() or 1
        self.real_time = self._may_use_real_time()
        self._shared = {}
        self._exits = contextlib.ExitStack()
        self._count = 0
        self._made = []

    def close(self):
        """Ends what is shared and removes what measurements left, so that the next one finds the drive as empty and as idle
        as the first."""
        self._exits.close()
        self._shared = {}
        for path in self._made:
            shutil.rmtree(path, ignore_errors=True)
        if self._made and not self.quick:
            os.sync()
        self._made = []

    def shared(self, key, make):
        """A context that several measurements use, entered once and left at the end."""
        if key not in self._shared:
            self._shared[key] = self._exits.enter_context(make())
        return self._shared[key]

    def new_directory(self, name):
        self._count += 1
        path = self.directory / f"{self._count:02}-{name}"
        path.mkdir()
        self._made.append(path)
        return path

    def say(self, text):
        print(f"bench: {text}", file=sys.stderr, flush=True)

    # --- cores -------------------------------------------------------------------------------------------------

    @staticmethod
    def _may_use_real_time():
        return shutil.which("chrt") and subprocess.run(
            ["chrt", "-r", "1", "true"], stderr=subprocess.DEVNULL).returncode == 0

    def on_core(self, core, burst):
        """Words before a command that pin it and, for bursts under a second, let it run before all other programs. Two servers
        on one core take turns: by first come, first served, a busy proxy would keep targets from showing that they live."""
        words = ["taskset", "-c", str(core)] if self.cores > 1 else []
        return words + (["chrt", "-r", "1"] if burst and self.real_time else [])

    def server(self, burst):
        return self.on_core(SERVER_CORE, burst)

    def client(self, burst):
        return self.on_core(CLIENT_CORE, burst)

    # --- what rows need ------------------------------------------------------------------------------------------

    def need_nginx(self):
        if not shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin"):
            raise Unavailable("nginx is not installed (deploy/install-deps --bench)")

    def need_drive(self):
        may_mount = os.geteuid() == 0 or shutil.which("fusermount3")
        if not may_mount or not os.access("/dev/fuse", os.W_OK) or not (self.programs / DRIVE_TOOL).exists():
            raise Unavailable("needs /dev/fuse, fuse3 and libfuse3-dev (deploy/install-deps --build), then a new build")

    def need_space(self, count):
        free = shutil.disk_usage(self.directory).free
        if free < count * 1.5:
            raise Unavailable(f"needs {count * 1.5 / 1e9:.0f} GB free in {self.directory}, there are {free / 1e9:.0f}")

    # --- load ------------------------------------------------------------------------------------------------------

    def tool(self, name, *words, timeout=120, burst=True, check=True):
        """Runs one of our programs on the client's core; returns the JSON that it prints."""
        command = [*self.client(burst), str(self.programs / name), *map(str, words)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        if check and result.returncode != 0:
            raise Failed(f"{' '.join(command)}: exit {result.returncode}: {result.stdout}{result.stderr}")
        return json.loads(result.stdout)

    def write_lines(self, name, lines):
        path = self.directory / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def load(self, urls, pids=(), **options):
        """One burst of tarn-bench-load. `urls` is a file; options are those of the program, with _ for -."""
        words = ["--urls", urls]
        for pid in pids:
            words += ["--server-pid", pid]
        for key, value in options.items():
            words += [f"--{key.replace('_', '-')}"] + ([] if value is True else [value])
        return self.tool("tarn-bench-load", *words)

    def readers(self, sources, streams, seconds=0, timeout=600, **options):
        words = ["--sources", sources, "--streams", streams, "--seconds", seconds]
        for key, value in options.items():
            words += [f"--{key}", value]
        return self.tool("tarn-bench-readers", *words, timeout=timeout, burst=False)


MADV_POPULATE_WRITE = 23


def use_memory(size):
    """Touches `size` bytes of memory, so that a burst finds pages that were in use a moment ago. An unused page, or one that a virtual
    machine returned to its host (Linux does that after 2 s), costs as much as ten others."""
    with mmap.mmap(-1, size) as memory:
        memory.madvise(MADV_POPULATE_WRITE)


def rounds_of(stage, sides):
    """{side: [figures a round]}: each round measures every side once, A B A B. `sides` is {name: function(round)}. The first
    time, which is round -1, does not count: it meets memory that was never used and code that was never run."""
    for function in sides.values():
        function(-1)
    measured = {name: [] for name in sides}
    for number in range(stage.rounds):
        for name, function in sides.items():
            measured[name].append(function(number))
    return measured


def median(values):
    return statistics.median(values)


def ratio(of, to):
    """The median over the rounds of the ratio within each round."""
    return median([a / b for a, b in zip(of, to)])


def spread(values, digits=4):
    """Median, least and most, for the raw figures."""
    return {"median": float(f"{median(values):.{digits}g}"), "least": float(f"{min(values):.{digits}g}"),
            "most": float(f"{max(values):.{digits}g}")}


def drop_from_cache(files):
    """The pages of these files, and, as root, all clean pages of the machine."""
    for path in files:
        try:
            fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # it has moved meanwhile
            continue
        try:
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):
            Path("/proc/sys/vm/drop_caches").write_text("1")


def wait_until(condition, seconds, what, every=0.02):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(every)
