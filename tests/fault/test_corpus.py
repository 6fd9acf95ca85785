"""The corpus says what it means: enough cases, each once, and its expected bodies are those of RFC 9112."""

import collections

import corpus
import pytest
from corpus_case import ACCEPT, EITHER, REJECT, Case
from corpus_driver import Seen, parse_answers, readings

pytestmark = pytest.mark.gate("J6")


def framed(case):
    """The body of a PUT as RFC 9112 frames it, by the shortest possible reading; independent of the corpus's own."""
    head, _, rest = case.wire.partition(b"\r\n\r\n")
    if case.chunked:
        body = b""
        while True:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size.split(b";")[0], 16)
            if length == 0:
                while not rest.startswith(b"\r\n"):
                    rest = rest.partition(b"\r\n")[2]
                return body, rest[2:]
            body += rest[:length]
            assert rest[length : length + 2] == b"\r\n"
            rest = rest[length + 2 :]
    lengths = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    assert len(lengths) == 1
    return rest[: int(lengths[0])], rest[int(lengths[0]) :]


def test_there_are_enough_cases_and_each_kind_is_there():
    cases = corpus.cases()
    kinds = collections.Counter(case.category for case in cases)
    print(f"{len(cases)} cases: {dict(kinds)}")
    assert len(cases) >= 600
    assert set(kinds) >= {"valid", "cl.te", "te.cl", "te.te", "cl.0", "0.cl", "expect", "chunk", "lf", "fold", "colon", "line"}
    assert min(collections.Counter(case.expect for case in cases).values()) >= 100
    assert len({case.wire for case in cases}) == len(cases)


def test_the_bodies_of_accepted_puts_are_what_their_framing_says():
    checked = 0
    for case in corpus.cases():
        if case.expect == ACCEPT and case.body is not None:
            body, rest = framed(case)
            assert body == case.body, case.name
            assert rest.count(b"HTTP/1.1\r\n") == case.requests - 1, case.name
            checked += 1
    assert checked > 100


def test_a_reading_is_what_the_answers_show():
    case = Case("x/y", b"GET /healthz HTTP/1.1\r\n\r\n", REJECT)
    assert readings(case, Seen([(400, {}, b"")], True)) == {REJECT}
    assert readings(case, Seen([(200, {}, b""), (200, {}, b"")], True)) == {ACCEPT}
    for wrong in (Seen([(400, {}, b"")], False), Seen([], True), Seen([(400, {}, b""), (200, {}, b"")], True),
                  Seen([(200, {}, b"")] * 3, True), Seen([(200, {}, b"")], True), Seen([], True, b"junk")):
        assert isinstance(readings(case, wrong), str), wrong
    lenient = Case("x/z", b"", EITHER, semantic=frozenset({400}), may_close=True)
    assert readings(lenient, Seen([(400, {}, b"")], True)) == {REJECT, ACCEPT}


def test_answers_are_taken_apart_strictly():
    wire = (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
            b"HTTP/1.1 307 Go\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 204 None\r\n\r\nxx")
    answers, junk = parse_answers(wire)
    assert [(status, body) for status, _, body in answers] == [(200, b"hi"), (307, b"ok"), (204, b"")] and junk == b"xx"
