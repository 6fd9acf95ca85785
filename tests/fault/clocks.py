"""Clocks that are wrong, one program at a time: tests/fault/tools/faultclock.cc before its own libraries."""

import mmap
import struct

from harness.cluster import PROGRAMS

_LIBRARY = PROGRAMS / "libfaultclock.so"


class WrongClock:
    """`drift`: by how much all clocks of a program run too fast, say 0.1; `set_ahead` moves its wall clock at any time."""

    def __init__(self, file, drift=0.0):
        file.write_bytes(struct.pack("<qq", 0, round(drift * 1_000_000)))
        with open(file, "r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), 16)
        self.environment = {"LD_PRELOAD": str(_LIBRARY), "TARN_TEST_CLOCK": str(file)}

    def set_ahead(self, seconds):
        self._memory[:8] = struct.pack("<q", round(seconds * 1_000_000_000))
