"""The redirecting listener: which status, which Location, which line for a person, and what is refused before."""

import contextlib
import re
import socket
import subprocess
import threading
import time
import urllib.parse

import pytest
from harness import client
from harness.cluster import LONG_LEASES
from harness.waiting import guarded, scaled, wait_until

PUT_HEAD = {"Content-Length": "5", "Expect": "100-continue"}


def head_only(cluster, method, path, headers=(), base=None):
    """The final answer to a request of which only the head is sent."""
    with client.RawConnection(base or cluster.endpoint) as connection:
        connection.send_head(method, path, headers)
        return connection.read_response(method)


def location_of(answer):
    parts = urllib.parse.urlsplit(answer.headers["Location"])
    return f"{parts.scheme}://{parts.netloc}", parts.path, dict(urllib.parse.parse_qsl(parts.query))


@pytest.mark.parametrize("method, headers, status", [
    ("GET", {}, 302), ("HEAD", {}, 302), ("PUT", PUT_HEAD, 307), ("DELETE", {}, 307), ("PATCH", PUT_HEAD, 307),
    ("POST", PUT_HEAD, 307)])
def test_every_verb_is_redirected_to_the_owner(cluster, bucket, method, headers, status):
    answer = head_only(cluster, method, f"/{bucket}/some/object", headers)
    assert answer.status == status
    base, path, query = location_of(answer)
    assert base == cluster.url_of(cluster.owner(bucket, "some/object"))
    assert path == f"/v1/objects/{bucket}/some/object"
    assert query["provider"] == "ais" and query["pid"] == cluster.nodes["p1"]["id"]
    assert query["rid"] == answer.headers["Tarn-Request"]
    assert answer.headers["Cache-Control"] == "no-store"
    if method != "HEAD":
        assert len(answer.body.splitlines()) == 1 and b"follow the redirect" in answer.body


def test_the_redirect_carries_the_length_that_was_announced(cluster, bucket):
    for headers, length in (({"Content-Length": "0"}, "0"), (PUT_HEAD, "5"),
                            ({"Transfer-Encoding": "chunked", "Expect": "100-continue"}, "chunked")):
        _, _, query = location_of(head_only(cluster, "PUT", f"/{bucket}/x", headers))
        assert query["len"] == length
    _, _, query = location_of(head_only(cluster, "GET", f"/{bucket}/x"))
    assert "len" not in query


def test_a_query_goes_along_and_forged_marks_do_not(cluster, bucket):
    answer = head_only(cluster, "GET", f"/v1/objects/{bucket}/x?provider=ais&latest-ver=true&note=a%20b%26c&pid=me&u=x&len=9")
    _, _, query = location_of(answer)
    assert query["latest-ver"] == "true" and query["note"] == "a b&c"
    assert query["pid"] == cluster.nodes["p1"]["id"] and query["u"] != "x" and "len" not in query


@pytest.mark.parametrize("name", [
    "%", "%25", "%3D", "%%%", "你好世界", "track?name=lofi&v=1", "-x", ".x", "my audio file .m4a", "a+b c", "#1", "a'b\"c",
    "dir/with:colon/x"])
def test_awkward_names_come_back_through_the_redirect(cluster, bucket, name):
    body = name.encode()
    for base in (cluster.endpoint, cluster.relay):
        url = f"{base}/{bucket}/{urllib.parse.quote(name)}"
        assert client.request("PUT", url, body).status == 200
        assert client.request("GET", url).body == body
        assert cluster.names(bucket) == [name]
        assert client.request("DELETE", url).status == 200


def test_easy_urls_are_the_same_objects(cluster, bucket):
    assert client.request("PUT", f"{cluster.endpoint}/ais/{bucket}/a/b", b"easy").status == 200
    assert cluster.get(bucket, "a/b").body == b"easy"
    assert client.request("GET", f"{cluster.endpoint}/{bucket}/a/b").body == b"easy"
    for path in (f"/ais/{bucket}", f"/ais/{bucket}/", f"/v1/buckets/{bucket}", f"/v1/buckets/{bucket}/"):
        listed = client.request("GET", cluster.endpoint + path).json()
        assert [entry["name"] for entry in listed["entries"]] == ["a/b"]
        assert client.request("HEAD", cluster.endpoint + path).headers["Ais-Bucket-Props"]
    assert bucket in [each["name"] for each in client.request("GET", f"{cluster.endpoint}/ais").json()]


@pytest.mark.parametrize("path", ["/s3", "/s3/b/o", "/ui", "/v1/etl", "/v1/cluster/attach"])
def test_words_of_later_work_say_so(cluster, path):
    for method in ("GET", "PUT"):
        answer = client.request(method, cluster.endpoint + path, b"" if method == "PUT" else None)
        assert answer.status == 501 and "later work" in answer.json()["message"], answer


@pytest.mark.parametrize("path", ["/metrics/x", "/healthz/x", "/v3/kv/range"])
def test_reserved_words_are_no_buckets(cluster, path):
    assert client.request("GET", cluster.endpoint + path).status == 400


@pytest.mark.parametrize("path", ["/v1/nothing", "/v3", "/favicon.ico", "/v1"])
def test_paths_that_nobody_has_are_404(cluster, path):
    assert client.request("GET", cluster.endpoint + path).status == 404


@pytest.mark.parametrize("path, status", [
    ("/a..b/x", 400), ("/%2e/x", 400), ("/data/..%2fx", 400), ("/data//x", 400), ("/data/%zz", 400), ("/data%2fx", 400),
    ("/data/" + "n" * 1025, 400), ("/no-such-bucket/x", 404), ("/v1/objects/data/", 400),
    ("/v1/objects/data/x?provider=nobody", 400), ("/v1/objects/data/x?provider=s3", 404)])
def test_what_is_wrong_is_refused_before_the_redirect(cluster, path, status):
    for base in (cluster.endpoint, cluster.relay):
        answer = head_only(cluster, "PUT", path, PUT_HEAD, base)
        assert answer.status == status and answer.json()["status"] == status, answer


def test_a_redirect_says_what_curl_without_l_must_know(cluster, bucket, tmp_path):
    """`curl -T` without -L exits 0 and prints the body of the redirect: it must say that nothing is stored."""
    file = tmp_path / "f"
    file.write_bytes(b"12345")
    result = subprocess.run(["curl", "-sS", "-T", file, f"{cluster.endpoint}/{bucket}/f"], capture_output=True, text=True)
    assert result.returncode == 0
    assert "NOTHING HAS BEEN STORED" in result.stdout and "curl -L" in result.stdout and cluster.relay in result.stdout
    assert cluster.names(bucket) == []


def test_several_ranges_are_refused_below_v1_and_the_whole_elsewhere(cluster, bucket):
    body = b"0123456789"
    assert cluster.put(bucket, "x", body).status == 200
    several = {"Range": "bytes=0-1,4-5"}
    for base in (cluster.endpoint, cluster.relay):
        assert client.request("GET", f"{base}/v1/objects/{bucket}/x", headers=several).status == 416
        answer = client.request("GET", f"{base}/{bucket}/x", headers=several)
        assert answer.status == 200 and answer.body == body
        assert client.request("GET", f"{base}/{bucket}/x", headers={"Range": "bytes=4-5"}).body == b"45"


def test_keep_alive_survives_redirects(cluster, bucket):
    with client.RawConnection(cluster.endpoint) as connection:
        for method, headers in (("GET", {}), ("HEAD", {}), ("PUT", {"Content-Length": "0"}), ("DELETE", {}), ("GET", {})):
            connection.send_head(method, f"/{bucket}/x", headers)
            assert connection.read_response(method).status in (302, 307)


def test_a_client_that_reads_late_misses_no_redirect(cluster, bucket):
    """More requests at once than the socket takes answers for: what it does not take has to wait, in order."""
    count = 20000
    with client.RawConnection(cluster.endpoint) as connection:
        ask = "".join(f"GET /{bucket}/x{i} HTTP/1.1\r\nHost: h\r\n\r\n" for i in range(count - 1))
        ask += f"GET /{bucket}/x{count - 1} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        sender = threading.Thread(target=connection.send, args=(ask.encode(),), daemon=True)
        sender.start()
        sender.join(scaled(0.3))  # the proxy has to stop until the client reads
        received = connection.reader.read()
        sender.join()
    assert [int(i) for i in re.findall(rb"Location: [^\r]*/x(\d+)\?", received)] == list(range(count))
    assert received.count(b"HTTP/1.1 302") == count


def test_requests_and_redirects_are_counted(cluster, bucket):
    def count(method, status):
        return cluster.metric("p1", "tarn_http_requests_total", listener="public", method=method, status=status) or 0

    gets, puts = count("GET", "302"), count("PUT", "307")
    redirects = cluster.metric("p1", "tarn_redirects_total") or 0
    for _ in range(3):
        cluster.get(bucket, "x", follow=False)
    cluster.put(bucket, "x", b"12345", follow=False)
    # An answer is counted when it has gone, which is after the client has it.
    wait_until(lambda: (count("GET", "302"), count("PUT", "307")) == (gets + 3, puts + 1), 10, "each is counted once")
    assert cluster.metric("p1", "tarn_redirects_total") == redirects + 4
    assert cluster.metric("p1", "tarn_http_connections", listener="public") >= 1
    for name in cluster.targets():
        assert cluster.metric("p1", "tarn_target_suspect", target=cluster.nodes[name]["id"]) == 0


@pytest.mark.parametrize("after, least, most", [("2s", 0, 5), ("8s", 3, 11)])
def test_a_stopped_target_is_suspected_and_trusted_again(make_cluster, after, least, most):
    """SIGSTOP leaves its sockets open: only its silence tells."""
    cluster = make_cluster(targets=2, drives=1, settings=LONG_LEASES | {"suspect.after": after})

    def a_name_of(target):
        # A busy machine may hold up a target for as long as this test has it suspected.
        with contextlib.suppress(AssertionError):
            return cluster.names_owned_by(target, "data", 1)[0]
        return None

    name = wait_until(lambda: a_name_of("t1"), 10, "t1 owns a name")
    other = wait_until(lambda: a_name_of("t2"), 10, "t2 owns a name")
    wait_until(lambda: cluster.put("data", name, b"x").status == 200, 10, "a write is taken")
    identity = cluster.nodes["t1"]["id"]
    stopped = time.monotonic()
    cluster.stop("t1")
    wait_until(lambda: cluster.get("data", name, follow=False).status == 503, most, "a silent target gets no clients")
    assert time.monotonic() - stopped > least, "it was suspected before the time that was set"
    # The gauge follows what requests go by.
    wait_until(lambda: cluster.metric("p1", "tarn_target_suspect", target=identity) == 1, 10, "the gauge says so")
    answer = cluster.get("data", name, follow=False)
    assert answer.headers["Retry-After"] == "1" and identity in answer.json()["message"]
    wait_until(lambda: cluster.get("data", other, follow=False).status == 302, 10, "the other target gets clients")
    cluster.cont("t1")
    wait_until(lambda: cluster.get("data", name).body == b"x", 10, "it is trusted again")
    wait_until(lambda: cluster.metric("p1", "tarn_target_suspect", target=identity) == 0, 10, "the gauge says so")


def test_a_killed_target_is_suspected_at_once(make_cluster):
    """The target's kernel closes the heartbeat, so hardly any client is sent to the closed port, which curl does not retry."""
    cluster = make_cluster(targets=2, drives=1, settings=LONG_LEASES)
    name = cluster.names_owned_by("t1", "data", 1)[0]
    cluster.kill("t1")
    wait_until(lambda: cluster.get("data", name, follow=False).status == 503, 1, "no redirect to a dead target")


def test_only_nodes_of_the_cluster_are_heard_on_the_internal_listener(cluster):
    internal = cluster.url_of("p1", "internal")
    for path in ("/v3/kv/range", "/v1/internal/heartbeat", "/healthz"):
        answer = client.request("POST", internal + path, b"{}", expect=False)
        assert answer.status == 401, answer
        forged = {"Tarn-Node-Auth": "t1 1 nonce 00"}
        assert client.request("POST", internal + path, b"{}", forged, expect=False).status == 401


def test_one_proxy_only_runs_on_a_directory(make_cluster):
    cluster = make_cluster(targets=1, drives=1)
    directory = cluster.directory / "p1"
    result = subprocess.run([cluster.programs / "tarn-proxy", "--dir", directory, "--listen", "127.0.0.1:0", "--relay",
                             "127.0.0.1:0", "--internal", "127.0.0.1:0"], capture_output=True, text=True, timeout=guarded(30))
    assert result.returncode == 1
    assert "exactly one proxy runs with the embedded store" in result.stderr
    assert (directory / "node.json").exists(), "the file of the proxy that runs is left alone"
    assert cluster.get("data", "x", follow=False).status == 302


def test_a_taken_port_is_a_clear_error(cluster, tmp_path):
    taken = urllib.parse.urlsplit(cluster.endpoint).netloc
    result = subprocess.run([cluster.programs / "tarn-proxy", "--dir", tmp_path / "p", "--listen", taken, "--relay",
                             "127.0.0.1:0", "--internal", "127.0.0.1:0"], capture_output=True, text=True, timeout=guarded(30))
    assert result.returncode == 1 and taken in result.stderr.splitlines()[-1]
    assert not (tmp_path / "p" / "node.json").exists()


def test_a_client_that_sends_without_end_keeps_nobody_waiting(cluster, bucket):
    """Requests that wait in a connection are not all answered before others get their turn."""
    flood = f"GET /{bucket}/a HTTP/1.1\r\nHost: h\r\n\r\n".encode() * 2000
    enough = threading.Event()
    others = [client.RawConnection(cluster.endpoint) for _ in range(8)]  # on all loops, most likely
    with contextlib.ExitStack() as stack:
        for other in others:
            stack.enter_context(other)
        busy = stack.enter_context(client.RawConnection(cluster.endpoint))
        sent, received = [], []

        def send():
            while not enough.is_set():
                busy.send(flood)
                sent.append(len(flood))
            busy.socket.shutdown(socket.SHUT_WR)

        def read_answers():
            while chunk := busy.socket.recv(1 << 20):
                received.append(len(chunk))

        flooding = [threading.Thread(target=send), threading.Thread(target=read_answers)]
        for thread in flooding:
            thread.start()
        try:
            wait_until(lambda: received, 10, "the flood is answered")
            for _ in range(20):
                for other in others:
                    other.send_head("GET", f"/{bucket}/b")
                for other in others:
                    assert other.read_response().status == 302
            assert all(thread.is_alive() for thread in flooding), "the flood ended before"
        finally:
            enough.set()
            for thread in flooding:
                thread.join()
    print(f"20 turns of others beside {sum(sent)} bytes of requests")
