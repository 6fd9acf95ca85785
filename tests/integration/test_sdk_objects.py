"""The `aistore` package from PyPI, unmodified, on objects."""

import hashlib
import io
import itertools

import pytest
from aistore.sdk.archive_config import ArchiveConfig
from aistore.sdk.errors import AISError, ErrBckNotFound, ErrObjNotFound
from harness import client
from harness.sdk import client_of
from harness.waiting import wait_until
from harness.wire import BreakingWire

MIB = 1 << 20
# Names that must come back as they went in.
NAMES = ["%", "%25", "%3D", "%%%", "你好世界", "track?name=lofi&v=1", "-x", ".x", "my audio file .m4a", "a/b/c+d&e=f#g",
         "{000..003}.tar"]


@pytest.fixture(params=["redirected", "relayed"])
def sdk_bucket(request, cluster, bucket):
    return client_of(cluster.endpoint if request.param == "redirected" else cluster.relay).bucket(bucket)


@pytest.fixture
def redirected(cluster, bucket):
    return client_of(cluster.endpoint).bucket(bucket)


def put(bucket, name, content):
    target = bucket.object(name)
    target.get_writer().put_content(content)
    return target


def read(target, **options):
    return target.get_reader(**options).read_all()


def test_put_head_get_delete(sdk_bucket, rng, tmp_path):
    content = rng.randbytes(3 * MIB + 17)
    one = put(sdk_bucket, "dir/one", content)
    assert read(one) == content
    props = one.props
    assert (props.name, props.bucket_name, props.bucket_provider) == ("dir/one", sdk_bucket.name, "ais")
    assert props.size == len(content) and props.present and props.obj_version == "1"
    assert props.checksum_type == "xxhash2" and len(props.checksum_value) == 16
    assert int(props.access_time) > 1_600_000_000 * 10**9
    assert props.mirror_copies == 1 and len(props.mirror_paths) == 1 and props.mirror_paths[0].startswith("/")
    assert props.location.startswith("t[") and props.custom_metadata == {} and props.ec is None
    head = one.head("etag,last-modified,size")
    assert head.etag and head.last_modified.endswith("GMT") and head.size == len(content)
    assert one.head("chunked").chunks is None

    path = tmp_path / "file"
    path.write_bytes(content[:1000])
    one.get_writer().put_file(path)
    assert read(one) == content[:1000] and one.props.obj_version == "2"
    one.delete()
    with pytest.raises(ErrObjNotFound):
        read(one)


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 8 * MIB])
def test_every_way_to_read_gives_the_same_bytes(redirected, rng, size):
    content = rng.randbytes(size)
    one = put(redirected, "x", content)
    assert read(one) == content
    assert b"".join(one.get_reader(chunk_size=100_000)) == content
    assert one.get_reader().raw().read() == content
    assert read(one, direct=True) == content
    assert read(one, latest=True) == content
    written = io.BytesIO()
    one.get_reader(writer=written)
    assert written.getvalue() == content
    with one.get_reader(chunk_size=65_536).as_file() as file:
        assert b"".join(iter(lambda: file.read(70_001), b"")) == content


@pytest.mark.parametrize("spec, first, last", [("bytes=0-9", 0, 10), ("bytes=5-", 5, None), ("bytes=-7", -7, None)])
def test_byte_ranges(redirected, rng, spec, first, last):
    content = rng.randbytes(2 * MIB)
    one = put(redirected, "x", content)
    assert read(one, byte_range=spec) == content[first:last]
    assert read(one, byte_range=spec, direct=True) == content[first:last]


def test_parallel_downloads(redirected, rng):
    """HEAD for the size, then many ranges at the same time."""
    content = rng.randbytes(33 * MIB + 5)
    one = put(redirected, "x", content)
    for options in ({"num_workers": 4}, {"num_workers": 3, "chunk_size": MIB}, {"num_workers": 4, "direct": True}):
        with read(one, **options) as buffer:
            assert hashlib.sha256(buffer.tobytes()).digest() == hashlib.sha256(content).digest(), options
    assert b"".join(bytes(chunk) for chunk in one.get_reader(num_workers=4)) == content


def test_direct_reads_find_the_target_of_every_name(cluster, redirected):
    """The package computes the placement itself; the target answers without any redirect."""
    names = [name for target in cluster.targets() for name in cluster.names_owned_by(target, redirected.name, 10, "direct")]
    for name in names:
        put(redirected, name, name.encode())
    def reads():
        return {target: cluster.metric(target, "tarn_http_requests_total", listener="public", method="GET", status="200")
                or 0 for target in cluster.targets()}

    before, redirects = reads(), cluster.metric("p1", "tarn_redirects_total")
    assert [read(redirected.object(name), direct=True) for name in names] == [name.encode() for name in names]
    assert cluster.metric("p1", "tarn_redirects_total") == redirects

    def counted():
        after = reads()
        return sum(after.values()) - sum(before.values()) >= len(names) and all(after[target] > before[target] for target in before)

    wait_until(counted, 10, "each is counted")  # which an answer is when it has gone, after the client has it
    with pytest.raises(ErrObjNotFound):
        read(redirected.object("direct-missing"), direct=True)


def test_a_target_answers_what_direct_readers_ask(cluster, redirected):
    """The cluster map and the health of a target itself, and its own word for what is not there."""
    for target in cluster.targets():
        base = cluster.url_of(target)
        smap = client.request("GET", f"{base}/v1/daemon?what=smap").json()
        assert len(smap["tmap"]) == len(cluster.targets()) and smap["proxy_si"]["daemon_id"] in smap["pmap"]
        assert base in {node["public_net"]["direct_url"] for node in smap["tmap"].values()}
        health = client.request("GET", f"{base}/v1/health")
        assert health.status == 200 and int(health.headers["Ais-Node-Uptime"]) > 0
    owner = cluster.owner(redirected.name, "missing")
    answer = client.request("GET", cluster.url(redirected.name, "missing", base=cluster.url_of(owner)))
    assert answer.status == 404 and answer.json()["tcode"] == "ErrNotFound"
    assert f"ais://{redirected.name}/missing does not exist" in answer.json()["message"]


def test_a_file_reader_resumes_where_the_wire_broke(cluster, bucket, rng):
    content = rng.randbytes(12 * MIB)
    put(client_of(cluster.endpoint).bucket(bucket), "x", content)
    with BreakingWire(cluster.relay, cuts=4, after=2 * MIB) as wire:
        one = client_of(wire.endpoint).bucket(bucket).object("x")
        with one.get_reader(chunk_size=256 * 1024).as_file(max_resume=10) as file:
            read_back = b"".join(iter(lambda: file.read(1_000_003), b""))
    assert wire.cuts == 4, "the wire did not break"
    assert read_back == content


@pytest.mark.parametrize("name", NAMES)
def test_names_come_back_as_they_went_in(sdk_bucket, name):
    one = put(sdk_bucket, name, name.encode())
    assert read(one) == name.encode()
    assert read(one, direct=True) == name.encode()
    assert one.head("size").size == len(name.encode())
    assert [entry.name for entry in sdk_bucket.list_all_objects()] == [name]
    one.delete()
    assert sdk_bucket.list_all_objects() == []


def test_custom_metadata(sdk_bucket):
    one = put(sdk_bucket, "x", b"content")
    writer = one.get_writer()
    writer.set_custom_props({"color": "red", "size": "9"})
    assert one.props.custom_metadata == {"color": "red", "size": "9"}
    writer.set_custom_props({"size": "10", "shape": "round"})
    assert one.props.custom_metadata == {"color": "red", "size": "10", "shape": "round"}
    writer.set_custom_props({"only": "this"}, replace_existing=True)
    assert one.props.custom_metadata == {"only": "this"}
    assert one.get_reader().attributes.custom_metadata == {"only": "this"}
    assert one.props.obj_version == "1" and read(one) == b"content"
    with pytest.raises(AISError) as refused:
        writer.set_custom_props({"much": "x" * 2048})
    assert refused.value.status_code == 400 and "2048 bytes" in refused.value.message
    assert one.props.custom_metadata == {"only": "this"}
    writer.put_content(b"new content")
    assert one.props.custom_metadata == {}


def test_copies(cluster, redirected, rng):
    """Within a bucket and to another, to this target and to others: names decide where."""
    other = client_of(cluster.endpoint).bucket(cluster.create_bucket("copies-" + redirected.name))
    content = rng.randbytes(2 * MIB + 3)
    one = put(redirected, "one", content)
    one.get_writer().set_custom_props({"color": "red"})
    owners = set()
    for i, goal in itertools.product(range(8), (redirected, other)):
        copy = goal.object(f"copy-{i}")
        one.copy(copy)
        assert read(copy) == content and copy.props.custom_metadata == {"color": "red"}
        owners.add(cluster.owner(goal.name, copy.name))
    assert len(owners) > 1
    one.copy(other.object("copy-0"))
    assert other.object("copy-0").props.obj_version == "2"
    put(redirected, "empty", b"").copy(other.object("empty"))
    assert read(other.object("empty")) == b""
    one.copy(one)
    assert read(one) == content
    with pytest.raises(ErrBckNotFound):
        one.copy(client_of(cluster.endpoint).bucket("no-such-bucket").object("x"))
    with pytest.raises(ErrObjNotFound):
        redirected.object("missing").copy(other.object("x"))
    cluster.destroy_bucket(other.name)


def rename(bucket, name, new_name):
    bucket.client.request("POST", path=f"objects/{bucket.name}/{name}", params=bucket.qparam,
                          json={"action": "rename-obj", "name": new_name, "value": None})


def test_renames(sdk_bucket):
    for i in range(12):
        one = put(sdk_bucket, f"old-{i}", b"content %d" % i)
        one.get_writer().set_custom_props({"number": str(i)})
        rename(sdk_bucket, f"old-{i}", f"new/{i}")
        renamed = sdk_bucket.object(f"new/{i}")
        assert read(renamed) == b"content %d" % i and renamed.props.custom_metadata == {"number": str(i)}
        with pytest.raises(ErrObjNotFound):
            read(one)
    assert len(sdk_bucket.list_all_objects()) == 12
    for name, new_name in (("new/1", "new/1"), ("new/1", "../x"), ("new/1", "")):
        with pytest.raises(AISError) as refused:
            rename(sdk_bucket, name, new_name)
        assert refused.value.status_code == 400


def test_appends(sdk_bucket):
    one = sdk_bucket.object("x")
    writer = one.get_writer()
    handle = writer.append_content(b"one ")
    with pytest.raises(ErrObjNotFound):
        read(one)
    handle = writer.append_content(b"two ", handle=handle)
    handle = writer.append_content(b"", handle=handle)
    assert writer.append_content(b"", handle=handle, flush=True) == ""
    assert read(one) == b"one two "
    # Goes on from what is there, unseen until the flush.
    handle = writer.append_content(b"three", handle="")
    assert read(one) == b"one two "
    writer.append_content(b"", handle=handle, flush=True)
    assert read(one) == b"one two three" and one.props.obj_version == "2"
    with pytest.raises(AISError) as over:
        writer.append_content(b"late", handle=handle)
    assert over.value.status_code == 400 and "begin again" in over.value.message


def test_file_writers(sdk_bucket, rng):
    one = sdk_bucket.object("x")
    chunks = [rng.randbytes(rng.randrange(0, 300_000)) for _ in range(8)]
    with one.get_writer().as_file(mode="w") as file:
        for chunk in chunks:
            assert file.write(chunk) == len(chunk)
        file.flush()
        assert read(one) == b"".join(chunks)
        file.write(b"end")
    assert read(one) == b"".join(chunks) + b"end"
    with one.get_writer().as_file(mode="a") as file:
        file.write(b" and more")
    assert read(one) == b"".join(chunks) + b"end and more"
    with one.get_writer().as_file(mode="w") as file:
        file.write(b"new")
    assert read(one) == b"new"


def test_missing_things_have_their_own_errors(cluster, redirected):
    missing = redirected.object("missing")
    with pytest.raises(ErrObjNotFound):
        read(missing)
    with pytest.raises(ErrObjNotFound):
        missing.delete()
    with pytest.raises(AISError) as head:
        missing.head()
    assert head.value.status_code == 404
    nowhere = client_of(cluster.endpoint).bucket("no-such-bucket").object("x")
    with pytest.raises(ErrBckNotFound):
        read(nowhere)
    with pytest.raises(ErrBckNotFound):
        nowhere.get_writer().put_content(b"x")


def test_what_belongs_to_later_work_says_so(redirected):
    one = put(redirected, "a.tar", b"x" * 10_240)
    for attempt in (lambda: read(one, archive_config=ArchiveConfig(archpath="a.jpg")),
                    lambda: one.multipart_upload().create()):
        with pytest.raises(AISError) as refused:
            attempt()
        assert refused.value.status_code == 501 and "later work" in refused.value.message


def test_objects_are_found_by_their_url(cluster, redirected):
    put(redirected, "dir/x", b"content")
    found = client_of(cluster.endpoint).get_object_from_url(f"ais://{redirected.name}/dir/x")
    assert read(found) == b"content"
