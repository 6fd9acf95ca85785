"""`tarn`: what people and scripts call."""

import json
import os
import pathlib
import subprocess
import time

import pytest
from harness import attribute
from harness.cli import HELLO, XXH64_OF_HELLO, XXH64_OF_NOTHING, Cli, Liar, answer, taking
from harness.cluster import LONG_LEASES
from harness.waiting import assert_within, scaled, wait_until

DATA = bytes(i * 13 % 251 for i in range(5_000_001))


@pytest.fixture
def data_file(tmp_path):
    file = tmp_path / "data.bin"
    file.write_bytes(DATA)
    return file


# --- objects -----------------------------------------------------------------------------------------------------

def test_a_file_goes_in_and_comes_back(cli, cluster, bucket, data_file, here):
    cli.ok("put", data_file, f"{bucket}/a/b c+d%.bin")
    assert cluster.get(bucket, "a/b c+d%.bin").body == DATA
    cli.ok("get", f"tarn://{bucket}/a/b c+d%.bin", here / "back")
    assert (here / "back").read_bytes() == DATA
    cli.ok("get", f"ais://{bucket}/a/b c+d%.bin", cwd=here)
    assert (here / "b c+d%.bin").read_bytes() == DATA
    assert cli.ok("cat", f"{bucket}/a/b c+d%.bin") == DATA
    assert sorted(os.listdir(here)) == ["b c+d%.bin", "back"]


def test_a_bucket_or_a_prefix_keeps_the_name_of_the_file(cli, cluster, bucket, data_file, here):
    cli.ok("put", data_file, bucket)
    cli.ok("put", data_file, f"{bucket}/day 1/")
    assert cluster.names(bucket) == ["data.bin", "day 1/data.bin"]
    cli.ok("get", f"{bucket}/day 1/data.bin", here)
    assert (here / "data.bin").read_bytes() == DATA


def test_the_standard_input_may_be_a_pipe_or_a_file(cli, cluster, bucket, data_file):
    cli.ok("put", "-", f"{bucket}/pipe", input=DATA)
    assert cluster.get(bucket, "pipe").body == DATA
    with open(data_file, "rb") as file:
        file.seek(1000)
        subprocess.run([cli.program, "put", "-", f"{bucket}/file"], stdin=file, env=cli.environment, check=True)
    assert cluster.get(bucket, "file").body == DATA[1000:]
    cli.refuses(2, "put", "-", f"{bucket}/", says="no name", input=b"x")


@pytest.mark.parametrize("size", [0, 1, 65536])
def test_small_objects_too(cli, bucket, data_file, size):
    data_file.write_bytes(DATA[:size])
    cli.ok("put", data_file, f"{bucket}/file")
    cli.ok("put", "-", f"{bucket}/pipe", input=DATA[:size])
    assert cli.ok("cat", f"{bucket}/file") == cli.ok("cat", f"{bucket}/pipe") == DATA[:size]


def test_put_says_what_was_stored(cli, cluster, bucket, data_file):
    data_file.write_bytes(b"hello")
    told = json.loads(cli.ok("put", data_file, f"{bucket}/x", "--json"))
    assert told == {"bucket": bucket, "object": "x", "checksum": XXH64_OF_HELLO, "version": "1",
                    "etag": f'"{XXH64_OF_HELLO}-5"'}
    assert cluster.head(bucket, "x").headers["ETag"] == told["etag"]


def test_get_says_what_came_and_where_it_is(cli, bucket, data_file, here):
    data_file.write_bytes(b"hello")
    cli.ok("put", data_file, f"{bucket}/dir/x")
    told = json.loads(cli.ok("get", f"{bucket}/dir/x", here, "--json"))
    assert told == {"bucket": bucket, "object": "dir/x", "file": str(here / "x"), "size": 5, "checksum": XXH64_OF_HELLO,
                    "etag": f'"{XXH64_OF_HELLO}-5"'}


def test_a_file_that_says_it_is_empty_is_sent_whole(cli, cluster, bucket):
    whole = pathlib.Path("/proc/cpuinfo").read_bytes()
    assert os.stat("/proc/cpuinfo").st_size == 0 and whole
    cli.ok("put", "/proc/cpuinfo", f"{bucket}/x")
    # The frequency of a processor may be another one by then.
    assert len(cluster.get(bucket, "x").body.splitlines()) == len(whole.splitlines())


def test_put_if_absent_leaves_what_is_there(cli, cluster, bucket, data_file):
    cli.ok("put", "--if-absent", data_file, f"{bucket}/x")
    cli.refuses(6, "put", "--if-absent", "-", f"{bucket}/x", input=b"other")
    assert cluster.get(bucket, "x").body == DATA


def test_the_relay_takes_the_same_commands(cluster, bucket, data_file):
    cli = Cli(cluster.relay)
    cli.ok("put", data_file, f"{bucket}/file")
    cli.ok("put", "-", f"{bucket}/pipe", input=DATA)
    assert cli.ok("cat", f"{bucket}/file") == cli.ok("cat", f"{bucket}/pipe") == DATA
    cli.ok("rm", f"{bucket}/file")
    assert cluster.names(bucket) == ["pipe"]


def test_what_is_not_there_is_3_and_leaves_no_file(cli, cluster, bucket, data_file, here):
    cli.refuses(3, "get", f"{bucket}/nothing", here / "x", says="does not exist")
    for words in (("cat", "no-such-bucket/x"), ("bucket", "rm", "--yes", "no-such-bucket"), ("ls", "no-such-bucket")):
        missing = cli.refuses(3, *words, says="see which there are with: tarn ls")
        assert "bucket create" not in missing.stderr
    refused = cli.refuses(3, "put", data_file, "no-such-bucket/x", says="make it with: tarn bucket create no-such-bucket")
    assert "POST" not in refused.stderr
    cli.refuses(3, "put", here / "nothing", f"{bucket}/x", says="there is no file")
    assert "PUT" not in cli.refuses(3, "rm", f"{bucket}/nothing", says="does not exist").stderr
    cli.refuses(3, "ls", "no-such-bucket")
    assert os.listdir(here) == []


def test_rm_takes_many_names_and_says_which_failed(cli, cluster, bucket):
    for name in "abc":
        cluster.put(bucket, name, b"x")
    cli.refuses(7, "rm", f"{bucket}/a", f"{bucket}/nothing", f"{bucket}/b", says=f"{bucket}/nothing")
    assert cluster.names(bucket) == ["c"]
    cli.ok("rm", "-f", f"{bucket}/c", f"{bucket}/nothing")
    assert cluster.names(bucket) == []


def test_names_that_cannot_be_are_usage_errors(cli, bucket, data_file):
    for name in ("", "/x", f"{bucket}/../x", f"{bucket}//x", "oc://b/x", "..", "a b/x", bucket):
        cli.refuses(2, "cat", name)
    cli.refuses(2, "put", data_file, f"{bucket}/~/../x")
    cli.refuses(2, "get", f"{bucket}/x", "/nonexistent-dir/")


def test_an_existing_file_is_replaced_only_by_a_whole_object(cli, bucket, data_file, here):
    (here / "x").write_text("precious")
    cli.refuses(3, "get", f"{bucket}/nothing", here / "x")
    assert (here / "x").read_text() == "precious"
    cli.ok("put", data_file, f"{bucket}/x")
    cli.ok("get", f"{bucket}/x", here / "x")
    assert (here / "x").read_bytes() == DATA
    cli.ok("get", f"{bucket}/x", "/dev/null")


# --- lists and buckets -------------------------------------------------------------------------------------------

def test_ls_shows_names_and_sizes(cli, cluster, bucket):
    for name, size in (("a/1", 10), ("a/2", 3_000_000), ("b", 0)):
        cluster.put(bucket, name, b"x" * size)
    assert cli.ok("ls", bucket).decode().split() == ["10", "a/1", "3000000", "a/2", "0", "b"]
    assert cli.ok("ls", "-h", bucket).decode().split() == ["10B", "a/1", "2.9MiB", "a/2", "0B", "b"]
    assert cli.ok("ls", "-n", f"{bucket}/a/").decode().split() == ["a/1", "a/2"]
    assert cli.ok("ls", "-nd", bucket).decode().split() == ["a/", "b"]
    assert cli.ok("ls", "-n", f"{bucket}/nothing") == b""
    told = json.loads(cli.ok("--json", "ls", bucket))
    assert [(entry["name"], entry["size"]) for entry in told] == [("a/1", 10), ("a/2", 3_000_000), ("b", 0)]
    assert told[2]["checksum"] == XXH64_OF_NOTHING
    assert json.loads(cli.ok("ls", "--json", f"{bucket}/nothing")) == []


def test_a_name_cannot_write_on_the_terminal(cli, cluster, bucket):
    name = "a\n\x1b[2Jb"
    cluster.put(bucket, name, b"x")
    assert cli.ok("ls", "-n", bucket) == b"a\\x0a\\x1b[2Jb\n"
    assert json.loads(cli.ok("ls", "--json", bucket))[0]["name"] == name
    cli.refuses(3, "cat", f"{bucket}/no{name}")
    assert cli.ok("cat", f"{bucket}/{name}") == b"x"


def test_buckets(cli, cluster):
    name = "made-by-cli"
    cli.ok("bucket", "create", name)
    cli.refuses(6, "bucket", "create", name, says="exists")
    assert name in cli.ok("bucket", "ls").decode().split()
    assert name in cli.ok("ls").decode().split()
    assert name in [each["name"] for each in json.loads(cli.ok("ls", "--json"))]
    shown = json.loads(cli.ok("bucket", "show", "--json", name))
    assert shown["checksum"]["type"] == "xxhash2"
    assert ["checksum.type", "xxhash2"] in [line.split() for line in cli.ok("bucket", "show", name).decode().splitlines()]
    cli.ok("bucket", "rm", name, "--yes")
    cli.refuses(3, "bucket", "rm", name, "--yes")
    cli.refuses(3, "bucket", "show", name)
    cli.refuses(2, "bucket", "create", "a/b")


def test_buckets_are_made_and_changed_by_what_their_users_chose(cli, cluster):
    def shown(name):
        return json.loads(cli.ok("bucket", "show", "--json", name))

    said = cli.ok("bucket", "create", "cut-by-cli", "--ec", "2+1", "--layout", "striped", "--set", "ec.objsize_limit=1000", "--set", "durability=strict")
    assert said == b"cut-by-cli: survives the loss of any drive, of any target\n"
    props = shown("cut-by-cli")
    assert props["ec"].items() >= {"enabled": True, "data_slices": 2, "parity_slices": 1, "layout": "striped", "objsize_limit": 1000}.items()
    assert props["durability"] == "strict"
    body = bytes(range(256)) * 1000
    assert cluster.put("cut-by-cli", "x", body).status == 200
    assert cli.ok("bucket", "set", "cut-by-cli", "durability=full", "checksum.type=md5") == b""
    assert shown("cut-by-cli")["durability"] == "full" and shown("cut-by-cli")["checksum"]["type"] == "md5"
    assert b"changed 1 objects" in cli.ok("bucket", "set", "cut-by-cli", "ec.layout=whole")
    job = cli.ok("bucket", "set", "cut-by-cli", "--no-wait", "ec.layout=striped").decode().strip()
    cli.ok("job", "wait", job)
    assert cluster.get("cut-by-cli", "x").body == body

    cli.ok("bucket", "create", "twice-by-cli", "--copies", "2", "--domain", "node", "--set", 'extra.custom="5"')
    assert shown("twice-by-cli")["mirror"].items() >= {"enabled": True, "copies": 2, "domain": "node"}.items()
    assert shown("twice-by-cli")["extra"]["custom"] == "5"
    for words, says in [(["--ec", "4"], "such as 4+2"), (["--ec", "x+y"], "such as 4+2"), (["--ec", "9+9"], "drive of its own"),
                        (["--ec", "0+2"], "ec.data_slices"), (["--layout", "striped"], "--ec"), (["--ec", "2+1", "--copies", "2"], "--"),
                        (["--set", "durability"], "KEY=VALUE"), (["--set", "durability=never"], "durability"), (["--set", "=5"], "KEY=VALUE"),
                        (["--set", "ec=5", "--set", "ec.enabled=true"], "has a value"), (["--copies", "1"], "--copies")]:
        cli.refuses(2, "bucket", "create", "never-by-cli", *words, says=says)
    cli.refuses(2, "bucket", "set", "cut-by-cli", "durability=never", says="durability")
    cli.refuses(2, "bucket", "set", "cut-by-cli", says="KEY=VALUE")
    cli.refuses(3, "bucket", "set", "never-by-cli", "durability=full", says="never-by-cli")
    for name in ("cut-by-cli", "twice-by-cli"):
        cli.ok("bucket", "rm", name, "--yes")


# --- the cluster -------------------------------------------------------------------------------------------------

def test_status_shows_every_node(cli, cluster):
    status = json.loads(cli.ok("cluster", "status", "--json"))
    assert len(status["nodes"]) == len(cluster.nodes)
    assert {node["url"] for node in status["nodes"]} == {node["urls"]["public"] for node in cluster.nodes.values()}
    assert all(node["state"] == "up" for node in status["nodes"])
    assert {node["map_version"] for node in status["nodes"]} == {status["map_version"]}
    text = cli.ok("cluster", "status").decode()
    assert all(node["id"] in text for node in status["nodes"])


def test_wait_ends_when_every_node_is_there(make_cluster):
    cluster = make_cluster(targets=2, drives=1)
    cli = Cli(cluster.endpoint)
    cli.ok("cluster", "wait", "--timeout", "60s")
    cluster.kill("t2")
    cli.refuses(124, "cluster", "wait", "--timeout", "1s", says=cluster.nodes["t2"]["id"])
    status = {node["id"]: node["state"] for node in json.loads(cli.ok("cluster", "status", "--json"))["nodes"]}
    assert status[cluster.nodes["t2"]["id"]] == "down"
    waiting = cli.start("cluster", "wait")
    cluster.start("t2")
    assert waiting.wait(timeout=scaled(60)) == 0, waiting.stderr.read()
    waiting.communicate()


def test_nobody_there_is_said_at_once():
    cli = Cli("http://127.0.0.1:1")
    start = time.monotonic()
    for words in (["ls"], ["cat", "b/x"], ["put", "-", "b/x"], ["rm", "b/x"], ["bucket", "create", "b"],
                  ["cluster", "status"]):
        cli.refuses(5, *words, says="127.0.0.1:1")
    assert_within(time.monotonic() - start, 10, "six refusals")
    cli.refuses(124, "cluster", "wait", "--timeout", "300ms")


# --- the command line itself -------------------------------------------------------------------------------------

def test_the_endpoint_comes_from_option_or_environment(cluster, bucket):
    cli = Cli("http://127.0.0.1:1")
    cli.ok("--endpoint", cluster.endpoint, "ls")
    cli.ok("ls", "--endpoint", cluster.endpoint.removeprefix("http://"))
    del cli.environment["TARN_ENDPOINT"]
    cli.environment["AIS_ENDPOINT"] = cluster.endpoint
    cli.ok("ls")
    cli.refuses(2, "--endpoint", "https://h", "ls", says="TLS")
    cli.refuses(2, "--endpoint", "http://h/path", "ls")
    cli.refuses(2, "--endpoint", "not a url", "ls")


def test_words_of_later_work_say_so():
    cli = Cli("http://127.0.0.1:1")
    for words in (["mv", "a", "b"], ["du", "b"], ["tarls", "b/x.tar"], ["bucket", "summary", "b"]):
        cli.refuses(2, *words, says="later work")


def test_usage_errors_are_one_line():
    cli = Cli("http://127.0.0.1:1")
    for words in ([], ["frobnicate"], ["bucket"], ["bucket", "frobnicate"], ["put"], ["put", "x"], ["ls", "--nope"],
                  ["cluster", "wait", "--timeout", "soon"], ["--retry-for", "x", "ls"]):
        cli.refuses(2, *words)
    cli.refuses(2, "ls", "b", "--nope", says="'--nope' is not expected here")
    cli.refuses(2, "bucket", "rm", "b", "c", says="'c' is not expected here")


def test_help_and_version():
    cli = Cli("http://127.0.0.1:1")
    assert cli.ok("version") == cli.ok("--version")
    assert json.loads(cli.ok("version", "--json"))["version"] in cli.ok("version").decode()
    assert b"put" in cli.ok("--help") and b"--if-absent" in cli.ok("put", "--help")
    assert cli.ok("help") == cli.ok("--help") and cli.ok("help", "bucket", "rm") == cli.ok("bucket", "rm", "--help")


def test_a_full_standard_output_is_an_error(cli, bucket):
    with open("/dev/full", "wb") as full:
        result = subprocess.run([cli.program, "ls"], env=cli.environment, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 1 and b"No space" in result.stderr


# --- nodes that go away ------------------------------------------------------------------------------------------

def test_a_read_goes_on_when_its_target_comes_back(make_cluster):
    cluster = make_cluster(targets=2, drives=1)
    cli = Cli(cluster.endpoint)
    body = os.urandom(64 << 20)
    cluster.put("data", "big", body)
    owner = cluster.owner("data", "big")
    reading = cli.start("cat", "data/big")
    read = reading.stdout.read(1 << 20)
    cluster.kill(owner)
    cluster.start(owner)
    body_read = read + reading.stdout.read()
    assert reading.wait(timeout=scaled(90)) == 0, reading.stderr.read()
    assert body_read == body


def test_a_write_waits_for_its_target(make_cluster, data_file):
    cluster = make_cluster(targets=2, drives=1, settings=LONG_LEASES)
    cli = Cli(cluster.endpoint)
    name = cluster.names_owned_by("t1", "data", 1)[0]
    cluster.kill("t1")
    cli.refuses(5, "put", data_file, f"data/{name}", "--retry-for", "1s")
    cli.refuses(5, "cat", f"data/{name}", "--retry-for", "1s")
    from_file = cli.start("put", data_file, f"data/{name}")
    from_pipe = cli.start("put", "-", f"data/{name}")
    cluster.start("t1")
    for putting, body in ((from_pipe, DATA), (from_file, None)):
        said = putting.communicate(body, timeout=scaled(90))[1].decode().splitlines()
        # How far it is, every five seconds, is no complaint.
        assert putting.returncode == 0 and not [line for line in said if " of 1 done" not in line], said
    assert cluster.get("data", name).body == DATA


# --- servers that break the rules --------------------------------------------------------------------------------


def test_wrong_bytes_are_8_and_leave_no_file(here):
    with Liar(answer(200, HELLO, b"hellO")) as liar:
        (here / "x").write_text("precious")
        liar.cli.refuses(8, "get", "b/x", here / "x", says=XXH64_OF_HELLO)
        assert (here / "x").read_text() == "precious" and os.listdir(here) == ["x"]
        assert liar.cli.refuses(8, "cat", "b/x").stdout == b"hellO"


def test_an_answer_without_checksum_is_not_trusted(here):
    with Liar(answer(200, {"ETag": '"x"'}, b"hello")) as liar:
        liar.cli.refuses(8, "get", "b/x", here / "x", says="no checksum")
        assert os.listdir(here) == []


def test_a_cut_answer_is_resumed_where_it_was(here):
    rest = HELLO | {"Content-Range": "bytes 3-4/5"}
    with Liar(answer(200, HELLO, b"hel", length=5), answer(206, rest, b"lo")) as liar:
        liar.cli.ok("get", "b/x", here / "x")
        assert (here / "x").read_bytes() == b"hello"
        resumed = liar.requests[1][2]
        assert resumed["Range"] == "bytes=3-" and resumed["If-Match"] == HELLO["ETag"]


def test_an_object_that_changed_is_read_anew(here):
    new = {"ETag": f'"{XXH64_OF_NOTHING}-0"', "Ais-Checksum-Type": "xxhash2", "Ais-Checksum-Value": XXH64_OF_NOTHING}
    script = (answer(200, HELLO, b"hel", length=5), answer(412), answer(200, new, b""))
    with Liar(*script) as liar:
        liar.cli.ok("get", "b/x", here / "x")
        assert (here / "x").read_bytes() == b""
    with Liar(*script) as liar:
        result = liar.cli.refuses(6, "cat", "b/x", says="changed")
        assert result.stdout == b"hel"


def test_retry_after_is_obeyed():
    with Liar(answer(503, {"Retry-After": "1"}), answer(200, HELLO, b"hello")) as liar:
        start = time.monotonic()
        assert liar.cli.ok("cat", "b/x") == b"hello"
        assert time.monotonic() - start >= 1


def test_a_put_is_compared_with_what_was_stored(tmp_path):
    file = tmp_path / "hello"
    file.write_bytes(b"hello")
    with Liar(taking(5, answer(200, HELLO))) as liar:
        liar.cli.ok("put", file, "b/x")
        head = liar.requests[0][2]
        assert head["Content-Length"] == "5" and head["Expect"] == "100-continue"
    wrong = HELLO | {"Ais-Checksum-Value": XXH64_OF_NOTHING}
    with Liar(taking(5, answer(200, wrong))) as liar:
        liar.cli.refuses(8, "put", file, "b/x", says=XXH64_OF_NOTHING)
    with Liar(answer(200, HELLO)) as liar:  # taken before a byte was sent
        liar.cli.refuses(1, "put", file, "b/x", says="nothing has been stored")


def test_a_stream_is_sent_again_only_when_none_of_it_is_gone(tmp_path):
    busy = answer(503, {"Retry-After": "0"}, b"busy")
    with Liar(busy, taking(15, answer(200, HELLO))) as liar:
        liar.cli.ok("put", "-", "b/x", input=b"hello")
        assert liar.requests[1][2]["Transfer-Encoding"] == "chunked"
    with Liar(taking(15, busy), taking(15, answer(200, HELLO))) as liar:
        liar.cli.refuses(5, "put", "-", "b/x", says="busy", input=b"hello")
        assert len(liar.requests) == 1
    file = tmp_path / "hello"
    file.write_bytes(b"hello")
    with Liar(taking(5, busy), taking(5, answer(200, HELLO))) as liar:
        liar.cli.ok("put", file, "b/x")


def test_redirects_in_a_circle_end(tmp_path):
    with Liar(answer(307, {"Location": "/v1/objects/b/x"})) as liar:
        liar.cli.refuses(1, "cat", "b/x", says="redirects")
        liar.cli.refuses(1, "put", "-", "b/x", says="redirects", input=b"x")


# --- buckets -----------------------------------------------------------------------------------------------------

def test_buckets_are_copied_and_renamed(cli, cluster, bucket):
    for name in ("a/1", "a/2", "b"):
        assert cluster.put(bucket, name, name.encode() * 1000).status == 200
    goal, renamed = f"{bucket}-copy", f"{bucket}-renamed"
    try:
        told = json.loads(cli.ok("bucket", "cp", bucket, goal, "--prefix", "a/", "--prepend", "old/", "--json"))
        assert told["objects"] == 2 and told["bytes"] == 6000 and len(told["job"]) >= 9
        assert cluster.names(goal) == ["old/a/1", "old/a/2"]
        assert cli.ok("bucket", "cp", bucket, goal, "--dry-run") == b"would copy 3 objects, 6.8KiB\n"
        assert cli.ok("bucket", "cp", bucket, goal, "--sync") == b"copied 3 objects, 6.8KiB\n"
        assert cluster.names(goal) == ["a/1", "a/2", "b"], "what is not in the source is gone"
        job = cli.ok("bucket", "cp", bucket, goal, "--no-wait").decode().strip()
        assert len(job) >= 9
        cli.ok("job", "wait", job)  # another copy of the same buckets is refused meanwhile
        cli.refuses(2, "bucket", "cp", bucket, bucket, says="onto itself")
        cli.refuses(3, "bucket", "cp", "no-such-bucket", goal, says="does not exist")
        cli.refuses(1, "bucket", "cp", bucket, goal, "--prepend", "p" * 1022, says="at most 1024")  # again does not help
        assert cli.ok("bucket", "cp", "-q", bucket, goal) == b""
        wait_until(lambda: cli("bucket", "mv", goal, renamed).returncode == 0, 20, "no copy is in the way any longer")
        assert cli.ok("cat", f"{renamed}/b") == b"b" * 1000
        cli.ok("bucket", "mv", goal, renamed)  # again, as after an answer that was lost
        cli.refuses(6, "bucket", "mv", bucket, renamed, says="already exists")
    finally:
        cluster.destroy_bucket(goal)
        cluster.destroy_bucket(renamed)


def test_every_command_says_in_json_what_it_did(cli, cluster):
    name = "told-in-json"
    assert json.loads(cli.ok("bucket", "create", name, "--json")) == {"bucket": name}
    try:
        assert cli.refuses(6, "bucket", "create", name, "--json", says="already exists").stdout == b""
        assert json.loads(cli.ok("rm", "-f", f"{name}/nothing-%06d", "--json"))["failed"] == 0
        assert len(json.loads(cli.ok("bucket", "mv", name, f"{name}-2", "--json"))["job"]) >= 9
        assert cli.refuses(3, "ls", name, "--json", says="does not exist").stdout == b"", "half a list is no JSON"
        assert json.loads(cli.ok("cluster", "wait", "--json"))["seconds"] >= 0
        assert json.loads(cli.ok("bucket", "rm", f"{name}-2", "--yes", "--json")) == {"bucket": f"{name}-2"}
    finally:
        cluster.destroy_bucket(name)
        cluster.destroy_bucket(f"{name}-2")


# --- export ------------------------------------------------------------------------------------------------------

def tree(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def drives(make_cluster):
    """The drives of a cluster that is down, and what was in it."""
    cluster = make_cluster(targets=2, drives=2)
    cluster.create_bucket("other")
    cluster.create_bucket("twice")
    kept = {}
    for index in range(40):
        bucket, name = ("data", "other")[index % 2], f"dir {index % 3}/ä-{index}.bin"
        cluster.put(bucket, name, b"old")
        if index % 5 == 0:
            cluster.delete(bucket, name)
            continue
        kept[f"{bucket}/{name}"] = os.urandom(index * 1000)
        assert cluster.put(bucket, name, kept[f"{bucket}/{name}"]).status == 200
    cluster.put("twice", "x", b"of the first bucket of this name")
    cluster.destroy_bucket("twice")
    cluster.create_bucket("twice")
    kept["twice/y"] = b"of the second"
    cluster.put("twice", "y", kept["twice/y"])
    # A bucket that was renamed, and another one that has its old name now.
    cluster.create_bucket("before")
    kept["after/x"] = b"of the bucket that was renamed"
    cluster.put("before", "x", kept["after/x"])
    Cli(cluster.endpoint).ok("bucket", "mv", "before", "after")
    cluster.create_bucket("before")
    kept["before/x"] = b"of the one made later"
    cluster.put("before", "x", kept["before/x"])
    paths = cluster.all_drives()
    cluster.down()
    return paths, kept


def test_export_reads_drives_without_a_cluster(drives, here):
    paths, kept = drives
    cli = Cli("http://127.0.0.1:1")
    told = json.loads(cli.ok("export", "--json", *paths, "--to", here / "out"))
    assert tree(here / "out") == kept
    assert told["written"] == len(kept) and told["failed"] == 0
    assert told["bytes"] == sum(map(len, kept.values()))
    again = json.loads(cli.ok("export", "--json", *paths, "--to", here / "out"))
    assert again["already_there"] == len(kept) and again["written"] == 0
    cli.ok("export", *paths, "--to", here / "one", "--bucket", "other")
    assert tree(here / "one") == {name: body for name, body in kept.items() if name.startswith("other/")}


def test_export_does_not_need_the_index(drives, here):
    paths, kept = drives
    for drive in paths:
        for file in (drive / ".tarn" / "index").iterdir():
            file.unlink()
    Cli("").ok("export", *paths, "--to", here / "out")
    assert tree(here / "out") == kept


def test_export_writes_no_wrong_byte(drives, here):
    paths, kept = drives
    victim = max(attribute.paths(paths), key=lambda path: path.stat().st_size)
    body = bytearray(victim.read_bytes())
    body[len(body) // 2] ^= 1
    victim.write_bytes(body)
    result = Cli("").refuses(8, "export", *paths, "--to", here / "out", says=str(victim))
    assert f"{len(kept) - 1} objects".encode() in result.stdout
    out = tree(here / "out")
    assert len(out) == len(kept) - 1 and all(kept[name] == body for name, body in out.items())


def test_export_leaves_other_files_alone(drives, here):
    paths, kept = drives
    name = next(iter(kept))
    (here / "out" / name).parent.mkdir(parents=True)
    (here / "out" / name).write_text("mine")
    Cli("").refuses(7, "export", *paths, "--to", here / "out", says="there already")
    assert tree(here / "out") == kept | {name: b"mine"}


def test_export_does_not_follow_links_out_of_its_directory(drives, here):
    paths, kept = drives
    (here / "out").mkdir()
    (here / "elsewhere").mkdir()
    (here / "out" / "other").symlink_to(here / "elsewhere")
    result = Cli("")("export", *paths, "--to", here / "out")
    assert result.returncode == 7 and "other" in result.stderr
    assert os.listdir(here / "elsewhere") == []
    (here / "out" / "other").unlink()
    assert tree(here / "out") == {name: body for name, body in kept.items() if not name.startswith("other/")}


def test_export_refuses_what_is_no_drive(drives, here):
    paths, _ = drives
    Cli("").refuses(3, "export", here, "--to", here / "out", says="no drive of Tarn")
    identity = paths[1] / ".tarn" / "drive.json"
    said = json.loads(identity.read_text())
    identity.write_text(json.dumps(said | {"cluster": "another"}))
    Cli("").refuses(6, "export", *paths, "--to", here / "out", says="another")
    identity.write_text(json.dumps(said | {"format": 3}))
    Cli("").refuses(2, "export", *paths, "--to", here / "out", says="format 3")
    assert not (here / "out").exists()
