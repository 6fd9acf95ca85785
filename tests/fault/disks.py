"""Drives to lose: loop devices that are cut off, disks that record what reached them, bits that turn.

Everything is made through a `Lab`, which undoes all of it in reverse order, whatever a test did. It wakes hung daemons,
unmounts file systems and frees loop devices. What a killed run left behind is swept away by the next one.

Needs root, loop devices and (recording and faulty disks) FUSE with the programs of tests/fault/tools;
`why_no_loop` and `why_no_fuse` say what is missing.
"""

import contextlib
import ctypes
import fcntl
import functools
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time

from commands import copy_sparse, run, tool
from crash_images import CrashImages
from fuse_daemons import Daemon, FaultFs
from harness.waiting import wait_until
from latency import forget_pages, is_in_memory

MIB = 1024 * 1024
PREFIX = "tarn-fault-"
# A file system below 300 MiB is refused by mkfs.xfs. Images are sparse, so size costs little.
SIZES = {"ext4": 96 * MIB, "xfs": 320 * MIB}

_SHUTDOWN = 0x8004587D  # XFS_IOC_GOINGDOWN, EXT4_IOC_SHUTDOWN: what `xfs_io -x -c shutdown` calls
_NO_LOG_FLUSH = 2  # without -f: what is only in the journal's memory is lost, as in a power cut
_FIEMAP = 0xC020660B
_EXTENT_UNUSABLE = 0x02 | 0x04 | 0x08 | 0x80 | 0x200 | 0x400  # unknown, delayed, encoded, encrypted, inline, tail
_libc = ctypes.CDLL(None, use_errno=True)


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
        # Small file systems get 1 KiB blocks by default, too small for attributes of 4,000 bytes. Nothing is left to
        # the kernel's background initialisation, so that recorded writes are ours.
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-E",
            "nodiscard,lazy_itable_init=0,lazy_journal_init=0", *options, path)
    else:
        run(f"mkfs.{fs}", "-q", "-f", "-K", *options, path)
    subprocess.run(["fallocate", "--dig-holes", str(path)], capture_output=True, check=False)


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
        """Mounted anew, and good after a power cut. A program with mounts of its own, such as tests/bench/run, keeps the file
        system alive until it ends. Until then a mount yields the same file system, still cut off."""

        def is_good():
            self.umount()
            self.mount(*options)
            return not (self.power_cuts and self.is_cut())

        wait_until(is_good, 120, f"{self.mountpoint} is mounted anew", every=0.5)
        return self

    def power_cut(self):
        """From now on every operation fails, and what was not synced is lost, as when the power goes. Below programs that
        run, `power.cut` does it: a sync that is under way meanwhile may say that it was done."""
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
        forget_pages(self._backing())  # what is below the loop device, where that is another file
        wait_until(lambda: self.forget(path) or not is_in_memory(path, offset), 10, f"memory has forgotten {path} at {offset}", every=0.001)

    forget = staticmethod(forget_pages)

    def close(self):
        if self.mounted:
            try:
                self.umount(2.0)
            except AssertionError:
                run("umount", "-l", self.mountpoint)
        self.detach()
        with contextlib.suppress(OSError):
            self.image.unlink()


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

    def yank(self):
        """Everything on it fails from now on, also what the memory behind the loop device could have answered for."""
        backing = os.open(self._backing(), os.O_RDONLY)
        try:
            self.daemon.kill()
            os.posix_fadvise(backing, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(backing)

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


def seeded(seed, *words):
    """A generator of its own for each use of a seed, so that one test's choices never shift another's."""
    return random.Random(f"{seed}/{'/'.join(map(str, words))}")
