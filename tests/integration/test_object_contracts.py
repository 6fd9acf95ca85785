"""AIStore's object calls, replayed from what its clients were seen to send (contracts/objects.jsonl)."""

import email.utils
import json
import re
import urllib.parse
from pathlib import Path

import pytest
from harness import client

CONTRACTS = [json.loads(line) for line in (Path(__file__).parent / "contracts" / "objects.jsonl").open()]
CONTENT = b"line 0\n" * 50
CUSTOM = {"color": "red", "size2": "9"}
JSON = {"Content-Type": "application/json"}
REDIRECTS = (301, 302, 307)
# How AIStore's Python package tells what is missing (it searches the whole text of the answer).
CLIENT_PATTERN = re.compile(r"(ais|aws|azure|gcp|oci|gs|s3)://([A-Za-z0-9@#._-]{1,132})(/?)")


def test_every_recorded_object_call_has_a_case():
    """Rows 40 to 77 of the recorded calls of the Python package are those below /v1/objects."""
    covered = {int(number) for row in CONTRACTS for part in re.findall(r"sdk ([\d, ]+)", row["from"])
               for number in re.findall(r"\d+", part)}
    assert set(range(40, 78)) <= covered, sorted(set(range(40, 78)) - covered)
    assert len({row["id"] for row in CONTRACTS}) == len(CONTRACTS)
    for row in CONTRACTS:
        assert ("aistore" in row) == ("why" in row), f"{row['id']}: a difference needs a reason, and only that"


class Scene:
    """The object that a contract is about, and the words that its request is filled with."""

    def __init__(self, cluster, bucket, row):
        self.cluster, self.row = cluster, row
        state = row.get("object", "present")
        named = state not in ("present", "absent", "custom", "appending")
        self.words = {"bucket": row.get("bucket", bucket), "object": state if named else "f0.txt", "handle": ""}
        self.checksum = ""
        if state in ("present", "custom") and "bucket" not in row:
            answer = cluster.put(bucket, "f0.txt", CONTENT)
            assert answer.status == 200
            self.checksum = answer.headers["Ais-Checksum-Value"]
        if state == "custom":
            body = json.dumps({"action": "", "name": "", "value": CUSTOM}).encode()
            assert client.request("PATCH", self.url(), body, JSON).status == 200
        if state == "appending":
            answer = client.request("PUT", self.url(append_type="append", append_handle=""), b"first ")
            self.words["handle"] = answer.headers["Ais-Append-Handle"]

    def filled(self, text):
        for word, value in self.words.items():
            text = text.replace("{" + word + "}", value)
        return text

    def url(self, base=None, **query):
        words = {"provider": "ais"} | {key: self.filled(value) for key, value in query.items()}
        path = urllib.parse.quote(f"/v1/objects/{self.words['bucket']}/{self.words['object']}")
        if self.words["object"] == "":
            path = path.rstrip("/")
        return f"{base or self.cluster.endpoint}{path}?{urllib.parse.urlencode(words)}"

    def base(self):
        at = self.row.get("at")
        if at == "target":
            return self.cluster.url_of(self.cluster.owner(self.words["bucket"], self.words["object"]))
        return self.cluster.relay if at == "relay" else self.cluster.endpoint

    def send(self, url):
        row = self.row
        body = json.dumps(row["json"]).encode() if "json" in row else CONTENT if row.get("body") == "content" else b""
        if "json" not in row and "body" not in row:
            body = None
        headers = row.get("headers", {})
        if row.get("chunked"):
            with client.RawConnection(url) as connection:
                connection.send_head(row["method"], client.target_of(url), headers | {"Transfer-Encoding": "chunked"})
                connection.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
                return connection.read_response(row["method"])
        return client.request(row["method"], url, body, headers, follow=False, expect=False)


def check_header(scene, name, pattern, headers):
    values = headers.get_all(name)
    assert values, f"{name} is missing in {dict(headers)}"
    value = ", ".join(values)
    if pattern.startswith("="):
        assert value == pattern[1:], name
        return
    expression = {"ns": r"1[0-9]{18}", "hex16": r"[0-9a-f]{16}", "checksum": scene.checksum, "any": r".+",
                  "location": r"t\[[\w-]+\]:mp\[/.+\]", "path": r"/[^\[\]]+", "[path]": r"\[/[^\[\]]+\]",
                  "quoted": r'"[^"]+"', "bucket": re.escape(scene.words["bucket"]),
                  "object": re.escape(scene.words["object"]), "date": r".*GMT"}[pattern]
    assert re.fullmatch(expression, value), f"{name}: {value}"
    if pattern == "date":
        assert email.utils.parsedate_to_datetime(value)


def check_error(scene, answer, status):
    """AIStore's error, in the body or, for HEAD, in Hdr-Error."""
    row = scene.row
    if row["method"] == "HEAD":
        assert answer.body == b""
        error = json.loads(answer.headers["Hdr-Error"])
    else:
        assert answer.headers["Content-Type"].startswith("application/json")
        error = answer.json()
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert {key: type(value) for key, value in error.items() if key != "tcode"} == {
        "message": str, "method": str, "url_path": str, "remote_addr": str, "caller": str, "node": str, "status": int}
    assert error["status"] == status and error["method"] == row["method"]
    assert error["url_path"].startswith("/v1/objects/") and "?" not in error["url_path"]
    assert re.fullmatch(r"[pt]\[[\w-]+\]", error["node"])
    assert error.get("tcode", "") == row.get("tcode", ""), error
    assert scene.filled(row.get("says", "")) in error["message"], error
    return error


def check_reply(scene, answer, status):
    reply = scene.row["reply"]
    if reply == "error":
        check_error(scene, answer, status)
    elif reply == "empty":
        assert answer.body == b""
    else:
        first, last = re.fullmatch(r"content(?:\[(\d+):(\d+)\])?", reply).groups()
        assert answer.body == (CONTENT[int(first):int(last)] if first else CONTENT)


def check_afterwards(scene, then):
    head = client.request("HEAD", scene.url())
    if then == "gone":
        assert head.status == 404
    else:
        assert head.status == 200
    if isinstance(then, dict):
        for name, pattern in then.items():
            check_header(scene, name, pattern, head.headers)


@pytest.mark.parametrize("row", CONTRACTS, ids=[row["id"] for row in CONTRACTS])
def test_contract(cluster, bucket, row):
    scene = Scene(cluster, bucket, row)
    answer = scene.send(scene.url(scene.base(), **row.get("query", {})))
    status = row.get("status", row.get("first"))
    if "first" in row:
        assert answer.status == row["first"], answer
        if answer.status in REDIRECTS:
            location = answer.headers["Location"]
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(location).query, keep_blank_values=True)
            assert {"pid", "utm", *row.get("query", {})} <= set(query)
            answer = scene.send(location)
    assert answer.status == status, answer
    for name, pattern in row.get("has", {}).items():
        check_header(scene, name, pattern, answer.headers)
    for name in row.get("hasnt", []):
        assert name not in answer.headers, name
    check_reply(scene, answer, status)
    if "then" in row:
        check_afterwards(scene, row["then"])


def kind_of(answer):
    """What AIStore's Python package makes of a 404: it looks at the first match in the whole text."""
    match = CLIENT_PATTERN.search(answer.text)
    return "object" if match.group(3) else "bucket"


def test_clients_can_tell_a_missing_bucket_from_a_missing_object(cluster, bucket):
    def copy_to(uname):
        return client.request("PUT", cluster.url(bucket, "there") + "&object_to=" + urllib.parse.quote(uname), b"")

    def post(name, action):
        return client.request("POST", cluster.url(bucket, name), json.dumps(action).encode(), JSON)

    assert cluster.put(bucket, "there", b"x").status == 200
    direct = cluster.url(bucket, "missing", base=cluster.url_of(cluster.owner(bucket, "missing")))
    missing_objects = [cluster.get(bucket, "missing"), client.request("GET", direct), cluster.delete(bucket, "missing"),
                       client.request("GET", cluster.url(bucket, "missing", base=cluster.relay)),
                       post("missing", {"action": "rename-obj", "name": "new"})]
    for answer in missing_objects:
        assert answer.status == 404 and kind_of(answer) == "object", answer
    missing_buckets = [cluster.get("nowhere", "x"), cluster.put("nowhere", "x", b"1"), copy_to("ais/@#/nowhere/x"),
                       client.request("GET", cluster.url("nowhere", "x", base=cluster.url_of("t1")))]
    for answer in missing_buckets:
        assert answer.status == 404 and kind_of(answer) == "bucket", answer
