"""A call that is repeated because its answer was lost is not judged as a first one. A failure on our own side is reported at
once."""

import os
import socket
import threading

import pytest
from harness.cli import Cli
from harness.waiting import guarded
from harness.wire import LosesAnswers


@pytest.fixture
def shard(here):
    file = here / "shard.tar"
    file.write_bytes(os.urandom(300_000))
    return file


def test_what_was_stored_by_a_try_whose_answer_was_lost_is_no_conflict(cli, cluster, bucket, shard):
    cli.ok("put", shard, f"{bucket}/source")
    for words in (("put", "--if-absent", shard, f"{bucket}/x"), ("cp", "--if-absent", f"{bucket}/source", f"{bucket}/x")):
        with LosesAnswers(cluster.relay, "PUT") as way:
            Cli(way.endpoint).ok(*words)
            assert way.lost == 1
        assert cluster.get(bucket, "x").body == shard.read_bytes()
        # A first try is judged as ever, and so is one that meets something else.
        cli.refuses(6, *words)
        cluster.put(bucket, "x", b"by somebody else")
        cli.refuses(6, *words)
        assert cluster.get(bucket, "x").body == b"by somebody else"
        cluster.delete(bucket, "x")


def test_what_was_removed_or_made_by_such_a_try_is_done(cli, cluster, bucket):
    cluster.put(bucket, "x", b"x")
    for method, words in (("DELETE", ("rm", f"{bucket}/x")), ("POST", ("bucket", "create", f"{bucket}-two")),
                          ("POST", ("bucket", "mv", f"{bucket}-two", f"{bucket}-three")),
                          ("DELETE", ("bucket", "rm", "--yes", f"{bucket}-three"))):
        with LosesAnswers(cluster.relay, method) as way:
            Cli(way.endpoint).ok(*words)
            assert way.lost == 1
    assert cluster.names(bucket) == []
    cli.refuses(3, "rm", f"{bucket}/x")
    cli.refuses(6, "bucket", "create", bucket)
    cli.refuses(3, "bucket", "rm", "--yes", f"{bucket}-three")
    cli.refuses(3, "bucket", "mv", f"{bucket}-two", f"{bucket}-three")


def test_a_file_that_cannot_be_read_on_is_said_before_anybody_answers(here):
    """The other side waits for the rest of the body, and would for minutes."""
    file = here / "shrinks"
    with open(file, "wb") as sparse:
        sparse.truncate(256 << 20)
    server = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def never_answers():
        connection, _ = server.accept()
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.recv(1 << 16)
        os.truncate(file, 1)
        while connection.recv(1 << 20):
            pass
        ended.set()

    threading.Thread(target=never_answers, daemon=True).start()
    try:
        cli = Cli(f"http://127.0.0.1:{server.getsockname()[1]}")
        cli.refuses(6, "put", file, "b/x", says="became shorter while it was sent")
        assert ended.wait(guarded(10)), "the connection ends with the command"
    finally:
        server.close()
