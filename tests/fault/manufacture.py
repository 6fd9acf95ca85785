"""Objects by the hundred thousand, written into a drive as a target writes them, which no load of PUTs is quick enough for."""

import os
import struct

from harness.checksums import crc32c
from stage import ATTRIBUTE


def number(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def take_number(data, place):
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def multiply(drive, template, count, per_directory=1024, name_of=lambda index: b"made-%07d" % index):
    """`count` more objects like `template`, written as a target writes them (docs/on-disk-layout.md)."""
    attribute, body = os.getxattr(template, ATTRIBUTE), template.read_bytes()
    place = 9
    for _ in range(4):  # provider, namespace, bucket
        length, place = take_number(attribute, place)
        place += length
    head = attribute[:place]
    length, place = take_number(attribute, place)
    place += length
    record = place
    place += 2  # format and kind
    version, place = take_number(attribute, place)
    incarnation, place = take_number(attribute, place)
    counter, place = take_number(attribute, place)
    _, place = take_number(attribute, place)
    tail = attribute[place + 8 : -4]
    middle = attribute[record : record + 2] + number(version) + number(incarnation)
    begun = crc32c(head)
    for index in range(count):
        directory = 2 + index // per_directory
        if index % per_directory == 0:
            (drive / "data" / f"{directory:08x}").mkdir()
        name = name_of(index)
        text = (number(len(name)) + name + middle + number(counter + 1 + index) + number(directory) +
                struct.pack("<Q", index) + tail)
        fd = os.open(drive / "data" / f"{directory:08x}" / f"{index:016x}", os.O_CREAT | os.O_WRONLY, 0o644)
        os.write(fd, body)
        os.setxattr(fd, ATTRIBUTE, head + text + struct.pack("<I", crc32c(text, begun)))
        os.close(fd)
