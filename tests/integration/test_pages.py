"""HTML for people and for wget -r: escaped, page by page, and nothing that a browser would run."""

import html.parser
import subprocess

import pytest
from harness import client
from harness.bulk import put_many


class Links(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.tags, self.current = {}, set(), None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag == "a":
            self.current = dict(attributes)["href"]
            self.links[self.current] = ""

    def handle_endtag(self, tag):
        if tag == "a":
            self.current = None

    def handle_data(self, data):
        if self.current is not None:
            self.links[self.current] += data


def page(cluster, path, base=None):
    answer = client.request("GET", (base or cluster.endpoint) + path)
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    return Links(answer.text)


def fill(cluster, bucket, names):
    for name in names:
        assert cluster.put(bucket, name, name.encode()).status == 200


AWKWARD = ["<script>alert(1)</script>", "a&amp;b", 'quote"\'quote', "javascript:alert(1)", "%41", "?x=1#y", "ä/ö ü.tar",
           "-rf", "a+b"]


def test_names_are_text_and_links_lead_to_them(cluster, bucket):
    fill(cluster, bucket, AWKWARD)
    shown = page(cluster, f"/{bucket}/")
    assert "script" not in shown.tags
    texts = {text: href for href, text in shown.links.items()}
    for name in AWKWARD:
        if "/" not in name:
            assert client.request("GET", cluster.endpoint + texts[name]).body == name.encode()
    inside = page(cluster, texts["ä/"])
    assert client.request("GET", cluster.endpoint + {v: k for k, v in inside.links.items()}["ö ü.tar"]).body == "ä/ö ü.tar".encode()


def test_directories_are_pages_of_their_own(cluster, bucket):
    fill(cluster, bucket, ["top", "dir/a", "dir/sub/b", "dir2/c"])
    assert list(page(cluster, f"/{bucket}/").links.values()) == ["dir/", "dir2/", "top"]
    assert list(page(cluster, f"/{bucket}/dir/").links.values()) == ["../", "a", "sub/"]
    assert page(cluster, f"/{bucket}/dir/sub/").links == {f"/{bucket}/dir/": "../", f"/{bucket}/dir/sub/b": "b"}
    missing = client.request("GET", f"{cluster.endpoint}/{bucket}/nothing/")
    assert missing.status == 404 and f"ais://{bucket}/nothing/" in missing.json()["message"]
    # Without the slash it is an object, and there is none.
    assert client.request("GET", f"{cluster.endpoint}/{bucket}/dir").status == 404


def test_an_empty_bucket_has_a_page_and_a_missing_one_has_not(cluster, bucket):
    assert page(cluster, f"/{bucket}/").links == {}
    missing = client.request("GET", f"{cluster.endpoint}/no-such-bucket/")
    assert missing.status == 404 and "create-bck" in missing.json()["message"]
    assert page(cluster, "/").links[f"/{bucket}/"] == f"{bucket}/"


def test_the_name_of_a_bucket_leads_to_its_page(cluster, bucket):
    for base in (cluster.endpoint, cluster.relay):
        answer = client.request("GET", f"{base}/{bucket}?after=x", follow=False)
        assert answer.status == 302 and answer.headers["Location"] == f"/{bucket}/?after=x"
        assert client.request("HEAD", f"{base}/{bucket}", follow=False).status == 302
        head = client.request("HEAD", f"{base}/{bucket}/")
        assert head.status == 200 and head.body == b"" and int(head.headers["Content-Length"]) > 0


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST", "PATCH"])
def test_writing_to_the_name_of_a_bucket_is_a_conflict(cluster, bucket, method):
    for base in (cluster.endpoint, cluster.relay):
        for path in (f"/{bucket}", f"/{bucket}/"):
            answer = client.request(method, base + path, b"12345")
            assert answer.status == 409 and "is a bucket" in answer.json()["message"], answer
    assert cluster.names(bucket) == []


def test_wget_walks_all_pages_of_a_large_bucket(cluster, bucket, tmp_path):
    """More names than a page has, in the bucket and in a directory: wget -r follows the links to the next ones."""
    names = [f"many/{i:05}" for i in range(1020)] + [f"top-{i:04}" for i in range(1010)] + ["a b/ä&<>.txt"]
    put_many(cluster, bucket, names, b"abc")
    first = page(cluster, f"/{bucket}/many/")
    assert list(first.links.values())[-1] == "next page" and len(first.links) == 1000 + 2
    subprocess.run(["wget", "-q", "-r", "-np", "-nH", "-P", tmp_path, f"{cluster.relay}/{bucket}/"], timeout=120)
    for name in names:
        assert (tmp_path / bucket / name).read_bytes() == b"abc", name


def test_wget_follows_redirects_to_targets(cluster, bucket, tmp_path):
    fill(cluster, bucket, ["x", "dir/y"])
    subprocess.run(["wget", "-q", "-r", "-np", "-nH", "-P", tmp_path, f"{cluster.endpoint}/{bucket}/"], timeout=60)
    assert (tmp_path / bucket / "x").read_bytes() == b"x"
    assert (tmp_path / bucket / "dir" / "y").read_bytes() == b"dir/y"
