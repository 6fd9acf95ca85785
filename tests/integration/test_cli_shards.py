"""`tarshards`: a tar stream becomes shards, whole samples each, whatever happens meanwhile."""

import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile

import pytest
import webdataset
from harness.cli import Cli, Liar, answer
from harness.cluster import PROGRAMS
from harness.waiting import scaled, wait_until

TARSHARDS = PROGRAMS / "tarshards"


def make_dataset(directory, rng, samples, least=200, most=4000):
    """A directory as people have them: some samples of three files, some deeper; {key: {ending: bytes}}."""
    made = {}
    for i in range(samples):
        folder = directory / f"class{i % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        key = f"dataset/class{i % 3}/img{i:05d}"
        made[key] = {}
        for ending in ("jpg", "seg.png", "cls")[:rng.randrange(2, 4)]:
            body = rng.randbytes(rng.randrange(least, most))
            (folder / f"img{i:05d}.{ending}").write_bytes(body)
            made[key][ending] = body
    return made


def tar_of(directory, *options):
    return subprocess.run(["tar", *options, "-cf", "-", directory.name], cwd=directory.parent, capture_output=True,
                          check=True).stdout


def run(url, stream, *options, environment=None):
    result = subprocess.run([TARSHARDS, url, *map(str, options)], input=stream, capture_output=True,
                            timeout=scaled(120), env=os.environ | (environment or {}))
    result.stderr = result.stderr.decode()
    assert all(line.startswith("tarn shards: ") for line in result.stderr.splitlines()), result.stderr
    return result


def samples_in(shards):
    """{key: {ending: bytes}} of all shards; a sample in two of them, or a file twice, is an error."""
    found, where = {}, {}
    for name, body in shards.items():
        archive = tarfile.open(fileobj=io.BytesIO(body))
        for member in archive:
            if not member.isreg():
                continue
            folder, _, base = member.name.rpartition("/")
            stem, _, ending = base.partition(".")
            key = f"{folder}/{stem}"
            assert where.setdefault(key, name) == name, f"{key} is in {where[key]} and {name}"
            assert ending not in found.setdefault(key, {}), member.name
            found[key][ending] = archive.extractfile(member).read()
    return found


@pytest.fixture
def dataset(tmp_path, rng):
    directory = tmp_path / "dataset"
    return directory, make_dataset(directory, rng, 120)


# --- as it is written in the talk --------------------------------------------------------------------------------

@pytest.mark.parametrize("where", ["relay, default bucket", "relay, bucket", "redirecting, bucket"])
def test_it_runs_as_written(make_cluster, dataset, where):
    cluster = make_cluster(targets=2, drives=1)
    directory, samples = dataset
    base = cluster.endpoint if where.startswith("redirecting") else cluster.relay
    path = "" if where.endswith("default bucket") else "/data"
    subprocess.run(["bash", "-c", f"tar -cf - dataset | tarshards {base}{path}/dataset-%06d.tar --size 64KiB"],
                   cwd=directory.parent, check=True, env=os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"})
    shards = cluster.bodies("data", prefix="dataset-")
    assert sorted(shards) == [f"dataset-{i:06d}.tar" for i in range(len(shards))] and len(shards) > 5
    assert all(len(body) <= 65536 for body in shards.values())
    assert samples_in(shards) == samples

    # And what is there is what an unmodified reader wants: each sample once, whole.
    urls = f"{cluster.endpoint}/data/dataset-{{000000..{len(shards) - 1:06d}}}.tar"
    read = {sample["__key__"]: {ending: body for ending, body in sample.items() if not ending.startswith("__")}
            for sample in webdataset.WebDataset(urls, shardshuffle=False)}
    assert read == samples


def test_the_same_command_again_sends_nothing(cluster, bucket, dataset):
    url, stream = f"{cluster.endpoint}/{bucket}/x-%06d.tar", tar_of(dataset[0])
    first = json.loads(run(url, stream, "--size", "64KiB", "--json").stdout)
    assert first["samples"] == len(dataset[1]) and first["sent"] == first["shards"] and first["skipped"] == 0
    before = cluster.bodies(bucket, prefix="x-")
    second = json.loads(run(url, stream, "--size", "64KiB", "--json").stdout)
    assert second["sent"] == 0 and second["skipped"] == first["shards"]
    cluster.delete(bucket, "x-000001.tar")
    cluster.put(bucket, "x-000002.tar", b"something else")
    third = json.loads(run(url, stream, "--size", "64KiB", "--json").stdout)
    assert third["sent"] == 2 and cluster.bodies(bucket, prefix="x-") == before


def test_a_shard_left_from_another_run_is_said(cluster, bucket, dataset):
    url, stream = f"{cluster.endpoint}/{bucket}/x-%06d.tar", tar_of(dataset[0])
    shards = json.loads(run(url, stream, "--size", "64KiB", "--json").stdout)["shards"]
    cluster.put(bucket, f"x-{shards:06d}.tar", b"old")
    result = run(url, stream, "--size", "64KiB")
    assert result.returncode == 6 and f"x-{shards:06d}.tar" in result.stderr


def test_its_own_name_and_the_command_are_one(cluster, bucket, dataset, tmp_path):
    file = tmp_path / "all.tar"
    file.write_bytes(tar_of(dataset[0], "--sort=name"))
    Cli(cluster.endpoint).ok("shards", f"{bucket}/a-@0100.tar", file, "--size", "64KiB")
    assert run(f"{cluster.endpoint}/{bucket}/b-%04d.tar", file.read_bytes(), "--size", "64KiB").returncode == 0
    a, b = cluster.bodies(bucket, prefix="a-"), cluster.bodies(bucket, prefix="b-")
    assert list(a.values()) == list(b.values()) and len(a) > 5
    few = run(f"{cluster.endpoint}/{bucket}/c-@3.tar", file.read_bytes(), "--size", "64KiB")
    assert few.returncode == 2 and "more shards than names" in few.stderr
    one = run(f"{cluster.endpoint}/{bucket}/d-%d", file.read_bytes(), "--samples", "50", "--json")
    assert json.loads(one.stdout)["shards"] == 3


# --- streams of every kind ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("format", ["gnu", "posix", "ustar", "v7"])
def test_every_format_of_tar(cluster, bucket, tmp_path, rng, format):
    directory = tmp_path / "dataset"
    samples = make_dataset(directory, rng, 40)
    if format in ("gnu", "posix"):  # names that need more than a header
        long = "n" * 180
        (directory / long).mkdir()
        (directory / long / f"{long}.ä.bin").write_bytes(b"long")
        samples[f"dataset/{long}/{long}"] = {"ä.bin": b"long"}
        with open(directory / "sparse.bin", "wb") as file:
            file.truncate(3_000_000)
            for at in range(0, 3_000_000, 100_000):
                file.seek(at)
                file.write(b"data")
        samples["dataset/sparse"] = {"bin": (directory / "sparse.bin").read_bytes()}
    sparse = ["--sparse"] if format in ("gnu", "posix") else []
    result = run(f"{cluster.relay}/{bucket}/x-%06d.tar", tar_of(directory, f"--format={format}", *sparse), "--size", "40KiB")
    assert result.returncode == 0, result.stderr
    shards = cluster.bodies(bucket, prefix="x-")
    assert samples_in(shards) == samples and len(shards) > 3
    for body in shards.values():  # GNU tar has nothing to say about them either
        said = subprocess.run(["tar", "-tvf", "-"], input=body, capture_output=True, check=True)
        assert said.stderr == b""


def test_global_headers_are_in_every_shard(cluster, bucket, dataset):
    stream = tar_of(dataset[0], "--format=posix", "--pax-option=comment=everywhere")
    assert run(f"{cluster.endpoint}/{bucket}/x-%d", stream, "--size", "64KiB").returncode == 0
    shards = cluster.bodies(bucket, prefix="x-")
    assert len(shards) > 3
    for body in shards.values():
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            assert archive.pax_headers.get("comment") == "everywhere"


def test_files_of_a_sample_may_lie_apart(cluster, bucket, tmp_path, rng):
    directory = tmp_path / "dataset"
    samples = make_dataset(directory, rng, 60)
    files = [str(path.relative_to(tmp_path)) for path in directory.rglob("*") if path.is_file()]
    rng.shuffle(files)
    stream = subprocess.run(["tar", "-cf", "-", *files], cwd=tmp_path, capture_output=True, check=True).stdout
    url = f"{cluster.endpoint}/{bucket}/x-%d"
    assert run(url, stream, "--size", "40KiB").returncode == 0
    assert samples_in(cluster.bodies(bucket, prefix="x-")) == samples
    result = run(f"{cluster.endpoint}/{bucket}/y-%d", stream, "--size", "40KiB", "--hold", "20KiB")
    assert result.returncode == 6 and "--sort=name" in result.stderr


@pytest.mark.parametrize("cut", [0, 100, 5000, -5000])
def test_a_cut_stream_is_an_error_and_its_last_shard_is_not_stored(cluster, bucket, dataset, cut):
    stream = tar_of(dataset[0], "--sort=name")
    whole = stream.rstrip(b"\0")
    url = f"{cluster.endpoint}/{bucket}/x-%06d.tar"
    result = run(url, whole[:cut] if cut else b"", "--size", "64KiB", "--hold", "0")
    assert result.returncode == 8 and any(words in result.stderr for words in ("cut short", "end marker", "empty"))
    assert samples_in(cluster.bodies(bucket, prefix="x-")).items() <= dataset[1].items()
    assert run(url, stream, "--size", "64KiB").returncode == 0
    assert samples_in(cluster.bodies(bucket, prefix="x-")) == dataset[1]


def test_what_cannot_be_is_said(cluster, bucket, dataset):
    url = f"{cluster.endpoint}/{bucket}/x-%06d.tar"
    for stream, words, code, says in (
            (b"z" * 2000, (), 8, "no tar header"), (b"\x1f\x8b" + b"z" * 2000, (), 8, "zcat"),
            (b"", ("--size", "tiny"), 2, "not a size"), (b"", ("--size", "100"), 2, "--size")):
        result = run(url, stream, *words)
        assert result.returncode == code and says in result.stderr, result
    assert run(f"{cluster.endpoint}/{bucket}/x.tar", b"").returncode == 2
    missing = run(f"{cluster.endpoint}/no-such-bucket/x-%d", tar_of(dataset[0]))
    assert missing.returncode == 3 and "no-such-bucket" in missing.stderr
    nobody = run("http://127.0.0.1:1/b/x-%d", tar_of(dataset[0]))
    assert nobody.returncode == 5 and "127.0.0.1:1" in nobody.stderr


def test_a_busy_target_is_asked_again(tmp_path, rng):
    make_dataset(tmp_path / "dataset", rng, 3)
    missing = answer(404, {"Hdr-Error": '{"tcode":"ErrNotFound","message":"no","status":404}'})
    busy = answer(503, {"Retry-After": "0"}, b"busy")
    with Liar(missing, busy, busy, answer(507, body=b"full")) as liar:
        result = run(f"{liar.cli.environment['TARN_ENDPOINT']}/b/x-%d", tar_of(tmp_path / "dataset"))
        assert "full" in result.stderr and len(liar.requests) == 4
        head = liar.requests[1][2]
        assert head["Ais-Checksum-Type"] == "xxhash2" and head["Expect"] == "100-continue"


def bytes_held_open(pid, directory):
    """Room on the drive of the files below `directory` that a process has open, nameless ones too."""
    held = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since the list was made
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(str(directory)):
                held += os.stat(f"/proc/{pid}/fd/{fd}").st_blocks * 512
    return held


def test_memory_and_room_are_bounded(cluster, bucket, tmp_path, rng):
    """A stream far larger than what is held goes through with a memory and a spool that do not grow."""
    body = rng.randbytes(1 << 20)
    spool = tmp_path / "spool"
    spool.mkdir()
    words = [TARSHARDS, f"{cluster.endpoint}/{bucket}/x-%06d.tar", "--size", "8MiB", "--hold", "16MiB", "-j", "2"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, env=os.environ | {"TMPDIR": str(spool)},
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak_files = 0
    with tarfile.open(fileobj=process.stdin, mode="w|") as archive:
        for i in range(300):
            member = tarfile.TarInfo(f"d/{i:06d}.bin")
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
            if i % 20 == 0:
                peak_files = max(peak_files, bytes_held_open(process.pid, spool))
        status = open(f"/proc/{process.pid}/status").read()
    process.stdin.close()
    assert process.wait(timeout=scaled(60)) == 0, process.stderr.read()
    process.stderr.close()
    if os.environ.get("TARN_TEST_PRESET") not in ("asan", "tsan"):  # they keep what was freed
        assert int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) < 100_000
    assert 0 < peak_files < 256 << 20  # 16 held, 5 shards of 8, and files of 64 that are not yet done with
    assert len(cluster.names(bucket)) == 43 and os.listdir(spool) == []


# --- kill -9 -----------------------------------------------------------------------------------------------------

def digests(cluster, bucket, prefix):
    return {name.removeprefix(prefix): hashlib.sha256(body).hexdigest()
            for name, body in cluster.bodies(bucket, prefix=prefix).items()}


def test_killed_at_any_moment_it_resumes_to_the_same_bytes(make_cluster, tmp_path, rng):
    """Kill -9 of the command again and again, and of targets meanwhile; then the result is that of a quiet run."""
    cluster = make_cluster(targets=3, drives=1)
    directory = tmp_path / "dataset"
    samples = make_dataset(directory, rng, 600, most=60_000)
    stream = tmp_path / "stream.tar"
    stream.write_bytes(tar_of(directory))
    options = ["--size", "1MiB", "-j", "3", "--hold", "4MiB"] if rng.random() < 0.5 else ["--size", "1MiB"]
    if "--hold" in options:  # little is held back only when the files of a sample are neighbours
        stream.write_bytes(tar_of(directory, "--sort=name"))
    quiet = run(f"{cluster.endpoint}/data/quiet-%06d.tar", stream.read_bytes(), *options, "--json")
    assert quiet.returncode == 0, quiet.stderr
    shards = json.loads(quiet.stdout)["shards"]
    seconds = json.loads(quiet.stdout)["seconds"]
    assert shards > 20

    words = [TARSHARDS, f"{cluster.endpoint}/data/run-%06d.tar", *options, "--json"]
    victims = cluster.targets()
    # Of the first one's stream the second half never comes: it cannot end before it is killed.
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(stream.read_bytes()[: stream.stat().st_size // 2])
    assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()
    killed = 1
    for attempt in range(1, 6):
        with open(stream, "rb") as source:
            process = subprocess.Popen(words, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if attempt % 3 == 1:  # a target dies and comes back while it runs
            victim = rng.choice(victims)
            cluster.kill(victim)
            cluster.start(victim)
        try:
            process.wait(timeout=rng.uniform(0.02, max(0.1, seconds)))
        except subprocess.TimeoutExpired:
            process.kill()
            killed += 1
        process.communicate()
    part = digests(cluster, "data", "run-")
    print(f"{killed} times killed; {len(part)} of {shards} shards stored then")
    wanted = digests(cluster, "data", "quiet-")
    assert part.items() <= wanted.items(), "a torn shard"

    with open(stream, "rb") as source:
        process = subprocess.Popen(words, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    victim = rng.choice(victims)
    cluster.kill(victim)
    cluster.start(victim)
    output, errors = process.communicate(timeout=scaled(120))
    assert process.returncode == 0, errors
    told = json.loads(output)
    assert told["shards"] == shards and told["skipped"] >= len(part)
    assert digests(cluster, "data", "run-") == wanted
    assert samples_in(cluster.bodies("data", prefix="run-")) == samples
    wait_until(lambda: cluster.list_page("data").status == 200, 10, "all targets are up again")
    urls = f"{cluster.endpoint}/data/run-{{000000..{shards - 1:06d}}}.tar"
    read = [sample["__key__"] for sample in webdataset.WebDataset(urls, shardshuffle=False)]
    assert sorted(read) == sorted(samples)
