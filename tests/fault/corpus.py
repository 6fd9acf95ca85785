"""Malformed HTTP, what must come of it, and how to tell (faults.md J4, J5, J6).

A `Case` is the bytes of one request, or of something that looks like one, with `{T}` for the request target
and `{H}` for the host. The driver (`send`) appends a canary, `GET /healthz` with `Connection: close`, so
that a request which swallows too much or too little shows: as a missing answer, or as one too many.

REJECT   one answer with one of `statuses` and the connection is closed; nothing is stored; no canary.
ACCEPT   parsed exactly as RFC 9112 says: `body` arrives as it is, whole; then the canary is answered,
         unless the server chose to close (`may_close`).
EITHER   RFC 9112 leaves it open: rejected, or parsed exactly, but the same at all doors.

A body always contains, or is followed by, something that would be a request if the framing were misread.
"""

import dataclasses
import itertools
import re
import select
import socket
import time

REJECT, ACCEPT, EITHER = "reject", "accept", "either"
BAD = frozenset({400})
BAD_OR_UNKNOWN = frozenset({400, 501})  # a transfer coding that is not known
NO_LENGTH = frozenset({400, 411})
BAD_VERSION = frozenset({400, 505})
BAD_METHOD = frozenset({400, 405, 501})
TOO_LARGE = frozenset({400, 413, 414, 431})
SMUGGLED = b"GET /healthz?smuggled HTTP/1.1\r\nHost: smuggled\r\n\r\n"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    wire: bytes
    expect: str
    statuses: frozenset = BAD
    body: bytes | None = None  # of a PUT, when it is parsed; None: a request without a body
    chunked: bool = False  # how a PUT that is parsed says its length
    requests: int = 1  # before the canary, when parsed
    may_close: bool = False
    cut: bool = False  # ends in the middle: closing without an answer is one way to refuse it
    semantic: frozenset = frozenset()  # statuses of a request that is well framed but refused for its meaning

    @property
    def category(self):
        return self.name.split("/")[0]

    @property
    def is_put(self):
        return self.wire.lstrip().startswith(b"PUT")


class Builder:
    """Collects cases; a name may come once, and so may the bytes."""

    def __init__(self):
        self.cases = []
        self._wires = {}

    def add(self, name, wire, expect, **options):
        if wire in self._wires:
            return  # two ways to write the same thing
        self._wires[wire] = name
        self.cases.append(Case(name, wire, expect, **options))

    def put(self, name, headers, payload, expect, version=b"HTTP/1.1", **options):
        """A PUT with raw header lines (each without its end) and a raw payload."""
        lines = [b"PUT {T} " + version, b"Host: {H}", *headers]
        self.add(name, b"".join(line + b"\r\n" for line in lines) + b"\r\n" + payload, expect, **options)

    def get(self, name, lines, expect, eol=b"\r\n", **options):
        self.add(name, b"".join(line + eol for line in lines) + eol, expect, **options)


def chunks(body, *sizes):
    """A chunked body of chunks of these sizes."""
    out, place = b"", 0
    for size in sizes or (len(body),):
        out += b"%x\r\n" % len(body[place : place + size]) + body[place : place + size] + b"\r\n"
        place += size
    return out + b"0\r\n\r\n"


def show(data):
    """Bytes for the name of a case."""
    text = data if len(data) <= 40 else data[:36] + b"..."
    return repr(text)[2:-1].replace("/", "\\x2f")


BODY = b"hello" + SMUGGLED
CL = b"Content-Length: %d" % len(BODY)
TE = b"Transfer-Encoding: chunked"


def _valid(b):
    """What must be accepted: a server that rejects everything would pass the rest."""
    b.put("valid/length", [CL], BODY, ACCEPT, body=BODY)
    b.put("valid/length 0", [b"Content-Length: 0"], b"", ACCEPT, body=b"")
    for sizes in ((), (1,) * len(BODY), (5, 7, 1000), (len(BODY) - 1, 1)):
        b.put(f"valid/chunks {len(sizes)}", [TE], chunks(BODY, *sizes), ACCEPT, body=BODY, chunked=True)
    b.put("valid/chunk size in upper case", [TE], chunks(b"x" * 0xAB).replace(b"ab\r\n", b"AB\r\n"), ACCEPT,
          body=b"x" * 0xAB, chunked=True)
    b.put("valid/chunk size with zeros", [TE], b"0005\r\nhello\r\n000\r\n\r\n", ACCEPT, body=b"hello", chunked=True)
    b.put("valid/no chunk but the last", [TE], b"0\r\n\r\n", ACCEPT, body=b"", chunked=True)
    for extension in (b";a", b";a=b", b';a="b"', b';a="b;c"', b";a;b=c", b';a="\\""'):
        b.put(f"valid/chunk extension {show(extension)}", [TE], b"5" + extension + b"\r\nhello\r\n0\r\n\r\n", ACCEPT,
              body=b"hello", chunked=True)
        b.put(f"valid/last chunk extension {show(extension)}", [TE], b"5\r\nhello\r\n0" + extension + b"\r\n\r\n",
              ACCEPT, body=b"hello", chunked=True)
    for trailer in (b"X-Trailer: 1", b"X-A: 1\r\nX-B: 2"):
        b.put(f"valid/trailer {show(trailer)}", [TE], b"5\r\nhello\r\n0\r\n" + trailer + b"\r\n\r\n", ACCEPT,
              body=b"hello", chunked=True)
    for coding in (b"chunked", b"Chunked", b"CHUNKED", b"cHuNkEd"):
        for name in (b"Transfer-Encoding", b"transfer-encoding", b"TRANSFER-ENCODING"):
            for space in (b"", b" ", b"\t", b"   "):
                line = name + b":" + space + coding
                b.put(f"valid/coding {show(line)}", [line], chunks(BODY), ACCEPT, body=BODY, chunked=True)
    for space in (b"", b"\t", b"  \t "):
        b.put(f"valid/length behind {show(space)}", [b"Content-Length:" + space + b"5"], b"hello", ACCEPT, body=b"hello")
        b.put(f"valid/length before {show(space)}", [b"Content-Length: 5" + space], b"hello", ACCEPT, body=b"hello")
    for name in (b"content-length", b"CONTENT-LENGTH", b"cOnTeNt-LeNgTh"):
        b.put(f"valid/{show(name)}", [name + b": 5"], b"hello", ACCEPT, body=b"hello")
    for method in (b"GET", b"HEAD"):
        b.get(f"valid/{show(method)}", [method + b" /healthz HTTP/1.1", b"Host: {H}"], ACCEPT)
        b.get(f"valid/{show(method)} absolute form", [method + b" http://{H}/healthz HTTP/1.1", b"Host: {H}"], ACCEPT)
        b.get(f"valid/{show(method)} query", [method + b" /healthz?a=b&c=%20%2F HTTP/1.1", b"Host: {H}"], ACCEPT)
    b.get("valid/two requests", [b"GET /healthz HTTP/1.1", b"Host: {H}", b"", b"GET /healthz HTTP/1.1", b"Host: {H}"],
          ACCEPT, requests=2)
    b.get("valid/eight requests", [b"GET /healthz HTTP/1.1", b"Host: {H}", b""] * 7 +
          [b"GET /healthz HTTP/1.1", b"Host: {H}"], ACCEPT, requests=8)
    b.get("valid/HTTP 1.0", [b"GET /healthz HTTP/1.0", b"Host: {H}"], ACCEPT, may_close=True)
    b.get("valid/HTTP 1.0 without Host", [b"GET /healthz HTTP/1.0"], ACCEPT, may_close=True)
    b.get("valid/HTTP 1.0 keep-alive", [b"GET /healthz HTTP/1.0", b"Host: {H}", b"Connection: keep-alive"], ACCEPT,
          may_close=True)
    b.put("valid/HTTP 1.0 length", [b"Content-Length: 5"], b"hello", ACCEPT, version=b"HTTP/1.0", body=b"hello",
          may_close=True)
    for value in (b"", b"x", b"a, b", b"\"quoted\"", b"tab\there", b"caf\xe9", b"\xc3\xa9", b"a:b", b"(comment)"):
        b.get(f"valid/value {show(value)}", [b"GET /healthz HTTP/1.1", b"Host: {H}", b"X-Test: " + value], ACCEPT)
    for mark in b"!#$%&'*+-.^_`|~":
        b.get(f"valid/name with {chr(mark)}", [b"GET /healthz HTTP/1.1", b"Host: {H}", b"X%cY: 1" % mark], ACCEPT)


def _both_lengths(b):
    """CL.TE and TE.CL: whoever believes the one and whoever believes the other see different requests."""
    payloads = {
        "smuggled behind the chunks": chunks(b"") + SMUGGLED,
        "smuggled inside": chunks(SMUGGLED),
        "cut by the length": chunks(b"hello"),
    }
    lengths = (b"0", b"3", b"5", b"4", b"%d", b"6", b"100")
    codings = (b"chunked", b"Chunked", b" chunked", b"\tchunked", b"chunked ", b"identity, chunked", b"identity")
    for (what, payload), length, coding in itertools.product(payloads.items(), lengths, codings):
        number = length % len(payload) if b"%" in length else length
        cl, te = b"Content-Length: " + number, b"Transfer-Encoding:" + coding
        name = f"{show(number)} and {show(coding)}, {what}"
        b.put(f"cl.te/{name}", [cl, te], payload, REJECT, statuses=BAD_OR_UNKNOWN)
        b.put(f"te.cl/{name}", [te, cl], payload, REJECT, statuses=BAD_OR_UNKNOWN)
    for between in (b"X-A: b", b"X-A: b\r\nX-C: d"):
        b.put(f"cl.te/apart by {show(between)}", [CL, between, TE], chunks(BODY), REJECT)
        b.put(f"te.cl/apart by {show(between)}", [TE, between, CL], chunks(BODY), REJECT)
    b.put("cl.te/with HTTP 1.0", [CL, TE], chunks(BODY), REJECT, version=b"HTTP/1.0")
    b.put("te.cl/twice", [TE, CL, TE], chunks(BODY), REJECT)


def _codings(b):
    """TE.TE: a coding that one server knows and the other does not."""
    unknown = [
        b"xchunked", b"chunkedx", b"chunked-x", b"x-chunked", b"chunk", b"chunke", b"identity", b"cow", b"gzip",
        b"deflate", b"compress", b"trailers", b"chu nked", b"c\thunked", b"'chunked'", b'"chunked"', b"(chunked)",
        b"chunked;", b"chunked;q=1", b"chunked; q=0.5", b";chunked", b"chunked=1", b"gzip, identity", b"chunked\xa0",
        b"\xa0chunked", b"chunked\x85", b"\xef\xbb\xbfchunked", b"chunk\xc3\xa9d", b"chunked/1.0", b"[chunked]",
        b"chunked,gzip", b"chunked, identity", b"chunked, cow", b"chunked chunked", b"c%68unked", b"",
    ]
    for coding in unknown:
        b.put(f"te.te/unknown {show(coding)}", [b"Transfer-Encoding: " + coding], chunks(BODY), REJECT,
              statuses=BAD_OR_UNKNOWN | NO_LENGTH)
    for coding in (b"chunked, chunked", b"chunked,chunked", b"chunked, gzip, chunked", b"chunked,,chunked"):
        b.put(f"te.te/twice {show(coding)}", [b"Transfer-Encoding: " + coding], chunks(BODY), REJECT,
              statuses=BAD_OR_UNKNOWN)
    for coding in (b"gzip, chunked", b"identity, chunked", b"cow, chunked", b"deflate,chunked", b"identity,chunked"):
        b.put(f"te.te/below {show(coding)}", [b"Transfer-Encoding: " + coding], chunks(BODY), REJECT,
              statuses=BAD_OR_UNKNOWN)
    for coding in (b",chunked", b"chunked,", b", chunked", b"chunked ,", b",,chunked", b" , chunked , "):
        b.put(f"te.te/empty elements {show(coding)}", [b"Transfer-Encoding: " + coding], chunks(BODY), EITHER,
              statuses=BAD_OR_UNKNOWN, body=BODY, chunked=True)
    for other in (b"chunked", b"identity", b"gzip", b"cow", b"xchunked", b"Chunked", b"", b"identity, chunked"):
        line = b"Transfer-Encoding: " + other
        b.put(f"te.te/two lines, {show(other)} last", [TE, line], chunks(BODY), REJECT, statuses=BAD_OR_UNKNOWN)
        b.put(f"te.te/two lines, {show(other)} first", [line, TE], chunks(BODY), REJECT, statuses=BAD_OR_UNKNOWN)
        b.put(f"te.te/two lines, {show(other)} apart", [line, b"X-A: b", TE], chunks(BODY), REJECT,
              statuses=BAD_OR_UNKNOWN)
    for control in (b"\x00", b"\x01", b"\x0b", b"\x0c", b"\x1f", b"\x7f", b"\r"):
        for coding in (control + b"chunked", b"chunked" + control, b"chun" + control + b"ked"):
            b.put(f"te.te/control {show(coding)}", [b"Transfer-Encoding: " + coding], chunks(BODY), REJECT,
                  statuses=BAD_OR_UNKNOWN)
    for name in (b"Transfer_Encoding", b"Transfer-Encodin", b"Transfer-Encoding-", b"X-Transfer-Encoding", b"TransferEncoding",
                 b"Transfer.Encoding", b"Transfer-Encoding1"):
        b.put(f"te.te/not the header {show(name)}", [name + b": chunked"], chunks(BODY), REJECT, statuses=NO_LENGTH)
        b.put(f"te.te/not the header {show(name)}, with a length", [name + b": chunked", CL], BODY, ACCEPT, body=BODY)
    for version in (b"HTTP/1.0",):
        b.put(f"te.te/{show(version)}", [TE], chunks(BODY), REJECT, version=version)
        b.put(f"te.te/{show(version)} keep-alive", [TE, b"Connection: keep-alive"], chunks(BODY), REJECT,
              version=version)


def _lengths(b):
    """Content-Length that is not one number."""
    wrong = [
        b"+5", b"-5", b"-0", b"5.0", b"5e0", b"0x5", b"05h", b"5 5", b"5;", b"5;q=1", b'"5"', b"'5'", b"(5)", b"five",
        b"5a", b"a5", b"5\xa0", b"\xd9\xa5", b"\xef\xbc\x95", b"", b"-1", b"5_0", b"5'000", b"=5", b"5/5", b"NaN",
        b"18446744073709551616", b"18446744073709551621", b"36893488147419103237", b"99999999999999999999999999999",
        b"4294967301x", b"1" * 100, b"-18446744073709551611", b"0b101", b"0o5", b"\\5", b"5\\r\\n", b"%35",
    ]
    for length in wrong:
        b.put(f"cl/{show(length)}", [b"Content-Length: " + length], b"hello", REJECT, statuses=BAD | NO_LENGTH | TOO_LARGE)
    for length in (b"9223372036854775807", b"9223372036854775808", b"18446744073709551615"):
        b.put(f"cl/more than there can be {show(length)}", [b"Content-Length: " + length], b"hello", REJECT,
              statuses=TOO_LARGE | {507}, cut=True)
    for control in (b"\x00", b"\x01", b"\x0b", b"\x0c", b"\x1f", b"\x7f", b"\r", b"\n"):
        for length in (control + b"5", b"5" + control, b"5" + control + b"0"):
            b.put(f"cl/control {show(length)}", [b"Content-Length: " + length], b"hello", REJECT)
    for pair in ((b"5", b"6"), (b"6", b"5"), (b"5", b"5"), (b"0", b"5"), (b"5", b"0"), (b"5", b""), (b"", b"5"),
                 (b"5", b"x"), (b"5", b"+5"), (b"5", b"05"), (b"5", b"-5")):
        one, two = (b"Content-Length: " + value for value in pair)
        b.put(f"cl/two lines {show(pair[0])} and {show(pair[1])}", [one, two], b"hello", REJECT)
        b.put(f"cl/two lines apart {show(pair[0])} and {show(pair[1])}", [one, b"X-A: b", two], b"hello", REJECT)
        b.put(f"cl/two names {show(pair[0])} and {show(pair[1])}", [one, two.lower()], b"hello", REJECT)
    for values in (b"5, 5", b"5,5", b"5, 6", b"6, 5", b"5 , 5", b"5,", b",5", b"5,,5", b"0, 5", b"5, 0", b"5,5,5"):
        b.put(f"cl/list {show(values)}", [b"Content-Length: " + values], b"hello", REJECT)
    for zeros in (b"05", b"005", b"0" * 20 + b"5"):
        b.put(f"cl/zeros before {show(zeros)}", [b"Content-Length: " + zeros], b"hello", EITHER, body=b"hello")
    for name in (b"Content_Length", b"Content-Length-", b"X-Content-Length", b"Content-Lenght", b"ContentLength"):
        b.put(f"cl/not the header {show(name)}", [name + b": 5"], b"hello", REJECT, statuses=NO_LENGTH)
        b.put(f"cl/not the header {show(name)}, with another", [name + b": 50", b"Content-Length: 5"], b"hello", ACCEPT,
              body=b"hello")
    b.put("cl/none at all", [], b"", REJECT, statuses=NO_LENGTH)
    b.put("cl/none, but a body", [], b"hello", REJECT, statuses=NO_LENGTH)
    b.put("cl/none, HTTP 1.0", [], b"hello", REJECT, version=b"HTTP/1.0", statuses=NO_LENGTH)
    b.put("cl/shorter than the body", [b"Content-Length: 5"], b"hello" + SMUGGLED, ACCEPT, body=b"hello", requests=2)
    b.put("cl/nothing, then a request", [b"Content-Length: 0"], SMUGGLED, ACCEPT, body=b"", requests=2)


def _chunks(b):
    """Chunked bodies that are not."""
    def chunked(name, payload, expect=REJECT, **options):
        b.put(f"chunk/{name}", [TE], payload, expect, chunked=True, **options)

    tail = b"\r\nhello\r\n0\r\n\r\n"
    sizes = [
        b"", b"g", b"5g", b"0x5", b"0X5", b"+5", b"-5", b"5h", b"5.", b"5,5", b"5_", b"\xd9\xa5", b"five", b'"5"', b"$5",
        b"5\x00", b"\x005", b"5\x01", b"5\x0b", b"5\x0c", b"5\x1f", b"5\x7f", b"5\x80", b"5\xa0", b" 5", b"\t5", b"-1", b"5 5",
        b"5:5", b"5=5", b"5\\", b"5/", b"%35", b"10000000000000005", b"100000000000000000000005", b"fffffffffffffffff",
        b"8000000000000000000005", b"5\r", b"\r5", b"5\r\r",
    ]
    for size in sizes:
        chunked(f"size {show(size)}", size + tail)
        chunked(f"second size {show(size)}", b"1\r\nx\r\n" + size + tail)
    for size in (b"ffffffffffffffff", b"7fffffffffffffff", b"8000000000000000", b"fffffffffffffff"):
        chunked(f"size more than there can be {show(size)}", size + tail, statuses=TOO_LARGE | {507}, cut=True)
    for size in (b"5 ", b"5\t", b"5  "):
        chunked(f"size with space {show(size)}", size + tail, EITHER, body=b"hello")
    chunked("size with very many zeros", b"0" * 300 + b"5" + tail, EITHER, body=b"hello")
    for space in (b" ;a", b"\t;a", b"; a", b";a =b", b";a= b", b" ; a = b"):
        chunked(f"extension with space {show(space)}", b"5" + space + tail, EITHER, body=b"hello")
    for extension in (b";", b";;", b";=", b";=b", b";a=", b';a="b', b';a="b\\', b";a=b=c", b";a,b", b";a b", b";\x80"):
        open_quote = extension.count(b'"') == 1  # goes on into the canary, and then the body just ends
        chunked(f"extension odd {show(extension)}", b"5" + extension + tail, EITHER, body=b"hello", cut=open_quote)
    for control in (b"\x00", b"\x01", b"\x0b", b"\x7f"):
        chunked(f"extension with control {show(control)}", b"5;a" + control + b"b" + tail, EITHER, body=b"hello")
    for extension in (b";\n", b";a\n", b";a\nb", b';a="\n"', b";\r", b";a\rb", b';a="\r"', b";a\r\rb", b"\n"):
        chunked(f"extension with a line end {show(extension)}", b"5" + extension + tail)
    chunked("extension of 64 KiB", b"5;" + b"a" * 65536 + tail, statuses=TOO_LARGE)
    chunked("extension of 1 MiB", b"5;a=" + b"b" * (1 << 20) + tail, statuses=TOO_LARGE)
    chunked("extensions of 1 MiB in all", (b"1;a=" + b"b" * 1000 + b"\r\nx\r\n") * 1000 + b"0\r\n\r\n", EITHER,
            statuses=TOO_LARGE, body=b"x" * 1000)

    # Line ends that are not CRLF.
    for end in (b"\n", b"\r", b"\r\r\n", b"\n\r", b"\n\n", b"\r\n\r\n", b"\x00\r\n", b" \r\n", b""):
        if end not in (b" \r\n", b"\x00\r\n"):
            chunked(f"size ends with {show(end)}", b"5" + end + b"hello\r\n0\r\n\r\n")
        chunked(f"data ends with {show(end)}", b"5\r\nhello" + end + b"0\r\n\r\n")
    for end in (b"\n", b"\r\r\n", b"\r", b"\n\r"):
        chunked(f"last chunk ends with {show(end)}", b"5\r\nhello\r\n0" + end + b"\r\n")
        chunked(f"body ends with {show(end)}", b"5\r\nhello\r\n0\r\n" + end)
    chunked("longer than its size", b"5\r\nhello, world\r\n0\r\n\r\n")
    chunked("shorter than its size", b"9\r\nhello\r\n0\r\n\r\n")
    chunked("an empty line first", b"\r\n5\r\nhello\r\n0\r\n\r\n")
    chunked("an empty line between", b"1\r\nx\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    chunked("not chunked at all", b"hello, world, this is no chunk\r\n\r\n")
    chunked("a request for a chunk", SMUGGLED)
    chunked("ends behind the last size", b"5\r\nhello\r\n0\r\n")  # the canary is then taken for a trailer
    chunked("ends in the data", b"500\r\nhello", cut=True)
    chunked("data behind the last chunk", chunks(b"hello") + SMUGGLED, ACCEPT, body=b"hello", requests=2)

    # Trailers are fields like others, and must not change the framing or the head.
    for trailer in (b"no colon", b": no name", b"X Y: 1", b"X : 1", b" X: 1", b"X: 1\n", b"X\x00: 1", b"X: \x00", b"X\r: 1",
                    b"(X): 1", b"\x80X: 1", b"X: a\rb"):
        chunked(f"trailer {show(trailer)}", b"5\r\nhello\r\n0\r\n" + trailer + b"\r\n\r\n")
    for trailer in (b"Content-Length: 5", b"Content-Length: 500", b"Transfer-Encoding: chunked", b"Host: other",
                    b"Content-Length: x", b"Trailer: X", b"Connection: keep-alive", b"Expect: 100-continue",
                    b"X: a\r\n b", b"Authorization: x", b"If-None-Match: *", b"Content-MD5: AAAA"):
        chunked(f"trailer must not matter {show(trailer)}", b"5\r\nhello\r\n0\r\n" + trailer + b"\r\n\r\n", EITHER,
                body=b"hello")
    chunked("trailer of 1 MiB", b"5\r\nhello\r\n0\r\nX: " + b"y" * (1 << 20) + b"\r\n\r\n", statuses=TOO_LARGE)
    chunked("10,000 trailers", b"5\r\nhello\r\n0\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", statuses=TOO_LARGE)


def _no_body_expected(b):
    """CL.0 and 0.CL: a body where one side may expect none."""
    for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"POST", b"TRACE", b"PATCH"):
        for path in (b"/healthz", b"/metrics"):
            lines = [method + b" " + path + b" HTTP/1.1", b"Host: {H}"]
            options = dict(semantic=frozenset({400, 404, 405, 413, 501}), may_close=True)
            name = f"{show(method)} {show(path)}"
            b.add(f"cl.0/{name} with a length", b"\r\n".join([*lines, CL, b"", BODY]), ACCEPT, **options)
            b.add(f"cl.0/{name} in chunks", b"\r\n".join([*lines, TE, b"", chunks(BODY)]), ACCEPT, **options)
            b.add(f"cl.0/{name} with both", b"\r\n".join([*lines, CL, TE, b"", chunks(BODY)]), REJECT)
            b.add(f"cl.0/{name} expecting", b"\r\n".join([*lines, CL, b"Expect: 100-continue", b"", BODY]), ACCEPT,
                  **options)
        b.add(f"0.cl/{show(method)} with length 0 and a request behind",
              method + b" /healthz HTTP/1.1\r\nHost: {H}\r\nContent-Length: 0\r\n\r\n" + SMUGGLED, ACCEPT, requests=2,
              semantic=frozenset({400, 404, 405, 501}), may_close=True)


def _expectations(b):
    for value in (b"100-continue", b"100-Continue", b"100-CONTINUE", b" 100-continue", b"100-continue "):
        b.put(f"expect/{show(value)}", [CL, b"Expect:" + value], BODY, ACCEPT, body=BODY)
        b.put(f"expect/chunked {show(value)}", [TE, b"Expect:" + value], chunks(BODY), ACCEPT, body=BODY, chunked=True)
    b.put("expect/nothing to come", [b"Content-Length: 0", b"Expect: 100-continue"], b"", ACCEPT, body=b"")
    for value in (b"", b"y", b"200-ok", b"102-processing", b"100-continue, y", b"y, 100-continue", b"100-continuex",
                  b"x 100-continue", b"100-continue;a=b", b'"100-continue"', b"100-continue=1", b"100 continue"):
        b.put(f"expect/other {show(value)}", [CL, b"Expect: " + value], BODY, EITHER, statuses=BAD | {417}, body=BODY)
    b.put("expect/twice", [CL, b"Expect: 100-continue", b"Expect: 100-continue"], BODY, EITHER, statuses=BAD | {417},
          body=BODY)
    b.put("expect/twice, one unknown", [CL, b"Expect: 100-continue", b"Expect: y"], BODY, EITHER, statuses=BAD | {417},
          body=BODY)
    b.put("expect/HTTP 1.0", [CL, b"Expect: 100-continue"], BODY, ACCEPT, version=b"HTTP/1.0", body=BODY, may_close=True)
    b.put("expect/with both lengths", [CL, TE, b"Expect: 100-continue"], chunks(BODY), REJECT)
    b.put("expect/without a length", [b"Expect: 100-continue"], b"", REJECT, statuses=NO_LENGTH)
    for control in (b"\x00", b"\r", b"\n"):
        b.put(f"expect/control {show(control)}", [CL, b"Expect: 100-cont" + control + b"inue"], BODY, REJECT)


def _line_ends(b):
    """Only CRLF ends a line."""
    lines = [b"GET /healthz HTTP/1.1", b"Host: {H}", b"X-A: b"]
    for end in (b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r\n\r", b"\x0b\r\n", b"\x85", b"\xe2\x80\xa8", b"\x00\r\n"):
        for which in range(len(lines)):
            wire = b"".join(line + (end if index == which else b"\r\n") for index, line in enumerate(lines)) + b"\r\n"
            if end == b"\x0b\r\n" and which == 2 or end == b"\r\n\r" and which == 2:
                continue
            if end in (b"\x85", b"\xe2\x80\xa8") and which == 2:
                continue  # the last value then goes on to the empty line: good form
            b.add(f"lf/line {which + 1} ends with {show(end)}", wire, REJECT, statuses=BAD | BAD_VERSION)
    for end in (b"\n", b"\r", b"\r\r\n", b"\n\r\n"):
        b.add(f"lf/the head ends with {show(end)}", b"\r\n".join(lines) + b"\r\n" + end + SMUGGLED, REJECT)
    b.add("lf/all lines", b"\n".join([*lines, b"", b""]), REJECT)
    b.add("lf/all lines, a body", b"PUT {T} HTTP/1.1\nHost: {H}\nContent-Length: 5\n\nhello", REJECT)
    b.add("lf/hides a length", b"PUT {T} HTTP/1.1\r\nHost: {H}\r\nX: y\nContent-Length: 5\r\n\r\nhello", REJECT)
    b.add("lf/hides a coding", b"PUT {T} HTTP/1.1\r\nHost: {H}\r\n" + CL + b"\r\nX: y\n" + TE + b"\r\n\r\n" + chunks(BODY),
          REJECT)
    b.add("lf/cr hides a length", b"PUT {T} HTTP/1.1\r\nHost: {H}\r\nX: y\rContent-Length: 5\r\n\r\nhello", REJECT)
    for line in (CL, TE):
        b.add(f"lf/behind {show(line)}", b"PUT {T} HTTP/1.1\r\nHost: {H}\r\n" + line + b"\n\r\n" + BODY, REJECT)


def _folding(b):
    """A line that begins with space: refused, or folded to a space, but everywhere alike."""
    for space in (b" ", b"\t", b"   ", b" \t "):
        shown = show(space)
        b.get(f"fold/value {shown}", [b"GET /healthz HTTP/1.1", b"Host: {H}", b"X-A: b", space + b"c"], EITHER)
        b.get(f"fold/empty value {shown}", [b"GET /healthz HTTP/1.1", b"Host: {H}", b"X-A:", space + b"c"], EITHER)
        b.get(f"fold/empty line {shown}", [b"GET /healthz HTTP/1.1", b"Host: {H}", b"X-A: b", space], EITHER)
        b.get(f"fold/first line {shown}", [b"GET /healthz HTTP/1.1", space + b"Host: {H}"], REJECT)
        b.get(f"fold/first line, then more {shown}", [b"GET /healthz HTTP/1.1", space + b"X: y", b"Host: {H}"], REJECT)
        b.put(f"fold/length {shown}", [b"Content-Length:", space + b"5"], b"hello", EITHER, body=b"hello")
        b.put(f"fold/length in two {shown}", [b"Content-Length: 5", space + b"0"], b"hello", REJECT)
        b.put(f"fold/coding {shown}", [b"Transfer-Encoding:", space + b"chunked"], chunks(BODY), EITHER,
              statuses=BAD_OR_UNKNOWN, body=BODY, chunked=True)
        b.put(f"fold/coding in two {shown}", [b"Transfer-Encoding: chun", space + b"ked"], chunks(BODY), REJECT,
              statuses=BAD_OR_UNKNOWN)
        b.put(f"fold/looks like a length {shown}", [b"X-A: b", space + b"Content-Length: 50", b"Content-Length: 5"],
              b"hello", EITHER, body=b"hello")
        b.put(f"fold/looks like a coding {shown}", [b"X-A: b", space + TE, b"Content-Length: 5"], b"hello", EITHER,
              body=b"hello")


def _names(b):
    """Header lines whose name is no token."""
    lines = [b"GET /healthz HTTP/1.1", b"Host: {H}"]
    for name in (b"Content-Length", b"Transfer-Encoding", b"X-A", b"Host", b"Expect"):
        for space in (b" ", b"\t", b"  ", b"\x0b", b"\x00", b"\xa0", b"\r"):
            value = {b"Content-Length": b"5", b"Transfer-Encoding": b"chunked", b"Expect": b"100-continue"}.get(name, b"x")
            b.put(f"colon/{show(name + space)}", [CL, name + space + b": " + value], BODY, REJECT)
    for mark in list(b"(),/;<=>?@[\\]{}\"") + list(range(0, 33)) + [127, 128, 160, 255]:
        if mark in (10, 13):
            continue  # these end the line; see line ends
        b.get(f"name/with {show(bytes([mark]))}", [*lines, b"X%cY: 1" % mark], REJECT)
    for line in (b": value", b" : value", b"no colon at all", b"X", b"\x00", b"=: x", b"\xef\xbb\xbfX: y", b"X\xc3\xa9: y"):
        b.get(f"name/line {show(line)}", [*lines, line], REJECT if line != b" : value" else EITHER)
    b.get("name/the only line has no colon", [b"GET /healthz HTTP/1.1", b"Host {H}"], REJECT)


def _values(b):
    """Control characters in values: NUL, CR and LF never; others may be refused."""
    lines = [b"GET /healthz HTTP/1.1", b"Host: {H}"]
    for mark in (*range(0, 9), *range(11, 32), 127):
        for value in (b"a%cb", b"%cab", b"ab%c"):
            text = value % mark
            if mark == 13 and text.endswith(b"\r"):
                continue  # see line ends
            b.get(f"value/{show(text)}", [*lines, b"X-A: " + text], REJECT if mark in (0, 13) else EITHER)


def _request_lines(b):
    host = b"Host: {H}"
    for version in (b"", b"HTTP", b"HTTP/", b"HTTP/1", b"HTTP/1.", b"HTTP/.1", b"HTTP/11", b"HTTP/1.1.1", b"HTTP/1,1", b"http/1.1",
                    b"Http/1.1", b"HTTPS/1.1", b"HTP/1.1", b"HTTP/a.b", b"HTTP/1.x", b"HTTP/-1.1", b"HTTP/+1.1", b"HTTP/01.1",
                    b"HTTP/1.01", b"HTTP/1.10", b"HTTP 1.1", b"HTTP\\1.1", b"ICY/1.1", b"RTSP/1.0", b"SIP/2.0", b"HTTP/0.9",
                    b"HTTP/0.0", b"HTTP/2", b"HTTP/2.0", b"HTTP/2.1", b"HTTP/3.0", b"HTTP/9.9", b"HTTP/10.0",
                    b"HTTP/1.1\x00", b"HTTP/1.1x", b"\x00HTTP/1.1", b"HTTP/1.1 x", b"HTTP/1.1 HTTP/1.1"):
        b.get(f"line/version {show(version)}", [b"GET /healthz " + version, host], REJECT, statuses=BAD_VERSION)
    for minor in (b"HTTP/1.2", b"HTTP/1.9"):
        b.get(f"line/version {show(minor)}", [b"GET /healthz " + minor, host], EITHER, statuses=BAD_VERSION, may_close=True)
    b.get("line/HTTP 0.9", [b"GET /healthz"], REJECT, statuses=BAD_VERSION)
    b.add("line/HTTP 0.9, one line", b"GET /healthz\r\n", REJECT, statuses=BAD_VERSION)
    b.add("line/HTTP 2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", REJECT, statuses=BAD_VERSION | BAD_METHOD)
    b.add("line/HTTP 2 preface and settings", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", REJECT,
          statuses=BAD_VERSION | BAD_METHOD)
    b.add("line/TLS", bytes.fromhex("16030100c8010000c40303") + bytes(range(200)) + b"\r\n\r\n", REJECT)
    b.add("line/SSH", b"SSH-2.0-OpenSSH_9.2\r\n\r\n", REJECT)
    b.add("line/nothing but zeros", bytes(64) + b"\r\n\r\n", REJECT)
    for method in (b"get", b"Get", b"FROB", b"X-Y", b"GETT", b"PUTX", b"M-SEARCH", b"CONNECT", b"PROPFIND", b"!#$%&'*+-.^_`|~"):
        b.get(f"line/method {show(method)}", [method + b" /healthz HTTP/1.1", host], EITHER, statuses=BAD_METHOD | {404},
              semantic=BAD_METHOD | {404}, may_close=True)
    for method in (b"", b"G T", b"G\x00T", b"G\tT", b"GET,", b"GET:", b"(GET)", b"G@T", b"GET\x0b", b"\xffGET", b"GET\xa0", b"G/T",
                   b"<GET>", b"\"GET\"", b"GET\r", b"[GET]", b"{GET}", b"GET\x7f", b"G=T", b"GET;", b"GET\\"):
        b.get(f"line/no method {show(method)}", [method + b" /healthz HTTP/1.1", host], REJECT,
              statuses=BAD_METHOD | BAD_VERSION)
    b.get("line/method of 64 KiB", [b"A" * 65536 + b" /healthz HTTP/1.1", host], REJECT, statuses=TOO_LARGE | BAD_METHOD)
    for line in (b"GET  /healthz HTTP/1.1", b"GET /healthz  HTTP/1.1", b"GET\t/healthz HTTP/1.1", b"GET /healthz\tHTTP/1.1",
                 b" GET /healthz HTTP/1.1", b"\tGET /healthz HTTP/1.1", b"GET /healthz HTTP/1.1 ", b"GET /healthz HTTP/1.1\t",
                 b"GET\x0b/healthz HTTP/1.1", b"GET /healthz\x0cHTTP/1.1", b"GET\xa0/healthz HTTP/1.1",
                 b"GET / healthz HTTP/1.1", b"GET /healthz a HTTP/1.1", b"GET/healthz HTTP/1.1", b"GET /healthzHTTP/1.1",
                 b"GET", b"GET ", b"GET HTTP/1.1", b"GET  HTTP/1.1", b"/healthz HTTP/1.1", b"HTTP/1.1 200 OK"):
        b.get(f"line/spaces {show(line)}", [line, host], REJECT, statuses=BAD_VERSION | BAD_METHOD)
    for target in (b"healthz", b"*", b"?x", b"#x", b":80", b"\\healthz", b"healthz/..", b"%2Fhealthz", b".", b"..",
                   b"http:", b"http:/healthz", b"{H}", b"@", b"mailto:a@b"):
        b.get(f"line/target {show(target)}", [b"GET " + target + b" HTTP/1.1", host], REJECT)
    for mark in (*range(1, 9), 11, 12, *range(14, 32), 127, 0):
        b.get(f"line/target with control {mark}", [b"GET /heal%cthz HTTP/1.1" % mark, host], REJECT)
    for mark in b"\"<>\\^`{|}#":
        b.get(f"line/target with {chr(mark)}", [b"GET /healthz?a%cb HTTP/1.1" % mark, host], EITHER, may_close=True)
    for target in (b"/healthz?\xff", b"/healthz?\xc3\xa9", b"/healthz?%zz", b"/healthz?%", b"/healthz?%2"):
        b.get(f"line/target odd {show(target)}", [b"GET " + target + b" HTTP/1.1", host], EITHER, may_close=True,
              semantic=BAD)
    for lead in (b"\r\n", b"\r\n\r\n", b"\r\n" * 10):
        b.add(f"line/empty lines first {len(lead) // 2}", lead + b"GET /healthz HTTP/1.1\r\nHost: {H}\r\n\r\n", EITHER)
    for lead in (b"\n", b"\r", b"\x00", b" \r\n", b"\x00\r\n", b"\xef\xbb\xbf", b"\n\n", b"x\r\n"):
        b.add(f"line/junk first {show(lead)}", lead + b"GET /healthz HTTP/1.1\r\nHost: {H}\r\n\r\n", REJECT,
              statuses=BAD_VERSION | BAD_METHOD)
    for target in (b"http://other.example/healthz", b"http://{H}:1/healthz", b"HTTP://{H}/healthz", b"https://{H}/healthz",
                   b"http://user@{H}/healthz", b"http://{H}"):
        b.get(f"line/absolute {show(target)}", [b"GET " + target + b" HTTP/1.1", host], EITHER, may_close=True,
              semantic=frozenset({400, 404, 302, 301, 307}))
    for target in (b"{H}", b"/healthz", b"http://{H}/"):
        b.get(f"line/CONNECT {show(target)}", [b"CONNECT " + target + b" HTTP/1.1", host], REJECT, statuses=BAD_METHOD | {404})
    b.get("line/OPTIONS *", [b"OPTIONS * HTTP/1.1", host], EITHER, statuses=BAD_METHOD | {404},
          semantic=frozenset({404, 405, 501, 400}), may_close=True)


def _hosts(b):
    line = b"GET /healthz HTTP/1.1"
    b.get("host/none", [line], REJECT)
    b.get("host/none, other lines", [line, b"X-A: b", b"Connection: keep-alive"], REJECT)
    for other in (b"{H}", b"other", b""):
        b.get(f"host/two, {show(other)} last", [line, b"Host: {H}", b"Host: " + other], REJECT)
        b.get(f"host/two, {show(other)} first", [line, b"Host: " + other, b"X-A: b", b"host: {H}"], REJECT)
    for host in (b"a b", b"a,b", b"a/b", b"a?b", b"a#b", b"a@b", b"http://a", b"a\\b", b"a:b", b"a:1:2", b"a:99999999", b"[::1",
                 b"::1]", b"a\x01b", b"\"a\"", b"<a>", b"{{a}}", b"a;b", b"a^b", b"a|b", b"a%zz", b"a\xff"):
        b.get(f"host/value {show(host)}", [line, b"Host: " + host], EITHER)
    for host in (b"", b"localhost", b"[::1]", b"[::1]:80", b"1.2.3.4", b"a.b.c:", b"A-B_c.d:65535"):
        b.get(f"host/good {show(host)}", [line, b"Host: " + host], ACCEPT)
    b.add("host/none, a body", b"PUT {T} HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", REJECT)
    b.add("host/two, a body", b"PUT {T} HTTP/1.1\r\nHost: {H}\r\nHost: b\r\nContent-Length: 5\r\n\r\nhello", REJECT)


def _hop_by_hop(b):
    """Connection may name headers; it must never take away those that say how long a body is."""
    for value in (b"Content-Length", b"Transfer-Encoding", b"Host", b"Expect", b"close, Content-Length", b"x", b", ,", b"TE",
                  b"keep-alive, Content-Length", b"Upgrade", b"\"close\"", b"If-None-Match", b"Content-MD5"):
        expect = EITHER if b'"' in value else ACCEPT  # a connection option is a token, never a quoted string
        b.put(f"hop/{show(value)}, length", [CL, b"Connection: " + value], BODY, expect, body=BODY,
              may_close=b"close" in value)
        b.put(f"hop/{show(value)}, chunks", [TE, b"Connection: " + value], chunks(BODY), expect, body=BODY, chunked=True,
              may_close=b"close" in value)
    for lines in ([b"Upgrade: h2c", b"Connection: Upgrade, HTTP2-Settings", b"HTTP2-Settings: AAMAAABkAAQAAP__"],
                  [b"Upgrade: websocket", b"Connection: Upgrade", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="],
                  [b"Upgrade: TLS/1.2", b"Connection: Upgrade"], [b"TE: trailers"], [b"TE: chunked"], [b"Trailer: X"],
                  [b"Keep-Alive: timeout=5"], [b"Proxy-Connection: keep-alive"], [b"X-HTTP-Method-Override: DELETE"],
                  [b"X-Forwarded-For: 127.0.0.1"], [b"X-Original-URL: /other"], [b"Max-Forwards: 0"]):
        b.put(f"hop/{show(lines[0])}", [CL, *lines], BODY, ACCEPT, body=BODY)
        b.get(f"hop/{show(lines[0])}, no body", [b"GET /healthz HTTP/1.1", b"Host: {H}", *lines], ACCEPT)


def cases():
    """All cases of J6."""
    b = Builder()
    for part in (_valid, _both_lengths, _codings, _lengths, _chunks, _no_body_expected, _expectations, _line_ends,
                 _folding, _names, _values, _request_lines, _hosts, _hop_by_hop):
        part(b)
    names = [case.name for case in b.cases]
    doubled = {name for name in names if names.count(name) > 1}
    assert not doubled, doubled
    return b.cases


# --- the driver ----------------------------------------------------------------------------------------------

CANARY = b"GET /healthz?canary HTTP/1.1\r\nHost: canary\r\nConnection: close\r\n\r\n"


@dataclasses.dataclass
class Seen:
    """What came back on one connection."""

    answers: list  # (status, headers in lower case, body)
    closed: bool  # by the server, in time
    junk: bytes = b""  # what is no answer
    sent: int = 0

    @property
    def statuses(self):
        return [status for status, _, _ in self.answers]


def send(address, wire, canary=CANARY, timeout=5.0, heads=()):
    """Sends the bytes of a case and the canary, reads until the server closes. `heads`: which of the requests
    are HEAD, by position, since their answers have no body."""
    data = wire + canary
    received = bytearray()
    closed = False
    sent = 0
    with socket.create_connection(address, timeout=timeout) as connection:
        connection.setblocking(False)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and not closed:
            readable, writable, _ = select.select([connection], [connection] if sent < len(data) else [], [], 0.2)
            if writable:
                try:
                    sent += connection.send(data[sent : sent + 65536])
                    if sent == len(data):
                        connection.shutdown(socket.SHUT_WR)
                except BlockingIOError:
                    pass
                except OSError:  # it has closed already; what it said can still be read
                    sent = len(data)
            if readable:
                try:
                    piece = connection.recv(65536)
                    received += piece
                    closed = not piece
                except BlockingIOError:
                    pass
                except ConnectionResetError:
                    closed = True
    answers, junk = parse_answers(bytes(received), heads)
    return Seen(answers, closed, junk, sent)


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
