"""Bodies on their way from upstream and to it: their readers meanwhile, and jobs and evictions beside them."""

import concurrent.futures
import contextlib
import hashlib
import threading
import time

from harness import client, jobs
from harness.upstreams import counted, etag_of, is_stored, make_bucket, stand_still, wait_stored
from harness.waiting import wait_until

KIB, MIB = 1 << 10, 1 << 20
# What a target may have received and not yet given to readers: a part of the first MiB, two buffers behind it.
FIRST_PIECE, TWO_BUFFERS = 64 * KIB, 512 * KIB


class Hold(threading.Event):
    """An event that is set at the end of its block, so that no server waits for it when a test fails."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.set()


def stand_still_at(at, goes_on, etag=None):
    """A flaw of a FlawedServer: parts come as they are asked for, but from byte `at` to the end of its part when `goes_on` is set."""
    def flaw(handler, its, start):
        _, _, last = handler.headers["Range"].partition("-")
        end = min(int(last or len(its) - 1) + 1, len(its))
        now = at if start <= at < end else end
        handler.begin(its, start, etag, end, is_part=True)
        handler.wfile.write(its[start:now])
        handler.wfile.flush()
        if now < end:
            goes_on.wait(60)
            handler.wfile.write(its[now:end])

    return flaw


def open_reader(cluster, name, byte_range=None):
    """A reader of an object of s3://data, of which a test reads as much as it wants."""
    return client.open_stream("GET", cluster.url("s3://data", name), headers={"Range": byte_range} if byte_range else {})


def read_part(cluster, name, byte_range):
    answer = client.request("GET", cluster.url("s3://data", name), headers={"Range": byte_range})
    assert answer.status == 206, answer
    return answer.body


# --- readers -----------------------------------------------------------------------------------------------------

def test_the_first_bytes_are_read_before_upstream_sends_the_last(upstream_cluster, flawed, rng):
    """That holds for an object within the first MiB, for one that comes in one body, and for one in parts."""
    cluster = upstream_cluster(flawed)
    make_bucket(cluster, "s3://data", flawed.url)
    with Hold() as goes_on, contextlib.ExitStack() as readers:
        begun = []
        for name, size, at, lag in (("small.tar", MIB, 512 * KIB, FIRST_PIECE), ("one-body.tar", 6 * MIB, 3 * MIB, TWO_BUFFERS),
                                    ("in-parts.tar", 20 * MIB, 5 * MIB, TWO_BUFFERS)):
            body = flawed.objects[name] = rng.randbytes(size)
            flawed.flaws[name] = stand_still_at(at, goes_on, etag_of(body))
            reader = readers.enter_context(open_reader(cluster, name))
            first = reader.read_at_least(at - lag)
            assert at - lag <= len(first) <= at and first == body[:len(first)], name
            begun.append((name, reader, first))
        assert not goes_on.is_set() and counted(cluster, "fills_running") == len(begun)
        goes_on.set()
        for name, reader, first in begun:
            assert first + reader.response().body == flawed.objects[name], name
    wait_stored(cluster, "s3://data", *flawed.objects)
    assert [len(flawed.gets(name)) for name in flawed.objects] == [1, 1, 3]


def test_late_readers_join_at_any_offset(upstream_cluster, flawed, rng):
    cluster, body, at = upstream_cluster(flawed), rng.randbytes(6 * MIB), 3 * MIB
    make_bucket(cluster, "s3://data", flawed.url)
    owner = cluster.owner("s3://data", "joined.tar")

    def connections():
        return cluster.metric(owner, "tarn_http_connections", listener="public")

    idle = connections()
    with concurrent.futures.ThreadPoolExecutor(1) as pool, Hold() as goes_on, contextlib.ExitStack() as stack:
        flawed.objects["joined.tar"], flawed.flaws["joined.tar"] = body, stand_still_at(at, goes_on)
        readers = [stack.enter_context(open_reader(cluster, "joined.tar")) for _ in range(3)]
        heads = [reader.read_at_least(2 * MIB) for reader in readers]
        assert all(len(head) >= 2 * MIB and body.startswith(head) for head in heads)
        assert read_part(cluster, "joined.tar", "bytes=1000000-1099999") == body[1_000_000:1_100_000]  # whole at once
        across = stack.enter_context(open_reader(cluster, "joined.tar", f"bytes={at - MIB}-{at + MIB - 1}"))
        its_head = across.read_at_least(256 * KIB)
        assert its_head == body[at - MIB:at - MIB + len(its_head)]
        behind = pool.submit(read_part, cluster, "joined.tar", f"bytes={at + 1000}-{at + 1999}")
        wait_until(lambda: connections() == idle + 5, 20, "all five are there")
        assert not behind.done() and not goes_on.is_set()
        goes_on.set()
        assert behind.result() == body[at + 1000:at + 2000]
        assert its_head + across.response().body == body[at - MIB:at + MIB]
        assert all(head + reader.response().body == body for head, reader in zip(heads, readers))
    wait_stored(cluster, "s3://data", "joined.tar")
    assert len(flawed.gets("joined.tar")) == 1
    assert counted(cluster, "bytes_total") == len(body)


def test_a_part_far_ahead_of_a_fill_does_not_wait_for_it(upstream_cluster, flawed, rng):
    """More than 64 MiB ahead it is passed through; nearer it waits, and costs no request."""
    cluster, body = upstream_cluster(flawed), rng.randbytes(72 * MIB)
    make_bucket(cluster, "s3://data", flawed.url)
    near, far = ((start * MIB, start * MIB + 99_999) for start in (60, 70))
    with concurrent.futures.ThreadPoolExecutor(1) as pool, Hold() as goes_on:
        flawed.objects["far.tar"], flawed.flaws["far.tar"] = body, stand_still_at(2 * MIB, goes_on, etag_of(body))
        with open_reader(cluster, "far.tar") as whole:
            assert body.startswith(whole.read_at_least(MIB))
        waiting = pool.submit(read_part, cluster, "far.tar", "bytes=%d-%d" % near)
        assert read_part(cluster, "far.tar", "bytes=%d-%d" % far) == body[far[0]:far[1] + 1]
        assert not waiting.done() and not goes_on.is_set()
        goes_on.set()
        assert waiting.result() == body[near[0]:near[1] + 1]
    wait_stored(cluster, "s3://data", "far.tar")
    asked = [headers["Range"] for headers in flawed.gets("far.tar")]
    assert asked.count("bytes=%d-%d" % far) == 1 and len(asked) == 1 + 72 // 8, asked


# --- writers -----------------------------------------------------------------------------------------------------

def test_a_body_of_unknown_length_arrives_upstream_whole(upstream_cluster, s3, rng):
    """A PUT in chunks: only when all of it is here is it known to go upstream in parts."""
    s3.client.create_bucket(Bucket="chunked")
    cluster = upstream_cluster(s3)
    make_bucket(cluster, "s3://chunked", s3.url)
    body = rng.randbytes(40 * MIB + 3)
    done = client.request("PUT", cluster.url("s3://chunked", "large.tar"), (body[i:i + MIB] for i in range(0, len(body), MIB)))
    assert done.status == 200 and done.headers["ETag"].endswith('-3"'), done
    upstream = s3.client.get_object(Bucket="chunked", Key="large.tar")
    assert upstream["ETag"] == done.headers["ETag"] and upstream["ContentLength"] == len(body)
    assert hashlib.sha256(upstream["Body"].read()).digest() == hashlib.sha256(body).digest()
    assert is_stored(cluster, "s3://chunked", "large.tar") and cluster.get("s3://chunked", "large.tar").body == body
    assert "Uploads" not in s3.client.list_multipart_uploads(Bucket="chunked")


# --- jobs beside them --------------------------------------------------------------------------------------------

def asked_names(server):
    """Names of which a server was asked for the body."""
    return {name for method, name, _ in server.seen if method == "GET"}


def prefetch(cluster, *names):
    """The id of a prefetch of s3://data that fetches two objects at a time."""
    answer = cluster.bucket_action("POST", "s3://data", "prefetch-listrange", {"objnames": names, "num-workers": 2})
    assert answer.status == 200, answer
    return answer.text


def progress(cluster, job):
    """(objects, bytes) that a job has come to."""
    found = jobs.snaps(cluster, job)
    return jobs.total(found, "loc-objs"), jobs.total(found, "loc-bytes")


def put_objects(server, rng, count):
    server.objects |= {f"p-{i:02}": rng.randbytes(2000 + i) for i in range(count)}
    return sorted(server.objects)


def test_a_prefetch_shows_how_far_it_is(upstream_cluster, flawed, rng):
    cluster, names = upstream_cluster(flawed, targets=1), put_objects(flawed, rng, 12)
    make_bucket(cluster, "s3://data", flawed.url)
    with Hold() as goes_on:
        flawed.flaws |= {name: stand_still(goes_on) for name in names[5:]}
        job = prefetch(cluster, *names)
        wait_until(lambda: progress(cluster, job) == (5, sum(range(2000, 2005))), 20, "five of them are told")
        assert jobs.status(cluster, job)["end_time"] == 0
        assert cluster.names("s3://data", flags="1") == names[:5] and not goes_on.is_set()
    end = jobs.ended(cluster, job)
    assert not end["err"] and not end["aborted"] and progress(cluster, job) == (12, sum(range(2000, 2012))), end


def check_stopped(cluster, server, job):
    """Checks that a job shows as aborted and asks for no further objects while another job runs from begin to end."""
    end = jobs.status(cluster, job)
    assert end["aborted"] and end["end_time"] > 0, end
    asked = asked_names(server)
    server.objects["other"] = b"of another job"
    other = jobs.ended(cluster, prefetch(cluster, "other"))
    assert not other["err"] and not other["aborted"], other
    assert asked_names(server) == asked | {"other"} and len(asked) < len(server.objects) - 1


def test_a_prefetch_is_stopped(upstream_cluster, flawed, rng):
    cluster, names = upstream_cluster(flawed, targets=1), put_objects(flawed, rng, 600)  # 15 s of work
    make_bucket(cluster, "s3://data", flawed.url)

    def take_time(handler, its, start):
        time.sleep(0.05)
        handler.begin(its, start)
        handler.wfile.write(its[start:])

    flawed.flaws |= {name: take_time for name in names}
    job = prefetch(cluster, *names)
    wait_until(lambda: len(asked_names(flawed)) >= 5, 20, "it is under way")
    assert jobs.stop(cluster, ID=job).status == 200
    # What was under way is stored all the same; it may ask only now.
    wait_until(lambda: counted(cluster, "fills_running") == 0, 20, "what was under way has ended")
    check_stopped(cluster, flawed, job)
    told = progress(cluster, job)[0]
    assert 0 < told <= len(cluster.names("s3://data", flags="1")) < len(names)


def test_a_prefetch_is_stopped_while_upstream_stands_still(upstream_cluster, flawed, rng):
    cluster, names = upstream_cluster(flawed, targets=1), put_objects(flawed, rng, 12)
    make_bucket(cluster, "s3://data", flawed.url)
    with Hold() as goes_on:
        flawed.flaws |= {name: stand_still(goes_on) for name in names[5:]}
        job = prefetch(cluster, *names)
        wait_until(lambda: asked_names(flawed) == set(names[:7]), 20, "two of them stand still")
        stopped = jobs.stop(cluster, ID=job)
        assert stopped.status == 200 and not goes_on.is_set(), stopped
        check_stopped(cluster, flawed, job)
    wait_until(lambda: counted(cluster, "fills_running") == 0, 20, "what was under way has ended")
    assert asked_names(flawed) == {*names[:7], "other"}


def test_an_eviction_leaves_what_is_being_fetched_or_written(upstream_cluster, flawed, rng):
    """The drive is far above its low watermark, so the job takes all that it may."""
    names = put_objects(flawed, rng, 10)
    old, new, fetched = rng.randbytes(50_000), rng.randbytes(60_000), rng.randbytes(3 * MIB)
    flawed.objects |= {"written": old, "fetched": fetched}
    cluster = upstream_cluster(flawed, targets=1, settings={"space.low_watermark": 1, "space.high_watermark": 95})
    make_bucket(cluster, "s3://data", flawed.url, {"lru": {"dont_evict_time": "0s"}})
    for name in (*names, "written"):
        assert cluster.get("s3://data", name).body == flawed.objects[name]
    wait_stored(cluster, "s3://data", *names, "written")
    with concurrent.futures.ThreadPoolExecutor(2) as pool, Hold() as goes_on:
        def accept_late(handler, body):
            goes_on.wait(60)
            handler.accept("written", body)

        flawed.flaws["fetched"], flawed.put_flaws["written"] = stand_still(goes_on), accept_late
        reader = pool.submit(cluster.get, "s3://data", "fetched")
        writer = pool.submit(cluster.put, "s3://data", "written", new)
        wait_until(lambda: flawed.gets("fetched") and any(method == "PUT" for method, *_ in flawed.seen), 20, "both are under way")
        assert counted(cluster, "fills_running") == 1 and not is_stored(cluster, "s3://data", "written")
        job = jobs.start(cluster, "lru")
        end = jobs.ended(cluster, job)
        assert not end["err"] and not end["aborted"] and progress(cluster, job)[0] == len(names), end
        assert cluster.names("s3://data", flags="1") == []
        # While its mark stands the old version is read from upstream, and not kept.
        assert cluster.get("s3://data", "written").body == old
        wait_until(lambda: counted(cluster, "fills_running") == 1, 20, "that read has ended")
        assert not is_stored(cluster, "s3://data", "written")
        assert not reader.done() and not writer.done()
        goes_on.set()
        assert reader.result().body == fetched and writer.result().status == 200
    wait_stored(cluster, "s3://data", "fetched", "written")
    asked = len(flawed.seen)
    assert cluster.get("s3://data", "fetched").body == fetched and cluster.get("s3://data", "written").body == new
    assert len(flawed.seen) == asked, "one of them was not on the drive"
