"""Requests beyond the limits (J5), and clients that are slow on purpose (J4)."""

import dataclasses
import select
import socket
import time

from corpus_driver import Exchange
from harness.waiting import guarded

HEADER_BYTES = 16 * 1024
FIELDS = 100
TARGET_BYTES = 8 * 1024
NAME_BYTES = 1024


@dataclasses.dataclass(frozen=True)
class Limit:
    """A request just inside or beyond a limit. `statuses`: what may come back; beyond, the connection is closed."""

    name: str
    wire: bytes
    statuses: frozenset
    closes: bool = True


def head(first, *lines):
    return b"\r\n".join([first, b"Host: x", *lines, b"", b""])


def limits():
    """The table of J5. The path of objects is one of the public listener; no such object exists."""
    get = b"GET /healthz HTTP/1.1"
    fine, too_large, too_long, bad = ({200}, {431}, {414}, {400})
    table = [
        ("header block below the limit", head(get, b"X: " + b"a" * (HEADER_BYTES - 200)), fine, False),
        ("header block above the limit", head(get, b"X: " + b"a" * HEADER_BYTES), too_large, True),
        ("header block of many lines above the limit",
         head(get, *(b"X-%02d: " % i + b"a" * 400 for i in range(50))), too_large, True),
        ("one header line of 1 MiB", head(get, b"X: " + b"a" * (1 << 20)), too_large, True),
        ("a header name of 20 KiB", head(get, b"X" * 20_000 + b": a"), too_large | bad, True),
        ("as many fields as allowed", head(get, *(b"X-%d: a" % i for i in range(FIELDS - 2))), fine, False),
        ("one field too many", head(get, *(b"X-%d: a" % i for i in range(FIELDS))), too_large, True),
        ("10,000 fields", head(get, *[b"X: a"] * 10_000), too_large, True),
        ("10,000 empty fields", head(get, *[b"X:"] * 10_000), too_large, True),
        ("a target below the limit", head(b"GET /healthz?" + b"q" * (TARGET_BYTES - 20) + b" HTTP/1.1"), fine, False),
        ("a target above the limit", head(b"GET /healthz?" + b"q" * TARGET_BYTES + b" HTTP/1.1"), too_long, True),
        ("a target of 1 MiB", head(b"GET /" + b"q" * (1 << 20) + b" HTTP/1.1"), too_long, True),
        ("a target without end", b"GET /" + b"q" * (1 << 20), too_long, True),
        ("a method without end", b"G" * (1 << 20), too_long | too_large | bad, True),
        ("a header line without end", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (1 << 20), too_large, True),
    ]
    return [Limit(name, wire, frozenset(statuses), closes) for name, wire, statuses, closes in table]


def flood(address, wire, closes, timeout=5.0):
    """Sends bytes for as long as the server takes them; how many it took and what came back. `closes`: the end of the
    connection is waited for, too."""
    with Exchange(address, wire, guarded(timeout)) as exchange:
        quiet_since = None
        while exchange.goes_on():
            heard = exchange.step(0.05, most=16384)
            if exchange.seen().answers and not heard and not closes:  # the connection stays open: no need to wait
                quiet_since = quiet_since or time.monotonic()
                if time.monotonic() - quiet_since > 1.0:
                    break
        return exchange.seen()


# --- slow clients --------------------------------------------------------------------------------------------


@dataclasses.dataclass
class SlowResult:
    seconds: float  # until the server closed; infinite when it did not
    sent: int
    received: bytes


def drip(address, start, chunk, every, patience):
    """Sends `start`, then `chunk` again and again with pauses, until the server closes or patience ends.

    An empty chunk sends nothing more: an idle client.
    """
    received = b""
    began = time.monotonic()
    sent = 0
    with socket.create_connection(address, timeout=patience) as connection:
        if start:
            connection.sendall(start)
        while time.monotonic() - began < patience:
            readable, _, _ = select.select([connection], [], [], every)
            try:
                if readable:
                    got = connection.recv(65536)
                    if not got:
                        return SlowResult(time.monotonic() - began, sent, received)
                    received += got
                elif chunk:
                    sent += connection.send(chunk)
            except (ConnectionResetError, BrokenPipeError):
                return SlowResult(time.monotonic() - began, sent, received)
    return SlowResult(float("inf"), sent, received)


def sip(address, request, size, every, patience):
    """Sends a request and takes `size` bytes of the answer now and then, until the server closes or patience ends.

    The end is seen when it comes. A client that only reads sees it after all that lies in its receive buffer: at 64
    bytes every 0.2 s the 4 KiB of the smallest one take 12.8 s, whatever the server does.
    """
    began = time.monotonic()
    taken = 0
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # or the kernel reads ahead for us
        connection.settimeout(patience)
        connection.connect(address)
        connection.sendall(request)
        first = b""
        ended = select.poll()
        ended.register(connection, 0)  # a reset, which comes when an answer is cut
        while time.monotonic() - began < patience:
            try:
                got = connection.recv(size)
            except ConnectionResetError:
                return SlowResult(time.monotonic() - began, taken, first)
            if not got:
                return SlowResult(time.monotonic() - began, taken, first)
            first = first or got
            taken += len(got)
            if ended.poll(every * 1000):
                return SlowResult(time.monotonic() - began, taken, first)
    return SlowResult(float("inf"), taken, first)
