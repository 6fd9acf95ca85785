"""Upstream servers that break their promises, and targets that cannot keep what they fetch."""

import contextlib

import pytest
from harness import client
from harness.etcd import make_certificates
from harness.upstreams import FlawedServer, counted, etag_of, is_stored, make_bucket, wait_stored
from harness.waiting import wait_until

MIB = 1 << 20


def test_a_body_that_breaks_off_is_continued(upstream_cluster, flawed, rng):
    body = rng.randbytes(4 * MIB + 17)
    flawed.objects["torn.tar"] = body

    def tear(handler, its, start):
        flawed.flaws.clear() if start > 2 * MIB else None
        handler.begin(its, start)
        handler.wfile.write(its[start:start + MIB])
        handler.cut()

    flawed.flaws["torn.tar"] = tear
    cluster = upstream_cluster(flawed)
    assert make_bucket(cluster, "s3://data", flawed.url).status == 200
    answer = cluster.get("s3://data", "torn.tar")
    assert answer.status == 200 and answer.body == body
    first, *others = flawed.gets("torn.tar")
    assert "If-Match" not in first and len(others) >= 3
    assert all(each["If-Match"] == etag_of(body) for each in others)
    wait_stored(cluster, "s3://data", "torn.tar")
    assert cluster.get("s3://data", "torn.tar").body == body


def test_a_body_that_stays_short_is_never_a_whole(upstream_cluster, flawed, rng):
    body = rng.randbytes(2 * MIB)
    flawed.objects["short.tar"] = body

    def shorten(handler, its, start):
        handler.begin(its, start, etag='"of-parts-2"')  # no MD5: the length alone tells
        handler.wfile.write(its[start:len(its) - 1000])
        handler.cut()

    flawed.flaws["short.tar"] = shorten
    cluster = upstream_cluster(flawed)
    make_bucket(cluster, "s3://data", flawed.url)
    with pytest.raises((client.ProtocolError, OSError)):
        cluster.get("s3://data", "short.tar")
    wait_until(lambda: counted(cluster, "fills_failed_total") == 1, 30, "the fill has failed")
    assert not is_stored(cluster, "s3://data", "short.tar")
    flawed.flaws.clear()
    assert cluster.get("s3://data", "short.tar").body == body


def test_a_body_is_never_of_two_versions(upstream_cluster, flawed, rng):
    old, new = rng.randbytes(2 * MIB), rng.randbytes(2 * MIB)
    flawed.objects["changed.tar"] = old

    def change(handler, its, start):
        if start == 0:
            handler.begin(its, etag='"old-2"')  # no MD5 that would tell
            handler.wfile.write(its[:MIB])
            flawed.objects["changed.tar"] = new
            return handler.cut()
        if "If-Match" in handler.headers:
            return handler.say(412, b"<Error><Code>PreconditionFailed</Code><Message>changed</Message></Error>")
        handler.begin(its, start, etag='"new-2"')
        handler.wfile.write(its[start:])

    flawed.flaws["changed.tar"] = change
    cluster = upstream_cluster(flawed)
    make_bucket(cluster, "s3://data", flawed.url)
    with pytest.raises((client.ProtocolError, OSError)):
        answer = cluster.get("s3://data", "changed.tar")
        assert answer.body in (old, new), "bytes of two versions"
    assert not is_stored(cluster, "s3://data", "changed.tar")
    flawed.flaws.clear()
    assert cluster.get("s3://data", "changed.tar").body == new


def test_a_large_object_comes_in_parts(upstream_cluster, web, s3, flawed, rng):
    body = rng.randbytes(37 * MIB + 5)
    web.write("in-parts.tar", body)
    web.write("empty.tar", b"")
    s3.client.create_bucket(Bucket="parts")
    upload = s3.client.create_multipart_upload(Bucket="parts", Key="large.tar")["UploadId"]
    tags = [s3.client.upload_part(Bucket="parts", Key="large.tar", UploadId=upload, PartNumber=i + 1, Body=part)["ETag"]
            for i, part in enumerate((body[:20 * MIB], body[20 * MIB:]))]
    s3.client.complete_multipart_upload(Bucket="parts", Key="large.tar", UploadId=upload, MultipartUpload={
        "Parts": [{"PartNumber": i + 1, "ETag": tag} for i, tag in enumerate(tags)]})
    s3.client.put_object(Bucket="parts", Key="empty", Body=b"")
    flawed.has_parts, flawed.objects["cut.tar"] = True, body
    cluster = upstream_cluster(web, s3, flawed)
    make_bucket(cluster, "ht://web", web.url)
    make_bucket(cluster, "s3://parts", s3.url)
    make_bucket(cluster, "s3://data", flawed.url)
    for bucket, name, its in (("ht://web", "in-parts.tar", body), ("s3://parts", "large.tar", body), ("ht://web", "empty.tar", b""),
                              ("s3://parts", "empty", b"")):
        assert cluster.get(bucket, name).body == its
        wait_stored(cluster, bucket, name)
        assert cluster.get(bucket, name).body == its
    wait_until(lambda: web.requests("GET", "in-parts.tar") == 5, 10, "nginx has logged them")
    assert counted(cluster, "bytes_total") == 2 * len(body)

    # Connections of parts break, and are continued in the same version.
    left = [6]

    def cut(handler, its, start):
        first, _, last = handler.headers["Range"].removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(its) - 1) + 1, len(its))
        handler.begin(its, start, end=end, is_part=True)
        left[0] -= 1
        if left[0] < 0:
            return handler.wfile.write(its[start:end])
        handler.wfile.write(its[start:start + MIB])
        handler.cut()

    flawed.flaws["cut.tar"] = cut
    assert cluster.get("s3://data", "cut.tar").body == body
    wait_stored(cluster, "s3://data", "cut.tar")
    assert left[0] < 0 and all("If-Match" in headers for headers in flawed.gets("cut.tar")[1:])

    # Another version in the middle: never a mix of two.
    flawed.objects["changes.tar"], newer = body, body[::-1]

    def change(handler, its, start):
        if start >= 16 * MIB:
            flawed.objects["changes.tar"] = newer
            flawed.flaws.pop("changes.tar", None)  # another part may have been as fast
            return handler.say(412, b"<Error><Code>PreconditionFailed</Code><Message>changed</Message></Error>")
        first, _, last = handler.headers["Range"].removeprefix("bytes=").partition("-")
        handler.begin(its, start, end=int(last) + 1, is_part=True)
        handler.wfile.write(its[start:int(last) + 1])

    flawed.flaws["changes.tar"] = change
    with contextlib.suppress(client.ProtocolError, OSError):
        answer = cluster.get("s3://data", "changes.tar")
        assert answer.status == 412, answer
    assert cluster.get("s3://data", "changes.tar").body == newer


def test_bytes_that_are_not_what_upstream_says_are_not_kept(upstream_cluster, flawed, rng):
    body = rng.randbytes(MIB)
    flawed.objects["bad.tar"] = body

    def corrupt(handler, its, start):
        handler.begin(its)
        handler.wfile.write(its[:500] + bytes([its[500] ^ 1]) + its[501:])

    flawed.flaws["bad.tar"] = corrupt
    cluster = upstream_cluster(flawed)
    make_bucket(cluster, "s3://data", flawed.url)
    with pytest.raises((client.ProtocolError, OSError)):
        cluster.get("s3://data", "bad.tar")
    assert not is_stored(cluster, "s3://data", "bad.tar")
    flawed.flaws.clear()
    assert cluster.get("s3://data", "bad.tar").body == body


def test_refusals_reach_the_client_as_errors(upstream_cluster, flawed, rng):
    body = rng.randbytes(1000)
    cluster = upstream_cluster(flawed)
    make_bucket(cluster, "s3://data", flawed.url)
    times = {}

    def flaw_of(name, status, count, text=b"<Error><Code>SlowDown</Code><Message>later</Message></Error>"):
        def answer(handler, its, start):
            times[name] = times.get(name, 0) + 1
            if times[name] <= count:
                return handler.say(status, text)
            handler.begin(its, start)
            handler.wfile.write(its[start:])
        flawed.objects[name], flawed.flaws[name] = body, answer

    flaw_of("busy", 503, 2)
    assert cluster.get("s3://data", "busy").body == body and times["busy"] == 3  # passes by itself
    flaw_of("down", 503, 1000)
    down = cluster.get("s3://data", "down")
    assert down.status == 503 and "SlowDown" in down.text and flawed.url in down.text, down
    assert times["down"] == 4
    flaw_of("secret", 403, 1000, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
    secret = cluster.get("s3://data", "secret")
    assert secret.status == 403 and "AccessDenied" in secret.text and times["secret"] == 1, secret
    flaw_of("moved", 301, 1000, b"")
    moved = cluster.get("s3://data", "moved")
    assert moved.status == 502 and "redirects are not followed" in moved.text, moved


def test_servers_of_https_are_verified(upstream_cluster, make_cluster, tmp_path, rng):
    make_certificates(tmp_path)
    server, body = FlawedServer(tmp_path), rng.randbytes(MIB)
    server.objects["safe.tar"] = body
    try:
        trusting = upstream_cluster(server, targets=1, environment={"SSL_CERT_FILE": str(tmp_path / "ca.pem")})
        assert make_bucket(trusting, "s3://data", server.url).status == 200
        assert trusting.get("s3://data", "safe.tar").body == body
        wait_stored(trusting, "s3://data", "safe.tar")
        asked = len(server.seen)
        wary = upstream_cluster(server, targets=1)
        refused = make_bucket(wary, "s3://data", server.url)
        assert refused.status == 503 and "certificate" in refused.text, refused
        assert len(server.seen) == asked
    finally:
        server.stop()


def test_where_no_drive_has_room_objects_are_passed_through(upstream_cluster, web, rng):
    body = rng.randbytes(MIB)
    web.write("no-room.tar", body)
    cluster = upstream_cluster(web, targets=1)
    make_bucket(cluster, "ht://web", web.url)
    full = client.request("PUT", f"{cluster.endpoint}/v1/cluster/set-config?space.reserve=1000000GiB", b"", expect=False)
    assert full.status == 200, full
    for _ in range(2):
        assert cluster.get("ht://web", "no-room.tar").body == body
    assert not is_stored(cluster, "ht://web", "no-room.tar") and counted(cluster, "fills_total") == 0
    assert cluster.put("data", "own", b"x").status == 507


def test_a_target_that_dies_in_a_fill_leaves_nothing_of_it(upstream_cluster, web, rng):
    body = rng.randbytes(MIB)
    web.write("dies.tar", body)
    cluster = upstream_cluster(web, targets=1, fail_points={"t1": "fill.before_commit=kill@1"})
    make_bucket(cluster, "ht://web", web.url)
    with contextlib.suppress(client.ProtocolError, OSError):
        assert cluster.get("ht://web", "dies.tar").body == body
    cluster.wait_exit("t1")
    cluster.start("t1")
    assert not is_stored(cluster, "ht://web", "dies.tar")
    assert cluster.get("ht://web", "dies.tar").body == body
    wait_stored(cluster, "ht://web", "dies.tar")
    files = [path for drive in cluster.drives("t1") for path in (drive / "data").rglob("*") if path.is_file()]
    assert len(files) == 1, files


def test_a_server_that_fails_in_a_row_is_left_alone_until_it_answers(upstream_cluster, web, rng):
    body = rng.randbytes(10_000)
    for number in range(12):
        web.write(f"gate/{number}", body)
    cluster = upstream_cluster(web, targets=1)
    assert make_bucket(cluster, "ht://gate", f"{web.url}/gate/").status == 200
    assert cluster.get("ht://gate", "0").body == body

    def read(name):
        return client.request("GET", cluster.url("ht://gate", name), expect=False)

    web.stop()
    try:
        refused = wait_until(lambda: (answer := read("1")).status == 503 and b"is asked again in" in answer.body and answer, 120, "it is left alone")
        assert web.url.encode() in refused.body and cluster.metric("t1", "tarn_upstream_circuits_open") == 1
        assert cluster.get("ht://gate", "0").body == body  # what is stored
    finally:
        web.start()
    wait_until(lambda: read("1").status == 200, 120, "it is asked again")
    assert [read(str(number)).body for number in range(12)] == [body] * 12
    assert cluster.metric("t1", "tarn_upstream_circuits_open") == 0
