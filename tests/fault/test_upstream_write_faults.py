"""Targets that die while an object is written through to its upstream server."""

import concurrent.futures
import contextlib
import threading
import time
import urllib.parse

import pytest
from copies import ON_NODES
from harness import client, jobs
from harness.admin import does
from harness.azurite import AzureServer
from harness.coded import props
from harness.nodes import wait_until_in_place
from harness.upstreams import CREDENTIALS, FlawedServer, S3Server, counted, is_stored, make_bucket, upstream_cluster
from harness.waiting import wait_until
from test_upstream_faults import read_at_last

STEPS = ["write_through.before_mark", "write_through.after_mark", "write_through.after_upstream", "put.before_index"]


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    with AzureServer(tmp_path_factory.mktemp("azure")) as server:
        yield server


def put_in_vain(cluster, bucket, name, body):
    """The answer does not come, or says that the outcome is unknown."""
    with contextlib.suppress(client.ProtocolError, OSError):
        assert cluster.put(bucket, name, body).status == 503


def upstream_body(s3, bucket, name):
    try:
        return s3.client.get_object(Bucket=bucket, Key=name)["Body"].read()
    except s3.client.exceptions.NoSuchKey:
        return None


def check_a_death_in_a_write(cluster, environment, uri, upstream, rng, step, verb, size=100_000):
    """A target that dies at `step` of a write of `size` bytes serves what upstream has, which `upstream()` reads."""
    old, new, newer = rng.randbytes(100_000), rng.randbytes(size), rng.randbytes(100_000)
    assert cluster.put(uri, "a", old).status == 200 and is_stored(cluster, uri, "a")
    cluster.kill("t1")
    cluster.start("t1", fail_points=f"{step}=kill@1", environment=environment)
    with contextlib.suppress(client.ProtocolError, OSError):
        answer = client.request(verb, cluster.url(uri, "a"), new if verb == "PUT" else None)
        raise AssertionError(f"it was answered: {answer}")
    cluster.wait_exit("t1")
    cluster.start("t1", environment=environment)
    now = upstream()
    changed = step not in STEPS[:2]
    assert now == ((new if verb == "PUT" else None) if changed else old)
    for _ in range(2):
        answer = cluster.get(uri, "a")
        assert answer.status == (200 if now else 404) and (now is None or answer.body == now), answer
    # The client sends it again, as it should.
    assert cluster.put(uri, "a", newer).status == 200
    assert upstream() == newer == cluster.get(uri, "a").body


# A delete publishes nothing.
DEATHS = [(step, verb) for step in STEPS for verb in ("PUT", "DELETE") if (step, verb) != ("put.before_index", "DELETE")]


@pytest.mark.gate("A1, of a write through")
@pytest.mark.parametrize("step, verb", DEATHS)
def test_a_target_that_dies_in_a_write_serves_what_upstream_has(make_cluster, s3, rng, step, verb):
    bucket = f"dies-{STEPS.index(step)}-{verb.lower()}"
    s3.client.create_bucket(Bucket=bucket)
    cluster = upstream_cluster(make_cluster, s3, targets=1)
    make_bucket(cluster, f"s3://{bucket}", s3.url)
    check_a_death_in_a_write(cluster, CREDENTIALS, f"s3://{bucket}", lambda: upstream_body(s3, bucket, "a"), rng, step, verb)


@pytest.mark.gate("A1, of a write through")
@pytest.mark.parametrize("step", STEPS[2:])
def test_a_target_that_dies_behind_a_large_write_serves_all_of_it(make_cluster, s3, rng, step):
    bucket, tags = f"large-{STEPS.index(step)}", []
    s3.client.create_bucket(Bucket=bucket)
    cluster = upstream_cluster(make_cluster, s3, targets=1)
    make_bucket(cluster, f"s3://{bucket}", s3.url)

    def upstream():
        tags.append(s3.client.head_object(Bucket=bucket, Key="a")["ETag"])
        return upstream_body(s3, bucket, "a")

    check_a_death_in_a_write(cluster, CREDENTIALS, f"s3://{bucket}", upstream, rng, step, "PUT", 40 << 20)
    assert tags[0].endswith('-3"'), "upstream had put it together from parts"
    assert open_uploads(s3, bucket) == []


@pytest.mark.gate("A1, of a write through")
@pytest.mark.parametrize("step", STEPS)
def test_a_target_that_dies_in_a_change_of_metadata_serves_what_upstream_has(make_cluster, s3, rng, step):
    bucket, body = f"patched-{STEPS.index(step)}", rng.randbytes(100_000)
    s3.client.create_bucket(Bucket=bucket)
    cluster = upstream_cluster(make_cluster, s3, targets=1)
    uri = f"s3://{bucket}"
    make_bucket(cluster, uri, s3.url)
    assert client.request("PUT", cluster.url(uri, "a"), body, {"Ais-Custom-Md": "label=old"}).status == 200
    cluster.kill("t1")
    cluster.start("t1", fail_points=f"{step}=kill@1", environment=CREDENTIALS)
    with contextlib.suppress(client.ProtocolError, OSError):
        answer = client.request("PATCH", cluster.url(uri, "a"), b'{"value":{"label":"new"}}', expect=False)
        raise AssertionError(f"it was answered: {answer}")
    cluster.wait_exit("t1")
    cluster.start("t1", environment=CREDENTIALS)
    label = "old" if step in STEPS[:2] else "new"
    assert s3.client.head_object(Bucket=bucket, Key="a")["Metadata"] == {"label": label}
    for _ in range(2):
        answer = cluster.get(uri, "a")
        assert answer.body == body and f"label={label}" in answer.headers.get_all("Ais-Custom-Md"), answer
    # The client sends it again, as it should.
    assert client.request("PATCH", cluster.url(uri, "a"), b'{"value":{"label":"newer"}}', expect=False).status == 200
    assert s3.client.head_object(Bucket=bucket, Key="a")["Metadata"] == {"label": "newer"}
    assert "label=newer" in cluster.get(uri, "a").headers.get_all("Ais-Custom-Md")


def ask(cluster, target, uri, name, **options):
    return client.request("GET", cluster.url(uri, name, cluster.url_of(target)), **options)


def read_everywhere(cluster, uri, name):
    """What the targets that are up say, each asked itself: {body, or None where the object does not exist}"""
    def certain(target):
        with contextlib.suppress(client.ProtocolError, OSError):
            answer = ask(cluster, target, uri, name)
            assert answer.status in (200, 404, 503), answer
            return answer if answer.status != 503 else None
        return None

    answers = [wait_until(lambda: certain(target), 60, f"{target} answers") for target in cluster.targets() if target in cluster.running]
    return {answer.body if answer.status == 200 else None for answer in answers}


# --- owners that die while other targets have the object, too --------------------------------------------------------

KEPT = {"copies": ON_NODES, "slices": props("striped")}
# The last one: another target has the new version, and the owner has not.
DEATHS_OF_OWNERS = [(kept, *death) for kept in KEPT for death in (
    ("write_through.after_mark", "PUT"), ("write_through.after_upstream", "PUT"), ("write_through.after_upstream", "DELETE"),
    ("copies.before_own", "PUT"))]


@pytest.mark.gate("A1, of a write through")
@pytest.mark.parametrize("kept, step, verb", DEATHS_OF_OWNERS)
def test_when_an_owner_dies_in_a_write_no_target_serves_what_upstream_has_not(make_cluster, s3, rng, kept, step, verb):
    bucket = f"{kept}-{DEATHS_OF_OWNERS.index((kept, step, verb))}"
    uri = f"s3://{bucket}"
    s3.client.create_bucket(Bucket=bucket)
    cluster = upstream_cluster(make_cluster, s3, drives=1)
    assert make_bucket(cluster, uri, s3.url, KEPT[kept]).status == 200
    old, new, newer = (rng.randbytes(100_000) for _ in range(3))
    assert cluster.put(uri, "a", old).status == 200
    serve = [target for target in cluster.targets() if ask(cluster, target, uri, "a", follow=False).status == 200]
    assert len(serve) >= 2, "another target has the old version and serves it, too"
    owner = cluster.owner(uri, "a")
    cluster.kill(owner)
    cluster.start(owner, fail_points=f"{step}=kill@1", environment=CREDENTIALS)
    wait_until_in_place(cluster)
    assert cluster.owner(uri, "a") == owner and is_stored(cluster, uri, "a")
    with contextlib.suppress(client.ProtocolError, OSError):
        answer = client.request(verb, cluster.url(uri, "a"), new if verb == "PUT" else None)
        assert answer.status == 503, answer
    cluster.wait_exit(owner)
    now = upstream_body(s3, bucket, "a")
    assert now == (old if step in STEPS[:2] else new if verb == "PUT" else None)
    assert read_everywhere(cluster, uri, "a") == {now}, "while the owner is away"
    cluster.start(owner, environment=CREDENTIALS)
    wait_until_in_place(cluster)
    assert read_everywhere(cluster, uri, "a") == {now}
    wait_until(lambda: cluster.put(uri, "a", newer).status == 200, 60, "the client sends it again")
    assert upstream_body(s3, bucket, "a") == newer and read_everywhere(cluster, uri, "a") == {newer}


# --- names that get another owner ------------------------------------------------------------------------------------


class Standing:
    """A server that makes no change of some objects before it is told to go on, at the end of the block at the latest."""

    def __init__(self, names):
        self.server, self.names = FlawedServer(), names
        self.reached, self.goes_on = set(), threading.Event()

    def stand(self):
        def late(name):
            def flaw(handler, body):
                self.reached.add(name)
                self.goes_on.wait(300)
                with contextlib.suppress(OSError):
                    handler.accept(name, body)
            return flaw

        self.server.put_flaws |= {name: late(name) for name in self.names}

    def go_on(self):
        self.server.put_flaws.clear()
        self.goes_on.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.go_on()
        self.server.stop()


def joins(cluster, _):
    cluster.environment = cluster.environment | CREDENTIALS
    cluster.add_target()


def is_drained(cluster, owner):
    does(cluster, "start-maintenance", owner)


def leaves(cluster, owner):
    cluster.running.discard(owner)
    does(cluster, "decommission-node", owner)


@pytest.mark.gate("G6, of a write through")
@pytest.mark.parametrize("change", [joins, is_drained, leaves])
def test_a_name_that_gets_another_owner_while_it_is_written_upstream(make_cluster, rng, change):
    """The writer hears 200 or that the outcome is unknown, and all readers see what upstream has."""
    names, uri = [f"n-{i}" for i in range(24)], "s3://data"
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool, Standing(names) as standing:
        server = standing.server
        cluster = upstream_cluster(make_cluster, server, targets=2, drives=1)
        make_bucket(cluster, uri, server.url)
        old, new, newer = ({name: rng.randbytes(10_000) for name in names} for _ in range(3))
        for name in names:
            assert cluster.put(uri, name, old[name]).status == 200
        before = {name: cluster.owner(uri, name) for name in names}
        standing.stand()
        writers = {name: pool.submit(cluster.put, uri, name, new[name]) for name in names}
        wait_until(lambda: standing.reached == set(names), 60, "upstream is asked for each change")
        change(cluster, before[names[0]])
        moved = wait_until(lambda: {name for name in names if cluster.owner(uri, name) != before[name]}, 60, "names have another owner")
        for name in moved:  # of which its new owner is to keep nothing
            answer = cluster.get(uri, name)
            assert answer.status == 503 or answer.body == old[name], answer
        assert not any(writer.done() for writer in writers.values())
        standing.go_on()
        answers = {name: writer.result().status for name, writer in writers.items()}
        assert set(answers.values()) <= {200, 503}, answers
        print(f"injected: {len(moved)} of {len(names)} names got another owner in their write; detected: {answers}")
        assert server.objects == new
        for name in names:
            assert read_at_last(cluster, uri, name) == new[name], (name, name in moved, answers[name])
        wait_until_in_place(cluster, 60)
        if change is leaves:
            cluster.wait_exit(before[names[0]], 60)
        for name in names:
            assert read_at_last(cluster, uri, name) == new[name], (name, name in moved, answers[name])
            wait_until(lambda: cluster.put(uri, name, newer[name]).status == 200, 60, f"{name} is written again")
            assert cluster.get(uri, name).body == newer[name] == server.objects[name]


def open_uploads(s3, bucket):
    return [each["Key"] for each in s3.client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])]


def leave_parts(make_cluster, s3, rng):
    """A cluster whose target died when all parts of "a \xfc" were upstream."""
    s3.client.create_bucket(Bucket="left")
    cluster = upstream_cluster(make_cluster, s3, targets=1, drives=1)
    make_bucket(cluster, "s3://left", s3.url)
    cluster.kill("t1")
    cluster.start("t1", fail_points="write_through.before_mark=kill@1", environment=CREDENTIALS)
    put_in_vain(cluster, "s3://left", "a \xfc", rng.randbytes(40 << 20))
    cluster.wait_exit("t1")
    assert open_uploads(s3, "left") == ["a \xfc"], "its fault happened"
    return cluster


@pytest.mark.gate("A1, of a write through")
def test_parts_of_an_upload_that_broke_off_do_not_stay_upstream(make_cluster, tmp_path, rng):
    with S3Server(tmp_path) as s3:
        cluster = leave_parts(make_cluster, s3, rng)
        cluster.start("t1", environment=CREDENTIALS)
        wait_until(lambda: not open_uploads(s3, "left"), 60, "its parts are removed")


def test_parts_are_removed_later_and_those_of_a_running_upload_are_not(make_cluster, tmp_path, rng):
    """Upstream does not answer when the target starts; its next look is at most a minute later."""
    body = rng.randbytes(80 << 20)
    with S3Server(tmp_path) as s3:
        cluster = leave_parts(make_cluster, s3, rng)
        s3.stop()
        cluster.start("t1", environment=CREDENTIALS)
        cluster.logs["t1"].wait_for("parts of an upload stay upstream")
        s3.start()
        url = cluster.url("s3://left", "b", base=cluster.relay)
        with client.RawConnection(url) as writer:
            parts = urllib.parse.urlsplit(url)
            writer.send_head("PUT", f"{parts.path}?{parts.query}", {"Content-Length": len(body)})
            sent = 0
            while sent < (20 << 20) or "a \xfc" in open_uploads(s3, "left"):
                writer.send(body[sent:sent + (256 << 10)])
                sent += 256 << 10
                assert sent < len(body), "the parts were removed in time"
                if sent > 20 << 20:
                    time.sleep(0.5)
            time.sleep(1)  # as long as it would take to remove the other one's
            assert open_uploads(s3, "left") == ["b"]
            writer.send(body[sent:])
            assert writer.read_response().status == 200
        assert upstream_body(s3, "left", "b") == cluster.get("s3://left", "b").body == body


@pytest.mark.parametrize("step, verb", DEATHS)
def test_a_target_that_dies_in_a_write_serves_what_azure_has(make_cluster, azure, rng, step, verb):
    container = f"dies-{STEPS.index(step)}-{verb.lower()}"
    azure.make(container)
    cluster = make_cluster(targets=1, environment={"t1": azure.environment})
    assert make_bucket(cluster, f"az://{container}", azure.url).status == 200
    check_a_death_in_a_write(cluster, azure.environment, f"az://{container}", lambda: azure.get(container, "a")[0], rng, step, verb)


def test_azure_that_dies_in_a_large_write_has_the_old_version(make_cluster, azure, rng):
    old, new = rng.randbytes(100_000), rng.randbytes(1 << 20) * 200
    azure.make("server-dies")
    cluster = make_cluster(targets=1, environment={"t1": azure.environment})
    assert make_bucket(cluster, "az://server-dies", azure.url).status == 200
    done = cluster.put("az://server-dies", "a", old)
    assert done.status == 200
    wait_until(lambda: azure.has_written(done.headers["ETag"]), 20, "the old version is durable there")
    before = counted(cluster, "sent_bytes_total")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        writer = pool.submit(cluster.put, "az://server-dies", "a", new)
        wait_until(lambda: counted(cluster, "sent_bytes_total") > before + (20 << 20), 60, "blocks are on their way")
        assert not writer.done(), "the write had ended before the fault"
        azure.kill()
        answer = writer.result()
    azure.start()
    assert answer.status == 503 and azure.url in answer.text, answer
    assert cluster.get("az://server-dies", "a").body == old == azure.get("server-dies", "a")[0]
    # A server that failed so often is left alone for a moment.
    wait_until(lambda: cluster.put("az://server-dies", "a", new).status == 200, 60, "it is asked again")
    assert azure.get("server-dies", "a")[0] == new == cluster.get("az://server-dies", "a").body


@pytest.mark.gate("A1, of a write through")
def test_a_write_that_upstream_makes_after_its_target_died_is_seen(make_cluster, rng):
    old, new, reached, goes_on = rng.randbytes(100_000), rng.randbytes(100_000), threading.Event(), threading.Event()
    server = FlawedServer()

    def late(handler, body):
        reached.set()
        goes_on.wait(60)
        with contextlib.suppress(OSError):
            handler.accept("a", body)

    try:
        cluster = upstream_cluster(make_cluster, server, targets=1)
        make_bucket(cluster, "s3://data", server.url)
        assert cluster.put("s3://data", "a", old).status == 200
        server.put_flaws["a"] = late
        writer = threading.Thread(target=put_in_vain, args=(cluster, "s3://data", "a", new))
        writer.start()
        assert reached.wait(60), "upstream was never asked"
        cluster.kill("t1")
        writer.join()
        cluster.start("t1")
        assert cluster.get("s3://data", "a").body == old  # neither acknowledged nor made
        wait_until(lambda: cluster.metric("t1", "tarn_upstream_fills_running") == 0, 20, "its fill has ended")
        goes_on.set()
        wait_until(lambda: server.objects["a"] == new, 20, "upstream makes the change")
        assert cluster.get("s3://data", "a").body == new
    finally:
        goes_on.set()
        server.stop()


@pytest.mark.gate("A1, of a copy that synchronizes")
def test_a_copy_that_synchronizes_asks_again_before_it_deletes(make_cluster, s3):
    """An object that came upstream after the lists stays, though the target that was to delete it had died meanwhile."""
    s3.client.create_bucket(Bucket="followed")
    s3.client.put_object(Bucket="followed", Key="a", Body=b"a")
    cluster = upstream_cluster(make_cluster, s3, targets=1)
    make_bucket(cluster, "s3://followed", s3.url)
    cluster.create_bucket("follower")
    cluster.fill("follower", dict.fromkeys(("gone", "late"), b"old"))
    cluster.kill("t1")
    cluster.start("t1", fail_points="batch.object=kill@2", environment=CREDENTIALS)  # the first one is a copy, this one a delete
    job = cluster.bucket_action("POST", "s3://followed", "copy-bck", {"synchronize": True}, query="&bck_to=ais/@%23/follower/")
    cluster.wait_exit("t1")
    s3.client.put_object(Bucket="followed", Key="late", Body=b"late")
    cluster.start("t1", environment=CREDENTIALS)
    jobs.idle(cluster, job.text, 60)
    assert cluster.bodies("follower") == {"a": b"a", "late": b"old"}, "the next copy has the new one"
