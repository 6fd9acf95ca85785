"""Cases on the head: ends of lines, folding, names, values, request lines, hosts, hop by hop."""

from corpus_case import (
    ACCEPT, BAD, BAD_METHOD, BAD_OR_UNKNOWN, BAD_VERSION, BODY, CL, EITHER, REJECT, SMUGGLED, TE, TOO_LARGE, chunks,
    show,
)


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
                  [b"Keep-Alive: timeout=5"], [b"Proxy-Connection: keep-alive"],
                  [b"X-Forwarded-For: 127.0.0.1"], [b"X-Original-URL: /other"], [b"Max-Forwards: 0"]):
        b.put(f"hop/{show(lines[0])}", [CL, *lines], BODY, ACCEPT, body=BODY)
        b.get(f"hop/{show(lines[0])}, no body", [b"GET /healthz HTTP/1.1", b"Host: {H}", *lines], ACCEPT)
    override = b"X-HTTP-Method-Override: DELETE"
    b.put("hop/another method", [CL, override], BODY, EITHER, body=BODY, semantic=frozenset({501}), may_close=True)
    b.get("hop/another method, no body", [b"GET /healthz HTTP/1.1", b"Host: {H}", override], EITHER, semantic=frozenset({501}))


PARTS = (_line_ends, _folding, _names, _values, _request_lines, _hosts, _hop_by_hop)
