"""Upstream servers that break their promises, and targets that cannot keep what they fetch."""

import collections
import concurrent.futures
import contextlib
import socket
import struct
import urllib.parse

import pytest
from harness import attribute, client
from harness.etcd import make_certificates
from harness.upstreams import FlawedServer, counted, etag_of, is_stored, make_bucket, wait_stored
from harness.waiting import wait_until

MIB = 1 << 20
PAGE = b"<html><body>Something went wrong</body></html>"


def send_page(handler):
    """An error page with status 200, as a portal sends it; it has no entity tag."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/html")
    handler.send_header("Content-Length", str(len(PAGE)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(PAGE)


def reset(handler):
    """Ends the connection with RST, as a crashed server's kernel would."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.rfile.close()  # which holds the connection open
    handler.connection.close()


class RefusingServer(FlawedServer):
    """A FlawedServer that answers every request for a path of `refusals` as the function of its handler there says. `refused`
    counts them."""

    def __init__(self):
        super().__init__()
        self.refusals, self.refused = {}, collections.Counter()
        owner, usual = self, self.server.RequestHandlerClass

        class Handler(usual):
            def answer(self):
                path = urllib.parse.unquote(self.path.partition("?")[0])
                if path not in owner.refusals:
                    return super().answer()
                owner.refused[path] += 1
                return owner.refusals[path](self)

        self.server.RequestHandlerClass = Handler

    def refuse(self, path, status):
        self.refusals[path] = lambda handler: handler.say(status, b"")


@pytest.fixture
def refusing():
    server = RefusingServer()
    yield server
    server.stop()


def get_all(cluster, objects):
    """{object: answer} of (bucket, name) pairs, read at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(objects)) as pool:
        return dict(zip(objects, pool.map(lambda each: cluster.get(*each), objects)))


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
    before = web.requests("GET", "in-parts.tar")  # by this test with another server of S3
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
    wait_until(lambda: web.requests("GET", "in-parts.tar") == before + 5, 10, "nginx has logged them")
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


def test_what_may_pass_is_tried_again_and_never_kept_as_an_error(upstream_cluster, flawed, rng):
    body, left = rng.randbytes(MIB), {}
    cluster = upstream_cluster(flawed)
    make_bucket(cluster, "s3://data", flawed.url)

    def reset_inside(handler):
        handler.begin(body, end=MIB, is_part=True)
        handler.wfile.write(body[:MIB // 2])
        reset(handler)

    def refuse(name, count, how):
        def answer(handler, its, start):
            left[name] -= 1
            if left[name] >= 0:
                return how(handler)
            handler.begin(its, start, is_part=True)
            handler.wfile.write(its[start:])
        flawed.objects[name], flawed.flaws[name], left[name] = body, answer, count

    for status in (429, 500):
        refuse(f"{status} once", 1, lambda handler, status=status: handler.say(status, b""))
        refuse(f"{status} for good", 1000, lambda handler, status=status: handler.say(status, b""))
    refuse("reset once", 1, reset)
    refuse("reset for good", 1000, reset)
    refuse("reset inside", 1, reset_inside)
    answers = get_all(cluster, [("s3://data", name) for name in left])
    for (_, name), answer in answers.items():
        if name.endswith("for good"):
            assert answer.status == 503 and name.split()[0] in answer.text and flawed.url in answer.text, answer
            # A kept connection that is reset makes way for a new one; that is no try of its own.
            tries = len(flawed.gets(name))
            assert (tries >= 4 if name.startswith("reset") else tries == 4) and not is_stored(cluster, "s3://data", name), (name, tries)
        else:
            assert answer.status == 200 and answer.body == body, (name, answer)
            assert len(flawed.gets(name)) == 2 and left[name] == -1, name
    flawed.flaws.clear()
    for name in left:
        assert cluster.get("s3://data", name).body == body, name
    wait_stored(cluster, "s3://data", *left)


def test_a_page_in_place_of_an_object_is_refused(upstream_cluster, flawed, rng):
    body = rng.randbytes(MIB)
    cluster = upstream_cluster(flawed)
    make_bucket(cluster, "s3://data", flawed.url)
    for name in ("whole.tar", "part.tar"):
        flawed.objects[name], flawed.flaws[name] = body, lambda handler, _its, _start: send_page(handler)
    whole = cluster.get("s3://data", "whole.tar")
    part = client.request("GET", cluster.url("s3://data", "part.tar"), headers={"Range": "bytes=0-9"})  # is passed through
    for name, answer in (("whole.tar", whole), ("part.tar", part)):
        assert answer.status == 502 and flawed.url in answer.text and PAGE not in answer.body, answer
        assert flawed.gets(name) and not is_stored(cluster, "s3://data", name)
    flawed.flaws.clear()
    for name in ("whole.tar", "part.tar"):
        assert cluster.get("s3://data", name).body == body
    wait_stored(cluster, "s3://data", "whole.tar", "part.tar")


# --- what is stored, when upstream is asked for it -----------------------------------------------------------------

FRESHNESS = {"s3://follows": {"synchronize": True}, "s3://asks": {"validate_warm_get": True}}


def make_asking_buckets(cluster, url):
    """Both buckets of FRESHNESS: what is stored is served when upstream says that it has it, too."""
    for bucket, versioning in FRESHNESS.items():
        assert make_bucket(cluster, bucket, url, {"versioning": versioning}).status == 200


def check_stays(cluster, name, status):
    """Reads of `name` answer `status`, and both buckets keep it."""
    answers = get_all(cluster, [(bucket, name) for bucket in FRESHNESS])
    for (bucket, _), answer in answers.items():
        assert answer.status == status, (bucket, answer)
        assert is_stored(cluster, bucket, name), f"{bucket}/{name} was evicted: {answer}"


def has_bucket(s3, bucket):
    """The server's answer to a GET. For a moment after the delete MinIO says that only the object is gone, though HEAD of the
    bucket is already 404."""
    with pytest.raises(s3.client.exceptions.ClientError) as refused:
        s3.client.get_object(Bucket=bucket, Key="x")
    return refused.value.response["Error"]["Code"] != "NoSuchBucket"


def check_goes(cluster, name):
    """Reads answer 404, and the bucket that follows upstream evicts it."""
    answers = get_all(cluster, [(bucket, name) for bucket in FRESHNESS])
    assert all(answer.status == 404 for answer in answers.values()), answers
    assert {bucket: is_stored(cluster, bucket, name) for bucket in FRESHNESS} == {"s3://follows": False, "s3://asks": True}


def test_what_is_stored_goes_only_when_a_server_of_s3_says_that_it_is_gone(upstream_cluster, s3, rng):
    body = rng.randbytes(100_000)
    cluster = upstream_cluster(s3, targets=1)

    def put_upstream():
        for bucket in ("follows", "asks"):
            s3.client.create_bucket(Bucket=bucket)
            s3.client.put_object(Bucket=bucket, Key="x", Body=body)

    put_upstream()
    make_asking_buckets(cluster, s3.url)
    assert all(cluster.get(bucket, "x").body == body for bucket in FRESHNESS)
    wait_until(lambda: counted(cluster, "fills_total") == 2, 20, "both are stored")
    for bucket in ("follows", "asks"):
        s3.client.delete_object(Bucket=bucket, Key="x")
        s3.client.delete_bucket(Bucket=bucket)
        wait_until(lambda: not has_bucket(s3, bucket), 20, "the server knows that the bucket is gone")
    check_stays(cluster, "x", 404)
    put_upstream()
    check_stays(cluster, "x", 200)
    s3.stop()  # behind the buckets' end: MinIO makes a bucket again that is deleted in the first moments after its start
    check_stays(cluster, "x", 503)
    s3.start()
    check_stays(cluster, "x", 200)
    assert all(cluster.get(bucket, "x").body == body for bucket in FRESHNESS)
    assert counted(cluster, "fills_total") == 2 and counted(cluster, "bytes_total") == 2 * len(body)
    for bucket in ("follows", "asks"):
        s3.client.delete_object(Bucket=bucket, Key="x")
    check_goes(cluster, "x")


def test_a_refusal_evicts_nothing(upstream_cluster, refusing, rng):
    names = {"forbidden": 403, "broken": 503, "page": 502, "gone": 404}
    refusing.objects = {name: rng.randbytes(100_000) for name in names}
    cluster = upstream_cluster(refusing, targets=1)
    make_asking_buckets(cluster, refusing.url)
    objects = [(bucket, name) for bucket in FRESHNESS for name in names]
    assert all(answer.body == refusing.objects[name] for (_, name), answer in get_all(cluster, objects).items())
    for bucket in FRESHNESS:
        wait_stored(cluster, bucket, *names)
        path = "/" + bucket.removeprefix("s3://")
        refusing.refuse(f"{path}/forbidden", 403)
        refusing.refuse(f"{path}/broken", 500)
        refusing.refusals[f"{path}/page"] = send_page
    for name in ("forbidden", "broken", "page"):
        check_stays(cluster, name, names[name])
        assert refusing.refused[f"/follows/{name}"] == refusing.refused[f"/asks/{name}"] == (4 if name == "broken" else 1)

    # The object is gone, but so is the bucket, or it cannot be asked.
    kept = refusing.objects.pop("gone")
    for status, answer in ((404, 404), (403, 502), (500, 502)):
        for path in ("/follows", "/asks"):
            refusing.refuse(path, status)
        check_stays(cluster, "gone", answer)
    assert refusing.refused["/follows"] == refusing.refused["/asks"] == 3

    refusing.refusals.clear()
    refusing.objects["gone"] = kept
    assert all(answer.body == refusing.objects[name] for (_, name), answer in get_all(cluster, objects).items())
    assert all(len(refusing.gets(name)) == len(FRESHNESS) for name in names), "it was fetched again"
    refusing.objects.pop("gone")
    check_goes(cluster, "gone")


def test_servers_of_https_are_verified(upstream_cluster, make_cluster, tmp_path, rng):
    make_certificates(tmp_path)
    server, body = FlawedServer(tmp_path), rng.randbytes(MIB)
    server.objects["safe.tar"] = body
    misnamed = server.url.replace("127.0.0.1", "localhost")  # the server has no certificate for this name
    # The server is not asked before it is read from, and then twice.
    impatient = {"rate_limit": {"backend": {"enabled": True, "num_retries": 1, "max_tokens": 1_000_000}}}, "&dont_head_remote_bck=true"
    try:
        trusting = upstream_cluster(server, targets=1, environment={"SSL_CERT_FILE": str(tmp_path / "ca.pem")},
                                    settings={"upstream.endpoints": f"{server.url},{misnamed}"})
        assert make_bucket(trusting, "s3://data", server.url).status == 200
        assert trusting.get("s3://data", "safe.tar").body == body
        wait_stored(trusting, "s3://data", "safe.tar")
        asked = len(server.seen)
        assert make_bucket(trusting, "s3://misnamed", misnamed, *impatient).status == 200
        refused = trusting.get("s3://misnamed", "safe.tar")
        assert refused.status == 503 and misnamed in refused.text, refused
        assert "certificate is not accepted: hostname mismatch" in refused.text, refused
        wary = upstream_cluster(server, targets=1)
        assert make_bucket(wary, "s3://data", server.url, *impatient).status == 200
        refused = wary.get("s3://data", "safe.tar")
        assert refused.status == 503 and "certificate is not accepted: unable to get local issuer certificate" in refused.text, refused
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
    files = attribute.paths(cluster.drives("t1"))
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
