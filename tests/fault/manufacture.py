"""Objects by the hundred thousand, written into a drive as a target writes them, which no load of PUTs is quick enough for."""

import os
import struct

from harness import attribute
from harness.attribute import varint
from harness.checksums import crc32c


def multiply(drive, template, count, per_directory=1024, name_of=lambda index: b"made-%07d" % index):
    """`count` more objects like `template`, written as a target writes them (docs/on-disk-layout.md)."""
    raw, body = os.getxattr(template, attribute.NAME), template.read_bytes()
    reader = attribute.Reader(raw)
    reader.bytes(9)
    for _ in range(4):  # provider, namespace, bucket
        reader.text()
    head = raw[:reader.at]
    reader.text()
    middle = reader.bytes(2) + varint(reader.number()) + varint(reader.number())  # to map version and incarnation
    counter = reader.number()
    reader.number(), reader.fixed()
    tail = raw[reader.at:-4]
    begun = crc32c(head)
    for index in range(count):
        directory = 2 + index // per_directory
        if index % per_directory == 0:
            (drive / "data" / f"{directory:08x}").mkdir()
        name = name_of(index)
        text = (varint(len(name)) + name + middle + varint(counter + 1 + index) + varint(directory) +
                struct.pack("<Q", index) + tail)
        fd = os.open(drive / "data" / f"{directory:08x}" / f"{index:016x}", os.O_CREAT | os.O_WRONLY, 0o644)
        os.write(fd, body)
        os.setxattr(fd, attribute.NAME, head + text + struct.pack("<I", crc32c(text, begun)))
        os.close(fd)
