"""An unmodified WebDataset reads shards through redirects, each sample once, whatever happens to targets meanwhile."""

import json
import shutil
import subprocess
import sys
import threading

import pytest
import webdataset
from harness.cluster import REPOSITORY
from harness.upstreams import CREDENTIALS, S3Server
from harness.waiting import scaled, wait_until

# The cutting and the comparing are those of deploy/quickstart: what a user sees there is what is tested here.
sys.path.insert(0, str(REPOSITORY / "deploy" / "demo"))
import make_shards  # noqa: E402
import read_epoch  # noqa: E402


def cut_shards(folder, rng, shards, samples_per_shard):
    """Shards of files with random bytes; returns the manifest."""
    source, out = folder / "source", folder / "shards"
    source.mkdir(parents=True)
    out.mkdir()
    for i in range(shards * samples_per_shard):
        (source / f"{i:06d}.bin").write_bytes(rng.randbytes(rng.randrange(1, 20_000)))
    return out, make_shards.cut(sorted(map(str, source.iterdir())), out, shards)


def expectation(base, manifest):
    return {f"{base}/{shard}": [(key, size, digest) for key, (size, digest) in samples.items()]
            for shard, samples in manifest.items()}


def upload(path, url):
    """`curl -T - -L`, as often as it takes: while a target is down its names answer 503, and a cut is an error."""
    def stored():
        with open(path, "rb") as file:
            return subprocess.run(["curl", "-fsS", "-o", "/dev/null", "-T", "-", "-L", url], stdin=file,
                                  capture_output=True).returncode == 0

    wait_until(stored, 60, f"{url} is stored", every=0.2)


def read_whole(pattern, expected):
    """One epoch over all shards of `pattern`, those that were cut read again; fails unless each sample came once."""
    left, urls, again = sorted(expected), pattern, 0
    for _ in range(20):
        found, errors = read_epoch.read(urls, len(left), read_epoch.Meeting(None, 0))
        for url in left:
            assert read_epoch.wrong_samples(found[url], expected[url]) == []
        left = [url for url in left if len(found[url]) < len(expected[url])]
        if not left:
            return again
        urls, again = left, again + len(left)
    pytest.fail(f"not whole after 20 passes: {left} {errors[-3:]}")


def test_braces_expand_to_shards_and_every_sample_comes_once(cluster, bucket, tmp_path, rng):
    folder, manifest = cut_shards(tmp_path, rng, shards=10, samples_per_shard=30)
    for shard in manifest:
        subprocess.run(["curl", "-fsS", "-o", "/dev/null", "-L", "-T", folder / shard,
                        f"{cluster.endpoint}/{bucket}/{shard}"], check=True)
    dataset = webdataset.WebDataset(f"{cluster.endpoint}/{bucket}/shard-{{000000..000009}}.tar", shardshuffle=10)
    found = {sample["__key__"]: (len(sample["data"]), json.loads(sample["json"])["size"]) for sample in dataset.shuffle(100)}
    assert len(found) == 300
    assert all(size == stated for size, stated in found.values())
    assert read_whole(f"{cluster.endpoint}/{bucket}/shard-{{000000..000009}}.tar",
                      expectation(f"{cluster.endpoint}/{bucket}", manifest)) == 0


def test_a_missing_shard_is_an_error_and_not_an_empty_shard(cluster, bucket):
    dataset = webdataset.WebDataset(f"{cluster.endpoint}/{bucket}/shard-000000.tar", shardshuffle=False)
    with pytest.raises(Exception, match="22|empty|not be opened|read"):
        list(dataset)


def test_epochs_over_upstream_without_it_and_after_a_lost_drive(make_cluster, tmp_path, rng):
    """The first epoch fills the cluster, the second needs no upstream server, the third fetches what a lost drive had."""
    folder, manifest = cut_shards(tmp_path, rng, shards=12, samples_per_shard=20)
    with S3Server(tmp_path / "s3") as server:
        server.client.create_bucket(Bucket="epochs")
        for shard in manifest:
            server.client.upload_file(str(folder / shard), "epochs", shard)
        environment = CREDENTIALS | {"AWS_ENDPOINT_URL": server.url}
        cluster = make_cluster(targets=2, drives=2, environment={"t1": environment, "t2": environment})
        base = f"{cluster.endpoint}/v1/objects/epochs"
        pattern = f"{base}/shard-{{000000..000011}}.tar?provider=s3"
        expected = {f"{url}?provider=s3": samples for url, samples in expectation(base, manifest).items()}
        assert read_whole(pattern, expected) == 0
        wait_until(lambda: cluster.names("s3://epochs", flags="1") == sorted(manifest), 20, "all shards are stored")
        server.stop()
        assert read_whole(pattern, expected) == 0
        held = {drive: len(list((drive / "data").glob("*/*"))) for target in ("t1", "t2") for drive in cluster.drives(target)}
        lost = max(held, key=held.get)  # with any other, one run in thirty had nothing there that could be lost
        target = "t1" if lost in cluster.drives("t1") else "t2"
        assert held[lost] > 0, held
        cluster.kill(target)
        shutil.rmtree(lost)
        lost.mkdir()
        cluster.add_arguments(target, "--replace-drive", str(lost))
        cluster.start(target, environment=environment)
        server.start()
        assert read_whole(pattern, expected) == 0
        wait_until(lambda: cluster.names("s3://epochs", flags="1") == sorted(manifest), 20, "all shards are stored again")


class Nemesis(threading.Thread):
    """Kills targets and starts them again, `kills` times, one at a time; then it is over."""

    def __init__(self, cluster, rng, kills):
        super().__init__()
        self.cluster, self.rng, self.kills = cluster, rng, kills
        self.name_on = {node: cluster.names_owned_by(node, "data", 1)[0] for node in cluster.targets()}
        self.error = None

    def run(self):
        try:
            for kill in range(self.kills):
                victim = self.rng.choice(self.cluster.targets())
                self.cluster.kill(victim)
                if kill % 2:  # every other time it stays away until the cluster says so to its clients
                    name = self.name_on[victim]
                    wait_until(lambda: self.cluster.get("data", name, follow=False).status == 503, 10, "a 503")
                self.cluster.start(victim)
        except BaseException as error:  # reported by the test's own thread
            self.error = error


class Writer(threading.Thread):
    """Adds shards, one after the other, until it is told to stop."""

    def __init__(self, folder, shards, base):
        super().__init__()
        self.folder, self.shards, self.base = folder, shards, base
        self.enough = threading.Event()
        self.written = []
        self.error = None

    def run(self):
        try:
            for shard in self.shards:
                if self.enough.is_set():
                    return
                upload(self.folder / shard, f"{self.base}/{shard}")
                self.written.append(shard)
        except BaseException as error:
            self.error = error


def test_every_sample_once_while_shards_are_added_and_targets_are_killed(fresh_cluster, tmp_path, rng):
    cluster = fresh_cluster
    base = f"{cluster.endpoint}/data"
    folder, manifest = cut_shards(tmp_path / "first", rng, shards=100, samples_per_shard=10)
    assert len(manifest) == 100
    for shard in manifest:
        upload(folder / shard, f"{base}/{shard}")
    more_folder, more = cut_shards(tmp_path / "more", rng, shards=200, samples_per_shard=2)
    more = {shard.replace("shard", "more"): samples for shard, samples in more.items()}
    for shard in more:
        (more_folder / shard.replace("more", "shard")).rename(more_folder / shard)

    nemesis, writer = Nemesis(cluster, rng, kills=4), Writer(more_folder, more, base)
    expected = expectation(base, manifest)
    nemesis.start()
    writer.start()
    epochs = again = 0
    while nemesis.is_alive() or epochs == 0:
        again += read_whole(f"{base}/shard-{{000000..000099}}.tar", expected)
        epochs += 1
    writer.enough.set()
    nemesis.join(scaled(60))
    writer.join(scaled(90))
    assert nemesis.error is None and writer.error is None, (nemesis.error, writer.error)
    print(f"{epochs} epochs, {again} shards read again, {len(writer.written)} shards added")

    # What the writer was told is stored, is; and a quiet epoch needs no second try.
    assert writer.written
    expected |= expectation(base, {shard: more[shard] for shard in writer.written})
    wait_until(lambda: cluster.list_page("data").status == 200, 10, "all targets are up again")
    assert cluster.names("data") == sorted(set(manifest) | set(writer.written))
    assert read_whole(sorted(expected), expected) == 0
