"""The relay when something goes wrong, and what it does not pass on."""

import hashlib
import os
import threading

import pytest
from harness import client
from harness.cluster import NEVER_DOWN
from harness.waiting import scaled, wait_until

MIB = 1 << 20


def test_a_target_that_dies_while_it_is_read_from_cuts_the_answer(make_cluster):
    """Never a short body that looks whole: the connection is reset, and the next request says 503."""
    cluster = make_cluster(targets=2, drives=1)
    name = cluster.names_owned_by("t1", "data", 1)[0]
    body = os.urandom(64 * MIB)
    assert cluster.put("data", name, body).status == 200
    with client.open_stream("GET", f"{cluster.relay}/data/{name}") as stream:
        assert stream.headers["Content-Length"] == str(len(body))
        begin = stream.read_at_least(MIB)
        assert begin == body[:len(begin)]
        cluster.kill("t1")
        with pytest.raises((client.ProtocolError, ConnectionError)):
            stream.response()
    wait_until(lambda: client.request("GET", f"{cluster.relay}/data/{name}").status == 503, 5, "the name is away")
    cluster.start("t1")
    wait_until(lambda: client.request("GET", f"{cluster.relay}/data/{name}").status == 200, 10, "the name is back")
    assert client.request("GET", f"{cluster.relay}/data/{name}").body == body


def test_a_target_that_dies_during_an_upload_is_an_error_and_stores_nothing(make_cluster):
    cluster = make_cluster(targets=2, drives=1)
    name = cluster.names_owned_by("t1", "data", 1)[0]
    with client.RawConnection(cluster.relay) as connection:
        connection.send_head("PUT", f"/data/{name}", {"Content-Length": str(64 * MIB), "Expect": "100-continue"})
        assert connection.read_head()[0] == 100
        connection.send(b"x" * 8 * MIB)
        cluster.kill("t1")
        try:
            for _ in range(56):
                connection.send(b"x" * MIB)
        except OSError:
            pass
        answer = connection.read_response()
        assert answer.status == 503 and answer.headers["Retry-After"] == "1", answer
    cluster.start("t1")
    wait_until(lambda: client.request("GET", f"{cluster.relay}/data/{name}").status == 404, 10, "nothing is stored")


def test_a_client_that_goes_away_leaves_nothing(cluster, bucket):
    for ending in ("close", "reset"):
        connection = client.RawConnection(cluster.relay)
        connection.send_head("PUT", f"/{bucket}/x", {"Content-Length": str(8 * MIB)})
        connection.send(b"x" * MIB)
        getattr(connection, ending)()
    chunked = client.RawConnection(cluster.relay)
    chunked.send_head("PUT", f"/{bucket}/x", {"Transfer-Encoding": "chunked"})
    chunked.send(b"5\r\nhello\r\n")
    chunked.close()
    assert client.request("GET", f"{cluster.relay}/{bucket}/x").status == 404
    assert cluster.names(bucket) == []


def test_malformed_chunks_are_400_and_store_nothing(cluster, bucket):
    with client.RawConnection(cluster.relay) as connection:
        connection.send_head("PUT", f"/{bucket}/x", {"Transfer-Encoding": "chunked"})
        connection.send(b"5\r\nhello\r\nnonsense\r\n")
        assert connection.read_response().status == 400
    assert cluster.names(bucket) == []


def test_only_named_fields_reach_a_target(cluster, bucket, rng):
    """No client gets to be a node, or to smuggle a body, by what it writes into a request to the relay."""
    body = rng.randbytes(1000)
    forged = {"Tarn-Node-Auth": "t1 1 x y", "Ais-Caller-Id": "p1", "Authorization": "Bearer secret", "X-Forwarded-For": "1.2.3.4",
              "Connection": "keep-alive, X-Custom", "X-Custom": "1"}
    url = f"{cluster.relay}/{bucket}/x?pid=forged&len=3&u=abc"
    assert client.request("PUT", url, body, forged).status == 200
    got = client.request("GET", url, headers=forged)
    assert got.status == 200 and got.body == body


def test_checksums_are_verified_through_the_relay(cluster, bucket):
    url = f"{cluster.relay}/{bucket}/x"
    wrong = {"Ais-Checksum-Type": "xxhash2", "Ais-Checksum-Value": "0" * 16}
    assert client.request("PUT", url, b"hello world", wrong).status == 400
    assert client.request("GET", url).status == 404
    right = wrong | {"Ais-Checksum-Value": "45ab6734b21e6968"}
    answer = client.request("PUT", url, b"hello world", right)
    assert answer.status == 200 and answer.headers["Ais-Checksum-Value"] == "45ab6734b21e6968"


def test_request_ids_are_the_same_on_both_sides(make_cluster):
    cluster = make_cluster(targets=1, drives=1, settings={"log.level": "debug"})
    for base in (cluster.relay, cluster.endpoint):
        answer = client.request("PUT", f"{base}/data/x", b"12345")
        request = answer.headers["Tarn-Request"]
        for node in ("p1", "t1"):
            # The line follows the answer: it tells how long that took.
            wait_until(lambda node=node, request=request: cluster.logs[node].matching(
                f"request done req={request} method=PUT "), 5, f"{node} logs request {request}")


def test_many_relayed_transfers_cost_bounded_memory(make_cluster):
    """Sixteen uploads and sixteen downloads of 64 MiB at once, by slow and fast clients."""
    cluster = make_cluster(targets=2, drives=1, settings=NEVER_DOWN)
    block = os.urandom(MIB)
    sums = {}
    errors = []

    def transfer(number):
        try:
            url = f"{cluster.relay}/data/x{number}"
            answer = client.request("PUT", url, (block[number:] + block[:number] for _ in range(64)), expect=number % 2 == 0)
            assert answer.status == 200, answer
            digest = hashlib.sha256()
            with client.open_stream("GET", url) as stream:
                assert stream.status == 200, stream.response()
                for chunk in stream:
                    digest.update(chunk)
            sums[number] = digest.digest()
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            errors.append(error)

    threads = [threading.Thread(target=transfer, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    for number, digest in sums.items():
        expected = hashlib.sha256()
        for _ in range(64):
            expected.update(block[number:] + block[:number])
        assert digest == expected.digest()
    print(f"the proxy took {cluster.memory_peak('p1') / MIB:.0f} MiB at most")
    assert cluster.memory_peak("p1") < scaled(128 * MIB)  # sanitizers take memory of their own
