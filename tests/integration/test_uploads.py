"""Large uploads by the clients people use: all bytes at the target, next to nothing through the proxy."""

import http.client
import os
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
import requests
from harness import client
from harness.go_programs import go_program
from harness.waiting import assert_within, guarded

MIB = 1 << 20
LARGE = 256 * MIB
GIB = 1 << 30
MOST_AT_PROXY = (64 << 20) + (4 << 20)  # what a proxy reads on after an early answer, and one receive buffer


@pytest.fixture(scope="module")
def large_file(tmp_path_factory):
    """LARGE bytes in which no two MiB are alike."""
    path = tmp_path_factory.mktemp("large") / "large.bin"
    block = os.urandom(MIB - 8)
    with open(path, "wb") as file:
        for i in range(LARGE // MIB):
            file.write(i.to_bytes(8, "big") + block)
    yield path
    path.unlink()


def with_curl(*words):
    def upload(path, url):
        subprocess.run(["curl", "-fsS", "-L", "-o", "/dev/null", *words, "-T", path, url], check=True, timeout=guarded(120))
    return upload


def with_requests(path, url):
    with open(path, "rb") as file:
        answer = requests.put(url, data=file, timeout=guarded(60))
    assert answer.status_code == 200, answer.text


def with_go(*words):
    def upload(path, url):
        result = subprocess.run([go_program("upload"), path, url, *words], capture_output=True, text=True, timeout=guarded(120))
        assert result.stdout == "200\n", result
    return upload


UPLOADERS = {
    "curl": with_curl(),
    "curl without Expect": with_curl("-H", "Expect:"),
    "requests": with_requests,
    "Go": with_go(),
    "Go with Expect": with_go("100-continue"),
}


@pytest.mark.parametrize("uploader", UPLOADERS)
def test_a_large_file_arrives_at_the_target_and_hardly_any_of_it_at_the_proxy(cluster, bucket, large_file, uploader):
    before = cluster.metric("p1", "tarn_http_body_bytes_received_total")
    assert before is not None
    url = f"{cluster.endpoint}/{bucket}/large.bin"
    UPLOADERS[uploader](large_file, url)
    at_proxy = cluster.metric("p1", "tarn_http_body_bytes_received_total") - before
    print(f"{uploader}: {at_proxy:.0f} bytes of the body arrived at the proxy")
    assert at_proxy < MOST_AT_PROXY
    with client.open_stream("GET", url) as stream, open(large_file, "rb") as file:
        assert stream.headers["Content-Length"] == str(LARGE)
        for chunk in stream:
            assert file.read(len(chunk)) == chunk
        assert file.read(1) == b""


def chunks_of_60_mb():
    for i in range(600):
        yield i.to_bytes(4, "big") * 25_000


def test_a_generator_is_stored_whole_or_fails_visibly(cluster, bucket):
    """requests sends a generator in chunks without Expect and cannot send it twice: after an early redirect only the
    tail would be stored, with a 200. So each listener relays it."""
    for base in (cluster.endpoint, cluster.relay):
        answer = requests.put(f"{base}/{bucket}/generated", data=chunks_of_60_mb(), timeout=guarded(60))
        assert answer.status_code == 200 and not answer.history, answer.text
        assert cluster.get(bucket, "generated").body == b"".join(chunks_of_60_mb())
        assert cluster.delete(bucket, "generated").status == 200


def test_a_generator_that_breaks_off_stores_nothing(cluster, bucket):
    def breaks_off():
        yield b"x" * MIB
        raise RuntimeError("no more")

    for base in (cluster.endpoint, cluster.relay):
        with pytest.raises(RuntimeError):
            requests.put(f"{base}/{bucket}/broken", data=breaks_off(), timeout=guarded(60))
        missing = requests.put(f"{base}/no-such-bucket/x", data=chunks_of_60_mb(), timeout=guarded(60))
        assert missing.status_code == 404 and "no-such-bucket" in missing.json()["message"]
    assert cluster.get(bucket, "broken").status == 404


def test_chunks_without_expect_are_relayed_also_when_there_are_none(cluster, bucket):
    for chunks in ([b"data"], []):
        answer = client.request("PUT", cluster.url(bucket, "x"), iter(chunks), expect=False, follow=False)
        assert answer.status == 200, answer
        assert cluster.get(bucket, "x").body == b"".join(chunks)


def test_a_put_without_any_length_is_told_what_to_do(cluster, bucket):
    with client.RawConnection(cluster.endpoint) as connection:
        connection.send_head("PUT", f"/{bucket}/x")  # neither a length nor chunks
        assert connection.read_response().status == 411
    assert cluster.names(bucket) == []


def signed_put(cluster, bucket, announced):
    """The URL that the proxy signs for a PUT of `announced` bytes (None: chunked)."""
    headers = {"Transfer-Encoding": "chunked"} if announced is None else {"Content-Length": str(announced)}
    with client.RawConnection(cluster.endpoint) as connection:
        connection.send_head("PUT", f"/{bucket}/x", headers | {"Expect": "100-continue"})
        answer = connection.read_response()
    assert answer.status == 307, answer
    return answer.headers["Location"]


@pytest.mark.parametrize("announced, sent", [
    (100, b"x" * 99), (100, b"x" * 101), (100, b""), (100, iter([b"x" * 99])), (100, iter([])), (None, b""),
    (None, iter([]))], ids=["shorter", "longer", "nothing", "chunked-shorter", "chunked-nothing", "lost", "lost-chunked"])
def test_body_of_another_length_is_refused(cluster, bucket, announced, sent):
    """Clients lose bodies in redirects in many ways and would be told 200: every one of them must be an error."""
    answer = client.request("PUT", signed_put(cluster, bucket, announced), sent, expect=False)
    assert answer.status == 400, answer
    assert cluster.names(bucket) == []


def test_body_of_the_length_that_was_announced_is_taken_in_any_framing(cluster, bucket):
    assert client.request("PUT", signed_put(cluster, bucket, 100), b"x" * 100).status == 200
    assert client.request("PUT", signed_put(cluster, bucket, None), iter([b"y" * 70, b"y" * 30])).status == 200
    assert cluster.get(bucket, "x").body == b"y" * 100


def test_the_redirect_comes_before_100_continue(cluster, bucket):
    with client.RawConnection(cluster.endpoint) as connection:
        connection.send_head("PUT", f"/{bucket}/x", {"Content-Length": str(GIB), "Expect": "100-continue"})
        status, _ = connection.read_head()
        assert status == 307
    location = signed_put(cluster, bucket, 5)
    with client.RawConnection(location) as connection:
        connection.send_head("PUT", client.target_of(location), {"Content-Length": "5", "Expect": "100-continue"})
        status, _ = connection.read_head()
        assert status == 100
        connection.send(b"hello")
        assert connection.read_response().status == 200


def test_a_body_already_under_way_gets_the_redirect_and_a_prompt_close(cluster, bucket):
    """The early close: the redirect with Connection: close, half-closed at once, little read, then closed."""
    before = cluster.metric("p1", "tarn_http_body_bytes_received_total")
    with client.RawConnection(cluster.endpoint) as connection:
        connection.send_head("PUT", f"/{bucket}/x", {"Content-Length": str(GIB)})
        sender = threading.Thread(target=send_until_refused, args=(connection.socket,))
        sender.start()
        status, headers = connection.read_head()
        assert status == 307 and headers["Connection"].lower() == "close"
        sender.join(guarded(10))
        assert not sender.is_alive(), "the proxy goes on taking a body that no target wants"
    assert cluster.metric("p1", "tarn_http_body_bytes_received_total") - before < MOST_AT_PROXY


def with_http_client(url, body):
    """Sends all, then reads, also when sending has failed: what requests, urllib3 and the SDK of AIStore do."""
    parts = urllib.parse.urlsplit(url)
    link = http.client.HTTPConnection(parts.hostname, parts.port)
    link.putrequest("PUT", parts.path)
    link.putheader("Content-Length", str(len(body)))
    link.endheaders()
    try:
        link.send(body)
    except (BrokenPipeError, ConnectionResetError):
        pass
    return link.getresponse().status


def with_urllib(url, body):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, data=body, method="PUT")).status
    except urllib.error.HTTPError as answer:
        return answer.code


def with_requests_once(url, body):
    return requests.put(url, data=body, allow_redirects=False).status_code


@pytest.mark.deep("a client has half a second for what it still sends")
@pytest.mark.parametrize("upload", [with_http_client, with_urllib, with_requests_once])
def test_an_answer_before_the_body_has_arrived_is_seen_at_once(cluster, bucket, upload):
    target = cluster.url_of("t1")
    for size in (MIB, 10 * MIB, 60 * MIB):
        for url, status in ((f"{cluster.endpoint}/{bucket}/x", 307), (f"{cluster.endpoint}/no-such-bucket/x", 404),
                            (f"{cluster.relay}/no-such-bucket/x", 404), (f"{target}/v1/objects/{bucket}/x", 400)):
            began = time.monotonic()
            assert upload(url, b"x" * size) == status, (size, url)
            assert_within(time.monotonic() - began, 0.3, f"{size} bytes to {url}")
    assert cluster.names(bucket) == []


@pytest.mark.deep("a client has half a second for what it still sends")
def test_an_early_answer_to_chunks_is_seen_behind_another_request(cluster, bucket):
    """The rest of the body belongs to this request, and not to the one before it on the connection."""
    with client.RawConnection(cluster.relay) as connection:
        connection.send_head("PUT", f"/{bucket}/x", {"Content-Length": "4"})
        connection.send(b"abcd")
        assert connection.read_response().status == 200
        connection.send_head("PUT", "/no-such-bucket/x", {"Transfer-Encoding": "chunked"})
        for _ in range(64):
            connection.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        connection.send(b"0\r\n\r\n")
        assert connection.read_response().status == 404


def send_until_refused(connection):
    block = b"z" * 65536
    try:
        while True:
            connection.sendall(block)
    except OSError:
        pass


def test_redirect_put_status_can_be_302(make_cluster):
    cluster = make_cluster(targets=1, drives=1, settings={"redirect_put_status": 302})
    answer = cluster.put("data", "x", b"1", follow=False)
    assert answer.status == 302
    assert urllib.parse.urlsplit(answer.headers["Location"]).path == "/v1/objects/data/x"
    assert cluster.put("data", "x", b"1").status == 200
