"""Sends a case of the corpus, reads what comes back, and says how the server can have understood it."""

import dataclasses
import re
import select
import socket
import time

from corpus_case import ACCEPT, REJECT

CANARY = b"GET /healthz?canary HTTP/1.1\r\nHost: canary\r\nConnection: close\r\n\r\n"


@dataclasses.dataclass
class Seen:
    """The answer on one connection."""

    answers: list  # (status, headers in lower case, body)
    closed: bool  # by the server, in time
    junk: bytes = b""  # what is no answer
    sent: int = 0

    @property
    def statuses(self):
        return [status for status, _, _ in self.answers]


class Exchange:
    """The bytes of `data` on their way to a server, and what it says meanwhile. Neither side waits for the other."""

    def __init__(self, address, data, timeout, half_close=False):
        self.data, self.half_close = data, half_close
        self.received, self.closed, self.sent = bytearray(), False, 0
        self.connection = socket.create_connection(address, timeout=timeout)
        self.connection.setblocking(False)
        self.deadline = time.monotonic() + timeout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def goes_on(self):
        return time.monotonic() < self.deadline and not self.closed

    def step(self, seconds, most=65536):
        """Sends and reads what can be within that time. True when something was read, be it the end."""
        want = [self.connection] if self.sent < len(self.data) else []
        readable, writable, _ = select.select([self.connection], want, [], seconds)
        if writable:
            self._send(most)
        if readable:
            self._receive()
        return bool(readable)

    def _send(self, most):
        try:
            self.sent += self.connection.send(self.data[self.sent : self.sent + most])
            if self.half_close and self.sent == len(self.data):
                self.connection.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:  # it has closed already; what it said can still be read
            self.sent = len(self.data)

    def _receive(self):
        try:
            chunk = self.connection.recv(65536)
            self.received += chunk
            self.closed = not chunk
        except BlockingIOError:
            pass
        except ConnectionResetError:
            self.closed = True

    def seen(self, heads=()):
        answers, junk = parse_answers(bytes(self.received), heads)
        return Seen(answers, self.closed, junk, self.sent)


def send(address, wire, canary=CANARY, timeout=5.0, heads=()):
    """Sends the bytes of a case and the canary, reads until the server closes. `heads`: which of the requests
    are HEAD, by position, since their answers have no body."""
    with Exchange(address, wire + canary, timeout, half_close=True) as exchange:
        while exchange.goes_on():
            exchange.step(0.2)
        return exchange.seen(heads)


def parse_answers(data, heads=()):
    """(final answers, what could not be parsed). Strict: the server's own framing is on trial, too."""
    answers, place = [], 0
    while place < len(data):
        end = data.find(b"\r\n\r\n", place)
        match = re.match(rb"HTTP/1\.[01] ([1-5][0-9][0-9]) [^\r\n]*\r\n", data[place:])
        if end < 0 or not match:
            return answers, data[place:]
        status = int(match[1])
        headers = {}
        for line in data[place + match.end() : end + 2].split(b"\r\n")[:-1]:
            name, _, value = line.partition(b":")
            headers[name.decode("latin-1").lower()] = value.strip().decode("latin-1")
        place = end + 4
        if status < 200:
            continue
        body = b""
        if len(answers) not in heads and status not in (204, 304):
            if headers.get("transfer-encoding", "").lower() == "chunked":
                body, place = _read_chunks(data, place)
            elif "content-length" in headers:
                length = int(headers["content-length"])
                body = data[place : place + length]
                place += length
            else:
                body, place = data[place:], len(data)
        answers.append((status, headers, body))
    return answers, b""


def _read_chunks(data, place):
    body = b""
    while True:
        end = data.find(b"\r\n", place)
        if end < 0:
            return body, len(data)
        size = int(data[place:end].split(b";")[0], 16)
        place = end + 2
        if size == 0:
            return body, data.find(b"\r\n", place) + 2
        body += data[place : place + size]
        place += size + 2


def readings(case, seen):
    """How the server can have understood the case: any of REJECT and ACCEPT; or a sentence on why neither.

    Both are possible where a well framed request may be refused for its meaning and the connection closed.
    """
    if seen.junk:
        return f"no HTTP came back: {seen.junk[:80]!r}"
    if not seen.closed:
        return f"the connection stayed open after {seen.statuses}"
    if not seen.answers:
        return {REJECT} if case.cut else "closed without an answer"
    possible = set()
    if len(seen.answers) == 1 and seen.statuses[0] in case.statuses:
        possible.add(REJECT)
    mine, rest = seen.statuses[: case.requests], seen.statuses[case.requests :]
    understood = all(status < 400 or status in case.semantic for status in mine)
    if understood and (rest == [200] or case.may_close and not rest):
        possible.add(ACCEPT)
    return possible or f"{seen.statuses} for {case.requests} requests and the canary"
