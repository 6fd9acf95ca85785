"""`tarn` with many objects at a time: templates, cp, stat, put -r, get into a directory, progress."""

import json
import os
import pty
import re
import signal
import subprocess
import threading
import time

import pytest
from harness import jobs
from harness.cli import HELLO, XXH64_OF_HELLO, Cli, Liar, answer
from harness.waiting import guarded, scaled, wait_until
from harness.wire import Wire


@pytest.fixture
def shards(cluster, bucket):
    """Twelve objects s-00.tar to s-11.tar and what is in them."""
    return cluster.fill(bucket, {f"s-{i:02d}.tar": f"shard {i}".encode() * (i + 1) for i in range(12)})


# --- templates ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("template", ["s-{00..11}.tar", "s-@12.tar", "s-%02d.tar"])
def test_a_template_stands_for_its_names(cli, bucket, shards, template, here):
    assert cli.ok("cat", f"{bucket}/{template}") == b"".join(shards[name] for name in sorted(shards))
    told = json.loads(cli.ok("stat", "--json", f"{bucket}/{template}"))
    assert [(each["object"], each["size"]) for each in told] == [(name, len(shards[name])) for name in sorted(shards)]
    cli.ok("get", f"{bucket}/{template}", here)
    assert {path.name: path.read_bytes() for path in here.iterdir()} == shards


def test_templates_with_steps_and_literal_names(cli, cluster, bucket, shards):
    assert cli.ok("cat", f"{bucket}/s-{{00..11..5}}.tar") == shards["s-00.tar"] + shards["s-05.tar"] + shards["s-10.tar"]
    for name in ("user@2024", "a{1..2}", "n-%03d"):
        cli.ok("put", "--literal", "-", f"{bucket}/{name}", input=name.encode())
        assert cli.ok("cat", "--literal", f"{bucket}/{name}") == name.encode()
        assert cluster.get(bucket, name).body == name.encode()
    for command in ("get", "cat", "stat", "rm"):
        missing = cli(command, f"{bucket}/user@3.jpg")
        assert missing.returncode == 3 and "stands for 3 names" in missing.stderr and "--literal" in missing.stderr, missing
    cli.refuses(3, "cat", f"{bucket}/nothing")


def test_wrong_templates_are_usage_errors_that_name_them(cli, bucket):
    for template, what in (("{9..1}", "counts down"), ("{a..b}", "whole number"), ("{1..9", "closing brace"),
                           ("{0..9999999}", "more than"), ("%6d", "%06d"), ("@0", "no name")):
        for command in ("cat", "stat", "rm"):
            result = cli.refuses(2, command, f"{bucket}/x-{template}", says=what)
            assert template.strip("{}") in result.stderr
    cli.refuses(3, "cat", f"{bucket}/none-%06d.tar", says="no object with such a number")


def test_rm_takes_templates_and_says_which_were_missing(cli, cluster, bucket, shards):
    result = cli("rm", f"{bucket}/s-{{08..13}}.tar")
    assert result.returncode == 7
    assert sorted(re.findall(r"s-1[23]\.tar", result.stderr)) == ["s-12.tar", "s-13.tar"]
    assert cluster.names(bucket) == [f"s-{i:02d}.tar" for i in range(8)]
    cli.ok("rm", "-f", f"{bucket}/s-{{00..99}}.tar")
    assert cluster.names(bucket) == []
    cli.ok("rm", "-f", f"{bucket}/s-%02d.tar")


# --- stat and cp -------------------------------------------------------------------------------------------------

def test_stat_shows_all_that_a_head_says(cli, cluster, bucket):
    cluster.put(bucket, "a b", b"hello")
    head = cluster.head(bucket, "a b").headers
    told = json.loads(cli.ok("stat", "--json", f"{bucket}/a b"))[0]
    assert (told["bucket"], told["object"], told["size"], told["checksum"]) == (bucket, "a b", 5, XXH64_OF_HELLO)
    assert told["etag"] == head["ETag"] and told["modified"] == head["Last-Modified"]
    for name, value in head.items():
        if name.startswith("Ais-"):
            assert told["headers"][name] == value
    text = cli.ok("stat", f"{bucket}/a b").decode()
    assert ["size", "5"] in [line.split() for line in text.splitlines()] and XXH64_OF_HELLO in text
    result = cli("stat", f"{bucket}/a b", f"{bucket}/none")
    assert result.returncode == 7 and "none" in result.stderr and "a b" in result.stdout.decode()
    cli.refuses(3, "stat", f"{bucket}/none")


def test_jobs_on_many_objects(cli, cluster, bucket):
    """By --template, --prefix, --list and --all the cluster does it, not the command."""
    goal = f"{bucket}-many"
    names = [f"a-{i:03}" for i in range(12)] + ["dir/x", "dir/y"]
    cluster.fill(bucket, names)
    assert cli.ok("cp", bucket, goal, "--template", "a-@010", "--prepend", "p/").startswith(b"copied 10 objects")
    assert cluster.names(goal) == [f"p/a-{i:03}" for i in range(10)]  # as in `tarn get`: 000 to 009
    assert json.loads(cli.ok("cp", bucket, goal, "--list", "dir/x,a-011", "--json"))["objects"] == 2
    assert b"would copy 14 objects" in cli.ok("cp", bucket, goal, "--all", "--dry-run")
    assert cli.ok("rm", goal, "--prefix", "p/", "--dry-run").startswith(b"would delete 10 objects")
    assert cli.ok("rm", "--list", "a-011,dir/x", goal).startswith(b"deleted 2 objects")
    cli.refuses(1, "rm", goal, "--list", "no-such,p/a-000", says="no-such does not exist")
    cli.ok("rm", goal, "--list", "no-such", "--continue-on-error")
    job = cli.ok("rm", goal, "--template", "p/a-{000..004..2}", "--no-wait").decode().strip()
    wait_until(lambda: jobs.status(cluster, job)["end_time"], 20, "the job ends")
    assert cluster.names(goal) == ["p/a-001", "p/a-003"] + [f"p/a-{i:03}" for i in range(5, 10)]
    cli.ok("rm", goal, "--template", "p/a-%03d", "-q")
    assert cluster.names(goal) == []
    cluster.destroy_bucket(goal)
    for words, says in [(("--template", "plain"), "no template"), (("--dry-run",), "which objects"), (("--all", "--prefix", "x"), "which objects"),
                        (("--prefix", "a@1"), "for a template")]:
        cli.refuses(2, "rm", bucket, *words, says=says)
    cli.refuses(2, "rm", f"{bucket}/x", "--all", says="")
    cli.refuses(2, "cp", bucket, "--all", says="write: tarn cp")
    cli.refuses(2, "cp", bucket, bucket, "--all", says="into itself")
    assert cluster.names(bucket) == sorted(names)


def test_cp_copies_one_or_many(cli, cluster, bucket, shards):
    cli.ok("cp", f"{bucket}/s-03.tar", f"{bucket}/copy")
    assert cluster.get(bucket, "copy").body == shards["s-03.tar"]
    cli.ok("cp", f"{bucket}/s-@12.tar", f"{bucket}/dir/")
    cli.ok("cp", f"{bucket}/s-%02d.tar", f"{bucket}/train-%06d")
    told = json.loads(cli.ok("cp", "--json", f"{bucket}/s-{{00..01}}.tar", f"{bucket}/pair-{{7..8}}"))
    assert (told["done"], told["failed"], told["bytes"]) == (2, 0, len(shards["s-00.tar"]) + len(shards["s-01.tar"]))
    for i in range(12):
        assert cluster.get(bucket, f"dir/s-{i:02d}.tar").body == shards[f"s-{i:02d}.tar"]
        assert cluster.get(bucket, f"train-{i:06d}").body == shards[f"s-{i:02d}.tar"]
    assert cluster.get(bucket, "pair-8").body == shards["s-01.tar"]
    cluster.put(bucket, "empty", b"")
    cli.ok("cp", f"{bucket}/empty", f"{bucket}/empty2")
    assert cluster.get(bucket, "empty2").status == 200


def test_cp_moves_no_payload_through_the_client(cluster, bucket, rng):
    body = rng.randbytes(8 << 20)
    meta = {"Ais-Custom-Md": "label=cat"}
    near, far = cluster.names_owned_by("t1", bucket, 2), cluster.names_owned_by("t2", bucket, 1)
    assert cluster.put(bucket, near[0], body, headers=meta).status == 200
    with Wire(cluster.relay) as wire:  # a relay answers all by itself: whatever the client gets or sends passes here
        cli = Cli(wire.endpoint)
        for goal in (near[1], far[0]):  # on the same target, and on another
            told = json.loads(cli.ok("cp", "--json", f"{bucket}/{near[0]}", f"{bucket}/{goal}"))
            assert (told["done"], told["bytes"]) == (1, len(body))
        assert wire.there + wire.back < 8 * 1024
    for goal in (near[1], far[0]):
        copied = cluster.get(bucket, goal)
        assert copied.body == body and copied.headers["Ais-Custom-Md"] == "label=cat"


def test_cp_if_absent_is_decided_by_the_target_of_the_copy(cli, cluster, bucket):
    source, near, missing = cluster.names_owned_by("t1", bucket, 3)
    far = cluster.names_owned_by("t2", bucket, 1)[0]
    cluster.put(bucket, source, b"new")
    for goal in (near, far):
        cluster.put(bucket, goal, b"old")
        cli.refuses(6, "cp", "--if-absent", f"{bucket}/{source}", f"{bucket}/{goal}", says=goal)
        assert cluster.get(bucket, goal).body == b"old"
    cli.ok("cp", "--if-absent", f"{bucket}/{source}", f"{bucket}/{missing}")
    assert cluster.get(bucket, missing).body == b"new"


def test_cp_refuses_what_makes_no_sense(cli, cluster, bucket, shards):
    cli.refuses(2, "cp", f"{bucket}/s-00.tar", f"{bucket}/s-00.tar", says="itself")
    cli.refuses(2, "cp", f"{bucket}/s-@12.tar", f"{bucket}/x", says="%06d")
    cli.refuses(2, "cp", f"{bucket}/s-@12.tar", f"{bucket}/x-{{1..3}}", says="3 names")
    cli.refuses(2, "cp", f"{bucket}/x", says="where to")
    cli.refuses(3, "cp", f"{bucket}/none", f"{bucket}/x", says="none")
    cli.refuses(3, "cp", f"{bucket}/s-00.tar", "no-such-bucket/x", says="no-such-bucket")
    cli.refuses(6, "cp", "--if-absent", f"{bucket}/s-00.tar", f"{bucket}/s-01.tar")
    assert cluster.get(bucket, "s-01.tar").body == shards["s-01.tar"]


def test_cp_of_something_large_while_its_target_is_killed(make_cluster, rng):
    cluster = make_cluster(targets=2, drives=1)
    body = rng.randbytes(48 << 20)
    cluster.put("data", "big", body)
    owner = cluster.owner("data", "big")
    copying = Cli(cluster.endpoint).start("cp", "data/big", "data/copy")
    cluster.kill(owner)
    cluster.start(owner)
    _, errors = copying.communicate(timeout=scaled(90))
    assert copying.returncode == 0, errors
    assert cluster.get("data", "copy").body == body


# --- put ---------------------------------------------------------------------------------------------------------

def test_put_of_many_files_keeps_or_numbers_names(cli, cluster, bucket, here):
    for i in range(3):
        (here / f"f{i}").write_text(str(i))
    files = [here / f"f{i}" for i in range(3)]
    assert b"3 sent" in cli.ok("put", *files, f"{bucket}/p/")
    cli.ok("put", *files, f"{bucket}/n-%04d.x")
    cli.ok("put", here / "f{0..2}", f"{bucket}/t/")
    assert cluster.names(bucket) == ["n-0000.x", "n-0001.x", "n-0002.x", "p/f0", "p/f1", "p/f2", "t/f0", "t/f1", "t/f2"]
    assert cluster.get(bucket, "n-0002.x").body == b"2"
    cli.refuses(2, "put", *files, f"{bucket}/one", says="%06d")
    cli.refuses(2, "put", "-", here / "f0", f"{bucket}/p/", says="alone")
    result = cli("put", here / "f0", here / "none", f"{bucket}/q/")
    assert result.returncode == 7 and "none" in result.stderr
    assert cluster.names(bucket, prefix="q/") == ["q/f0"]


def make_files(directory):
    (directory / "a" / "b").mkdir(parents=True)
    (directory / "a" / "b" / "x y.bin").write_bytes(os.urandom(3_000_000))
    (directory / "a" / "empty").write_bytes(b"")
    (directory / ".hidden").write_text("h")
    (directory / "big").write_bytes(os.urandom(9_000_000))
    (directory / "link").symlink_to("big")
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_put_r_adopts_a_directory_and_then_only_what_changed(cli, cluster, bucket, here):
    files = make_files(here)
    told = json.loads(cli.ok("put", "-r", here, f"{bucket}/nfs", "--json"))
    assert (told["done"], told["skipped"], told["failed"], told["left_out"]) == (len(files), 0, 0, 0)
    assert told["bytes"] == sum(map(len, files.values()))
    cluster.assert_bodies(bucket, {f"nfs/{name}": body for name, body in files.items()})

    versions = {name: cluster.head(bucket, f"nfs/{name}").headers["Ais-Atime"] for name in files}
    (here / "a" / "empty").write_text("x")
    changed = bytearray(files["big"])
    changed[77] ^= 1  # same size
    (here / "big").write_bytes(changed)
    cluster.delete(bucket, "nfs/.hidden")
    told = json.loads(cli.ok("put", "-r", f"{here}/", f"{bucket}/nfs/", "--json"))
    assert (told["done"], told["skipped"]) == (4, 1)  # the link shows big
    assert cluster.get(bucket, "nfs/link").body == changed
    assert cluster.head(bucket, "nfs/a/b/x y.bin").headers["Ais-Atime"] == versions["a/b/x y.bin"]
    assert b"0 sent" in cli.ok("put", "-r", here, f"{bucket}/nfs")


def test_put_r_says_what_it_leaves_out_and_what_failed(cli, cluster, bucket, here):
    make_files(here)
    os.mkfifo(here / "fifo")
    (here / "up").symlink_to("a")
    (here / "dangling").symlink_to("nothing")
    (here / "a" / "bad\udcff").write_text("no UTF-8")
    result = cli("put", "-r", here, bucket)
    assert result.returncode == 7
    for word in ("fifo", "up", "--follow", "dangling", "bad"):
        assert word in result.stderr
    assert re.search(rb"5 sent .* 0 skipped, 2 failed, 2 left out", result.stdout)
    assert "link" in cluster.names(bucket)
    told = json.loads(cli("put", "-r", "--follow", "--json", here, bucket).stdout)
    assert told["done"] == 2 and cluster.names(bucket, prefix="up/") == ["up/b/x y.bin", "up/empty"]
    cli.refuses(3, "put", "-r", here / "none", bucket)
    cli.refuses(2, "put", "-r", here / "big", bucket, says="without -r")
    cli.refuses(3, "put", "-r", here, says="tarn bucket create here")


def test_put_r_announces_checksums_so_that_targets_verify(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_bytes(b"hello")
    empty_list = answer(200, {"Content-Type": "application/json"}, b'{"uuid":"u","entries":null,"continuation_token":""}')
    refused = b'{"tcode":"ErrBadCksum","message":"BAD DATA CHECKSUM","status":400}'
    with Liar(empty_list, answer(400, body=refused)) as liar:
        result = liar.cli("put", "-r", tmp_path / "d", "b")
        assert result.returncode != 0 and "CHECKSUM" in result.stderr
        head = liar.requests[1][2]
        assert (head["Ais-Checksum-Type"], head["Ais-Checksum-Value"]) == ("xxhash2", XXH64_OF_HELLO)


# --- get ---------------------------------------------------------------------------------------------------------

def test_get_of_many_brings_only_what_is_missing(cli, bucket, shards, here):
    (here / "s-03.tar").write_bytes(shards["s-03.tar"])
    (here / "s-04.tar").write_bytes(b"x" * len(shards["s-04.tar"]))
    told = json.loads(cli.ok("get", "--json", f"{bucket}/s-@12.tar", here / "new", ))
    assert told["done"] == 12
    told = json.loads(cli.ok("get", "--json", f"{bucket}/s-@12.tar", "--to", here))
    assert (told["done"], told["skipped"]) == (11, 1)
    assert {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()} == shards
    assert b"0 received" in cli.ok("get", f"{bucket}/s-@12.tar", here)
    assert cli.ok("get", "-q", f"{bucket}/s-@12.tar", here) == b""


def test_get_of_many_refuses_what_is_not_clear(cli, cluster, bucket, shards, here):
    cluster.put(bucket, "d/s-00.tar", b"x")
    cli.refuses(2, "get", f"{bucket}/s-00.tar", f"{bucket}/d/s-00.tar", here, says="s-00.tar")
    (here / "file").write_text("f")
    cli.refuses(2, "get", f"{bucket}/s-@12.tar", here / "file", says="directory")
    cli.refuses(2, "get", f"{bucket}/s-@12.tar", "-", says="tarn cat")
    result = cli("get", f"{bucket}/s-{{10..13}}.tar", here)
    assert result.returncode == 7
    assert sorted(os.listdir(here)) == ["file", "s-10.tar", "s-11.tar"]


# --- progress ----------------------------------------------------------------------------------------------------

def on_a_terminal(cli, *words, wanted=None, shown=None):
    """Runs `tarn` with a terminal as its standard error; what it wrote there. Sets the event `shown` when that has `wanted`."""
    master, slave = pty.openpty()
    process = subprocess.Popen([cli.program, *map(str, words)], env=cli.environment | {"TERM": "xterm"},
                               stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    seen = b""
    try:
        while chunk := os.read(master, 65536):
            seen += chunk
            if wanted and re.search(wanted, seen.decode(errors="replace")):
                shown.set()
    except OSError:  # the other side is closed
        pass
    os.close(master)
    output = process.stdout.read()
    process.stdout.close()
    return process.wait(), output, seen.decode()


def slowly(body, chunks, seconds):
    def serve(request):
        answer(200, HELLO, b"", length=len(body) * chunks)(request)
        for _ in range(chunks):
            request.wfile.write(body)
            request.wfile.flush()
            time.sleep(seconds / chunks)
    return serve


def half_until(shown, half):
    """The second half of the body comes when the event is set."""
    def serve(request):
        answer(200, HELLO, b"", length=2 * len(half))(request)
        request.wfile.write(half)
        request.wfile.flush()
        shown.wait(guarded(60))
        request.wfile.write(half)
    return serve


def test_a_terminal_sees_rate_percent_and_time_left(here):
    picture = r"b/x\.tar +(\d+)%  [\d.]+[KM]iB of 1\.9MiB  [\d.]+[KM]?i?B/s  0:0\d left"
    shown = threading.Event()
    with Liar(half_until(shown, b"x" * 1_000_000)) as liar:
        code, _, seen = on_a_terminal(liar.cli, "get", "b/x.tar", here / "x", wanted=picture, shown=shown)
    assert code == 8  # not the bytes of its checksum
    lines = re.findall(picture, seen)
    assert lines and all(0 <= int(percent) <= 100 for percent in lines)
    assert "tarn get:" in seen.replace("\r", "").splitlines()[-1]
    with Liar(slowly(b"x" * 100_000, 20, 1.5)) as liar:
        _, _, seen = on_a_terminal(liar.cli, "-q", "get", "b/x.tar", here / "x")
    assert seen.count("\n") == 1 and "%" not in seen


def test_a_terminal_sees_a_total_of_many(cluster, cli, bucket, here):
    for i in range(6):
        cluster.put(bucket, f"x{i}", b"x" * 30_000_000)
    code, output, seen = on_a_terminal(cli, "get", "-j", "2", f"{bucket}/x{{0..5}}", here)
    assert code == 0 and b"6 received" in output
    if seen:  # it may have been faster than the first picture
        assert "of 6 done" in seen


def test_elsewhere_lines_are_plain_and_rare(here):
    shown = threading.Event()
    with Liar(half_until(shown, b"x" * 700_000)) as liar:
        began = time.monotonic()
        getting = liar.cli.start("get", "b/x.tar", here / "x")
        lines = [getting.stderr.readline().decode()]
        shown.set()
        lines += getting.stderr.read().decode().splitlines()
        assert getting.wait(timeout=guarded(60)) == 8
        seconds = time.monotonic() - began
        getting.communicate()
    assert 2 <= len(lines) <= 1 + seconds // 5 and not any("\x1b" in line for line in lines), (seconds, lines)
    assert all(re.fullmatch(r"tarn get: 0 of 1 done +\d+%  .* left", line.rstrip()) for line in lines[:-1]), lines


def test_interrupted_in_the_midst_of_many_it_leaves_no_torn_file(cluster, cli, bucket, here):
    bodies = {f"x{i}": os.urandom(20_000_000) for i in range(12)}
    for name, body in bodies.items():
        cluster.put(bucket, name, body)
    getting = cli.start("get", "-j", "4", f"{bucket}/x{{0..11}}", here)
    wait_until(lambda: os.listdir(here), 20, "a file", every=0.001)
    getting.send_signal(signal.SIGINT)
    getting.communicate(timeout=guarded(20))
    assert getting.returncode in (-signal.SIGINT, 0)
    assert all(path.read_bytes() == bodies[path.name] for path in here.iterdir() if not path.name.startswith("."))
    cli.ok("get", f"{bucket}/x{{0..11}}", here)
    assert {path.name: path.read_bytes() for path in here.iterdir()} == bodies
