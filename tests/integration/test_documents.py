"""Tables in documents are those of the code."""

import re

from harness.cluster import REPOSITORY

SOURCES = ["common/cluster/node_routes.cc", "common/cluster/node_actions.cc", "proxy/routes.cc", "target/routes.cc",
           "target/mountpaths.cc", "target/upstream/requests.cc", "target/upstream/eviction_job.cc"]
WORDS = {"kAll": "GET HEAD PUT POST DELETE PATCH"}


def routes(source):
    """(methods, pattern) of each row of a route table."""
    text = (REPOSITORY / source).read_text()
    rows = re.findall(r'\{(kAll|"[A-Z ]+"),\s*"(/[^"]*)"', text)
    found = [(WORDS.get(methods, methods.strip('"')), pattern) for methods, pattern in rows]
    return found + [("GET HEAD", pattern) for pattern in re.findall(r'route\(context, "(/[^"]*)"', text)]


def test_every_route_is_documented_and_no_other():
    written = [(methods, pattern) for methods, pattern in
               re.findall(r"^\| ([A-Z ]+) \| `(/[^`]*)` \|", (REPOSITORY / "docs" / "api.md").read_text(), re.MULTILINE)]
    in_code = [row for source in SOURCES for row in routes(source)]
    assert len(in_code) > 30
    assert sorted(written) == sorted(in_code)
