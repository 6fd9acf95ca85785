"""Many clients on the same names (docs/reliability.md L1 to L4): every history must have an explanation."""

import random
import threading

import checker
import pytest
from doses import dose
from harness.coded import props
from history import Recorder
from load import Client, Crowd

OPERATIONS = 10_000
CODED_OPERATIONS = 1000  # each syncs slices and records on four targets
CLIENTS = 8


@pytest.fixture(params=("plain", "coded"))
def kept(request, cluster, bucket):
    """A bucket of single copies, or of slices; how many operations."""
    if request.param == "plain":
        yield bucket, OPERATIONS
        return
    yield cluster.create_bucket("raced", props("striped", 2, 1)), dose(CODED_OPERATIONS, OPERATIONS)
    cluster.destroy_bucket("raced")


def run(cluster, work, seed, count=OPERATIONS, clients=CLIENTS, endpoints=None):
    """`count` calls of `work(client, its generator, its number)` by `clients` at once; the history."""
    recorder = Recorder()
    made = [Client(recorder, f"c{i}", endpoints or [cluster.endpoint], timeout=30) for i in range(clients)]
    choices = {client: (random.Random(f"{seed}/{i}"), i) for i, client in enumerate(made)}
    Crowd(made, lambda client: work(client, *choices[client]), count=count).start().join(300)
    return recorder


def judge(cluster, recorder, bucket, names):
    """All checkers, the look at the end included. Nothing is broken here: no answer may be uncertain."""
    with Client(recorder, "judge", [cluster.endpoint]) as client:
        found = {name: (client.get(bucket, name), client.head(bucket, name)) for name in names}
        listed = client.list(bucket)
    ops = recorder.ops()
    report = checker.check(ops, budget=400_000, final=(bucket, found, listed))
    print(report)
    assert report.ok, str(report)
    strange = [op.line() for op in ops if op.status == 0 or op.status >= 500]
    assert not strange, strange[:10]
    assert report.given_up * 10 <= report.names, "too many names were only judged by the fast checker"
    return ops


def test_concurrent_puts_of_one_name_have_one_order(cluster, kept, seed):
    """L1: up to 8 writers of a name at a time, 1 byte to megabytes."""
    bucket, operations = kept
    names = [f"n-{i}" for i in range(operations // 40)]
    sizes = (1, 16, 100, 4096, 4097, 65_536, 100_000)
    turn = [0]

    def work(client, rng, number):
        # All clients work on the same few names at a time, which move on: as much meeting as can be judged.
        turn[0] += 1
        name = names[turn[0] * len(names) // (operations + CLIENTS) % len(names)]
        if rng.random() < 0.6:
            client.put(bucket, name, 3_000_000 if rng.random() < 0.002 else rng.choice(sizes))
        else:
            client.get(bucket, name)

    ops = judge(cluster, run(cluster, work, seed, operations), bucket, names)
    assert len(ops) >= operations
    print(f"injected: {sum(op.op == 'put' for op in ops)} PUTs that meet others")


def test_64_writers_of_one_name_have_one_winner(cluster, bucket, seed):
    """L1 in full width: 64 writers at once, 1 byte to 64 MiB, a few rounds, and readers beside them."""
    writers, rounds, readers = 64, 3, 4
    recorder = Recorder()
    clients = [Client(recorder, f"w{i}", [cluster.endpoint], timeout=120) for i in range(writers + readers)]
    names = [f"n-{i}" for i in range(rounds)]
    together = threading.Barrier(writers + readers)

    def work(client):
        number = clients.index(client)
        for turn, name in enumerate(names):
            rng = random.Random(f"{seed}/{turn}/{number}")
            together.wait(300)
            if number < writers:
                # Each round has one of the largest; which writer that is changes.
                largest = number == turn * 17 % writers
                client.put(bucket, name, 64 << 20 if largest else rng.choice((1, 100, 4097, 70_000, 300_000, 2 << 20)))
            else:
                for _ in range(6):
                    client.get(bucket, name)

    Crowd(clients, work, count=writers + readers).start().join(300)
    ops = judge(cluster, recorder, bucket, names)
    sizes = [op.length for op in ops if op.op == "put"]
    print(f"injected: {rounds} rounds of {writers} writers, up to {max(sizes) >> 20} MiB, {sum(sizes) >> 20} MiB in all")
    assert len(sizes) == writers * rounds and max(sizes) == 64 << 20


@pytest.mark.gate("L2")
def test_puts_deletes_and_reads_race(cluster, kept, seed):
    """L2: PUT, DELETE, GET, HEAD and ranges; parts of a range with If-Match are never of two versions."""
    bucket, operations = kept
    names = [f"n-{i}" for i in range(operations // 25)]
    turn = [0]

    def work(client, rng, number):
        turn[0] += 1
        name = names[(turn[0] * len(names) // (operations + CLIENTS) + rng.randrange(2)) % len(names)]
        draw = rng.random()
        if draw < 0.35:
            client.put(bucket, name, rng.choice((16, 5000, 70_000, 300_000)))
        elif draw < 0.5:
            client.delete(bucket, name)
        elif draw < 0.7:
            client.get(bucket, name)
        elif draw < 0.8:
            client.head(bucket, name)
        else:
            first = client.get(bucket, name, part=(0, 4095))
            if first.status == 206:
                second = client.get(bucket, name, part=(4096, 100_000), if_match=first.etag)
                if second.status == 206:
                    assert second.etag == first.etag and second.value == first.value, (first.line(), second.line())
                else:
                    assert second.status in (404, 412, 416), second.line()

    ops = judge(cluster, run(cluster, work, seed, operations), bucket, names)
    parts = sum(op.status == 206 for op in ops)
    print(f"{parts} parts read")
    assert parts > operations // 100


@pytest.mark.gate("L3")
def test_exactly_one_conditional_put_wins_each_race(cluster, bucket, seed):
    """L3: If-None-Match: * and If-Match, all clients at the same name and version."""
    names = [f"n-{i}" for i in range(OPERATIONS // 40)]
    turn = [0]

    def work(client, rng, number):
        turn[0] += 1
        name = names[turn[0] * len(names) // (OPERATIONS + CLIENTS) % len(names)]
        draw = rng.random()
        if draw < 0.5:
            client.put(bucket, name, rng.choice((16, 3000, 20_000)), if_none_match=True)
        elif draw < 0.9:
            seen = client.head(bucket, name)
            if seen.status == 200:
                client.put(bucket, name, rng.choice((16, 3000, 20_000)), if_match=seen.etag)
        else:
            client.delete(bucket, name)

    ops = judge(cluster, run(cluster, work, seed), bucket, names)
    won = sum(op.op == "put" and op.outcome == "done" for op in ops)
    lost = sum(op.op == "put" and op.outcome == "precondition" for op in ops)
    print(f"injected: {won + lost} conditional PUTs; {won} won, {lost} were refused with 412")
    assert won > len(names) and lost > len(names)


@pytest.mark.parametrize("listener", ["redirect", "relay"])
@pytest.mark.gate("L4")
def test_a_list_shows_every_put_and_delete_that_was_acknowledged(cluster, bucket, seed, listener):
    """L4: through either listener; together 10,000 operations."""
    names = [f"d{i % 7}/n-{i}" for i in range(120)]

    def work(client, rng, number):
        draw, name = rng.random(), rng.choice(names)
        if draw < 0.4:
            client.put(bucket, name, rng.choice((16, 1000)))
        elif draw < 0.65:
            client.delete(bucket, name)
        elif draw < 0.85:
            client.list(bucket, prefix=rng.choice(("", "", "d1/", "d3/n-1")), pagesize=rng.choice((0, 7, 50)))
        else:
            client.get(bucket, name)

    endpoints = [cluster.endpoint if listener == "redirect" else cluster.relay]
    recorder = run(cluster, work, seed, count=OPERATIONS // 2, endpoints=endpoints)
    ops = judge(cluster, recorder, bucket, names)
    lists = sum(op.op == "list" for op in ops)
    print(f"{lists} lists judged")
    assert lists > OPERATIONS // 2 // 10
