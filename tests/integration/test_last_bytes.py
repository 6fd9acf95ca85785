"""A node is told to end while readers have not taken all of an answer. They get it, or see that it was cut. With the
network of a container what the kernel still has to send goes without a word, so the node waits for it."""

import itertools
import os
import signal
import socket
import time
import urllib.parse

import pytest
from harness import client
from harness.cluster import process_is_alive
from harness.waiting import wait_until

# More than a reader's kernel takes, less than that of the node: it has sent all, and the reader has not all of it.
BODY = b"0123456789abcdef" * (1 << 15)


class SlowReader(client.RawConnection):
    """A connection whose kernel takes next to nothing that is not read."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.address = (parts.hostname, parts.port)
        self.socket = socket.socket()
        self.socket.settimeout(60)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(self.address)
        self.reader = self.socket.makefile("rb")

    def read_on(self):
        """The whole answer's status and body, at full speed."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        status, headers = self.read_head()
        return status, b"".join(self.body("GET", status, headers))


@pytest.fixture
def reader(make_cluster, request):
    """(cluster, connection) with an answer that the node counts as sent."""
    cluster = make_cluster(targets=1, drives=1, settings={"shutdown.grace": request.param})
    assert cluster.put("data", "x", BODY).status == 200

    def answered():
        return cluster.metric("t1", "tarn_http_requests_total", method="GET", status="200", listener="public") or 0

    before, own = answered(), itertools.count(1)
    with SlowReader(cluster.url_of("t1")) as connection:
        connection.send_head("GET", "/v1/objects/data/x?provider=ais")
        # Each question of ours is counted, too.
        wait_until(lambda: answered() > before + next(own), 60, "the answer was sent")
        yield cluster, connection


def end(cluster):
    pid = cluster.pid("t1")
    cluster.running.discard("t1")
    os.kill(pid, signal.SIGTERM)
    return pid


@pytest.mark.parametrize("reader", ["10m"], indirect=True)
def test_a_node_ends_when_the_last_bytes_have_arrived(reader):
    cluster, connection = reader
    pid = end(cluster)
    wait_until(lambda: cluster.logs["t1"].matching("target stopping"), 60, "it begins to end")
    time.sleep(0.5)  # a node that waits for nothing ends at once
    assert process_is_alive(pid)
    assert connection.read_on() == (200, BODY)
    wait_until(lambda: not process_is_alive(pid), 60, "it has ended")


@pytest.mark.parametrize("reader", ["100ms"], indirect=True)
def test_who_does_not_take_the_last_bytes_sees_that_they_are_cut(reader):
    cluster, connection = reader
    pid = end(cluster)
    wait_until(lambda: not process_is_alive(pid), 60, "it has ended")
    with pytest.raises(ConnectionResetError):
        connection.read_on()
