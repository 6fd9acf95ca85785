"""`tarn get` that is killed, cut or interrupted: the same command goes on, and never mixes two versions."""

import json
import os
import signal

import pytest
from harness.cli import HELLO, Cli, Liar, answer
from harness.waiting import guarded, wait_until
from harness.wire import Wire

MIB = 1 << 20
SIZE = 24 * MIB
HELD = 16 * MIB


def partials(directory):
    return sorted(name for name in os.listdir(directory) if name.endswith(".tarn-part"))


def bytes_in(directory):
    return sum(path.stat().st_size for path in list(directory.iterdir()) if path.exists())


def stop_in_the_midst(cluster, number, words, here):
    """Runs `tarn` and ends it with a signal when HELD bytes have come; how many are in files."""
    with Wire(cluster.relay, hold_after=HELD) as wire:
        getting = Cli(wire.endpoint).start(*words)
        assert wire.held.wait(guarded(30))
        wait_until(lambda: bytes_in(here) > HELD - MIB, 20, "what came is written")
        getting.send_signal(number)
        getting.communicate(timeout=guarded(20))
        assert getting.returncode == -number
    return bytes_in(here)


@pytest.fixture
def big(cluster, bucket, rng):
    body = rng.randbytes(SIZE)
    assert cluster.put(bucket, "big", body).status == 200
    return body


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_what_came_before_the_end_is_not_fetched_again(cluster, bucket, here, big, number):
    words = ["get", f"{bucket}/big", here / "big"]
    came = stop_in_the_midst(cluster, number, words, here)
    assert not (here / "big").exists() and partials(here)[0].startswith(".big.")
    with Wire(cluster.relay) as wire:
        Cli(wire.endpoint).ok(*words)
        assert SIZE - came <= wire.back < SIZE - came + 64 * 1024
    assert (here / "big").read_bytes() == big
    assert os.listdir(here) == ["big"]


def test_an_object_that_was_overwritten_meanwhile_is_fetched_anew(cluster, cli, bucket, here, big, rng):
    words = ["get", f"{bucket}/big", here / "big"]
    stop_in_the_midst(cluster, signal.SIGKILL, words, here)
    other = rng.randbytes(SIZE)
    assert cluster.put(bucket, "big", other).status == 200
    with Wire(cluster.relay) as wire:
        Cli(wire.endpoint).ok(*words)
        assert wire.back > SIZE
    assert (here / "big").read_bytes() == other
    assert os.listdir(here) == ["big"]


def test_a_part_that_was_damaged_is_noticed(cluster, cli, bucket, here, big):
    words = ["get", f"{bucket}/big", here / "big"]
    stop_in_the_midst(cluster, signal.SIGKILL, words, here)
    with open(here / partials(here)[0], "r+b") as part:
        part.seek(MIB)
        part.write(b"\0" * 4096)
    cli.ok(*words)
    assert (here / "big").read_bytes() == big
    (here / "big").unlink()
    stop_in_the_midst(cluster, signal.SIGKILL, words, here)
    with open(here / partials(here)[0], "ab") as part:
        part.write(b"x" * SIZE)
    cli.ok(*words)
    assert (here / "big").read_bytes() == big and os.listdir(here) == ["big"]


def test_a_part_that_is_whole_is_only_verified(cluster, bucket, here, big):
    stop_in_the_midst(cluster, signal.SIGKILL, ["get", f"{bucket}/big", here / "big"], here)
    (here / partials(here)[0]).write_bytes(big)
    with Wire(cluster.relay) as wire:
        Cli(wire.endpoint).ok("get", f"{bucket}/big", here / "big")
        assert wire.back < 64 * 1024
    assert (here / "big").read_bytes() == big and os.listdir(here) == ["big"]


def test_many_go_on_where_they_were(cluster, cli, bucket, here, rng):
    bodies = cluster.fill(bucket, [f"x{i}" for i in range(4)], 8 * MIB, rng)
    words = ["get", "--json", "-j", "3", f"{bucket}/x{{0..3}}", here]
    came = stop_in_the_midst(cluster, signal.SIGKILL, words, here)
    with Wire(cluster.relay) as wire:
        told = json.loads(Cli(wire.endpoint).ok(*words))
        assert wire.back < 32 * MIB - came + 64 * 1024
    assert told["done"] + told["skipped"] == 4 and told["failed"] == 0
    assert {path.name: path.read_bytes() for path in here.iterdir()} == bodies
    assert json.loads(cli.ok(*words))["skipped"] == 4


def test_two_at_once_do_not_write_into_one_file(cluster, cli, bucket, here, big):
    words = ["get", f"{bucket}/big", here / "big"]
    with Wire(cluster.relay, hold_after=HELD) as wire:
        first = Cli(wire.endpoint).start(*words)
        assert wire.held.wait(guarded(30))
        wait_until(lambda: partials(here), 10, "a part")
        cli.ok(*words)
        assert (here / "big").read_bytes() == big and len(partials(here)) == 1
        wire.release()
        assert first.wait(timeout=guarded(30)) == 0, first.communicate()
        first.communicate()
    assert (here / "big").read_bytes() == big and os.listdir(here) == ["big"]


def test_a_target_that_stays_away_leaves_what_came(here):
    with Liar(answer(200, HELLO, b"hel", length=5), answer(503, {"Retry-After": "1"}, b"away")) as liar:
        (here / "x").write_text("precious")
        liar.cli.refuses(5, "get", "b/x", here / "x", "--retry-for", "1500ms", says="3 of 5 bytes are kept")
        assert (here / "x").read_text() == "precious" and len(partials(here)) == 1
    rest = HELLO | {"Content-Range": "bytes 3-4/5"}
    with Liar(answer(200, HELLO, length=5), answer(206, rest, b"lo")) as liar:
        liar.cli.ok("get", "b/x", here / "x")
        asked, resumed = liar.requests
        assert asked[0] == "HEAD" and resumed[2]["Range"] == "bytes=3-" and resumed[2]["If-Match"] == HELLO["ETag"]
    assert (here / "x").read_bytes() == b"hello" and os.listdir(here) == ["x"]


def test_names_too_long_for_a_part_beside_them(cluster, cli, bucket, here, big):
    name = "n" * 255
    came = stop_in_the_midst(cluster, signal.SIGKILL, ["get", f"{bucket}/big", here / name], here)
    with Wire(cluster.relay) as wire:
        Cli(wire.endpoint).ok("get", f"{bucket}/big", here / name)
        assert wire.back < SIZE - came + 64 * 1024
    assert os.listdir(here) == [name] and (here / name).read_bytes() == big


def test_a_directory_that_cannot_be_written_is_said_before_anything_is_fetched(bucket, here):
    with Liar(answer(200, HELLO, b"hello")) as liar:
        liar.cli.refuses(3, "get", "b/x", here / "none" / "x", says="mkdir")
        assert liar.requests == []
