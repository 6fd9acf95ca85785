"""What goes wrong is said clearly: what, where, and which call mends it."""

from urllib.parse import quote

import pytest
from harness import client
from harness.cluster import LONG_LEASES
from harness.waiting import wait_until


def assert_error(answer, status, *says):
    assert answer.status == status, answer
    assert answer.headers["Content-Type"].partition(";")[0] == "application/json"
    error = answer.json()
    assert error["status"] == status and error["method"] and error["url_path"]
    for text in says:
        assert text in error["message"], error["message"]


RAW = {
    405: b"DELETE /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    400: b"GET /v1/objects/data/%zz HTTP/1.1\r\nHost: x\r\n\r\n",
    404: b"GET /v1/objects/no-such-bucket/x HTTP/1.1\r\nHost: x\r\n\r\n",
    417: b"PUT /data/x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: tea\r\n\r\n",
    431: b"GET / HTTP/1.1\r\nHost: x\r\nLong: " + b"x" * 200_000 + b"\r\n\r\n",
    501: b"BREW /data/x HTTP/1.1\r\nHost: x\r\n\r\n",
    505: b"GET /healthz HTTP/2.5\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("status", RAW)
def test_the_parts_of_an_error_agree(cluster, status):
    """Status line and JSON, on every listener; and the node is the one that answered."""
    for name, base in (("p1", cluster.endpoint), ("p1", cluster.relay), ("t1", cluster.url_of("t1"))):
        with client.RawConnection(base) as connection:
            connection.send(RAW[status])
            answer = connection.read_response()
        error = answer.json()
        assert answer.status == status == error["status"], (name, answer)
        assert error["node"] == f"{name[0]}[{cluster.nodes[name]['id']}]", error
        assert error["message"] and answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_missing_object_names_the_call_that_creates_it(cluster, bucket):
    answer = cluster.get(bucket, "nothing/here")
    assert_error(answer, 404, f"ais://{bucket}/nothing/here", "does not exist", "PUT")
    assert answer.json()["tcode"] == "ErrNotFound"
    assert cluster.head(bucket, "nothing/here").headers["Hdr-Error"]


def test_a_missing_bucket_names_the_call_that_helps(cluster):
    for answer, call in ((cluster.get("no-such-bucket", "x"), "GET /v1/buckets"),
                         (cluster.list_page("no-such-bucket"), "GET /v1/buckets"),
                         (cluster.put("no-such-bucket", "x", b"1"), "create-bck")):
        assert_error(answer, 404, "ais://no-such-bucket", "does not exist", call)
        assert answer.json()["tcode"] == "ErrBckNotFound"


def test_buckets_are_created_listed_and_destroyed(cluster):
    cluster.create_bucket("photos")
    try:
        assert_error(cluster.bucket_action("POST", "photos", "create-bck"), 409, "ais://photos")
        url = f"{cluster.endpoint}/v1/buckets"
        buckets = client.request("GET", f"{url}?provider=ais", b'{"action":"list"}', expect=False).json()
        assert {"photos", "data"} <= {bucket["name"] for bucket in buckets}
        assert all(bucket["provider"] == "ais" for bucket in buckets)
        assert client.request("HEAD", f"{url}/photos?provider=ais").headers["Ais-Bucket-Props"]
        assert cluster.put("photos", "a", b"1").status == 200
    finally:
        assert cluster.destroy_bucket("photos").status == 200
    assert client.request("HEAD", f"{url}/photos?provider=ais").status == 404
    assert_error(cluster.destroy_bucket("photos"), 404, "ais://photos")
    assert_error(cluster.get("photos", "a"), 404, "ais://photos")


def test_a_bucket_made_again_is_empty(cluster):
    for content in (b"old", b"new"):
        cluster.create_bucket("again")
        assert cluster.get("again", "x").status == 404
        assert cluster.names("again") == []
        assert cluster.put("again", "x", content).status == 200
        assert cluster.destroy_bucket("again").status == 200


@pytest.mark.parametrize("name", ["a b", "a..b", "ä", "x" * 65, "."])
def test_bad_bucket_names_are_400(cluster, name):
    assert cluster.bucket_action("POST", quote(name), "create-bck").status == 400


@pytest.mark.parametrize("path", ["a/../b", "../x", "./x", "a/", "~/x"])
def test_bad_object_names_are_400(cluster, bucket, path):
    with client.RawConnection(cluster.endpoint) as connection:
        connection.send_head("PUT", f"/v1/objects/{bucket}/{path}", {"Content-Length": "1", "Expect": "100-continue"})
        assert connection.read_response().status == 400
    assert cluster.names(bucket) == []


def test_an_unsigned_write_to_a_target_is_refused(cluster, bucket):
    assert cluster.put(bucket, "x", b"kept").status == 200
    direct = cluster.url(bucket, "x", base=cluster.url_of(cluster.owner(bucket, "x")))
    for method, body in (("PUT", b"forged"), ("DELETE", None)):
        answer = client.request(method, direct, body)
        assert answer.status == 400 and answer.json()["message"], answer
    # Reading directly is allowed: the Python SDK does.
    assert client.request("GET", direct).body == b"kept"


def test_a_signature_is_worth_nothing_for_anything_else(cluster, bucket):
    """Another name, another method, another length, a changed byte: all refused."""
    location = cluster.put(bucket, "mine", b"12345", follow=False).headers["Location"]
    other_name = location.replace("/mine?", "/yours?")
    signature = location.rpartition("u=")[2].partition("&")[0]
    flipped = location.replace(signature, ("B" if signature[0] == "A" else "A") + signature[1:])
    for method, url, body in (("PUT", other_name, b"12345"), ("DELETE", location, None), ("PUT", flipped, b"12345"),
                              ("PUT", location.replace("len=5", "len=6"), b"123456")):
        assert client.request(method, url, body).status in (400, 403), (method, url)
    assert cluster.names(bucket) == []
    assert client.request("PUT", location, b"12345").status == 200


def test_unknown_paths_and_methods(cluster, bucket):
    answer = client.request("GET", f"{cluster.endpoint}/v1/no/such/thing")
    assert answer.status in (400, 404, 501) and answer.json()["message"]
    answer = client.request("POST", cluster.url(bucket, "x"), b"", expect=False)
    assert answer.status in (400, 405, 501), answer
    answer = client.request("TRACE", cluster.url(bucket, "x"))
    assert answer.status in (405, 501), answer


def test_health_readiness_and_metrics_answer_on_every_node(cluster):
    for name in cluster.nodes:
        base = cluster.url_of(name)
        assert client.request("GET", f"{base}/healthz").status == 200
        assert client.request("GET", f"{base}/readyz").status == 200
        assert client.request("GET", f"{base}/v1/health").status == 200
        metrics = client.request("GET", f"{base}/metrics")
        assert metrics.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert cluster.metrics(name)
        smap = client.request("GET", f"{base}/v1/daemon?what=smap").json()
        assert len(smap["tmap"]) == len(cluster.targets()) and len(smap["pmap"]) == 1


def test_a_name_whose_target_is_down_is_503_and_never_404(make_cluster):
    cluster = make_cluster(targets=3, drives=1, settings=LONG_LEASES)  # no other target gets its names meanwhile
    mine = cluster.names_owned_by("t2", "data", 4)
    other = cluster.names_owned_by("t1", "data", 1)[0]
    cluster.fill("data", [*mine, other])
    never_stored = cluster.names_owned_by("t2", "data", 1, prefix="absent")[0]
    cluster.kill("t2")

    def all_say_so():
        answers = [cluster.get("data", name, follow=False) for name in [*mine, never_stored]]
        answers += [cluster.put("data", mine[0], b"new", follow=False), cluster.delete("data", mine[0], follow=False)]
        assert all(answer.status in (302, 307, 503) for answer in answers), answers
        return all(answer.status == 503 and answer.headers["Retry-After"] == "1" for answer in answers)

    # Until the proxy knows, it redirects to a closed port; it must know soon.
    wait_until(all_say_so, 10, "all names of the dead target answer 503 with Retry-After: 1")
    assert cluster.get("data", other).body == other.encode()
    cluster.start("t2")
    wait_until(lambda: cluster.get("data", mine[0]).status == 200, 10, "the names are back")
    assert cluster.bodies("data", mine) == {name: name.encode() for name in mine}
    assert cluster.get("data", never_stored).status == 404


def test_a_proxy_that_restarts_is_away_only_meanwhile(make_cluster):
    cluster = make_cluster(targets=2, drives=1)
    assert cluster.put("data", "x", b"before").status == 200
    direct = cluster.url("data", "x", base=cluster.url_of(cluster.owner("data", "x")))
    cluster.kill("p1")
    assert client.request("GET", direct).body == b"before"
    cluster.start("p1")
    wait_until(lambda: cluster.put("data", "y", b"after").status == 200, 15, "writes work again")
    wait_until(lambda: cluster.get("data", "x").body == b"before", 15, "reads work again")
    assert cluster.names("data") == ["x", "y"]
