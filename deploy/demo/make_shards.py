#!/usr/bin/env python3
"""Cuts real files into tar shards for WebDataset.

  make_shards.py OUT [DIR...] [--most N]

Each file becomes one sample of two members: KEY.data (its bytes) and KEY.json (its path, size and type). Beside the
shards OUT/manifest.json says what a reader must find: {shard: {key: [size, sha256]}}. The same files give the same
shards, byte for byte.
"""

import argparse
import hashlib
import io
import json
import mimetypes
import os
import re
import stat
import sys
import tarfile
from pathlib import Path

LARGEST_FILE = 8 << 20  # one huge locale archive would make one shard unlike all others
SHARDS = 64


def files_below(directories):
    """Readable regular files, no links, so that no file comes twice; in a stable order."""
    for directory in directories:
        for folder, folders, names in os.walk(directory):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                try:
                    status = os.lstat(path)
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_FILE and os.access(path, os.R_OK):
                    yield path


def choose(paths, most):
    """At most `most` of them, spread over the whole tree rather than its first corner, and the same each time."""
    paths = list(paths)
    if len(paths) > most:
        paths = sorted(paths, key=lambda path: hashlib.sha256(os.fsencode(path)).digest())[:most]
    return sorted(paths)


def key_of(index, path):
    """WebDataset takes everything up to the first dot of the file name as the key: so no dot in it, and a number that
    keeps it unique when two files have one name."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", os.path.basename(path).split(".")[0])[:40]
    return f"{index:06d}-{stem}" if stem else f"{index:06d}"


def add_member(tar, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def write_shard(target, samples):
    """Writes (index, path) samples to one tar file; returns {key: [size, sha256]}."""
    manifest = {}
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as tar:
        for index, path in samples:
            try:
                data = Path(path).read_bytes()
            except OSError:
                continue  # gone or closed to us since we looked
            key = key_of(index, path)
            kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
            facts = {"path": path, "size": len(data), "type": kind}
            add_member(tar, f"{key}.data", data)
            add_member(tar, f"{key}.json", json.dumps(facts, ensure_ascii=True).encode())
            manifest[key] = [len(data), hashlib.sha256(data).hexdigest()]
    return manifest


def cut(paths, out, shards=SHARDS):
    """Cuts the files `paths` into about `shards` shards in `out`; returns the manifest."""
    samples = list(enumerate(paths))
    per_shard = max(1, -(-len(samples) // shards))
    manifest = {}
    for first in range(0, len(samples), per_shard):
        name = f"shard-{first // per_shard:06d}.tar"
        manifest[name] = write_shard(out / name, samples[first:first + per_shard])
    return manifest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("directories", nargs="+", metavar="DIR")
    parser.add_argument("--most", type=int, default=12000, help="samples (12000)")
    parser.add_argument("--least", type=int, default=1, help="fail when there are fewer samples than this")
    arguments = parser.parse_args()

    arguments.out.mkdir(parents=True, exist_ok=True)
    manifest = cut(choose(files_below(arguments.directories), arguments.most), arguments.out)
    count = sum(len(shard) for shard in manifest.values())
    if count < arguments.least:
        sys.exit(f"make_shards: {' '.join(arguments.directories)} hold {count} readable files, want {arguments.least}")
    (arguments.out / "manifest.json").write_text(json.dumps(manifest))
    size = sum((arguments.out / name).stat().st_size for name in manifest)
    print(f"{count} samples in {len(manifest)} shards, {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
