"""Clients that break off, dawdle or ask for too much (docs/reliability.md J1, J2, J4, J5)."""

import os
import threading
import time
import urllib.parse

import limits
import pytest
from harness import client as http
from harness.coded import props
from harness.nodes import wait_until_in_place
from harness.waiting import scaled, wait_until

DOORS = ("redirect", "relay", "target")
KIB = 1024


def host_and_port(url):
    parts = urllib.parse.urlsplit(url)
    return parts.hostname, parts.port


def address_of(cluster, kind):
    return host_and_port({"redirect": cluster.endpoint, "relay": cluster.relay}.get(kind) or cluster.url_of("t1"))


def open_files(cluster, node):
    """Sockets and data files that a node holds open."""
    found = []
    for entry in os.scandir(f"/proc/{cluster.pid(node)}/fd"):
        try:
            found.append(os.readlink(entry.path))
        except OSError:
            pass
    return sum("socket:" in link for link in found), sum("/data/" in link for link in found)


def signed(cluster, bucket, name, size):
    answer = cluster.put(bucket, name, b"", headers={"Content-Length": str(size), "Expect": "100-continue"}, follow=False,
                         expect=False)
    assert answer.status == 307, answer
    return answer.headers["Location"]


@pytest.mark.gate("J1")
def test_an_upload_that_breaks_off_leaves_nothing(make_stage):
    """J1: at every 64 KiB of 1 MiB, in chunks or counted, with and without Expect, by FIN or RST; space comes back."""
    stage = make_stage(targets=1, drives=1)
    cluster, size = stage.cluster, 1024 * KIB
    body = os.urandom(size)
    breaks = 0
    for place in range(0, size, 64 * KIB):
        for variant in range(4):
            expect, reset = variant % 2 == 0, variant // 2 == 0
            through_relay = place // (64 * KIB) % 2 == 1
            name = f"n-{place}-{variant}"
            url = cluster.url("data", name, cluster.relay) if through_relay else signed(cluster, "data", name, size)
            connection = http.RawConnection(url)
            fields = {"Content-Length": str(size)} | ({"Expect": "100-continue"} if expect else {})
            connection.send_head("PUT", http.target_of(url), fields)
            if expect:
                assert connection.read_head()[0] == 100
            connection.send(body[:place])
            if reset:
                connection.reset()
            else:
                connection.close()
            breaks += 1
    stage.wait_tidy(0, seconds=60)
    assert cluster.names("data") == []
    wait_until(lambda: open_files(cluster, "t1")[1] == 0, 10, "no data file is open")
    print(f"injected: {breaks} uploads broken off; detected: nothing visible, no file left")
    assert breaks == 64 and cluster.put("data", "after", body).status == 200


@pytest.mark.gate("J2")
def test_a_download_that_breaks_off_gives_everything_back(make_stage):
    """J2: 100 readers that go after a few bytes; sockets and files are closed within 5 s."""
    stage = make_stage(targets=1, drives=1)
    cluster = stage.cluster
    assert cluster.put("data", "large", os.urandom(16 << 20)).status == 200
    direct = cluster.get("data", "large", follow=False).headers["Location"]
    assert cluster.get("data", "large").status == 200  # from now on its file stays open
    before = {node: open_files(cluster, node) for node in ("p1", "t1")}
    held = []
    for number in range(100):
        url = direct if number % 2 else cluster.url("data", "large", cluster.relay)
        connection = http.RawConnection(url)
        connection.send_head("GET", http.target_of(url))
        if number % 3:
            assert connection.read_head()[0] == 200
        held.append(connection)
    wait_until(lambda: open_files(cluster, "t1")[0] >= before["t1"][0] + 50, 10, "the readers are there")
    for number, connection in enumerate(held):
        connection.reset() if number % 2 else connection.close()

    def given_back():
        t1, p1 = open_files(cluster, "t1"), open_files(cluster, "p1")
        # The proxy keeps a few idle connections to a target; that is no leak.
        return t1[1] <= before["t1"][1] and t1[0] <= before["t1"][0] + 40 and p1[0] <= before["p1"][0] + 40

    wait_until(given_back, 5, "sockets and files are closed")
    print(f"injected: {len(held)} downloads broken off; detected: all given back")
    assert cluster.get("data", "large").status == 200


@pytest.mark.parametrize("kind", DOORS)
@pytest.mark.gate("J5")
def test_requests_beyond_the_limits_are_refused_and_cost_little(cluster, kind):
    """J5: the table of limits, at every door; memory stays where it was."""
    node = "t1" if kind == "target" else "p1"
    peak = cluster.memory_peak(node)
    wrong, beyond = [], 0
    for limit in limits.limits():
        seen = limits.flood(address_of(cluster, kind), limit.wire, limit.closes)
        beyond += limit.closes
        if not seen.answers or seen.statuses[0] not in limit.statuses or len(seen.answers) != 1:
            wrong.append(f"{limit.name}: {seen.statuses}, want {sorted(limit.statuses)}")
        elif limit.closes and not seen.closed:
            wrong.append(f"{limit.name}: the connection stays open")
    assert not wrong, "\n".join(wrong)
    grown = cluster.memory_peak(node) - peak
    print(f"injected: {beyond} requests beyond limits at the {kind} door; peak memory grew by {grown // KIB} KiB")
    assert grown < (16 << 20)


def test_names_and_metadata_beyond_the_limits_are_400(cluster, bucket):
    fine = "n" * limits.NAME_BYTES
    assert cluster.put(bucket, fine, b"x").status == 200
    assert cluster.get(bucket, fine).body == b"x"
    answer = cluster.put(bucket, "n" * (limits.NAME_BYTES + 1), b"x")
    assert answer.status == 400, answer
    assert cluster.names(bucket) == [fine]


def test_clients_that_dawdle_are_cut_off_and_disturb_nobody(make_stage):
    """J4: head, body and answer by drops, and idleness; with short limits, all at the same time."""
    settings = {"http.header_timeout": "2s", "http.body_rate_window": "2s", "http.idle_timeout": "3s"}
    stage = make_stage(targets=1, drives=1, settings=settings)
    cluster = stage.cluster
    body = os.urandom(24 << 20)
    assert cluster.put("data", "large", body).status == 200
    assert cluster.put("data", "small", b"small").status == 200
    read = http.target_of(cluster.get("data", "large", follow=False).headers["Location"]).encode()
    results, threads = {}, []

    def slow(name, function, *words):
        thread = threading.Thread(target=lambda: results.__setitem__(name, function(*words)), daemon=True)
        thread.start()
        threads.append(thread)

    patience = scaled(25)
    for kind in DOORS:
        where = address_of(cluster, kind)
        slow(f"head at {kind}", limits.drip, where, b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"X: y\r\n", 0.3, patience)
        slow(f"idle at {kind}", limits.drip, where, b"", b"", 0.3, patience)
    path = http.target_of(signed(cluster, "data", "slow", 1 << 20)).encode()
    put = b"PUT %b HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n"
    slow("body at target", limits.drip, address_of(cluster, "target"), put % path, b"x" * 20, 0.2, patience)
    slow("body at relay", limits.drip, address_of(cluster, "relay"), put % b"/v1/objects/data/slow2?provider=ais", b"x" * 20, 0.2,
         patience)
    get = b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n"
    slow("read at target", limits.sip, address_of(cluster, "target"), get % read, 64, 0.2, patience)
    slow("read at relay", limits.sip, address_of(cluster, "relay"), get % b"/v1/objects/data/large?provider=ais", 64, 0.2, patience)
    others, slowest = 0, 0.0
    while any(thread.is_alive() for thread in threads):
        begun = time.monotonic()
        assert cluster.get("data", "small").body == b"small"
        slowest = max(slowest, time.monotonic() - begun)
        others += 1
    print(f"injected: {len(results)} slow clients; detected: " +
          ", ".join(f"{name} {result.seconds:.1f} s" for name, result in sorted(results.items())) +
          f"; {others} others served, the slowest in {slowest:.2f} s")
    late = {name: result.seconds for name, result in results.items() if result.seconds > scaled(8)}
    assert not late, f"never cut off: {late}"
    assert others > 20 and slowest < scaled(2)
    assert cluster.names("data") == ["large", "small"]
    stage.wait_tidy(2)


@pytest.mark.gate("J4")
def test_clients_above_the_least_rate_are_never_cut_off(make_stage):
    """J4: readers at 16 times the least rate, and writers at 20 times, which move less in a window than the buffers on the way hold. They
    use plain and coded objects, at targets and through the relay. What nodes pass on to each other pauses for longer than a window."""
    stage = make_stage(targets=4, drives=1, settings={"http.body_rate_window": "2s"})
    cluster, body = stage.cluster, os.urandom(24 << 20)
    cluster.create_bucket("striped", props("striped", 2, 1))
    cluster.create_bucket("whole", props("whole", 2, 1))
    wait_until_in_place(cluster)
    buckets = ("data", "striped", "whole")
    for bucket in buckets:
        assert cluster.put(bucket, "large", body).status == 200
    results, threads, written = {}, [], os.urandom(200 * KIB)

    def read(bucket, door):
        url = cluster.get(bucket, "large", follow=False).headers["Location"] if door == "target" else cluster.url(bucket, "large", cluster.relay)
        get = f"GET {http.target_of(url)} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        sipped = limits.sip(host_and_port(url), get, 4096, 1 / 4, 20)
        results[f"read of {bucket} at {door}"] = (sipped.seconds == float("inf"), sipped.seconds)

    def write(bucket, door):
        name, began = f"slow-{door}", time.monotonic()
        url = signed(cluster, bucket, name, len(written)) if door == "target" else cluster.url(bucket, name, cluster.relay)
        try:
            with http.RawConnection(url) as connection:
                connection.send_head("PUT", http.target_of(url), {"Content-Length": str(len(written))})
                for begin in range(0, len(written), 5 * KIB):
                    connection.send(written[begin : begin + 5 * KIB])
                    time.sleep(0.25)
                stored = connection.read_head()[0] == 200
        except OSError as broken:
            stored = str(broken)
        same = stored is True and cluster.get(bucket, name).body == written
        results[f"write of {bucket} at {door}"] = (same, stored, time.monotonic() - began)

    for bucket in buckets:
        for door in ("target", "relay"):
            threads += [threading.Thread(target=use, args=(bucket, door), daemon=True) for use in (read, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"injected: {len(threads)} clients for 10 s and more; detected: {results}")
    assert len(results) == len(threads) and all(fine for fine, *_ in results.values()), results
    # A relay whose target cuts it off would go on with another answer, after some minutes.
    cut = [line for target in cluster.targets() for line in cluster.logs[target].matching("the peer is too slow")]
    assert not cut, "a target cut another node off"
