"""How long answers take, on a machine that may be busy with other things."""

import ctypes
import mmap
import os
import time

import pytest

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value

# Of a test that asks whether machine_is_busy.
measures_time = pytest.mark.alone("its bounds are stricter where no other program uses the machine")


def percentile(values, share):
    """The value below which `share` (0 to 1) of the others lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def machine_is_busy():
    """Others use the processors: a bound on time then says more about them than about a store."""
    return os.getloadavg()[0] > os.cpu_count()


def bound(seconds, beside, factor=3.0):
    """`seconds`; on a busy machine at least `factor` times what the same work took without the fault."""
    return max(seconds, factor * beside) if machine_is_busy() else seconds


def timed(call):
    """(what it returned, seconds)"""
    begun = time.monotonic()
    result = call()
    return result, time.monotonic() - begun


def cpu_seconds(pid):
    """Processor time that a process has used, all of its threads."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def forget_pages(path):
    """The next read of a file comes from its drive. Clean pages only; so it is synced first."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def is_in_memory(path, offset):
    """True if memory holds the page of a byte of a file: one that is being read or sent is not forgotten."""
    fd = os.open(path, os.O_RDONLY)
    try:
        page = _libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED, fd, offset // mmap.PAGESIZE * mmap.PAGESIZE)
    finally:
        os.close(fd)
    if page == _FAILED:
        raise OSError(ctypes.get_errno(), f"{path}: mmap at {offset}")
    try:
        found = ctypes.create_string_buffer(1)
        if _libc.mincore(page, mmap.PAGESIZE, found) != 0:
            raise OSError(ctypes.get_errno(), f"{path}: mincore at {offset}")
        return bool(found.raw[0] & 1)
    finally:
        _libc.munmap(page, mmap.PAGESIZE)
