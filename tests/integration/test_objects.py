"""GET, HEAD and PUT of one object: headers, ranges, conditions, checksums."""

import base64
import email.utils
import hashlib
import time
import zlib

import pytest
from harness import attribute, client
from harness.checksums import crc32c
from harness.waiting import wait_until

DATA = bytes(i * 7 % 251 for i in range(3_000_000))


@pytest.fixture
def stored(cluster, bucket):
    assert cluster.put(bucket, "x", DATA).status == 200
    return cluster.url(bucket, "x")


def test_an_answer_says_what_it_carries(cluster, bucket, stored):
    get, head = cluster.get(bucket, "x"), cluster.head(bucket, "x")
    assert get.body == DATA and head.body == b""
    for answer in (get, head):
        assert answer.status == 200
        assert answer.headers["Content-Length"] == str(len(DATA))
        assert answer.headers["Accept-Ranges"] == "bytes"
        assert answer.headers["Ais-Checksum-Type"] == "xxhash2"
        checksum = answer.headers["Ais-Checksum-Value"]
        assert len(checksum) == 16 and int(checksum, 16) >= 0
        assert answer.headers["ETag"] == f'"{checksum}-{len(DATA)}"'
        assert answer.headers["Ais-Version"]
        changed = email.utils.parsedate_to_datetime(answer.headers["Last-Modified"]).timestamp()
        assert abs(time.time() - changed) < 60
        assert answer.headers["Tarn-Request"]


def test_the_request_id_follows_the_redirect(cluster, bucket, stored):
    redirect = client.request("GET", stored, follow=False)
    request_id = redirect.headers["Tarn-Request"]
    assert request_id and f"rid={request_id}" in redirect.headers["Location"]
    assert client.request("GET", redirect.headers["Location"]).headers["Tarn-Request"] == request_id


@pytest.mark.parametrize("header, first, last", [
    ("bytes=0-0", 0, 0), ("bytes=0-99", 0, 99), ("bytes=1048575-1048577", 1048575, 1048577),
    ("bytes=2999999-", 2999999, 2999999), ("bytes=-1", 2999999, 2999999), ("bytes=-5000000", 0, 2999999),
    ("bytes=100-99999999", 100, 2999999), ("bytes=0-", 0, 2999999)])
def test_a_range_is_exactly_that(stored, header, first, last):
    answer = client.request("GET", stored, headers={"Range": header})
    assert answer.status == 206
    assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{len(DATA)}"
    assert answer.body == DATA[first:last + 1]


@pytest.mark.parametrize("header", ["bytes=3000000-", "bytes=3000000-3000005", "bytes=-0"])
def test_a_range_beyond_the_end_is_416(stored, header):
    answer = client.request("GET", stored, headers={"Range": header})
    assert answer.status == 416 and answer.headers["Content-Range"] == f"bytes */{len(DATA)}"


@pytest.mark.parametrize("header", ["bytes=5-4", "bytes=a-b", "bytes", "bytes=--1"])
def test_a_range_that_cannot_be_understood_is_416(stored, header):
    assert client.request("GET", stored, headers={"Range": header}).status == 416


def test_a_unit_that_we_do_not_know_is_ignored(stored):
    answer = client.request("GET", stored, headers={"Range": "lines=1-2"})
    assert answer.status == 200 and answer.body == DATA


def test_conditional_reads(stored):
    etag = client.request("HEAD", stored).headers["ETag"]
    date = client.request("HEAD", stored).headers["Last-Modified"]
    past = "Sat, 01 Jan 2000 00:00:00 GMT"

    def status(**conditions):
        headers = {name.replace("_", "-"): value for name, value in conditions.items()}
        return client.request("GET", stored, headers=headers).status

    assert status(If_None_Match=etag) == 304
    assert status(If_None_Match="*") == 304
    assert status(If_None_Match='"other"') == 200
    assert status(If_None_Match=f'"other", {etag}') == 304
    assert status(If_Match=etag) == 200
    assert status(If_Match="*") == 200
    assert status(If_Match='"other"') == 412
    assert status(If_Modified_Since=date) == 304
    assert status(If_Modified_Since=past) == 200
    assert status(If_Unmodified_Since=past) == 412
    assert status(If_Unmodified_Since=date) == 200
    part = client.request("GET", stored, headers={"Range": "bytes=0-9", "If-Range": etag})
    assert part.status == 206 and part.body == DATA[:10]
    whole = client.request("GET", stored, headers={"Range": "bytes=0-9", "If-Range": '"other"'})
    assert whole.status == 200 and whole.body == DATA


def test_conditional_writes_change_nothing_when_the_condition_is_false(cluster, bucket):
    def put(body, **conditions):
        headers = {name.replace("_", "-"): value for name, value in conditions.items()}
        return cluster.put(bucket, "x", body, headers=headers).status

    assert put(b"never", If_Match="*") == 412
    assert cluster.get(bucket, "x").status == 404
    assert put(b"first", If_None_Match="*") == 200
    assert put(b"never", If_None_Match="*") == 412
    assert put(b"never", If_Match='"other"') == 412
    assert cluster.get(bucket, "x").body == b"first"
    etag = cluster.head(bucket, "x").headers["ETag"]
    assert put(b"second", If_Match=etag) == 200
    assert put(b"never", If_Match=etag) == 412
    assert cluster.get(bucket, "x").body == b"second"


BODY = b"123456789" * 100
CHECKSUMS = {
    "Content-MD5": base64.b64encode(hashlib.md5(BODY).digest()).decode(),
    "x-amz-checksum-crc32": base64.b64encode(zlib.crc32(BODY).to_bytes(4, "big")).decode(),
    "x-amz-checksum-crc32c": base64.b64encode(crc32c(BODY).to_bytes(4, "big")).decode(),
    "x-amz-checksum-sha1": base64.b64encode(hashlib.sha1(BODY).digest()).decode(),
    "x-amz-checksum-sha256": base64.b64encode(hashlib.sha256(BODY).digest()).decode(),
}


@pytest.mark.parametrize("header", CHECKSUMS)
def test_a_checksum_that_a_client_sends_is_verified(cluster, bucket, header):
    assert cluster.put(bucket, "good", BODY, headers={header: CHECKSUMS[header]}).status == 200
    assert cluster.get(bucket, "good").body == BODY
    answer = cluster.put(bucket, "bad", BODY[:-1] + b"X", headers={header: CHECKSUMS[header]})
    assert answer.status == 400 and answer.json()["status"] == 400
    assert cluster.get(bucket, "bad").status == 404
    # What was there before a bad upload stays.
    assert cluster.put(bucket, "good", BODY[:-1] + b"X", headers={header: CHECKSUMS[header]}).status == 400
    assert cluster.get(bucket, "good").body == BODY
    assert cluster.put(bucket, "bad", BODY, headers={header: "not a checksum"}).status == 400
    assert cluster.names(bucket) == ["good"]


def test_aistore_checksums_are_verified(cluster, bucket):
    assert cluster.put(bucket, "a", BODY).status == 200
    value = cluster.head(bucket, "a").headers["Ais-Checksum-Value"]
    headers = {"Ais-Checksum-Type": "xxhash2", "Ais-Checksum-Value": value}
    assert cluster.put(bucket, "b", BODY, headers=headers).status == 200
    assert cluster.put(bucket, "c", BODY + b"!", headers=headers).status == 400
    for kind, good in (("md5", hashlib.md5(BODY).hexdigest()), ("sha256", hashlib.sha256(BODY).hexdigest())):
        headers = {"Ais-Checksum-Type": kind, "Ais-Checksum-Value": good}
        assert cluster.put(bucket, "d", BODY, headers=headers).status == 200, kind
        assert cluster.put(bucket, "e", BODY + b"!", headers=headers).status == 400, kind
    assert cluster.names(bucket) == ["a", "b", "d"]


def test_a_refused_upload_leaves_no_file_behind(make_cluster):
    cluster = make_cluster(targets=1, drives=1)

    def files():
        return attribute.paths(cluster.drives("t1"))

    wrong = {"Content-MD5": CHECKSUMS["Content-MD5"]}
    assert cluster.put("data", "x", b"z" * (5 << 20), headers=wrong).status == 400
    wait_until(lambda: files() == [], 10, "the file of a refused upload is gone")
    with client.RawConnection(cluster.put("data", "x", b"", follow=False).headers["Location"]) as connection:
        location = cluster.put("data", "x", b"q" * 1000, follow=False).headers["Location"]
        connection.send_head("PUT", client.target_of(location), {"Content-Length": "1000"})
        connection.send(b"q" * 500)
    wait_until(lambda: files() == [], 10, "the file of a cut upload is gone")
    assert cluster.names("data") == []
