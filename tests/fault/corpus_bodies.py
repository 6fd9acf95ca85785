"""Cases on where a body begins and ends: lengths, codings, chunks, expectations."""

import itertools

from corpus_case import (
    ACCEPT, BAD, BAD_OR_UNKNOWN, BODY, CL, EITHER, NO_LENGTH, REJECT, SMUGGLED, TE, TOO_LARGE, chunks, show,
)


def _valid(b):
    """Cases that must be accepted: a server that rejects everything would pass the rest."""
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
    """CL.TE and TE.CL: a server that believes the length and one that believes the chunks see different requests."""
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


PARTS = (_valid, _both_lengths, _codings, _lengths, _chunks, _no_body_expected, _expectations)
