"""The drives of the lab do what they promise: a test that trusts a tool which loses nothing proves nothing."""

import errno
import os
import signal
import struct
import subprocess
import sys
import threading
import time

import disks
import power
import pytest
from harness.waiting import wait_until

needs_fuse = pytest.mark.skipif(bool(disks.why_no_fuse()), reason=f"{disks.why_no_fuse()}")
needs_loop = [
    pytest.param(fs, marks=pytest.mark.skipif(bool(disks.why_no_loop(fs)), reason=f"{disks.why_no_loop(fs)}"))
    for fs in ("ext4", "xfs")
]


def write(path, data, sync=True):
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    if sync:
        directory = os.open(path.parent, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)


@pytest.mark.parametrize("fs", needs_loop)
def test_a_power_cut_keeps_what_was_synced_and_loses_the_rest(lab, fs):
    disk = lab.disk("d", fs).mount()
    write(disk.mountpoint / "kept", b"k" * 10000)
    write(disk.mountpoint / "lost", b"l" * 10000, sync=False)
    assert not disk.is_cut()
    disk.power_cut()
    assert disk.is_cut()
    disk.remount()
    assert (disk.mountpoint / "kept").read_bytes() == b"k" * 10000
    assert not (disk.mountpoint / "lost").exists()


APPENDER = """
import mmap, os, struct, sys
path, told, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = mmap.mmap(os.open(told, os.O_RDWR), 8)
file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
print("ready", flush=True)
for number in range(1, 1 << 40):
    os.write(file, struct.pack("<Q", number) * (size // 8))
    os.fdatasync(file)
    seen[:8] = struct.pack("<Q", number)
"""


@pytest.mark.parametrize("kind", power.KINDS)
@pytest.mark.parametrize("fs", needs_loop)
def test_a_power_cut_below_programs_that_sync_keeps_what_they_were_told(lab, fs, kind, rng):
    """See power.py: a shutdown without its care loses what a sync that is under way says was done, in one cut of three."""
    size, cuts, programs, told = 512, 10, 4, 0
    disk = lab.disk("d", fs).mount()
    for number in range(cuts):
        running = []
        for index in range(programs):
            seen = lab.root / f"seen-{number}-{index}"
            seen.write_bytes(bytes(8))
            path = disk.mountpoint / f"f-{number}-{index}"
            words = [sys.executable, "-c", APPENDER, path, seen, str(size)]
            running.append((subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL), path, seen))
        for program, _, _ in running:
            assert program.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0.005, 0.05))
        power.cut([disk], [program.pid for program, _, _ in running], kind)
        for program, _, _ in running:
            program.communicate()
            assert program.returncode == (-signal.SIGKILL if kind == "killed" else 1)  # an OSError
        disk.remount()
        for _, path, seen in running:
            count = struct.unpack("<Q", seen.read_bytes())[0]
            told += count
            expected = b"".join(struct.pack("<Q", index) * (size // 8) for index in range(1, count + 1))
            assert (path.read_bytes() if count else b"")[:len(expected)] == expected, f"cut {number}: {count} were told"
            path.unlink(missing_ok=True)
    print(f"injected: {cuts} power cuts below {programs} programs; {told} syncs were told, none lost")
    assert told > cuts


@pytest.mark.parametrize("fs", needs_loop)
def test_a_flip_turns_one_bit_on_the_disk(lab, fs):
    disk = lab.disk("d", fs).mount()
    path = disk.mountpoint / "file"
    data = bytearray(os.urandom(300_000))
    write(path, data)
    for offset in (0, 4096, 123_457, 299_999):
        disk.flip(path, offset, bit=3)
        data[offset] ^= 8
        assert path.read_bytes() == data
    disk.remount()
    assert path.read_bytes() == data


@needs_fuse
@pytest.mark.parametrize("fs", needs_loop)
def test_crash_images_keep_what_was_flushed_and_can_lose_what_was_not(lab, fs, seed):
    disk = lab.recording_disk("d", fs)
    disk.record()
    disk.mount()
    synced = []  # (moment of the acknowledgement, number)
    for number in range(30):
        write(disk.mountpoint / f"f{number}", bytes([number]) * 20_000)
        synced.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC), number))
    write(disk.mountpoint / "unsynced", b"u" * 20_000, sync=False)
    disk.mark("end")
    images = disk.crash_images()
    assert len(images.writes) >= 60 and images.marks()[-1][1] == "end"

    rng = disks.seeded(seed, "crash images", fs)
    dropped = torn = 0
    for _ in range(12):
        cut = rng.randrange(images.cut_at(synced[0][0]), len(images) + 1)
        path, report = images.build(cut, rng, torn=True)
        dropped += report["dropped"]
        torn += report["torn"]
        copy = lab.disk_from("copy", path, fs).mount()
        for moment, number in synced:
            if images.cut_at(moment) <= cut:
                assert (copy.mountpoint / f"f{number}").read_bytes() == bytes([number]) * 20_000
        copy.close()
    print(f"dropped {dropped} writes, tore {torn}")

    # Nothing that was not flushed survives when none of it is kept.
    path, report = images.build(len(images), rng, keep=0.0)
    copy = lab.disk_from("copy", path, fs).mount()
    assert not (copy.mountpoint / "unsynced").exists()
    assert (copy.mountpoint / "f29").exists()


@needs_fuse
def test_a_cut_in_the_middle_of_a_flush_may_lose_every_write_before_it(lab, seed):
    """The image builder must know when a flush was done, not only that it was asked for."""
    disk = lab.recording_disk("d")
    disk.record()
    disk.mount()
    write(disk.mountpoint / "first", b"1" * 8192)
    disk.daemon.rule("delay flush ms=300 count=1")
    done = []

    def sync_second():
        write(disk.mountpoint / "second", b"2" * 8192)
        done.append(True)

    writer = threading.Thread(target=sync_second)
    writer.start()
    wait_until(lambda: disk.daemon.stats().get("delay.flush"), 5, "the flush is delayed")
    disk.mark("flush is under way")
    writer.join()
    images = disk.crash_images()
    cut = images.marks()[0][0]
    path, _ = images.build(cut, disks.seeded(seed, "flush"), keep=0.0)
    copy = lab.disk_from("copy", path, "ext4").mount()
    assert (copy.mountpoint / "first").read_bytes() == b"1" * 8192
    assert not (copy.mountpoint / "second").exists()
    copy.close()
    path, _ = images.build(len(images), disks.seeded(seed, "flush"), keep=0.0)
    copy = lab.disk_from("copy", path, "ext4").mount()
    assert done and (copy.mountpoint / "second").read_bytes() == b"2" * 8192


@needs_fuse
def test_a_fault_disk_fails_drops_tears_and_swaps_by_rule(lab):
    disk = lab.recording_disk("d").mount()
    daemon = disk.daemon

    def content(name, data, rule):
        path = disk.mountpoint / name
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, len(data))
            os.fsync(file.fileno())
        daemon.rule(rule)
        write(path, data)
        disk.forget(path)
        return path.read_bytes()

    block = b"drop-me!" * 512
    assert content("dropped", block, "drop write match=" + b"drop-me!".hex()) != block
    block = b"tear-me!" * 1024
    torn = content("torn", block, "tear write match=" + b"tear-me!".hex())
    assert torn[:4096] == block[:4096] and torn != block
    first, second = b"swap-one" * 512, b"swap-two" * 512
    (disk.mountpoint / "a").write_bytes(b"a" * 4096)
    (disk.mountpoint / "b").write_bytes(b"b" * 4096)
    os.sync()
    daemon.rule("swap write match=" + b"swap-one".hex())
    for name, data in (("a", first), ("b", second)):
        with open(disk.mountpoint / name, "r+b") as file:
            file.write(data)
            file.flush()
            os.fdatasync(file.fileno())
        disk.forget(disk.mountpoint / name)
    stats = daemon.stats()
    assert stats["drop.write"] == stats["tear.write"] == stats["swap.write"] == 1
    if stats.get("swapped"):  # the journal may have written a block of that length first: then it was hit
        assert (disk.mountpoint / "a").read_bytes() != first

    daemon.clear()
    daemon.rule("eio flush count=1")
    with pytest.raises(OSError) as failed:
        write(disk.mountpoint / "eio", b"x" * 4096)
    assert failed.value.errno == errno.EIO and daemon.stats()["eio.flush"] == 1


@needs_fuse
def test_a_hung_disk_answers_its_control_and_goes_on_when_cleared(lab):
    disk = lab.recording_disk("d").mount()
    disk.daemon.rule("hang flush")
    writer = threading.Thread(target=write, args=(disk.mountpoint / "slow", b"s" * 4096))
    writer.start()
    wait_until(lambda: disk.daemon.stats().get("hang.flush"), 5, "the flush hangs")
    writer.join(0.1)
    assert writer.is_alive()
    disk.daemon.clear()
    writer.join(10)
    assert not writer.is_alive() and (disk.mountpoint / "slow").read_bytes() == b"s" * 4096


@needs_fuse
def test_a_yanked_disk_fails_and_can_still_be_cleaned_up(lab):
    disk = lab.recording_disk("d").mount()
    disk.daemon.kill()
    with pytest.raises(OSError):
        write(disk.mountpoint / "late", b"l" * 4096)


@needs_fuse
def test_a_fault_file_system_fails_by_operation_and_name(lab):
    fs = lab.fault_fs("f")
    write(fs.mountpoint / "plain", b"p" * 5000)
    os.setxattr(fs.mountpoint / "plain", "user.tarn", b"v" * 4000)
    assert os.getxattr(fs.directory / "plain", "user.tarn") == b"v" * 4000
    assert (fs.mountpoint / "plain").read_bytes() == b"p" * 5000

    fs.rule("eio fsync victim")
    with pytest.raises(OSError) as failed:
        write(fs.mountpoint / "victim", b"v")
    assert failed.value.errno == errno.EIO
    write(fs.mountpoint / "victim", b"v")  # the rule was for once
    fs.rule("enospc write full always")
    with pytest.raises(OSError) as failed:
        (fs.mountpoint / "full").write_bytes(b"f" * 4096)
    assert failed.value.errno == errno.ENOSPC
    fs.rule("flip read plain")
    fs.rule("zero read victim")
    for name in ("plain", "victim"):
        fd = os.open(fs.mountpoint / name, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    assert (fs.mountpoint / "plain").read_bytes() == b"q" + b"p" * 4999
    assert (fs.mountpoint / "victim").read_bytes() == b"\0"
    stats = fs.stats()
    assert (stats["eio.fsync"], stats["flip.read"], stats["zero.read"]) == (1, 1, 1)
    assert stats["enospc.write"] >= 1


@needs_fuse
def test_what_a_killed_run_left_behind_is_swept_away():
    loops_before = disks.run("losetup", "-a")
    script = (
        "import sys, signal, os; sys.path[:0] = sys.argv[1:]; import disks\n"
        "lab = disks.Lab(); disk = lab.recording_disk('left').mount(); disk.daemon.stop()\n"
        "print(lab.root, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    here = os.path.dirname(disks.__file__)
    killed = subprocess.run(
        [sys.executable, "-c", script, here, os.path.dirname(here)], capture_output=True, text=True, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = killed.stdout.strip()
    assert os.path.isdir(left)
    with disks.Lab():
        pass
    assert not os.path.exists(left)
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        assert left not in mounts.read()
    assert disks.run("losetup", "-a") == loops_before
