"""Names with control characters: they go into header fields and log lines without forging anything there."""

import re
import subprocess
import urllib.parse

import pytest
from harness import client

CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
# DEL, a forged line, an escape sequence, and the same sequence begun by one C1 character.
NAMES = ["a\x7fb", "x\n2000-01-01T00:00:00.000000Z error made up", "r\x1b[31mred", "r\x9b31mred", "tab\tname"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("door", ["redirect", "relay"])
def test_such_an_object_is_written_read_and_deleted(cluster, bucket, name, door):
    url = f"{cluster.endpoint if door == 'redirect' else cluster.relay}/{bucket}/{urllib.parse.quote(name)}"
    assert client.request("HEAD", url).status == 404
    assert client.request("PUT", url, b"body").status == 200
    assert client.request("GET", url).body == b"body"
    for where in (url, url.replace(f"/{bucket}/", f"/v1/objects/{bucket}/")):
        head = client.request("HEAD", where)
        assert head.status == 200 and not [value for value in head.headers.values() if CONTROL.search(value)], head.headers
    assert client.request("DELETE", url).status == 200


def test_blanks_at_the_ends_of_a_name_reach_the_field(cluster, bucket):
    for base in (cluster.endpoint, cluster.relay):
        for name in (" both ", "end "):
            url = f"{base}/{bucket}/{urllib.parse.quote(name)}"
            assert client.request("PUT", url, b"body").status == 200
            # A client that parses the field loses them again; curl shows what came.
            head = subprocess.run(["curl", "-sIL", url], capture_output=True, check=True).stdout
            assert f"Ais-Name: {name}\r\n".encode() in head, head


def test_no_name_forges_a_line_of_a_log(cluster, bucket):
    for name in NAMES:
        for base in (cluster.endpoint, cluster.relay):
            url = f"{base}/{bucket}/{urllib.parse.quote(name)}"
            for method, body in (("HEAD", None), ("PUT", b"x"), ("DELETE", None), ("DELETE", None)):
                client.request(method, url, body)
            client.request("GET", f"{base}/no-{bucket}/{urllib.parse.quote(name)}")
    for node, log in cluster.logs.items():
        for line in log.lines():
            assert not CONTROL.search(line.replace("\t", "")) and "\x9b" not in line, (node, line)
            assert not line.startswith("2000-"), (node, line)
