"""HTML for people and for programs that walk links: escaped, nothing that a browser would run, and never a part that looks
whole."""

import html.parser
import http.server
import subprocess
import threading
import urllib.parse

import pytest
from harness import client
from harness.bulk import put_many
from harness.waiting import guarded


BROWSER = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}


class Links(html.parser.HTMLParser):
    """The links of a page, as a client resolves them: the path that each leads to, and its text."""

    def __init__(self, text, url):
        super().__init__()
        self.links, self.tags, self.current, self.fields = {}, set(), None, {}
        self.url, self.written = url, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        attributes = dict(attributes)
        if tag == "a":
            self.written.append(attributes["href"])
            self.current = urllib.parse.urlparse(urllib.parse.urljoin(self.url, attributes["href"])).path
            assert self.current.endswith(attributes["data-href"]), "both name the same object"
            self.links[self.current] = ""
        if tag == "input":
            self.fields[attributes["name"]] = attributes["value"]

    def handle_endtag(self, tag):
        if tag == "a":
            self.current = None

    def handle_data(self, data):
        if self.current is not None:
            self.links[self.current] += data


def page(cluster, path, base=None, headers=None):
    answer = client.request("GET", (base or cluster.endpoint) + path, headers=headers)
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    return Links(answer.text, (base or cluster.endpoint) + path)


AWKWARD = ["<script>alert(1)</script>", "a&amp;b", 'quote"\'quote', "javascript:alert(1)", "%41", "?x=1#y", "ä/ö ü.tar",
           "-rf", "a+b"]


def test_names_are_text_and_links_lead_to_them(cluster, bucket):
    cluster.fill(bucket, AWKWARD)
    shown = page(cluster, f"/{bucket}/")
    assert "script" not in shown.tags
    texts = {text: href for href, text in shown.links.items()}
    for name in AWKWARD:
        if "/" not in name:
            assert client.request("GET", cluster.endpoint + texts[name]).body == name.encode()
    inside = page(cluster, texts["ä/"])
    assert client.request("GET", cluster.endpoint + {v: k for k, v in inside.links.items()}["ö ü.tar"]).body == "ä/ö ü.tar".encode()


def test_directories_are_pages_of_their_own(cluster, bucket):
    cluster.fill(bucket, ["top", "dir/a", "dir/sub/b", "dir2/c"])
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
    assert missing.status == 404 and "/v1/buckets" in missing.json()["message"]
    assert page(cluster, "/").links[f"/{bucket}/"] == f"{bucket}/"


def test_the_name_of_a_bucket_leads_to_its_page(cluster, bucket):
    for base in (cluster.endpoint, cluster.relay):
        answer = client.request("GET", f"{base}/{bucket}?after=x", follow=False)
        assert answer.status == 302 and answer.headers["Location"] == f"{bucket}/?after=x"
        assert client.request("HEAD", f"{base}/{bucket}", follow=False).status == 302
        head = client.request("HEAD", f"{base}/{bucket}/")
        assert head.status == 200 and head.body == b"" and head.headers["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST", "PATCH"])
def test_writing_to_the_name_of_a_bucket_is_a_conflict(cluster, bucket, method):
    for base in (cluster.endpoint, cluster.relay):
        for path in (f"/{bucket}", f"/{bucket}/"):
            answer = client.request(method, base + path, b"12345")
            assert answer.status == 409 and "is a bucket" in answer.json()["message"], answer
    assert cluster.names(bucket) == []


MANY = 2300  # more than two parts of a page


def test_a_program_gets_all_names_on_one_page(cluster, bucket, tmp_path):
    """More names than are listed at a time, in the bucket and in a directory: for wget -r and for clients of HTTP/1.0."""
    names = [f"many/{i:05}" for i in range(MANY)] + [f"top-{i:04}.tar" for i in range(1010)] + ["a b/ä&<>.txt"]
    put_many(cluster, bucket, names, b"abc")
    for base in (cluster.endpoint, cluster.relay):
        inside = page(cluster, f"/{bucket}/many/", base).links
        assert list(inside.values()) == ["../"] + [f"{i:05}" for i in range(MANY)]
        top = page(cluster, f"/{bucket}/", base)
        assert list(top.links.values()) == ["a b/", "many/"] + [f"top-{i:04}.tar" for i in range(1010)]
        assert not top.fields and all("?" not in href for href in top.written)
    old = subprocess.run(["curl", "-sS", "--http1.0", f"{cluster.endpoint}/{bucket}/many/"], capture_output=True, text=True,
                         check=True)
    assert len(Links(old.stdout, f"{cluster.endpoint}/{bucket}/many/").links) == MANY + 1
    assert len(page(cluster, f"/{bucket}/many/?after=many/01999").links) == MANY - 2000 + 1
    subprocess.run(["wget", "-q", "-r", "-np", "-nH", "-P", tmp_path, f"{cluster.relay}/{bucket}/"], timeout=guarded(120))
    for name in names:
        assert (tmp_path / bucket / name).read_bytes() == b"abc", name


def test_a_browser_turns_pages_by_a_button(cluster, bucket):
    names = [f"shard-{i:04}.tar" for i in range(MANY)]
    put_many(cluster, bucket, names, b"abc")
    seen, after = [], ""
    for count in (1000, 1000, MANY - 2000):
        shown = page(cluster, f"/{bucket}/?after={after}", headers=BROWSER)
        assert len(shown.links) == count and all("?" not in href for href in shown.written)
        seen += shown.links.values()
        after = shown.fields.get("after")
    assert seen == names and after is None


def test_a_page_that_cannot_go_on_is_cut_visibly(make_cluster):
    cluster = make_cluster(targets=1, drives=1, fail_points={"p1": "page.more=error@2"})
    put_many(cluster, "data", [f"shard-{i:04}.tar" for i in range(MANY)], b"abc")
    for version in ("1.1", "1.0"):
        cut = subprocess.run(["curl", "-sS", f"--http{version}", f"{cluster.endpoint}/data/"], capture_output=True, text=True)
        assert cut.returncode in (18, 56), cut.stderr  # closed with data outstanding, or reset
        assert 0 < cut.stdout.count(".tar</a>") <= 2000 and "</html>" not in cut.stdout
        cluster.kill("p1")
        cluster.start("p1", fail_points="page.more=error@2")
    cluster.expect_errors("page.more")


class Prefixed(http.server.BaseHTTPRequestHandler):
    """A reverse proxy that shows a store below /store."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        below = self.path.removeprefix("/store")
        answer = client.request("GET", self.server.behind + below, follow=False) if below != self.path else None
        self.send_response(answer.status if answer else 404)
        for name in ("Content-Type", "Location") if answer else ():
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        body = answer.body if answer else b""
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_links_hold_below_a_path_prefix(cluster, bucket, tmp_path):
    cluster.fill(bucket, ["x", "dir/y", "dir/a:b", "dir/sub/z"])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Prefixed)
    server.behind = cluster.relay
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        base = f"http://127.0.0.1:{server.server_port}/store"
        root = Links(client.request("GET", base + "/").text, base + "/")
        assert root.links[f"/store/{bucket}/"] == f"{bucket}/"
        # From the bucket's name without its slash, which is redirected.
        subprocess.run(["wget", "-q", "-r", "-np", "-nH", "-P", tmp_path, f"{base}/{bucket}/"], timeout=guarded(60))
        assert client.request("GET", f"{base}/{bucket}").status == 200
    finally:
        server.shutdown()
        server.server_close()
    for name in ("x", "dir/y", "dir/a:b", "dir/sub/z"):
        assert (tmp_path / "store" / bucket / name).read_bytes() == name.encode()


def test_wget_follows_redirects_to_targets(cluster, bucket, tmp_path):
    cluster.fill(bucket, ["x", "dir/y"])
    subprocess.run(["wget", "-q", "-r", "-np", "-nH", "-P", tmp_path, f"{cluster.endpoint}/{bucket}/"], timeout=guarded(60))
    assert (tmp_path / bucket / "x").read_bytes() == b"x"
    assert (tmp_path / bucket / "dir" / "y").read_bytes() == b"dir/y"
