"""Requests whose fields or method ask for what Tarn does not do: refused in words at every listener, and nothing is changed."""

import gzip
import socket
import urllib.parse

import pytest
from harness import client

BODY = b"the whole object"
REFUSED = [("Content-Range", "bytes 4-8/16", 400), ("Content-Range", "bytes */16", 400), ("X-HTTP-Method-Override", "DELETE", 501),
           ("x-amz-copy-source", "/a/b", 501), ("x-amz-server-side-encryption", "AES256", 501), ("x-amz-meta-a", "b", 501),
           ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", 501), ("Content-Encoding", "aws-chunked", 501),
           ("X-Delete-After", "60", 501), ("If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:37 GMT", 412), ("If-Match", '"x"', 412),
           ("Expect", "200-ok", 417)]


def doors(cluster, bucket, name):
    """The URLs of an object at each kind of listener; at the target's, as the proxy redirects to it."""
    redirect = cluster.put(bucket, name, BODY, follow=False)
    return {"redirect": f"{cluster.endpoint}/{bucket}/{name}", "relay": f"{cluster.relay}/{bucket}/{name}",
            "target": redirect.headers["Location"]}


@pytest.mark.parametrize("door", ["redirect", "relay", "target"])
@pytest.mark.parametrize(("field", "value", "status"), REFUSED)
def test_a_put_with_such_a_field_changes_nothing(cluster, bucket, door, field, value, status):
    assert cluster.put(bucket, "o", BODY).status == 200
    answer = client.request("PUT", doors(cluster, bucket, "o")[door], bytes(len(BODY)), {field: value}, expect=False)
    assert answer.status == status, answer
    if status != 412:
        assert field.lower() in answer.text.lower() or value in answer.text, "the answer names the field"
    assert cluster.get(bucket, "o").body == BODY


@pytest.mark.parametrize("door", ["redirect", "relay"])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_writes_obey_dates(cluster, bucket, door, method):
    assert cluster.put(bucket, "o", BODY).status == 200
    url = doors(cluster, bucket, "o")[door]
    message = b'{"action": "set-custom", "value": {"a": "b"}}' if method == "PATCH" else b"new" if method == "PUT" else None
    before = client.request(method, url, message, {"If-Unmodified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"}, expect=False)
    assert before.status == 412 and cluster.get(bucket, "o").body == BODY
    modified = cluster.head(bucket, "o").headers["Last-Modified"]
    assert client.request(method, url, message, {"If-Unmodified-Since": modified}, expect=False).status == 200


@pytest.mark.parametrize("query", ["uploadId=1&partNumber=2", "uploads", "tagging", "versionId=3"])
def test_operations_of_s3_in_the_query_are_refused(cluster, bucket, query):
    assert cluster.put(bucket, "o", BODY).status == 200
    for base in (cluster.endpoint, cluster.relay):
        for method in ("GET", "PUT", "DELETE"):
            answer = client.request(method, f"{base}/{bucket}/o?{query}", b"x" if method == "PUT" else None, expect=False)
            assert answer.status == 501, (method, answer)
    assert cluster.get(bucket, "o").body == BODY


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("path", ["/", "/healthz", "*", "/{bucket}/o", "/v1/buckets", "/v1/objects/{bucket}/o", "/v1/daemon"])
def test_options_is_answered_with_what_is_allowed(cluster, bucket, path, version):
    for base in (cluster.endpoint, cluster.relay, cluster.url_of("t1")):
        if base == cluster.url_of("t1") and not path.startswith(("*", "/healthz", "/v1/objects", "/v1/daemon")):
            continue
        where = urllib.parse.urlsplit(base)
        with socket.create_connection((where.hostname, where.port), timeout=60) as connection:
            connection.sendall(f"OPTIONS {path.format(bucket=bucket)} HTTP/{version}\r\nHost: {where.netloc}\r\n"
                               "Connection: close\r\n\r\n".encode())
            head, _, body = connection.makefile("rb").read().decode().partition("\r\n\r\n")
        status, *lines = head.split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        assert status == f"HTTP/{version} 200 OK" and body == "" and fields["Content-Length"] == "0", head
        assert {"GET", "OPTIONS"} <= set(fields["Allow"].split(", ")), head


def test_methods_that_are_not_implemented_are_501(cluster, bucket):
    for base in (cluster.endpoint, cluster.relay):
        for method in ("TRACE", "PROPFIND", "MKCOL", "LOCK", "BREW", "put"):
            assert client.request(method, f"{base}/{bucket}/o", expect=False).status == 501, method


@pytest.mark.parametrize("door", ["redirect", "relay"])
def test_type_and_coding_of_the_content_are_kept(cluster, bucket, door):
    base = cluster.endpoint if door == "redirect" else cluster.relay
    packed = gzip.compress(b'{"a":1}')
    fields = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert client.request("PUT", f"{base}/{bucket}/j", packed, fields).status == 200
    for method in ("GET", "HEAD"):
        answer = client.request(method, f"{base}/{bucket}/j")
        assert (answer.headers["Content-Type"], answer.headers["Content-Encoding"]) == ("application/json", "gzip")
    assert client.request("GET", f"{base}/{bucket}/j").body == packed
    # They are no lines of custom metadata, and a change of it leaves them.
    assert "Ais-Custom-Md" not in client.request("HEAD", f"{base}/{bucket}/j").headers
    change = b'{"action": "set-custom", "value": {"a": "b"}}'
    assert client.request("PATCH", f"{base}/v1/objects/{bucket}/j?set-new-custom=true", change).status == 200
    answer = client.request("HEAD", f"{base}/{bucket}/j")
    assert (answer.headers["Content-Type"], answer.headers["Ais-Custom-Md"]) == ("application/json", "a=b")
    # The next version has its own, or none.
    assert client.request("PUT", f"{base}/{bucket}/j", b"plain").status == 200
    answer = client.request("GET", f"{base}/{bucket}/j")
    assert answer.headers["Content-Type"] == "application/octet-stream" and "Content-Encoding" not in answer.headers
