"""What the cluster keeps of an upstream: when it is asked about again, evicted and fetched again, and what jobs do with it."""

import concurrent.futures
import json
import shutil
import threading

import pytest
from aistore.sdk.provider import Provider
from harness import client, jobs
from harness.cli import Cli
from harness.jobs import finished
from harness.sdk import client_of
from harness.upstreams import counted, evict, is_stored, make_bucket, wait_stored
from harness.waiting import guarded, wait_until

MIB = 1 << 20


@pytest.mark.parametrize("has_tags", [True, False])
def test_what_changed_upstream_is_fetched_where_that_is_wanted(upstream_cluster, s3, web, rng, has_tags):
    bucket = "s3://fresh" if has_tags else "ht://fresh"
    bodies = {version: rng.randbytes(50_000 + 100 * version) for version in range(4)}
    cluster = upstream_cluster(s3, web)

    def write(version):
        if has_tags:
            s3.client.put_object(Bucket="fresh", Key="x.tar", Body=bodies[version])
        else:
            web.write("fresh/x.tar", bodies[version])

    def latest():
        return client.request("GET", cluster.url(bucket, "x.tar") + "&latest-ver=true")

    if has_tags:
        s3.client.create_bucket(Bucket="fresh")
    write(0)
    assert make_bucket(cluster, bucket, s3.url if has_tags else f"{web.url}/fresh").status == 200
    assert cluster.get(bucket, "x.tar").body == bodies[0]
    wait_stored(cluster, bucket, "x.tar")
    write(1)
    assert cluster.get(bucket, "x.tar").body == bodies[0]  # no target asks upstream
    assert latest().body == bodies[1]
    wait_stored(cluster, bucket, "x.tar")
    assert cluster.get(bucket, "x.tar").body == bodies[1]
    wait_until(lambda: counted(cluster, "fills_total") == 2, 10, "both fills are counted")
    assert latest().body == bodies[1] and counted(cluster, "fills_total") == 2  # it is the newest

    assert cluster.bucket_action("PATCH", bucket, "set-bprops", {"versioning": {"validate_warm_get": True}}).status == 200
    write(2)
    assert cluster.get(bucket, "x.tar").body == bodies[2]
    wait_stored(cluster, bucket, "x.tar")
    server = s3 if has_tags else web
    server.stop()
    away = cluster.get(bucket, "x.tar")
    assert away.status == 503 and server.url in away.text, away  # it might be an old one
    server.start()
    if has_tags:
        s3.client.delete_object(Bucket="fresh", Key="x.tar")
    else:
        (web.files / "fresh" / "x.tar").unlink()
    assert cluster.get(bucket, "x.tar").status == 404 and is_stored(cluster, bucket, "x.tar")
    assert cluster.bucket_action("PATCH", bucket, "set-bprops", {"versioning": {"synchronize": True}}).status == 200
    assert cluster.get(bucket, "x.tar").status == 404 and not is_stored(cluster, bucket, "x.tar")
    write(3)
    assert cluster.get(bucket, "x.tar").body == bodies[3]


def test_what_was_found_unchanged_is_not_asked_about_for_an_interval(upstream_cluster, web, rng):
    """versioning.validate_interval: between never asking and asking at each read."""
    cluster, bucket = upstream_cluster(web), "ht://often"
    bodies = [rng.randbytes(40_000 + 100 * version) for version in range(4)]
    web.write("often/x.tar", bodies[0])
    assert make_bucket(cluster, bucket, f"{web.url}/often").status == 200

    def set_freshness(**changes):
        assert cluster.bucket_action("PATCH", bucket, "set-bprops", {"versioning": changes}).status == 200

    set_freshness(validate_warm_get=True, validate_interval="1h")
    assert cluster.props(bucket)["versioning"]["validate_interval"] == "1h"
    before = counted(cluster, "fills_total")
    assert cluster.get(bucket, "x.tar").body == bodies[0]
    wait_until(lambda: counted(cluster, "fills_total") == before + 1, 20, "the fill is counted")
    web.write("often/x.tar", bodies[1])
    asked = counted(cluster, "requests_total")
    for _ in range(3):
        assert cluster.get(bucket, "x.tar").body == bodies[0]  # it was fetched less than an hour ago
    assert counted(cluster, "requests_total") == asked
    web.stop()
    assert cluster.get(bucket, "x.tar").body == bodies[0]  # for so long it needs no server either
    web.start()
    # A request that asks for the newest gets it, whatever the bucket's interval.
    assert client.request("GET", cluster.url(bucket, "x.tar") + "&latest-ver=true").body == bodies[1]
    wait_stored(cluster, bucket, "x.tar")

    web.write("often/x.tar", bodies[2])
    set_freshness(validate_interval="1s")
    wait_until(lambda: cluster.get(bucket, "x.tar").body == bodies[2], 30, "its second is over")
    wait_stored(cluster, bucket, "x.tar")
    web.write("often/x.tar", bodies[3])
    set_freshness(validate_interval="0s")  # the default: each read asks
    assert cluster.get(bucket, "x.tar").body == bodies[3]
    wrong = cluster.bucket_action("PATCH", bucket, "set-bprops", {"versioning": {"validate_interval": "often"}})
    assert wrong.status == 400 and "versioning.validate_interval" in wrong.text, wrong
    own = cluster.bucket_action("POST", "of-its-own", "create-bck", {"versioning": {"validate_interval": "1h"}})
    assert own.status == 400 and "nothing upstream" in own.text, own


def test_what_was_found_unchanged_counts_as_fetched(upstream_cluster, web, rng):
    cluster, bucket = upstream_cluster(web, targets=1), "ht://again"
    body = rng.randbytes(40_000)
    web.write("again/x.tar", body)
    versioning = {"validate_warm_get": True, "validate_interval": "1h"}
    assert make_bucket(cluster, bucket, f"{web.url}/again", {"versioning": versioning}).status == 200
    assert cluster.get(bucket, "x.tar").body == body
    wait_stored(cluster, bucket, "x.tar")
    cluster.kill("t1")  # it forgets what it knew
    cluster.start("t1")
    before = web.requests("HEAD", "again/x.tar")
    for _ in range(3):
        assert cluster.get(bucket, "x.tar").body == body
    wait_until(lambda: web.requests("HEAD", "again/x.tar") > before, 20, "it is asked about once")
    assert web.requests("HEAD", "again/x.tar") == before + 1


def test_an_evicted_bucket_keeps_its_properties_where_that_is_said(upstream_cluster, web, rng):
    cluster, bucket = upstream_cluster(web), "ht://kept"
    bodies = web.fill({f"{i}.tar": rng.randbytes(5000 + i) for i in range(6)}, "kept")
    assert make_bucket(cluster, bucket, f"{web.url}/kept", {"lru": {"dont_evict_time": "7m"}}).status == 200
    assert cluster.bodies(bucket, bodies) == bodies
    wait_stored(cluster, bucket, *bodies)
    before = cluster.props(bucket)
    evicted = cluster.bucket_action("DELETE", bucket, "evict-remote-bck", query="&keep_bck_md=true")
    assert evicted.status == 200, evicted
    assert cluster.names(bucket, flags="1") == []
    assert cluster.props(bucket) | {"bid": ""} == before | {"bid": ""}
    assert cluster.bodies(bucket, bodies) == bodies  # fetched again
    wait_stored(cluster, bucket, *bodies)
    wrong = cluster.bucket_action("DELETE", bucket, "evict-remote-bck", query="&keep_bck_md=perhaps")
    assert wrong.status == 400 and "keep_bck_md" in wrong.text, wrong
    assert cluster.names(bucket, flags="1") == sorted(bodies)
    tarn = Cli(cluster.endpoint)
    tarn.ok("bucket", "evict", bucket, "--keep-md")
    assert cluster.names(bucket, flags="1") == [] and cluster.props(bucket) | {"bid": ""} == before | {"bid": ""}
    tarn.ok("bucket", "evict", bucket)
    assert cluster.props(bucket) is None


def test_who_wants_the_newest_does_not_join_a_fetch_of_an_older_version(upstream_cluster, flawed, rng):
    old, new = rng.randbytes(3 * MIB), rng.randbytes(1 * MIB + 7)
    begun, goes_on = threading.Event(), threading.Event()

    def stand(handler, its, start):
        flawed.flaws.clear()  # the next one is answered
        handler.begin(its, start)
        handler.wfile.write(its[start:2 * MIB])
        begun.set()
        goes_on.wait(60)
        handler.wfile.write(its[2 * MIB:])

    flawed.objects["x.tar"], flawed.flaws["x.tar"] = old, stand
    cluster, bucket = upstream_cluster(flawed), "s3://newest"
    assert make_bucket(cluster, bucket, flawed.url).status == 200
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(cluster.get, bucket, "x.tar", expect=False)
        try:
            assert begun.wait(60) and lock_of(cluster, bucket, "x.tar") == 423
            flawed.objects["x.tar"] = new
            latest = client.request("GET", cluster.url(bucket, "x.tar") + "&latest-ver=true")
            assert latest.status == 200 and latest.body == new
            assert not first.done(), "the fetch of the older version is under way"
        finally:
            goes_on.set()
        first.result()
    wait_until(lambda: lock_of(cluster, bucket, "x.tar") == 200, 20, "nothing is fetched any longer")
    assert client.request("GET", cluster.url(bucket, "x.tar") + "&latest-ver=true").body == new


def lock_of(cluster, bucket, name):
    return client.request("POST", cluster.url(bucket, name), b'{"action":"check-lock"}', expect=False).status


def test_what_was_evicted_is_fetched_again(upstream_cluster, web, rng):
    body = rng.randbytes(200_000)
    web.write("evicted.tar", body)
    cluster = upstream_cluster(web)
    make_bucket(cluster, "ht://web", web.url)
    cluster.get("ht://web", "evicted.tar")
    wait_stored(cluster, "ht://web", "evicted.tar")
    plain = cluster.delete("ht://web", "evicted.tar")
    assert plain.status == 501 and "evict" in plain.text, plain  # it would be a delete upstream
    evict(cluster, "ht://web", "evicted.tar")
    assert not is_stored(cluster, "ht://web", "evicted.tar")
    assert cluster.get("ht://web", "evicted.tar").body == body
    wait_stored(cluster, "ht://web", "evicted.tar")
    wait_until(lambda: web.requests("GET", "evicted.tar") == 2, 10, "nginx has logged both")


def test_what_a_lost_drive_had_is_fetched_again(upstream_cluster, web, rng):
    bodies = web.fill({f"{i}.tar": rng.randbytes(100_000 + i) for i in range(24)}, "lost")
    cluster = upstream_cluster(web, targets=1)
    make_bucket(cluster, "ht://web", web.url + "/lost/")
    assert cluster.bodies("ht://web", bodies) == bodies
    wait_stored(cluster, "ht://web", *bodies)
    lost, kept = cluster.drives("t1")
    cluster.kill("t1")
    shutil.rmtree(lost)
    cluster.expect_errors("drive missing")
    cluster.start("t1")
    asked = sum(web.requests("GET", f"lost/{name}") for name in bodies)
    # While the drive is missed, and may come back, its objects are passed through and not stored elsewhere.
    assert cluster.bodies("ht://web", bodies) == bodies
    passed = sum(web.requests("GET", f"lost/{name}") for name in bodies) - asked
    assert 0 < passed < len(bodies)
    lost.mkdir()
    cluster.kill("t1")
    cluster.add_arguments("t1", "--replace-drive", str(lost))
    cluster.start("t1")
    assert cluster.bodies("ht://web", bodies) == bodies
    wait_stored(cluster, "ht://web", *bodies)
    web.stop()
    assert cluster.bodies("ht://web", bodies) == bodies
    web.start()


# --- jobs --------------------------------------------------------------------------------------------------------

def test_prefetch_and_evict(upstream_cluster, s3, rng):
    bodies = {f"p/{i:03}.tar": rng.randbytes(2000 + i) for i in range(40)} | {"other": b"other"}
    s3.client.create_bucket(Bucket="prefetched")
    s3.fill("prefetched", bodies)
    cluster = upstream_cluster(s3)
    make_bucket(cluster, "s3://prefetched", s3.url)
    bucket = "s3://prefetched"

    def act(method, action, value):
        return cluster.bucket_action(method, bucket, action, value)

    assert finished(cluster, act("POST", "prefetch-listrange", {"objnames": ["p/000.tar", "p/001.tar"]})) == (2, 4001)
    assert cluster.names(bucket, flags="1") == ["p/000.tar", "p/001.tar"]
    assert finished(cluster, act("POST", "prefetch-listrange", {"template": "p/"})) == (38, sum(range(2, 40)) + 38 * 2000)
    assert cluster.names(bucket, flags="1") == sorted(name for name in bodies if name != "other")
    fetched = counted(cluster, "fills_total")
    assert finished(cluster, act("POST", "prefetch-listrange", {"template": "p/"})) == (0, 0)  # all are here
    assert counted(cluster, "fills_total") == fetched == 40

    assert finished(cluster, act("DELETE", "evict-listrange", {"template": "p/{000..009}.tar"}))[0] == 10
    assert finished(cluster, act("DELETE", "evict-listrange", {"objnames": ["p/010.tar"]}))[0] == 1
    assert cluster.names(bucket, flags="1") == [f"p/{i:03}.tar" for i in range(11, 40)]
    assert cluster.names(bucket) == sorted(bodies)
    assert finished(cluster, act("DELETE", "evict-listrange", {"template": ""}))[0] == 29
    assert cluster.names(bucket, flags="1") == []
    assert cluster.get(bucket, "p/005.tar").body == bodies["p/005.tar"]

    absent = act("POST", "prefetch-listrange", {"objnames": ["p/000.tar", "nothing"]})
    with pytest.raises(AssertionError, match="nothing"):
        finished(cluster, absent)


def test_one_object_is_fetched_by_a_job(upstream_cluster, s3, rng):
    """blob_download() of the aistore package."""
    s3.client.create_bucket(Bucket="fetched")
    body = rng.randbytes(20 << 20)
    s3.client.put_object(Bucket="fetched", Key="b/large.tar", Body=body)
    cluster = upstream_cluster(s3)
    make_bucket(cluster, "s3://fetched", s3.url)
    sdk = client_of(cluster.endpoint)
    stored = sdk.bucket("fetched", provider=Provider.AMAZON).object("b/large.tar")
    job = stored.blob_download(chunk_size=4 << 20, num_workers=4)
    assert sdk.job(job).wait_single_node(timeout=guarded(60)).success
    assert is_stored(cluster, "s3://fetched", "b/large.tar") and counted(cluster, "fills_total") == 1
    assert jobs.status(cluster, job)["kind"] == "blob-download"
    assert stored.blob_download() == "", "it is here"
    newer = rng.randbytes(5000)
    s3.client.put_object(Bucket="fetched", Key="b/large.tar", Body=newer)
    assert stored.blob_download() == "" and stored.get_reader().read_all() == body
    assert sdk.job(stored.blob_download(latest=True)).wait_single_node(timeout=guarded(60)).success
    assert stored.get_reader().read_all() == newer

    def refused(bucket, name, value, action="blob-download"):
        message = json.dumps({"action": action, "name": name, "value": value}).encode()
        answer = client.request("POST", f"{cluster.endpoint}/v1/objects/{bucket}", message, expect=False)
        return answer.status, answer.text

    def aws(name, value=None):
        return refused("fetched?provider=aws", name, value)

    assert aws("nothing")[0] == 404 and "s3://fetched/nothing" in aws("nothing")[1]
    assert aws("")[0] == aws("x", {"latest-ver": "some"})[0] == 400
    assert refused("data?provider=ais", "x", {})[0] == 400
    assert refused("fetched?provider=aws", "x", {}, "promote")[0] == 501
    assert refused("fetched?provider=aws", "x", {}, "rename")[0] == 400


def test_dry_runs_say_what_would_be_done(upstream_cluster, s3, rng):
    bodies = {f"d/{i:03}.tar": rng.randbytes(3000 + i) for i in range(12)}
    s3.client.create_bucket(Bucket="rehearsed")
    s3.fill("rehearsed", bodies)
    cluster = upstream_cluster(s3)
    make_bucket(cluster, "s3://rehearsed", s3.url)
    cluster.create_bucket("goal-of-copy")
    bucket, stored = "s3://rehearsed", sorted(bodies)[:5]
    assert finished(cluster, cluster.bucket_action("POST", bucket, "prefetch-listrange", {"objnames": stored}))[0] == 5

    def dry(method, action, **value):
        return finished(cluster, cluster.bucket_action(method, bucket, action, {"template": "d/", "dry_run": True} | value))

    whole, cold = sum(map(len, bodies.values())), sum(len(body) for name, body in bodies.items() if name not in stored)
    assert dry("POST", "prefetch-listrange") == (7, cold)
    assert dry("DELETE", "evict-listrange") == (5, whole - cold)
    assert dry("DELETE", "delete-listrange") == (12, whole)
    assert dry("POST", "copy-listrange", tobck={"name": "goal-of-copy", "provider": "ais"}) == (12, whole)
    assert cluster.names(bucket, flags="1") == stored and cluster.names(bucket) == sorted(bodies) and cluster.names("goal-of-copy") == []
    assert len(s3.client.list_objects_v2(Bucket="rehearsed")["Contents"]) == 12
    refused = cluster.bucket_action("POST", bucket, "prefetch-listrange", {"template": "", "dry_run": True, "latest-ver": True})
    assert refused.status == 400 and b"send one of them" in refused.body, refused


def test_the_latest_version_is_fetched_told_and_copied(upstream_cluster, s3, rng):
    cluster = upstream_cluster(s3)
    s3.client.create_bucket(Bucket="renewed")
    make_bucket(cluster, "s3://renewed", s3.url)
    cluster.create_bucket("goal-of-renewed")
    bucket, names = "s3://renewed", ["a", "b", "c", "gone"]
    old, new = ({name: rng.randbytes(1000 + extra) for name in names} for extra in (0, 7))

    def prefetched(**value):
        return finished(cluster, cluster.bucket_action("POST", bucket, "prefetch-listrange", value))

    for name in names:
        s3.client.put_object(Bucket="renewed", Key=name, Body=old[name])
    assert prefetched(template="") == (4, 4000)
    for name in ("a", "b", "c"):
        s3.client.put_object(Bucket="renewed", Key=name, Body=new[name])
    s3.client.delete_object(Bucket="renewed", Key="gone")
    assert cluster.head(bucket, "a").headers["Content-Length"] == "1000"

    def head(name):
        return client.request("HEAD", cluster.url(bucket, name) + "&latest-ver=true", expect=False)

    assert head("a").headers["Content-Length"] == "1007" and head("gone").status == 404
    assert prefetched(objnames=["a", "b"]) == (1, 1007)  # "a" is cold since
    assert prefetched(objnames=["a", "b"], **{"latest-ver": True}) == (1, 1007)
    assert [cluster.get(bucket, name).body for name in ("a", "b", "c")] == [new["a"], new["b"], old["c"]]
    copy = {"template": "", "latest-ver": True, "tobck": {"name": "goal-of-renewed", "provider": "ais"}}
    assert finished(cluster, cluster.bucket_action("POST", bucket, "copy-listrange", copy)) == (3, 3021)
    cluster.assert_bodies("goal-of-renewed", {name: new[name] for name in ("a", "b", "c")})
