"""AIStore's PyTorch data sets, unmodified. Needs torch: Debian's python3-torch, seen from a Python environment made
with --system-site-packages; without it the file is left out (tests/optional.txt)."""

import hashlib
import io
import tarfile

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (Debian: python3-torch)")

from aistore.pytorch import AISIterDataset, AISMapDataset, AISParallelMapDataset, AISShardReader  # noqa: E402
from harness.sdk import client_of  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402


@pytest.fixture
def samples(cluster, bucket, rng):
    """(the bucket as the package has it, {name: content})"""
    made = client_of(cluster.endpoint).bucket(bucket)
    contents = {f"train/{i:03d}.bin": rng.randbytes(rng.randrange(1, 50_000)) for i in range(40)}
    for name, content in contents.items():
        made.object(name).get_writer().put_content(content)
    made.object("other/x").get_writer().put_content(b"not of this set")
    return made, contents


def digest(content):
    return hashlib.sha256(bytes(content)).hexdigest()


def test_map_data_set(samples):
    bucket, contents = samples
    data = AISMapDataset(bucket, prefix_map={bucket: "train/"})
    assert len(data) == len(contents)
    loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=list)
    found = {name: digest(content) for batch in loader for name, content in batch}
    assert found == {name: digest(content) for name, content in contents.items()}


def test_parallel_map_data_set(samples):
    """Each object in several ranges at the same time."""
    bucket, contents = samples
    data = AISParallelMapDataset(bucket, prefix_map={bucket: "train/"}, num_workers=3)
    found = {}
    for i in range(len(data)):
        name, buffer = data[i]
        with buffer:
            found[name] = digest(buffer.tobytes())
    assert found == {name: digest(content) for name, content in contents.items()}


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_data_set(samples, workers):
    bucket, contents = samples
    data = AISIterDataset(bucket, prefix_map={bucket: "train/"})
    for _ in range(2):  # epochs
        found = {name: digest(content) for name, content in DataLoader(data, batch_size=None, num_workers=workers)}
        assert found == {name: digest(content) for name, content in contents.items()}


def test_shards(cluster, bucket, rng):
    made = client_of(cluster.endpoint).bucket(bucket)
    expected = {}
    for shard in range(4):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for i in range(10):
                key = f"{shard}-{i:03d}"
                for extension in ("jpg", "cls"):
                    content = rng.randbytes(rng.randrange(1, 5000))
                    entry = tarfile.TarInfo(f"{key}.{extension}")
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))
                    expected[key, extension] = digest(content)
        made.object(f"shard-{shard:06d}.tar").get_writer().put_content(packed.getvalue())
    found = {(key, extension): digest(content) for key, sample in DataLoader(AISShardReader(made), batch_size=None)
             for extension, content in sample.items() if content}
    assert found == expected
