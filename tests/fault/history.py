"""The calls of clients and what they saw, exactly enough to judge a store by.

Every PUT writes a value of its own: each block of 4 KiB carries its place and the number of the operation that wrote
it. So any part of a body says which PUT it came from, and a mixture of two shows. Every client appends what it did to a
file of its own. All times are CLOCK_MONOTONIC, one clock for all clients and nodes of a machine, so the recorded order
in real time is exact.
"""

import dataclasses
import functools
import itertools
import json
import os
import pathlib
import struct
import threading
import time
import zlib

BLOCK = 4096
_WORDS = BLOCK // 8
_WORD = struct.Struct("<Q")

UNKNOWN = "unknown"  # a write without an answer, or with a 5xx: it took effect once, at any time, or never


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@functools.lru_cache(maxsize=64)
def value_bytes(value, length, offset=0):
    """`length` bytes from `offset` on of the value with this number. The whole value may be of any length.

    A block is: the value, the number of the block, then the value 510 times, as little-endian words.
    """
    first, last = offset // BLOCK, (offset + length + BLOCK - 1) // BLOCK
    word = _WORD.pack(value)
    rest = word * (_WORDS - 2)
    data = b"".join(word + _WORD.pack(block) + rest for block in range(first, last))
    start = offset - first * BLOCK
    return data[start : start + length]


def value_of(body, offset=0):
    """The value that a body, or the part of one from `offset` on, was written with.

    None when the bytes are of more than one value, or of none; raises ValueError below 16 bytes, where too
    little is there to say.
    """
    word = -(-offset // 8)
    if word % _WORDS == 1:
        word += 1
    start = word * 8 - offset
    if start + 8 > len(body):
        raise ValueError(f"{len(body)} bytes are too few")
    value = _WORD.unpack_from(body, start)[0]
    return value if body == value_bytes(value, len(body), offset) else None


@dataclasses.dataclass(slots=True)
class Op:
    """One call of one client. Times are nanoseconds; `ret` of a write with an unknown outcome is ignored."""

    client: str
    op: str  # put, delete, get, head, list
    bucket: str
    name: str  # list: the prefix
    call: int
    ret: int
    status: int = 0  # 0: no answer
    etag: str = ""
    length: int = -1
    crc: int = 0
    first: str = ""  # the first and last 16 bytes, in hex
    last: str = ""
    value: int | None = None  # put: what it wrote; get: what the body says
    offset: int = 0  # of a range
    total: int = -1  # of the whole object, as the answer says
    if_none_match: bool = False  # put: If-None-Match: *
    if_match: str = ""  # the ETag asked for
    stale: bool = False  # the answer is marked Tarn-Stale: old by contract
    wrong: str = ""  # what is already known to be wrong with the answer (a mixed or short body, headers)
    names: list | None = None  # list: [name, size, ETag] of each entry, in order; size and ETag may be None

    @property
    def key(self):
        return self.bucket, self.name

    @property
    def outcome(self):
        """"done", "refused" (no effect, nothing seen), "absent", "precondition", UNKNOWN, or "failed" (a
        read without a result)."""
        writes = self.op in ("put", "delete")
        if self.status == 0 or self.status >= 500:
            return UNKNOWN if writes else "failed"
        if 200 <= self.status < 300:
            return "done"
        if self.status == 404 and self.op != "put":
            return "absent"
        if self.status == 412:
            return "precondition"
        return "refused" if writes else "failed"

    def line(self):
        """For people."""
        what = f"{self.op} {self.bucket}/{self.name}"
        if self.value is not None:
            what += f" value={self.value:x}"
        if self.offset:
            what += f" from={self.offset}"
        if self.if_none_match:
            what += " if-none-match=*"
        if self.if_match:
            what += f" if-match={self.if_match}"
        seen = f" etag={self.etag}" if self.etag else ""
        seen += " stale" if self.stale else ""
        seen += f" names={len(self.names)}" if self.names is not None else ""
        return f"[{self.call / 1e9:.6f} .. {self.ret / 1e9:.6f}] {self.client}: {what} -> {self.status}{seen}"


_recorders = itertools.count(1)


class Recorder:
    """Makes values and keeps what clients did, one file for each below `directory`. None: in memory only, unless
    TARN_TEST_EVIDENCE names a directory, as it does in tests/soak.

    Threads: `client` and `new_value` may be called by any; a `ClientLog` belongs to one.
    """

    def __init__(self, directory=None, first_value=1):
        evidence = os.environ.get("TARN_TEST_EVIDENCE")
        if evidence and not directory:
            directory = pathlib.Path(evidence) / f"history{next(_recorders)}"
        self._directory = pathlib.Path(directory) if directory else None
        if self._directory:
            self._directory.mkdir(parents=True, exist_ok=True)
        # The low bytes differ from one value to the next, and no word of a body looks like a small number.
        self._numbers = itertools.count(first_value)
        self._lock = threading.Lock()
        self._taken = {}  # key -> what values of less than 8 bytes look like there
        self._logs = []

    def new_value(self, size, bucket="", name=""):
        """A value of this size that no other PUT to the name has; the size grows when there is none left."""
        with self._lock:
            number = next(self._numbers)
            value = 0x7A52_0000_0000_0000 | number
            taken = self._taken.setdefault((bucket, name), set())
            while size < 8 and (size == 0 or value_bytes(value, size) in taken):
                if size == 0 and b"" not in taken:
                    break
                size = max(1, size * 2)
            if size < 8:
                taken.add(value_bytes(value, size))
        return value, size

    def client(self, name):
        log = ClientLog(name, self._directory / f"{name}.jsonl" if self._directory else None)
        with self._lock:
            self._logs.append(log)
        return log

    def ops(self):
        """Everything so far, by time of call."""
        with self._lock:
            logs = list(self._logs)
        return sorted((op for log in logs for op in log.ops), key=lambda op: op.call)

    def begin_anew(self, ops):
        """Forgets all calls so far, and their files, but for `ops`. The clients that made them are done."""
        with self._lock:
            for log in self._logs:
                log.forget()
            self._logs = []
        before = self.client("before")
        for op in ops:
            before.append(op)

    def close(self):
        for log in self._logs:
            log.close()


class ClientLog:
    """The calls of one client."""

    def __init__(self, name, path=None):
        self.name = name
        self.ops = []
        self._path = path
        self._file = open(path, "w", encoding="utf-8") if path else None

    def append(self, op):
        self.ops.append(op)
        if self._file:
            self._file.write(json.dumps(dataclasses.asdict(op)) + "\n")
        return op

    def close(self):
        if self._file:
            self._file.close()
            self._file = None

    def forget(self):
        self.close()
        self.ops = []
        if self._path:
            self._path.unlink()


def load(directory):
    """The history that recorders have left in a directory."""
    ops = []
    for path in sorted(pathlib.Path(directory).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            ops.append(Op(**json.loads(line)))
    return sorted(ops, key=lambda op: op.call)


def describe_body(op, body):
    """Fills in what a body says: length, checksum, ends, and its value (or that it is mixed)."""
    op.length = len(body)
    op.crc = zlib.crc32(body)
    op.first, op.last = body[:16].hex(), body[-16:].hex()
    try:
        op.value = value_of(body, op.offset)
        if op.value is None:
            op.wrong = "the body is of more than one value, or of none"
    except ValueError:
        op.value = None  # too short to carry its number; the checker looks for who wrote these bytes
    return op
