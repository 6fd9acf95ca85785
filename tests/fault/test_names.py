"""Names that would be paths, and Unicode (docs/reliability.md K1, K2): stored under opaque names, listed back byte by byte, or 400."""

import os
import pathlib
import unicodedata
import urllib.parse

import pytest
from harness import client as http

pytestmark = pytest.mark.gate("K1, K2")


def hostile_names():
    """Names that have broken other stores: raw, as in a path before percent-decoding."""
    parts = ["..", ".", "...", "%2e%2e", "%2E%2e", ".%2e", "%252e%252e", "..%2f", "%2f", "%5c", "\\", "..\\", "%00", "a%00b", "~", "~root",
             "-rf", "--", "$HOME", "$(id)", "`id`", ";id", "|id", "&", "a&b=c", "%26", "a=b", "*", "?x", "%3f", "#x", "%23", "'", '"',
             "%22", "<", ">", " ", "%20", "+", "a b", "%09", "%0a", "%0d", "%0d%0aX: y", "%7f", "%01", "%1f", ":", "c:", "C:\\x",
             "con", "CON", "nul", "NUL.txt", "aux", "com1", "lpt1", "/dev/null", "/etc/passwd", "etc/passwd", "proc/self/environ",
             ".tarn", ".tarn/drive.json", "data", "trash", "lost+found", "user.tarn", "@", "@#", "%40", "a@b", "[", "]", "{", "}",
             "{0..9}", "a,b", "a;b", "%c0%ae%c0%ae", "%c0%af", "%e0%80%af", "%f0%80%80%af", "%ff", "%fe%ff", "%80", "%ed%a0%80",
             "%f4%90%80%80", "%ef%bf%bd", "%e2%80%ae", "%", "%2", "%zz", "%u002e", "a%", "&lt;", "&#46;", "x.", "x ", " x", "x%20",
             "index.html", "v1", "s3", "ui", "metrics", "healthz", ".git", ".ssh/id_rsa", "a:b", "%3a", "a|b", "x^y", "%5e", "(a)", "a!b",
             "%21", "a'b", "%27", "a%2fb", "robots.txt", "..a", "a..", ".a", "a.b.c"]
    names = list(parts)
    for part in ("..", "%2e%2e", "..%2f..", ".", "a", "\\..", "%5c..", "%c0%ae%c0%ae", "...", "~", "%252e"):
        names += [f"{part}/{part}/etc/passwd", f"x/{part}/y", f"{part}/x", f"x/{part}", f"{part}//x", f"/{part}", f"//{part}/",
                  f"{part}%2fx", f"x%2f{part}%2fy", f"x%2F%2F{part}"]
    names += ["a" * size for size in (1, 254, 255, 256, 1023, 1024)] + ["/".join(["a"] * 500), "a/" * 300 + "x", "//", "///a", "a//b", "a/"]
    return list(dict.fromkeys(names))


def tree(place):
    """Every path below `place` with what it is."""
    found = {}
    for directory, folders, files in os.walk(place):
        for name in folders + files:
            path = pathlib.Path(directory, name)
            found[str(path)] = "directory" if path.is_dir() else "file"
    return found


def put_raw(cluster, bucket, raw, body):
    """PUT of a path exactly as it stands, through the relay. The status."""
    target = f"/v1/objects/{bucket}/{raw}?provider=ais"
    with http.RawConnection(cluster.relay) as connection:
        try:
            connection.send_head("PUT", target.encode().decode("latin-1"), {"Content-Length": str(len(body)), "Connection": "close"})
            connection.send(body)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return connection.read_response("PUT").status


def test_hostile_names_stay_on_the_drive(make_stage):
    """K1: at least 200 names; a full tree diff of the cluster's directory and of its surroundings."""
    stage = make_stage(targets=1, drives=1)
    cluster = stage.cluster
    names = hostile_names()
    around = stage.directory.parent
    before = tree(around)
    stored = {}
    for number, raw in enumerate(names):
        quoted = raw.replace(" ", "%20").replace('"', "%22").replace("<", "%3c").replace(">", "%3e").replace("#", "%23")
        quoted = quoted.replace("\\", "%5c").replace("?", "%3f").replace("`", "%60").replace("{", "%7b").replace("}", "%7d")
        quoted = quoted.replace("|", "%7c")
        body = b"body %d" % number
        status = put_raw(cluster, "data", quoted, body)
        assert status in (200, 400), f"{raw!r}: {status}"
        if status == 200:
            stored[urllib.parse.unquote_to_bytes(quoted)] = body
    listed = [name.encode() for name in cluster.names("data")]
    assert listed == sorted(stored), set(listed) ^ set(stored)
    for name, body in stored.items():
        answer = http.request("GET", f"{cluster.endpoint}/v1/objects/data/{urllib.parse.quote(name, safe='')}?provider=ais")
        assert answer.status == 200 and answer.body == body, (name, answer)
    stage.wait_tidy(len(stored))  # of names that mean the same, all but the last body
    # Only files of sixteen hexadecimal digits below data/ are new on the drive, and nothing outside of it.
    drive = cluster.drives("t1")[0]
    new = {path: kind for path, kind in tree(around).items() if path not in before}
    own = {path for path in new if path.startswith((f"{drive}/data/", f"{drive}/.tarn/", f"{stage.directory}/p1/meta"))}
    outside = {path for path in set(new) - own if not path.startswith(f"{stage.directory}/log/")}
    assert not outside, f"made outside of the drive: {outside}"
    data = [pathlib.Path(path) for path in own if path.startswith(f"{drive}/data/") and new[path] == "file"]
    assert len(data) == len(stored) and all(len(path.name) == 16 and int(path.name, 16) >= 0 for path in data)
    print(f"injected: {len(names)} names; detected: {len(names) - len(stored)} refused, {len(stored)} stored under opaque names")
    assert len(names) >= 200 and len(stored) > 100
    # And the names survive the loss of the index.
    stage.kill("t1")
    for path in sorted((drive / ".tarn" / "index").iterdir()):
        path.unlink()
    stage.start("t1")
    assert [name.encode() for name in cluster.names("data")] == sorted(stored)


def unicode_names():
    """Pairs that look alike or that others fold together, and what is hard to print."""
    composed = ["é", "ü", "Å", "ñ", "ç", "한글", "Ω", "ộ", "Ǖ", "が", "ﬁ", "²", "①", "Ⅳ", "K", "Å", "ſ", "İ", "ı", "ß", "ẞ", "Σσς"]
    names = list(composed)
    for form in ("NFD", "NFKC", "NFKD"):
        names += [unicodedata.normalize(form, name) for name in composed]
    names += [name.upper() for name in composed] + [name.lower() for name in composed] + [name.casefold() for name in composed]
    names += ["\u202eabc", "abc\u202e", "\u200f", "a\u200bb", "\ufeffbom", "\u2028", "\u0085", "😀", "👩‍👩‍👧‍👦", "👨🏽‍🚀", "🇩🇪", "مرحبا", "שלום", "日本語", "ไทย",
              "Ｆｕｌｌ", "ａ", "a\u0301\u0301\u0301", "\U0001d11e", "\U0010fffd", "\uffff", "\ue000", "𝒳", "a/é/b", "A", "a", "Ａ", "B", "b",
              "z", "Z", "aa", "aA", "Aa", "AA", "\u00a0", "\u3000", "\u0430", "\u03b1", "о", "o", "0", "О", "O", "l", "I", "1", "ǆ", "ǅ", "Ǆ"]
    return list(dict.fromkeys(names))


def test_unicode_names_stay_distinct_and_in_order_of_bytes(cluster, bucket):
    """K2: at least 100 names; invalid UTF-8 is 400 and nothing."""
    names = unicode_names()
    for number, name in enumerate(names):
        assert cluster.put(bucket, name, b"%d" % number).status == 200, repr(name)
    listed = cluster.names(bucket)
    assert listed == sorted(names, key=lambda name: name.encode()), "the order is not that of the bytes"
    for number, name in enumerate(names):
        assert cluster.get(bucket, name).body == b"%d" % number, repr(name)
    invalid = [b"\xff", b"a\xc3", b"\xc0\x80", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xed\xa0\xbd\xed\xb8\x80", b"\xf4\x90\x80\x80",
               b"\xf8\x88\x80\x80\x80", b"\x80", b"a\xffb", b"\xfe\xff\x00a", b"\xe2\x82", b"\xf0\x9f\x98"]
    for name in invalid:
        url = f"{cluster.endpoint}/v1/objects/{bucket}/{urllib.parse.quote(name)}?provider=ais"
        for method, body in (("PUT", b"x"), ("GET", None), ("DELETE", None)):
            assert http.request(method, url, body).status == 400, (method, name)
    assert cluster.names(bucket) == listed
    print(f"injected: {len(names)} names and {len(invalid)} of invalid UTF-8; detected: all distinct, all refused")
    assert len(names) >= 100
