"""Images of what a recording disk may hold after a power cut."""

import bisect
import mmap
import os
import struct

from commands import copy_sparse


class CrashImages:
    """Builds what a recording disk may hold after the power failed at any point of its log.

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
        """An image of the disk after a power cut that follows the first `cut` records.

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
