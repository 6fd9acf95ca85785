#!/usr/bin/env python3
"""Reads one shuffled epoch with an unmodified WebDataset and compares every sample with the manifest of make_shards.py.

  read_epoch.py BASE_URL MANIFEST [--meeting DIR]

With --meeting it creates DIR/under-way after a third of the samples and waits until DIR/go-on is there, so that
whoever started it can do something to the cluster in the middle of the epoch.

An object has a single copy here. While its target is down its name answers 503 with Retry-After, which WebDataset's
curl retries by itself; but a transfer that the death of a target cuts, or a connection that is refused before the
proxy has noticed, ends that shard with an error. As a training job would, this reader drops what it has of such a
shard and reads it again; so every sample still counts exactly once.
"""

import argparse
import hashlib
import json
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import webdataset

SHUFFLE_BUFFER = 1000
TRIES = 10


class Meeting:
    """Tells the starter that the epoch is under way, once, and waits for the word to go on."""

    def __init__(self, directory, at):
        self.directory = directory
        self.at = at

    def pass_by(self, count):
        if self.directory is None or count < self.at:
            return
        (self.directory / "under-way").touch()
        deadline = time.monotonic() + 60
        while not (self.directory / "go-on").exists():
            if time.monotonic() > deadline:
                sys.exit("read_epoch: nobody came to the meeting")
            time.sleep(0.01)
        self.directory = None


def facts_of(sample):
    """What must agree with the manifest: size and hash of the bytes; the sample's own .json must agree too."""
    data = sample["data"]
    stated = json.loads(sample["json"])["size"]
    if stated != len(data):
        sys.exit(f"read_epoch: {sample['__key__']} has {len(data)} bytes, its .json says {stated}")
    return (sample["__key__"], len(data), hashlib.sha256(data).hexdigest())


def read(urls, shards, meeting):
    """One pass over `urls` (`shards` of them) in random order: what came of each shard, and the errors met."""
    errors = []

    def note_and_continue(error):
        errors.append(str(error))
        return True

    dataset = webdataset.WebDataset(urls, shardshuffle=shards, handler=note_and_continue, empty_check=False)
    found = defaultdict(list)
    for count, sample in enumerate(dataset.shuffle(SHUFFLE_BUFFER), 1):
        found[sample["__url__"]].append(facts_of(sample))
        meeting.pass_by(count)
    return found, errors


def wrong_samples(found, expected):
    """Samples that the shard does not have, or that came twice; what is merely missing is not wrong yet."""
    return list((Counter(found) - Counter(expected)).elements())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base_url")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--meeting", type=Path)
    arguments = parser.parse_args()

    manifest = json.loads(arguments.manifest.read_text())
    expected = {
        f"{arguments.base_url}/{shard}": [(key, size, digest) for key, (size, digest) in samples.items()]
        for shard, samples in manifest.items()
    }
    total = sum(len(samples) for samples in expected.values())
    meeting = Meeting(arguments.meeting, total // 3)
    started = time.monotonic()

    left, cut = sorted(expected), 0
    # The first time as people write it, with braces; then only what is left.
    urls = f"{arguments.base_url}/shard-{{000000..{len(left) - 1:06d}}}.tar"
    for _ in range(TRIES):
        found, errors = read(urls, len(left), meeting)
        for url in left:
            wrong = wrong_samples(found[url], expected[url])
            if wrong:
                sys.exit(f"read_epoch: {url} gave a sample that was not stored so: {wrong[0]}")
        # A cut that falls between two tar members looks like the end of the shard to Python's tarfile: count.
        left = [url for url in left if len(found[url]) < len(expected[url])]
        if not left:
            break
        urls, cut = left, cut + len(left)
        time.sleep(1)
    if left:
        sys.exit(f"read_epoch: {left[0]} is still not whole after {TRIES} tries: {errors[-1:]}")

    seconds = time.monotonic() - started
    size = sum(size for samples in expected.values() for _, size, _ in samples)
    again = f"; {cut} shards were cut by the kill and read again" if cut else ""
    print(f"{total} samples, each once, every byte equal ({size} bytes): {seconds:.1f} s, {total / seconds:.0f} samples/s, "
          f"{size / seconds / 1e6:.0f} MB/s{again}")


if __name__ == "__main__":
    main()
