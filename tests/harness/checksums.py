"""Checksums that Python's library lacks."""

_CRC32C = []


def crc32c(data, crc=0):
    """CRC32C of `data`; `crc` is that of the bytes before it."""
    if not _CRC32C:
        for byte in range(256):
            value = byte
            for _ in range(8):
                value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
            _CRC32C.append(value)
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
