"""The attribute `user.tarn` of data files, read by the grammar in docs/on-disk-layout.md."""

import contextlib
import os
import struct
import time

from harness.checksums import crc32c
from harness.waiting import guarded

NAME = "user.tarn"


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, count):
        self.at += count
        assert self.at <= len(self.data), "cut short"
        return self.data[self.at - count : self.at]

    def fixed(self):
        return struct.unpack("<Q", self.bytes(8))[0]

    def number(self):
        value, shift = 0, 0
        while True:
            (byte,) = self.bytes(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self):
        return self.bytes(self.number()).decode()


def decode(data):
    """What an attribute says; "place" is the only part that differs between copies."""
    reader = Reader(data)
    assert reader.bytes(1) == b"\x01"
    out = {"bucket_id": reader.fixed(), "provider": reader.text(), "ns_uuid": reader.text(), "ns_name": reader.text(),
           "bucket": reader.text(), "name": reader.text()}
    format = reader.bytes(1)[0]
    assert format in (1, 2)
    out["kind"] = reader.bytes(1)[0]
    out["generation"] = (reader.number(), reader.number(), reader.number())
    out["place"] = (reader.number(), reader.fixed())
    out |= {"size": reader.number(), "xxh64": reader.fixed(), "version": reader.number(), "modified_ns": reader.fixed()}
    out["pairs"] = {reader.text(): reader.text() for _ in range(reader.number())}
    if format == 2:
        out |= {"slice": _slice(reader)} if out["kind"] == 3 else {"coding": _coding(reader)}
    assert reader.at == len(data) - 4, "something else before the checksum"
    return out


def _coding(reader):
    layout, k, m = reader.bytes(3)
    out = {"layout": layout, "k": k, "m": m, "block_bytes": reader.number(), "set": reader.fixed(),
           "written": (reader.number(), reader.number(), reader.number())}
    ids = [""] + [reader.text() for _ in range(reader.number())]
    out["holders"] = [ids[holder] for holder in reader.bytes(k + m)]
    out["whole"] = ids[reader.bytes(1)[0]]
    return out


def _slice(reader):
    out = {"set": reader.fixed()} | dict(zip(("k", "m", "index"), reader.bytes(3)))
    return out | {"block_bytes": reader.number(), "file_bytes": reader.number(),
                  "written": (reader.number(), reader.number(), reader.number())}


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def with_generation(data, generation):
    """The attribute of the same object as another change made it."""
    reader = Reader(data)
    reader.bytes(1), reader.fixed()
    for _ in range(5):
        reader.text()
    reader.bytes(2)
    begin = reader.at
    for _ in range(3):
        reader.number()
    made = data[:begin] + b"".join(map(varint, generation)) + data[reader.at:-4]
    return made + struct.pack("<I", crc32c(made))


def read(path):
    """What the attribute of a data file says."""
    return decode(os.getxattr(path, NAME))


def paths(drives):
    """All data files below these drives, unfinished ones among them."""
    return [path for drive in drives for path in sorted((drive / "data").glob("*/*"))]


def data_files(drives):
    """{path: raw attribute} of the finished data files below these drives."""
    found = {}
    for drive in drives:  # each read as soon as it is listed: what moves meanwhile is seen twice rather than not at all
        for path in paths([drive]):
            with contextlib.suppress(OSError):  # unfinished, or gone since
                found[path] = os.getxattr(path, NAME)
    return found


def decoded(drives):
    """{path: what it says} of the finished data files below these drives."""
    return {path: decode(raw) for path, raw in data_files(drives).items()}


def slices(drives):
    """[(path, what it says)] of all slices of coded objects."""
    return [(path, said) for path, said in decoded(drives).items() if said["kind"] == 3]


def objects(drives, bucket=None):
    """{name: what its file says, without its place} of objects, all or those of a bucket. A name must have one file, except
    while another one replaces it."""
    deadline = time.monotonic() + guarded(2)
    while True:
        found, doubled = {}, []
        for path, said in decoded(drives).items():
            if bucket not in (None, said["bucket"]) or said["kind"] == 3:
                continue
            del said["place"]
            if said["name"] in found:
                doubled.append(f"{said['name']} lies in two files, one is {path}")
            found[said["name"]] = said
        if not doubled:
            return found
        assert time.monotonic() < deadline, doubled[0]
        time.sleep(0.05)
