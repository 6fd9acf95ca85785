"""Drives to lose: loop devices that are cut off, disks that record what reached them, bits that turn.

Everything is made through a `Lab`, which undoes all of it in reverse order, whatever a test did: hung
daemons are woken, file systems unmounted, loop devices given back. What a killed run left behind is swept
away by the next one.

Needs root, loop devices and (recording and faulty disks) FUSE with the programs of tests/fault/tools;
`why_no_loop` and `why_no_fuse` say what is missing.
"""

import bisect
import contextlib
import ctypes
import fcntl
import functools
import json
import mmap
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

from harness.cluster import PROGRAMS
from harness.waiting import scaled, wait_until

MIB = 1024 * 1024
PREFIX = "tarn-fault-"
# A file system below 300 MiB is refused by mkfs.xfs. Images are sparse, so size costs little.
SIZES = {"ext4": 96 * MIB, "xfs": 320 * MIB}

_SHUTDOWN = 0x8004587D  # XFS_IOC_GOINGDOWN, EXT4_IOC_SHUTDOWN: what `xfs_io -x -c shutdown` calls
_NO_LOG_FLUSH = 2  # without -f: what is only in the journal's memory is lost, as in a power cut
_FIEMAP = 0xC020660B
_EXTENT_UNUSABLE = 0x02 | 0x04 | 0x08 | 0x80 | 0x200 | 0x400  # unknown, delayed, encoded, encrypted, inline, tail
_libc = ctypes.CDLL(None, use_errno=True)


def run(*command, timeout=60):
    """Runs a command and returns its output; raises with its words when it fails."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=scaled(timeout), check=False
    )
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def tool(name):
    """The path of a program of tests/fault/tools, None where it was not built."""
    path = PROGRAMS / name
    return str(path) if os.access(path, os.X_OK) else None


@functools.lru_cache(maxsize=None)
def why_no_loop(fs="ext4"):
    """Why loop devices with this file system cannot be had here; None: they can."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ("losetup", "mount", f"mkfs.{fs}"):
        if not shutil.which(program):
            return f"needs {program}"
    try:
        with Lab() as lab:
            lab.disk("probe", fs).mount()
    except (OSError, AssertionError) as error:
        return f"cannot mount {fs} on a loop device: {error}"
    return None


@functools.lru_cache(maxsize=None)
def why_no_fuse():
    """Why FUSE file systems cannot be had here; None: they can."""
    if os.geteuid() != 0:
        return "needs root"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "needs /dev/fuse"
    if not tool("faultdisk") or not tool("faultfs"):
        return "needs the programs of tests/fault/tools (built where libfuse3-dev is installed)"
    try:
        with Lab() as lab:
            lab.fault_fs("probe")
    except (OSError, AssertionError) as error:
        return f"cannot mount a FUSE file system: {error}"
    return None


class Lab:
    """Where drives are made, and the promise that they are gone afterwards.

    `root` is a fresh directory in memory (/dev/shm) when there is one: images are written and copied often.
    """

    def __init__(self):
        shared_memory = os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 2048 * MIB
        base = "/dev/shm" if shared_memory else tempfile.gettempdir()
        sweep(base)
        self.root = pathlib.Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base))
        self._made = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def adopt(self, thing):
        """Has `thing.close()` called by `close`, before those of everything made earlier."""
        self._made.append(thing)
        return thing

    def disk(self, name, fs="ext4", size=None, mkfs_options=()):
        """A formatted loop disk, not yet mounted."""
        image = self.root / f"{name}.img"
        make_image(image, fs, size or SIZES[fs], mkfs_options)
        return self.adopt(LoopDisk(self, name, fs, image))

    def disk_from(self, name, image, fs):
        """A loop disk on an image that exists, such as a crash image."""
        return self.adopt(LoopDisk(self, name, fs, pathlib.Path(image)))

    def recording_disk(self, name, fs="ext4", size=None):
        """A formatted loop disk on a FUSE disk that records and obeys, not yet mounted."""
        image = self.root / f"{name}.img"
        make_image(image, fs, size or SIZES[fs])
        return self.adopt(RecordingDisk(self, name, fs, image))

    def fault_fs(self, name, directory=None, mountpoint=None):
        """A directory behind FUSE whose operations can be made to fail by name."""
        directory = pathlib.Path(directory or self.root / f"{name}.below")
        directory.mkdir(parents=True, exist_ok=True)
        return self.adopt(FaultFs(self, name, directory, mountpoint or self.root / name))

    def close(self):
        failures = []
        while self._made:
            thing = self._made.pop()
            try:
                thing.close()
            except (OSError, AssertionError, subprocess.TimeoutExpired) as error:
                failures.append(f"{type(thing).__name__} {getattr(thing, 'name', '')}: {error}")
        _remove_tree(self.root)
        if failures:
            raise OSError("left behind: " + "; ".join(failures))


def sweep(base):
    """Removes what runs that no longer live have left in `base`: mounts, loop devices, daemons, files."""
    for place in pathlib.Path(base).glob(PREFIX + "*"):
        owner = place.name[len(PREFIX) :].split("-")[0]
        if owner.isdigit() and pathlib.Path(f"/proc/{owner}").exists():
            continue
        # A loop device that is still mounted goes when it is unmounted; afterwards its file has no name.
        for line in _loops():
            if line["back-file"].startswith(str(place)):
                subprocess.run(["losetup", "-d", line["name"]], capture_output=True, check=False)
        _kill_daemons(place)
        _unmount_below(place)
        _remove_tree(place)


def _kill_daemons(place):
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if pathlib.Path(os.fsdecode(words[0])).name in ("faultdisk", "faultfs") and any(
                word.startswith(os.fsencode(str(place))) for word in words
            ):
                os.kill(int(process.name), signal.SIGKILL)


def _loops():
    listed = subprocess.run(["losetup", "--json", "-O", "NAME,BACK-FILE"], capture_output=True, check=False)
    if not listed.stdout.strip():
        return []
    return [line for line in json.loads(listed.stdout)["loopdevices"] if line.get("back-file")]


def _mounts_below(place):
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
        return [line.split()[1] for line in mounts if line.split()[1].startswith(str(place) + "/")]


def _unmount_below(place):
    for mountpoint in reversed(_mounts_below(place)):
        subprocess.run(["umount", "-l", mountpoint], capture_output=True, check=False)


def _remove_tree(place):
    """Removes a directory, but never reaches through a mount into a file system that is still there."""
    if not _mounts_below(place):
        shutil.rmtree(place, ignore_errors=True)


def make_image(path, fs, size, options=()):
    """A sparse file with an empty file system."""
    with open(path, "wb") as image:
        image.truncate(size)
    if fs == "ext4":
        # Small file systems get 1 KiB blocks by default, too small for attributes of 4,000 bytes; nothing
        # is left to the kernel's background initialisation, so that recorded writes are ours.
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-E",
            "nodiscard,lazy_itable_init=0,lazy_journal_init=0", *options, path)
    else:
        run(f"mkfs.{fs}", "-q", "-f", "-K", *options, path)
    subprocess.run(["fallocate", "--dig-holes", str(path)], capture_output=True, check=False)


def copy_sparse(source, target):
    run("cp", "--sparse=always", "--reflink=auto", source, target)


class LoopDisk:
    """A file system in an image behind a loop device, mounted at `mountpoint`."""

    def __init__(self, lab, name, fs, image):
        self.lab = lab
        self.name = name
        self.fs = fs
        self.image = image
        self.mountpoint = lab.root / name
        self.mountpoint.mkdir(exist_ok=True)
        self.device = None
        self.power_cuts = 0

    @property
    def mounted(self):
        return str(self.mountpoint) in _mounts_below(self.lab.root)

    def _attach(self):
        backing = self._backing()
        for attempt in range(20):  # another process may take the same free device first
            try:
                self.device = run("losetup", "-f", "--show", backing)
                return
            except OSError:
                if attempt == 19:
                    raise
                time.sleep(0.02)

    def _backing(self):
        return self.image

    def mount(self, *options):
        if not self.device:
            self._attach()
        if self.fs == "xfs":
            options += ("nouuid",)  # a crash image is mounted beside the disk that it was made of
        words = ["-o", ",".join(options)] if options else []
        run("mount", "-t", self.fs, *words, self.device, self.mountpoint)
        return self

    def umount(self, timeout=20.0):
        """Unmounts, waiting for a user that is on its way out."""

        def gone():
            failed = subprocess.run(["umount", str(self.mountpoint)], capture_output=True, text=True, check=False)
            return failed.returncode == 0 or "not mounted" in failed.stderr

        wait_until(gone, timeout, f"{self.mountpoint} is unmounted")

    def detach(self):
        """Gives the loop device back; the image stays."""
        if self.device:
            run("losetup", "-d", self.device)
            self.device = None

    def remount(self, *options):
        self.umount()
        return self.mount(*options)

    def power_cut(self):
        """From now on every operation fails, and what was not synced is lost, as when the power goes."""
        fd = os.open(self.mountpoint, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(fd)
        self.power_cuts += 1

    def is_cut(self):
        """True when the file system refuses to work: proof that the power cut happened."""
        try:
            with tempfile.TemporaryFile(dir=self.mountpoint):
                return False
        except OSError:
            return True

    def physical(self, path, offset):
        """The place in the image of one byte of a file."""
        fd = os.open(path, os.O_RDONLY)
        try:
            request = struct.pack("=QQIIIIQQQQQIIII", offset, 1, 1, 0, 1, 0, *(0,) * 9)
            answer = fcntl.ioctl(fd, _FIEMAP, request)
        finally:
            os.close(fd)
        mapped = struct.unpack_from("=I", answer, 20)[0]
        if mapped == 0:
            raise OSError(f"{path}: no extent at {offset}")
        logical, place, length, _, _, flags = struct.unpack_from("=QQQQQI", answer, 32)
        if flags & _EXTENT_UNUSABLE or not logical <= offset < logical + length:
            raise OSError(f"{path}: extent at {offset} has flags {flags:#x}")
        return place + offset - logical

    def flip(self, path, offset, bit=0):
        """Turns one bit of a file where it lies on the disk, and forgets the page that memory holds of it."""
        place = self.physical(path, offset)
        with open(self.image, "r+b") as image:
            byte = os.pread(image.fileno(), 1, place)[0]
            os.pwrite(image.fileno(), bytes([byte ^ 1 << bit]), place)
        self.forget(path)

    def forget(self, path):
        """Drops what the page cache holds of a file (clean pages only), so that the next read is real."""
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)

    def close(self):
        if self.mounted:
            try:
                self.umount(2.0)
            except AssertionError:
                run("umount", "-l", self.mountpoint)
        self.detach()
        with contextlib.suppress(OSError):
            self.image.unlink()


class Daemon:
    """A running faultdisk or faultfs and its control socket."""

    def __init__(self, mountpoint, control, command):
        self.mountpoint = pathlib.Path(mountpoint)
        self.mountpoint.mkdir(exist_ok=True)
        self._control = control
        self.process = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

        def ready():
            if self.process.poll() is not None:
                raise OSError(f"{command[0]}: {self.process.stderr.read().strip()}")
            return os.path.ismount(self.mountpoint)

        try:
            wait_until(ready, 10, f"{command[0]} has mounted {self.mountpoint}", every=0.005)
        except BaseException:
            self.close()
            raise

    def command(self, line, timeout=5.0):
        """Sends one command and returns its answer without the leading `ok`."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(timeout)
            control.connect(str(self._control))
            control.sendall(line.encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                piece = control.recv(65536)
                if not piece:
                    raise OSError(f"the daemon hung up on {line!r}")
                answer += piece
        text = answer.decode().strip()
        if not text.startswith("ok"):
            raise ValueError(f"{line!r}: {text}")
        return text[3:]

    def rule(self, text):
        self.command("rule " + text)

    def clear(self):
        self.command("clear")

    def stats(self):
        return json.loads(self.command("stats"))

    def stop(self):
        """SIGSTOP: the drive hangs."""
        self.process.send_signal(signal.SIGSTOP)

    def cont(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """SIGKILL: the drive is yanked; everything on it fails from now on."""
        self.process.kill()
        self.process.wait(10)

    def close(self):
        if self.process.poll() is None:
            self.cont()
            with contextlib.suppress(OSError, ValueError):
                self.clear()
            subprocess.run(["umount", str(self.mountpoint)], capture_output=True, check=False)
            self.process.terminate()
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                self.kill()
        if os.path.ismount(self.mountpoint) or _is_dead_mount(self.mountpoint):
            run("umount", "-l", self.mountpoint)
        self.process.stderr.close()
        with contextlib.suppress(OSError):
            os.unlink(self._control)


def _is_dead_mount(path):
    """A FUSE mount whose daemon is gone answers ENOTCONN to everything."""
    try:
        os.stat(path)
        return False
    except OSError:
        return True


class RecordingDisk(LoopDisk):
    """A loop disk on `faultdisk`: every write and flush since `record` is known, faults come by `rule`."""

    def __init__(self, lab, name, fs, image):
        super().__init__(lab, name, fs, image)
        self.log = lab.root / f"{name}.log"
        self.base = lab.root / f"{name}.base"
        self.daemon = Daemon(
            lab.root / f"{name}.fuse",
            lab.root / f"{name}.ctl",
            [tool("faultdisk"), lab.root / f"{name}.fuse", image, self.log, lab.root / f"{name}.ctl"],
        )

    def _backing(self):
        return self.daemon.mountpoint / "disk"

    def record(self):
        """Starts the log. Only before the first mount: the base of all crash images is the image now."""
        if self.device:
            raise RuntimeError("record before the disk is mounted")
        copy_sparse(self.image, self.base)
        self.daemon.command("log on")

    def mark(self, text):
        self.daemon.command("mark " + text)

    def crash_images(self):
        """The moments of the log so far. The disk may go on."""
        return CrashImages(self.lab, self.name, self.fs, self.base, self.log)

    def close(self):
        if self.daemon.process.poll() is None:
            self.daemon.cont()
            self.daemon.clear()
        try:
            super().close()
        finally:
            self.daemon.close()
            for path in (self.log, self.base):
                path.unlink(missing_ok=True)


class FaultFs(Daemon):
    """A directory behind `faultfs`. `directory` is what lies below, `mountpoint` where faults happen."""

    def __init__(self, lab, name, directory, mountpoint):
        self.name = name
        self.directory = directory
        control = lab.root / f"{name}.ctl"
        super().__init__(mountpoint, control, [tool("faultfs"), mountpoint, directory, control])


class CrashImages:
    """What a recording disk may hold after the power failed at any point of its log.

    A disk with a volatile cache keeps every write that was done before a flush arrived that has been
    answered. Of the later ones it keeps any subset, and of the last of them any part, in sectors of 512
    bytes. `build` makes one such image; all choices come from the `rng` that it is given.
    """

    _HEADER = struct.Struct("=IIQQQ")
    WRITE, FLUSH, MARK = 1, 2, 3

    def __init__(self, lab, name, fs, base, log):
        self.lab = lab
        self.name = name
        self.fs = fs
        self._base = base
        self._file = open(log, "rb")  # closed with the lab
        lab.adopt(self)
        self._map = mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ)
        self.records = []  # (kind, time_ns, offset or writes covered, length, place of the data in the log)
        self.writes = []  # the index in `records` of each write
        self._flushes = []  # the index in `records` of each flush, and how many writes are durable after it
        self._covered = []
        place = 0
        while place + self._HEADER.size <= len(self._map):
            magic, kind, when, offset, length = self._HEADER.unpack_from(self._map, place)
            if magic != 0x4B534446:
                raise ValueError(f"{log}: no record at {place}")
            place += self._HEADER.size
            if place + length > len(self._map):
                break
            if kind == self.WRITE:
                self.writes.append(len(self.records))
            if kind == self.FLUSH:
                # Flushes overlap, and one that arrived later may be answered earlier: what is covered grows.
                self._flushes.append(len(self.records))
                self._covered.append(max(offset, self._covered[-1] if self._covered else 0))
            self.records.append((kind, when, offset, length, place))
            place += length
        self._durable_path = lab.root / f"{name}.durable"
        self._durable_writes = None
        self._count = 0

    def __len__(self):
        return len(self.records)

    def cut_at(self, time_ns):
        """The number of records that were done by this moment of CLOCK_MONOTONIC: a `cut` for `build`."""
        return bisect.bisect_right(self.records, time_ns, key=lambda record: record[1])

    def marks(self):
        """(cut, text) of every mark."""
        return [
            (index, bytes(self._map[place : place + length]).decode())
            for index, (kind, _, _, length, place) in enumerate(self.records)
            if kind == self.MARK
        ]

    def durable_writes(self, cut):
        """How many writes are certain to have survived a power cut after the first `cut` records."""
        flushes = bisect.bisect_left(self._flushes, cut)
        return self._covered[flushes - 1] if flushes else 0

    def build(self, cut, rng, keep=None, torn=False):
        """An image of the disk after a power cut behind the first `cut` records.

        `keep` is the chance of each unflushed write to have reached the disk (default: drawn); with `torn`
        one of them is kept in part. Returns (path, {"writes", "unflushed", "dropped", "torn"}).
        """
        done = bisect.bisect_left(self.writes, cut)
        durable = min(self.durable_writes(cut), done)
        self._make_durable(durable)
        self._count += 1
        path = self.lab.root / f"{self.name}.crash{self._count}"
        copy_sparse(self._durable_path, path)

        keep = rng.choice((0.0, 0.25, 0.5, 0.75, 1.0)) if keep is None else keep
        unflushed = list(range(durable, done))
        tearable = [number for number in unflushed if self.records[self.writes[number]][3] > 512]
        victim = rng.choice(tearable) if torn and tearable else None
        report = {"writes": done, "unflushed": len(unflushed), "dropped": 0, "torn": 0}
        with open(path, "r+b") as image:
            for number in unflushed:
                _, _, offset, length, place = self.records[self.writes[number]]
                data = self._map[place : place + length]
                if number == victim:
                    report["torn"] += 1
                    _write_torn(image.fileno(), offset, data, rng)
                elif rng.random() < keep:
                    os.pwrite(image.fileno(), data, offset)
                else:
                    report["dropped"] += 1
        return path, report

    def _make_durable(self, count):
        """Brings the working image to exactly the first `count` writes; cheap when cuts go forward."""
        if self._durable_writes is None or self._durable_writes > count:
            copy_sparse(self._base, self._durable_path)
            self._durable_writes = 0
        with open(self._durable_path, "r+b") as image:
            for number in range(self._durable_writes, count):
                _, _, offset, length, place = self.records[self.writes[number]]
                os.pwrite(image.fileno(), self._map[place : place + length], offset)
        self._durable_writes = count

    def close(self):
        self._map.close()
        self._file.close()
        self._durable_path.unlink(missing_ok=True)


def _write_torn(fd, offset, data, rng):
    """Half the time a prefix of whole sectors, half the time any set of sectors."""
    sectors = len(data) // 512
    if rng.random() < 0.5:
        kept = set(range(rng.randrange(sectors)))
    else:
        kept = {sector for sector in range(sectors) if rng.random() < 0.5}
    for sector in kept:
        os.pwrite(fd, data[sector * 512 : (sector + 1) * 512], offset + sector * 512)


def seeded(seed, *words):
    """A generator of its own for each use of a seed, so that one test's choices never shift another's."""
    return random.Random(f"{seed}/{'/'.join(map(str, words))}")
